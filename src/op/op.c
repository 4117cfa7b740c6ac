/* op.c - names, sizes and FLOPs of operations. */
#include "op/op.h"

#include <string.h>

#include "base/maths.h"
#include "op/fused.h"
#include "op/quant.h"
#include "op/update.h"

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

/* ---- FLOPs: the functions of formulas in ops.def */

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
static double block_pairs(const int64_t *dim)
{
    const double window = (double)dim[DIM_ATTN_BLOCK_WINDOW];
    const double n_q = (double)dim[DIM_ATTN_BLOCK_SQ] / 2, n_k = (double)dim[DIM_ATTN_BLOCK_SK] / 2;
    const double q[] = {(double)dim[DIM_ATTN_BLOCK_QA], (double)dim[DIM_ATTN_BLOCK_QB]};
    const double k[] = {(double)dim[DIM_ATTN_BLOCK_KA], (double)dim[DIM_ATTN_BLOCK_KB]};
    double sum = 0;
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < 2; l++) {
            sum += pairs_before(q[i], n_q, k[l], n_k);
            if (window > 0) sum -= pairs_before(q[i] - window, n_q, k[l], n_k);
        }
    return sum;
}

/* A chunk of logits, then a loss for each of its rows, in double precision. */
static int64_t logits_room(int64_t rows, int64_t tokens, int64_t words)
{
    enum { LINE = 64 };
    const int64_t n = rows > 0 && rows < tokens ? rows : tokens;
    return add_sat(round_up(mul_sat(n, mul_sat(words, sizeof(float))), LINE),
                   mul_sat(n, sizeof(double)));
}

/* ---- shapes: the functions in ops.def */

/* Matrices of a tensor of E experts: with offsets all rows are in one. */
static int64_t apart(int64_t experts, int64_t offsets)
{
    return offsets ? 1 : experts;
}

static int64_t scales(int64_t form, int64_t square, int64_t rows, int64_t cols)
{
    return quant_scales((quant_shape){(quant_form)form, square != 0, rows, cols});
}

static int64_t weight_scales(int64_t form, int64_t rows, int64_t cols)
{
    return scales(form, quant_info_of((quant_form)form).square, rows, cols);
}

#include "op/op_facts.h"

int64_t op_cpu_room(const op *o)
{
    int64_t (*room)(const op *) = op_infos[o->kind].cpu_room;
    if (!op_is_fused(o->kind)) return room ? room(o) : 0;
    fused_steps parts;
    int64_t at[FUSED_BETWEEN_MAX];
    fused_expand(&parts, o, NULL);
    return fused_places(&parts, at);
}

int64_t op_elements(const op *o, int operand)
{
    int64_t (*elements)(const op *, int) = op_infos[o->kind].elements;
    return elements ? elements(o, operand) : -1;
}

double op_flops(const op *o)
{
    double (*flops)(const int64_t *) = op_infos[o->kind].flops;
    return flops ? flops(o->dim) : 0;
}
