/* test_quantise.c - quantising against the nearest code found by trying all, and quantised GEMMs
 * against sums in double of what the codes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/narrow.h"
#include "backend/kernels/kernels.h"
#include "op/quant.h"

#define COUNT(list) (int)(sizeof list / sizeof list[0])

typedef struct way {
    quant_form form;
    dtype type;
} way;
static const way ways[] = {{QUANT_TENSOR, DTYPE_E4M3},
                           {QUANT_TENSOR, DTYPE_E5M2},
                           {QUANT_BLOCK, DTYPE_E4M3},
                           {QUANT_MX, DTYPE_E4M3},
                           {QUANT_NV, DTYPE_FP4}};

static uint64_t seed = 7;
static float next_number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float v = (float)((double)(seed >> 11) * 0x1p-52 - 1);
    return ldexpf(v, (int)(seed >> 7 & 15) - 8); /* of many sizes */
}

/* ---- one quantised tensor [parts][rows][cols] and its other copy */

typedef struct tensor {
    way w;
    bool square;
    int64_t parts, rows, cols;
    float *x, *g;
    uint8_t *q, *qt, *s, *st;
} tensor;

static quant_shape shape_of(const tensor *t, bool turned)
{
    return (quant_shape){t->w.form, t->square, turned ? t->cols : t->rows,
                         turned ? t->rows : t->cols};
}

static int64_t code_bytes(const tensor *t, bool turned)
{
    quant_shape z = shape_of(t, turned);
    return dtype_bytes(t->w.type, z.rows * quant_row(t->w.type, z.cols));
}

static int64_t scale_bytes(const tensor *t, bool turned)
{
    return dtype_bytes(quant_info_of(t->w.form).scale, quant_scales(shape_of(t, turned)));
}

static void *taken(int64_t bytes)
{
    void *p = malloc((size_t)bytes + 1);
    if (!p) fail_msg("no memory");
    memset(p, 0xaa, (size_t)bytes + 1);
    return p;
}

static void launch(const op *o, const op_types *t, void *const *in, void *const *out, bool plain)
{
    int n;
    const kernel *rows = kernels_cpu(&n), *k = kernel_pick(rows, n, o, t, plain);
    void *state = NULL;
    error err;
    if (!k) fail_msg("no row for %s", op_infos[o->kind].name);
    assert_true(op_types_fit(o, t));
    if (k->prepare) assert_int_equal(k->prepare(o, t, &state, &err), OK);
    void *work = taken(kernel_workspace_of(k, o, t));
    k->launch(&(kernel_call){k, o, t, in, out, work, NULL, state});
    if (k->release) k->release(state);
    free(work);
}

static op op_of(op_kind kind, const int64_t *dims, int n)
{
    op o = {.kind = kind, .name = "tested"};
    for (int i = 0; i < OP_IN_MAX; i++) o.in[i] = i;
    for (int i = 0; i < OP_OUT_MAX; i++) o.out[i] = OP_IN_MAX + i;
    for (int i = 0; i < n; i++) o.dim[i] = dims[i];
    return o;
}

static void quantise_into(tensor *t, const int32_t *offsets, int64_t experts)
{
    op o = op_of(OP_QUANTISE,
                 (const int64_t[]){offsets ? experts : t->parts, t->rows, t->cols, t->w.form,
                                   t->w.type, t->square},
                 6);
    dtype scale = quant_info_of(t->w.form).scale;
    op_types types = {.in = {DTYPE_F32, DTYPE_I32},
                      .out = {t->w.type, scale, DTYPE_F32, t->w.type, scale}};
    launch(&o, &types, (void *[OP_IN_MAX]){t->x, (void *)(uintptr_t)offsets},
           (void *[OP_OUT_MAX]){t->q, t->s, t->g, t->qt, t->st}, true);
}

static tensor tensor_room(way w, int64_t parts, int64_t rows, int64_t cols, bool weight)
{
    tensor t = {.w = w, .parts = parts, .rows = rows, .cols = cols};
    t.square = weight && quant_info_of(w.form).square;
    t.x = taken(4 * parts * rows * cols);
    for (int64_t i = 0; i < parts * rows * cols; i++) t.x[i] = next_number();
    t.q = taken(parts * code_bytes(&t, false));
    t.qt = taken(parts * code_bytes(&t, true));
    if (quant_info_of(w.form).block) t.s = taken(parts * scale_bytes(&t, false));
    if (quant_info_of(w.form).block) t.st = taken(parts * scale_bytes(&t, true));
    if (quant_info_of(w.form).factor) t.g = taken(4 * 64);
    return t;
}

static tensor tensor_of(way w, int64_t parts, int64_t rows, int64_t cols, bool weight)
{
    tensor t = tensor_room(w, parts, rows, cols, weight);
    quantise_into(&t, NULL, 0);
    return t;
}

static void tensor_free(tensor *t)
{
    free(t->x), free(t->g), free(t->q), free(t->qt), free(t->s), free(t->st);
}

/* What the codes say of element (i, j) of a part; read here, not by the kernels' code. */
static double value_of(const tensor *t, int64_t part, bool turned, int64_t i, int64_t j)
{
    quant_shape z = shape_of(t, turned);
    const uint8_t *q = (turned ? t->qt : t->q) + part * code_bytes(t, turned);
    const uint8_t *s = turned ? t->st : t->s;
    int64_t row = quant_row(t->w.type, z.cols);
    bool halves = t->w.type == DTYPE_FP4; /* of bytes */
    uint8_t code = q[halves ? i * row / 2 + j / 2 : i * row + j];
    if (halves) code = (uint8_t)(code >> (j % 2 * 4) & 15);
    double v = (double)narrow_to_float(narrow_format_of(t->w.type), code);
    if (t->g) v *= (double)t->g[part];
    if (!s) return v;
    s += part * scale_bytes(t, turned);
    int64_t at = quant_scale_at(z, i, j);
    if (t->w.form == QUANT_MX) return ldexp(v, s[at] - 127);
    if (t->w.form == QUANT_NV)
        return v * (double)narrow_to_float(narrow_format_of(DTYPE_E4M3), s[at]);
    return v * (double)((const float *)(const void *)s)[at];
}

/* ---- quantising */

/* The numbers of a block and what it may say of each: code times `unit`. */
static void check_element(const tensor *t, double x, double got, double unit)
{
    narrow_format f = narrow_format_of(t->w.type);
    double best = INFINITY, bound = (double)f.largest * unit;
    for (int c = 0; c <= f.most; c++)
        best = fmin(best, fabs(fabs(x) - (double)narrow_to_float(f, (uint8_t)c) * unit));
    if (fabs(fabs(x - got) - best) > 2e-6 * bound)
        fail_msg("%s: %a became %a, %a off instead of %a", quant_info_of(t->w.form).name, x, got,
                 fabs(x - got), best);
}

static double largest_in(const tensor *t, int64_t part, int64_t i0, int64_t i1, int64_t j0,
                         int64_t j1)
{
    double most = 0;
    for (int64_t i = i0; i < i1 && i < t->rows; i++)
        for (int64_t j = j0; j < j1 && j < t->cols; j++)
            most = fmax(most, fabs((double)t->x[(part * t->rows + i) * t->cols + j]));
    return most;
}

/* What one step of a code is worth in the block of element (i, j), found in double. */
static double unit_of(const tensor *t, int64_t part, bool turned, int64_t i, int64_t j)
{
    int64_t side = quant_info_of(t->w.form).block, i0 = i, j0 = j, i1 = i + 1, j1 = j + 1;
    double reach = (double)narrow_format_of(t->w.type).largest;
    double whole = largest_in(t, part, 0, t->rows, 0, t->cols);
    if (t->w.form == QUANT_TENSOR) return whole / reach;
    if (t->square || turned) i0 = i / side * side, i1 = i0 + side;
    if (t->square || !turned) j0 = j / side * side, j1 = j0 + side;
    double most = largest_in(t, part, i0, i1, j0, j1);
    if (t->w.form != QUANT_NV) return most > 0 ? exp2(ceil(log2(most / reach))) : 1;
    double all = whole / (reach * 448);
    narrow_format e4m3 = narrow_format_of(DTYPE_E4M3);
    return all * (double)narrow_to_float(e4m3, narrow_of_float(e4m3, (float)(most / reach / all)));
}

static void codes_are_the_nearest_of_all(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 16}, {5, 130}, {37, 64}, {130, 162}};
    for (int k = 0; k < COUNT(ways) * COUNT(sizes) * 2; k++) {
        const int64_t *z = sizes[k / COUNT(ways) % COUNT(sizes)];
        tensor t = tensor_of(ways[k % COUNT(ways)], 2, z[0], z[1], k >= COUNT(ways) * COUNT(sizes));
        for (int64_t n = 0; n < 2 * z[0] * z[1]; n += 1 + n % 61) {
            int64_t part = n / (z[0] * z[1]), i = n / z[1] % z[0], j = n % z[1];
            double x = (double)t.x[n];
            check_element(&t, x, value_of(&t, part, false, i, j), unit_of(&t, part, false, i, j));
            check_element(&t, x, value_of(&t, part, true, j, i), unit_of(&t, part, true, i, j));
        }
        tensor_free(&t);
    }
}

static void square_blocks_are_the_same_both_ways(void **state)
{
    (void)state;
    tensor t = tensor_of((way){QUANT_BLOCK, DTYPE_E4M3}, 1, 200, 300, true);
    for (int64_t i = 0; i < 200; i++)
        for (int64_t j = 0; j < 300; j++) assert_int_equal(t.q[i * 300 + j], t.qt[j * 200 + i]);
    tensor_free(&t);
}

/* [130][520] in 1 x 128 blocks: 5 x 132 scales, rows fastest; in square ones 2 x 8. */
static void scales_lie_as_cublaslt_reads_them(void **state)
{
    (void)state;
    quant_shape rows = {QUANT_BLOCK, false, 130, 520}, square = {QUANT_BLOCK, true, 130, 520};
    assert_int_equal(quant_scales(rows), 5 * 132);
    assert_int_equal(quant_scale_at(rows, 7, 300), 2 * 132 + 7);
    assert_int_equal(quant_scales(square), 2 * 8);
    assert_int_equal(quant_scale_at(square, 129, 300), 8 + 2);
    tensor t = tensor_of((way){QUANT_BLOCK, DTYPE_E4M3}, 1, 130, 520, false);
    const float *s = (const float *)(const void *)t.s;
    for (int b = 0; b < 5; b++) {
        assert_true(s[b * 132 + 129] > 0);
        assert_true(s[b * 132 + 130] == 0 && s[b * 132 + 131] == 0);
    }
    tensor_free(&t);
}

/* Is this the scale of the block that begins at element (i, j) of a copy? */
static bool is_scale(const tensor *t, bool turned, int64_t i, int64_t j, uint8_t byte)
{
    double own = turned ? unit_of(t, 0, true, j, i) : unit_of(t, 0, false, i, j);
    double said =
        t->w.form == QUANT_MX
            ? ldexp(1, byte - 127)
            : (double)t->g[0] * (double)narrow_to_float(narrow_format_of(DTYPE_E4M3), byte);
    return fabs(said - own) <= 1e-5 * own;
}

/* Memory of one copy's scales walked byte by byte: lines of 16 bytes have four rows, 32 apart, with
 * four blocks each; 32 lines are a tile, and tiles go along a row first. A byte past an edge of the
 * matrix is zero. */
static void walk_tiles(const tensor *t, bool turned)
{
    quant_shape z = shape_of(t, turned);
    const int64_t side = t->w.form == QUANT_MX ? 32 : 16;
    const uint8_t *s = turned ? t->st : t->s;
    int64_t at = 0, seen = 0;
    for (int64_t band = 0; band < z.rows; band += 128)
        for (int64_t first = 0; first < z.cols; first += 4 * side)
            for (int64_t line = 0; line < 32; line++)
                for (int64_t row = band + line; row < band + 128; row += 32)
                    for (int64_t col = first; col < first + 4 * side; col += side, at++) {
                        if (row >= z.rows || col >= z.cols) {
                            assert_int_equal(s[at], 0);
                            continue;
                        }
                        seen++;
                        assert_int_equal(quant_scale_at(z, row, col), at);
                        if (col + side <= z.cols)
                            assert_int_equal(quant_scale_at(z, row, col + side - 1), at);
                        assert_true(is_scale(t, turned, row, col, s[at]));
                    }
    assert_int_equal(at, quant_scales(z));
    assert_int_equal(seen, z.rows * ((z.cols + side - 1) / side));
}

/* VEC32_UE8M0 and VEC16_UE4M3, of shapes with and without whole tiles. */
static void scales_of_mx_and_nv_lie_in_tiles(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 16}, {5, 130}, {128, 128}, {130, 162}, {33, 260}};
    for (int k = 0; k < COUNT(ways) * COUNT(sizes); k++) {
        const int64_t *z = sizes[k / COUNT(ways)];
        const way w = ways[k % COUNT(ways)];
        if (w.form != QUANT_MX && w.form != QUANT_NV) continue;
        tensor t = tensor_of(w, 1, z[0], z[1], false);
        walk_tiles(&t, false), walk_tiles(&t, true);
        tensor_free(&t);
    }
    assert_int_equal(quant_scales((quant_shape){QUANT_MX, false, 129, 129}), 4 * 512);
    assert_int_equal(quant_scales((quant_shape){QUANT_NV, false, 129, 129}), 6 * 512);
}

static void bf16_and_threads_change_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(ways); k++) {
        tensor t = tensor_room(ways[k], 1, 130, 96, false);
        for (int64_t i = 0; i < 130 * 96; i++) t.x[i] = bf16_to_float(bf16_of_float(t.x[i]));
        omp_set_num_threads(1);
        quantise_into(&t, NULL, 0);
        uint8_t *before = taken(code_bytes(&t, true));
        memcpy(before, t.qt, (size_t)code_bytes(&t, true));
        omp_set_num_threads(3);
        quantise_into(&t, NULL, 0);
        assert_memory_equal(before, t.qt, (size_t)code_bytes(&t, true));
        uint16_t *narrow = taken(2 * 130 * 96);
        bf16_of_floats(narrow, t.x, 130 * 96);
        op o = op_of(OP_QUANTISE, (const int64_t[]){1, 130, 96, ways[k].form, ways[k].type, 0}, 6);
        dtype scale = quant_info_of(ways[k].form).scale;
        op_types types = {.in = {DTYPE_BF16, DTYPE_I32},
                          .out = {ways[k].type, scale, DTYPE_F32, ways[k].type, scale}};
        launch(&o, &types, (void *[OP_IN_MAX]){narrow},
               (void *[OP_OUT_MAX]){t.q, t.s, t.g, t.qt, t.st}, true);
        assert_memory_equal(before, t.qt, (size_t)code_bytes(&t, true));
        free(before), free(narrow);
        tensor_free(&t);
    }
}

/* ---- GEMMs */

typedef struct gemm_case {
    op_kind kind;
    int64_t m, n, k;
} gemm_case;

static void check_gemm(const gemm_case *p, way a_way, way b_way, bool plain, unsigned flags)
{
    bool weights = p->kind == OP_QGEMM_W, data = p->kind == OP_QGEMM_D;
    int64_t rows = weights ? p->n : p->m, cols = weights || data ? p->k : p->n;
    int64_t sum = weights ? p->m : data ? p->n : p->k;
    tensor a =
        weights ? tensor_of(a_way, 1, sum, rows, false) : tensor_of(a_way, 1, rows, sum, false);
    tensor b = p->kind == OP_QGEMM ? tensor_of(b_way, 1, cols, sum, true)
                                   : tensor_of(b_way, 1, sum, cols, !weights);
    bool bt = p->kind != OP_QGEMM; /* the copy that is read */
    op o =
        op_of(p->kind, (const int64_t[]){p->m, p->n, p->k, a_way.form, a_way.type, b_way.type}, 6);
    o.flags = flags;
    dtype scale = quant_info_of(a_way.form).scale;
    op_types types = {.in = {a_way.type, scale, DTYPE_F32, b_way.type, scale}};
    types.out_elements[0] = rows * cols;
    float *y = taken(4 * rows * cols);
    for (int64_t i = 0; i < rows * cols; i++) y[i] = (float)(i % 5);
    bool adds = weights ? !(flags & OVERWRITE) : flags & ACCUMULATE;
    launch(&o, &types,
           (void *[OP_IN_MAX]){weights ? a.qt : a.q, weights ? a.st : a.s, a.g, bt ? b.qt : b.q,
                               bt ? b.st : b.s, b.g},
           (void *[OP_OUT_MAX]){y}, plain);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double want = adds ? (double)((i * cols + j) % 5) : 0, size = want;
            for (int64_t l = 0; l < sum; l++) {
                double part = value_of(&a, 0, weights, i, l) * value_of(&b, 0, bt, j, l);
                want += part, size += fabs(part);
            }
            if (fabs(want - (double)y[i * cols + j]) > (plain ? 2e-7 : 4e-6) * size)
                fail_msg("%s %s: %g, not %g", op_infos[p->kind].name, plain ? "plain" : "fast",
                         (double)y[i * cols + j], want);
        }
    tensor_free(&a), tensor_free(&b);
    free(y);
}

static void gemms_are_sums_of_what_the_codes_say(void **state)
{
    (void)state;
    static const gemm_case cases[] = {{OP_QGEMM, 9, 20, 150},   {OP_QGEMM, 130, 4, 48},
                                      {OP_QGEMM_D, 9, 150, 20}, {OP_QGEMM_D, 5, 32, 131},
                                      {OP_QGEMM_W, 150, 9, 20}, {OP_QGEMM_W, 33, 7, 130}};
    for (int k = 0; k < COUNT(ways) * COUNT(cases) * 4; k++) {
        const gemm_case *p = &cases[k / COUNT(ways) % COUNT(cases)];
        bool plain = k / COUNT(ways) / COUNT(cases) % 2;
        bool other = k / COUNT(ways) / COUNT(cases) / 2;
        unsigned flags = !other ? 0 : p->kind == OP_QGEMM_W ? OVERWRITE : ACCUMULATE;
        way a = ways[k % COUNT(ways)], b = a;
        if (a.type == DTYPE_E5M2) b.type = DTYPE_E4M3; /* gradients meet weights and inputs */
        check_gemm(p, a, b, plain, flags);
    }
}

/* ---- experts */

enum { EXPERTS = 3 };

/* One of them has no rows; rows past the last are noise that must count for zeros. */
static void grouped_gemms_are_each_experts(void **state)
{
    (void)state;
    enum { N = 24, K = 36 };
    for (int k = 0; k < COUNT(ways) * 6; k++) {
        way w = ways[k % COUNT(ways)], ww = w;
        if (w.type == DTYPE_E5M2) ww.type = DTYPE_E4M3;
        bool plain = k / COUNT(ways) % 2;
        op_kind kind = (op_kind)(OP_QGROUPED + k / COUNT(ways) / 2);
        int64_t align = quant_info_of(w.form).align, room = 4 * align;
        const int32_t offsets[] = {0, (int32_t)align, (int32_t)align, (int32_t)(3 * align)};
        bool weights = kind == OP_QGROUPED_W, data = kind == OP_QGROUPED_D;
        int64_t a_width = kind == OP_QGROUPED ? K : N;
        tensor a = tensor_room(w, 1, room, a_width, false);
        tensor b =
            weights ? tensor_room(ww, 1, room, K, false) : tensor_of(ww, EXPERTS, N, K, true);
        quantise_into(&a, offsets, EXPERTS);
        if (weights) quantise_into(&b, offsets, EXPERTS);
        bool bt = kind != OP_QGROUPED;
        op o = op_of(kind, (const int64_t[]){room, EXPERTS, N, K, w.form, w.type, ww.type}, 7);
        dtype scale = quant_info_of(w.form).scale;
        op_types types = {.in = {w.type, scale, DTYPE_F32, ww.type, scale, DTYPE_F32, DTYPE_I32}};
        int64_t cols = kind == OP_QGROUPED ? N : K, n = weights ? EXPERTS * N * K : room * cols;
        types.out_elements[0] = n;
        float *y = taken(4 * n);
        for (int64_t i = 0; i < n; i++) y[i] = 1;
        launch(&o, &types,
               (void *[OP_IN_MAX]){weights ? a.qt : a.q, weights ? a.st : a.s, a.g, bt ? b.qt : b.q,
                                   bt ? b.st : b.s, b.g, (void *)(uintptr_t)offsets},
               (void *[OP_OUT_MAX]){y}, plain);
        for (int64_t i = 0; i < n; i++) {
            int64_t row = i / cols, e = weights ? i / (N * K) : 0, first = 0, end = a_width;
            while (!weights && e < EXPERTS && row >= offsets[e + 1]) e++;
            if (weights) first = offsets[e], end = offsets[e + 1], row = i / K % N;
            double want = weights ? 1 : 0, size = want;
            for (int64_t l = first; e < EXPERTS && l < end; l++) {
                tensor of_a = a, of_b = b; /* factors are the expert's */
                if (a.g) of_a.g = a.g + e;
                if (b.g && weights) of_b.g = b.g + e;
                double part = value_of(&of_a, 0, weights, row, l) *
                              value_of(&of_b, weights ? 0 : e, bt, i % cols, l);
                want += part, size += fabs(part);
            }
            if (fabs(want - (double)y[i]) > (plain ? 2e-7 : 4e-6) * size)
                fail_msg("%s %s at %lld: %g, not %g%s", op_infos[kind].name,
                         quant_info_of(w.form).name, (long long)i, (double)y[i], want,
                         data ? " (data)" : "");
        }
        tensor_free(&a), tensor_free(&b);
        free(y);
    }
}

/* Is part of a row of codes that of another row? Columns are even. */
static void check_codes(const tensor *t, const uint8_t *q, int64_t at, const uint8_t *want,
                        int64_t n)
{
    if (memcmp(q + quant_code_bytes(t->w.type, at), want, (size_t)quant_code_bytes(t->w.type, n)))
        fail_msg("%s: other codes at %lld", quant_info_of(t->w.form).name, (long long)at);
}

/* An expert's rows have the codes and the factor that they have alone, both ways; behind them are
 * zeros. */
static void experts_are_quantised_as_alone(void **state)
{
    (void)state;
    enum { K = 40 };
    static const uint8_t zeros[512];
    for (int k = 0; k < COUNT(ways); k++) {
        int64_t align = quant_info_of(ways[k].form).align, room = 4 * align;
        const int32_t offsets[] = {0, (int32_t)align, (int32_t)align, (int32_t)(3 * align)};
        tensor t = tensor_room(ways[k], 1, room, K, false);
        for (int64_t i = align * K; i < room * K; i++) t.x[i] *= i < 3 * align * K ? 64 : 1e20f;
        quantise_into(&t, offsets, EXPERTS);
        for (int e = 0; e < EXPERTS; e += 2) {
            int64_t first = offsets[e], n = offsets[e + 1] - first;
            tensor alone = tensor_room(ways[k], 1, n, K, false);
            memcpy(alone.x, t.x + first * K, (size_t)(4 * n * K));
            quantise_into(&alone, NULL, 0);
            if (t.g) assert_true(t.g[e] == alone.g[0]);
            check_codes(&t, t.q, first * K, alone.q, n * K);
            for (int64_t j = 0; j < K; j++)
                check_codes(&t, t.qt, j * room + first,
                            alone.qt + quant_code_bytes(ways[k].type, j * n), n);
            tensor_free(&alone);
        }
        for (int64_t i = 3 * align; i < room; i++) check_codes(&t, t.q, i * K, zeros, K);
        for (int64_t j = 0; j < K; j++) check_codes(&t, t.qt, j * room + 3 * align, zeros, align);
        tensor_free(&t);
    }
}

/* A NaN has no part in its block's scale or its tensor's factor: it changes its own code alone. */
static void nan_changes_its_own_code_alone(void **state)
{
    (void)state;
    enum { M = 6, K = 160, AT = 3 * K + 130 };
    for (int k = 0; k < COUNT(ways); k++) {
        tensor was = tensor_room(ways[k], 1, M, K, false),
               is = tensor_room(ways[k], 1, M, K, false);
        was.x[AT] = 0;
        memcpy(is.x, was.x, 4 * M * K);
        is.x[AT] = NAN;
        quantise_into(&was, NULL, 0), quantise_into(&is, NULL, 0);
        if (was.g) assert_true(was.g[0] == is.g[0]);
        if (was.s) assert_memory_equal(was.s, is.s, (size_t)scale_bytes(&was, false));
        if (was.st) assert_memory_equal(was.st, is.st, (size_t)scale_bytes(&was, true));
        for (int64_t n = 0; n < code_bytes(&was, false); n++) {
            bool here = n == quant_code_bytes(ways[k].type, AT);
            assert_int_equal(is.q[n] != was.q[n], here);
            if (here)
                assert_int_equal(is.q[n] & (ways[k].type == DTYPE_FP4 ? 7 : 0x7f),
                                 narrow_format_of(ways[k].type).nan);
        }
        tensor_free(&was), tensor_free(&is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_nearest_of_all),
        cmocka_unit_test(square_blocks_are_the_same_both_ways),
        cmocka_unit_test(scales_lie_as_cublaslt_reads_them),
        cmocka_unit_test(scales_of_mx_and_nv_lie_in_tiles),
        cmocka_unit_test(bf16_and_threads_change_nothing),
        cmocka_unit_test(gemms_are_sums_of_what_the_codes_say),
        cmocka_unit_test(grouped_gemms_are_each_experts),
        cmocka_unit_test(experts_are_quantised_as_alone),
        cmocka_unit_test(nan_changes_its_own_code_alone),
    };
    kernels_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
