/* fuse.c - replaces neighbouring operations by one fused operation.
 *
 * The patterns are those of fused.c. Fusion runs after recompute, because a fused operation can
 * only be replayed as a whole, while selective recompute may drop the output of a norm and keep the
 * residual sum before it.
 *
 * I1  The parts of a match are neighbours on the compute stream, of one layer and one node, and
 *     agree on every buffer, size and flag that they share.
 * I2  A buffer between the parts disappears. So no other operation may use it: all its uses, in
 *     both lists, must be in matches that do without it. If the parts of a gradient read such a
 *     buffer and none of them writes it, the fused operation recomputes it from an input of the
 *     match: it recomputes heads before their norms from the projection's output, which is saved
 *     instead.
 * I3  A buffer that the parts changed in place keeps its old content if the fused operation only
 *     reads it. No later operation reads that buffer. */
#include "ir/memory/fuse.h"

#include <string.h>

#include "op/fused.h"
#include "ir/target.h"

unsigned fusions_of(const setup *s)
{
    const target_row *target = target_row_of(s);
    unsigned wanted = 0;
    if (!job_has(&s->j, K_FUSION)) return target->fusions;
#define WANTED(word) wanted |= job_lists(s->j.fusion, J_FUSION_##word) ? FUSE_##word : 0;
    FUSIONS(WANTED)
#undef WANTED
    return wanted & target->can_fuse;
}

enum { UNBOUND = -2, NO_SIZE = -1 };

typedef struct match {
    const fused_form *form;
    int phase, first; /* of the parts */
    bool holds;
    int buf[FUSED_OPERANDS]; /* UNBOUND, -1: missing, or a buffer */
    int64_t dim[OP_DIM_MAX]; /* NO_SIZE: not known yet */
    unsigned flags;
} match;

typedef struct matches {
    segment *seg;
    match *list;
    int n, room;
} matches;

/* ---- one match (I1) */

static bool is_part(const op *o, const fused_part *p, const op *first)
{
    return o->kind == p->kind && o->stream == STREAM_COMPUTE && o->node == first->node &&
           o->layer_step == first->layer_step &&
           (o->phase == PHASE_RECOMPUTE) == (first->phase == PHASE_RECOMPUTE);
}

static bool bind_operands(match *m, const int *names, const int *ids, int n)
{
    for (int i = 0; i < n; i++) {
        if (names[i] < 0 && ids[i] < 0) continue;
        if (names[i] < 0) return false;
        int *to = &m->buf[names[i]];
        if (*to == UNBOUND) *to = ids[i];
        if (*to != ids[i]) return false;
    }
    return true;
}

/* Sizes that are one of the fused kind's say what that is; the others are compared. */
static bool bind_sizes(match *m, const op *ops)
{
    const fused_form *f = m->form;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < f->n_parts; i++)
            for (int k = 0; k < f->parts[i].n_sizes; k++) {
                const fused_size *z = &f->parts[i].size[k];
                int64_t *to = m->dim + (z->n ? *z->dim : 0);
                if (!pass && z->n == 1 && z->number == 1 && *to == NO_SIZE) *to = ops[i].dim[k];
                if (pass && fused_size_of(z, m->dim) != ops[i].dim[k]) return false;
            }
    return true;
}

static bool bind_flags(match *m, const op *ops)
{
    const fused_form *f = m->form;
    const op *norm = NULL;
    for (int i = 0; i < f->n_parts; i++) m->flags |= ops[i].flags;
    for (int i = 0; i < f->n_parts; i++) {
        if (ops[i].flags != (m->flags & (op_infos[ops[i].kind].flags | REPLAY))) return false;
        if (ops[i].kind != OP_NORM) continue;
        if (norm && norm->real[REAL_NORM_eps] != ops[i].real[REAL_NORM_eps]) return false;
        norm = &ops[i];
    }
    return true;
}

static bool matches_at(match *m, const segment *seg, int phase, int first, const fused_form *f)
{
    const op *ops = seg->ops[phase] + first;
    if (ops->kind != f->parts[0].kind || first + f->n_parts > seg->n_ops[phase]) return false;
    *m = (match){.form = f, .phase = phase, .first = first};
    for (int i = 0; i < FUSED_OPERANDS; i++) m->buf[i] = UNBOUND;
    for (int i = 0; i < OP_DIM_MAX; i++) m->dim[i] = NO_SIZE;
    for (int i = 0; i < f->n_parts; i++) {
        const fused_part *p = &f->parts[i];
        if (!is_part(&ops[i], p, ops) || !bind_operands(m, p->in, ops[i].in, OP_IN_MAX) ||
            !bind_operands(m, p->out, ops[i].out, OP_OUT_MAX))
            return false;
    }
    return bind_sizes(m, ops) && bind_flags(m, ops);
}

/* ---- all of them */

static void find(matches *m, unsigned fusions, arena *a)
{
    int n_forms;
    const fused_form *forms = fused_forms(&n_forms);
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < m->seg->n_ops[phase];) {
            match one = {.holds = false};
            for (int f = 0; f < n_forms && !one.holds; f++)
                one.holds =
                    (forms[f].fusion & fusions) && matches_at(&one, m->seg, phase, i, &forms[f]);
            if (one.holds) {
                ARENA_GROW(a, m->list, m->n, m->room);
                m->list[m->n++] = one;
            }
            i += one.holds ? one.form->n_parts : 1;
        }
}

static int uses_in(const segment *seg, const op *o, int id)
{
    int n = 0;
    for (int i = 0; i < OP_IN_MAX; i++) n += seg_root(seg, o->in[i]) == id;
    for (int i = 0; i < OP_OUT_MAX; i++) n += seg_root(seg, o->out[i]) == id;
    return n;
}

static int uses_from(const segment *seg, int phase, int first, int id)
{
    int n = 0;
    for (int i = first; i < seg->n_ops[phase]; i++) n += uses_in(seg, &seg->ops[phase][i], id);
    return n;
}

/* Where a match has the buffer between its parts; -1: nowhere. */
static int between(const match *m, int id)
{
    for (int i = 0; i < m->form->n_between; i++)
        if (m->buf[FUSED_BETWEEN + i] == id) return i;
    return -1;
}

static bool is_written(const match *m, const segment *seg, int id)
{
    for (int i = 0; i < m->form->n_parts; i++)
        for (int n = 0; n < OP_OUT_MAX; n++)
            if (seg->ops[m->phase][m->first + i].out[n] == id) return true;
    return false;
}

static bool is_output(const match *m, int id)
{
    for (int n = 0; n < OP_OUT_MAX; n++)
        if (m->buf[OP_IN_MAX + n] == id) return true;
    return false;
}

/* Uses inside of matches that do without the buffer. */
static int uses_that_go(const matches *m, int id)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) {
        const match *one = &m->list[i];
        if (!one->holds || between(one, id) < 0) continue;
        for (int k = 0; k < one->form->n_parts; k++)
            n += uses_in(m->seg, &m->seg->ops[one->phase][one->first + k], id);
    }
    return n;
}

/* A buffer that its parts read between them and none of them writes; -1: there is none. */
static int read_between(const match *m, const segment *seg)
{
    for (int k = 0; k < m->form->n_between; k++) {
        int id = m->buf[FUSED_BETWEEN + k];
        if (id >= 0 && !is_written(m, seg, id)) return id;
    }
    return -1;
}

/* The buffer of an operand of this name in a match that has `id` between its parts, too (I2);
 * UNBOUND: there is none. */
static int named_beside(const matches *m, const match *one, int id, const char *name)
{
    size_t length = strcspn(name, " ");
    for (int i = 0; i < m->n; i++) {
        const match *other = &m->list[i];
        if (other == one || !other->holds || between(other, id) < 0) continue;
        const char *in = op_infos[other->form->kind].in;
        for (int k = 0; *in; k++) {
            if (strcspn(in, " ") == length && strncmp(in, name, length) == 0) return other->buf[k];
            in += strcspn(in, " ");
            in += *in == ' ';
        }
    }
    return UNBOUND;
}

/* Operands that no part names stand for what is read between the parts. */
static bool bind_rest(const matches *m, match *one)
{
    const char *in = op_infos[one->form->kind].in;
    int id = read_between(one, m->seg);
    for (int i = 0; id >= 0 && *in; i++) {
        if (one->buf[i] == UNBOUND) one->buf[i] = named_beside(m, one, id, in);
        if (one->buf[i] == UNBOUND) return false;
        in += strcspn(in, " ");
        in += *in == ' ';
    }
    return true;
}

/* I3 */
static bool leaves_inputs(const match *m, const segment *seg)
{
    for (int i = 0; i < OP_IN_MAX; i++) {
        int id = m->buf[i];
        if (id < 0 || !is_written(m, seg, id) || is_output(m, id)) continue;
        if (seg->bufs[id].parent >= 0 || seg->bufs[id].life != LIFE_TEMP ||
            uses_from(seg, m->phase, m->first + m->form->n_parts, id))
            return false;
    }
    return true;
}

static bool may_hold(const matches *m, match *one)
{
    const segment *seg = m->seg;
    for (int k = 0; k < one->form->n_between; k++) {
        int id = one->buf[FUSED_BETWEEN + k];
        if (id < 0) return false;
        const buf *b = &seg->bufs[id];
        int like = one->form->between[k].like; /* rows of the kind give it that one's format */
        if (like >= 0 && one->buf[like] >= 0 && seg->bufs[one->buf[like]].type != b->type)
            return false;
        if (b->parent >= 0 || (b->life != LIFE_TEMP && b->life != LIFE_SAVED)) return false;
        int all = uses_from(seg, SEG_FORWARD, 0, id) + uses_from(seg, SEG_BACKWARD, 0, id);
        if (all != uses_that_go(m, id)) return false; /* I2 */
    }
    return bind_rest(m, one) && leaves_inputs(one, seg);
}

/* What does not hold takes others with it. */
static void settle(matches *m)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < m->n; i++) {
            match *one = &m->list[i];
            if (!one->holds || may_hold(m, one)) continue;
            one->holds = false;
            changed = true;
        }
    }
}

/* ---- rewriting */

static op fused_op(const segment *seg, const match *m)
{
    const fused_form *f = m->form;
    const op *parts = seg->ops[m->phase] + m->first;
    op o = parts[0];
    o.kind = f->kind;
    o.flags = m->flags;
    for (int i = 0; i < f->n_parts; i++) {
        if (parts[i].phase != PHASE_WGRAD) o.phase = parts[i].phase;
        if (parts[i].kind == OP_NORM) *o.real = parts[i].real[REAL_NORM_eps]; /* their first */
    }
    const op *last = &parts[f->n_parts - 1];
    o.name = last->name;
    if (!role_is_routed(o.role) && role_is_routed(last->role)) o.role = last->role;
    memset(o.dim, 0, sizeof o.dim);
    for (int i = 0; i < OP_DIM_MAX && m->dim[i] != NO_SIZE; i++) o.dim[i] = m->dim[i];
    for (int i = 0; i < OP_IN_MAX; i++) o.in[i] = m->buf[i] >= 0 ? m->buf[i] : NONE;
    for (int i = 0; i < OP_OUT_MAX; i++)
        o.out[i] = m->buf[OP_IN_MAX + i] >= 0 ? m->buf[OP_IN_MAX + i] : NONE;
    return o;
}

/* A buffer that only forward writes and backward now reads is saved. */
static void keep(segment *seg, const op *o)
{
    for (int i = 0; i < OP_IN_MAX; i++) {
        int id = seg_root(seg, o->in[i]);
        if (id < 0 || seg->bufs[id].life != LIFE_TEMP) continue;
        bool made = false;
        for (int k = 0; k < seg->n_ops[SEG_BACKWARD]; k++)
            for (int n = 0; n < OP_OUT_MAX; n++)
                made |= seg_root(seg, seg->ops[SEG_BACKWARD][k].out[n]) == id;
        if (made) continue;
        for (int k = 0; k < seg->n_bufs; k++)
            if (k == id || seg->bufs[k].parent == id) seg->bufs[k].life = LIFE_SAVED;
        seg->bufs[id].drop |= DROP_FULL;
    }
}

static void rewrite(matches *m, arena *a)
{
    segment *seg = m->seg;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; m->list[i].holds && k < m->list[i].form->n_between; k++) {
            int id = m->list[i].buf[FUSED_BETWEEN + k];
            if (id >= 0) seg->bufs[id].life = LIFE_TEMP; /* which takes memory where it is used */
        }
    for (int phase = 0; phase < 2; phase++) {
        op *list = ARENA_RAW(a, op, seg->n_ops[phase] + 1);
        int n = 0, at = 0;
        for (int i = 0; i < m->n; i++) {
            const match *one = &m->list[i];
            if (one->phase != phase || !one->holds) continue;
            while (at < one->first) list[n++] = seg->ops[phase][at++];
            list[n++] = fused_op(seg, one);
            at += one->form->n_parts;
        }
        while (at < seg->n_ops[phase]) list[n++] = seg->ops[phase][at++];
        seg->ops[phase] = list;
        seg->n_ops[phase] = seg->ops_room[phase] = n;
    }
    for (int i = 0; i < seg->n_ops[SEG_BACKWARD]; i++)
        if (op_is_fused(seg->ops[SEG_BACKWARD][i].kind)) keep(seg, &seg->ops[SEG_BACKWARD][i]);
}

void segment_fuse(segment *seg, unsigned fusions, arena *a)
{
    if (!fusions) return;
    matches m = {.seg = seg};
    find(&m, fusions, a);
    settle(&m);
    if (m.n) rewrite(&m, a);
}
