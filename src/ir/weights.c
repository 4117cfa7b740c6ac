/* weights.c - laying out the weights of a rank.
 *
 * I1  Chunk by chunk: the dense buffer, then the expert buffer. Inside a buffer the order is that
 *     of layout/stage_parts.h, and cuts are those of layout/buffer.h.
 * I2  The list is in the order of the network: a chunk's weights are seen backwards and
 *     reversed. */
#include "ir/weights.h"

#include <inttypes.h>
#include <string.h>

#include "base/maths.h"

typedef struct placing {
    weight_list *w;
    const setup *s;
    const job *j;
    const layout *l;
    const rank_at *at;
    bucket_walk walk; /* of this chunk */
    int open[2];      /* the bucket that is being filled, or was last */
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
    bool words = row->block->kind == BLOCK_EMBEDDING && !p->st->embedding;
    w.copy = words;
    return w;
}

/* ---- the walk */

static void see_part(void *with, const stage_part *part)
{
    const stage_weights *w = with;
    const param_table *t = &w->s->params;
    const int *start = &t->start[part->block - w->s->m.blocks], first = *start;
    for (int i = start[1] - 1; i >= first; i--) {
        const param *row = &t->rows[i];
        if (row->trained == w->trained && stage_part_has(part, row, i == first))
            w->see(w->with, row, part->layer, part->alone);
    }
}

void stage_weights_walk(const stage_weights *w)
{
    stage_parts(&w->s->m, w->st, w->pp, see_part, (void *)w);
}

void bucket_walk_begin(bucket_walk *w, const job *j, const layout *l)
{
    for (int i = 0; i < 2; i++) {
        w->buf[i] = empty_buffer(j, l, i);
        w->open[i] = -1;
    }
}

static void end_bucket(bucket_walk *w, int which, int64_t end)
{
    if (w->open[which] >= 0) w->ended(w->with, which, w->open[which], end);
    w->open[which] = -1;
}

int64_t bucket_walk_add(bucket_walk *w, int which, int64_t n, bool alone)
{
    buffer *b = &w->buf[which];
    int64_t before = b->bucket_start;
    buffer_add(b, 1, n, alone);
    if (alone && b->last > before) end_bucket(w, which, b->last);
    if (w->open[which] < 0) {
        w->open[which] = b->last;
        if (w->began) w->began(w->with, which, b->last);
    }
    if (b->bucket_start > b->last) end_bucket(w, which, b->bucket_start);
    return b->last;
}

int64_t bucket_walk_end(bucket_walk *w, int which)
{
    int64_t length = buffer_close(&w->buf[which]);
    end_bucket(w, which, length);
    return length;
}

/* ---- buckets */

static void begin_bucket(void *with, int which, int64_t start)
{
    placing *p = with;
    int64_t shards = optimizer_shards(p->j, p->l, which);
    int64_t place = which ? p->at->edp : p->at->dp * p->l->cp + p->at->cp;
    p->open[which] = p->w->n_buckets++;
    p->w->buckets[p->open[which]] = (bucket){.start = start,
                                             .chunk = p->chunk,
                                             .expert = which == 1,
                                             .shards = shards,
                                             .place = place % shards};
}

static void finish_bucket(void *with, int which, int64_t start, int64_t end)
{
    placing *p = with;
    p->w->buckets[p->open[which]].n = end - start;
}

/* ---- a chunk */

static void see_row(void *with, const param *row, int64_t layer, bool alone)
{
    placing *p = with;
    weight *w = &p->w->list[p->w->n++];
    *w = shape_of(p, row, layer);
    if (!p->trained || w->n <= 0) return;
    int which = buffer_of(p->l, row->kind);
    w->offset = bucket_walk_add(&p->walk, which, w->n, alone);
    w->bucket = p->open[which];
}

static void walk_rows(placing *p)
{
    stage_weights_walk(&(stage_weights){p->s, p->st, p->l->pp, p->trained, see_row, p});
}

static void reverse(weight *list, int n)
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
    p->walk = (bucket_walk){.began = begin_bucket, .ended = finish_bucket, .with = p};
    bucket_walk_begin(&p->walk, p->j, p->l);
    walk_rows(p);
    int64_t base[2] = {w->trained, 0};
    for (int i = 0; i < 2; i++) {
        int64_t length = bucket_walk_end(&p->walk, i);
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
    reverse(w->list + first, w->n - first); /* I2 */
}

static void place_untrained(placing *p)
{
    int first = p->w->n;
    walk_rows(p);
    reverse(p->w->list + first, p->w->n - first);
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

/* Room for what `n` stages have, every `step`-th from the first: of a model of thousands of layers
 * a pipeline rank has few. */
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
    placing p = {.w = w, .s = s, .j = &s->j, .l = &s->lay, .at = at};
    list_room(&p, s->pipe.stages + at->pp, s->pipe.pp, s->pipe.vpp, a);
    place_stages(&p, s->pipe.stages + at->pp, s->pipe.pp, s->pipe.vpp);
}

void weight_list_init(weight_list *w, const setup *s, arena *a)
{
    const layout one = {
        .world = 1, .tp = 1, .cp = 1, .pp = 1, .ep = 1, .etp = 1, .dp = 1, .edp = 1};
    const rank_at first = {0};
    stage whole = {0, s->m.n_layers, true, true, s->m.n_mtp};
    placing p = {.w = w, .s = s, .j = &s->j, .l = &one, .at = &first};
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
    if (!param_of_layer(w->row)) return w->row->name;
    if (w->layer < s->m.n_layers)
        return arena_text(a, "decoder.layers.%" PRId64 ".%s", w->layer, w->row->name);
    return arena_text(a, "mtp.layers.%" PRId64 ".%s", w->layer - s->m.n_layers, w->row->name);
}
