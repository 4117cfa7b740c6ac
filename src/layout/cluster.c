/* cluster.c - the sizes that follow from others. */
#include "layout/cluster.h"

#include <inttypes.h>

#include "base/maths.h"
#include "layout/layout.h"

static void derive_sequence(resolving *d)
{
    const job *j = d->j;
    int64_t most = j->max_positions;
    if (most > 0 && most < 4096)
        resolve_fill(d, K_SEQ, value_of_int(most), FROM_DERIVED,
                     "unset: the longest sequence that the model supports");
    resolve_fill(d, K_SEQ, value_of_int(4096), FROM_DERIVED,
                 "unset: the usual length of pre-training");
    resolve_fill(d, K_MAX_POSITIONS, value_of_int(j->seq), FROM_DERIVED,
                 "unset: the sequence length");
}

static void derive_tensor_parallel(resolving *d)
{
    const job *j = d->j;
    if (!job_is_lm(j) && j->ep > 1)
        resolve_fill(d, K_ETP, value_of_int(1), FROM_DERIVED,
                     "unset with EP > 1: whole experts, as in Megatron-Bridge");
    else
        resolve_fill(d, K_ETP, value_of_int(j->tp), FROM_DERIVED, "unset: TP");
}

static void derive_world(resolving *d)
{
    const job *j = d->j;
    int64_t tp = j->tp, cp = j->cp, pp = j->pp;
    int64_t ep = j->ep, etp = j->etp;
    int64_t instances = j->opt_instances > 1 ? j->opt_instances : 1;
    int64_t fewest = mul_sat(layout_fewest(tp, cp, pp, ep, etp), instances);
    if (fewest < 1 || fewest > LAYOUT_WORLD_MAX)
        resolve_fill(d, K_N_GPUS, value_of_int(1), FROM_DERIVED,
                     "unset, and the parallel sizes fit no cluster");
    else
        resolve_fill(d, K_N_GPUS, value_of_int(fewest), FROM_DERIVED,
                     "unset: the fewest for PP %" PRId64 " x lcm(TP %" PRId64 " x CP %" PRId64
                     ", ETP %" PRId64 " x EP %" PRId64 ")",
                     pp, tp, cp, etp, ep);
}

/* Of an NVLink domain as sold, the ranks that a job fills: schedulers hand out equal blocks of
 * nodes, so that a job of 256 on racks of 72 has four of 64. */
static int64_t block_of(int64_t node, int64_t domain, int64_t world)
{
    if (node < 1 || world <= domain || world % node) return domain;
    int64_t block = domain;
    while (block > node && world % block) block -= node;
    return block % node ? domain : block;
}

static void derive_node(resolving *d)
{
    const job *j = d->j;
    const gpu *g = j->machine;
    if (!g) return;
    int64_t node = g->gpus_per_node, domain = g->nvlink_domain;
    const char *why = g->path ? "from its hardware file" : "as sold";
    if (g->arch == ARCH_CPU && !g->path) { /* one machine, whatever the number of ranks */
        int64_t world = j->n_gpus;
        domain = world > 1 ? world : 1;
        node = domain < g->gpus_per_node ? domain : g->gpus_per_node;
        why = "all ranks on one machine";
    }
    resolve_fill(d, K_GPUS_PER_NODE, value_of_int(node), FROM_DERIVED, "%s: %s", g->name, why);
    int64_t block = block_of(j->gpus_per_node, domain, j->n_gpus);
    if (block < domain)
        resolve_fill(d, K_NVLINK, value_of_int(block), FROM_DERIVED,
                     "%s: equal blocks of nodes in NVLink domains of %" PRId64, g->name, domain);
    resolve_fill(d, K_NVLINK, value_of_int(domain), FROM_DERIVED, "%s: %s", g->name, why);
}

enum { PIPELINE_FILLS = 4, BATCH_MAX = 1 << 30 };

static void derive_batch(resolving *d)
{
    const job *j = d->j;
    resolve_fill(d, K_MBS, value_of_int(1), FROM_DERIVED, "unset: the smallest");
    int64_t mbs = j->mbs, pp = j->pp, dp = layout_dp(j);
    if (mbs < 1) mbs = 1;
    if (pp < 1) pp = 1;
    int64_t once = mul_sat(mbs, dp);
    int64_t batch = job_is_lm(j) ? once : mul_sat(mul_sat(once, PIPELINE_FILLS), pp);
    if (batch > BATCH_MAX)
        resolve_fill(d, K_GBS, value_of_int(mbs), FROM_DERIVED,
                     "unset, and the sizes ask for more than any batch");
    else if (job_is_lm(j))
        resolve_fill(d, K_GBS, value_of_int(batch), FROM_DERIVED,
                     "unset: Megatron-LM takes one microbatch a replica, %" PRId64 " x DP %" PRId64,
                     mbs, dp);
    else
        resolve_fill(d, K_GBS, value_of_int(batch), FROM_DERIVED,
                     "unset: fills the pipeline four times: microbatch %" PRId64 " x DP %" PRId64
                     " x 4 x PP %" PRId64,
                     mbs, dp, pp);
}

void cluster_derive(resolving *d)
{
    static const knob_id sizes[] = {K_GPU, K_TP, K_CP, K_PP, K_EP, K_TP_PP_DP};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) resolve_default(d, sizes[i]);
    derive_sequence(d);
    derive_tensor_parallel(d);
    derive_world(d);
    derive_node(d);
    derive_batch(d);
}
