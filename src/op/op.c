/* op.c - names, FLOPs and bytes of operations. */
#include "op/op.h"

#include <string.h>

const op_info op_infos[OP_COUNT] = {
#define OP(id, in_, out_, types_, dims_, reals_, help_)                                            \
    [OP_##id] = {.name = #id,                                                                      \
                 .in = in_,                                                                        \
                 .out = out_,                                                                      \
                 .types = types_,                                                                  \
                 .dims = dims_,                                                                    \
                 .reals = reals_,                                                                  \
                 .help = help_},
#include "op/ops.def"
#undef OP
};

int op_first_buf(const op *o)
{
    return o->in[0] >= 0 ? o->in[0] : o->out[0];
}

const char *const op_module_names[MODULE_COUNT] = {
    [MODULE_NONE] = "",
    [MODULE_EMBEDDING] = "embedding",
    [MODULE_LAYER] = "layer",
    [MODULE_ATTENTION] = "attention",
    [MODULE_LINEAR] = "linear attention",
    [MODULE_MLP] = "mlp",
    [MODULE_MOE] = "moe",
    [MODULE_SHARED] = "shared expert",
    [MODULE_PREDICTION] = "prediction",
    [MODULE_HEAD] = "head",
    [MODULE_MESSAGES] = "messages",
    [MODULE_REPLICAS] = "replicas",
    [MODULE_OPTIMIZER] = "optimizer",
};

static bool letter_fits(char letter, dtype t)
{
    return letter == 'f'   ? t == DTYPE_F32
           : letter == 'd' ? t == DTYPE_F64
           : letter == 'i' ? t == DTYPE_I32
                           : true;
}

bool op_types_fit(const op *o, const op_types *t)
{
    const char *in = op_infos[o->kind].types, *out = strchr(in, '>') + 1;
    for (int i = 0; in[i] != '>'; i++)
        if (o->in[i] >= 0 && !letter_fits(in[i], t->in[i])) return false;
    for (int i = 0; out[i]; i++)
        if (o->out[i] >= 0 && !letter_fits(out[i], t->out[i])) return false;
    return true;
}

const char *const op_stream_names[STREAM_COUNT] = {
    [STREAM_COMPUTE] = "compute",
    [STREAM_COMM] = "layers",
    [STREAM_SEND_FORWARD] = "stages, sends forward",
    [STREAM_RECV_FORWARD] = "stages, receives forward",
    [STREAM_SEND_BACKWARD] = "stages, sends backward",
    [STREAM_RECV_BACKWARD] = "stages, receives backward",
    [STREAM_DP] = "replicas",
    [STREAM_COPY] = "copies",
    [STREAM_COPY_BACK] = "copies back",
    [STREAM_HOST] = "control",
};

op_stream op_stream_opposite(op_stream s)
{
    switch (s) {
    case STREAM_SEND_FORWARD:
        return STREAM_RECV_FORWARD;
    case STREAM_RECV_FORWARD:
        return STREAM_SEND_FORWARD;
    case STREAM_SEND_BACKWARD:
        return STREAM_RECV_BACKWARD;
    case STREAM_RECV_BACKWARD:
        return STREAM_SEND_BACKWARD;
    default:
        return s;
    }
}

op_stream op_stream_channel(op_stream s)
{
    bool receives = s == STREAM_RECV_FORWARD || s == STREAM_RECV_BACKWARD;
    return receives ? op_stream_opposite(s) : s;
}

bool op_is_comm(op_kind k)
{
    return k >= OP_ALL_GATHER && k <= OP_RECV; /* they stand together in ops_comm.def */
}

bool op_is_copy(op_kind k)
{
    return k == OP_COPY_OUT || k == OP_COPY_IN;
}

bool op_can_overwrite(op_kind k)
{
    return k == OP_GEMM_W || k == OP_GROUPED_W || k == OP_QGEMM_W || k == OP_QGROUPED_W ||
           k == OP_HEAD_LOSS || k == OP_HEAD_PART_D || k == OP_EMBED_W;
}

bool op_is_typed(op_kind k)
{
    return op_is_copy(k) || k == OP_ZERO || k == OP_SQUARES || k == OP_ADAMW ||
           k == OP_HOST_ADAMW || k == OP_QUANTISE;
}

bool op_is_quantised(op_kind k)
{
    return k >= OP_QUANTISE && k <= OP_QGROUPED_W; /* they stand together in ops_quant.def */
}

bool op_makes_codes(op_kind k)
{
    return k == OP_QUANTISE || (k >= OP_ACT_QUANT && k <= OP_NORM_QUANT); /* ops_fused.def */
}

bool op_is_async(op_kind k)
{
    return op_is_comm(k) || op_is_copy(k) || k == OP_HOST_ADAMW;
}

/* Pairs of tokens that a causal mask with a window lets through, of one sequence. */
static double causal_pairs(double s, double window)
{
    if (window <= 0 || window >= s) return s * (s + 1) / 2;
    return window * (window + 1) / 2 + (s - window) * window;
}

/* Sum of clamp(u, 0, n) over u < t. */
static double clamped_sum(double t, double n)
{
    if (t <= 0) return 0;
    return t <= n + 1 ? t * (t - 1) / 2 : n * (n + 1) / 2 + (t - 1 - n) * n;
}

/* Pairs of n_q queries from position q on and n_k keys from k on in which the key is not behind. */
static double pairs_before(double q, double n_q, double k, double n_k)
{
    double d = q - k + 1;
    return clamped_sum(d + n_q, n_k) - clamped_sum(d, n_k);
}

/* Of a block over tokens in two halves (ATTN_BLOCK), one sample. */
static double block_pairs(const double *d)
{
    double sum = 0, n_q = d[DIM_ATTN_BLOCK_SQ] / 2, n_k = d[DIM_ATTN_BLOCK_SK] / 2;
    double window = d[DIM_ATTN_BLOCK_WINDOW];
    for (int q = DIM_ATTN_BLOCK_QA; q <= DIM_ATTN_BLOCK_QB; q++)
        for (int k = DIM_ATTN_BLOCK_KA; k <= DIM_ATTN_BLOCK_KB; k++) {
            sum += pairs_before(d[q], n_q, d[k], n_k);
            if (window > 0) sum -= pairs_before(d[q] - window, n_q, d[k], n_k);
        }
    return sum;
}

/* GEMMs of size D and of size DV for each pair of tokens. */
static double attention_flops(const double *d, double by_d, double by_dv)
{
    double pairs = causal_pairs(d[DIM_ATTN_S], d[DIM_ATTN_WINDOW]);
    return 2 * d[DIM_ATTN_B] * pairs * d[DIM_ATTN_N] *
           (by_d * d[DIM_ATTN_D] + by_dv * d[DIM_ATTN_DV]);
}

static double block_flops(const double *d, double by_d, double by_dv)
{
    return 2 * d[DIM_ATTN_BLOCK_B] * block_pairs(d) * d[DIM_ATTN_BLOCK_N] *
           (by_d * d[DIM_ATTN_BLOCK_D] + by_dv * d[DIM_ATTN_BLOCK_DV]);
}

static double rule_flops(const double *d, double each)
{
    return each * d[DIM_GDN_RULE_B] * d[DIM_GDN_RULE_S] * d[DIM_GDN_RULE_Nv] * d[DIM_GDN_RULE_Dk] *
           d[DIM_GDN_RULE_Dv];
}

double op_flops(const op *o)
{
    double d[OP_DIM_MAX];
    for (int i = 0; i < OP_DIM_MAX; i++) d[i] = (double)o->dim[i];
    switch (o->kind) {
    case OP_GEMM:
    case OP_GEMM_D:
    case OP_GEMM_W:
        return 2 * d[DIM_GEMM_M] * d[DIM_GEMM_N] * d[DIM_GEMM_K];
    case OP_QGEMM:
    case OP_QGEMM_D:
    case OP_QGEMM_W:
        return 2 * d[DIM_QGEMM_M] * d[DIM_QGEMM_N] * d[DIM_QGEMM_K];
    case OP_GROUPED:
    case OP_GROUPED_D:
    case OP_GROUPED_W:
    case OP_QGROUPED:
    case OP_QGROUPED_D:
    case OP_QGROUPED_W:
        /* of all rows; empty ones cost nothing */
        return 2 * d[DIM_GROUPED_ROOM] * d[DIM_GROUPED_N] * d[DIM_GROUPED_K];
    case OP_ATTN:
        return attention_flops(d, 1, 1);
    case OP_ATTN_D:
        return attention_flops(d, 3, 2);
    case OP_ATTN_BLOCK:
        return block_flops(d, 1, 1);
    case OP_ATTN_BLOCK_D:
        return block_flops(d, 3, 2);
    case OP_HEAD_PART:
        return 2 * d[DIM_HEAD_PART_ROWS] * d[DIM_HEAD_PART_H] * d[DIM_HEAD_PART_V];
    case OP_HEAD_PART_D:
        return 4 * d[DIM_HEAD_PART_D_ROWS] * d[DIM_HEAD_PART_D_H] * d[DIM_HEAD_PART_D_V];
    case OP_HEAD_LOSS:
        return 6 * d[DIM_HEAD_LOSS_T] * d[DIM_HEAD_LOSS_H] * d[DIM_HEAD_LOSS_V];
    case OP_HEAD_LOGITS:
        return 2 * d[DIM_HEAD_LOGITS_T] * d[DIM_HEAD_LOGITS_H] * d[DIM_HEAD_LOGITS_V];
    case OP_GDN_RULE:
        return rule_flops(d, 8);
    case OP_GDN_RULE_D:
        return rule_flops(d, 20);
    case OP_CONV:
    case OP_CONV_D:
    case OP_CONV_W:
        return 2 * d[DIM_CONV_B] * d[DIM_CONV_S] * d[DIM_CONV_C] * d[DIM_CONV_TAPS];
    default:
        return 0; /* bound by memory */
    }
}
