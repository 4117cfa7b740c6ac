/* test_first_writers.c - what a step finds in the memory of gradients does not show in it: they are
 * made zero, or written by the first operation that touches them. */
#include "train/layout_rig.c"
#include "train/rig_threads.h"

#define M       "model."
#define TP2     M "tensor_model_parallel_size=2 "
#define PP2     M "pipeline_model_parallel_size=2 "
#define VPP2    M "virtual_pipeline_model_parallel_size=2 "
#define EP2     M "expert_model_parallel_size=2 "
#define ETP1    M "expert_tensor_parallel_size=1 "
#define A2A     M "moe_token_dispatcher_type=alltoall "
#define PAIRS   "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define DELAYED PAIRS "comm_overlap.delay_wgrad_compute=true "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=2 "
#define NARROW   "mixed_precision=bf16_mixed mixed_precision.grad_reduce_in_fp32=false "
#define TP_TURNS "comm_overlap.tp_comm_overlap=true "
#define GPU      "cluster.gpu=H200 moefold.target=moefold moefold.device=cpu "

static const char *const layouts[] = {
    "cluster.n_gpus=1",
    FULL "cluster.n_gpus=1",
    NARROW "cluster.n_gpus=1",
    TP2 EP2 ETP1 TP_TURNS "cluster.n_gpus=2",
    PP2 VPP2 EP2 A2A PAIRS "cluster.n_gpus=4",
    PP2 VPP2 EP2 A2A DELAYED "cluster.n_gpus=4",
    "train.micro_batch_size=8 cluster.n_gpus=1", /* one microbatch */
    GPU "cluster.n_gpus=1",
    TP2 EP2 ETP1 GPU "cluster.n_gpus=2",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], GPU_LAYOUTS = 2 };

typedef struct filled {
    rank_rig g;
    unsigned char pattern;
    float *gradients;
    int64_t n, trained, zeroed; /* elements; of weights, and of those that begin as zeros */
    int written, heads;         /* operations that write, and those of them that are heads */
} filled;

/* What operations say of the gradients of a step. */
static void count(filled *x)
{
    const program *p = &x->g.p;
    dtype type = p->types.gradient;
    x->trained = p->weights.trained;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
                const op *o = &it->seg->ops[it->phase][k];
                x->written += (o->flags & OVERWRITE) != 0;
                x->heads += (o->flags & OVERWRITE) &&
                            (o->kind == OP_HEAD_LOSS || o->kind == OP_HEAD_PART_D);
                if (o->kind != OP_ZERO || part != PART_BEGIN) continue;
                const buf *y = &it->seg->bufs[o->out[0]];
                if (y->region == REGION_GRADIENTS) x->zeroed += dtype_elements(type, y->bytes);
            }
        }
}

static void *filled_main(void *with)
{
    filled *x = with;
    rank_rig *g = &x->g;
    rig_open(g);
    executor_fill(g->e, g->p.offset[REGION_GRADIENTS], g->p.bytes[REGION_GRADIENTS], x->pattern);
    run_step(g, 0);
    array_loan l = gradients_of(g);
    x->n = g->p.weights.trained;
    x->gradients = malloc(sizeof(float) * (size_t)x->n);
    memcpy(x->gradients, l.values, sizeof(float) * (size_t)x->n);
    array_return(&l, ARRAY_READ);
    count(x);
    rig_close(g);
    return NULL;
}

static int run_filled(filled *list, const char *folder, const char *words, unsigned char pattern)
{
    for (int i = 0; i < RIG_RANKS_MAX; i++) list[i] = (filled){.pattern = pattern};
    return rig_run(list, sizeof *list, folder, words, filled_main);
}

/* 0xff are NaN in FP32 and BF16: one that were added to would spread. */
static void old_gradients_do_not_show(void **state)
{
    (void)state;
    arena *a = arena_create();
    filled *zeros = calloc(RIG_RANKS_MAX, sizeof *zeros),
           *nans = calloc(RIG_RANKS_MAX, sizeof *nans);
    int64_t trained = 0, zeroed = 0;
    int ran = 0, heads[GPU_LAYOUTS] = {0}; /* those whose head is written, of a GPU's layouts */
    for (int i = 0; i < N_LAYOUTS * N_FAMILY_CASES; i++) {
        const char *folder = family_cases[i % N_FAMILY_CASES];
        const char *words =
            arena_text(a, "moefold.moe_buffer_factor=64 %s", layouts[i / N_FAMILY_CASES]);
        if (!rig_is_legal(folder, words, a)) continue;
        words = common_words(a, words);
        int n = run_filled(zeros, folder, words, 0);
        run_filled(nans, folder, words, 0xff);
        for (int r = 0; r < n; r++) {
            if (memcmp(zeros[r].gradients, nans[r].gradients, sizeof(float) * (size_t)nans[r].n))
                fail_msg("%s %s: rank %d differs", folder, words, r);
            assert_true(nans[r].written > 0);
            const int at = i / N_FAMILY_CASES - (N_LAYOUTS - GPU_LAYOUTS);
            if (at >= 0) heads[at] += nans[r].heads;
            trained += nans[r].trained;
            zeroed += nans[r].zeroed;
            free(zeros[r].gradients);
            free(nans[r].gradients);
        }
        ran++;
    }
    print_message("%d layouts; %.0f %% of all gradients begin as zeros\n", ran,
                  100.0 * (double)zeroed / (double)trained);
    assert_true(ran >= 25 && zeroed < trained / 2);
    for (int i = 0; i < GPU_LAYOUTS; i++) assert_true(heads[i] > 0);
    arena_destroy(a);
    free(zeros);
    free(nans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(old_gradients_do_not_show)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
