/* not_priced.c - the table: each knob with the one value that the price assumes. */
#include "predict/not_priced.h"

#include "base/text.h"
#include "config/job_of.h"

typedef struct assumption {
    knob_id knob;
    const char *value;          /* priced as if it were this */
    const char *assumed;        /* the same for people */
    bool (*seen)(const job *j); /* where the price does see it; NULL: nowhere */
} assumption;

/* Fused activations of experts are priced where blocks are scaled as Blackwell does. */
static bool scaled_in_blocks(const job *j)
{
    return j->fp8_recipe == J_FP8_RECIPE_MXFP8 || job_has(j, K_FP4);
}

/* Multiprocessors of hybridep are priced where 16 of them are fewer than its links can use. */
static bool fills_links(const job *j)
{
    return j->machine && j->machine->arch == ARCH_BLACKWELL && j->flex == J_FLEX_HYBRIDEP &&
           j->flex_sms == 32;
}

static const assumption table[] = {
    {K_GROUPED_GEMM, "true", "one grouped GEMM for all local experts", NULL},
    {K_OP_FUSER, "false", "fewer launches, but no fused expert kernels in this precision",
     scaled_in_blocks},
    {K_GRAD_FUSION, "true", "weight gradients accumulated by the GEMM", NULL},
    {K_CE_FUSION, "true", "fused cross entropy", NULL},
    {K_FLEX_SMS, "null", "the dispatcher's default number of SMs", fills_links},
    {K_ROUTER_DTYPE, "fp32", "a router in FP32", NULL},
    {K_ROUTER_PAD, "false", "experts' rows padded in permutation", NULL},
    {K_PROBS_ON_INPUT, "false", "router weights applied after the activation", NULL},
    {K_FORCE_RANDOM, "false", "loads from moe_router_force_load_balancing or --routing", NULL},
    {K_A2A_PRIORITY, "false", "streams of equal priority", NULL},
    {K_CONNECTIONS, "null", "kernels launched in the order of their streams", NULL},
    {K_OVERLAP_P2P_FLUSH, "false", "P2P overlap in the steady state only", NULL},
    {K_DEFER_EMBEDDING, "false", "the output layer's weight gradient not deferred", NULL},
    {K_PARAM_STEP_OVERLAP, "false", "parameters gathered after the optimizer step", NULL},
    {K_DISTRIBUTE_SAVED, "false", "checkpointed layer inputs whole on every TP rank", NULL},
    {K_FP32_RESIDUAL, "false", "a residual stream in 16 bits", NULL},
    {K_ACT_FP8, "false", "inputs of activations kept in 16 bits", NULL},
    {K_BF16_ENDS, "false", "all layers in the recipe's precision", NULL},
    {K_FP8_AMAX, "max", "the usual maxima of delayed scaling", NULL},
    {K_LAYER_OFFLOAD, "false", "no offload of whole layers", NULL},
    {K_OFFLOAD_INFLIGHT, "null", "one group of offload copies in flight", NULL},
    {K_VARIABLE_SEQ, "false", "sequences of full length", NULL},
    {K_MTP_REPEATED, "false", "a layer of its own for each prediction depth", NULL},
};

int price_leaves_out(not_priced out[NOT_PRICED_MAX], const recipe *r, arena *a)
{
    job j;
    int n = 0;
    job_of(&j, r);
    for (size_t i = 0; i < sizeof table / sizeof table[0] && n < NOT_PRICED_MAX; i++) {
        const assumption *x = &table[i];
        const setting *set = &r->knob[x->knob];
        if (set->from != FROM_USER || (x->seen && x->seen(&j))) continue;
        const char *text = value_text(a, set->v);
        if (text_equal(text, x->value)) continue;
        out[n++] = (not_priced){knobs[x->knob].key, text, x->assumed};
    }
    return n;
}
