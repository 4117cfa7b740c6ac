/* weights.c - laying out the weights of a rank.
 *
 * I1  Chunk by chunk: the dense buffer, then the expert buffer. Inside a buffer the order is that
 *     of layout/stage_parts.h, and cuts are those of layout/buffer.h.
 * I2  The list is in the order of the network: a chunk's weights are seen backwards and turned
 *     round. */
#include "program/weights.h"

#include <inttypes.h>
#include <string.h>

#include "base/maths.h"
#include "layout/stage_parts.h"

typedef struct placing {
    weight_list *w;
    const setup *s;
    const recipe *r;
    const layout *l;
    const rank_at *at;
    buffer buf[2]; /* of this chunk */
    int open[2];   /* bucket that is being filled; -1: none */
    int chunk;
    const stage *st;
    bool trained;
} placing;

/* ---- shapes */

static int64_t ranks_of_axis(const layout *l, const param *row, int i)
{
    if (i == 0 && row->kind == PARAM_EXPERT) return l->ep;
    if (i != row->axis || row->cut == CUT_NONE) return 1;
    return row->cut == CUT_TP ? l->tp : l->etp;
}

static int64_t place_on_axis(const rank_at *at, const param *row, int i)
{
    if (i == 0 && row->kind == PARAM_EXPERT) return at->ep;
    if (i != row->axis || row->cut == CUT_NONE) return 0;
    return row->cut == CUT_TP ? at->tp : at->etp;
}

static weight shape_of(const placing *p, const param *row, int64_t layer)
{
    weight w = {.row = row, .layer = layer, .n = 1, .chunk = p->chunk, .bucket = -1};
    for (int i = 0; i < row->n_dims; i++) {
        w.dim[i] = ceil_div(row->dim[i], ranks_of_axis(p->l, row, i));
        w.n = mul_sat(w.n, w.dim[i]);
    }
    bool words = row->block == BLOCK_EMBEDDING && !p->st->embedding;
    w.copy = words;
    return w;
}

/* ---- buckets */

static int open_bucket(placing *p, int which, int64_t start)
{
    weight_list *w = p->w;
    int64_t shards = optimizer_shards(p->r, p->l, which);
    int64_t place = which ? p->at->edp : p->at->dp * p->l->cp + p->at->cp;
    w->buckets[w->n_buckets] = (bucket){.start = start,
                                        .chunk = p->chunk,
                                        .expert = which == 1,
                                        .shards = shards,
                                        .place = place % shards};
    return w->n_buckets++;
}

static void end_bucket(placing *p, int which, int64_t end)
{
    if (p->open[which] < 0) return;
    bucket *b = &p->w->buckets[p->open[which]];
    b->n = end - b->start;
    p->open[which] = -1;
}

static void place_trained(placing *p, weight *w, bool alone)
{
    int which = buffer_of(p->l, w->row->kind);
    buffer *b = &p->buf[which];
    int64_t before = b->bucket_start;
    buffer_add(b, 1, w->n, alone);
    w->offset = b->last;
    if (alone && b->last > before) end_bucket(p, which, b->last);
    if (p->open[which] < 0) p->open[which] = open_bucket(p, which, b->last);
    w->bucket = p->open[which];
    if (b->bucket_start > b->last) end_bucket(p, which, b->bucket_start);
}

/* ---- a chunk */

static void see_part(void *with, const stage_part *part)
{
    placing *p = with;
    const param_table *t = &p->s->params;
    int first = 0, end;
    while (first < t->n_rows && t->rows[first].block != part->block) first++;
    for (end = first; end < t->n_rows && t->rows[end].block == part->block;) end++;
    for (int i = end - 1; i >= first; i--) {
        const param *row = &t->rows[i];
        if (row->trained != p->trained || !stage_part_has(part, row, i == first)) continue;
        weight *w = &p->w->list[p->w->n++];
        *w = shape_of(p, row, part->layer);
        if (p->trained && w->n > 0) place_trained(p, w, part->alone);
    }
}

static void turn_round(weight *list, int n)
{
    for (int i = 0; i < n / 2; i++) {
        weight swap = list[i];
        list[i] = list[n - 1 - i];
        list[n - 1 - i] = swap;
    }
}

static void place_chunk(placing *p)
{
    weight_list *w = p->w;
    int first = w->n, first_bucket = w->n_buckets;
    for (int i = 0; i < 2; i++) {
        p->buf[i] = empty_buffer(p->r, p->l, i);
        p->open[i] = -1;
    }
    stage_parts(&p->s->m, p->st, p->l->pp, see_part, p);
    int64_t base[2] = {w->trained, 0};
    for (int i = 0; i < 2; i++) {
        int64_t length = buffer_close(&p->buf[i]);
        end_bucket(p, i, length);
        if (i == 0) base[1] = base[0] + length; /* I1 */
        w->trained += length;
    }
    for (int i = first; i < w->n; i++)
        if (w->list[i].bucket >= 0) w->list[i].offset += base[w->buckets[w->list[i].bucket].expert];
    for (int i = first_bucket; i < w->n_buckets; i++) {
        w->buckets[i].start += base[w->buckets[i].expert];
        w->buckets[i].moments = w->owned;
        w->owned += bucket_slice(&w->buckets[i]);
    }
    turn_round(w->list + first, w->n - first); /* I2 */
}

static void place_untrained(placing *p)
{
    int first = p->w->n;
    stage_parts(&p->s->m, p->st, p->l->pp, see_part, p);
    turn_round(p->w->list + first, p->w->n - first);
    for (int i = first; i < p->w->n; i++) {
        weight *w = &p->w->list[i];
        w->offset = round_up(p->w->elements, WEIGHT_ALIGN_ELEMENTS);
        p->w->elements = add_sat(w->offset, w->n);
    }
}

static void place_stages(placing *p, const stage *stages, int64_t step, int64_t n)
{
    weight_list *w = p->w;
    for (int trained = 1; trained >= 0; trained--) {
        p->trained = trained;
        if (!trained) w->elements = w->trained;
        for (int64_t c = 0; c < n; c++) {
            p->chunk = (int)c;
            p->st = &stages[c * step];
            if (trained)
                place_chunk(p);
            else
                place_untrained(p);
        }
    }
    w->elements = round_up(w->elements, WEIGHT_END_ELEMENTS);
}

/* Room for what `n` stages have, every `step`-th from the first: of a model of thousands of layers a
 * pipeline rank has few. */
static void list_room(placing *p, const stage *stages, int64_t step, int64_t n, arena *a)
{
    enum { OTHERS_MAX = 4 }; /* blocks of a stage that are no layer's */
    int64_t blocks = 0;
    for (int64_t c = 0; c < n; c++) {
        const stage *st = &stages[c * step];
        blocks += OTHERS_MAX + (st->n_layers + st->n_mtp) * LAYER_BLOCKS_MAX;
    }
    int64_t most = mul_sat(blocks, p->s->params.n_rows);
    *p->w = (weight_list){.list = ARENA_ARRAY(a, weight, most),
                          .buckets = ARENA_ARRAY(a, bucket, most)};
}

void weight_list_rank(weight_list *w, const setup *s, const rank_at *at, arena *a)
{
    placing p = {.w = w, .s = s, .r = &s->r, .l = &s->lay, .at = at};
    list_room(&p, s->pipe.stages + at->pp, s->pipe.pp, s->pipe.vpp, a);
    place_stages(&p, s->pipe.stages + at->pp, s->pipe.pp, s->pipe.vpp);
}

void weight_list_init(weight_list *w, const setup *s, arena *a)
{
    const layout one = {
        .world = 1, .tp = 1, .cp = 1, .pp = 1, .ep = 1, .etp = 1, .dp = 1, .edp = 1};
    const rank_at first = {0};
    stage whole = {0, s->m.n_layers, true, true, s->m.n_mtp};
    placing p = {.w = w, .s = s, .r = &s->r, .l = &one, .at = &first};
    list_room(&p, &whole, 0, 1, a);
    place_stages(&p, &whole, 0, 1);
}

/* ---- looking up */

const weight *weight_find(const weight_list *w, const param *row, int64_t layer, int chunk)
{
    for (int i = 0; i < w->n; i++) {
        const weight *x = &w->list[i];
        if (x->row == row && x->layer == layer && (chunk < 0 || x->chunk == chunk)) return x;
    }
    return NULL;
}

static int64_t section_start(const param *row, int section)
{
    int64_t at = 0;
    for (int i = 0; i < section; i++) at += row->section[i];
    return at;
}

int weight_boxes(weight_box out[PARAM_SECTIONS_MAX], const setup *s, const rank_at *at,
                 const weight *w)
{
    const param *row = w->row;
    const layout one = {.tp = 1, .etp = 1, .ep = 1};
    const rank_at first = {0};
    const layout *l = at ? &s->lay : &one;
    if (!at) at = &first;
    bool cut = row->cut != CUT_NONE && ranks_of_axis(l, row, row->axis) > 1 && row->n_sections > 0;
    int n = cut ? row->n_sections : 1;
    int64_t local = 0;
    for (int k = 0; k < n; k++) {
        weight_box *b = &out[k];
        *b = (weight_box){{0}, {0}, {0}};
        for (int i = 0; i < row->n_dims; i++) {
            int64_t whole = cut && i == row->axis ? row->section[k] : row->dim[i];
            b->dim[i] = whole / ranks_of_axis(l, row, i);
            b->at[i] = place_on_axis(at, row, i) * b->dim[i];
        }
        if (!cut) continue;
        b->at[row->axis] += section_start(row, k);
        b->local[row->axis] = local;
        local += b->dim[row->axis];
    }
    return n;
}

const char *weight_name(arena *a, const setup *s, const weight *w)
{
    param_block b = w->row->block;
    if (b == BLOCK_EMBEDDING || b == BLOCK_HEAD) return w->row->name;
    if (w->layer < s->m.n_layers)
        return arena_text(a, "decoder.layers.%" PRId64 ".%s", w->layer, w->row->name);
    return arena_text(a, "mtp.layers.%" PRId64 ".%s", w->layer - s->m.n_layers, w->row->name);
}
