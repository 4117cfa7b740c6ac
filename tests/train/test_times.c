/* test_times.c - stamps of a step: what ran when, and where its seconds went. */
#include "../ir/testing.h"

#include <stdlib.h>

#include "base/clock.h"
#include "train/executor/arrays.h"
#include "train/data/batch.h"
#include "train/executor/executor_times.h"
#include "train/executor/init_weights.h"
#include "train/executor/step.h"

typedef struct rig {
    arena *a;
    setup *s;
    program p;
    executor *e;
    optimizer o;
} rig;

static const char words[] =
    "model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=3 "
    "model.recompute_granularity=selective model.recompute_modules=[core_attn,layernorm]";

static void rig_open(rig *g, const char *name)
{
    error err = {{0}};
    array_loan w;
    g->a = arena_create();
    g->s = ARENA_NEW(g->a, setup);
    program_of(&g->p, g->s, g->a, family_cases[0], words);
    if (executor_open(&g->e, &g->p, NULL, (executor_options){.device = name}, &err))
        fail_msg("%s", err.text);
    assert_int_equal(array_borrow(&w, g->e, &g->p, ARRAY_WEIGHTS, &err), OK);
    init_weights(g->s, &g->p.at, &g->p.weights, 7, w.values);
    array_return(&w, ARRAY_ROUNDED);
    batch_tables(g->e, &g->p);
    optimizer_init(&g->o, &g->p, DECAY_MEGATRON, g->a);
    step_table(g->e, &g->p, &g->o);
}

static void rig_close(rig *g)
{
    executor_close(g->e);
    arena_destroy(g->a);
}

static double rig_step(rig *g)
{
    int64_t T = g->p.T;
    double given[GIVEN_COUNT];
    int32_t *tokens = calloc((size_t)T, sizeof *tokens);
    float *mask = calloc((size_t)T, sizeof *mask);
    for (int64_t t = 0; t < T; t++) {
        tokens[t] = (int32_t)((t * 31) % g->s->m.vocab);
        mask[t] = 1;
    }
    batch b = {tokens, tokens, mask};
    for (int64_t m = 0; m < g->p.micros; m++) batch_load(g->e, &g->p, m, &b, 0);
    optimizer_give(&g->o, (step_rates){1e-3, 1e-3, 0.1, 1}, given);
    step_run_begin(g->e);
    step_give(g->e, given);
    step_run_end(g->e, &g->p, STEP_UPDATES);
    double loss = step_report_of(g->e, &g->p).sums[SUM_LOSS];
    free(tokens);
    free(mask);
    return loss;
}

static const char *const devices[] = {"cpu", "deferred:1", "deferred:2"};
enum { N_DEVICES = 3 };

static int64_t ops_of(const program *p, int part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->items[part].n; i++)
        n += p->items[part].list[i].seg->n_ops[p->items[part].list[i].phase];
    return n;
}

/* Every operation that was put, once, in the order of its stream, inside of the step. Where
 * calls of compute are done when they return, one reading of the clock ends an operation and starts
 * the next. */
static void check_trace(const rig *g, const op_times *times, int64_t n, double seconds)
{
    double last[STREAM_COUNT] = {0};
    bool shares = !executor_runs_ahead(g->e), computed = false;
    int64_t behind = 0;
    int64_t all = 0, k = 0;
    for (int part = 0; part < PART_COUNT; part++)
        if (part != PART_GATHER || !g->p.gathers_late) all += ops_of(&g->p, part);
    assert_int_equal(n, all);
    for (; k < n; k++) {
        const op_times *t = &times[k];
        const item *it = &g->p.items[t->part].list[t->item];
        const op *o = &it->seg->ops[it->phase][t->op];
        assert_true(t->op < it->seg->n_ops[it->phase]);
        assert_true(t->start >= last[o->stream] && t->end >= t->start && t->end <= seconds);
        bool computes = o->stream == STREAM_COMPUTE;
        if (shares && computed && computes) assert_true(t->start == last[STREAM_COMPUTE]);
        computed = computes;
        behind += computes && t->start == last[STREAM_COMPUTE];
        last[o->stream] = t->end;
    }
    /* A host that runs ahead puts the next one before the stamp behind this one has passed. */
    assert_true(behind > n / 2);
}

static void a_trace_has_every_operation_of_its_step(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        rig g;
        int64_t n;
        error err = {{0}};
        rig_open(&g, devices[i]);
        double first = rig_step(&g); /* not traced */
        assert_null(executor_trace_end(g.e, &n));
        for (int step = 0; step < 2; step++) {
            double before = clock_seconds();
            assert_int_equal(executor_trace_begin(g.e, &err), OK);
            double began = executor_trace_origin(g.e), loss = rig_step(&g);
            const op_times *times = executor_trace_end(g.e, &n);
            double after = clock_seconds();
            assert_true(began >= before && began <= after);
            assert_true(loss < first); /* stamps are in nobody's way */
            check_trace(&g, times, n, after - began);
        }
        rig_step(&g);
        assert_null(executor_trace_end(g.e, &n));
        assert_int_equal(n, 0);
        rig_close(&g);
    }
}

/* The kinds of a step sum up to no more than the step, and to a good part of it on a CPU, at least
 * where no other program had the core just then; a trace beside them takes nothing from them. */
static void times_by_kind_are_the_step(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_DEVICES; i++) {
        rig g;
        hardware hw;
        cost_model cost;
        timing t = {.steps = 0};
        int64_t n;
        error err = {{0}};
        rig_open(&g, devices[i / 2]);
        if (hardware_read(&hw, "cpu", g.a, &err)) fail_msg("%s", err.text);
        cost_init(&cost, &hw, g.s, NULL);
        assert_int_equal(executor_time(g.e, &t, &cost, &err), OK);
        double most = 0;
        for (int step = 0; step < 3; step++) {
            timing before = t;
            double start = clock_seconds(), sum = 0;
            executor_time_begin(g.e);
            if (i % 2) assert_int_equal(executor_trace_begin(g.e, &err), OK);
            rig_step(&g);
            double whole = clock_seconds() - start;
            executor_time_end(g.e);
            if (i % 2) executor_trace_end(g.e, &n);
            for (int k = 0; k < COST_KINDS; k++) {
                assert_true(t.seconds[k] >= before.seconds[k]);
                sum += t.seconds[k] - before.seconds[k];
            }
            assert_true(t.seconds[COST_GEMM] > 0 && t.seconds[COST_ATTENTION] > 0);
            if (sum > whole) fail_msg("%s: %g of %g s", devices[i / 2], sum, whole);
            if (sum / whole > most) most = sum / whole;
        }
        if (i / 2 == 0 && most < 0.2) fail_msg("%s: %g of a step", devices[i / 2], most);
        rig_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_has_every_operation_of_its_step),
        cmocka_unit_test(times_by_kind_are_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
