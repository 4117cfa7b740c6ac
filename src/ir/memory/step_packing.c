/* step_packing.c - places by the lives of buffers in the step's one list of operations.
 *
 * I1  Time is the number of an operation among those of the first microbatch. A piece lives from
 *     the first operation that touches it to the last, both included; where one of them is not on
 *     the compute stream, from the beginning of that list to its end, behind which all of it is
 *     done. What messages of the program touch, and what is of no microbatch where there are
 *     several, lives always.
 * I2  Pieces overlap in memory only where their lives do not.
 * I3  Of a single microbatch, a gradient that an operation writes whole is a window: free before
 *     that list. All other bytes between the gradients' start and the saved region's are never
 *     free. There state ends and what a step works in begins, two allocations: nothing lies across.
 * I4  The largest first, or those with the most bytes times operations first, whichever ends lower:
 *     a matter of sizes and lives alone. By life alone, by first and by last operation were tried
 *     at six sizes of two models, and end higher at each (by 1 to 28 % of the region). */
#include "ir/memory/step_packing.h"

#include <stdlib.h>

#include "base/maths.h"
#include "ir/shape.h"
#include "ir/target.h"

enum {
    PIECE_ALIGN = 256,
    PIECES_MOST = 10000, /* of about a hundred layers: each is compared with all (0.2 s) */
};

bool step_packs(const setup *s)
{
    return s->j.pack_step && target_row_of(s)->writes_first && s->pipe.pp == 1 &&
           s->pipe.vpp == 1 && !s->j.ep_overlap && !s->j.offload;
}

typedef struct piece {
    int64_t bytes, at;
    int64_t first, last; /* operations; first -1: nobody touches it */
} piece;

typedef struct packer {
    program *p;
    item_list *items;
    int64_t *saved; /* [instances] the number of the first piece of an instance */
    piece *list;    /* saved buffers, then temporaries and workspace as items have them */
    int64_t n, room;
    piece *fixed; /* in the order of their places: windows, and what is between them (I3) */
    int64_t n_fixed;
    int64_t end; /* of time */
    arena *a;
} packer;

/* ---- pieces */

typedef struct span {
    int64_t first, last; /* operations */
} span;

static void use(packer *w, int64_t i, int64_t bytes, span t)
{
    piece *x = &w->list[i];
    x->bytes = round_up(bytes, PIECE_ALIGN);
    if (x->first < 0 || t.first < x->first) x->first = t.first;
    if (t.last > x->last) x->last = t.last;
}

static int64_t add_piece(packer *w)
{
    ARENA_GROW(w->a, w->list, w->n, w->room);
    w->list[w->n] = (piece){.first = -1};
    return w->n++;
}

/* The piece of a buffer of an item, -1 where it lies in another region. `temp`: [n_bufs] pieces of
 * this item's temporaries. */
static int64_t piece_of(packer *w, const item *it, int id, int64_t *temp)
{
    const buf *b = &it->seg->bufs[id];
    const item_at *at = &it->at[b->owner];
    if (b->life == LIFE_TEMP) {
        if (temp[id] < 0) temp[id] = add_piece(w);
        return temp[id];
    }
    if (at->chunk < 0) return -1;
    if (b->life == LIFE_SAVED) return w->saved[at->instance] + id;
    const chunk *c = &w->p->chunks[at->chunk];
    bool next = b->life == LIFE_OUTPUT && at->instance + 1 < c->n &&
                c->list[at->instance + 1].seg->bufs[0].life == LIFE_SAVED;
    return next ? w->saved[at->instance + 1] : -1;
}

static void use_all(packer *w, const item *it, const int *ids, int n, span t, int64_t *temp)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0) continue;
        int root = seg_root(it->seg, ids[i]);
        int64_t piece_id = piece_of(w, it, root, temp);
        if (piece_id >= 0) use(w, piece_id, it->seg->bufs[root].bytes, t);
    }
}

/* Of the first microbatch, or of none. */
static bool is_first(const item *it)
{
    return it->at[0].chunk < 0 || it->at[0].micro == 0;
}

/* The life of what operation k of an item touches; items so far end at w->end. I1 */
static span span_of(const packer *w, const item *it, int k)
{
    static const span always = {0, INT64_MAX - 1};
    const op *o = &it->seg->ops[it->phase][k];
    if (o->flags & ACROSS || (it->at[0].chunk < 0 && w->p->micros > 1)) return always;
    if (o->stream == STREAM_COMPUTE) return (span){w->end + k, w->end + k};
    return (span){w->end, w->end + it->seg->n_ops[it->phase] - 1};
}

/* Numbers of pieces until they have places, in the arrays that places are for. */
static void see_item(packer *w, item *it)
{
    const segment *seg = it->seg;
    const target_row *target = target_row_of(w->p->s);
    int n = seg->n_ops[it->phase];
    int64_t *bufs = ARENA_RAW(w->a, int64_t, seg->n_bufs + 1);
    int64_t *work = ARENA_RAW(w->a, int64_t, n + 1);
    for (int id = 0; id < seg->n_bufs; id++) bufs[id] = -1;
    for (int k = 0; k < n; k++) {
        const op *o = &seg->ops[it->phase][k];
        const span t = span_of(w, it, k);
        use_all(w, it, o->in, OP_IN_MAX, t, bufs);
        use_all(w, it, o->out, OP_OUT_MAX, t, bufs);
        int64_t bytes = workspace_bytes(target, seg, o);
        work[k] = bytes ? add_piece(w) : -1;
        if (bytes) use(w, work[k], bytes, t);
    }
    w->end += n;
    for (int id = 0; id < seg->n_bufs; id++)
        if (seg->bufs[id].life != LIFE_TEMP && seg_root(seg, id) == id)
            bufs[id] = piece_of(w, it, id, bufs);
    it->places = bufs;
    it->work = work;
}

static void see_items(packer *w)
{
    const chunk *c = &w->p->chunks[0];
    w->saved = ARENA_RAW(w->a, int64_t, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        w->saved[i] = w->n;
        for (int id = 0; id < c->list[i].seg->n_bufs; id++) add_piece(w);
    }
    for (int64_t i = 0; i < w->items->n; i++)
        if (is_first(&w->items->list[i])) see_item(w, &w->items->list[i]);
}

/* ---- gradients */

static int by_place(const void *x, const void *y)
{
    const piece *a = x, *b = y;
    return (a->at > b->at) - (a->at < b->at);
}

static void add_windows(const packer *w, const item *it, int64_t begins, piece *list, int64_t *n)
{
    for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
        const op *o = &it->seg->ops[it->phase][k];
        if (!(o->flags & OVERWRITE) || !op_can_overwrite(o->kind)) continue;
        for (int j = 0; j < OP_OUT_MAX; j++) {
            int id = o->out[j];
            if (id < 0 || it->seg->bufs[id].life != LIFE_GRADIENT) continue;
            const bool alone = o->stream == STREAM_COMPUTE;
            list[(*n)++] = (piece){it->seg->bufs[id].bytes, program_place(w->p, it, id),
                                   alone ? begins + k : begins, INT64_MAX};
        }
    }
}

static piece *windows_of(packer *w, int64_t *n)
{
    piece *list = ARENA_RAW(w->a, piece, w->p->weights.n + 1);
    int64_t begins = 0;
    *n = 0;
    for (int64_t i = 0; i < w->items->n && w->p->micros == 1; i++) {
        const item *it = &w->items->list[i];
        add_windows(w, it, begins, list, n);
        begins += it->seg->n_ops[it->phase];
    }
    qsort(list, (size_t)*n, sizeof *list, by_place);
    return list;
}

static void add_fixed(packer *w, int64_t from, int64_t to, int64_t first)
{
    if (to > from) w->fixed[w->n_fixed++] = (piece){to - from, from, first, INT64_MAX};
}

static void see_gradients(packer *w) /* I3 */
{
    const program *p = w->p;
    int64_t n, at = p->offset[REGION_GRADIENTS];
    const piece *windows = windows_of(w, &n);
    w->fixed = ARENA_RAW(w->a, piece, 2 * n + 2);
    for (int64_t i = 0; i < n; i++) {
        int64_t end = windows[i].at + windows[i].bytes;
        add_fixed(w, at, windows[i].at, 0);
        add_fixed(w, windows[i].at, end, windows[i].first);
        at = end;
    }
    add_fixed(w, at, p->offset[REGION_SAVED], 0);
    w->fixed[w->n_fixed++] =
        (piece){.at = p->offset[REGION_SAVED], .last = INT64_MAX}; /* no byte */
}

/* ---- placing */

typedef int64_t weight_of_piece(const piece *x);

static int64_t by_bytes(const piece *x)
{
    return x->bytes;
}

static int64_t by_area(const piece *x)
{
    return mul_sat(x->bytes, x->last - x->first + 1);
}

static bool together(const piece *x, const piece *y)
{
    return x->first <= y->last && y->first <= x->last;
}

/* The lowest place that nothing covers while x lives. */
static int64_t lowest(const packer *w, const piece *placed, int64_t n, const piece *x)
{
    int64_t at = w->p->offset[REGION_GRADIENTS];
    for (int64_t k = 0; k < n; k++) {
        const piece *y = &placed[k];
        if (y->at + y->bytes <= at || !together(x, y)) continue;
        if (y->at >= at + x->bytes) break;
        at = round_up(y->at + y->bytes, PIECE_ALIGN);
    }
    return at;
}

typedef struct ranked {
    int64_t weight, id;
} ranked;

static int heaviest_first(const void *x, const void *y)
{
    const ranked *a = x, *b = y;
    if (a->weight != b->weight) return a->weight < b->weight ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

static ranked *rank_pieces(const packer *w, weight_of_piece *weigh, int64_t *n)
{
    ranked *order = ARENA_RAW(w->a, ranked, w->n + 1);
    *n = 0;
    for (int64_t i = 0; i < w->n; i++)
        if (w->list[i].first >= 0 && w->list[i].bytes)
            order[(*n)++] = (ranked){weigh(&w->list[i]), i};
    qsort(order, (size_t)*n, sizeof *order, heaviest_first);
    return order;
}

/* Places all, the heaviest first; where they end. */
static int64_t place_all(packer *w, weight_of_piece *weigh)
{
    int64_t n, n_placed = w->n_fixed, end = w->p->offset[REGION_SAVED];
    const ranked *order = rank_pieces(w, weigh, &n);
    piece *placed = ARENA_RAW(w->a, piece, w->n_fixed + n + 1); /* copies, as they lie */
    for (int64_t i = 0; i < w->n_fixed; i++) placed[i] = w->fixed[i];
    for (int64_t i = 0; i < n; i++) {
        piece *x = &w->list[order[i].id];
        x->at = lowest(w, placed, n_placed, x);
        int64_t k = n_placed++;
        for (; k > 0 && placed[k - 1].at > x->at; k--) placed[k] = placed[k - 1];
        placed[k] = *x;
        if (x->at + x->bytes > end) end = x->at + x->bytes;
    }
    return end;
}

/* Places all in the better way; where they end. I4 */
static int64_t place_best(packer *w)
{
    int64_t by_size = place_all(w, by_bytes), *at = ARENA_RAW(w->a, int64_t, w->n + 1);
    for (int64_t i = 0; i < w->n; i++) at[i] = w->list[i].at;
    int64_t end = place_all(w, by_area);
    if (by_size > end) return end;
    for (int64_t i = 0; i < w->n; i++) w->list[i].at = at[i];
    return by_size;
}

/* ---- what no packing ends below */

static void add_life(const piece *x, int64_t *change, int64_t end)
{
    change[x->first] += x->bytes;
    if (x->last + 1 < end) change[x->last + 1] -= x->bytes;
}

/* Most bytes at once beside all that gradients lend then. */
static int64_t live_of(const packer *w)
{
    int64_t *change = ARENA_ARRAY(w->a, int64_t, w->end + 1), now = 0, most = 0;
    for (int64_t i = 0; i < w->n; i++)
        if (w->list[i].first >= 0) add_life(&w->list[i], change, w->end);
    for (int64_t i = 0; i < w->n_fixed; i++) {
        if (w->fixed[i].first == 0) continue;
        change[0] -= w->fixed[i].bytes;
        change[w->fixed[i].first] += w->fixed[i].bytes;
    }
    for (int64_t t = 0; t < w->end; t++) {
        now += change[t];
        if (now > most) most = now;
    }
    return most;
}

/* ---- items get their places */

static void place_item(const packer *w, item *it)
{
    const segment *seg = it->seg;
    int64_t *bufs = it->places, *work = it->work;
    for (int id = 0; id < seg->n_bufs; id++)
        if (seg->bufs[id].parent < 0 && bufs[id] >= 0) {
            const piece *x = &w->list[bufs[id]];
            bufs[id] = x->first < 0 ? -1 : x->at;
        }
    for (int id = 0; id < seg->n_bufs; id++) {
        int root = seg_root(seg, id);
        if (root != id) bufs[id] = bufs[root] < 0 ? -1 : bufs[root] + seg->bufs[id].view_at;
    }
    for (int k = 0; k < seg->n_ops[it->phase]; k++)
        if (work[k] >= 0) work[k] = w->list[work[k]].at;
}

/* The item of the first microbatch that does the same. */
static const item *first_of(const packer *w, const item *it)
{
    for (int64_t i = 0; i < w->items->n; i++) {
        const item *x = &w->items->list[i];
        if (is_first(x) && x->seg->bufs == it->seg->bufs && x->phase == it->phase &&
            x->at[0].chunk >= 0 && x->at[0].instance == it->at[0].instance)
            return x;
    }
    return NULL;
}

static void place_items(packer *w)
{
    for (int64_t i = 0; i < w->items->n; i++)
        if (is_first(&w->items->list[i])) place_item(w, &w->items->list[i]);
    for (int64_t i = 0; i < w->items->n; i++) {
        item *it = &w->items->list[i];
        const item *first = is_first(it) ? NULL : first_of(w, it);
        if (!first) continue;
        it->places = first->places;
        it->work = first->work;
    }
}

static bool give_up(const packer *w)
{
    for (int64_t i = 0; i < w->items->n; i++)
        w->items->list[i].places = w->items->list[i].work = NULL;
    return false;
}

bool step_packing(program *p, arena *a)
{
    packer w = {.p = p, .items = &p->items[PART_STEP], .a = a};
    see_gradients(&w);
    see_items(&w);
    if (w.n > PIECES_MOST) return give_up(&w);
    p->bytes[REGION_SAVED] = place_best(&w) - p->offset[REGION_SAVED];
    p->saved_live = live_of(&w);
    place_items(&w);
    return true;
}
