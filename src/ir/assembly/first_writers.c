/* first_writers.c - gradients that need no zeros.
 *
 * Segments are shared between microbatches, so whether a weight's gradient is written or added to
 * cannot stand in a segment: it is a matter of the item. The item whose backward is the first of
 * its instance in the step gets a copy of its segment in which the first operation that touches a
 * gradient has OVERWRITE.
 *
 * I1  Only what one instance alone uses is written. A head and a word table have several writers
 *     where they are the same, or a prediction module uses them, too.
 * I2  Only what an operation writes whole, and touches before any other of its list. */
#include "ir/assembly/items.h"
#include "ir/target.h"

/* ---- operations */

static bool words_are_written(const setup *s)
{
    return !s->m.n_mtp && !s->m.tied; /* I1 */
}

static int gradient_of(const op *o)
{
    return o->out[op_infos[o->kind].overwrites - 1];
}

static bool touches(const op *o, int id)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] == id) return true;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] == id) return true;
    return false;
}

typedef struct list_of {
    const segment *seg;
    int phase, owner; /* of the half that is the first */
    bool words;       /* tables of words may be written */
} list_of;

/* May operation k of a list write its gradient? */
static bool may_write(const list_of *l, int k)
{
    const segment *seg = l->seg;
    const op *o = &seg->ops[l->phase][k];
    if (!op_can_overwrite(o->kind)) return false;
    int id = gradient_of(o);
    if (id < 0) return false;
    const buf *dw = &seg->bufs[id];
    if (dw->life != LIFE_GRADIENT || dw->owner != l->owner || dw->parent >= 0) return false;
    if (!param_of_layer(dw->row) && !(op_is(o->kind, WORD_TABLE) && l->words))
        return false; /* I1 */
    if (op_elements(o, OP_IN_MAX + op_infos[o->kind].overwrites - 1) !=
        dtype_elements(dw->type, dw->bytes))
        return false;
    for (int i = 0; i < k; i++)
        if (touches(&seg->ops[l->phase][i], id)) return false; /* I2 */
    return true;
}

static int count_writes(const list_of *l)
{
    int n = 0;
    for (int k = 0; k < l->seg->n_ops[l->phase]; k++) n += may_write(l, k);
    return n;
}

/* ---- segments */

typedef struct variant {
    const segment *of;
    segment *made; /* NULL: nothing in it can write */
} variant;

typedef struct variants {
    variant *list;
    int n, room;
} variants;

static segment *made_of(item_walk *w, const segment *seg, int phase, int owner)
{
    const list_of l = {seg, phase, owner, words_are_written(w->p->s)};
    if (!count_writes(&l)) return NULL;
    segment *made = assembly_segment(w->s);
    *made = *seg;
    made->ops[phase] = ARENA_RAW(w->s->b.a, op, seg->n_ops[phase]);
    for (int k = 0; k < seg->n_ops[phase]; k++) {
        made->ops[phase][k] = seg->ops[phase][k];
        if (may_write(&l, k)) made->ops[phase][k].flags |= OVERWRITE;
    }
    return made;
}

static segment *variant_of(item_walk *w, variants *v, const segment *seg, int phase, int owner)
{
    for (int i = 0; i < v->n; i++)
        if (v->list[i].of == seg) return v->list[i].made;
    ARENA_GROW(w->s->own, v->list, v->n, v->room);
    segment *made = made_of(w, seg, phase, owner);
    v->list[v->n++] = (variant){seg, made};
    return made;
}

/* ---- items */

static void mark_written(program *p, const segment *seg, int phase, const item_at *at)
{
    const instance *in = &p->chunks[at->chunk].list[at->instance];
    for (int k = 0; k < seg->n_ops[phase]; k++) {
        const op *o = &seg->ops[phase][k];
        if (!(o->flags & OVERWRITE)) continue;
        const buf *dw = &seg->bufs[gradient_of(o)];
        int64_t layer = in->seg->n_layers ? in->layer + dw->layer_step : p->s->m.n_layers;
        if (op_is(o->kind, WORD_TABLE)) layer = 0;
        const weight *x = weight_find(&p->weights, dw->row, layer, at->chunk);
        p->written[x - p->weights.list] = true;
    }
}

void first_writers(item_walk *w)
{
    program *p = w->p;
    if (!target_row_of(p->s)->writes_first) return;
    int64_t slots = 1;
    for (int64_t c = 0; c < p->n_chunks; c++)
        if (p->chunks[c].n > slots) slots = p->chunks[c].n;
    bool *seen = ARENA_ARRAY(w->s->own, bool, p->n_chunks *slots);
    p->written = ARENA_ARRAY(w->s->own, bool, p->weights.n + 1);
    variants made = {0};
    for (int64_t i = 0; i < p->items[PART_STEP].n; i++) {
        item *it = &p->items[PART_STEP].list[i];
        int owner = it->seg->kind == SEGMENT_PAIR;
        const item_at *at = &it->at[owner];
        if (at->chunk < 0 || (!owner && it->phase != SEG_BACKWARD)) continue;
        bool *before = &seen[at->chunk * slots + at->instance];
        if (*before) continue;
        *before = true;
        segment *first = variant_of(w, &made, it->seg, it->phase, owner);
        if (!first) continue;
        it->seg = first;
        mark_written(p, first, it->phase, at);
    }
}
