/* build_embedding.c - words of the batch. TP cuts the vocabulary: each rank looks up the words that
 * it has, of all tokens of the CP rank, and the sums are scattered. */
#include "program/build.h"

static const int64_t *dims_of(const builder *b, int64_t dim[5])
{
    int64_t V = b->s->m.padded_vocab / b->s->lay.tp;
    dim[0] = b->Tc;
    dim[1] = b->s->m.hidden;
    dim[2] = V;
    dim[3] = seg_place(b, GROUP_TP) * V;
    dim[4] = DIM_END;
    return dim;
}

void embed_forward(builder *b, const char *name, step_buffer ids, int out)
{
    int64_t dim[5], H = b->s->m.hidden;
    bool cut = b->s->lay.tp > 1;
    int words = cut ? seg_temp(b, name, b->Tc * H) : out;
    seg_op(b, SEG_FORWARD, OP_EMBED, name, IN(seg_weight(b, WORDS), seg_step(b, ids, b->Tc)),
           OUT(words), dims_of(b, dim));
    if (cut) scatter_tokens(b, SEG_FORWARD, name, words, out, H);
}

void embed_backward(builder *b, const char *name, step_buffer ids, int dx)
{
    int64_t dim[5];
    int all = gather_tokens(b, SEG_BACKWARD, name, dx, b->s->m.hidden);
    seg_op(b, SEG_BACKWARD, OP_EMBED_W, name, IN(all, seg_step(b, ids, b->Tc)),
           OUT(seg_gradient(b, WORDS)), dims_of(b, dim));
}

void build_embedding(builder *b, segment *seg)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, "embedding", b->s, b->a);
    b->module = "embedding";
    b->node = NODE_ATTN;
    b->layer = b->layer_step = 0;
    seg_step(b, STEP_IDS, b->Tc); /* buffer 0: the segment's input */
    int y = seg_other(b, "y", LIFE_OUTPUT, size), dh = seg_other(b, "dh", LIFE_STREAM, size);
    embed_forward(b, "embedding", STEP_IDS, y);
    embed_backward(b, "embedding", STEP_IDS, dh);
}
