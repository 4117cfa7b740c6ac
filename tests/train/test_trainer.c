/* test_trainer.c - runs on several ranks: routed buffers that are too small, a rank that is slow,
 * data that one rank cannot read, loads of experts. What a person sees of training is in
 * tests/cli/test_train.sh. */
#include "ir/testing.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "predict/routing.h"
#include "config/models/models.h"
#include "train/ranks_testing.h"
#include "train/loop/trainer.h"

#define SMALL                                                                                      \
    "model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=4 optimizer.lr=3e-3 "    \
    "train.train_iters=4 "
#define EP2 "cluster.n_gpus=2 cluster.gpus_per_node=2 model.expert_model_parallel_size=2 "
#define DP2 "cluster.n_gpus=2 cluster.gpus_per_node=2 "

enum { SAID_MAX = 1 << 16 };

typedef struct training {
    const char *words;
    int slow_rank; /* has plain kernels only; -1: none */
    double compare;
    const char *save_routing;
    train_summary sum[2]; /* by rank */
    status s[2];
    error err[2];
    char said[SAID_MAX]; /* on the standard error */
} training;

static void train(comm *c, void *with)
{
    training *t = with;
    int64_t rank = comm_rank(c);
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    recipe *r = ARENA_NEW(a, recipe);
    error *err = &t->err[rank];
    train_options o = {.plain = rank == t->slow_rank,
                       .threads = 1,
                       .compare = t->compare,
                       .save_routing = t->save_routing};
    recipe_init(r, a, "tiny");
    recipe_set(r, K_MODEL, value_of_text("tiny"), "test");
    status st = recipe_override(r, "cluster.gpu=cpu", "test", err);
    for (const char *w = t->words; *w && !st; w += strcspn(w, " "), w += strspn(w, " "))
        st = recipe_override(r, arena_copy(a, w, strcspn(w, " ")), "test", err);
    if (!st) st = model_fill(r, err);
    if (!st) st = setup_init(s, r, a, err);
    if (!st) st = comm_groups(c, s, err);
    if (!st) st = trainer_run(s, c, &o, &t->sum[rank], a, err);
    t->s[rank] = st;
    arena_destroy(a);
}

/* What ranks print goes to a file, and comes back in `said`. */
static void run_quietly(training *t)
{
    error err = {{0}};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    int out = dup(STDOUT_FILENO), other = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    status s = ranks_run(2, train, t, &err);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(other, STDERR_FILENO);
    close(out);
    close(other);
    rewind(file);
    t->said[fread(t->said, 1, SAID_MAX - 1, file)] = 0;
    fclose(file);
    if (s) fail_msg("%s", err.text);
}

static training *trained(const char *words)
{
    training *t = calloc(1, sizeof *t);
    *t = (training){.words = words, .slow_rank = -1};
    run_quietly(t);
    return t;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6 * fabs(b);
}

static void small_routed_buffers_grow(void **state)
{
    (void)state;
    training *ample = trained(SMALL EP2 "moefold.moe_buffer_factor=8.0");
    training *tight = trained(SMALL EP2 "moefold.moe_buffer_factor=1.0");
    for (int r = 0; r < 2; r++)
        if (ample->s[r] || tight->s[r]) fail_msg("%s %s", ample->err[r].text, tight->err[r].text);
    assert_null(strstr(ample->said, "routed buffer"));
    assert_non_null(strstr(tight->said, "rows do not fit into a routed buffer of"));
    assert_non_null(strstr(tight->said, "the step runs again"));
    for (int r = 0; r < 2; r++) {
        assert_true(near(tight->sum[r].first_loss, ample->sum[0].first_loss));
        assert_true(near(tight->sum[r].last_loss, ample->sum[0].last_loss));
        assert_int_equal(tight->sum[r].iterations, 4);
        assert_int_equal(tight->sum[r].skipped, 0);
    }
    free(ample);
    free(tight);
}

static void small_routed_buffers_stop_where_asked(void **state)
{
    (void)state;
    training *t = trained(SMALL EP2 "moefold.moe_buffer_factor=1.0 moefold.on_overflow=stop");
    for (int r = 0; r < 2; r++) {
        assert_int_equal(t->s[r], ERR_MACHINE);
        assert_string_equal(t->err[r].text, t->err[0].text);
    }
    assert_non_null(strstr(t->err[0].text, "step 1: rank "));
    assert_non_null(strstr(t->err[0].text, ", layer "));
    assert_non_null(strstr(t->err[0].text, "repair: moefold.moe_buffer_factor="));
    free(t);
}

static void a_slow_rank_is_named(void **state)
{
    (void)state;
    training *t = calloc(1, sizeof *t);
    *t = (training){.words = SMALL DP2 "model.seq_length=256 train.train_iters=6",
                    .slow_rank = 1,
                    .compare = 1e-3};
    run_quietly(t);
    if (t->s[0]) fail_msg("%s", t->err[0].text);
    if (!strstr(t->said, "rank 1 of 2 is slow: ")) fail_msg("said: %s", t->said);
    free(t);
}

/* The first rank that meets a token that is none ends the run on both, with its message. */
static void one_ranks_bad_data_end_the_run_on_all(void **state)
{
    (void)state;
    training *t =
        trained(SMALL DP2 "dataset.data_path=[tests/data/megatron-data/a-i32] dataset.split='1' "
                          "model.vocab_size=900");
    for (int r = 0; r < 2; r++) {
        assert_int_equal(t->s[r], ERR_INPUT);
        assert_string_equal(t->err[r].text, t->err[0].text);
    }
    assert_non_null(strstr(t->err[1].text, "rank "));
    assert_non_null(strstr(t->err[1].text, "outside the vocabulary of 900"));
    free(t);
}

/* The routing that a layout records, read back. */
static routing recorded(const char *layout_words, const char *path, arena *a)
{
    training *t = calloc(1, sizeof *t);
    error err = {{0}};
    routing r;
    char *words =
        arena_text(a,
                   SMALL "model.moe_router_enable_expert_bias=true model.moe_router_score_function="
                         "sigmoid model.moe_router_load_balancing_type=none %s",
                   layout_words);
    *t = (training){.words = words, .slow_rank = -1, .save_routing = path};
    run_quietly(t);
    if (t->s[0]) fail_msg("%s: %s", layout_words, t->err[0].text);
    if (routing_read(&r, path, a, &err)) fail_msg("%s: %s", layout_words, err.text);
    unlink(path);
    free(t);
    return r;
}

/* The last bits of sums differ by layout, and by the processor's kernels: some tokens choose
 * otherwise, three of a mean of 256 on one kind. A count that is missing or twice there is far
 * beyond. */
enum { CHOOSE_OTHERWISE = 8 };
static void same_loads(const routing *r, const routing *first, const char *layout_words)
{
    for (int64_t l = 0; l < r->n; l++) {
        double all = 0;
        for (int64_t e = 0; e < r->experts; e++) {
            double load = r->layers[l].loads[e], wanted = first->layers[l].loads[e];
            all += load;
            if (fabs(load - wanted) > CHOOSE_OTHERWISE)
                fail_msg("%s: layer %d, expert %d: %g instead of %g", layout_words, (int)l, (int)e,
                         load, wanted);
        }
        assert_true(all == (double)(r->tokens * r->topk));
    }
}

/* Whoever holds a layer or a token, the file says the same; buffers that grow count nothing twice,
 * and the update of biases, which adds up counts in place, does not either. */
static void recorded_routing_is_that_of_any_layout(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        DP2,
        EP2,
        EP2 "moefold.moe_buffer_factor=1.0",
        DP2 "model.tensor_model_parallel_size=2",
        DP2 "model.pipeline_model_parallel_size=2",
        DP2 "model.context_parallel_size=2",
        DP2 "train.micro_batch_size=2",
        DP2 "validation.eval_interval=1 validation.eval_iters=1",
    };
    enum { N = sizeof layouts / sizeof layouts[0] };
    arena *a = arena_create();
    routing first = {0};
    char *path = arena_text(a, "/tmp/moefold-loads-%ld.json", (long)getpid());
    for (int i = 0; i < N; i++) {
        routing r = recorded(layouts[i], path, a);
        assert_true(r.n == 4 && r.experts == 8 && r.steps == 4 && r.tokens == 4 * 4 * 64);
        if (!i) first = r;
        same_loads(&r, &first, layouts[i]);
    }
    arena_destroy(a);
}

static void recorded_routing_needs_a_place(void **state)
{
    (void)state;
    training *t = calloc(1, sizeof *t);
    *t = (training){.words = SMALL DP2, .slow_rank = -1, .save_routing = "/nowhere/loads.json"};
    run_quietly(t);
    assert_int_equal(t->s[0], ERR_MACHINE);
    assert_int_equal(t->s[1], ERR_MACHINE);
    assert_non_null(strstr(t->err[0].text, "--save-routing /nowhere/loads.json"));
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_routed_buffers_grow),
        cmocka_unit_test(small_routed_buffers_stop_where_asked),
        cmocka_unit_test(a_slow_rank_is_named),
        cmocka_unit_test(one_ranks_bad_data_end_the_run_on_all),
        cmocka_unit_test(recorded_routing_is_that_of_any_layout),
        cmocka_unit_test(recorded_routing_needs_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
