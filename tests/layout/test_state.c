/* Bytes of a rank: closed formulas for every optimizer mode, the plain loop over every weight for
 * the padding, and sums over ranks that give the model back. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/maths.h"
#include "config/models/models.h"
#include "layout/setup.h"

static arena *scratch;

static int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

static setup setup_of(const char *overrides)
{
    recipe r;
    setup s = {0};
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    status st = OK;
    for (char *word = strtok_r(text, " ", &rest); word && !st; word = strtok_r(NULL, " ", &rest))
        st = recipe_override(&r, word, "test", &err);
    if (!st) st = model_fill(&r, &err);
    if (!st) st = setup_init(&s, &r, scratch, &err);
    if (st) print_message("%s\n", err.text);
    assert_int_equal(st, OK);
    return s;
}

static state_bytes bytes_of_rank(const setup *s, int64_t pp_rank)
{
    state_bytes b;
    assert_true(s->possible);
    assert_null(s->pipe.why_not);
    state_of_stage(&b, s, pp_rank);
    return b;
}

static int64_t sum3(const int64_t v[3])
{
    return v[0] + v[1] + v[2];
}

#define TP           " model.tensor_model_parallel_size="
#define CP           " model.context_parallel_size="
#define PP           " model.pipeline_model_parallel_size="
#define VPP          " model.virtual_pipeline_model_parallel_size="
#define EP           " model.expert_model_parallel_size="
#define ETP          " model.expert_tensor_parallel_size="
#define GPUS         " cluster.n_gpus="
#define PREC         " mixed_precision="
#define AWARE        " optimizer.use_precision_aware_optimizer=true"
#define BF16_MOMENTS " optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=bf16"
#define MTP          " model.mtp_num_layers="

/* ---- modes */

typedef struct mode_case {
    const char *overrides;
    double weight, gradient, optimizer, host;
    bool sharded;
} mode_case;

static const mode_case modes[] = {
    {"", 2, 4, 12, 0, true},
    {" ddp.use_distributed_optimizer=false", 2, 4, 12, 0, false},
    {" mixed_precision.grad_reduce_in_fp32=false", 2, 2, 12, 0, true},
    {AWARE BF16_MOMENTS, 2, 4, 6, 0, true},
    {AWARE BF16_MOMENTS " mixed_precision.grad_reduce_in_fp32=false", 2, 2, 6, 0, true},
    {AWARE BF16_MOMENTS " optimizer.store_param_remainders=false", 2, 4, 8, 0, true},
    {AWARE BF16_MOMENTS PREC "fp8_sc", 2, 4, 8, 0, true},
    {AWARE, 2, 4, 10, 0, true},
    {AWARE " optimizer.exp_avg_dtype=fp8 optimizer.exp_avg_sq_dtype=fp16"
           " optimizer.main_params_dtype=fp16",
     2, 4, 5, 0, true},
    {PREC "fp32", 4, 4, 8, 0, true},
    {PREC "fp32 ddp.use_distributed_optimizer=false", 4, 4, 8, 0, false},
    {PREC "fp16_mixed", 2, 4, 12, 0, true},
    {PREC "fp16_mixed mixed_precision.grad_reduce_in_fp32=false", 2, 2, 16, 0, true},
    /* without the precision-aware optimizer the FP32 weights stay on the GPU */
    {" optimizer.optimizer_cpu_offload=true", 2, 4, 4, 16, true},
    {AWARE " optimizer.optimizer_cpu_offload=true", 2, 4, 0, 16, true},
    {" optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction=0.25", 2, 4, 10, 4,
     true},
    {AWARE " optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction=0.5", 2, 4,
     6, 8, true},
    /* what stays is FP32, so that a quarter on the host leaves more than none: 9 after 6 */
    {AWARE BF16_MOMENTS
     " optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction=0.25",
     2, 4, 9, 4, true},
    {" optimizer.optimizer_offload_fraction=0.5", 2, 4, 12, 0, true},
    /* moved by our own program: all of it, in its formats; Megatron's comes back whole */
    {" optimizer.offload_optimizer_states=true moefold.target=moefold", 2, 4, 0, 12, true},
    {AWARE BF16_MOMENTS " optimizer.offload_optimizer_states=true moefold.target=moefold"
                        " optimizer.store_param_remainders=false",
     2, 4, 0, 8, true},
    {" optimizer.offload_optimizer_states=true", 2, 4, 12, 0, true},
};

/* No size divides by anything much. */
#define ODD                                                                                        \
    "model.num_layers=10 model.hidden_size=99 model.num_attention_heads=3 model.vocab_size=1001"   \
    " model.num_moe_experts=12 model.moe_ffn_hidden_size=77 model.ffn_hidden_size=131"             \
    " model.moe_shared_expert_intermediate_size=53 model.qk_layernorm=true"                        \
    " model.moe_layer_freq=[0,1,1,0,1,1,1,1,0,1]"

/* Qwen3-30B on 32 ranks: d = 16 for dense weights (DP 8 x CP 2), 4 for experts. */
#define SMALL "moefold.model=qwen3-30b-a3b" GPUS "32" TP "2" CP "2" EP "8"

static void modes_have_their_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const mode_case *c = &modes[i];
        setup s = setup_of(arena_text(scratch, SMALL "%s", c->overrides));
        state_mode m = state_mode_of(&s.j, s.r.a);
        assert_true(m.weight == c->weight && m.plain == c->weight && m.gradient == c->gradient);
        assert_true(m.optimizer == c->optimizer && m.host == c->host);
        assert_true(strlen(m.why) > 10);
        assert_int_equal(s.lay.dp * s.lay.cp, 16);
        assert_int_equal(s.lay.edp, 4);
        state_bytes b = bytes_of_rank(&s, 0);
        int64_t d[3] = {16, 4, 16};
        for (int k = 0; k < 3; k++) {
            assert_true(b.elements[k] > 0);
            assert_int_equal(b.weights[k], (int64_t)c->weight * b.elements[k]);
            assert_int_equal(b.gradients[k], (int64_t)c->gradient * b.elements[k]);
            assert_int_equal(b.optimizer[k],
                             (int64_t)c->optimizer * b.elements[k] / (c->sharded ? d[k] : 1));
        }
        if (!c->sharded)
            assert_int_equal(b.padding_weights + b.padding_gradients + b.padding_optimizer, 0);
        assert_int_equal(b.padding_weights * (int64_t)c->gradient,
                         b.padding_gradients * (int64_t)c->weight);
        assert_int_equal(state_total(&b),
                         state_weights(&b) + state_gradients(&b) + state_optimizer(&b));
        int64_t host = (int64_t)c->host * (b.elements[0] + b.elements[2]) / 16 +
                       (int64_t)c->host * b.elements[1] / 4;
        assert_true(b.host >= host && b.host <= host + 16 * 4096);
    }
}

static void remainders_are_said_where_they_are_kept(void **state)
{
    (void)state;
    setup kept = setup_of(SMALL AWARE),
          whole = setup_of(SMALL AWARE " optimizer.store_param_remainders=false");
    assert_non_null(strstr(state_mode_of(&kept.j, kept.r.a).why, "with remainders"));
    assert_null(strstr(state_mode_of(&whole.j, whole.r.a).why, "with remainders"));
}

static void narrow_weights_have_scales(void **state)
{
    (void)state;
    setup fp8 = setup_of(SMALL PREC "fp8_cs");
    setup mxfp8 = setup_of(SMALL PREC "mxfp8");
    setup nvfp4 = setup_of(SMALL PREC "nvfp4");
    assert_true(state_mode_of(&fp8.j, fp8.r.a).weight == 2);
    assert_true(state_mode_of(&mxfp8.j, mxfp8.r.a).weight == 2.0625);
    assert_true(state_mode_of(&nvfp4.j, nvfp4.r.a).weight == 1.125);
    assert_true(state_mode_of(&nvfp4.j, nvfp4.r.a).plain == 2);
    assert_non_null(strstr(state_mode_of(&mxfp8.j, mxfp8.r.a).why, "approximate"));
    state_bytes a = bytes_of_rank(&fp8, 0), b = bytes_of_rank(&mxfp8, 0);
    state_bytes c = bytes_of_rank(&nvfp4, 0);
    assert_int_equal(a.weights[PARAM_EXPERT], 2 * a.elements[PARAM_EXPERT]);
    assert_int_equal(b.weights[PARAM_EXPERT] * 16, 33 * b.elements[PARAM_EXPERT]);
    assert_int_equal(c.weights[PARAM_EXPERT] * 8, 9 * c.elements[PARAM_EXPERT]);
    assert_int_equal(c.weights[PARAM_EMBEDDING], 2 * c.elements[PARAM_EMBEDDING]);
    assert_true(c.weights[PARAM_DENSE] < 2 * c.elements[PARAM_DENSE]);
}

/* ---- padding against the plain loop */

typedef struct plain {
    const setup *s;
    int64_t size[2][200000]; /* [dense, expert]: weights of a chunk, in order of registration */
    bool alone[2][200000];
    int n[2];
    int64_t elements, weights, buckets, shard, padded;
} plain;

static void put(plain *p, const param *w, bool alone)
{
    const layout *l = &p->s->lay;
    if (!w->trained) return;
    bool expert = w->kind == PARAM_EXPERT;
    int which = expert && (l->ep > 1 || l->etp != l->tp);
    int64_t local = param_local(w, l->tp, l->etp, l->ep); /* local experts lie together */
    p->size[which][p->n[which]] = local;
    p->alone[which][p->n[which]++] = alone;
    p->elements += local;
    p->weights++;
}

static void put_block(plain *p, block_kind b, const char *part, bool alone)
{
    for (int i = 0; i < p->s->params.n_rows; i++) {
        const param *w = &p->s->params.rows[i];
        if (w->block->kind == b && strstr(w->name, part)) put(p, w, alone);
    }
}

static void put_layer(plain *p, int64_t i)
{
    bool moe = model_layer_has(&p->s->m, i, BLOCK_MOE);
    bool linear = model_layer_has(&p->s->m, i, BLOCK_GDN);
    if (i >= p->s->m.n_layers) put_block(p, BLOCK_MTP, "", false);
    put_block(p, linear ? BLOCK_GDN : BLOCK_ATTENTION, "", false);
    put_block(p, moe ? BLOCK_MOE : BLOCK_MLP, "", false);
}

static void put_stage(plain *p, const stage *g)
{
    const model *m = &p->s->m;
    bool shared = p->s->lay.pp > 1 && (m->n_mtp || m->tied);
    if (g->embedding || g->n_mtp) put_block(p, BLOCK_EMBEDDING, "", shared);
    for (int64_t i = 0; i < g->n_layers; i++) put_layer(p, g->first_layer + i);
    bool last = g->n_layers && g->first_layer + g->n_layers == m->n_layers;
    if (m->n_mtp ? last : g->loss) put_block(p, BLOCK_HEAD, "layernorm", false);
    for (int64_t i = 0; i < g->n_mtp; i++) put_layer(p, m->n_layers + i);
    if (g->loss && m->tied && !g->embedding && !g->n_mtp) put_block(p, BLOCK_EMBEDDING, "", true);
    if (g->loss) put_block(p, BLOCK_HEAD, "output_layer", false);
}

static int64_t up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t lay_out(plain *p, int which, int64_t unit, int64_t bucket)
{
    int64_t at = 0, start = 0;
    for (int i = p->n[which] - 1; i >= 0; i--) {
        at = up(at, 64);
        bool alone = p->alone[which][i];
        if (alone && at > start) at = start = up(at, unit), p->buckets++;
        at += p->size[which][i];
        if (alone || at - start >= bucket) at = start = up(at, unit), p->buckets++;
    }
    if (at > start) at = up(at, unit), p->buckets++;
    return at;
}

static void padding_equals_the_plain_loop(void **state)
{
    (void)state;
    static const char *const cases[] = {
        ODD GPUS "7",
        ODD GPUS "12" EP "4" MTP "2",
        ODD GPUS "30" PP "5" EP "3 ddp.bucket_size=10000",
        ODD GPUS "60" PP "5" VPP "2" EP "6 ddp.bucket_size=100" MTP "1",
        ODD GPUS "20" PP "4" CP "5 ddp.bucket_size=8000 model.normalization=LayerNorm",
        ODD GPUS "30" PP "5 model.share_embeddings_and_output_weights=true"
                 " model.add_bias_linear=true ddp.pad_buckets_for_high_nccl_busbw=true",
        SMALL,
        SMALL " ddp.overlap_grad_reduce=false",
        SMALL " ddp.bucket_size=3000001",
        SMALL " ddp.pad_buckets_for_high_nccl_busbw=true",
        "moefold.model=qwen3-30b-a3b" GPUS "24" PP "4" EP "1",
        "moefold.model=qwen3-30b-a3b" GPUS "96" TP "2" PP "4" EP "1" ETP "1",
        "moefold.model=deepseek-v3" GPUS "1024" PP "8" VPP "4" EP "64" MTP "1",
        "moefold.model=deepseek-v3" GPUS "256" CP "32" PP "8" VPP "4" EP "32",
        "moefold.model=qwen3-next-80b-a3b" GPUS "48" PP "2" EP "8" TP "2",
        "moefold.model=gpt-oss-20b" GPUS "24" EP "8",
        "moefold.model=gpt-oss-120b" GPUS "48" EP "8" PP "4"
        " model.share_embeddings_and_output_weights=true",
        "moefold.model=mixtral-8x7b" GPUS "64" TP "4" EP "4" ETP "2" PP "2" VPP "2"
        " ddp.num_distributed_optimizer_instances=2",
        "moefold.model=deepseek-v3" GPUS "128" PP "16" EP "8" MTP "1"
        " model.pipeline_model_parallel_layout='Et*3|(tt|)*29,m|L'",
    };
    plain *p = malloc(sizeof *p);
    int n_padded = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = setup_of(cases[i]);
        int64_t instances = recipe_int(&s.r, K_OPT_INSTANCES);
        int64_t d[2] = {s.lay.dp * s.lay.cp / instances, s.lay.edp / instances};
        int64_t align = recipe_on(&s.r, K_BUCKET_PAD) ? 65536 : 128, bucket = 40000000;
        if (s.lay.dp * s.lay.cp > 40) bucket = 1000000 * s.lay.dp * s.lay.cp;
        if (recipe_given(&s.r, K_BUCKET)) bucket = recipe_int(&s.r, K_BUCKET);
        if (!recipe_on(&s.r, K_GRAD_OVERLAP)) bucket = INT64_MAX;
        for (int64_t q = 0; q < s.lay.pp; q++) {
            *p = (plain){.s = &s};
            for (int64_t v = 0; v < s.pipe.vpp; v++) {
                p->n[0] = p->n[1] = 0;
                put_stage(p, &s.pipe.stages[v * s.pipe.pp + q]);
                for (int k = 0; k < 2; k++) {
                    int64_t length = lay_out(p, k, lcm64(d[k], align), bucket);
                    assert_int_equal(length % d[k], 0);
                    p->padded += length;
                    p->shard += length / d[k];
                }
            }
            state_bytes b = bytes_of_rank(&s, q);
            assert_int_equal(sum3(b.elements), p->elements);
            assert_int_equal(b.padding_gradients, 4 * (p->padded - p->elements));
            assert_int_equal(b.padding_weights, 2 * (p->padded - p->elements));
            n_padded += p->padded > p->elements;
            assert_int_equal(state_optimizer(&b), 12 * p->shard);
            int64_t unit = lcm64(d[0], d[1]) * align;
            assert_true(p->padded - p->elements <= 63 * p->weights + unit * p->buckets);
        }
    }
    assert_true(n_padded > 25); /* multiples of 128 need none and prove little */
    free(p);
}

/* ---- sums */

static int64_t everything(const setup *s)
{
    int64_t sum = 0;
    for (int64_t q = 0; q < s->lay.pp; q++) {
        state_bytes b = bytes_of_rank(s, q);
        sum += s->lay.tp * (b.elements[PARAM_DENSE] + b.elements[PARAM_EMBEDDING]);
        sum += s->lay.etp * s->lay.ep * b.elements[PARAM_EXPERT];
    }
    return sum;
}

static void ranks_together_hold_the_model(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "moefold.model=deepseek-v3" EP "64" PP "8" VPP "4",
        "moefold.model=deepseek-v3",
        "moefold.model=qwen3-235b-a22b" EP "16" PP "4" ETP "2",
        "moefold.model=kimi-k2" EP "8" PP "61",
        "moefold.model=qwen3-next-80b-a3b" PP "6",
        "moefold.model=gpt-oss-120b" PP "3" EP "32",
        "moefold.model=mixtral-8x22b" EP "8" PP "7",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = setup_of(cases[i]);
        assert_int_equal(everything(&s), param_count(&s.params).total);
    }
}

static void copies_of_the_embedding_are_counted(void **state)
{
    (void)state;
    setup alone = setup_of("moefold.model=deepseek-v3" EP "8" MTP "1");
    assert_int_equal(everything(&alone), param_count(&alone.params).total);
    setup piped = setup_of("moefold.model=deepseek-v3" EP "8" PP "8" VPP "4" MTP "1");
    int64_t table = piped.m.padded_vocab * piped.m.hidden;
    assert_int_equal(everything(&piped), param_count(&piped.params).total + table);
    setup tied =
        setup_of("moefold.model=gpt-oss-20b model.share_embeddings_and_output_weights=true" PP "4");
    table = tied.m.padded_vocab * tied.m.hidden;
    assert_int_equal(everything(&tied), param_count(&tied.params).total + table);
    setup repeated = setup_of("moefold.model=deepseek-v3" EP "8" MTP "3"
                              " model.mtp_use_repeated_layer=true");
    assert_int_equal(everything(&repeated), everything(&alone));
}

/* Stages are counted once where they are alike; these differ in their last layers alone. */
static void stages_that_end_unlike_are_counted_each(void **state)
{
    (void)state;
    setup s = setup_of("moefold.model=mixtral-8x7b model.num_layers=8 "
                       "model.moe_layer_freq=[1,1,1,1,1,1,1,0]" EP "8" PP "2");
    arena *a = arena_create();
    state_bytes apart = bytes_of_rank(&s, 1);
    setup_states(&s, a);
    state_bytes first = bytes_of_rank(&s, 0), last = bytes_of_rank(&s, 1);
    assert_int_equal(state_total(&last), state_total(&apart));
    assert_true(last.elements[PARAM_EXPERT] * 4 == first.elements[PARAM_EXPERT] * 3);
    arena_destroy(a);
}

static void a_correction_bias_is_no_gradient(void **state)
{
    (void)state;
    setup s = setup_of("moefold.model=deepseek-v3" EP "8" PP "61");
    state_bytes dense = bytes_of_rank(&s, 0), moe = bytes_of_rank(&s, 30);
    assert_int_equal(dense.buffers, 0);
    assert_int_equal(moe.buffers, 256 * 8);
    assert_int_equal(state_weights(&moe), sum3(moe.weights) + moe.padding_weights + 256 * 8);
}

/* ---- hostile sizes, speed */

static void endless_models_do_no_harm(void **state)
{
    (void)state;
    setup s =
        setup_of("model.num_layers=4096 model.hidden_size=9223372036854775807"
                 " model.num_attention_heads=9223372036854775807"
                 " model.vocab_size=9223372036854775807 model.num_moe_experts=9223372036854775807"
                 " model.ffn_hidden_size=9223372036854775807 ddp.bucket_size=1"
                 " ddp.num_distributed_optimizer_instances=-5" GPUS "2");
    state_bytes b = bytes_of_rank(&s, 0);
    assert_int_equal(state_total(&b), SIZE_HUGE);
    setup empty = setup_of("model.num_layers=1 model.hidden_size=0 model.num_attention_heads=0"
                           " model.vocab_size=-1 ddp.bucket_size=-1"
                           " ddp.num_distributed_optimizer_instances=0" GPUS "7");
    b = bytes_of_rank(&empty, 0);
    assert_int_equal(state_total(&b), 0);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void a_stage_takes_microseconds(void **state)
{
    (void)state;
    static const char *const cases[] = {"moefold.model=deepseek-v3" GPUS "1024" EP "64" PP "16" MTP
                                        "1",
                                        "moefold.model=deepseek-v3" GPUS "1024" EP "8"};
    for (int i = 0; i < 2; i++) {
        setup s = setup_of(cases[i]);
        enum { ROUNDS = 200 };
        int64_t sum = 0;
        double start = seconds();
        for (int k = 0; k < ROUNDS; k++) {
            state_bytes b = bytes_of_rank(&s, k % s.lay.pp);
            sum += b.elements[0];
        }
        double took = (seconds() - start) / ROUNDS;
        print_message("PP %d: %.2f us a stage\n", (int)s.lay.pp, 1e6 * took);
        assert_true(sum > 0 && took < 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_have_their_bytes),
        cmocka_unit_test(remainders_are_said_where_they_are_kept),
        cmocka_unit_test(narrow_weights_have_scales),
        cmocka_unit_test(padding_equals_the_plain_loop),
        cmocka_unit_test(ranks_together_hold_the_model),
        cmocka_unit_test(copies_of_the_embedding_are_counted),
        cmocka_unit_test(stages_that_end_unlike_are_counted_each),
        cmocka_unit_test(a_correction_bias_is_no_gradient),
        cmocka_unit_test(endless_models_do_no_harm),
        cmocka_unit_test(a_stage_takes_microseconds),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
