/* mtp.c - the prediction module: embedding of the next token and hidden state, each normed,
 * projected, one layer, one norm.
 *
 * It reads the normed hidden state n [T][H] and hands on [2][T][H]: n, and its own. The gradient
 * stream has both parts; the module leaves the gradient of n in the first.
 *
 * TP cuts the outputs of the projection, as Megatron does, so its columns are exchanged for tokens
 * behind it. */
#include "ir/build/build.h"
#include "ir/memory/offload.h"

typedef struct mtp_bufs {
    norm_bufs e_norm, h_norm, out_norm;
    layer_bufs layer;
    int both, x, y;
} mtp_bufs;

static gemm projection(const builder *b)
{
    int64_t H = b->s->m.hidden;
    return (gemm){"mtp.proj", "eh_proj.weight", NULL, H / b->s->lay.tp, 2 * H};
}

/* Columns [Tc][n] of all tokens <-> tokens [T][H] of all columns; blocks are [TP][T][n]. */
static void tokens_of_columns(builder *b, int columns, int tokens)
{
    int64_t P = b->s->lay.tp, H = b->s->m.hidden, n = H / P;
    int came = seg_temp(b, "mtp.columns", b->T * H);
    seg_comm(b, SEG_FORWARD, OP_ALL_TO_ALL, "mtp.proj", GROUP_TP, IN(columns), OUT(came),
             DIM(b->T * n));
    seg_op(b, SEG_FORWARD, OP_MOVE, "mtp.proj", IN(came), OUT(tokens),
           DIM(P, 1, b->T, n, b->T * n, 0, n, 0, n, 0, H, 0));
}

static void columns_of_tokens(builder *b, int tokens, int columns)
{
    int64_t P = b->s->lay.tp, H = b->s->m.hidden, n = H / P;
    int sent = seg_temp(b, "mtp.columns", b->T * H);
    seg_op(b, SEG_BACKWARD, OP_MOVE, "mtp.proj", IN(tokens), OUT(sent),
           DIM(P, 1, b->T, n, n, 0, H, 0, b->T * n, 0, n, 0));
    seg_comm(b, SEG_BACKWARD, OP_ALL_TO_ALL, "mtp.proj", GROUP_TP, IN(sent), OUT(columns),
             DIM(b->T * n));
}

static void project_forward(builder *b, int both, int x)
{
    gemm p = projection(b);
    bool cut = b->s->lay.tp > 1;
    int columns = cut ? seg_temp(b, "mtp.columns", b->Tc * p.n) : x;
    column_forward(b, &p, both, columns);
    if (cut) tokens_of_columns(b, columns, x);
}

static void project_backward(builder *b, int dx, int both, int dboth)
{
    gemm p = projection(b);
    int columns = dx;
    if (b->s->lay.tp > 1) {
        columns = seg_temp(b, "mtp.columns", b->Tc * p.n);
        columns_of_tokens(b, dx, columns);
    }
    column_backward(b, &p, columns, both, dboth, false);
}

static void forward(builder *b, mtp_bufs *t, int n, int out)
{
    int64_t T = b->T, H = b->s->m.hidden;
    int e = seg_saved(b, "mtp.e", T * H, 0);
    embed_forward(b, "mtp.embedding", STEP_MTP_IDS, e);
    t->e_norm =
        norm_forward(b, &(norm_shape){"mtp.e norm", "enorm.weight", T, H}, e, DROP_LAYERNORM);
    t->h_norm =
        norm_forward(b, &(norm_shape){"mtp.h norm", "hnorm.weight", T, H}, n, DROP_LAYERNORM);
    t->both = seg_saved(b, "mtp.both", T * 2 * H, 0);
    t->x = seg_saved(b, "mtp.x", T * H, offload_of_input(&b->s->m, b->layer));
    t->y = seg_saved(b, "mtp.y", T * H, 0);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_MERGE, "mtp.both", IN(t->e_norm.y, t->h_norm.y), OUT(t->both),
           DIM(T, H, H));
    project_forward(b, t->both, t->x);
    layer_forward(b, &t->layer, t->x, t->y);
    b->module = MODULE_PREDICTION;
    b->node = NODE_POST;
    t->out_norm = norm_forward(b, &(norm_shape){"mtp.norm", "final_layernorm.weight", T, H}, t->y,
                               (unsigned)NOT_SAVED);
    move_flat(b, SEG_FORWARD, "mtp.out", (slice){n, 0}, (slice){out, 0}, T * H);
    move_flat(b, SEG_FORWARD, "mtp.out", (slice){t->out_norm.y, 0}, (slice){out, T * H}, T * H);
}

/* dn: gradient of the hidden state that the module read; added to. */
static void backward(builder *b, const mtp_bufs *t, int dout, int dn)
{
    int64_t T = b->T, H = b->s->m.hidden;
    int dy = seg_temp(b, "mtp.dh", T * H);
    norm_backward(b, &t->out_norm, dout, dy, false);
    layer_backward(b, &t->layer, dy);
    b->module = MODULE_PREDICTION;
    b->node = NODE_ATTN;
    int dboth = seg_temp(b, "mtp.dboth", T * 2 * H), de = seg_temp(b, "mtp.de", T * H);
    int den = seg_temp(b, "mtp.den", T * H), dhn = seg_temp(b, "mtp.dhn", T * H);
    int part = seg_temp(b, "mtp.dh0", T * H);
    project_backward(b, dy, t->both, dboth);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_SPLIT, "mtp.both", IN(dboth), OUT(den, dhn), DIM(T, H, H));
    norm_backward(b, &t->e_norm, den, de, false);
    embed_backward(b, "mtp.embedding", STEP_MTP_IDS, de);
    norm_backward(b, &t->h_norm, dhn, part, false);
    seg_op(b, SEG_BACKWARD, OP_ADD, "mtp.add", IN(dn, part), OUT(dn), DIM(T * H));
}

void build_mtp(builder *b, segment *seg)
{
    int64_t n = b->T * b->s->m.hidden;
    mtp_bufs t;
    segment_init(seg, b, SEGMENT_MTP, b->s, b->a);
    b->layer = b->s->m.n_layers; /* rows of the module, and its layer */
    b->layer_step = 0;
    b->module = MODULE_PREDICTION;
    b->node = NODE_ATTN;
    int x = seg_saved(b, "n", n, 0), y = seg_other(b, "y", LIFE_OUTPUT, 2 * n);
    forward(b, &t, x, y);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, 2 * n);
    backward(b, &t, seg_view(b, dh, n, n), seg_view(b, dh, 0, n));
    b->layer = 0;
    b->node = NODE_ATTN;
}
