/* pipeline.c - from knobs to stages.
 *
 * I1  Stages hold the layers in the order of the list: stage i begins where stage i - 1 ended.
 * I2  A split that the sizes forbid has a reason with the values in it, and no stages.
 * I3  Nothing that a person set is changed: a derived split fills knobs that were open. */
#include "layout/pipeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/maths.h"
#include "model/model.h"

#define I64 PRId64

/* What a split needs to know, read once. */
typedef struct split {
    const job *j;
    pipeline *p;
    arena *a;
    int64_t layers, mtp, stages;
} split;

__attribute__((format(printf, 2, 3))) static bool refuse(split *s, const char *format, ...)
{
    char buffer[512];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    s->p->why_not = arena_copy(s->a, buffer, strlen(buffer));
    s->p->stages = NULL; /* I2 */
    return false;
}

static int64_t accounted(const job *j)
{
    return j->account_embedding + j->account_loss;
}

static bool counted(const job *j)
{
    return job_has(j, K_FIRST_LAYERS) || job_has(j, K_LAST_LAYERS);
}

/* The first of these knobs that says something, or NULL. */
static const char *spoken(const job *j, bool counts, bool accounts)
{
    if (counts && job_has(j, K_FIRST_LAYERS)) return knobs[K_FIRST_LAYERS].key;
    if (counts && job_has(j, K_LAST_LAYERS)) return knobs[K_LAST_LAYERS].key;
    if (accounts && j->account_embedding) return knobs[K_ACCOUNT_EMBEDDING].key;
    if (accounts && j->account_loss) return knobs[K_ACCOUNT_LOSS].key;
    return NULL;
}

static bool sizes_fit(split *s)
{
    const job *j = s->j;
    if (s->layers < 1 || s->layers > MODEL_LAYERS_MAX)
        return refuse(s, "%s=%" I64 " is not within 1..%d", knobs[K_LAYERS].key, s->layers,
                      MODEL_LAYERS_MAX);
    if (s->mtp < 0 || s->mtp > MODEL_MTP_MAX)
        return refuse(s, "%s=%" I64 " is not within 0..%d", knobs[K_MTP].key, s->mtp,
                      MODEL_MTP_MAX);
    if (s->p->pp < 1) return refuse(s, "%s=%" I64 " is below 1", knobs[K_PP].key, s->p->pp);
    if (job_has(j, K_VPP) && j->vpp < 1)
        return refuse(s, "%s=%" I64 " is below 1", knobs[K_VPP].key, j->vpp);
    s->stages = mul_sat(s->p->pp, s->p->vpp);
    if (s->stages > STAGES_MAX)
        return refuse(s, "%s=%" I64 " x %s=%" I64 " are more than %d stages", knobs[K_PP].key,
                      s->p->pp, knobs[K_VPP].key, s->p->vpp, STAGES_MAX);
    return true;
}

static void number_layers(split *s)
{
    int64_t first = 0;
    for (int64_t i = 0; i < s->stages; i++) {
        s->p->stages[i].first_layer = first; /* I1 */
        first += s->p->stages[i].n_layers;
    }
}

/* ---- layout strings */

typedef struct symbols {
    int64_t n[4];     /* of E, t, m, L */
    char first, last; /* over all stages */
    bool layer_after_mtp;
    int64_t mtp_stage, mtp_stages; /* the first that has m; how many have */
} symbols;

static symbols count_symbols(const char **texts, int64_t n_stages)
{
    static const char letters[] = "EtmL";
    symbols c = {.mtp_stage = -1};
    for (int64_t i = 0; i < n_stages; i++) {
        for (const char *p = texts[i]; *p; p++) {
            c.n[strchr(letters, *p) - letters]++;
            if (!c.first) c.first = *p;
            c.last = *p;
            if (*p == 't' && c.mtp_stages) c.layer_after_mtp = true;
            if (*p != 'm') continue;
            if (c.mtp_stage < 0) c.mtp_stage = i;
            if (p == texts[i] || p[-1] != 'm') c.mtp_stages++;
        }
    }
    return c;
}

static bool symbols_fit(split *s, const symbols *c)
{
    const char *key = knobs[K_PP_LAYOUT].key;
    if (!c->first) return refuse(s, "%s has bars only", key);
    if (c->first != 'E') return refuse(s, "%s begins with %c, not with E", key, c->first);
    if (c->last != 'L') return refuse(s, "%s ends with %c, not with L", key, c->last);
    if (c->n[0] != 1) return refuse(s, "%s has %" I64 " E; there is one", key, c->n[0]);
    if (c->n[3] != 1) return refuse(s, "%s has %" I64 " L; there is one", key, c->n[3]);
    if (c->n[1] != s->layers)
        return refuse(s, "count(t)=%" I64 " in %s but %s=%" I64, c->n[1], key, knobs[K_LAYERS].key,
                      s->layers);
    if (c->n[2] != s->mtp)
        return refuse(s, "count(m)=%" I64 " in %s but %s=%" I64, c->n[2], key, knobs[K_MTP].key,
                      s->mtp);
    if (c->layer_after_mtp) return refuse(s, "%s has a t after an m", key);
    if (c->mtp_stages > 1)
        return refuse(s, "%s has m in %" I64 " stages; all belong into one", key, c->mtp_stages);
    return true;
}

static bool mtp_fits(split *s, const symbols *c)
{
    int64_t pp = s->p->pp, vpp = s->p->vpp;
    if (c->mtp_stage < 0 || vpp == 1) return true;
    if (c->mtp_stage / pp != vpp - 1)
        return refuse(s,
                      "%s has m in chunk %" I64 " of pipeline rank %" I64
                      "; it belongs into the last chunk, %" I64,
                      knobs[K_PP_LAYOUT].key, c->mtp_stage / pp, c->mtp_stage % pp, vpp - 1);
    if (c->mtp_stage % pp == 0)
        return refuse(s, "%s has m on pipeline rank 0, where the first chunk has the embedding",
                      knobs[K_PP_LAYOUT].key);
    return true;
}

static bool stages_fit(split *s, int64_t n_stages)
{
    const job *j = s->j;
    const char *key = knobs[K_PP_LAYOUT].key, *other = spoken(j, true, true);
    if (other) return refuse(s, "%s and %s exclude each other", key, other);
    if (n_stages % s->p->pp)
        return refuse(s, "%s has %" I64 " stages, not a multiple of %s=%" I64, key, n_stages,
                      knobs[K_PP].key, s->p->pp);
    int64_t vpp = n_stages / s->p->pp;
    if (job_has(j, K_VPP) && j->vpp != vpp)
        return refuse(s, "%s has %" I64 " stages, %" I64 " for each of %s=%" I64 ", but %s=%" I64,
                      key, n_stages, vpp, knobs[K_PP].key, s->p->pp, knobs[K_VPP].key, j->vpp);
    s->p->vpp = vpp;
    s->stages = n_stages;
    return true;
}

static status split_by_string(split *s, const char *layout, error *err)
{
    const char **texts;
    int n_stages;
    TRY(pipeline_parse(s->a, layout, &texts, &n_stages, err));
    if (!sizes_fit(s) || !stages_fit(s, n_stages)) return OK;
    symbols c = count_symbols(texts, n_stages);
    if (!symbols_fit(s, &c) || !mtp_fits(s, &c)) return OK;
    s->p->stages = ARENA_ARRAY(s->a, stage, n_stages);
    for (int i = 0; i < n_stages; i++) {
        symbols one = count_symbols(&texts[i], 1);
        s->p->stages[i] = (stage){.n_layers = one.n[1],
                                  .n_mtp = one.n[2],
                                  .embedding = one.n[0] > 0,
                                  .loss = one.n[3] > 0};
    }
    number_layers(s);
    return OK;
}

/* ---- counts for the first and the last rank */

static bool count_fits(split *s, knob_id k, int64_t n)
{
    if (!job_has(s->j, k)) return true;
    if (n < 1) return refuse(s, "%s=%" I64 "; at least one layer", knobs[k].key, n);
    if (n % s->p->vpp)
        return refuse(s, "%s=%" I64 " is not a multiple of %s=%" I64, knobs[k].key, n,
                      knobs[K_VPP].key, s->p->vpp);
    return true;
}

static bool middle_fits(split *s, int64_t layers, int64_t ranks)
{
    if (layers < 0 || ranks < 0 || (layers == 0) != (ranks == 0))
        return refuse(s,
                      "%" I64 " layers remain for %" I64 " pipeline ranks in the middle (%s=%" I64
                      ", %s=%" I64 ")",
                      layers, ranks, knobs[K_LAYERS].key, s->layers, knobs[K_PP].key, s->p->pp);
    if (ranks == 0) return true;
    if (layers % ranks)
        return refuse(s, "%" I64 " layers do not divide by %" I64 " pipeline ranks in the middle",
                      layers, ranks);
    if (layers / ranks % s->p->vpp)
        return refuse(s, "%" I64 " layers of a rank in the middle do not divide by %s=%" I64,
                      layers / ranks, knobs[K_VPP].key, s->p->vpp);
    return true;
}

static void split_by_counts(split *s)
{
    const char *other = spoken(s->j, false, true);
    if (other) {
        refuse(s, "%s and %s exclude each other", spoken(s->j, true, false), other);
        return;
    }
    if (!count_fits(s, K_FIRST_LAYERS, s->j->first_layers) ||
        !count_fits(s, K_LAST_LAYERS, s->j->last_layers))
        return;
    int64_t vpp = s->p->vpp, pp = s->p->pp;
    bool has_first = job_has(s->j, K_FIRST_LAYERS), has_last = job_has(s->j, K_LAST_LAYERS);
    int64_t first = s->j->first_layers, last = s->j->last_layers;
    int64_t ranks = pp - has_first - has_last;
    if (first > s->layers || last > s->layers) { /* also keeps the difference below in range */
        refuse(s, "%s=%" I64 " is more than %s=%" I64,
               knobs[first > s->layers ? K_FIRST_LAYERS : K_LAST_LAYERS].key,
               first > s->layers ? first : last, knobs[K_LAYERS].key, s->layers);
        return;
    }
    int64_t middle = s->layers - first - last;
    if (!middle_fits(s, middle, ranks)) return;
    for (int64_t i = 0; i < s->stages; i++) {
        int64_t rank = i % pp, n = ranks ? middle / ranks : 0;
        if (has_last && rank == pp - 1) n = last;
        if (has_first && rank == 0) n = first;
        s->p->stages[i].n_layers = n / vpp;
    }
}

/* ---- even, with embedding and loss accounted or not */

static void split_evenly(split *s)
{
    const job *j = s->j;
    int64_t units = s->layers + accounted(j), pp = s->p->pp, vpp = s->p->vpp;
    const char *with = accounted(j) == 2      ? " with embedding and loss"
                       : j->account_embedding ? " with the embedding"
                       : accounted(j)         ? " with the loss"
                                              : "";
    if (units % pp) {
        refuse(s, "%" I64 " layers%s (%s=%" I64 ") do not divide by %s=%" I64, units, with,
               knobs[K_LAYERS].key, s->layers, knobs[K_PP].key, pp);
        return;
    }
    if (units / pp % vpp) {
        refuse(s,
               "%" I64 " layers a pipeline rank%s (%s=%" I64 ", %s=%" I64
               ") do not divide by %s=%" I64,
               units / pp, with, knobs[K_LAYERS].key, s->layers, knobs[K_PP].key, pp,
               knobs[K_VPP].key, vpp);
        return;
    }
    for (int64_t i = 0; i < s->stages; i++) s->p->stages[i].n_layers = units / s->stages;
    /* What is accounted divides, so a stage has at least one unit to give. */
    s->p->stages[0].n_layers -= j->account_embedding;
    s->p->stages[s->stages - 1].n_layers -= j->account_loss;
}

/* ---- layers of a virtual stage */

/* The number of chunks that "n layers each" means, or 0 with the reason. */
static int64_t chunks_of(split *s)
{
    const job *j = s->j;
    const char *key = knobs[K_LAYERS_PER_VSTAGE].key;
    int64_t each = j->layers_per_vstage, units = s->layers + accounted(j);
    if (counted(j))
        return refuse(s, "%s and %s exclude each other; %s goes with both", key,
                      spoken(j, true, false), knobs[K_VPP].key);
    if (each < 1) return refuse(s, "%s=%" I64 " is below 1", key, each);
    if (units % s->p->pp)
        return refuse(s, "%" I64 " layers do not divide by %s=%" I64, units, knobs[K_PP].key,
                      s->p->pp);
    if (units / s->p->pp % each)
        return refuse(s, "%" I64 " layers a pipeline rank do not divide by %s=%" I64,
                      units / s->p->pp, key, each);
    return units / s->p->pp / each;
}

/* ---- the whole */

static split split_init(pipeline *p, const job *j, arena *a)
{
    int64_t vpp = j->vpp;
    *p = (pipeline){.pp = j->pp, .vpp = vpp > 1 ? vpp : 1};
    return (split){.j = j, .p = p, .a = a, .layers = j->layers, .mtp = j->mtp};
}

static bool chunks_unknown(const job *j)
{
    return job_has(j, K_LAYERS_PER_VSTAGE) && !job_has(j, K_VPP) && !job_has(j, K_PP_LAYOUT);
}

status pipeline_init(pipeline *p, const job *j, arena *a, error *err)
{
    split s = split_init(p, j, a);
    const char *layout = j->pp_layout;
    if (layout) return split_by_string(&s, layout, err);
    if (!sizes_fit(&s)) return OK;
    if (chunks_unknown(j)) {
        int64_t vpp = chunks_of(&s);
        if (!vpp) return OK;
        p->vpp = vpp;
        if (!sizes_fit(&s)) return OK;
    }
    p->stages = ARENA_ARRAY(a, stage, s.stages);
    p->stages[0].embedding = true;
    p->stages[s.stages - 1].loss = true;
    p->stages[s.stages - 1].n_mtp = s.mtp;
    if (counted(j))
        split_by_counts(&s);
    else
        split_evenly(&s);
    if (!p->why_not) number_layers(&s);
    return OK;
}

/* ---- deriving */

static status derive_chunks(resolving *d, error *err)
{
    const job *j = d->j;
    pipeline p;
    split s = split_init(&p, j, d->r->a);
    const char *layout = j->pp_layout;
    if (layout) {
        const char **texts;
        int n;
        TRY(pipeline_parse(d->r->a, layout, &texts, &n, err));
        if (p.pp > 0 && n % p.pp == 0)
            resolve_fill(d, K_VPP, value_of_int(n / p.pp), FROM_DERIVED,
                         "the layout has %d stages for PP %" I64, n, p.pp);
    } else if (chunks_unknown(j) && sizes_fit(&s)) {
        int64_t vpp = chunks_of(&s);
        if (vpp > 0)
            resolve_fill(d, K_VPP, value_of_int(vpp), FROM_DERIVED,
                         "%" I64 " layers a pipeline rank, %" I64 " a virtual stage",
                         (s.layers + accounted(j)) / p.pp, j->layers_per_vstage);
    }
    return OK;
}

/* Embedding and loss counted as layers, where that divides. */
static bool derive_accounted(resolving *d, int64_t layers, int64_t stages)
{
    if (!resolve_is_open(d, K_ACCOUNT_EMBEDDING) || !resolve_is_open(d, K_ACCOUNT_LOSS))
        return false;
    bool both = (layers + 2) % stages == 0;
    if (!both && (layers + 1) % stages) return false;
    const char *why = arena_text(
        d->r->a, "%" I64 " layers do not divide by PP x VPP = %" I64 "; with %s %" I64 " do",
        layers, stages, both ? "embedding and loss" : "the embedding", layers + 1 + both);
    resolve_fill(d, K_ACCOUNT_EMBEDDING, value_of_bool(true), FROM_DERIVED, "%s", why);
    if (both) resolve_fill(d, K_ACCOUNT_LOSS, value_of_bool(true), FROM_DERIVED, "%s", why);
    return true;
}

static void derive_split(resolving *d)
{
    const job *j = d->j;
    pipeline p;
    split s = split_init(&p, j, d->r->a);
    bool said = job_has(j, K_PP_LAYOUT) || counted(j) || accounted(j) || chunks_unknown(j);
    if (said || !sizes_fit(&s) || s.layers % s.stages == 0) return;
    if (p.vpp > s.layers + s.mtp + 2) return; /* no rank could fill its chunks: nobody means that */
    if (derive_accounted(d, s.layers, s.stages)) return;
    resolve_fill(d, K_PP_LAYOUT,
                 value_of_text(pipeline_balanced(d->r->a, s.layers, s.mtp, s.stages)), FROM_DERIVED,
                 "%" I64 " layers do not divide by PP x VPP = %" I64
                 ", nor with embedding or loss: balanced",
                 s.layers, s.stages);
}

status pipeline_derive(resolving *d, error *err)
{
    const job *j = d->j;
    resolve_default(d, K_PP);
    TRY(derive_chunks(d, err));
    if (!job_is_lm(j)) derive_split(d);
    return OK;
}
