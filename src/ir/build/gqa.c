/* gqa.c - queries, keys and values of grouped-query attention, from one GEMM.
 *
 * TP cuts whole groups. With fewer groups than TP ranks it cuts the rows of the GEMM evenly, as
 * Megatron does: its output is gathered, and each rank takes its own queries and its group's key
 * and value; in backward everybody's gradients of all columns are summed and scattered. */
#include "ir/build/attention.h"

typedef struct gqa_sizes {
    int64_t n, g, d, row; /* heads of this rank; columns of its part of the GEMM */
} gqa_sizes;

static gqa_sizes sizes_of(const builder *b)
{
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    int64_t columns = (a->heads * (a->output_gate ? 2 : 1) + 2 * a->kv_heads) * a->head_dim;
    return (gqa_sizes){z.n, z.g, z.d, columns / b->s->lay.tp};
}

static gemm gemm_of(const builder *b)
{
    return (gemm){"qkv", SA "linear_qkv.weight", SA "linear_qkv.bias", sizes_of(b).row,
                  b->s->m.hidden};
}

/* ---- fewer groups than TP ranks */

static bool groups_are_shared(const builder *b)
{
    return b->block->attention.kv_heads < b->s->lay.tp;
}

/* Columns first .. first+count-1 of this rank's group, in all [TP][Tc][row], are those of
 * part[Tc][count]; copied there, or back. */
static void move_columns(builder *b, int phase, int all, int part, int64_t first, int64_t count)
{
    int64_t row = sizes_of(b).row, share = b->s->lay.tp / b->block->attention.kv_heads;
    int64_t rank =
        seg_group_rank(b, GROUP_TP) / share * share; /* the first with the group's columns */
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, left = row - at % row;
        int64_t run = left < count - done ? left : count - done;
        int64_t from = (rank + at / row) * b->Tc * row + at % row;
        if (phase == SEG_FORWARD)
            seg_op(b, phase, OP_MOVE, "qkv.take", IN(all), OUT(part),
                   DIM(1, 1, b->Tc, run, 0, 0, row, from, 0, 0, count, done));
        else
            seg_op(b, phase, OP_MOVE, "qkv.take", IN(part), OUT(all),
                   DIM(1, 1, b->Tc, run, 0, 0, count, done, 0, 0, row, from));
        done += run;
    }
}

static void move_heads(builder *b, int phase, int all, qkv_set t, int gate)
{
    const attention_block *a = &b->block->attention;
    gqa_sizes z = sizes_of(b);
    int64_t share = b->s->lay.tp / a->kv_heads, queries = a->heads / a->kv_heads * z.d;
    int64_t own = seg_group_rank(b, GROUP_TP) % share * z.n * z.d;
    int64_t key = queries * (a->output_gate ? 2 : 1);
    move_columns(b, phase, all, t.q, own, z.n * z.d);
    if (gate != NONE) move_columns(b, phase, all, gate, queries + own, z.n * z.d);
    move_columns(b, phase, all, t.k, key, z.d);
    move_columns(b, phase, all, t.v, key + z.d, z.d);
}

/* ---- qkv to heads and back */

static void split_heads(builder *b, int qkv, qkv_set t, int gate)
{
    gqa_sizes z = sizes_of(b);
    if (!groups_are_shared(b)) {
        seg_op(b, SEG_FORWARD, OP_QKV_SPLIT, "qkv.split", IN(qkv), OUT(t.q, t.k, t.v, gate),
               DIM(b->Tc, z.n, z.g, z.d));
        return;
    }
    int64_t n = b->Tc * z.row;
    int all = seg_temp(b, "qkv of all", b->s->lay.tp * n);
    seg_comm(b, SEG_FORWARD, OP_ALL_GATHER, "qkv.gather", GROUP_TP, IN(qkv), OUT(all), DIM(n));
    move_heads(b, SEG_FORWARD, all, t, gate);
}

static void join_heads(builder *b, qkv_set d, int dgate, int dqkv)
{
    gqa_sizes z = sizes_of(b);
    if (!groups_are_shared(b)) {
        seg_op(b, SEG_BACKWARD, OP_QKV_JOIN, "qkv.join", IN(d.q, d.k, d.v, dgate), OUT(dqkv),
               DIM(b->Tc, z.n, z.g, z.d));
        return;
    }
    int64_t n = b->Tc * z.row;
    int all = seg_temp(b, "dqkv of all", b->s->lay.tp * n);
    seg_op(b, SEG_BACKWARD, OP_ZERO, "qkv.take", NULL, OUT(all), DIM(b->s->lay.tp * n));
    move_heads(b, SEG_BACKWARD, all, d, dgate);
    seg_comm(b, SEG_BACKWARD, OP_REDUCE_SCATTER, "qkv.scatter", GROUP_TP, IN(all), OUT(dqkv),
             DIM(n));
}

/* Exchanged for heads, the buffers of this rank's tokens are not read in backward. */
static int kept(builder *b, const attention_bufs *t, const char *name, int64_t elements)
{
    return t->core.parts > 1 ? seg_temp(b, name, elements)
                             : seg_saved(b, name, elements, OFF_CORE_ATTN);
}

static bool cut_norm(const builder *b)
{
    return b->block->attention.qk_norm_whole && b->s->lay.tp > 1;
}

/* Heads of a token are normed one by one, or all at once. */
static norm_bufs norm_heads(builder *b, const char *name, const char *weight, int x, int64_t heads,
                            unsigned drop)
{
    int64_t d = sizes_of(b).d;
    if (cut_norm(b))
        return norm_cut_forward(b, &(norm_shape){name, weight, b->Tc, heads * d}, x, drop);
    bool whole = b->block->attention.qk_norm_whole;
    return norm_forward(
        b, &(norm_shape){name, weight, whole ? b->Tc : b->Tc * heads, whole ? heads * d : d}, x,
        drop);
}

static void norm_heads_backward(builder *b, const norm_bufs *n, int dy, int dx)
{
    if (cut_norm(b))
        norm_cut_backward(b, n, dy, dx);
    else
        norm_backward(b, n, dy, dx, false);
}

void gqa_forward(builder *b, attention_bufs *t)
{
    const attention_block *a = &b->block->attention;
    gqa_sizes z = sizes_of(b);
    int64_t queries = b->Tc * z.n * z.d, keys = b->Tc * z.g * z.d;
    gemm p = gemm_of(b);
    int qkv = seg_temp(b, "qkv", b->Tc * z.row);
    column_forward(b, &p, t->norm.y, qkv);
    t->q = a->qk_norm ? seg_saved(b, "q before norm", queries, 0) : kept(b, t, "q", queries);
    t->k = a->qk_norm ? seg_saved(b, "k before norm", keys, 0) : kept(b, t, "k", keys);
    t->v = kept(b, t, "v", keys);
    t->gate = a->output_gate ? seg_saved(b, "gate", queries, 0) : NONE;
    split_heads(b, qkv, (qkv_set){t->q, t->k, t->v}, t->gate);
    if (a->qk_norm) {
        unsigned drop = t->core.parts > 1 ? NOT_SAVED : OFF_CORE_ATTN;
        t->q_norm = norm_heads(b, "q", SA "q_layernorm.weight", t->q, z.n, drop);
        t->k_norm = norm_heads(b, "k", SA "k_layernorm.weight", t->k, z.g, drop);
        t->q = t->q_norm.y;
        t->k = t->k_norm.y;
    }
    attention_rotate(b, SEG_FORWARD, t->q, (turn){z.n, z.d, 0, false});
    attention_rotate(b, SEG_FORWARD, t->k, (turn){z.g, z.d, 0, false});
}

void gqa_backward(builder *b, const attention_bufs *t, qkv_set d, int dgate, int dxn)
{
    gqa_sizes z = sizes_of(b);
    attention_rotate(b, SEG_BACKWARD, d.q, (turn){z.n, z.d, 0, true});
    attention_rotate(b, SEG_BACKWARD, d.k, (turn){z.g, z.d, 0, true});
    if (b->block->attention.qk_norm) {
        qkv_set normed = d;
        d.q = seg_temp(b, "dq before norm", b->Tc * z.n * z.d);
        d.k = seg_temp(b, "dk before norm", b->Tc * z.g * z.d);
        norm_heads_backward(b, &t->q_norm, normed.q, d.q);
        norm_heads_backward(b, &t->k_norm, normed.k, d.k);
    }
    gemm p = gemm_of(b);
    int dqkv = seg_temp(b, "dqkv", b->Tc * z.row);
    join_heads(b, d, dgate, dqkv);
    column_backward(b, &p, dqkv, t->norm.y, dxn, false);
}
