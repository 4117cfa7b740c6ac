/* target_cuda.c - what kernels of a GPU need beside an operation's buffers: formulas of ops.def.
 *
 * The planner knows no kernels, so these are bounds for all rows of a kind (backend/cuda/kernels),
 * which tests/cuda compares with what each row asks for. The largest are attention's gradient,
 * whose sums are FP32 and whose key and value heads are summed over the query heads that share
 * them, and a chunk of logits. */
#include "base/maths.h"
#include "op/fused.h"
#include "ir/target.h"
#include "op/update.h"

enum {
    ROOM_ALIGN = 256,
    LIBRARY = (32 << 20) + ROOM_ALIGN, /* what a GEMM may take of cuBLASLt */
    PIECES = 528,                      /* a sum over rows is cut into so many at most, */
    PIECE_ROWS = 32,                   /* of so many rows at least */
    SORTED = 2048,                     /* pairs that a block sorts */
    SPLIT_MOST = 1024,                 /* columns of a gradient that is cut into two BF16 halves */
    STATES = 16,                       /* of the delta rule, kept by a block */
    COLUMNS_LEAST = 16,                /* of its values in a block */
    COLUMNS_MOST = 128,
    SHARED_MOST = 200 << 10,
    RULE_CHUNK = 64, /* tokens, and numbers of a head, of the delta rule in chunks */
    RULE_HEAD = 128,
    BACK_ROWS = 8,       /* of a piece of both gradients of a norm, at least */
    HEADS_PIECES = 1056, /* tokens are cut into so many for the gradients of heads, */
    HEADS_TOKENS = 2,    /* of so many at least */
};
static const int64_t SCORES_MOST = (int64_t)16 << 30; /* of a gradient of a fixed order */

static int64_t room(int64_t a, int64_t b, int64_t c)
{
    return round_up(mul_sat(mul_sat(a, b), c), ROOM_ALIGN);
}

static int64_t columns(int64_t rows, int64_t n)
{
    const int64_t pieces = ceil_div(rows, PIECE_ROWS);
    return room(pieces < 1 ? 1 : pieces < PIECES ? pieces : PIECES, n, 4);
}

static bool both_are(const op_types *t, dtype type)
{
    return t->in[IN_GEMM_x] == type && t->in[IN_GEMM_w] == type;
}

static int64_t gemm(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, n = d[DIM_GEMM_N];
    if (both_are(t, DTYPE_BF16) || both_are(t, DTYPE_F32)) return LIBRARY;
    if (o->kind == OP_GEMM || t->in[IN_GEMM_D_dy] != DTYPE_F32 || n > SPLIT_MOST) return 0;
    return LIBRARY + room(d[DIM_GEMM_M], n, 4) + room(n, d[DIM_GEMM_K], 4);
}

static int64_t head(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, n_t = d[DIM_HEAD_LOSS_T];
    const int64_t rows = d[DIM_HEAD_LOSS_ROWS] < n_t ? d[DIM_HEAD_LOSS_ROWS] : n_t;
    const int64_t n = rows < 1 ? 1 : rows, n_v = d[DIM_HEAD_LOSS_V];
    if (both_are(t, DTYPE_BF16) && n_v % 8 == 0 && d[DIM_HEAD_LOSS_H] % 8 == 0)
        return room(n, n_v, 2) + room(n, 2, 4) + LIBRARY;
    return room(n_t, 2, 4) + room(n, n_v, 4);
}

/* dO times O, the FP32 sum of dQ (of a fixed order: the gradient of the scores), and, where heads
 * share keys and values, gradients of those for every query head. */
static int64_t attention(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, s = d[DIM_ATTN_S], h = d[DIM_ATTN_N];
    const int64_t rows = mul_sat(mul_sat(d[DIM_ATTN_B], s), h), wide = round_up(s, 128);
    const int64_t scores = mul_sat(mul_sat(mul_sat(2 * d[DIM_ATTN_B], h), s), s);
    const bool fixed = o->flags & FIXED_ORDER;
    int64_t bytes = room(rows, 4, 1) + columns(d[DIM_ATTN_B] * s, h) + 512;
    if (t->in[IN_ATTN_D_do] != DTYPE_BF16 || (fixed && scores > SCORES_MOST)) return bytes;
    bytes += fixed ? room(2 * d[DIM_ATTN_B], h, mul_sat(wide, wide)) : room(rows, d[DIM_ATTN_D], 4);
    return bytes + (h != d[DIM_ATTN_G] ? room(rows, d[DIM_ATTN_D] + d[DIM_ATTN_DV], 2) : 0);
}

/* A block's own o and lse, which are merged into what is there. */
static int64_t block(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    const int64_t rows =
        mul_sat(mul_sat(d[DIM_ATTN_BLOCK_B], d[DIM_ATTN_BLOCK_SQ]), d[DIM_ATTN_BLOCK_N]);
    if (t->in[IN_ATTN_BLOCK_q] != DTYPE_BF16) return 0;
    return room(rows, d[DIM_ATTN_BLOCK_DV], 2) + room(rows, 4, 1) + 512;
}

/* As of whole attention, and gradients of queries and keys that are added or widened afterwards. A
 * rank's own keys are the largest block, and alone write theirs at once. */
static int64_t block_gradient(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, h = d[DIM_ATTN_BLOCK_D_N], g = d[DIM_ATTN_BLOCK_D_G];
    const int64_t keys = mul_sat(d[DIM_ATTN_BLOCK_D_B], d[DIM_ATTN_BLOCK_D_SK]);
    const int64_t rows = mul_sat(mul_sat(d[DIM_ATTN_BLOCK_D_B], d[DIM_ATTN_BLOCK_D_SQ]), h);
    const int64_t scores =
        room(2 * d[DIM_ATTN_BLOCK_D_B], h,
             mul_sat(round_up(d[DIM_ATTN_BLOCK_D_SQ], 128), round_up(d[DIM_ATTN_BLOCK_D_SK], 128)));
    const bool fixed = o->flags & FIXED_ORDER;
    const bool at_once = d[DIM_ATTN_BLOCK_D_QA] == d[DIM_ATTN_BLOCK_D_KA] && !(o->flags & ADD_KV) &&
                         t->out[OUT_ATTN_BLOCK_D_dk] == DTYPE_BF16 &&
                         t->out[OUT_ATTN_BLOCK_D_dv] == DTYPE_BF16;
    int64_t bytes = room(rows, 4, 1);
    if (t->in[IN_ATTN_BLOCK_D_do] != DTYPE_BF16) return bytes;
    bytes += 512 + room(rows, d[DIM_ATTN_BLOCK_D_D], 2);
    bytes += fixed ? (scores < SCORES_MOST ? scores : SCORES_MOST)
                   : room(rows, d[DIM_ATTN_BLOCK_D_D], 4);
    if (!at_once)
        bytes +=
            room(keys, g, 2 * d[DIM_ATTN_BLOCK_D_D]) + room(keys, g, 2 * d[DIM_ATTN_BLOCK_D_DV]);
    return bytes +
           (h != g ? room(keys, h, 2 * (d[DIM_ATTN_BLOCK_D_D] + d[DIM_ATTN_BLOCK_D_DV])) : 0);
}

static int64_t rule_factors(const op *o)
{
    const int64_t *d = o->dim;
    return room(d[DIM_GDN_RULE_B], d[DIM_GDN_RULE_S], 8 * d[DIM_GDN_RULE_Nk]);
}

/* Chunks of all heads, where the rule goes by chunks on tensor cores; 0: it does not. */
static int64_t rule_chunks(const op *o, dtype qkv)
{
    const int64_t *d = o->dim, chunk = d[DIM_GDN_RULE_CHUNK];
    if (qkv != DTYPE_BF16 || chunk < 1 || chunk > RULE_CHUNK || d[DIM_GDN_RULE_Dk] > RULE_HEAD ||
        d[DIM_GDN_RULE_Dv] > RULE_HEAD)
        return 0;
    return mul_sat(mul_sat(d[DIM_GDN_RULE_B], ceil_div(d[DIM_GDN_RULE_S], chunk)),
                   d[DIM_GDN_RULE_Nv]);
}

/* Two squares a chunk, and four numbers a token. */
static int64_t chunks_room(int64_t n)
{
    return 2 * room(n, RULE_CHUNK * RULE_CHUNK, 2) + room(n, RULE_CHUNK, 16);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t rule(const op *o, const op_types *t)
{
    return larger(rule_factors(o), chunks_room(rule_chunks(o, t->in[IN_GDN_RULE_qkv])));
}

/* In chunks: the gradient by the state behind each, and by what each token writes. */
static int64_t rule_gradient(const op *o, const op_types *t)
{
    const int64_t *d = o->dim, dk = d[DIM_GDN_RULE_D_Dk], dv = d[DIM_GDN_RULE_D_Dv];
    const int64_t tokens = d[DIM_GDN_RULE_D_B] * d[DIM_GDN_RULE_D_S], nv = d[DIM_GDN_RULE_D_Nv];
    const int64_t stride = round_up(dk, 32) + 8, chunks = rule_chunks(o, t->in[IN_GDN_RULE_D_qkv]);
    int64_t n = COLUMNS_MOST;
    while (n > COLUMNS_LEAST && (2 * n * stride * 4 > SHARED_MOST || n / 2 >= dv)) n /= 2;
    const int64_t groups = ceil_div(dv, n);
    const int64_t by_tokens =
        rule_factors(o) + room(d[DIM_GDN_RULE_D_B] * nv * groups, STATES * n * dk, 4) +
        room(tokens * nv * groups, 2 * dk, 4) + room(tokens * nv * groups, 2, 4);
    if (chunks == 0) return by_tokens;
    return larger(by_tokens,
                  chunks_room(chunks) + room(chunks, dk * dv, 2) + room(tokens * nv, dv, 2));
}

/* Samples of which this rank has tokens. */
static int64_t samples(int64_t tokens, int64_t size)
{
    return size > 0 ? tokens / size + 2 : 1;
}

/* n in pieces of at least so many each, at most so many. */
static int64_t pieces(int64_t n, int64_t least, int64_t most)
{
    const int64_t all = ceil_div(n, least);
    return all < most ? all : most;
}

static int64_t sorted(int64_t pairs, int64_t experts)
{
    return room(ceil_div(pairs, SORTED), experts, 4);
}

static int64_t library(dtype type)
{
    return type == DTYPE_BF16 ? LIBRARY : 0;
}

#include "op/op_cuda.h"

/* Fused: by parts, what lies between them and the neediest, or by one pass as the row says. */
int64_t target_cuda_room(const op *o, const op_types *t)
{
    const int64_t own = rooms[o->kind] ? rooms[o->kind](o, t) : 0;
    if (!op_is_fused(o->kind)) return own;
    fused_steps f;
    int64_t at[FUSED_BETWEEN_MAX], most = 0;
    fused_expand(&f, o, t);
    for (int i = 0; i < f.n; i++) most = larger(most, target_cuda_room(&f.ops[i], &f.types[i]));
    return larger(own, fused_places(&f, at) + most);
}
