/* plain_quant.c - quantising, and products of quantised matrices in double.
 *
 * I1  A block's scale comes from its largest number alone, by the functions of narrow.h, and an
 *     element is multiplied once and rounded once: another device that does the same has the same
 *     codes.
 * I2  What lies past the last expert's rows is zero, whatever x holds there. */
#include "backend/cpu/kernels/plain_quant.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/narrow.h"
#include "base/wide.h"
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

/* ---- quantising */

/* A matrix as it is read: element (i, j) is at first + i * down + j * across. */
typedef struct source {
    typed x;
    int64_t first, down, across;
    int64_t end; /* tokens from here on are zero (I2) */
    bool tokens_across;
    const int32_t *offsets; /* [E+1] or none */
    int64_t E, e;           /* without offsets: the part that is read */
    const float *factors;   /* [E] by which a tensor is multiplied, or none */
} source;

static float number_at(typed x, int64_t i)
{
    return x.type == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)x.at)[i])
                                : ((const float *)x.at)[i];
}

enum { PIECE = 128 }; /* elements of a row that are looked at together: no block is wider */

/* n elements of row i from column j on, as FP32. */
static void source_read(const source *s, int64_t i, int64_t j, int64_t n, float *out)
{
    int64_t first = s->first + i * s->down + j * s->across;
    int64_t there = s->tokens_across ? s->end - j : i < s->end ? n : 0;
    there = there < 0 ? 0 : there < n ? there : n;
    if (s->across == 1)
        typed_read(out, s->x, first, there);
    else
        for (int64_t l = 0; l < there; l++) out[l] = number_at(s->x, first + l * s->across);
    for (int64_t l = there; l < n; l++) out[l] = 0; /* I2 */
}

/* The factor of the tensor that has element (i, j). */
static float factor_at(const source *s, int64_t i, int64_t j)
{
    if (!s->factors) return 1;
    int64_t e = s->e, row = s->tokens_across ? j : i;
    if (s->offsets)
        for (e = 0; e < s->E - 1 && row >= s->offsets[e + 1];) e++;
    return s->factors[e];
}

typedef struct block {
    int64_t i, j, i_end, j_end;
} block;

/* The largest size among n numbers. Sizes are in the order of their bits; a NaN counts for none. */
WIDE static uint32_t largest_size(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t l = 0; l < n; l++) {
        uint32_t size = float_bits(x[l]) & 0x7fffffff;
        size = size > 0x7f800000 ? 0 : size;
        most = size > most ? size : most;
    }
    return most;
}

static float block_amax(const source *s, const block *b)
{
    uint32_t most = 0;
    float x[PIECE];
    for (int64_t i = b->i; i < b->i_end; i++) {
        source_read(s, i, b->j, b->j_end - b->j, x);
        uint32_t size = largest_size(x, b->j_end - b->j);
        most = size > most ? size : most;
    }
    return float_of_bits(most);
}

/* What a block's elements are multiplied by; its scale is written. */
static float block_scale(const source *s, const block *b, quant_shape z, dtype type, void *scales)
{
    float factor = factor_at(s, b->i, b->j), largest = narrow_format_of(type).largest;
    if (z.form == QUANT_TENSOR) return factor;
    int64_t at = quant_scale_at(z, b->i, b->j);
    float amax = block_amax(s, b);
    if (z.form == QUANT_NV) {
        narrow_format e4m3 = narrow_format_of(DTYPE_E4M3);
        uint8_t code = narrow_of_float(e4m3, amax / largest * factor);
        ((uint8_t *)scales)[at] = code;
        return code ? factor / narrow_to_float(e4m3, code) : 0;
    }
    float scale = scale_of_amax(amax, largest);
    if (z.form == QUANT_MX)
        ((uint8_t *)scales)[at] = e8m0_of_power(scale);
    else
        ((float *)scales)[at] = scale;
    return 1 / scale;
}

WIDE static void codes_of(narrow_format f, const float *x, float times, int64_t n, uint8_t *codes)
{
    for (int64_t l = 0; l < n; l++) codes[l] = narrow_of_float(f, x[l] * times); /* I1 */
}

/* n codes of row i from column j on, which is even. */
static void put_codes(uint8_t *to, quant_shape z, int64_t i, int64_t j, int64_t n,
                      const uint8_t *codes)
{
    uint8_t *at = to + i * (quant_row(DTYPE_FP4, z.cols) / 2) + j / 2;
    for (int64_t l = 0; l < n; l += 2)
        at[l / 2] = (uint8_t)(codes[l] | (l + 1 < n ? codes[l + 1] << 4 : 0));
}

/* At most PIECE columns wide. */
static void encode_block(const source *s, const block *b, quant_shape z, dtype type, uint8_t *codes,
                         void *scales)
{
    narrow_format f = narrow_format_of(type);
    float times = block_scale(s, b, z, type, scales), x[PIECE];
    uint8_t pairs[PIECE];
    int64_t n = b->j_end - b->j;
    bool by_expert = z.form == QUANT_TENSOR && s->offsets && s->tokens_across;
    for (int64_t i = b->i; i < b->i_end; i++) {
        source_read(s, i, b->j, n, x);
        if (by_expert)
            for (int64_t l = 0; l < n; l++) x[l] *= factor_at(s, i, b->j + l);
        codes_of(f, x, by_expert ? 1 : times, n,
                 type == DTYPE_FP4 ? pairs : codes + i * z.cols + b->j);
        if (type == DTYPE_FP4) put_codes(codes, z, i, b->j, n, pairs);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void encode(const source *s, quant_shape z, dtype type, uint8_t *codes, void *scales)
{
    int64_t side = quant_info_of(z.form).block, down = z.square ? side : 1;
    int64_t across = side ? side : PIECE;
    if (scales)
        memset(scales, 0, (size_t)dtype_bytes(quant_info_of(z.form).scale, quant_scales(z)));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < quant_blocks(z.rows, down); i++)
        for (int64_t j = 0; j < z.cols; j += across) {
            block b = {i * down, j, smaller((i + 1) * down, z.rows), smaller(j + across, z.cols)};
            encode_block(s, &b, z, type, codes, scales);
        }
}

/* The largest number of a tensor: of a part, or of an expert's rows. */
static float tensor_amax(typed x, int64_t first, int64_t n)
{
    float most = 0;
#pragma omp parallel for schedule(static) reduction(max : most)
    for (int64_t i = first; i < first + n; i++) {
        float v = fabsf(number_at(x, i));
        if (v > most) most = v;
    }
    return most;
}

/* The factors by which tensors are multiplied lie in g until the end, when they are inverted. */
static void find_factors(const op_quantise *a, typed x)
{
    float reach = narrow_format_of((dtype)a->TYPE).largest;
    if (a->FORM == QUANT_NV) reach *= narrow_format_of(DTYPE_E4M3).largest;
    for (int64_t e = 0; e < a->E; e++) {
        span rows = {e * a->M, (e + 1) * a->M};
        if (a->offsets) rows = expert_rows(a->offsets, e, a->M);
        a->g[e] = factor_of_amax(tensor_amax(x, rows.begin * a->K, (rows.end - rows.begin) * a->K),
                                 reach);
    }
}

/* Both copies of one part, or of all experts' rows together. */
static void encode_part(const op_quantise *a, source s, int64_t e, bool turned)
{
    dtype type = (dtype)a->TYPE;
    uint8_t *codes = turned ? a->qt : a->q, *scales = turned ? a->st : a->s;
    quant_shape z = {(quant_form)a->FORM, a->SQUARE != 0, turned ? a->K : a->M,
                     turned ? a->M : a->K};
    if (!codes) return;
    s.first = e * a->M * a->K;
    s.e = e;
    s.tokens_across = turned;
    s.down = turned ? 1 : a->K;
    s.across = turned ? a->K : 1;
    if (scales) scales += e * dtype_bytes(quant_info_of(z.form).scale, quant_scales(z));
    encode(&s, z, type, codes + e * dtype_bytes(type, z.rows * quant_row(type, z.cols)), scales);
}

static void quantise(const kernel_call *c)
{
    const op_quantise a = op_quantise_of(c->o, c->in, c->out);
    source s = {.x = {c->types->in[IN_QUANTISE_x], c->in[IN_QUANTISE_x]},
                .end = a.offsets ? smaller(a.offsets[a.E], a.M) : a.M,
                .offsets = a.offsets,
                .E = a.E,
                .factors = a.g};
    if (a.g) find_factors(&a, s.x);
    for (int64_t e = 0; e < (a.offsets ? 1 : a.E); e++) {
        encode_part(&a, s, e, false);
        encode_part(&a, s, e, true);
    }
    for (int64_t e = 0; a.g && e < a.E; e++) a.g[e] = 1 / a.g[e];
}

/* ---- reading */

static struct {
    pthread_once_t once;
    float e4m3[256], e5m2[256], e2m1[16];
} values = {.once = PTHREAD_ONCE_INIT};

static void fill_values(void)
{
    for (int i = 0; i < 256; i++) {
        values.e4m3[i] = narrow_to_float(narrow_format_of(DTYPE_E4M3), (uint8_t)i);
        values.e5m2[i] = narrow_to_float(narrow_format_of(DTYPE_E5M2), (uint8_t)i);
        if (i < 16) values.e2m1[i] = narrow_to_float(narrow_format_of(DTYPE_FP4), (uint8_t)i);
    }
}

static float scale_at(const quant_view *v, int64_t i, int64_t j)
{
    if (!v->scales) return 1;
    int64_t at = quant_scale_at(v->z, i, j);
    switch (v->z.form) {
    case QUANT_MX:
        return e8m0_to_float(((const uint8_t *)v->scales)[at]);
    case QUANT_NV:
        return values.e4m3[((const uint8_t *)v->scales)[at]];
    default:
        return ((const float *)v->scales)[at];
    }
}

/* n elements of row i from column j on, all of one block. */
static void read_piece(const quant_view *v, int64_t i, int64_t j, int64_t n, float *out)
{
    float scale = scale_at(v, i, j), factor = v->factor ? v->factor[0] : 1;
    if (v->type == DTYPE_FP4) {
        const uint8_t *pairs = v->codes + i * (quant_row(v->type, v->z.cols) / 2);
        for (int64_t l = j; l < j + n; l++)
            out[l - j] =
                values.e2m1[l % 2 ? pairs[l / 2] >> 4 : pairs[l / 2] & 15] * scale * factor;
        return;
    }
    const uint8_t *codes = v->codes + i * v->z.cols + j;
    const float *table = v->type == DTYPE_E4M3 ? values.e4m3 : values.e5m2;
    for (int64_t l = 0; l < n; l++) out[l] = table[codes[l]] * scale * factor;
}

void quant_read(const quant_view *v, int64_t i, int64_t j, int64_t n, float *out)
{
    int64_t side = quant_info_of(v->z.form).block;
    for (int64_t l = 0, m; l < n; l += m) {
        m = side ? smaller(side - (j + l) % side, n - l) : n;
        read_piece(v, i, j + l, m, out + l);
    }
}

/* `of`: codes, scales, the factor. */
static quant_view view_of(quant_shape z, dtype type, void *const *of, int64_t part)
{
    pthread_once(&values.once, fill_values);
    const uint8_t *scales = of[1];
    int64_t bytes = dtype_bytes(type, z.rows * quant_row(type, z.cols));
    if (scales) scales += part * dtype_bytes(quant_info_of(z.form).scale, quant_scales(z));
    const float *factor = of[2];
    return (quant_view){z, type, (const uint8_t *)of[0] + part * bytes, scales, factor};
}

quant_view quant_view_a(const op *o, void *const *in, int64_t e)
{
    quant_pair p = quant_pair_of(o);
    quant_view v = view_of(p.a, p.at, in + IN_QGEMM_x, 0);
    if (v.factor) v.factor += e;
    return v;
}

quant_view quant_view_b(const op *o, void *const *in, int64_t e)
{
    quant_pair p = quant_pair_of(o);
    quant_view v = view_of(p.b, p.bt, in + IN_QGEMM_w, p.weight_gradient ? 0 : e);
    if (v.factor) v.factor += e;
    return v;
}

/* ---- products */

/* Of elements `s` of what is summed; products of FP32 numbers are exact in double. */
static double dot(const quant_view *a, int64_t i, const quant_view *b, int64_t j, span s)
{
    enum { AT_ONCE = 256 };
    float x[AT_ONCE], w[AT_ONCE];
    double sum = 0;
    for (int64_t k = s.begin; k < s.end; k += AT_ONCE) {
        int64_t n = smaller(AT_ONCE, s.end - k);
        quant_read(a, i, k, n, x);
        quant_read(b, j, k, n, w);
        for (int64_t l = 0; l < n; l++) sum += (double)x[l] * (double)w[l];
    }
    return sum;
}

static void gemm(const op *o, void *const *in, void *const *out)
{
    quant_view a = quant_view_a(o, in, 0), b = quant_view_b(o, in, 0);
    bool adds = o->kind == OP_QGEMM_W ? !(o->flags & OVERWRITE) : (o->flags & ACCUMULATE) != 0;
    float *y = op_qgemm_of(o, in, out).y; /* [a.rows][b.rows] */
    for (int64_t i = 0; i < a.z.rows; i++)
        for (int64_t j = 0; j < b.z.rows; j++) {
            float *at = y + i * b.z.rows + j;
            *at = (float)((adds ? (double)*at : 0) + dot(&a, i, &b, j, (span){0, a.z.cols}));
        }
}

static void grouped(const op *o, void *const *in, void *const *out)
{
    const op_qgrouped x = op_qgrouped_of(o, in, out); /* QGROUPED_D's operands stand alike */
    float *y = x.y;                                   /* [ROOM][b.rows] */
    int64_t width = 0;
    for (int64_t e = 0; e < x.E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(x.offsets, e, x.ROOM);
        width = b.z.rows;
        for (int64_t i = s.begin; i < s.end; i++)
            for (int64_t j = 0; j < width; j++)
                y[i * width + j] = (float)dot(&a, i, &b, j, (span){0, a.z.cols});
    }
    for (int64_t i = smaller(x.offsets[x.E], x.ROOM) * width; i < x.ROOM * width; i++) y[i] = 0;
}

static void grouped_w(const op *o, void *const *in, void *const *out)
{
    const op_qgrouped_w x = op_qgrouped_w_of(o, in, out);
    bool adds = !(o->flags & OVERWRITE);
    for (int64_t e = 0; e < x.E; e++) {
        quant_view a = quant_view_a(o, in, e), b = quant_view_b(o, in, e);
        span s = expert_rows(x.offsets, e, x.ROOM);
        float *dw = (float *)x.dw + e * a.z.rows * b.z.rows; /* [N][K] */
        for (int64_t i = 0; i < a.z.rows; i++)
            for (int64_t j = 0; j < b.z.rows; j++) {
                float *at = dw + i * b.z.rows + j;
                *at = (float)((adds ? (double)*at : 0) + dot(&a, i, &b, j, s));
            }
    }
}

kernel_rows plain_quant(void)
{
    static const kernel rows[] = {
        {OP_QUANTISE, "plain", .launch = quantise}, {OP_QGEMM, "plain", .run = gemm},
        {OP_QGEMM_D, "plain", .run = gemm},         {OP_QGEMM_W, "plain", .run = gemm},
        {OP_QGROUPED, "plain", .run = grouped},     {OP_QGROUPED_D, "plain", .run = grouped},
        {OP_QGROUPED_W, "plain", .run = grouped_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}
