/* program.c - building the program of a rank: which segments in which chunks. */
#include "ir/program.h"

#include <string.h>

#include "base/maths.h"
#include "ir/assembly/assembly.h"
#include "ir/build/attention.h"
#include "ir/build/build.h"
#include "ir/memory/fuse.h"
#include "ir/build/quant.h"
#include "ir/memory/offload.h"
#include "ir/memory/plan.h"
#include "ir/memory/step_packing.h"
#include "ir/shape.h"

/* ---- recompute */

static unsigned selective_drop(const job *j)
{
    return j->recompute == J_RECOMPUTE_SELECTIVE ? drop_of(j) : 0;
}

/* How many layers from `i` on one segment covers, and what it drops. Uniform: groups of
 * recompute_num_layers; block: the first so many layers of the chunk, each by itself. */
static int layers_together(const job *j, int64_t i, int64_t first, int64_t end, unsigned *drop)
{
    int64_t n = j->recompute_layers;
    bool full = j->recompute == J_RECOMPUTE_FULL;
    *drop = selective_drop(j);
    if (full && j->recompute_method == J_RECOMPUTE_METHOD_UNIFORM) {
        *drop = DROP_FULL;
        return (int)(end - i < n ? end - i : n);
    }
    if (full && i - first < n) *drop = DROP_FULL;
    return 1;
}

/* ---- segments: one for each kind of layers */

segment *assembly_segment(assembly *s)
{
    program *p = s->p;
    ARENA_GROW(s->own, p->segments, p->n_segments, p->segments_room);
    return p->segments[p->n_segments++] = ARENA_NEW(s->b.a, segment);
}

void assembly_use(assembly *s, segment *seg)
{
    program *p = s->p;
    for (int i = 0; i < p->n_segments; i++)
        if (p->segments[i] == seg) return;
    ARENA_GROW(s->own, p->segments, p->n_segments, p->segments_room);
    p->segments[p->n_segments++] = seg;
}

void assembly_done(assembly *s, segment *seg, unsigned drop)
{
    offload_options offload = offload_options_of(&s->p->s->j);
    segment_recompute(seg, drop, s->b.a);
    segment_fuse(seg, fusions_of(s->p->s), s->b.a);
    segment_offload(seg, &offload, s->b.a);
    segment_fit(seg, s->b.a);
    segment_waits(seg, s->b.a);
}

/* Layers that ring or exchange heads differently are different kinds, too. */
static bool same_layers(const setup *s, int64_t a, int64_t b, int n)
{
    bool quantises = quant_plan_of(&s->j).form != QUANT_NONE;
    for (int i = 0; i < n && quantises; i++)
        if (quant_layer(&s->j, &s->m, a + i) != quant_layer(&s->j, &s->m, b + i)) return false;
    if (!model_same_layers(&s->m, a, b, n)) return false;
    for (int i = 0; i < n && s->j.cp_comm.n > 1; i++)
        if (core_cp_comm(s, a + i) != core_cp_comm(s, b + i)) return false;
    return true;
}

/* A segment and the one that makes its copies of weights. */
typedef struct both_segments {
    const segment *seg, *copies;
} both_segments;

static both_segments known(assembly *s, segment *seg, segment *copies)
{
    assembly_use(s, seg);
    if (copies) assembly_use(s, copies);
    return (both_segments){seg, copies};
}

static segment *copies_for(assembly *s, const segment *of)
{
    if (!of->n_copies) return NULL;
    segment *seg = assembly_segment(s);
    build_copies(&s->b, seg, of);
    assembly_done(s, seg, 0);
    return seg;
}

static both_segments segment_for(assembly *s, int64_t layer, int n_layers, unsigned drop)
{
    for (int i = 0; i < s->n_kinds; i++)
        if (s->kinds[i].seg->n_layers == n_layers && s->kinds[i].drop == drop &&
            same_layers(s->p->s, s->kinds[i].layer, layer, n_layers))
            return known(s, s->kinds[i].seg, s->kinds[i].copies);
    segment *seg = assembly_segment(s);
    build_layers(&s->b, seg, layer, n_layers);
    assembly_done(s, seg, drop);
    segment *copies = copies_for(s, seg);
    ARENA_GROW(s->b.a, s->kinds, s->n_kinds, s->kinds_room);
    s->kinds[s->n_kinds++] = (known_layers){seg, copies, layer, drop};
    return (both_segments){seg, copies};
}

static void add_instance(chunk *c, both_segments b, int64_t layer)
{
    c->kinds[c->n] = b.seg->kind;
    c->list[c->n++] = (instance){b.seg, b.copies, layer};
    c->saved_bytes += b.seg->saved_bytes;
    c->host_bytes += b.seg->host_bytes;
}

static both_segments other_segment(assembly *s, void (*build)(builder *, segment *))
{
    for (int i = 0; i < s->n_others; i++)
        if (s->others[i].build == build) return known(s, s->others[i].seg, s->others[i].copies);
    segment *seg = assembly_segment(s);
    build(&s->b, seg);
    bool full = s->p->s->j.recompute == J_RECOMPUTE_FULL;
    assembly_done(s, seg, full ? 0 : selective_drop(&s->p->s->j));
    segment *copies = copies_for(s, seg);
    s->others[s->n_others++] = (struct known_other){build, seg, copies};
    return (both_segments){seg, copies};
}

/* ---- chunks */

static both_segments stage_message(assembly *s, segment_kind kind, int64_t parts)
{
    int64_t n = s->b.T * s->p->s->m.hidden * parts;
    return (both_segments){message_segment(s, kind, n, 0), NULL};
}

static void build_chunk(assembly *s, chunk *c, int64_t stage_id)
{
    const setup *set = s->p->s;
    const stage *st = &set->pipe.stages[stage_id];
    const stage_content has = stage_content_of(&set->pipe, &set->m, stage_id);
    c->st = st;
    c->list = ARENA_ARRAY(s->own, instance, st->n_layers + 5);
    c->kinds = ARENA_ARRAY(s->own, segment_kind, st->n_layers + 5);
    if (has.receives) add_instance(c, stage_message(s, SEGMENT_RECEIVE, has.parts_in), 0);
    if (has.embedding) add_instance(c, other_segment(s, build_embedding), 0);
    int64_t end = st->first_layer + st->n_layers;
    for (int64_t i = st->first_layer; i < end;) {
        unsigned drop;
        int n = layers_together(&set->j, i, st->first_layer, end, &drop);
        add_instance(c, segment_for(s, i, n, drop), i);
        i += n;
    }
    if (has.final) add_instance(c, other_segment(s, build_final), 0);
    if (has.mtp) add_instance(c, other_segment(s, build_mtp), set->m.n_layers);
    if (has.head) add_instance(c, other_segment(s, build_head), 0);
    if (has.sends) add_instance(c, stage_message(s, SEGMENT_SEND, has.parts_out), 0);
}

/* ---- the program */

static void set_sizes(program *p, const setup *s, const step_shape *z, int64_t rank)
{
    p->s = s;
    p->at = rank_coordinates(&s->lay, rank);
    p->types = z->types;
    p->B = z->B;
    p->S = z->S;
    p->Tc = z->Tc;
    p->T = z->T;
    p->micros = z->micros;
    p->n_chunks = s->pipe.vpp;
    p->posts_early = z->posts_early;
    p->gathers_late = z->gathers_late;
    p->ring_depth = z->ring_depth;
}

/* Weights, chunks and order; segments that the assembly knows already are used again. */
static void assemble(assembly *build, program *p, const setup *s, int64_t rank, arena *a)
{
    memset(p, 0, sizeof *p);
    const step_shape z = step_shape_of(s);
    set_sizes(p, s, &z, rank);
    int64_t shift = flex_shift_of(s, &p->at);
    if (shift != build->flex_shift) build->n_kinds = build->n_others = 0;
    build->flex_shift = shift;
    build->p = p;
    build->b = builder_of(s, &z, p->at, a);
    build->b.aux_gradient = 1.0 / (double)(p->micros * s->lay.dp);
    weight_list_rank(&p->weights, s, &p->at, build->own);
    p->chunks = ARENA_ARRAY(build->own, chunk, p->n_chunks);
    for (int64_t c = 0; c < p->n_chunks; c++)
        build_chunk(build, &p->chunks[c], c * s->pipe.pp + p->at.pp);
    order_shape order = order_shape_of(s, &z, p->at.pp);
    if (build->few_micros && order.micros > 2) order.micros = 2;
    order_make(&p->order, &order, build->own);
    plan_boundary(p);
    plan_step(p);
    plan_state(p);
    plan_copies(p, build->own);
}

void program_build(program *p, const setup *s, int64_t rank, arena *a)
{
    assembly build = {.own = a};
    assemble(&build, p, s, rank, a);
    build_items(&build);
    for (int i = 0; i < p->n_segments; i++) p->segments[i]->id = i; /* builders write all of one */
    plan_memory(p, false, a);
}

void program_sizes(program_size *list, const setup *s, arena *a)
{
    bool packs = step_packs(s);            /* lives are those of items, */
    bool items = packs || s->j.ep_overlap; /* pairs are among them */
    assembly build = {.sizes_only = !packs, .few_micros = packs, .own = arena_create()};
    arena_place empty = arena_mark(build.own);
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        program p;
        assemble(&build, &p, s, layout_stage_rank(&s->lay, i), a);
        if (items)
            build_items(&build);
        else
            sums_segment(&build);
        plan_memory(&p, true, build.own);
        list[i] = program_size_of(&p);
        arena_release(build.own, empty);
    }
    arena_destroy(build.own);
}

program_size program_size_of(const program *p)
{
    program_size z = {.rank = p->at.rank,
                      .arena_bytes = p->arena_bytes,
                      .host_bytes = p->host_bytes,
                      .kept_bytes = p->kept.bytes,
                      .saved_live = p->saved_live,
                      .owned = p->weights.owned};
    if (!job_on_cpu(&p->s->j) && !job_is_ours(&p->s->j)) program_live(&z, p);
    memcpy(z.bytes, p->bytes, sizeof z.bytes);
    return z;
}

const instance *program_head(const program *p)
{
    const chunk *c = &p->chunks[p->n_chunks - 1];
    return c->st->loss ? &c->list[c->n - 1] : NULL;
}
