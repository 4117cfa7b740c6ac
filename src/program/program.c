/* program.c - building the program of a rank: which segments, in which order. */
#include "program/program.h"

#include <string.h>

#include "base/maths.h"
#include "program/build.h"
#include "program/plan.h"

/* ---- recompute */

static unsigned selective_drop(const recipe *r)
{
    static const struct {
        const char *module;
        unsigned drop;
    } table[] = {{"core_attn", DROP_CORE_ATTN},
                 {"layernorm", DROP_LAYERNORM},
                 {"mla_up_proj", DROP_MLA_UP_PROJ},
                 {"moe_act", DROP_MOE_ACT},
                 {"mlp", DROP_MLP},
                 {"moe", DROP_MOE},
                 {"shared_experts", DROP_SHARED},
                 {"gdn_norm_out", DROP_GDN_NORM_OUT}};
    unsigned drop = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (recipe_is(r, K_RECOMPUTE, "selective") &&
            recipe_has(r, K_RECOMPUTE_MODULES, table[i].module))
            drop |= table[i].drop;
    return drop;
}

/* How many layers from `i` on one segment covers, and what it drops. Uniform: groups of
 * recompute_num_layers; block: the first so many layers of the chunk, each by itself. */
static int layers_together(const recipe *r, int64_t i, int64_t first, int64_t end, unsigned *drop)
{
    int64_t n = recipe_int(r, K_RECOMPUTE_LAYERS);
    bool full = recipe_is(r, K_RECOMPUTE, "full");
    *drop = selective_drop(r);
    if (full && recipe_is(r, K_RECOMPUTE_METHOD, "uniform")) {
        *drop = DROP_FULL;
        return (int)(end - i < n ? end - i : n);
    }
    if (full && i - first < n) *drop = DROP_FULL;
    return 1;
}

/* ---- segments: one for each kind of layers */

typedef struct assembly {
    program *p;
    builder b;
    struct kind {
        segment *seg;
        int64_t layer;
        unsigned drop;
    } * kinds;
    int n_kinds;
    int64_t room;
} assembly;

static bool same_layers(const model *m, int64_t a, int64_t b, int n)
{
    return memcmp(m->layer + a, m->layer + b, (size_t)n) == 0;
}

static const segment *segment_for(assembly *s, int64_t layer, int n_layers, unsigned drop)
{
    for (int i = 0; i < s->n_kinds; i++)
        if (s->kinds[i].seg->n_layers == n_layers && s->kinds[i].drop == drop &&
            same_layers(&s->p->s->m, s->kinds[i].layer, layer, n_layers))
            return s->kinds[i].seg;
    segment *seg = ARENA_NEW(s->b.a, segment);
    build_layers(&s->b, seg, layer, n_layers);
    segment_recompute(seg, drop, s->b.a);
    segment_fit(seg, s->b.a);
    s->kinds[s->n_kinds].seg = seg;
    s->kinds[s->n_kinds].layer = layer;
    s->kinds[s->n_kinds++].drop = drop;
    s->p->segments[s->p->n_segments++] = seg;
    return seg;
}

static void add_instance(chunk *c, const segment *seg, int64_t layer)
{
    c->list[c->n++] = (instance){seg, layer, c->saved_bytes};
    c->saved_bytes += seg->saved_bytes;
}

static const segment *other_segment(assembly *s, void (*build)(builder *, segment *))
{
    segment *seg = ARENA_NEW(s->b.a, segment);
    build(&s->b, seg);
    bool full = recipe_is(&s->p->s->r, K_RECOMPUTE, "full");
    segment_recompute(seg, full ? 0 : selective_drop(&s->p->s->r), s->b.a);
    segment_fit(seg, s->b.a);
    s->p->segments[s->p->n_segments++] = seg;
    return seg;
}

static void build_chunk(assembly *s, chunk *c, const stage *st)
{
    const recipe *r = &s->p->s->r;
    c->list = ARENA_ARRAY(s->b.a, instance, st->n_layers + 2);
    if (st->embedding) add_instance(c, other_segment(s, build_embedding), 0);
    int64_t end = st->first_layer + st->n_layers;
    for (int64_t i = st->first_layer; i < end;) {
        unsigned drop;
        int n = layers_together(r, i, st->first_layer, end, &drop);
        add_instance(c, segment_for(s, i, n, drop), i);
        i += n;
    }
    if (st->loss) add_instance(c, other_segment(s, build_head), 0);
}

/* ---- the program */

static void set_sizes(program *p, const setup *s)
{
    int64_t dp = s->lay.dp;
    p->s = s;
    p->B = recipe_int(&s->r, K_MBS);
    p->S = recipe_int(&s->r, K_SEQ);
    p->T = p->B * p->S;
    p->micros = recipe_int(&s->r, K_GBS) / (p->B * dp);
    p->n_chunks = s->pipe.vpp;
}

void program_build(program *p, const setup *s, arena *a)
{
    memset(p, 0, sizeof *p);
    set_sizes(p, s);
    weight_list_init(&p->weights, s, a);
    int64_t kinds = s->m.n_layers + 4;
    p->segments = ARENA_ARRAY(a, segment *, kinds);
    p->chunks = ARENA_ARRAY(a, chunk, p->n_chunks);
    assembly build = {.p = p, .kinds = arena_take(a, sizeof(struct kind) * (size_t)kinds)};
    build.b = (builder){.s = s, .a = a, .B = p->B, .S = p->S, .T = p->T};
    build.b.aux_gradient = 1.0 / (double)p->micros;
    for (int64_t c = 0; c < p->n_chunks; c++)
        build_chunk(&build, &p->chunks[c], &s->pipe.stages[c * s->pipe.pp]);
    order_shape shape = {
        .pp = s->pipe.pp,
        .vpp = s->pipe.vpp,
        .micros = p->micros,
        .group = recipe_given(&s->r, K_GROUP_SIZE) ? recipe_int(&s->r, K_GROUP_SIZE) : s->pipe.pp};
    order_make(&p->order, &shape, a);
    plan_memory(p, a);
}
