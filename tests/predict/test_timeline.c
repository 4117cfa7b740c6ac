/* A timeline is the price, operation by operation: its sums are the price's own. */
#include "ir/testing.h"

#include <math.h>

#include "predict/timeline.h"

typedef struct case_ {
    const char *model, *words;
} case_;

static const case_ cases[] = {
    {"tiny", "cluster.gpu=cpu"},
    {"tiny", "cluster.gpu=cpu cluster.n_gpus=4 pp=4 gbs=8"},
    {"tiny", "cluster.gpu=cpu cluster.n_gpus=8 tp=2 pp=2 vpp=2 ep=4 etp=1 mbs=1 gbs=16 seq=256"},
    {"qwen3-30b-a3b", "cluster.gpu=H100 cluster.n_gpus=16 tp=2 ep=8 gbs=64"},
    {"qwen3-30b-a3b", "cluster.gpu=H100 cluster.n_gpus=16 pp=4 vpp=2 ep=4 gbs=64 "
                      "comm_overlap.overlap_moe_expert_parallel_comm=true"},
    {"deepseek-v3", "cluster.gpu=H100 cluster.n_gpus=256 tp=4 pp=8 ep=32 etp=1 gbs=512 "
                    "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct timed {
    arena *a;
    setup s;
    hardware hw;
    price p, plain;
    trace t;
} timed;

static void open_case(timed *x, const case_ *c, const timeline_options *o)
{
    error err = {{0}};
    x->a = arena_create();
    setup_of_words(&x->s, x->a, c->model, c->words);
    if (hardware_read(&x->hw, recipe_word(&x->s.r, K_GPU), x->a, &err)) fail_msg("%s", err.text);
    price_setup(&x->plain, &x->s, &x->hw, NULL, x->a);
    price_timeline(&x->t, &x->p, &(price_job){&x->s, &x->hw, NULL}, o, x->a);
}

/* Seconds of a rank's compute stream or of all its streams, by kind. */
static double seconds_of(const trace *t, int64_t rank, int stream, const char *kind)
{
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const trace_op *o = &t->ops[i];
        if (o->rank != rank || (stream >= 0 && o->stream != stream)) continue;
        if (text_equal(o->kind, kind) && o->message != TRACE_RECEIVES) sum += o->end - o->start;
    }
    return sum;
}

static void near_(double is, double should, double step, const char *what, const case_ *c)
{
    if (fabs(is - should) > 1e-9 * step)
        fail_msg("%s %s: %s: %.9g s in the trace, %.9g s in the price", c->model, c->words, what,
                 is, should);
}

/* Numbers that FP8 casts cost are a part of the GEMMs' operations there. */
static void sums_of_kinds_are_the_price(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        timed x;
        open_case(&x, &cases[i], &(timeline_options){.whole = true});
        const price *p = &x.plain;
        int64_t rank = layout_stage_rank(&x.s.lay, p->slowest);
        double casts = p->time[COST_QUANTISE];
        near_(x.p.step_s, p->step_s, p->step_s, "step", &cases[i]);
        for (int k = 0; k < COST_KINDS && casts == 0; k++) {
            const char *title = cost_kind_title((cost_kind)k);
            near_(seconds_of(&x.t, rank, -1, title), p->time[k], p->step_s, title, &cases[i]);
            const char *wait = arena_text(x.a, "%s, exposed", title);
            double here = k == COST_COPY && recipe_on_cpu(&x.s.r) ? p->exposed[k] : 0;
            near_(seconds_of(&x.t, rank, STREAM_COMPUTE, wait) + here, p->exposed[k], p->step_s,
                  wait, &cases[i]);
        }
        near_(seconds_of(&x.t, rank, STREAM_COMPUTE, "pipeline bubble"), p->bubble, p->step_s,
              "bubble", &cases[i]);
        near_(seconds_of(&x.t, rank, STREAM_COMPUTE, "waiting for kernel launches"), p->host,
              p->step_s, "host", &cases[i]);
        near_(seconds_of(&x.t, rank, STREAM_COMPUTE, "optimizer"), p->optimizer, p->step_s,
              "optimizer", &cases[i]);
        arena_destroy(x.a);
    }
}

static void check_streams(const timed *x, const case_ *c, bool whole)
{
    trace_sum *sums;
    int64_t n = trace_sums(&x->t, &sums, x->a);
    assert_true(n >= x->t.n_ranks);
    for (int64_t i = 0; i < n; i++) {
        const trace_sum *s = &sums[i];
        if (s->overlap > 1e-9 * x->t.step)
            fail_msg("%s %s: rank %lld, stream %s: %.3g s overlap", c->model, c->words,
                     (long long)s->rank, x->t.streams[s->stream], s->overlap);
        assert_true(s->first >= 0 && s->last <= x->t.span * (1 + 1e-12));
        near_(s->operations + s->waits + s->idle, x->t.span, x->t.step, "sums", c);
        if (whole && s->stream == STREAM_COMPUTE && s->idle > 0.01 * x->t.span)
            fail_msg("%s %s: compute of rank %lld is idle for %.3g s", c->model, c->words,
                     (long long)s->rank, s->idle);
    }
    trace_matches m = trace_match(&x->t, x->a);
    assert_int_equal(m.lost, 0);
    assert_true(x->s.pipe.pp == 1 || m.matched > 0);
}

static void streams_add_up_and_sends_are_received(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        for (int whole = 0; whole < 2; whole++) {
            timed x;
            open_case(&x, &cases[i], &(timeline_options){.whole = whole});
            assert_int_equal(x.t.n_ranks, x.s.pipe.pp);
            check_streams(&x, &cases[i], whole);
            assert_true(x.t.span <= x.t.step * (1 + 1e-12));
            arena_destroy(x.a);
        }
}

/* A window is part of the step: what it shows lies in it and is at most as long. */
static void window_is_a_part_of_the_step(void **state)
{
    (void)state;
    timed x, y;
    const case_ *c = &cases[5];
    open_case(&x, c, &(timeline_options){.whole = false});
    open_case(&y, c, &(timeline_options){.whole = true});
    assert_true(x.t.from > 0 && x.t.span < 0.2 * x.t.step && x.t.n < y.t.n / 4);
    int64_t found = 0;
    for (int64_t i = 0, k = 0; i < x.t.n; i++) {
        const trace_op *o = &x.t.ops[i];
        double middle = (o->start + o->end) / 2 + x.t.from;
        while (k < y.t.n && (y.t.ops[k].rank != o->rank || y.t.ops[k].stream != o->stream ||
                             y.t.ops[k].end < middle))
            k++;
        assert_true(k < y.t.n);
        found += text_equal(y.t.ops[k].kind, o->kind) && text_equal(y.t.ops[k].name, o->name);
    }
    assert_int_equal(found, x.t.n);
    arena_destroy(x.a);
    arena_destroy(y.a);
}

/* Ranks that are named are there, with their stage's times; a message goes to the neighbour in
 * their own pipeline. */
static void named_ranks_have_their_stages_times(void **state)
{
    (void)state;
    timed x;
    const int64_t ranks[] = {5, 1, 2};
    open_case(&x, &cases[2], &(timeline_options){.ranks = ranks, .n_ranks = 3, .whole = true});
    assert_int_equal(x.t.n_ranks, 3);
    assert_int_equal(x.t.ranks[0].rank, 1);
    assert_int_equal(x.t.ranks[2].rank, 5);
    int64_t n[8] = {0};
    for (int64_t i = 0; i < x.t.n; i++) {
        const trace_op *o = &x.t.ops[i];
        n[o->rank]++;
        if (o->message == TRACE_SENDS) assert_int_equal(o->peer, (o->rank + 4) % 8);
    }
    assert_true(n[1] > 0 && n[1] == n[2] && n[5] > 0 && !n[0] && !n[4]);
    assert_true(trace_match(&x.t, x.a).matched > 0); /* between 1 and 5 */
    arena_destroy(x.a);
}

/* Layers, microbatches and bytes are those of the program. */
static void operations_say_where_they_belong(void **state)
{
    (void)state;
    timed x;
    open_case(&x, &cases[1], &(timeline_options){.whole = true});
    bool layer[64] = {0}, micro[64] = {0};
    for (int64_t i = 0; i < x.t.n; i++) {
        const trace_op *o = &x.t.ops[i];
        assert_true(o->layer < x.s.m.n_layers + x.s.m.n_mtp && o->micro < 8);
        if (o->layer >= 0) layer[o->layer] = true;
        if (o->micro >= 0) micro[o->micro] = true;
        if (text_equal(o->kind, "GEMM")) assert_true(o->bytes > 0 && o->phase && !o->group);
        if (o->message)
            assert_true(o->bytes > 0 && text_equal(o->group, comm_group_name(GROUP_PP)));
    }
    for (int64_t i = 0; i < x.s.m.n_layers; i++) assert_true(layer[i]);
    for (int i = 0; i < 8; i++) assert_true(micro[i]);
    arena_destroy(x.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_kinds_are_the_price),
        cmocka_unit_test(streams_add_up_and_sends_are_received),
        cmocka_unit_test(window_is_a_part_of_the_step),
        cmocka_unit_test(named_ranks_have_their_stages_times),
        cmocka_unit_test(operations_say_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
