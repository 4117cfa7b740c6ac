/* judgement.c - the tables of advice. */
#include "config/judgement.h"

#include "base/maths.h"

typedef enum platform_kind { NVLINK_SPANS_NODES, BLACKWELL_NODE, OTHER_NODES } platform_kind;

typedef struct platform {
    const char *flex, *why;
} platform;

static const platform platforms[] = {
    [NVLINK_SPANS_NODES] = {"hybridep", "unset: HybridEP spans an NVLink domain of several nodes"},
    [BLACKWELL_NODE] = {"hybridep",
                        "unset: HybridEP, as in published runs on Blackwell inside a node"},
    [OTHER_NODES] = {"deepep", "unset: DeepEP, because the NVLink domain is one node"},
};

const char *judge_flex_over(const recipe *r, int64_t ranks, const char **why)
{
    const gpu *g = recipe_gpu(r);
    bool inside = g && g->arch == ARCH_BLACKWELL && ranks <= g->gpus_per_node;
    platform_kind k = recipe_spans_nodes(r) ? NVLINK_SPANS_NODES
                      : inside              ? BLACKWELL_NODE
                                            : OTHER_NODES;
    if (why) *why = platforms[k].why;
    return platforms[k].flex;
}

static int64_t group_ranks(const recipe *r)
{
    int64_t etp = recipe_int(r, K_ETP);
    return mul_sat(recipe_int(r, K_EP), etp > 0 ? etp : 1);
}

const char *judge_flex(const recipe *r, const char **why)
{
    return judge_flex_over(r, group_ranks(r), why);
}

bool judge_flex_serves(const recipe *r)
{
    bool drops = recipe_given(r, K_CAPACITY) && recipe_real(r, K_CAPACITY) >= 0;
    int64_t domain = recipe_int(r, K_NVLINK);
    if (recipe_on_cpu(r) || drops || group_ranks(r) <= 1) return false;
    return domain <= 8 || group_ranks(r) <= domain;
}

const char *judge_dispatcher(const recipe *r)
{
    return judge_flex_serves(r) ? "flex" : "alltoall";
}

int64_t judge_ep_domains(const recipe *r)
{
    int64_t domain = recipe_int(r, K_NVLINK), ranks = group_ranks(r);
    return domain < 1 || ranks <= domain ? 1 : (ranks + domain - 1) / domain;
}

/* Experts of a token lie anywhere with equal chance: one copy an expert, of which all but one
 * part's go elsewhere. */
double judge_copies(const recipe *r, const char *dispatcher)
{
    int64_t domains = judge_ep_domains(r);
    double parts = (double)(domains > 1 ? domains : group_ranks(r));
    if (parts <= 1) return 0;
    double all = parts - 1;
    return text_equal(dispatcher, "allgather") ? all : (double)recipe_int(r, K_TOPK) * all / parts;
}

bool judge_shared_overlap_stays(const recipe *r)
{
    return recipe_is_lm(r) || !recipe_is(r, K_DISPATCHER, "flex");
}
