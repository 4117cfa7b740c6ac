/* numbers.c - what conditions of rules need to know beyond single knobs.
 *
 * I1  Every number is safe for any sizes: not positive, huge, not dividing. */
#include <string.h>

#include "config/precision.h"
#include "rules/words.h"

static int64_t replicas(int64_t world, int64_t a, int64_t b, int64_t c)
{
    int64_t ranks = a > 0 && b > 0 && c > 0 ? mul_sat(mul_sat(a, b), c) : 0;
    return ranks > 0 && world > 0 && world % ranks == 0 ? world / ranks : 0;
}

int64_t rule_dp(const setup *s)
{
    return replicas(I(N_GPUS), I(TP), I(CP), I(PP));
}

int64_t rule_edp(const setup *s)
{
    return replicas(I(N_GPUS), I(ETP), I(EP), I(PP));
}

int64_t rule_microbatches(const setup *s)
{
    int64_t step = mul_sat(I(MBS), rule_dp(s));
    return step > 0 && I(GBS) > 0 && I(GBS) % step == 0 ? I(GBS) / step : 0;
}

int64_t rule_group(const setup *s)
{
    return SET(GROUP_SIZE) ? I(GROUP_SIZE) : I(PP);
}

int64_t rule_stages(const setup *s)
{
    return s->pipe.why_not ? 0 : mul_sat(s->pipe.pp, CHUNKS);
}

int64_t rule_core_heads(const setup *s)
{
    int64_t all = ON(MLA) ? I(HEADS) : I(KV_HEADS), tp = I(TP) > 0 ? I(TP) : 1;
    int64_t here = all > tp ? all / tp : 1;
    bool exchanged = I(CP) > 1 && SOME_CP(whole);
    return exchanged && here > I(CP) ? here / I(CP) : exchanged ? 1 : here;
}

int64_t rule_moe_layers(const setup *s)
{
    return model_layers_with(&s->m, BLOCK_MOE);
}

int64_t rule_dense_layers(const setup *s)
{
    return model_layers_with(&s->m, BLOCK_MLP);
}

int64_t rule_tokens(const setup *s)
{
    if (I(SEQ) < 1 || I(CP) < 1 || I(TP) < 1 || I(MBS) < 1) return 0;
    int64_t shards = mul_sat(I(CP), ON(SP) ? I(TP) : 1);
    return I(SEQ) % shards ? 0 : mul_sat(I(SEQ) / shards, I(MBS));
}

int64_t rule_rotated(const setup *s)
{
    if (ON(MLA)) return s->m.attention->qk_rope_dim;
    double part = F(ROPE_PERCENT) < 0 ? 0 : F(ROPE_PERCENT) > 1 ? 1 : F(ROPE_PERCENT);
    return (int64_t)((double)s->m.attention->head_dim * part);
}

int64_t rule_product(job_numbers list)
{
    int64_t p = 1;
    for (int i = 0; i < list.n; i++) {
        if (list.item[i] < 1) return 0;
        p = mul_sat(p, list.item[i]);
    }
    return p;
}

/* Queries and keys, values and their gate, and two numbers a value head. */
int64_t rule_gdn_width(const setup *s)
{
    int64_t keys = mul_sat(2, mul_sat(s->m.gdn->k_heads, s->m.gdn->k_dim));
    int64_t values = mul_sat(2, mul_sat(s->m.gdn->v_heads, s->m.gdn->v_dim));
    return model_has(&s->m, BLOCK_GDN) ? keys + values + 2 * s->m.gdn->v_heads : 0;
}

bool rule_state_exceeds(const setup *s)
{
    if (!s->possible || s->pipe.why_not || !s->gpu || !s->gpu->memory_bytes) return false;
    state_bytes bytes;
    setup_fullest(s, &bytes);
    return state_total(&bytes) > s->gpu->memory_bytes;
}

double rule_bubble(const setup *s)
{
    int64_t m = rule_microbatches(s);
    if (m < 1 || I(PP) < 2 || CHUNKS < 1) return 0;
    double idle = (double)(I(PP) - 1) / (double)CHUNKS;
    return idle / ((double)m + idle);
}

bool rule_reaches(const setup *s, grid g, axis x)
{
    if (!s->possible || I(NVLINK) < 1 || I(GPUS_PER_NODE) < 1) return false;
    return group_reach_of(&s->lay, &(group_kind){.grid = g, .axes = 1u << x}).domains > 1;
}

bool rule_pattern_is_odd(job_numbers layers)
{
    if (!layers.listed) return layers.n && layers.item[0] < 1;
    for (int i = 0; i < layers.n; i++)
        if (layers.item[i] < 0 || layers.item[i] > 1) return true;
    return false;
}

bool rule_split_contradicts(const setup *s)
{
    return (USER(PP_LAYOUT) && (COUNTED || ACCOUNTED)) || (COUNTED && ACCOUNTED) ||
           (USER(LAYERS_PER_VSTAGE) && COUNTED);
}

int rule_precision_part(const setup *s)
{
    return precision_contradicted(&s->r, &(value){0});
}
