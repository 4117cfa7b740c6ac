/* recompute.c - dropping what forward saved, and making it again in backward.
 *
 * A dropped buffer is a temporary of both phases. Before the first operation of backward that reads
 * it, the operations of forward that wrote it are replayed, and before those, whatever they need
 * that is not there. So only what backward really reads is computed again: the last GEMM of a
 * layer, say, never is.
 *
 * I1  A replayed operation writes whole buffers again, and everything that forward wrote into them
 *     afterwards is replayed too: a buffer is either as forward left it, or not there.
 * I2  Replays leave side effects out. Forward lists have none: losses and counters are written in
 *     backward. */
#include <assert.h>
#include <string.h>

#include "ir/segment.h"

const drop_module drop_modules[DROP_MODULES] = {
#define RECOMPUTE_MODULE(id, word, condition, rung, covers)                                        \
    {word, J_RECOMPUTE_MODULES_##id, DROP_##id, covers, rung},
#include "ir/recompute_modules.def"
};

unsigned drop_rung(unsigned rung)
{
    for (int i = 0; i < DROP_MODULES && rung; i++)
        if (drop_modules[i].rung == rung) return drop_modules[i].drop;
    return rung ? DROP_FULL : 0;
}

unsigned drop_of(const job *j)
{
    return j->recompute_modules.set >> 1 & (DROP_FULL - 1u);
}

unsigned drop_of_model(const model *m)
{
    unsigned all = 0;
#define RECOMPUTE_MODULE(id, word, condition, ...)                                                 \
    if (condition) all |= DROP_##id;
#include "ir/recompute_modules.def"
    return all;
}

unsigned drop_tidy(unsigned drop)
{
    unsigned covered = 0;
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop & drop_modules[i].drop) covered |= drop_modules[i].covers;
    return drop & ~covered;
}

typedef struct replay {
    segment *seg;
    const op *forward;
    int n_forward;
    bool *here;     /* [n_bufs] holds what forward left; by root */
    bool *replayed; /* [n_forward] */
    int *first;     /* [n_bufs + 1] of `writers`: forward operations that write each buffer */
    int *writers;
    op *out;
    int n_out;
} replay;

/* An operation may name a buffer twice: then it stands there twice. */
static void list_writers(replay *r, arena *a)
{
    int n_bufs = r->seg->n_bufs;
    r->first = ARENA_ARRAY(a, int, n_bufs + 2);
    r->writers = ARENA_ARRAY(a, int, r->n_forward *OP_OUT_MAX + 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < r->n_forward; i++)
            for (int k = 0; k < OP_OUT_MAX; k++) {
                int id = seg_root(r->seg, r->forward[i].out[k]);
                if (id < 0) continue;
                if (pass)
                    r->writers[r->first[id + 1]++] = i;
                else
                    r->first[id + 2]++;
            }
        for (int id = 2; !pass && id <= n_bufs + 1; id++) r->first[id] += r->first[id - 1];
    }
}

static void make(replay *r, int id);

static void need_inputs(replay *r, const op *o)
{
    for (int i = 0; i < OP_IN_MAX; i++) {
        int id = seg_root(r->seg, o->in[i]);
        if (id >= 0 && !r->here[id]) make(r, id);
    }
}

/* Replays, in order, every forward operation that writes the buffer; buffers that come along are
 * made whole (I1). */
static void make(replay *r, int id)
{
    bool *part = r->here; /* marks what is being made, so that in-place operations do not recurse */
    part[id] = true;
    for (int w = r->first[id]; w < r->first[id + 1]; w++) {
        int i = r->writers[w];
        const op *o = &r->forward[i];
        if (r->replayed[i]) continue;
        r->replayed[i] = true;
        need_inputs(r, o);
        r->out[r->n_out] = *o;
        r->out[r->n_out].phase = PHASE_RECOMPUTE;
        r->out[r->n_out++].flags |= REPLAY;
        for (int k = 0; k < OP_OUT_MAX; k++) {
            int other = seg_root(r->seg, o->out[k]);
            if (other >= 0 && other != id) make(r, other);
        }
    }
}

static void drop_buffers(segment *seg, unsigned drop)
{
    for (int id = 1; id < seg->n_bufs; id++) { /* buffer 0 is the input: always kept */
        buf *p = &seg->bufs[id];
        if (p->life == LIFE_SAVED && (p->drop & drop)) p->life = LIFE_TEMP;
    }
}

static bool is_read(const segment *seg, int id)
{
    for (int i = 0; i < seg->n_ops[SEG_BACKWARD]; i++)
        for (int k = 0; k < OP_IN_MAX; k++)
            if (seg_root(seg, seg->ops[SEG_BACKWARD][i].in[k]) == id) return true;
    return false;
}

/* Inputs of GEMMs that have copies of them: nobody reads them again. */
static void drop_inputs(segment *seg)
{
    for (int id = 1; id < seg->n_bufs; id++) {
        buf *p = &seg->bufs[id];
        if (p->stored && p->life == LIFE_SAVED && !is_read(seg, id)) p->life = LIFE_TEMP;
    }
}

void segment_recompute(segment *seg, unsigned drop, arena *a)
{
    drop_inputs(seg);
    seg->dropped = drop;
    if (!drop) return;
    drop_buffers(seg, drop);
    int n = seg->n_ops[SEG_BACKWARD], n_forward = seg->n_ops[SEG_FORWARD];
    replay r = {.seg = seg,
                .forward = seg->ops[SEG_FORWARD],
                .n_forward = n_forward,
                .here = ARENA_ARRAY(a, bool, seg->n_bufs),
                .replayed = ARENA_ARRAY(a, bool, n_forward + 1),
                .out = ARENA_RAW(a, op, n + n_forward)};
    list_writers(&r, a);
    for (int id = 0; id < seg->n_bufs; id++) r.here[id] = seg->bufs[id].life != LIFE_TEMP;
    bool *written = ARENA_ARRAY(a, bool, seg->n_bufs); /* by backward itself */
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[SEG_BACKWARD][i];
        for (int k = 0; k < OP_IN_MAX; k++) {
            int id = seg_root(seg, o->in[k]);
            if (id >= 0 && !r.here[id] && !written[id]) make(&r, id);
        }
        r.out[r.n_out++] = *o;
        for (int k = 0; k < OP_OUT_MAX; k++)
            if (o->out[k] >= 0) written[seg_root(seg, o->out[k])] = true;
    }
    assert(r.n_out <= n + n_forward);
    seg->ops[SEG_BACKWARD] = r.out;
    seg->n_ops[SEG_BACKWARD] = seg->ops_room[SEG_BACKWARD] = r.n_out;
}
