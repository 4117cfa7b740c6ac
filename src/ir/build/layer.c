/* layer.c - segments of decoder layers: one block behind the other. */
#include "ir/build/build.h"
#include "ir/memory/offload.h"

/* The builders of each kind; a module's own block is built around its layer (mtp.c). */
#define BUILDER(name)                                                                              \
    static void name##_in(builder *b, block_bufs *t, int x, int y)                                 \
    {                                                                                              \
        name##_forward(b, &t->name, x, y);                                                         \
    }                                                                                              \
    static void name##_back(builder *b, const block_bufs *t, int dh)                               \
    {                                                                                              \
        name##_backward(b, &t->name, dh);                                                          \
    }
BUILDER(attention)
BUILDER(gdn)
BUILDER(mlp)
BUILDER(moe)

static const struct {
    void (*forward)(builder *b, block_bufs *t, int x, int y);
    void (*backward)(builder *b, const block_bufs *t, int dh);
} builders[BLOCK_KINDS] = {
    [BLOCK_ATTENTION] = {attention_in, attention_back},
    [BLOCK_GDN] = {gdn_in, gdn_back},
    [BLOCK_MLP] = {mlp_in, mlp_back},
    [BLOCK_MOE] = {moe_in, moe_back},
};

void block_forward(builder *b, block_bufs *t, const model_block *k, int x, int y)
{
    b->block = k;
    builders[k->kind].forward(b, t, x, y);
}

void block_backward(builder *b, const block_bufs *t, const model_block *k, int dh)
{
    b->block = k;
    builders[k->kind].backward(b, t, dh);
}

static int first_block(const layer_kind *l)
{
    return l->block[0]->kind == BLOCK_MTP;
}

void layer_forward(builder *b, layer_bufs *t, int x, int y)
{
    const layer_kind *l = model_layer(&b->s->m, b->layer);
    for (int i = first_block(l); i < l->n_blocks; i++) {
        bool last = i == l->n_blocks - 1;
        b->module = MODULE_LAYER;
        int h =
            last ? y : seg_saved(b, "h", b->T * b->s->m.hidden, offload_of_block(l->block[i + 1]));
        block_forward(b, &t->blocks[i], l->block[i], x, h);
        x = h;
    }
}

void layer_backward(builder *b, const layer_bufs *t, int dh)
{
    const layer_kind *l = model_layer(&b->s->m, b->layer);
    for (int i = l->n_blocks - 1; i >= first_block(l); i--)
        block_backward(b, &t->blocks[i], l->block[i], dh);
}

/* Layers of one segment hand their outputs to one another through saved buffers; the last one's is
 * the segment's. */
void build_layers(builder *b, segment *seg, int64_t layer, int n_layers)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, SEGMENT_LAYER, b->s, b->a);
    seg->n_layers = n_layers;
    b->module = MODULE_LAYER;
    b->node = NODE_ATTN;
    layer_bufs *t = ARENA_ARRAY(b->a, layer_bufs, n_layers);
    int x = seg_saved(b, "x", size, offload_of_input(&b->s->m, layer));
    for (int i = 0; i < n_layers; i++) {
        b->layer = layer + i;
        b->layer_step = i;
        b->module = MODULE_LAYER;
        bool last = i == n_layers - 1;
        int y = last ? seg_other(b, "y", LIFE_OUTPUT, size) : seg_saved(b, "x", size, 0);
        layer_forward(b, &t[i], x, y);
        x = y;
    }
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, size);
    for (int i = n_layers - 1; i >= 0; i--) {
        b->layer = layer + i;
        b->layer_step = i;
        layer_backward(b, &t[i], dh);
    }
    b->layer_step = 0;
}
