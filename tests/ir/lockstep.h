/* lockstep.h - one segment on all ranks of a layout, in this process, operation by operation.
 *
 * Ranks take their operations one after another, all the same one; a message is done for all of
 * them at once. Every buffer has memory of its own, which is not a number before it is written, and
 * temporaries lose their numbers between the two lists. So what comes out says whether the lists
 * are right, whatever the memory plan and the backends of communication are.
 *
 * Inputs, weights and incoming gradients are cut from whole ones that do not depend on the layout;
 * outputs and gradients are put together to whole ones (sums where ranks hold parts of a sum). */
#ifndef TESTS_IR_LOCKSTEP_H
#define TESTS_IR_LOCKSTEP_H

#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "backend/kernels/kernels.h"
#include "ir/build/build.h"
#include "ir/rope.h"

typedef void (*segment_builder)(builder *b, segment *seg);

/* What gradients hold before, since they are added to; and what stands behind a buffer's end. */
static const float BEFORE = 1.0f / 1024;
enum { FENCE = 64 };

typedef struct lock_rank {
    builder b;
    segment seg;
    float **mem; /* [n_bufs] */
} lock_rank;

typedef struct lockstep {
    setup s;
    arena *a;
    lock_rank *ranks;
    int64_t n, B, seq, H;
    float **weights, **gradients; /* [rows of the table], whole */
    float *x, *y, *dy, *dx;       /* whole: [parts][B][seq][H] */
    int64_t in_parts, out_parts;
    double loss[2]; /* of STEP_LOSS and STEP_MTP_LOSS: sums over CP ranks */
} lockstep;

/* ---- whole tensors */

static inline float *numbers(arena *a, const char *name, int64_t n, double size)
{
    float *out = ARENA_ARRAY(a, float, n);
    philox g = philox_stream(7, philox_id(name));
    philox_normal(&g, 0, n, size, out);
    return out;
}

static inline float *whole_weight(lockstep *l, const param *row)
{
    int64_t n = param_elements(row);
    float *w = numbers(l->a, row->name, n, row->n_dims > 1 ? 0.15 : 0.3);
    for (int64_t i = 0; i < n && row->init == INIT_ONE && !l->s.m.zero_centered; i++) w[i] += 1;
    return w;
}

/* Position in the sequence of token i of a sample on this CP rank. */
static inline int64_t position_of(const builder *b, int64_t i)
{
    int64_t cp = b->s->lay.cp, half = b->S / 2;
    if (cp == 1) return i;
    return i < half ? b->at.cp * half + i : (2 * cp - 1 - b->at.cp) * half + i - half;
}

/* Token t of a rank's Tc as a row of whole [B][seq]. */
static inline int64_t row_of(const builder *b, int64_t t)
{
    return t / b->S * b->seq + position_of(b, t % b->S);
}

/* Copies between [parts][T][H] of a rank and the whole. */
static inline void tokens(const lockstep *l, const builder *b, float *part, float *whole,
                          int64_t parts, bool back)
{
    for (int64_t p = 0; p < parts; p++)
        for (int64_t t = 0; t < b->T; t++) {
            float *mine = part + (p * b->T + t) * l->H;
            float *theirs = whole + (p * l->B * l->seq + row_of(b, b->at.tp * b->T + t)) * l->H;
            memcpy(back ? theirs : mine, back ? mine : theirs, sizeof *mine * (size_t)l->H);
        }
}

/* Cuts a weight from the whole, or adds a gradient to it. */
static inline void weight_rows(const lockstep *l, const builder *b, const param *row, float *part,
                               float *whole, bool back)
{
    weight w = {.row = row};
    weight_box box[PARAM_SECTIONS_MAX];
    int n = weight_boxes(box, &l->s, &b->at, &w);
    int64_t local[3] = {1, 1, 1}, full[3] = {1, 1, 1};
    for (int i = 0; i < row->n_dims; i++) {
        full[i] = row->dim[i];
        local[i] = box[n - 1].local[i] + box[n - 1].dim[i];
    }
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < (row->n_dims > 0 ? box[k].dim[0] : 1); i++)
            for (int64_t j = 0; j < (row->n_dims > 1 ? box[k].dim[1] : 1); j++)
                for (int64_t m = 0; m < (row->n_dims > 2 ? box[k].dim[2] : 1); m++) {
                    int64_t from = ((box[k].at[0] + i) * full[1] + box[k].at[1] + j) * full[2] +
                                   box[k].at[2] + m;
                    int64_t to =
                        ((box[k].local[0] + i) * local[1] + box[k].local[1] + j) * local[2] +
                        box[k].local[2] + m;
                    if (back)
                        whole[from] += part[to] - BEFORE;
                    else
                        part[to] = whole[from];
                }
}

/* ---- ranks */

static inline void fill_step(const lockstep *l, const builder *b, const buf *p, float *mem)
{
    bool later = p->step >= STEP_MTP_IDS && p->step <= STEP_MTP_MASK;
    if (p->step == STEP_ROPE) rope_table(&l->s, b->at.cp, mem);
    if (p->step == STEP_LOSS || p->step == STEP_MTP_LOSS) mem[0] = mem[1] = 0;
    for (int64_t t = 0; p->step <= STEP_MTP_MASK && t < b->Tc; t++) {
        int64_t row = row_of(b, t) + later;
        bool mask = p->step == STEP_MASK || p->step == STEP_MTP_MASK;
        bool label = p->step == STEP_LABELS || p->step == STEP_MTP_LABELS;
        if (mask)
            mem[t] = row % 5 ? 0.25f : 0;
        else
            ((int32_t *)mem)[t] = (int32_t)((row * 37 + (label ? 11 : 3)) % l->s.m.vocab);
    }
}

static inline void make_memory(lockstep *l, lock_rank *r)
{
    r->mem = ARENA_ARRAY(l->a, float *, r->seg.n_bufs);
    for (int id = 0; id < r->seg.n_bufs; id++) {
        const buf *p = &r->seg.bufs[id];
        if (p->parent >= 0) {
            assert_true(p->view_at + p->bytes <= r->seg.bufs[p->parent].bytes);
            r->mem[id] = r->mem[p->parent] + p->view_at / 4;
            continue;
        }
        float *mem = r->mem[id] = ARENA_ARRAY(l->a, float, p->bytes / 4 + FENCE);
        for (int64_t i = 0; i < p->bytes / 4; i++) mem[i] = NAN;
        for (int64_t i = 0; i < FENCE; i++) mem[p->bytes / 4 + i] = BEFORE;
        if (p->life == LIFE_WEIGHT)
            weight_rows(l, &r->b, p->row, mem, l->weights[p->row - l->s.params.rows], false);
        for (int64_t i = 0; p->life == LIFE_GRADIENT && i < p->bytes / 4; i++) mem[i] = BEFORE;
        if (p->life == LIFE_STEP) fill_step(l, &r->b, p, mem);
        if (p->life == LIFE_DHIDDEN) tokens(l, &r->b, mem, l->dy, l->out_parts, false);
        if (id == 0 && p->life == LIFE_SAVED) tokens(l, &r->b, mem, l->x, l->in_parts, false);
    }
}

static inline builder builder_of(const lockstep *l, int64_t rank)
{
    builder b = {.s = &l->s, .a = l->a, .at = rank_coordinates(&l->s.lay, rank)};
    b.seq = l->seq;
    b.B = l->B;
    b.S = l->seq / l->s.lay.cp;
    b.Tc = b.B * b.S;
    b.T = b.Tc / l->s.lay.tp;
    b.aux_gradient = 1;
    return b;
}

/* ---- operations */

static inline void run_kernel(lock_rank *r, const op *o)
{
    int n;
    const kernel *table = kernels_cpu(&n), *k = kernel_pick(table, n, o, NULL, false);
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    if (!k) fail_msg("no kernel for %s", op_infos[o->kind].name);
    for (int i = 0; i < OP_IN_MAX; i++) in[i] = o->in[i] < 0 ? NULL : r->mem[o->in[i]];
    for (int i = 0; i < OP_OUT_MAX; i++) out[i] = o->out[i] < 0 ? NULL : r->mem[o->out[i]];
    size_t bytes = kernel_workspace_bytes(o);
    void *work = aligned_alloc(64, bytes / 64 * 64 + 64);
    kernels_workspace(work, bytes);
    k->run(o, in, out);
    kernels_workspace(NULL, 0);
    free(work);
}

/* What member `place` of the group gets, of all members' inputs. */
static inline void receive(const op *o, float *const *x, const members *g, float *y)
{
    int64_t n = o->dim[0], P = g->n, me = g->place;
    for (int64_t p = 0; p < P; p++)
        for (int64_t i = 0; i < n; i++) switch (o->kind) {
            case OP_ALL_GATHER:
                y[p * n + i] = x[p][i];
                break;
            case OP_ALL_TO_ALL:
                y[p * n + i] = x[p][me * n + i];
                break;
            case OP_REDUCE_SCATTER:
                y[i] = (p ? y[i] : 0) + x[p][me * n + i];
                break;
            case OP_SHIFT:
                if (p == ((me - o->dim[1]) % P + P) % P) y[i] = x[p][i];
                break;
            default:
                fail_msg("%s is no message of these builders", op_infos[o->kind].name);
            }
}

static inline int64_t received(const op *o, int64_t members_n)
{
    bool all = o->kind == OP_ALL_GATHER || o->kind == OP_ALL_TO_ALL;
    return o->dim[0] * (all ? members_n : 1);
}

static inline void run_message(lockstep *l, int phase, int i)
{
    float **came = ARENA_ARRAY(l->a, float *, l->n);
    for (int64_t r = 0; r < l->n; r++) {
        const op *o = &l->ranks[r].seg.ops[phase][i];
        members g = members_of(&l->s, o->group, r, l->a);
        float **x = ARENA_ARRAY(l->a, float *, g.n);
        if (g.n < 2) fail_msg("%s is a message to nobody", o->name);
        for (int64_t p = 0; p < g.n; p++) {
            const op *theirs = &l->ranks[g.ranks[p]].seg.ops[phase][i];
            if (theirs->kind != o->kind || theirs->group != o->group ||
                memcmp(theirs->dim, o->dim, sizeof o->dim) != 0)
                fail_msg("members disagree about %s", o->name);
            x[p] = l->ranks[g.ranks[p]].mem[o->in[0]];
        }
        int64_t n = received(o, g.n);
        if (n * 4 > l->ranks[r].seg.bufs[o->out[0]].bytes) fail_msg("%s is too long", o->name);
        came[r] = ARENA_ARRAY(l->a, float, n);
        receive(o, x, &g, came[r]);
    }
    for (int64_t r = 0; r < l->n; r++) {
        const op *o = &l->ranks[r].seg.ops[phase][i];
        int64_t n = received(o, seg_width(&l->ranks[r].b, o->group));
        memcpy(l->ranks[r].mem[o->out[0]], came[r], sizeof(float) * (size_t)n);
    }
}

static inline void run_list(lockstep *l, int phase)
{
    for (int i = 0; i < l->ranks[0].seg.n_ops[phase]; i++) {
        if (op_is_comm(l->ranks[0].seg.ops[phase][i].kind)) {
            run_message(l, phase, i);
            continue;
        }
        for (int64_t r = 0; r < l->n; r++) run_kernel(&l->ranks[r], &l->ranks[r].seg.ops[phase][i]);
    }
}

static inline void forget_temporaries(lock_rank *r)
{
    for (int id = 0; id < r->seg.n_bufs; id++)
        for (int64_t i = 0; r->seg.bufs[id].life == LIFE_TEMP && i < r->seg.bufs[id].bytes / 4; i++)
            r->mem[id][i] = NAN;
}

static inline void collect(lockstep *l, lock_rank *r)
{
    for (int id = 0; id < r->seg.n_bufs; id++) {
        const buf *p = &r->seg.bufs[id];
        if (p->parent >= 0) continue;
        for (int64_t i = 0; i < FENCE; i++)
            if (r->mem[id][p->bytes / 4 + i] != BEFORE) fail_msg("%s ran over its end", p->name);
        if (p->life == LIFE_OUTPUT) tokens(l, &r->b, r->mem[id], l->y, l->out_parts, true);
        if (p->life == LIFE_DHIDDEN) tokens(l, &r->b, r->mem[id], l->dx, l->in_parts, true);
        if (p->life == LIFE_GRADIENT)
            weight_rows(l, &r->b, p->row, r->mem[id], l->gradients[p->row - l->s.params.rows],
                        true);
        if (p->life == LIFE_STEP && r->b.at.tp == 0 && p->step == STEP_LOSS)
            l->loss[0] += (double)r->mem[id][0];
        if (p->life == LIFE_STEP && r->b.at.tp == 0 && p->step == STEP_MTP_LOSS)
            l->loss[1] += (double)r->mem[id][0];
    }
}

/* ---- the whole of it */

typedef struct lock_case {
    const char *model_name, *words;
    segment_builder build;
    unsigned drop;
    int in_parts, out_parts; /* of hidden states that the segment reads and gives */
} lock_case;

static inline lockstep *lockstep_run(arena *a, const lock_case *c)
{
    lockstep *l = ARENA_NEW(a, lockstep);
    *l = (lockstep){.a = a, .B = 2, .seq = 32, .in_parts = c->in_parts, .out_parts = c->out_parts};
    setup_of_words(&l->s, a, c->model_name, c->words);
    l->H = l->s.m.hidden;
    l->n = l->s.lay.world;
    int rows = l->s.params.n_rows;
    l->weights = ARENA_ARRAY(a, float *, rows);
    l->gradients = ARENA_ARRAY(a, float *, rows);
    for (int i = 0; i < rows; i++) {
        l->weights[i] = whole_weight(l, &l->s.params.rows[i]);
        l->gradients[i] = ARENA_ARRAY(a, float, param_elements(&l->s.params.rows[i]));
    }
    int64_t n = 2 * l->B * l->seq * l->H;
    l->x = numbers(a, "x", n, 1);
    l->dy = numbers(a, "dy", n, 1);
    l->y = ARENA_ARRAY(a, float, n);
    l->dx = ARENA_ARRAY(a, float, n);
    l->ranks = ARENA_ARRAY(a, lock_rank, l->n);
    for (int64_t r = 0; r < l->n; r++) {
        lock_rank *k = &l->ranks[r];
        k->b = builder_of(l, r);
        c->build(&k->b, &k->seg);
        segment_recompute(&k->seg, c->drop, a);
        for (int phase = 0; phase < 2; phase++)
            assert_int_equal(k->seg.n_ops[phase], l->ranks[0].seg.n_ops[phase]);
        make_memory(l, k);
    }
    run_list(l, SEG_FORWARD);
    for (int64_t r = 0; r < l->n; r++) forget_temporaries(&l->ranks[r]);
    run_list(l, SEG_BACKWARD);
    for (int64_t r = 0; r < l->n; r++) collect(l, &l->ranks[r]);
    return l;
}

static inline double distance(const float *a, const float *b, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        apart += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

#endif
