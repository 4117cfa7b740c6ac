/* fit.c - where the buffers of a segment lie.
 *
 * I1  Every buffer starts at a multiple of FIT_ALIGN bytes.
 * I2  Temporaries of one phase overlap in memory only where their lives do not: from the first
 *     operation that touches one to the last, both included.
 * I3  What a message touches lives until somebody needs what it brings: memory that were used again
 *     sooner would end the message there. What a copy to the host reads lives until the copies of
 *     the next group begin: those are behind it on its stream. */
#include "base/maths.h"
#include "ir/segment.h"

enum { FIT_ALIGN = 64 };

static bool is_part(const segment *seg, int used, int id)
{
    return used == id || (used >= 0 && seg->bufs[used].parent == id);
}

static bool touches(const segment *seg, const op *o, int id)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (is_part(seg, o->in[i], id)) return true;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (is_part(seg, o->out[i], id)) return true;
    return false;
}

typedef struct span {
    int id, first, last; /* operations */
    int64_t bytes, at;
} span;

/* Does the one write a buffer that the other touches? */
static bool writes_into(const segment *seg, const op *a, const op *b)
{
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (a->out[i] < 0) continue;
        if (touches(seg, b, seg_root(seg, a->out[i]))) return true;
    }
    return false;
}

/* The last operation that runs beside a message. */
static int runs_beside(const segment *seg, int phase, int message)
{
    const op *list = seg->ops[phase];
    int i = message + 1;
    while (i < seg->n_ops[phase] && !writes_into(seg, &list[message], &list[i]) &&
           !writes_into(seg, &list[i], &list[message]))
        i++;
    return i - 1;
}

/* The last operation before the next group is copied out. */
static int copies_beside(const segment *seg, int phase, int copy)
{
    const op *list = seg->ops[phase];
    int64_t group = list[copy].dim[DIM_COPY_OUT_GROUP];
    int i = copy + 1;
    while (i < seg->n_ops[phase] &&
           !(list[i].kind == OP_COPY_OUT && list[i].dim[DIM_COPY_OUT_GROUP] != group))
        i++;
    return i - 1;
}

static int lives_until(const segment *seg, int phase, int i)
{
    op_kind k = seg->ops[phase][i].kind;
    if (k == OP_COPY_OUT) return copies_beside(seg, phase, i);
    return op_is_async(k) ? runs_beside(seg, phase, i) : i;
}

/* A view's use is one of its buffer. */
static void use(const segment *seg, int id, int at, int end, span *by_id)
{
    if (id < 0) return;
    span *s = &by_id[seg_root(seg, id)];
    if (s->first < 0) s->first = at;
    if (end > s->last) s->last = end; /* I3 */
}

static int spans_of(const segment *seg, int phase, const int *ends, span *out)
{
    int n = 0;
    for (int id = 0; id < seg->n_bufs; id++)
        out[id] = (span){.id = id, .first = -1, .bytes = round_up(seg->bufs[id].bytes, FIT_ALIGN)};
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        for (int k = 0; k < OP_IN_MAX; k++) use(seg, o->in[k], i, ends[i], out);
        for (int k = 0; k < OP_OUT_MAX; k++) use(seg, o->out[k], i, ends[i], out);
    }
    for (int id = 0; id < seg->n_bufs; id++)
        if (seg->bufs[id].life == LIFE_TEMP && seg->bufs[id].parent < 0 && out[id].first >= 0)
            out[n++] = out[id];
    return n;
}

static bool overlap_in_time(const span *a, const span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place for span i that nothing covers while it lives; `placed`: those before it, in the
 * order of their places. */
static int64_t lowest_gap(const span *spans, const int *placed, int i)
{
    int64_t at = 0;
    for (int k = 0; k < i; k++) {
        const span *other = &spans[placed[k]];
        if (!overlap_in_time(&spans[i], other)) continue;
        if (other->at >= at + spans[i].bytes) return at;
        if (other->at + other->bytes > at) at = other->at + other->bytes;
    }
    return at;
}

/* Largest first. */
static int64_t fit_phase(segment *seg, int phase, arena *a)
{
    span *spans = ARENA_ARRAY(a, span, seg->n_bufs);
    int *ends = ARENA_ARRAY(a, int, seg->n_ops[phase] + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++) ends[i] = lives_until(seg, phase, i);
    int n = spans_of(seg, phase, ends, spans);
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && spans[k].bytes > spans[k - 1].bytes; k--) {
            span swap = spans[k];
            spans[k] = spans[k - 1];
            spans[k - 1] = swap;
        }
    int64_t end = 0;
    int *placed = ARENA_RAW(a, int, n + 1); /* in the order of their places */
    for (int i = 0; i < n; i++) {
        spans[i].at = lowest_gap(spans, placed, i);
        int k = i;
        for (; k > 0 && spans[placed[k - 1]].at > spans[i].at; k--) placed[k] = placed[k - 1];
        placed[k] = i;
        seg->bufs[spans[i].id].offset[phase] = spans[i].at;
        if (spans[i].at + spans[i].bytes > end) end = spans[i].at + spans[i].bytes;
    }
    return end;
}

/* A view lives as its buffer does, which recompute may have made a temporary. */
static void place_views(segment *seg)
{
    for (int id = 0; id < seg->n_bufs; id++) {
        buf *v = &seg->bufs[id];
        if (v->parent < 0) continue;
        const buf *whole = &seg->bufs[v->parent];
        v->life = whole->life;
        for (int phase = 0; phase < 2; phase++)
            v->offset[phase] = whole->offset[phase] < 0 ? -1 : whole->offset[phase] + v->view_at;
    }
}

saved_part segment_part(const segment *seg, int id)
{
    static const saved_part parts[MODULE_COUNT] = {
        [MODULE_NONE] = SAVED_OTHER,       [MODULE_EMBEDDING] = SAVED_OTHER,
        [MODULE_LAYER] = SAVED_MLP,        [MODULE_ATTENTION] = SAVED_ATTENTION,
        [MODULE_LINEAR] = SAVED_ATTENTION, [MODULE_MLP] = SAVED_MLP,
        [MODULE_MOE] = SAVED_MLP,          [MODULE_SHARED] = SAVED_MLP,
        [MODULE_PREDICTION] = SAVED_OTHER, [MODULE_HEAD] = SAVED_OTHER,
        [MODULE_MESSAGES] = SAVED_OTHER,   [MODULE_REPLICAS] = SAVED_OTHER,
        [MODULE_OPTIMIZER] = SAVED_OTHER};
    return id == 0 ? SAVED_INPUT : parts[seg->bufs[id].module];
}

/* Behind one another: buffers of this life, and where there are parts of this part. */
static int64_t stack(segment *seg, life l, int part, int64_t start)
{
    int64_t end = start;
    for (int id = 0; id < seg->n_bufs; id++) {
        buf *p = &seg->bufs[id];
        if (p->life != l || p->parent >= 0 || (part >= 0 && (int)segment_part(seg, id) != part))
            continue;
        p->offset[0] = end; /* I1 */
        end += round_up(p->bytes, FIT_ALIGN);
    }
    return end - start;
}

void segment_fit(segment *seg, arena *a)
{
    seg->saved_bytes = 0;
    for (int i = 0; i < SAVED_PARTS; i++) {
        seg->parts[i] = stack(seg, LIFE_SAVED, i, seg->saved_bytes);
        seg->saved_bytes += seg->parts[i];
    }
    seg->host_bytes = stack(seg, LIFE_HOST, -1, 0);
    segment_fit_temporaries(seg, a);
}

void segment_fit_temporaries(segment *seg, arena *a)
{
    for (int phase = 0; phase < 2; phase++)
        seg->temp_bytes[phase] = fit_phase(seg, phase, a); /* I2 */
    place_views(seg);
}
