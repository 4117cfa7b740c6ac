/* head.c - the final norm, head and loss.
 *
 * Head and loss are one step that starts the backward pass; logits are made in chunks and kept
 * nowhere. TP cuts the vocabulary: each rank makes its columns of a chunk, what is needed of the
 * others for the softmax is gathered, and the parts of the gradient are summed and scattered. */
#include "base/maths.h"
#include "ir/build/build.h"
#include "ir/target.h"

enum { CHUNKS_MOST = 16 };

/* What a loss is taken of, and where it goes. */
typedef struct loss_at {
    step_buffer labels, mask, loss;
} loss_at;

static const loss_at of_decoder = {STEP_LABELS, STEP_MASK, STEP_LOSS};
static const loss_at of_module = {STEP_MTP_LABELS, STEP_MTP_MASK, STEP_MTP_LOSS};

static const char *head_weight(const builder *b)
{
    return b->s->m.tied ? WORDS : "output_layer.weight";
}

static void loss_whole(builder *b, int x, const loss_at *at, int dx)
{
    const model *m = &b->s->m;
    int64_t rows = target_logits_rows(target_row_of(b->s), m->padded_vocab, b->Tc);
    op *o = seg_op(b, SEG_BACKWARD, OP_HEAD_LOSS, "head and loss",
                   IN(x, seg_weight(b, head_weight(b)), seg_step(b, at->labels, b->Tc),
                      seg_step(b, at->mask, b->Tc)),
                   OUT(seg_step(b, at->loss, 2), dx, seg_gradient(b, head_weight(b))),
                   DIM(b->Tc, m->hidden, m->padded_vocab, rows));
    o->real[REAL_HEAD_LOSS_scale] = 1;
}

/* Rows first .. first+rows-1 of x[Tc][H]. */
static void loss_chunk(builder *b, int x, const loss_at *at, int dx, int64_t first, int64_t rows)
{
    int64_t P = b->s->lay.tp, V = b->s->m.padded_vocab / P, H = b->s->m.hidden;
    int64_t V0 = seg_group_rank(b, GROUP_TP) * V;
    int w = seg_weight(b, head_weight(b)), labels = seg_step(b, at->labels, b->Tc);
    int logits = seg_temp_as(b, "logits", rows * V, target_row_of(b->s)->logits),
        own = seg_temp_as(b, "logit sums", rows * 3, DTYPE_F32);
    int all = seg_temp_as(b, "all logit sums", P * rows * 3, DTYPE_F32);
    seg_op(b, SEG_BACKWARD, OP_HEAD_PART, "head", IN(x, w, labels), OUT(logits, own),
           DIM(b->Tc, H, V, rows, first, V0));
    seg_comm(b, SEG_BACKWARD, OP_ALL_GATHER, "head", GROUP_TP, IN(own), OUT(all), DIM(rows * 3))
        ->role = ROLE_LOGIT_SUMS;
    op *o = seg_op(b, SEG_BACKWARD, OP_HEAD_PART_D, "head and loss",
                   IN(all, x, w, labels, seg_step(b, at->mask, b->Tc)),
                   OUT(logits, seg_step(b, at->loss, 2), dx, seg_gradient(b, head_weight(b))),
                   DIM(b->Tc, H, V, rows, first, V0, P));
    o->real[REAL_HEAD_PART_D_scale] = 1;
}

/* x [T][H] is normed; dx [T][H] is written. */
static void head_loss(builder *b, int x, const loss_at *at, int dx)
{
    if (b->s->lay.tp == 1) {
        loss_whole(b, x, at, dx);
        return;
    }
    int64_t H = b->s->m.hidden, V = b->s->m.padded_vocab / b->s->lay.tp;
    int64_t rows = target_logits_rows(target_row_of(b->s), V, b->Tc);
    int64_t least = ceil_div(b->Tc, CHUNKS_MOST);
    rows = rows < least ? least : rows;
    int all = gather_tokens(b, SEG_BACKWARD, "head", x, H);
    int partial = seg_temp(b, "head.dx", b->Tc * H);
    for (int64_t first = 0; first < b->Tc; first += rows)
        loss_chunk(b, all, at, partial, first, rows);
    scatter_tokens(b, SEG_BACKWARD, "head", partial, dx, H);
}

static void begin(builder *b, segment *seg, segment_kind kind)
{
    segment_init(seg, b, kind, b->s, b->a);
    b->layer = b->layer_step = 0;
    b->module = MODULE_HEAD;
    b->node = NODE_ATTN;
}

#define FINAL "decoder.final_layernorm.weight"

void build_final(builder *b, segment *seg)
{
    int64_t T = b->T, H = b->s->m.hidden;
    begin(b, seg, SEGMENT_FINAL);
    int x = seg_saved(b, "x", T * H, 0), y = seg_other(b, "y", LIFE_OUTPUT, T * H);
    norm_bufs norm = norm_into(b, &(norm_shape){"final norm", FINAL, T, H}, x, y);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, T * H), dn = seg_temp(b, "dn", T * H);
    seg_op(b, SEG_BACKWARD, OP_COPY, "final norm", IN(dh), OUT(dn), DIM(T * H));
    norm_backward(b, &norm, dn, dh, false);
}

/* Both parts of x [2][T][H], each with its loss. */
static void head_of_both(builder *b)
{
    int64_t n = b->T * b->s->m.hidden;
    int x = seg_saved(b, "x", 2 * n, 0), dh = seg_other(b, "dh", LIFE_DHIDDEN, 2 * n);
    const loss_at *at[] = {&of_decoder, &of_module};
    for (int i = 0; i < 2; i++) {
        b->module = i ? MODULE_PREDICTION : MODULE_HEAD;
        int part = seg_temp(b, "x", n);
        move_flat(b, SEG_BACKWARD, "head", (slice){x, i * n}, (slice){part, 0}, n);
        head_loss(b, part, at[i], seg_view(b, dh, i * n, n));
    }
}

/* Without a prediction module nothing happens in forward but the norm. */
void build_head(builder *b, segment *seg)
{
    int64_t T = b->T, H = b->s->m.hidden;
    begin(b, seg, SEGMENT_HEAD);
    if (b->s->m.n_mtp) {
        head_of_both(b);
        return;
    }
    int x = seg_saved(b, "x", T * H, 0);
    norm_bufs norm = norm_forward(b, &(norm_shape){"final norm", FINAL, T, H}, x, 0);
    int dn = seg_temp(b, "dh0", T * H), dh = seg_other(b, "dh", LIFE_DHIDDEN, T * H);
    head_loss(b, norm.y, &of_decoder, dn);
    norm_backward(b, &norm, dn, dh, false);
}
