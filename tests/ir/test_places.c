/* test_places.c - every buffer of every operation lies in its region, and has a format that the
 * table of operations allows: all families, FP32, BF16 and FP8 programs. */
#include "testing.h"

#define M    "model."
#define TP2  M "tensor_model_parallel_size=2 "
#define CP2  M "context_parallel_size=2 "
#define PP2  M "pipeline_model_parallel_size=2 "
#define EP2  M "expert_model_parallel_size=2 "
#define ETP1 M "expert_tensor_parallel_size=1 "
#define RECOMPUTE                                                                                  \
    M "recompute_granularity=selective " M "recompute_modules=[core_attn,layernorm,moe_act] "

static const char *const layouts[] = {
    "cluster.n_gpus=1",
    TP2 EP2 ETP1 "cluster.n_gpus=4",
    CP2 EP2 RECOMPUTE "cluster.n_gpus=4",
    PP2 EP2 "cluster.n_gpus=4 ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true "
            "ddp.bucket_size=8000",
    TP2 CP2 PP2 EP2 ETP1 "cluster.n_gpus=8 ddp.use_distributed_optimizer=true",
    M "fine_grained_activation_offloading=true " M "offload_modules=[core_attn,moe_act] " M
      "min_offloaded_tensor_size=1 cluster.n_gpus=1",
};

#define FP8_WEIGHTS                                                                                \
    "mixed_precision=bf16_with_fp8_current_scaling_mixed mixed_precision.fp8_param_gather=true"

static const char *const precisions[] = {
    "cluster.gpu=cpu mixed_precision=fp32",
    "cluster.gpu=cpu mixed_precision=bf16_mixed",
    "cluster.gpu=cpu mixed_precision=bf16_mixed mixed_precision.grad_reduce_in_fp32=false",
    "cluster.gpu=H100 mixed_precision=bf16_mixed",
    "cluster.gpu=H100 mixed_precision=bf16_mixed moefold.target=moefold",
    "cluster.gpu=H100 mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
    ("cluster.gpu=H100 " FP8_WEIGHTS),
    "cluster.gpu=H100 mixed_precision=bf16_mixed optimizer.optimizer_cpu_offload=true "
    "optimizer.optimizer_offload_fraction=0.5",
    "cluster.gpu=H100 mixed_precision=bf16_mixed optimizer.use_precision_aware_optimizer=true "
    "optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=fp8",
    "cluster.gpu=H100 mixed_precision=bf16_mixed optimizer.optimizer=none",
    "cluster.gpu=H100 mixed_precision=bf16_mixed moefold.target=moefold "
    "optimizer.offload_optimizer_states=true optimizer.use_precision_aware_optimizer=true "
    "optimizer.exp_avg_dtype=bf16",
};

#define COUNT(list) (int)(sizeof list / sizeof list[0])

static region region_of(const buf *b)
{
    static const region regions[LIFE_COUNT] = {[LIFE_WEIGHT] = REGION_WEIGHTS,
                                               [LIFE_GRADIENT] = REGION_GRADIENTS,
                                               [LIFE_SAVED] = REGION_SAVED,
                                               [LIFE_OUTPUT] = REGION_COUNT, /* either */
                                               [LIFE_DHIDDEN] = REGION_BOUNDARY,
                                               [LIFE_BOUNDARY] = REGION_BOUNDARY,
                                               [LIFE_HIDDEN_IN_FLIGHT] = REGION_BOUNDARY,
                                               [LIFE_HOST] = REGION_COUNT,
                                               [LIFE_STEP] = REGION_STEP,
                                               [LIFE_TEMP] = REGION_TEMP};
    return b->life == LIFE_FIXED ? (region)b->region : regions[b->life];
}

static bool lies_in(const program *p, region r, int64_t at, int64_t bytes)
{
    return at >= p->offset[r] && at + bytes <= p->offset[r] + p->bytes[r];
}

/* Where gradients lend their places (step_packing.h). */
static bool is_packed(const program *p, const item *it, const buf *b)
{
    return p->packed && it->places &&
           (b->life == LIFE_TEMP || b->life == LIFE_SAVED || b->life == LIFE_OUTPUT);
}

static bool is_right(const program *p, const item *it, const buf *b, int64_t at)
{
    if (is_packed(p, it, b))
        return lies_in(p, REGION_SAVED, at, b->bytes) || lies_in(p, REGION_GRADIENTS, at, b->bytes);
    region r = region_of(b);
    int64_t staging = p->arena_bytes + p->host_bytes;
    if (b->life == LIFE_FIXED && r == REGION_STAGING)
        return at >= staging && at + b->bytes <= staging + p->staging_bytes;
    if (b->life == LIFE_FIXED && r == REGION_KEPT)
        return at >= program_kept(p) && at + b->bytes <= program_end(p);
    if (b->life == LIFE_HOST)
        return at >= p->arena_bytes && at + b->bytes <= p->arena_bytes + p->host_bytes;
    if (r == REGION_COUNT)
        return lies_in(p, REGION_SAVED, at, b->bytes) || lies_in(p, REGION_BOUNDARY, at, b->bytes);
    return lies_in(p, r, at, b->bytes);
}

typedef struct seen {
    int64_t buffers, operations;
} seen;

static void check_buffer(const program *p, const item *it, const op *o, int id, seen *n)
{
    if (id < 0) return;
    const buf *b = &it->seg->bufs[id];
    int64_t at = program_place(p, it, id);
    n->buffers++;
    if (!is_right(p, it, b, at))
        fail_msg("%s: %s of %s (life %d, %lld bytes) is at %lld; region %lld + %lld", it->seg->name,
                 b->name, o->name, (int)b->life, (long long)b->bytes, (long long)at,
                 (long long)p->offset[region_of(b)], (long long)p->bytes[region_of(b)]);
}

static void check_item(const program *p, const item *it, seen *n)
{
    for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
        const op *o = &it->seg->ops[it->phase][k];
        op_types t = seg_op_types(it->seg, o);
        if (!op_types_fit(o, &t))
            fail_msg("%s: %s (%s) has a format that it may not have", it->seg->name, o->name,
                     op_infos[o->kind].name);
        for (int i = 0; i < OP_IN_MAX; i++) check_buffer(p, it, o, o->in[i], n);
        for (int i = 0; i < OP_OUT_MAX; i++) check_buffer(p, it, o, o->out[i], n);
        n->operations++;
    }
}

static void every_address_lies_in_its_region(void **state)
{
    (void)state;
    seen n = {0, 0};
    int programs = 0;
    for (int i = 0; i < N_FAMILY_CASES * COUNT(layouts) * COUNT(precisions); i++) {
        const char *folder = family_cases[i % N_FAMILY_CASES];
        const char *layout_words = layouts[i / N_FAMILY_CASES % COUNT(layouts)];
        const char *precision = precisions[i / N_FAMILY_CASES / COUNT(layouts)];
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        program_of(p, s, a, folder, arena_text(a, "%s %s", layout_words, precision));
        for (int64_t rank = 0; rank < s->lay.world; rank++) {
            program_build(p, s, rank, a);
            for (int part = 0; part < PART_COUNT; part++)
                for (int64_t k = 0; k < p->items[part].n; k++)
                    check_item(p, &p->items[part].list[k], &n);
            programs++;
        }
        arena_destroy(a);
    }
    print_message("%d programs, %lld operations, %lld buffers\n", programs, (long long)n.operations,
                  (long long)n.buffers);
    assert_true(programs > 600 && n.buffers > 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_address_lies_in_its_region)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
