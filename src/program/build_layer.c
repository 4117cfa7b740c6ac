/* build_layer.c - whole segments: the embedding, decoder layers, head and loss with the prediction
 * module. */
#include "program/build.h"

#define WORDS "embedding.word_embeddings.weight"

void layer_forward(builder *b, layer_bufs *t, int x, int y)
{
    const model *m = &b->s->m;
    b->module = "layer";
    t->h = seg_saved(b, "h", b->T * m->hidden, 0);
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

void build_embedding(builder *b, segment *seg)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden, V = m->padded_vocab;
    segment_init(seg, b, "embedding", b->s, b->a);
    b->module = "embedding";
    int ids = seg_step(b, STEP_IDS, T), y = seg_other(b, "y", LIFE_OUTPUT, T * H);
    int dh = seg_other(b, "dh", LIFE_STREAM, T * H);
    seg_op(b, SEG_FORWARD, OP_EMBED, "embedding", IN(seg_weight(b, WORDS), ids), OUT(y),
           DIM(T, H, V));
    seg_op(b, SEG_BACKWARD, OP_EMBED_W, "embedding", IN(dh, ids), OUT(seg_gradient(b, WORDS)),
           DIM(T, H, V));
}

/* Layers of one segment hand their outputs to one another through saved buffers; the last one's is
 * the segment's. */
void build_layers(builder *b, segment *seg, int64_t layer, int n_layers)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, "layer", b->s, b->a);
    seg->n_layers = n_layers;
    b->module = "layer";
    layer_bufs *t = ARENA_ARRAY(b->a, layer_bufs, n_layers);
    int x = seg_saved(b, "x", size, 0);
    for (int i = 0; i < n_layers; i++) {
        b->layer = layer + i;
        b->layer_step = i;
        b->module = "layer";
        bool last = i == n_layers - 1;
        int y = last ? seg_other(b, "y", LIFE_OUTPUT, size) : seg_saved(b, "x", size, 0);
        layer_forward(b, &t[i], x, y);
        x = y;
    }
    int dh = seg_other(b, "dh", LIFE_STREAM, size);
    for (int i = n_layers - 1; i >= 0; i--) {
        b->layer = layer + i;
        b->layer_step = i;
        layer_backward(b, &t[i], dh);
    }
    b->layer_step = 0;
}

/* ---- head and loss */

enum { LOGITS_BYTES = 8 << 20 }; /* of one chunk of logits */

static void head_loss(builder *b, int x, step_buffer labels, step_buffer mask, step_buffer loss,
                      int dx)
{
    const model *m = &b->s->m;
    const char *weight = m->tied ? WORDS : "output_layer.weight";
    int64_t rows = LOGITS_BYTES / 4 / m->padded_vocab;
    rows = rows < 16 ? 16 : rows;
    op *o = seg_op(b, SEG_BACKWARD, OP_HEAD_LOSS, "head and loss",
                   IN(x, seg_weight(b, weight), seg_step(b, labels, b->T), seg_step(b, mask, b->T)),
                   OUT(seg_step(b, loss, 2), dx, seg_gradient(b, weight)),
                   DIM(b->T, m->hidden, m->padded_vocab, rows < b->T ? rows : b->T));
    o->real[0] = 1;
}

/* The prediction module: embedding of the next token and hidden state, each normed, projected, one
 * layer, one norm. */
typedef struct mtp_bufs {
    norm_bufs e_norm, h_norm, out_norm;
    layer_bufs layer;
    int e, both, x, y;
} mtp_bufs;

static void mtp_forward(builder *b, mtp_bufs *t, int h0)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden;
    b->layer = m->n_layers; /* rows of the module, and its layer */
    b->module = "prediction";
    t->e = seg_saved(b, "mtp.e", T * H, 0);
    seg_op(b, SEG_FORWARD, OP_EMBED, "mtp.embedding",
           IN(seg_weight(b, WORDS), seg_step(b, STEP_MTP_IDS, T)), OUT(t->e),
           DIM(T, H, m->padded_vocab));
    t->e_norm = norm_forward(b, "mtp.e norm", "enorm.weight", t->e, T, H, DROP_LAYERNORM);
    t->h_norm = norm_forward(b, "mtp.h norm", "hnorm.weight", h0, T, H, DROP_LAYERNORM);
    t->both = seg_saved(b, "mtp.both", T * 2 * H, 0);
    t->x = seg_saved(b, "mtp.x", T * H, 0);
    t->y = seg_saved(b, "mtp.y", T * H, 0);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_MERGE, "mtp.both", IN(t->e_norm.y, t->h_norm.y), OUT(t->both),
           DIM(T, H, H));
    linear_forward(b, "mtp.proj", "eh_proj.weight", NULL, t->both, t->x, T, H, 2 * H);
    layer_forward(b, &t->layer, t->x, t->y);
    b->module = "prediction";
    t->out_norm = norm_forward(b, "mtp.norm", "final_layernorm.weight", t->y, T, H, 0);
}

/* dh0: gradient of the hidden state that the module read; written, not added to. */
static void mtp_backward(builder *b, const mtp_bufs *t, int dh0)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden;
    b->module = "prediction";
    int dn = seg_temp(b, "mtp.dn", T * H), dy = seg_temp(b, "mtp.dh", T * H);
    head_loss(b, t->out_norm.y, STEP_MTP_LABELS, STEP_MTP_MASK, STEP_MTP_LOSS, dn);
    norm_backward(b, &t->out_norm, dn, dy, false);
    layer_backward(b, &t->layer, dy);
    b->module = "prediction";
    int dboth = seg_temp(b, "mtp.dboth", T * 2 * H), de = seg_temp(b, "mtp.de", T * H);
    int den = seg_temp(b, "mtp.den", T * H), dhn = seg_temp(b, "mtp.dhn", T * H);
    linear_backward(b, "mtp.proj", "eh_proj.weight", NULL, dy, t->both, dboth, false, T, H, 2 * H);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_SPLIT, "mtp.both", IN(dboth), OUT(den, dhn), DIM(T, H, H));
    norm_backward(b, &t->e_norm, den, de, false);
    seg_op(b, SEG_BACKWARD, OP_EMBED_W, "mtp.embedding", IN(de, seg_step(b, STEP_MTP_IDS, T)),
           OUT(seg_gradient(b, WORDS)), DIM(T, H, m->padded_vocab));
    norm_backward(b, &t->h_norm, dhn, dh0, false);
}

/* Without a prediction module nothing happens in forward: norm, head and loss start the backward
 * pass. */
void build_head(builder *b, segment *seg)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden;
    segment_init(seg, b, "head", b->s, b->a);
    b->layer_step = 0;
    b->layer = 0;
    b->module = "head";
    int x = seg_saved(b, "x", T * H, 0);
    norm_bufs norm = norm_forward(b, "final norm", "decoder.final_layernorm.weight", x, T, H, 0);
    mtp_bufs mtp;
    if (m->n_mtp) mtp_forward(b, &mtp, norm.y);
    int dh0 = seg_temp(b, "dh0", T * H), dh = seg_other(b, "dh", LIFE_STREAM, T * H);
    b->module = "head";
    head_loss(b, norm.y, STEP_LABELS, STEP_MASK, STEP_LOSS, dh0);
    if (m->n_mtp) {
        int part = seg_temp(b, "mtp.dh0", T * H);
        mtp_backward(b, &mtp, part);
        b->module = "head";
        seg_op(b, SEG_BACKWARD, OP_ADD, "mtp.add", IN(dh0, part), OUT(dh0), DIM(T * H));
    }
    norm_backward(b, &norm, dh0, dh, false);
    b->layer = 0;
}
