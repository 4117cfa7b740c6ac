/* cluster.c - the sizes that follow from others. */
#include "layout/cluster.h"

#include <inttypes.h>

#include "base/maths.h"
#include "layout/layout.h"

static void derive_sequence(recipe *r)
{
    int64_t most = recipe_int(r, K_MAX_POSITIONS);
    if (most > 0 && most < 4096)
        recipe_fill(r, K_SEQ, value_of_int(most), FROM_DERIVED,
                    "unset: the longest sequence that the model supports");
    recipe_fill(r, K_SEQ, value_of_int(4096), FROM_DERIVED,
                "unset: the usual length of pre-training");
    recipe_fill(r, K_MAX_POSITIONS, r->knob[K_SEQ].v, FROM_DERIVED, "unset: the sequence length");
}

static void derive_tensor_parallel(recipe *r)
{
    int64_t tp = recipe_int(r, K_TP);
    bool lm = recipe_is_lm(r);
    if (lm)
        recipe_fill_default(r, K_SP);
    else
        recipe_fill(r, K_SP, value_of_bool(tp > 1), FROM_DERIVED,
                    tp > 1 ? "TP > 1: norms and residuals are split, too" : "TP 1 splits nothing");
    if (!lm && recipe_int(r, K_EP) > 1)
        recipe_fill(r, K_ETP, value_of_int(1), FROM_DERIVED,
                    "unset with EP > 1: whole experts, as in Megatron-Bridge");
    else
        recipe_fill(r, K_ETP, value_of_int(tp), FROM_DERIVED, "unset: TP");
}

static void derive_world(recipe *r)
{
    int64_t tp = recipe_int(r, K_TP), cp = recipe_int(r, K_CP), pp = recipe_int(r, K_PP);
    int64_t ep = recipe_int(r, K_EP), etp = recipe_int(r, K_ETP);
    int64_t instances = recipe_int(r, K_OPT_INSTANCES) > 1 ? recipe_int(r, K_OPT_INSTANCES) : 1;
    int64_t fewest = mul_sat(layout_fewest(tp, cp, pp, ep, etp), instances);
    if (fewest < 1 || fewest > LAYOUT_WORLD_MAX)
        recipe_fill(r, K_N_GPUS, value_of_int(1), FROM_DERIVED,
                    "unset, and the parallel sizes fit no cluster");
    else
        recipe_fill(r, K_N_GPUS, value_of_int(fewest), FROM_DERIVED,
                    "unset: the fewest for PP %" PRId64 " x lcm(TP %" PRId64 " x CP %" PRId64
                    ", ETP %" PRId64 " x EP %" PRId64 ")",
                    pp, tp, cp, etp, ep);
}

static void derive_node(recipe *r)
{
    const gpu *g = recipe_gpu(r);
    if (!g) return;
    int64_t node = g->gpus_per_node, domain = g->nvlink_domain;
    const char *why = g->path ? "from its hardware file" : "as sold";
    if (g->arch == ARCH_CPU && !g->path) { /* one machine, whatever the number of ranks */
        int64_t world = recipe_int(r, K_N_GPUS);
        domain = world > 1 ? world : 1;
        node = domain < g->gpus_per_node ? domain : g->gpus_per_node;
        why = "all ranks on one machine";
    }
    recipe_fill(r, K_GPUS_PER_NODE, value_of_int(node), FROM_DERIVED, "%s: %s", g->name, why);
    recipe_fill(r, K_NVLINK, value_of_int(domain), FROM_DERIVED, "%s: %s", g->name, why);
}

enum { PIPELINE_FILLS = 4, BATCH_MAX = 1 << 30 };

static void derive_batch(recipe *r)
{
    recipe_fill(r, K_MBS, value_of_int(1), FROM_DERIVED, "unset: the smallest");
    int64_t mbs = recipe_int(r, K_MBS), pp = recipe_int(r, K_PP), dp = layout_dp(r);
    if (mbs < 1) mbs = 1;
    if (pp < 1) pp = 1;
    int64_t once = mul_sat(mbs, dp);
    int64_t batch = recipe_is_lm(r) ? once : mul_sat(mul_sat(once, PIPELINE_FILLS), pp);
    if (batch > BATCH_MAX)
        recipe_fill(r, K_GBS, value_of_int(mbs), FROM_DERIVED,
                    "unset, and the sizes ask for more than any batch");
    else if (recipe_is_lm(r))
        recipe_fill(r, K_GBS, value_of_int(batch), FROM_DERIVED,
                    "unset: Megatron-LM takes one microbatch a replica, %" PRId64 " x DP %" PRId64,
                    mbs, dp);
    else
        recipe_fill(r, K_GBS, value_of_int(batch), FROM_DERIVED,
                    "unset: fills the pipeline four times: microbatch %" PRId64 " x DP %" PRId64
                    " x 4 x PP %" PRId64,
                    mbs, dp, pp);
}

void cluster_derive(recipe *r)
{
    static const knob_id sizes[] = {K_GPU, K_TP, K_CP, K_PP, K_EP, K_TP_PP_DP};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) recipe_fill_default(r, sizes[i]);
    derive_sequence(r);
    derive_tensor_parallel(r);
    derive_world(r);
    derive_node(r);
    derive_batch(r);
}

/* ---- the world of a command line */

static const char by_block[] = "equal blocks of nodes for each NVLink domain";

/* Schedulers hand out equal blocks of nodes, so that a job of 256 on racks of 72 has four of 64. */
void cluster_set_world(recipe *r, int64_t node, int64_t domain, int64_t n)
{
    recipe_set(r, K_N_GPUS, value_of_int(n), "--gpus");
    int64_t block = domain;
    if (block <= node || n <= block || n % node) return;
    while (block > node && n % block) block -= node;
    bool open = r->knob[K_NVLINK].from != FROM_USER || r->knob[K_NVLINK].why == by_block;
    if (open && block % node == 0) recipe_set(r, K_NVLINK, value_of_int(block), by_block);
}

void cluster_follow_world(recipe *r, const recipe *before)
{
    const gpu *g = recipe_gpu(r);
    const setting *was = &before->knob[K_N_GPUS], *now = &r->knob[K_N_GPUS];
    bool by_option = was->from == FROM_USER && text_equal(was->why, "--gpus");
    if (!g || !by_option || now->v.kind != V_INT || value_equal(was->v, now->v)) return;
    if (r->knob[K_NVLINK].why == by_block) r->knob[K_NVLINK] = (setting){.from = FROM_NOTHING};
    cluster_set_world(r, g->gpus_per_node, g->nvlink_domain, now->v.whole);
}
