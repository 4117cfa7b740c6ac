/* classes.c - finds ranks whose programs are alike, so that one program stands for many.
 *
 * A program depends on the rank's pipeline stage and on its coordinates on the axes of both grids:
 * the slice of the optimizer, the part of the vocabulary, the halves of a sequence. Most
 * coordinates change no message and no size. So for every stage a few ranks (probes) are built that
 * differ from its first rank in one coordinate, and some that differ in several. If the probes of
 * an axis differ, every coordinate of that axis is built, combined with those of the other axes of
 * its grid that differ. In the end all probes must match their class; otherwise every rank of the
 * stage is built.
 *
 * I1  A rank's class has the trace and the bytes of the rank's own program wherever it was built.
 * I2  Classes never span stages. */
#include <string.h>

#include "predict/audit/state.h"

#include "base/waiting.h"

enum { PROBES_MAX = 40, AXES = 3 };

static bool class_equal(const audit_class *a, const audit_class *b)
{
    return a->pp == b->pp && trace_equal(&a->trace, &b->trace) &&
           memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0 && a->arena_bytes == b->arena_bytes &&
           a->host_bytes == b->host_bytes;
}

static int32_t class_keep(audit_state *t, const audit_class *c)
{
    for (int i = t->n_classes - 1; i >= 0 && t->classes[i].pp == c->pp; i--)
        if (class_equal(&t->classes[i], c)) return i;
    if (t->n_classes == t->classes_room) {
        int room = 2 * t->classes_room + 64;
        audit_class *more = ARENA_ARRAY(t->a, audit_class, room);
        if (t->n_classes) memcpy(more, t->classes, sizeof *more * (size_t)t->n_classes);
        t->classes = more;
        t->classes_room = room;
    }
    t->classes[t->n_classes] = *c;
    return t->n_classes++;
}

static int32_t build(audit_state *t, int64_t rank)
{
    if (t->known[rank] >= 0) return t->known[rank];
    arena *scratch = arena_create();
    program *p = ARENA_NEW(scratch, program);
    program_build(p, t->s, rank, scratch);
    audit_class c = {.rank = rank,
                     .pp = p->at.pp,
                     .trace = trace_of(t->book, p),
                     .arena_bytes = p->arena_bytes,
                     .host_bytes = p->host_bytes,
                     .alive = order_peak(&p->order),
                     .gathers_late = p->gathers_late};
    memcpy(c.bytes, p->bytes, sizeof c.bytes);
    int before = t->n_classes;
    t->known[rank] = class_keep(t, &c);
    if (t->n_classes > before) races_of_kind(t, p);
    arena_destroy(scratch);
    t->out->built++;
    return t->known[rank];
}

/* ---- the ranks of a stage */

static const axis grid_axes[2][AXES] = {{AXIS_TP, AXIS_CP, AXIS_DP}, {AXIS_TP, AXIS_EP, AXIS_DP}};

static int64_t rank_at_place(const layout *l, grid g, int which, int64_t place, int64_t base)
{
    axis x = grid_axes[g][which];
    return base + (place - layout_coordinate(l, g, x, base)) * l->stride[g][x];
}

/* Stage ranks are numbered by their dense places. */
static int64_t stage_rank(const layout *l, int64_t base, int64_t i)
{
    for (int k = 0; k < AXES; k++) {
        axis x = grid_axes[GRID_DENSE][k];
        base += i % l->size[GRID_DENSE][x] * l->stride[GRID_DENSE][x];
        i /= l->size[GRID_DENSE][x];
    }
    return base;
}

static int64_t stage_size(const layout *l)
{
    return l->world / l->pp;
}

static void build_every(audit_state *t, int64_t base)
{
    for (int64_t i = 0; i < stage_size(&t->s->lay); i++) {
        int64_t r = stage_rank(&t->s->lay, base, i);
        t->class_of[r] = build(t, r);
    }
}

/* ---- probes */

typedef struct probes {
    int64_t ranks[PROBES_MAX];
    int n;
    bool matters[2][AXES];
} probes;

static bool probe(audit_state *t, probes *p, int64_t base, int64_t rank)
{
    if (p->n < PROBES_MAX) p->ranks[p->n++] = rank;
    return build(t, rank) != build(t, base);
}

static void probe_axes(audit_state *t, probes *p, int64_t base)
{
    const layout *l = &t->s->lay;
    for (int g = 0; g < 2; g++)
        for (int k = 0; k < AXES; k++) {
            int64_t n = l->size[g][grid_axes[g][k]];
            const int64_t places[] = {1, n / 2, n - 1};
            for (int i = 0; i < 3 && n > 1; i++)
                if (places[i] > 0 && (i == 0 || places[i] != places[i - 1]) &&
                    probe(t, p, base, rank_at_place(l, (grid)g, k, places[i], base)))
                    p->matters[g][k] = true;
        }
}

/* Ranks off the axes: the last one, and some in between. */
static void probe_between(audit_state *t, probes *p, int64_t base)
{
    int64_t n = stage_size(&t->s->lay);
    for (int i = 1; i <= 3; i++)
        probe(t, p, base, stage_rank(&t->s->lay, base, i == 3 ? n - 1 : n * i / 3 + i));
}

/* Every rank of the stage has the class of the rank with the same places on the axes that matter,
 * and place 0 on the others. */
static void assign(audit_state *t, grid g, const bool matters[AXES], int64_t base)
{
    const layout *l = &t->s->lay;
    for (int64_t i = 0; i < stage_size(l); i++) {
        int64_t r = stage_rank(l, base, i), like = base;
        for (int k = 0; k < AXES; k++)
            if (matters[k])
                like = rank_at_place(l, g, k, layout_coordinate(l, g, grid_axes[g][k], r), like);
        t->class_of[r] = build(t, like);
    }
}

static bool probes_agree(const audit_state *t, const probes *p) /* I1 */
{
    for (int i = 0; i < p->n; i++)
        if (t->class_of[p->ranks[i]] != t->known[p->ranks[i]]) return false;
    return true;
}

/* Gradients of uncut weights and of copies of the word table are summed slice by slice: sizes
 * depend on the optimizer's place, that is on CP and DP, and probes may miss the places that are
 * different. */
static bool sums_slices(audit_state *t, int64_t base)
{
    if (t->s->lay.tp > 1) return true;
    arena_place mark = arena_mark(t->a);
    bool shares_words = members_of(t->s, GROUP_EMBEDDING, base, t->a).n > 1;
    arena_release(t->a, mark);
    return shares_words;
}

static void make_stage(audit_state *t, int64_t base)
{
    if (t->o->every) {
        build_every(t, base);
        return;
    }
    probes p = {0};
    if (sums_slices(t, base)) p.matters[GRID_DENSE][1] = p.matters[GRID_DENSE][2] = true;
    probe_axes(t, &p, base);
    probe_between(t, &p, base);
    for (int g = 0; g < 2; g++) {
        assign(t, (grid)g, p.matters[g], base);
        if (probes_agree(t, &p)) return;
    }
    build_every(t, base);
}

/* ---- mistakes of tests */

static void plant(audit_state *t)
{
    for (int64_t r = 0; r < t->s->lay.world; r++) {
        audit_class c = t->classes[t->class_of[r]];
        t->o->plant(t->o->with, r, t->book, &c.trace);
        trace_seal(t->book, &c.trace);
        if (trace_equal(&c.trace, &t->classes[t->class_of[r]].trace)) continue;
        c.rank = r;
        t->class_of[r] = class_keep(t, &c);
    }
}

void classes_make(audit_state *t)
{
    static const double built = 0.8; /* of an audit's time; matching is the rest */
    const layout *l = &t->s->lay;
    t->class_of = ARENA_ARRAY(t->a, int32_t, l->world);
    t->known = ARENA_ARRAY(t->a, int32_t, l->world);
    for (int64_t r = 0; r < l->world; r++) t->known[r] = -1;
    for (int64_t p = 0; p < l->pp; p++) {
        make_stage(t, layout_stage_rank(l, p)); /* I2 */
        waiting_part(built * (double)(p + 1) / (double)l->pp);
    }
    if (t->o->plant) plant(t);
    for (int64_t r = l->world - 1; r >= 0; r--) {
        t->classes[t->class_of[r]].n++;
        t->classes[t->class_of[r]].rank = r;
    }
}
