/* test_first.c - what holds for the first row of any plan: of 300 random jobs where TEST_ALL is
 * set, else of a tenth of them, of which a third is planned with more headroom, too. */
#include "searching.h"

#include <stdlib.h>
#include <string.h>

#include "ir/segment.h"
#include "plan/search_ties.h"

static uint64_t state_of_random = 20261119;

/* A job, and its plans with more and more headroom; n_best 0: nothing was found, or looked for. */
enum { HEADROOMS = 3, JOBS = 300 };
static const double headrooms[HEADROOMS] = {0.05, 0.08, 0.12};

typedef struct plan {
    found best[BEST_MAX];
    int n_best;
} plan;

typedef struct first_job {
    const char *text;
    plan r[HEADROOMS];
} first_job;

static const char *const machines[][2] = {{"h100", "H100"},  {"h200", "H200"}, {"a100", "A100"},
                                          {"b200", "B200"},  {"b300", "B300"}, {"gb200", "GB200"},
                                          {"gb300", "GB300"}};
static const char *const models[] = {
    "deepseek-v3",   "kimi-k2",      "moonlight-16b", "qwen3-30b-a3b",    "qwen3-235b-a22b",
    "gpt-oss-20b",   "gpt-oss-120b", "mixtral-8x7b",  "mixtral-8x22b",    "qwen3-next-80b-a3b",
    "deepseek-v2",   "glm-4.5",      "glm-4.5-air",   "deepseek-v2-lite", "qwen2-57b-a14b",
    "llama-3.1-70b", "minimax-m2",   "qwen3-32b"};

static arena *kept;
static first_job *jobs;
static int n_jobs;

static void run_job(first_job *j, int n, arena *a)
{
    static const int gpus[] = {16, 32, 64, 128, 256}, lengths[] = {4, 8, 16, 32, 64, 128},
                     each[] = {1, 2, 4};
    const char *const *machine = DRAW(machines), *name = DRAW(models);
    int count = DRAW(gpus), length = DRAW(lengths), batch = count * DRAW(each);
    const char *words[] = {arena_text(a, "cluster.gpu=%s", machine[1]),
                           arena_text(a, "cluster.n_gpus=%d", count),
                           arena_text(a, "model.seq_length=%d", 1024 * length),
                           arena_text(a, "train.global_batch_size=%d", batch),
                           searching_draw(&state_of_random, 3) ? NULL
                                                               : "mixed_precision=bf16_mixed",
                           NULL};
    j->text = arena_text(a, "%s on %d %s, %dK, batch %d%s", name, count, machine[1], length, batch,
                         words[4] ? ", BF16" : "");
    j->text = arena_copy(kept, j->text, strlen(j->text));
    const recipe *given = searching_recipe(name, words, a);
    for (int i = 0; i < n; i++) {
        error err;
        hardware *hw = ARENA_NEW(a, hardware);
        search_result *r = ARENA_NEW(a, search_result);
        searching_machine(hw, machine[0], a);
        hardware_leave(hw, headrooms[i]);
        search_options o = {.hw = hw, .published = true, .judged = true};
        if (search_run(r, given, &o, a, &err)) continue;
        j->r[i].n_best = r->n_best;
        memcpy(j->r[i].best, r->best, sizeof r->best);
    }
}

static int run_jobs(void **state)
{
    (void)state;
    kept = arena_create();
    bool all = getenv("TEST_ALL");
    n_jobs = all ? JOBS : JOBS / 10;
    jobs = ARENA_ARRAY(kept, first_job, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        arena *a = arena_create();
        run_job(&jobs[i], all ? HEADROOMS : i % 3 ? 1 : 2, a);
        arena_destroy(a);
    }
    return 0;
}

static int leave_jobs(void **state)
{
    (void)state;
    arena_destroy(kept);
    return 0;
}

static double first_s(const plan *r)
{
    return r->best[0].exact.step_s;
}

/* Calls `see` with every plan that found something; there are enough of them. */
static void each_plan(void (*see)(const first_job *j, const plan *r))
{
    int n = 0;
    for (int i = 0; i < n_jobs; i++)
        for (int k = 0; k < HEADROOMS; k++)
            if (jobs[i].r[k].n_best) {
                see(&jobs[i], &jobs[i].r[k]);
                n++;
            }
    assert_true(n > n_jobs / 2);
}

static void see_slower(const first_job *j, const plan *r)
{
    for (int i = 1; i < r->n_best; i++) {
        double other = r->best[i].exact.step_s;
        if (other >= first_s(r)) continue;
        if (!ties_equal(first_s(r), other) || !r->best[0].before)
            fail_msg("%s: the first takes %.4f s, row %d %.4f (%s)", j->text, first_s(r), i + 1,
                     other, r->best[0].before ? r->best[0].before : "no reason");
    }
}

static void the_first_is_not_slower_without_a_reason(void **state)
{
    (void)state;
    each_plan(see_slower);
}

static void see_full(const first_job *j, const plan *r)
{
    for (int i = 1; i < r->n_best && r->best[0].c.drop == DROP_FULL; i++)
        if (r->best[i].c.drop != DROP_FULL && r->best[i].exact.step_s < first_s(r))
            fail_msg("%s: the first recomputes everything, and row %d is faster", j->text, i + 1);
}

static void full_recompute_is_first_only_where_nothing_else_is_faster(void **state)
{
    (void)state;
    each_plan(see_full);
}

/* Sums of cards and whole programs differ by so much. */
static const double SLACK = 0.001;

static void more_headroom_never_makes_the_first_faster(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < n_jobs; i++)
        for (int k = 1; k < HEADROOMS; k++) {
            const plan *less = &jobs[i].r[k - 1], *more = &jobs[i].r[k];
            if (!less->n_best || !more->n_best) continue;
            n++;
            if (first_s(more) < first_s(less) * (1 - SLACK))
                fail_msg("%s: %.4f s with a headroom of %g, %.4f with %g", jobs[i].text,
                         first_s(less), headrooms[k - 1], first_s(more), headrooms[k]);
        }
    assert_true(n > n_jobs / 6);
}

/* A step grows with the load of the fullest rank, and memory with it. */
static void see_routings(const first_job *j, const plan *r)
{
    for (int i = 0; i < r->n_best; i++) {
        const found *f = &r->best[i];
        const routed_price *even = &f->routed[ROUTED_EVEN], *uneven = &f->routed[ROUTED_UNEVEN];
        if (!(f->exact.skew > 1)) continue;
        bool steps =
            even->step_s <= f->exact.step_s * 1.01 && uneven->step_s >= f->exact.step_s * 0.99;
        bool bytes =
            even->peak_bytes <= f->exact.peak_bytes && uneven->peak_bytes >= f->exact.peak_bytes;
        if (!steps || !bytes)
            fail_msg("%s: row %d takes %.4f, %.4f and %.4f s, %lld, %lld and %lld bytes", j->text,
                     i + 1, even->step_s, f->exact.step_s, uneven->step_s,
                     (long long)even->peak_bytes, (long long)f->exact.peak_bytes,
                     (long long)uneven->peak_bytes);
    }
}

static void rows_are_priced_for_other_routings(void **state)
{
    (void)state;
    each_plan(see_routings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_not_slower_without_a_reason),
        cmocka_unit_test(full_recompute_is_first_only_where_nothing_else_is_faster),
        cmocka_unit_test(more_headroom_never_makes_the_first_faster),
        cmocka_unit_test(rows_are_priced_for_other_routings),
    };
    return cmocka_run_group_tests(tests, run_jobs, leave_jobs);
}
