/* judgement.c - the tables of advice. */
#include "recipe/judgement.h"

#include "base/maths.h"

typedef struct platform {
    bool spans_nodes; /* NVLink reaches beyond a node */
    const char *flex, *why;
} platform;

static const platform platforms[] = {
    {true, "hybridep", "unset: HybridEP spans an NVLink domain of several nodes"},
    {false, "deepep", "unset: DeepEP, where the NVLink domain is one node"},
};

const char *judge_flex(const recipe *r, const char **why)
{
    const platform *p = recipe_spans_nodes(r) ? &platforms[0] : &platforms[1];
    if (why) *why = p->why;
    return p->flex;
}

static int64_t group_ranks(const recipe *r)
{
    int64_t etp = recipe_int(r, K_ETP);
    return mul_sat(recipe_int(r, K_EP), etp > 0 ? etp : 1);
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
