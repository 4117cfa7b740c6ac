/* not_priced.c - the table: each knob with the one value that the price assumes. */
#include "predict/not_priced.h"

#include "config/edit.h"
#include "config/job_of.h"
#include "job/dispatcher.h"

typedef struct assumption {
    edit value;                 /* priced as if it were this */
    const char *assumed;        /* the same for people */
    bool (*seen)(const job *j); /* where the price does see it; NULL: nowhere */
} assumption;

/* Fused activations of experts are priced where blocks are scaled as Blackwell does. */
static bool scaled_in_blocks(const job *j)
{
    return j->fp8_recipe == J_FP8_RECIPE_MXFP8 || job_has(j, K_FP4);
}

/* Multiprocessors are priced where those that a dispatcher takes by itself do not fill its
 * links. */
static bool fills_links(const job *j)
{
    const int64_t full = dispatcher_full_sms(dispatcher_of_backend(j->flex), j->machine);
    return full && j->flex_sms == full;
}

static const assumption table[] = {
    {SET_FLAG(GROUPED_GEMM, true), "one grouped GEMM for all local experts", NULL},
    {SET_FLAG(OP_FUSER, false), "fewer launches, but no fused expert kernels in this precision",
     scaled_in_blocks},
    {SET_FLAG(GRAD_FUSION, true), "weight gradients accumulated by the GEMM", NULL},
    {SET_FLAG(CE_FUSION, true), "fused cross entropy", NULL},
    {SET_NULL(FLEX_SMS), "the dispatcher's default number of SMs", fills_links},
    {SET_WORD(ROUTER_DTYPE, FP32), "a router in FP32", NULL},
    {SET_FLAG(ROUTER_PAD, false), "experts' rows padded in permutation", NULL},
    {SET_FLAG(PROBS_ON_INPUT, false), "router weights applied after the activation", NULL},
    {SET_FLAG(FORCE_RANDOM, false), "loads from moe_router_force_load_balancing or --routing",
     NULL},
    {SET_FLAG(A2A_PRIORITY, false), "streams of equal priority", NULL},
    {SET_NULL(CONNECTIONS), "kernels launched in the order of their streams", NULL},
    {SET_FLAG(OVERLAP_P2P_FLUSH, false), "P2P overlap in the steady state only", NULL},
    {SET_FLAG(DEFER_EMBEDDING, false), "the output layer's weight gradient not deferred", NULL},
    {SET_FLAG(PARAM_STEP_OVERLAP, false), "parameters gathered after the optimizer step", NULL},
    {SET_FLAG(DISTRIBUTE_SAVED, false), "checkpointed layer inputs whole on every TP rank", NULL},
    {SET_FLAG(FP32_RESIDUAL, false), "a residual stream in 16 bits", NULL},
    {SET_FLAG(ACT_FP8, false), "inputs of activations kept in 16 bits", NULL},
    {SET_FLAG(BF16_ENDS, false), "all layers in the recipe's precision", NULL},
    {SET_WORD(FP8_AMAX, MAX), "the usual maxima of delayed scaling", NULL},
    {SET_FLAG(LAYER_OFFLOAD, false), "no offload of whole layers", NULL},
    {SET_NULL(OFFLOAD_INFLIGHT), "one group of offload copies in flight", NULL},
    {SET_FLAG(VARIABLE_SEQ, false), "sequences of full length", NULL},
    {SET_FLAG(MTP_REPEATED, false), "a layer of its own for each prediction depth", NULL},
};

int price_leaves_out(not_priced out[NOT_PRICED_MAX], const recipe *r, arena *a)
{
    job j;
    int n = 0;
    job_of(&j, r);
    for (size_t i = 0; i < sizeof table / sizeof table[0] && n < NOT_PRICED_MAX; i++) {
        const assumption *x = &table[i];
        knob_id k = x->value.k;
        if (!recipe_by_user(r, k) || (x->seen && x->seen(&j)) || edit_holds(&x->value, &j))
            continue;
        out[n++] = (not_priced){knobs[k].key, recipe_shown(r, k, a), x->assumed};
    }
    return n;
}
