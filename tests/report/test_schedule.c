/* The picture of a schedule is the price's own play, and the memory in it is the plan's. */
#include "ir/testing.h"

#include <math.h>

#include "report/ladder.h"
#include "report/schedule.h"

typedef struct simulated_case {
    arena *a;
    setup s;
    hardware hw;
    report_schedule x;
} simulated_case;

static void open_case(simulated_case *c, const char *model_name, const char *words)
{
    error err = {{0}};
    c->a = arena_create();
    setup_of_words(&c->s, c->a, model_name, words);
    if (hardware_read(&c->hw, recipe_word(&c->s.r, K_GPU), c->a, &err)) fail_msg("%s", err.text);
    report_simulation(&c->x, &(price_job){&c->s, &c->hw, NULL}, c->a);
}

static const char *const cases[][2] = {
    {"tiny", "cluster.gpu=cpu"},
    {"tiny", "cluster.gpu=cpu cluster.n_gpus=4 pp=4 gbs=8"},
    {"tiny", "cluster.gpu=cpu cluster.n_gpus=4 pp=2 vpp=2 gbs=16 mbs=1"},
    {"qwen3-30b-a3b", "cluster.gpu=H100 cluster.n_gpus=16 pp=4 vpp=2 ep=4 gbs=64 "
                      "comm_overlap.overlap_moe_expert_parallel_comm=true"},
    {"deepseek-v3", "cluster.gpu=H100 cluster.n_gpus=256 tp=4 pp=8 ep=32 etp=1 gbs=512"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int64_t micros_of(const simulated_case *c)
{
    return c->x.step.programs[0]->micros;
}

/* Every microbatch goes forward and backward through every chunk, once, in time, without overlap;
 * a pair counts for both. */
static void every_microbatch_is_there_once(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        simulated_case c;
        open_case(&c, cases[i][0], cases[i][1]);
        int64_t want = micros_of(&c) * c.s.pipe.vpp;
        for (int64_t k = 0; k < c.x.n_stages; k++) {
            const report_stage *s = &c.x.stages[k];
            int64_t n[2] = {0};
            double end = 0;
            for (int64_t u = 0; u < s->n; u++) {
                const report_unit *x = &s->units[u];
                assert_true(x->start >= end - 1e-12 && x->end > x->start);
                end = x->end;
                n[0] += x->kind != UNIT_BACKWARD;
                n[1] += x->kind != UNIT_FORWARD;
            }
            assert_true(end <= c.x.step.step_s);
            if (n[0] != want || n[1] != want)
                fail_msg("%s %s: stage %lld: %lld forward, %lld backward, not %lld", cases[i][0],
                         cases[i][1], (long long)k, (long long)n[0], (long long)n[1],
                         (long long)want);
        }
        arena_destroy(c.a);
    }
}

/* What is alive never passes what is planned, and comes near it. */
static void memory_stays_below_the_plan(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        simulated_case c;
        open_case(&c, cases[i][0], cases[i][1]);
        const price *p = &c.x.p;
        assert_int_equal(c.x.n_memory, MEMORY_POINTS);
        int64_t most = 0;
        for (int64_t k = 0; k < c.x.n_memory; k++) {
            const memory_point *m = &c.x.memory[k];
            assert_true(m->saved >= 0 && m->saved <= p->bytes[REGION_SAVED]);
            assert_true(m->temp >= 0 && m->temp <= p->bytes[REGION_TEMP]);
            if (m->saved > most) most = m->saved;
        }
        if ((double)most < 0.8 * (double)p->bytes[REGION_SAVED])
            fail_msg("%s %s: %lld of %lld bytes of activations are ever alive", cases[i][0],
                     cases[i][1], (long long)most, (long long)p->bytes[REGION_SAVED]);
        arena_destroy(c.a);
    }
}

/* Too many units: the first and the last stay, in order, and the rest is counted. */
static void long_schedules_are_shortened_in_the_middle(void **state)
{
    (void)state;
    simulated_case c;
    open_case(&c, "tiny", "cluster.gpu=cpu cluster.n_gpus=4 pp=4 gbs=12000 mbs=1");
    int64_t all = 0;
    for (int64_t k = 0; k < 4; k++) {
        const report_stage *s = &c.x.stages[k];
        assert_true(s->left_out > 0 && s->n + s->left_out == 2 * 12000);
        assert_int_equal(s->left_at, s->n / 2);
        for (int64_t u = 1; u < s->n; u++) assert_true(s->units[u].start >= s->units[u - 1].end);
        assert_int_equal(s->units[s->n - 1].micro, 11999);
        all += s->n;
    }
    assert_true(all <= UNITS_MAX);
    arena_destroy(c.a);
}

/* More recompute never needs more memory; the recipe's own rung is there, with its price. */
static void ladder_goes_down(void **state)
{
    (void)state;
    static const char *const own[] = {
        "",
        ("model.recompute_granularity=full model.recompute_method=uniform "
         "model.recompute_num_layers=1"),
        ("model.recompute_granularity=selective model.recompute_modules=[moe_act]")};
    for (int i = 0; i < 3; i++) {
        simulated_case c;
        const char *base = "cluster.gpu=H100 cluster.n_gpus=256 tp=4 pp=8 ep=32 etp=1 gbs=256";
        arena *a = arena_create();
        const char *words = arena_text(a, "%s %s", base, own[i]);
        open_case(&c, "deepseek-v3", words);
        recipe *given = ARENA_NEW(a, recipe);
        *given = c.s.r;
        for (knob_id k = 0; k < K_COUNT; k++)
            if (given->knob[k].from == FROM_DERIVED || given->knob[k].from == FROM_DEFAULT)
                given->knob[k] = (setting){.from = FROM_NOTHING};
        rung rungs[RUNGS_MAX];
        ladder_job j = {given, &c.s.j, &c.x.p, &c.hw, NULL, NULL};
        int n = report_ladder(rungs, &j, a), owns = 0;
        assert_true(n >= 5);
        for (int k = 0; k < n; k++) {
            if (k) assert_true(rungs[k].peak_bytes <= rungs[k - 1].peak_bytes);
            owns += rungs[k].own;
            if (rungs[k].own) assert_true(rungs[k].step_s == c.x.p.step_s);
        }
        assert_int_equal(owns, 1);
        assert_string_equal(rungs[0].name, "none");
        arena_destroy(a);
        arena_destroy(c.a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_microbatch_is_there_once),
        cmocka_unit_test(memory_stays_below_the_plan),
        cmocka_unit_test(long_schedules_are_shortened_in_the_middle),
        cmocka_unit_test(ladder_goes_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
