/* layer.c - segments of decoder layers. */
#include "ir/build/build.h"
#include "ir/memory/offload.h"

void layer_forward(builder *b, layer_bufs *t, int x, int y)
{
    const model *m = &b->s->m;
    b->module = MODULE_LAYER;
    t->h = seg_saved(b, "h", b->T * m->hidden, offload_of_hidden(m, b->layer));
    if (model_layer_is(m, b->layer, LAYER_LINEAR))
        gdn_forward(b, &t->gdn, x, t->h);
    else
        attention_forward(b, &t->attention, x, t->h);
    if (model_layer_is(m, b->layer, LAYER_MOE))
        moe_forward(b, &t->moe, t->h, y);
    else
        mlp_forward(b, &t->mlp, t->h, y);
}

void layer_backward(builder *b, const layer_bufs *t, int dh)
{
    const model *m = &b->s->m;
    if (model_layer_is(m, b->layer, LAYER_MOE))
        moe_backward(b, &t->moe, dh);
    else
        mlp_backward(b, &t->mlp, dh);
    if (model_layer_is(m, b->layer, LAYER_LINEAR))
        gdn_backward(b, &t->gdn, dh);
    else
        attention_backward(b, &t->attention, dh);
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
