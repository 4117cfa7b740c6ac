/* judgement.c - advice by traits and counts. */
#include "config/judgement.h"

#include "base/maths.h"

const dispatcher *judge_flex_over(const gpu *g, int64_t ranks, const char **why)
{
    bool inside = g && g->arch == ARCH_BLACKWELL && ranks <= g->gpus_per_node;
    flex_platform p = g && g->nvlink_domain > g->gpus_per_node ? NVLINK_SPANS_NODES
                      : inside                                 ? BLACKWELL_NODE
                                                               : OTHER_NODES;
    const dispatcher *d = dispatchers;
    while (!d->fits[p]) d++;
    if (why) *why = d->fits[p];
    return d;
}

static int64_t group_ranks(const job *j)
{
    return mul_sat(j->ep, j->etp > 0 ? j->etp : 1);
}

const dispatcher *judge_flex(const job *j, const char **why)
{
    return judge_flex_over(j->machine, group_ranks(j), why);
}

bool judge_flex_serves(const job *j)
{
    bool drops = job_has(j, K_CAPACITY) && j->capacity >= 0;
    if (job_on_cpu(j) || drops || group_ranks(j) <= 1) return false;
    return j->nvlink <= 8 || group_ranks(j) <= j->nvlink;
}

const dispatcher *judge_dispatcher(const job *j)
{
    return judge_flex_serves(j) ? judge_flex(j, NULL) : dispatcher_by(J_DISPATCHER_ALLTOALL, 0);
}

int64_t judge_ep_domains(const job *j)
{
    int64_t domain = j->nvlink, ranks = group_ranks(j);
    return domain < 1 || ranks <= domain ? 1 : (ranks + domain - 1) / domain;
}

/* Experts of a token lie anywhere with equal chance: one copy an expert, of which all but one
 * part's go elsewhere. */
double judge_copies(const job *j, bool gathers)
{
    int64_t domains = judge_ep_domains(j);
    double parts = (double)(domains > 1 ? domains : group_ranks(j));
    if (parts <= 1) return 0;
    double all = parts - 1;
    return gathers ? all : (double)j->topk * all / parts;
}

bool judge_shared_overlap_stays(const job *j)
{
    return job_is_lm(j) || !dispatcher_of(j)->flex;
}
