/* weights.c - laying out the weights of a rank. */
#include "program/weights.h"

#include <inttypes.h>
#include <string.h>

#include "base/maths.h"

typedef struct placing {
    weight_list *w;
    const setup *s;
    int64_t next; /* first free element */
} placing;

static void place_block(placing *p, param_block block, int64_t layer, bool trained)
{
    for (int i = 0; i < p->s->params.n_rows; i++) {
        const param *row = &p->s->params.rows[i];
        if (row->block != block || row->trained != trained) continue;
        weight *w = &p->w->list[p->w->n++];
        *w = (weight){row, layer, round_up(p->next, WEIGHT_ALIGN_ELEMENTS), param_elements(row)};
        p->next = add_sat(w->offset, w->n);
    }
}

static void place_layer(placing *p, int64_t layer, bool trained)
{
    param_block blocks[LAYER_BLOCKS_MAX];
    int n = param_layer_blocks(&p->s->m, layer, blocks);
    for (int i = 0; i < n; i++) place_block(p, blocks[i], layer, trained);
}

static void place_all(placing *p, bool trained)
{
    const model *m = &p->s->m;
    int64_t n_mtp = m->mtp_repeated && m->n_mtp > 1 ? 1 : m->n_mtp;
    place_block(p, BLOCK_EMBEDDING, 0, trained);
    for (int64_t i = 0; i < m->n_layers; i++) place_layer(p, i, trained);
    place_block(p, BLOCK_HEAD, 0, trained);
    for (int64_t i = 0; i < n_mtp; i++) place_layer(p, m->n_layers + i, trained);
    p->next = round_up(p->next, WEIGHT_END_ELEMENTS);
}

void weight_list_init(weight_list *w, const setup *s, arena *a)
{
    int64_t blocks = 2 + (s->m.n_layers + s->m.n_mtp) * LAYER_BLOCKS_MAX;
    *w = (weight_list){.list = ARENA_ARRAY(a, weight, mul_sat(blocks, s->params.n_rows))};
    placing p = {w, s, 0};
    place_all(&p, true);
    w->trained = p.next;
    place_all(&p, false);
    w->elements = p.next;
}

const weight *weight_find(const weight_list *w, const param *row, int64_t layer)
{
    for (int i = 0; i < w->n; i++)
        if (w->list[i].row == row && w->list[i].layer == layer) return &w->list[i];
    return NULL;
}

const char *weight_name(arena *a, const setup *s, const weight *w)
{
    param_block b = w->row->block;
    if (b == BLOCK_EMBEDDING || b == BLOCK_HEAD) return w->row->name;
    if (w->layer < s->m.n_layers)
        return arena_text(a, "decoder.layers.%" PRId64 ".%s", w->layer, w->row->name);
    return arena_text(a, "mtp.layers.%" PRId64 ".%s", w->layer - s->m.n_layers, w->row->name);
}
