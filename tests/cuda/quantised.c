/* quantised.c - QUANTISE of the GPU against the CPU's, bit for bit, and quantised products against
 * the CPU's row 0, which sums in double.
 *
 * A product that is summed in double differs by the rounding of its result alone. Hopper's tensor
 * cores sum 32 products of 8-bit numbers and what was there before in one step, and of each keep
 * about 13 bits below the largest: 33 x 2^-13 of that one are lost at most, which is 2^-8 of the
 * sum of all sizes where one product is all of it, and the less the more alike they are. Of the
 * numbers here wgmma and cuBLASLt are both off by 0.00108, in each case by the same: the limit is
 * 2^-9. Where cuBLASLt adds to BF16 it rounds before the sum, too (0.00269): 2^-8. That no wrong
 * scale hides below these limits is tried with each row: one doubled scale must be found (of NVFP4
 * a doubled factor, of MXFP8 a scale times 16: of their short blocks a factor of 2 may hide).
 *
 * On Blackwell cuBLASLt's rows take MXFP8 and NVFP4, too, and are held to the same limits: not
 * run. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "base/narrow.h"
#include "cuda/cases.h"
#include "cuda/quantised.h"
#include "op/quant.h"

typedef struct way {
    quant_form form;
    dtype type;
} way;
static const way ways[] = {{QUANT_BLOCK, DTYPE_E4M3},  {QUANT_TENSOR, DTYPE_E4M3},
                           {QUANT_TENSOR, DTYPE_E5M2}, {QUANT_MX, DTYPE_E4M3},
                           {QUANT_MX, DTYPE_E5M2},     {QUANT_NV, DTYPE_FP4}};
enum { N_WAYS = sizeof ways / sizeof ways[0], EXPERTS = 4 };

/* ---- memory */

static uint64_t seed = 99;

static float next_number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ldexpf((float)((double)(seed >> 11) * 0x1p-52 - 1), (int)(seed >> 8 & 7) - 4);
}

void *device_of(const void *host, int64_t n)
{
    void *p;
    must_run(cudaMalloc(&p, (size_t)n + 16));
    must_run(cudaMemset(p, 0x55, (size_t)n + 16));
    if (host) must_run(cudaMemcpy(p, host, (size_t)n, cudaMemcpyHostToDevice));
    return p;
}

/* The same bytes on both. */
typedef struct both {
    void *host, *gpu;
    int64_t n;
} both;

static both both_of(int64_t n)
{
    both b = {n ? calloc(1, (size_t)n) : NULL, NULL, n};
    if (n) b.gpu = device_of(b.host, n);
    return b;
}

static void both_up(both *b)
{
    if (b->n) must_run(cudaMemcpy(b->gpu, b->host, (size_t)b->n, cudaMemcpyHostToDevice));
}

static void both_spoil(both *b)
{
    if (b->n) must_run(cudaMemset(b->gpu, 0x55, (size_t)b->n));
}

static void both_free(both *b)
{
    free(b->host);
    cudaFree(b->gpu);
}

static int64_t both_differ(const both *b)
{
    unsigned char *got = malloc((size_t)b->n + 1);
    int64_t bad = 0;
    if (!got) exit(1);
    if (b->n) must_run(cudaMemcpy(got, b->gpu, (size_t)b->n, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < b->n; i++) bad += got[i] != ((unsigned char *)b->host)[i];
    free(got);
    return bad;
}

void must_run(cudaError_t e)
{
    if (e == cudaSuccess) return;
    printf("quantised: %s\n", cudaGetErrorString(e));
    exit(1);
}

/* ---- operations */

op quantised_op(op_kind kind, const int64_t *dims, int n)
{
    op o = {.kind = kind, .name = "tested"};
    for (int i = 0; i < OP_IN_MAX; i++) o.in[i] = i;
    for (int i = 0; i < OP_OUT_MAX; i++) o.out[i] = OP_IN_MAX + i;
    for (int i = 0; i < n; i++) o.dim[i] = dims[i];
    return o;
}

static void run_cpu(const op *o, const op_types *t, void *const *in, void *const *out)
{
    int n;
    const kernel *rows = kernels_cpu(&n), *k = kernel_pick(rows, n, o, t, true);
    void *state = NULL, *work;
    error err;
    if (k->prepare && k->prepare(o, t, &state, &err)) exit(1);
    work = malloc((size_t)kernel_workspace_of(k, o, t) + 1);
    k->launch(&(kernel_call){k, o, t, in, out, work, NULL, state});
    if (k->release) k->release(state);
    free(work);
}

static void run_gpu(const kernel *k, const op *o, const op_types *t, void *const *in,
                    void *const *out)
{
    quantised_call c = quantised_call_of(k, o, t, in, out);
    k->launch(&c.call);
    must_run(cudaGetLastError());
    must_run(cudaDeviceSynchronize());
    quantised_call_end(&c);
}

/* A matrix [parts][rows][cols] in BF16 and its copies. */
typedef struct matrix {
    way w;
    int64_t parts, rows, cols;
    both x, q, s, g, qt, st;
} matrix;

static int64_t scale_bytes(const matrix *m, bool square, bool turned)
{
    quant_shape z = {m->w.form, square, turned ? m->cols : m->rows, turned ? m->rows : m->cols};
    return m->parts * dtype_bytes(quant_info_of(m->w.form).scale, quant_scales(z));
}

/* Cases of the tiles' row and of the wide one. */
static int quantised_rows[2];

static int quantised_wrong(const matrix *m, const kernel *k, const both *offsets)
{
    const int64_t bad[] = {both_differ(&m->q), both_differ(&m->s), both_differ(&m->g),
                           both_differ(&m->qt), both_differ(&m->st)};
    if (!(bad[0] + bad[1] + bad[2] + bad[3] + bad[4])) return 0;
    printf("QUANTISE, %s, %s %s [%lld][%lld][%lld]%s: bytes that differ: q %lld s %lld g %lld qt "
           "%lld st %lld\n",
           k->name, quant_info_of(m->w.form).name, dtype_name(m->w.type), (long long)m->parts,
           (long long)m->rows, (long long)m->cols, offsets ? " of experts" : "", (long long)bad[0],
           (long long)bad[1], (long long)bad[2], (long long)bad[3], (long long)bad[4]);
    return 1;
}

static int quantise(matrix *m, bool weight, const both *offsets)
{
    bool square = weight && quant_info_of(m->w.form).square;
    int64_t n = m->parts * m->rows * m->cols, experts = offsets ? EXPERTS : m->parts;
    int64_t codes = m->parts * m->rows * quant_row(m->w.type, m->cols);
    int64_t turned = m->parts * m->cols * quant_row(m->w.type, m->rows);
    m->x = both_of(2 * n);
    for (int64_t i = 0; i < n; i++) ((uint16_t *)m->x.host)[i] = bf16_of_float(next_number());
    both_up(&m->x);
    m->q = both_of(dtype_bytes(m->w.type, codes)), m->qt = both_of(dtype_bytes(m->w.type, turned));
    m->s = both_of(scale_bytes(m, square, false)), m->st = both_of(scale_bytes(m, square, true));
    m->g = both_of(quant_info_of(m->w.form).factor ? 4 * experts : 0);
    op o = quantised_op(
        OP_QUANTISE, (const int64_t[]){experts, m->rows, m->cols, m->w.form, m->w.type, square}, 6);
    if (!offsets) o.in[IN_QUANTISE_offsets] = -1;
    dtype scale = quant_info_of(m->w.form).scale;
    op_types t = {.in = {DTYPE_BF16, DTYPE_I32},
                  .out = {m->w.type, scale, DTYPE_F32, m->w.type, scale}};
    void *in[2][OP_IN_MAX] = {{m->x.host, offsets ? offsets->host : NULL},
                              {m->x.gpu, offsets ? offsets->gpu : NULL}};
    void *out[2][OP_OUT_MAX] = {{m->q.host, m->s.host, m->g.host, m->qt.host, m->st.host},
                                {m->q.gpu, m->s.gpu, m->g.gpu, m->qt.gpu, m->st.gpu}};
    run_cpu(&o, &t, in[0], out[0]);
    int rows, bad = 0;
    const kernel *list = kernels_cuda(&rows);
    for (int r = 0; r < rows; r++) {
        if (list[r].kind != OP_QUANTISE || !list[r].accepts(&o, &t)) continue;
        both *const results[] = {&m->q, &m->s, &m->g, &m->qt, &m->st};
        for (int i = 0; i < 5; i++) both_spoil(results[i]);
        run_gpu(&list[r], &o, &t, in[1], out[1]);
        bad += quantised_wrong(m, &list[r], offsets);
        quantised_rows[strcmp(list[r].name, "wide") == 0]++;
    }
    both_up(&m->q), both_up(&m->s), both_up(&m->g), both_up(&m->qt), both_up(&m->st);
    return bad;
}

static void matrix_free(matrix *m)
{
    both_free(&m->x), both_free(&m->q), both_free(&m->s), both_free(&m->g), both_free(&m->qt),
        both_free(&m->st);
}

/* ---- products */

static double worst[2];       /* of sums in double, of tensor cores */
static int met[4 * OP_COUNT]; /* cases of each row */

/* What of a product is compared: the results as they should be, and the sums of sizes. */
typedef struct expected {
    const float *want, *size;
    int64_t n;
} expected;

static double limit_of(const kernel *k, dtype type)
{
    if (strcmp(k->name, "plain") == 0) return 0x1p-22;
    return type == DTYPE_BF16 ? 0x1p-8 : 0x1p-9;
}

static double deviation(const expected *e, const both *y, dtype type)
{
    void *got = malloc((size_t)y->n);
    double most = 0;
    if (!got) exit(1);
    must_run(cudaMemcpy(got, y->gpu, (size_t)y->n, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < e->n; i++) {
        double v = type == DTYPE_BF16 ? (double)bf16_to_float(((uint16_t *)got)[i])
                                      : (double)((float *)got)[i];
        double off = fabs(v - (double)e->want[i]);
        if (type == DTYPE_BF16) off -= fabs((double)e->want[i]) * 0x1p-8;
        if (!isfinite(v)) off = INFINITY;
        most = fmax(most, off / ((double)e->size[i] + 1e-30));
    }
    free(got);
    return most;
}

/* A row's result for in, from what a program would have left in y; off by how much? */
static double deviation_of(const kernel *k, const op *o, const op_types *t, void *const *in,
                           const expected *e)
{
    const dtype type = t->out[0];
    both y = both_of(e->n * (type == DTYPE_BF16 ? 2 : 4));
    for (int64_t i = 0; i < e->n; i++)
        if (type == DTYPE_BF16)
            ((uint16_t *)y.host)[i] = bf16_of_float((float)(i % 3));
        else
            ((float *)y.host)[i] = (float)(i % 3);
    both_up(&y);
    run_gpu(k, o, t, in, (void *[OP_OUT_MAX]){y.gpu});
    double most = deviation(e, &y, type);
    both_free(&y);
    return most;
}

static int say_off(const kernel *k, const op *o, dtype type, const char *what, double most)
{
    printf("%s, %s: %lld %lld %lld %lld, form %lld, %s: %s %g of the sizes, limit %g\n",
           op_infos[o->kind].name, k->name, (long long)o->dim[0], (long long)o->dim[1],
           (long long)o->dim[2], (long long)o->dim[3],
           (long long)(o->kind >= OP_QGROUPED ? o->dim[DIM_QGROUPED_FORM] : o->dim[DIM_QGEMM_FORM]),
           dtype_name(type), what, most, limit_of(k, type));
    return 1;
}

static int compare(const kernel *k, const op *o, const op_types *t, void *const *in,
                   const expected *e)
{
    double most = deviation_of(k, o, t, in, e);
    bool mma = strcmp(k->name, "plain") != 0;
    worst[mma] = fmax(worst[mma], most);
    return most <= limit_of(k, t->out[0]) ? 0 : say_off(k, o, t->out[0], "off by", most);
}

/* The first scale, or factor, of the left operand made larger: is it found? */
static int hides_a_scale(const kernel *k, const op *o, const op_types *t, void *const *in,
                         const expected *e)
{
    const quant_form form = quant_pair_of(o).a.form;
    float *at = in[o->in[IN_QGEMM_xs] >= 0 && form != QUANT_NV ? IN_QGEMM_xs : IN_QGEMM_xg], right,
          wrong;
    must_run(cudaMemcpy(&right, at, sizeof right, cudaMemcpyDeviceToHost));
    wrong = form == QUANT_MX ? right : 2 * right;
    if (form == QUANT_MX) *(uint8_t *)&wrong += 4; /* the first of four */
    must_run(cudaMemcpy(at, &wrong, sizeof wrong, cudaMemcpyHostToDevice));
    double most = deviation_of(k, o, t, in, e);
    must_run(cudaMemcpy(at, &right, sizeof right, cudaMemcpyHostToDevice));
    if (most > 4 * limit_of(k, t->out[0])) return 0;
    return say_off(k, o, t->out[0], "a wrong scale shows by", most);
}

/* Sums of the sizes of products: the same operation on codes without signs. */
static void sizes_of(const op *o, const op_types *t, void *const *in, float *size, int64_t n,
                     int64_t a_bytes, int64_t b_bytes)
{
    void *plain[OP_IN_MAX];
    memcpy(plain, in, sizeof plain);
    uint8_t *a = malloc((size_t)a_bytes), *b = malloc((size_t)b_bytes);
    if (!a || !b) exit(1);
    memcpy(a, in[IN_QGEMM_x], (size_t)a_bytes), memcpy(b, in[IN_QGEMM_w], (size_t)b_bytes);
    for (int64_t i = 0; i < a_bytes; i++) a[i] &= t->in[0] == DTYPE_FP4 ? 0x77 : 0x7f;
    for (int64_t i = 0; i < b_bytes; i++) b[i] &= t->in[3] == DTYPE_FP4 ? 0x77 : 0x7f;
    plain[IN_QGEMM_x] = a, plain[IN_QGEMM_w] = b;
    for (int64_t i = 0; i < n; i++) size[i] = 1;
    run_cpu(o, t, plain, (void *[OP_OUT_MAX]){size});
    free(a), free(b);
}

/* Where experts start, in steps of the rows of one; rows are left behind the last, or none are. */
static const int starts[][EXPERTS + 1] = {{0, 1, 1, 3, 4}, {0, 0, 0, 0, 5}, {0, 0, 0, 0, 0},
                                          {0, 2, 5, 5, 5}, {0, 1, 2, 3, 5}, {0, 3, 4, 6, 7}};
enum { STARTS = sizeof starts / sizeof starts[0] };

static int check_gemm(op_kind kind, way w, int64_t m, int64_t n, int64_t k, unsigned flags,
                      int pattern)
{
    bool grouped = kind >= OP_QGROUPED, weights = kind == OP_QGEMM_W || kind == OP_QGROUPED_W;
    bool data = kind == OP_QGEMM_D || kind == OP_QGROUPED_D;
    way ww = {w.form, w.type == DTYPE_E5M2 ? DTYPE_E4M3 : w.type};
    int64_t align = quant_info_of(w.form).align;
    both offsets = both_of(4 * (EXPERTS + 1));
    if (grouped) {
        for (int e = 0; e <= EXPERTS; e++)
            ((int32_t *)offsets.host)[e] = (int32_t)(starts[pattern][e] * round_up(m, align));
        m = 5 * round_up(m, align);
        both_up(&offsets);
    }
    const both *by = grouped ? &offsets : NULL;
    matrix a = {w, 1, m, weights || data ? n : k, {0}, {0}, {0}, {0}, {0}, {0}};
    matrix b = {
        ww, weights ? 1 : grouped ? EXPERTS : 1, weights ? m : n, k, {0}, {0}, {0}, {0}, {0}, {0}};
    int bad = quantise(&a, false, by) + quantise(&b, !weights, weights ? by : NULL);
    int64_t dims[] = {m, n, k, w.form, w.type, ww.type};
    int64_t grouped_dims[] = {m, EXPERTS, n, k, w.form, w.type, ww.type};
    op o = grouped ? quantised_op(kind, grouped_dims, 7) : quantised_op(kind, dims, 6);
    o.flags = flags;
    for (int i = 0; i < 6; i++) { /* as programs have it */
        const both *list[] = {&a.q, &a.s, &a.g, &b.q, &b.s, &b.g};
        if (!list[i]->n) o.in[i] = -1;
    }
    if (!grouped) o.in[IN_QGROUPED_offsets] = -1;
    bool bt = kind != OP_QGEMM && kind != OP_QGROUPED;
    void *in[2][OP_IN_MAX];
    memset(in, 0, sizeof in);
    for (int on = 0; on < 2; on++) {
#define AT(b) (on ? (b).gpu : (b).host)
        void *list[] = {weights ? AT(a.qt) : AT(a.q), weights ? AT(a.st) : AT(a.s), AT(a.g),
                        bt ? AT(b.qt) : AT(b.q),      bt ? AT(b.st) : AT(b.s),      AT(b.g),
                        grouped ? AT(offsets) : NULL};
        memcpy(in[on], list, sizeof list);
    }
    int64_t out = weights ? (grouped ? EXPERTS : 1) * n * k : m * (data ? k : n);
    dtype scale = quant_info_of(w.form).scale;
    op_types t = {.in = {w.type, scale, DTYPE_F32, ww.type, scale, DTYPE_F32, DTYPE_I32}};
    t.out_elements[0] = out;
    float *want = malloc(4 * (size_t)out), *size = malloc(4 * (size_t)out);
    if (!want || !size) exit(1);
    for (int64_t i = 0; i < out; i++) want[i] = (float)(i % 3);
    run_cpu(&o, &t, in[0], (void *[OP_OUT_MAX]){want});
    sizes_of(&o, &t, in[0], size, out, weights ? a.qt.n : a.q.n, bt ? b.qt.n : b.q.n);
    const expected e = {want, size, out};
    int n_rows;
    const kernel *rows = kernels_cuda(&n_rows);
    for (int r = 0; r < n_rows; r++)
        for (int f = 0; f < 2; f++) {
            t.out[0] = f ? DTYPE_BF16 : DTYPE_F32;
            if (rows[r].kind != kind || !rows[r].accepts(&o, &t)) continue;
            met[r]++;
            bad += compare(&rows[r], &o, &t, in[1], &e);
            if (!pattern) bad += hides_a_scale(&rows[r], &o, &t, in[1], &e);
        }
    free(want), free(size);
    matrix_free(&a), matrix_free(&b), both_free(&offsets);
    return bad;
}

/* All products of one shape, added and written. */
static int check_shape(way w, const int64_t z[3], int pattern, int *done)
{
    int bad = 0;
    for (op_kind k = OP_QGEMM; k <= OP_QGROUPED_W; k++)
        for (int f = 0; f < 2; f++) {
            bool weights = k == OP_QGEMM_W || k == OP_QGROUPED_W;
            if (pattern && k < OP_QGROUPED) continue;
            if (f && !weights && k >= OP_QGROUPED) continue;
            unsigned flags = !f ? 0 : weights ? OVERWRITE : ACCUMULATE;
            bad += check_gemm(k, w, z[0], z[1], z[2], flags, pattern);
            ++*done;
        }
    return bad;
}

/* A row that no case reaches is not tested. */
static int rows_not_met(void)
{
    int n, bad = 0;
    const kernel *rows = kernels_cuda(&n);
    for (int r = 0; r < n; r++) {
        if (!op_is_quantised(rows[r].kind) || rows[r].kind == OP_QUANTISE || met[r]) continue;
        printf("%s, %s: no case tries it\n", op_infos[rows[r].kind].name, rows[r].name);
        bad++;
    }
    if (!quantised_rows[0] || !quantised_rows[1]) bad++, printf("QUANTISE: a row was not tried\n");
    return bad;
}

int wrong_quantised(void)
{
    int bad = 0, done = 0;
    static const int64_t shapes[][3] = {
        {64, 96, 160}, {130, 48, 272}, {33, 20, 36}, {16, 256, 128}};
    /* For tiles of 128 x 256 in pairs: one more than whole ones, and a single one. */
    static const int64_t wide[][3] = {{112, 264, 272}, {128, 384, 256}, {128, 8, 16}};
    for (int i = 0; i < N_WAYS * 4; i++)
        bad += check_shape(ways[i % N_WAYS], shapes[i / N_WAYS], 0, &done);
    for (int i = 0; i < 3 * N_WAYS; i++)
        bad += check_shape(ways[i % N_WAYS], wide[i / N_WAYS], 0, &done);
    for (int i = 1; i < STARTS; i++) bad += check_shape(ways[0], wide[0], i, &done);
    for (int i = 1; i < 3; i++) bad += check_shape(ways[1], wide[0], i, &done);
    bad += rows_not_met();
    printf(
        "quantised: %d cases, %d wrong; sums in double off by %.3g of the sizes, tensor cores by "
        "%.3g; %d of QUANTISE by tiles, %d by the wide row\n",
        done, bad, worst[0], worst[1], quantised_rows[0], quantised_rows[1]);
    return bad;
}
