/* search_inner.c - lists and counts the inner layouts of given parallel sizes: recompute, offload,
 * CUDA graphs, overlap. The counts tell how many layouts a bound excludes. */
#include "plan/search_parts.h"

const inner *search_inner_table(search *s, const choice *c)
{
    bool step = s->sp.widest == SCOPE_STEP && space_captures_step(&s->sp, c);
    inner **known = &s->inner[c->precision][c->to][step][c->ep > 1][c->pp > 1][c->vpp > 1];
    if (*known) return *known;
    inner *t = *known = ARENA_NEW(s->a, inner);
    choice x = *c;
    for (int b = 0; b < OVERLAP_KINDS; b++)
        for (int i = 0; i < SCOPES * OFFLOADS * s->sp.n_drops; i++) {
            int d = i / (SCOPES * OFFLOADS);
            x.overlap = (overlap_kind)b;
            x.graphs = (graph_scope)(i % SCOPES);
            x.offload = i / SCOPES % OFFLOADS;
            x.drop = s->sp.drops[d];
            bool ok = space_inner_ok(&s->sp, &x);
            t->ok[b][x.graphs][x.offload][d] = ok;
            t->n_by[x.offload][d][b >= OVERLAP_EP][x.graphs] += ok;
            for (int from = 0; from <= x.offload; from++) t->n_from[d][b >= OVERLAP_EP][from] += ok;
            t->n += ok;
        }
    return t;
}

int64_t search_inner_count(search *s, const choice *c)
{
    return search_inner_table(s, c)->n;
}

bool search_is_now(const search *s, const choice *c, bool rare_stages)
{
    return s->all || (rare_stages || space_etp_is_rare(c)) == s->rare;
}

int64_t search_count_pp(search *s, const choice *c, int i)
{
    int64_t n = 0;
    choice x = *c;
    x.pp = s->sp.pp.v[i];
    for (x.vpp = 1; x.vpp <= 2; x.vpp++) { /* all above 1 are alike here */
        int splits = 0;
        for (int rare = 0; rare < 2; rare++)
            if (search_is_now(s, c, rare)) splits += s->sp.of_pp[i].many[rare][x.vpp > 1];
        if (splits && space_stages_ok(&s->sp, &x)) n += splits * search_inner_count(s, &x);
    }
    return n;
}

static int64_t count_stages(search *s, const choice *c)
{
    int64_t n = 0;
    for (int i = 0; i < s->sp.pp.n; i++) n += search_count_pp(s, c, i);
    return n;
}

void search_each_experts(search *s, const node *n, expert_visit *visit)
{
    choice c = n->c;
    for (int i = s->sp.ep.n - 1; i >= 0; i--)
        for (int k = 0; k < s->sp.etp.n; k++)
            for (int to = TO_KINDS - 1; to >= 0; to--) {
                c.ep = s->sp.ep.v[i];
                c.etp = s->sp.etp.v[k];
                c.to = (dispatch_choice)to;
                if (!s->done && space_experts_ok(&s->sp, &c)) visit(s, n, &c);
            }
}

void search_count_visit(search *s, const node *n, choice *c)
{
    (void)n;
    s->out->counts.legal += count_stages(s, c);
}

void search_slow_visit(search *s, const node *n, choice *c)
{
    (void)n;
    s->out->counts.slow += count_stages(s, c);
}

void search_rule_visit(search *s, const node *n, choice *c)
{
    (void)n;
    s->out->counts.rules += count_stages(s, c);
}

choice search_smallest(const search *s, const choice *c)
{
    choice x = *c;
    x.overlap = OVERLAP_NOTHING;
    x.graphs = SCOPE_NONE;
    x.drop = s->sp.n_drops ? s->sp.drops[s->sp.n_drops - 1] : 0;
    x.offload = OFFLOAD_ALL;
    while (x.offload > 0 && !space_inner_ok(&s->sp, &x)) x.offload--;
    return x;
}
