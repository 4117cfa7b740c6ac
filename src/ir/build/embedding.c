/* embedding.c - words of the batch. TP cuts the vocabulary: each rank looks up the words that
 * it has, of all tokens of the CP rank, and the sums are scattered. */
#include "ir/build/build.h"

#define PLACES "embedding.position_embeddings.weight"

enum { EMBED_SIZES = DIM_EMBED_FIRST + 1, POSITION_SIZES = DIM_POSITIONS_QB + 1 };

static const int64_t *dims_of(const builder *b, int64_t dim[EMBED_SIZES + 1])
{
    int64_t V = b->s->m.padded_vocab / b->s->lay.tp;
    dim[DIM_EMBED_T] = b->Tc;
    dim[DIM_EMBED_H] = b->s->m.hidden;
    dim[DIM_EMBED_V] = V;
    dim[DIM_EMBED_FIRST] = seg_group_rank(b, GROUP_TP) * V;
    dim[EMBED_SIZES] = DIM_END;
    return dim;
}

void embed_forward(builder *b, const char *name, step_buffer ids, int out)
{
    int64_t dim[EMBED_SIZES + 1], H = b->s->m.hidden;
    bool cut = b->s->lay.tp > 1;
    int words = cut ? seg_temp(b, name, b->Tc * H) : out;
    seg_op(b, SEG_FORWARD, OP_EMBED, name, IN(seg_weight(b, WORDS), seg_step(b, ids, b->Tc)),
           OUT(words), dims_of(b, dim));
    if (cut) scatter_tokens(b, SEG_FORWARD, name, words, out, H);
}

void embed_backward(builder *b, const char *name, step_buffer ids, int dx)
{
    int64_t dim[EMBED_SIZES + 1];
    int all = gather_tokens(b, SEG_BACKWARD, name, dx, b->s->m.hidden);
    seg_op(b, SEG_BACKWARD, OP_EMBED_W, name, IN(all, seg_step(b, ids, b->Tc)),
           OUT(seg_gradient(b, WORDS)), dims_of(b, dim));
}

/* Row of a learned position: see POSITIONS. */
static const int64_t *position_dims(const builder *b, int64_t dim[POSITION_SIZES + 1])
{
    int64_t half = b->S / 2, cp = b->s->lay.cp, place = cp > 1 ? seg_group_rank(b, GROUP_CP) : 0;
    dim[DIM_POSITIONS_T] = b->T;
    dim[DIM_POSITIONS_H] = b->s->m.hidden;
    dim[DIM_POSITIONS_S] = b->S;
    dim[DIM_POSITIONS_FIRST] = seg_group_rank(b, GROUP_TP) * b->T;
    dim[DIM_POSITIONS_QA] = place * half;
    dim[DIM_POSITIONS_QB] = (2 * cp - 1 - place) * half;
    dim[POSITION_SIZES] = DIM_END;
    return dim;
}

static void positions_forward(builder *b, int x)
{
    int64_t dim[POSITION_SIZES + 1];
    if (b->s->m.positions)
        seg_op(b, SEG_FORWARD, OP_POSITIONS, "positions", IN(seg_weight(b, PLACES)), OUT(x),
               position_dims(b, dim));
}

static void positions_backward(builder *b, int dx)
{
    int64_t dim[POSITION_SIZES + 1];
    if (b->s->m.positions)
        seg_op(b, SEG_BACKWARD, OP_POSITIONS_W, "positions", IN(dx), OUT(seg_gradient(b, PLACES)),
               position_dims(b, dim));
}

void build_embedding(builder *b, segment *seg)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, SEGMENT_EMBEDDING, b->s, b->a);
    b->module = MODULE_EMBEDDING;
    b->node = NODE_ATTN;
    b->layer = b->layer_step = 0;
    seg_step(b, STEP_IDS, b->Tc); /* buffer 0: the segment's input */
    int y = seg_other(b, "y", LIFE_OUTPUT, size), dh = seg_other(b, "dh", LIFE_DHIDDEN, size);
    embed_forward(b, "embedding", STEP_IDS, y);
    positions_forward(b, y);
    positions_backward(b, dh);
    embed_backward(b, "embedding", STEP_IDS, dh);
}
