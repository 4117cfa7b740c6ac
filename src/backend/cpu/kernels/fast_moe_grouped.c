/* fast_moe_grouped.c - the experts' GEMMs through OpenBLAS, on all threads.
 *
 * T1  Every expert's GEMM is cut into tiles by its sizes and the number of experts alone, and a
 *     tile is one call in one thread: bits do not depend on the number of threads.
 * T2  Threads take tiles, not experts. With many small experts a tile is a whole GEMM; with few
 *     large ones threads share a GEMM; with one crowded expert among idle ones they do both.
 * T3  An expert without rows has no tile. */
#include "backend/cpu/kernels/fast_moe.h"

#include <string.h>

#include "base/maths.h"
#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

typedef struct grouped {
    const op *o;
    const float *a, *b;
    const int32_t *offsets; /* [E+1] */
    float *c;
} grouped;

static blas_operands gemm_of(const grouped *g, int64_t e)
{
    int64_t N = g->o->dim[DIM_GROUPED_N], K = g->o->dim[DIM_GROUPED_K], weights = e * N * K;
    span s = expert_rows(g->offsets, e, g->o->dim[DIM_GROUPED_ROOM]);
    int64_t rows = s.end - s.begin;
    blas_operands p = {.lda = N, .ldb = K, .ldc = K};
    switch (g->o->kind) {
    case OP_GROUPED: /* y[rows][N] = x[rows][K] w[N][K]^T */
        p.m = rows, p.n = N, p.k = K, p.tb = true, p.lda = K, p.ldc = N;
        p.a = g->a + s.begin * K, p.b = g->b + weights, p.c = g->c + s.begin * N;
        break;
    case OP_GROUPED_D: /* dx[rows][K] = dy[rows][N] w[N][K] */
        p.m = rows, p.n = K, p.k = N;
        p.a = g->a + s.begin * N, p.b = g->b + weights, p.c = g->c + s.begin * K;
        break;
    default: /* dw[N][K] += dy[rows][N]^T x[rows][K] */
        p.m = N, p.n = K, p.k = rows, p.ta = true, p.add = !(g->o->flags & OVERWRITE);
        p.a = g->a + s.begin * N, p.b = g->b + s.begin * K, p.c = g->c + weights;
    }
    return p;
}

/* How a GEMM is cut: `down` times `across` tiles, the last ones smaller. */
typedef struct cut {
    int64_t height, width, down, across;
} cut;

/* A tile packs its own operands: 512 x 512 costs 5 % against whole GEMMs, 256 x 256 11 %
 * (two threads, 16 experts of 1024 x 1024 x 512). So tiles are as large as TILES_WANTED of all
 * experts together allow. */
static cut cut_of(const blas_operands *p, int64_t E)
{
    enum { TILES_WANTED = 32, UNIT = 16 };
    static const int sizes[][2] = {{1024, 1024}, {512, 1024}, {512, 512}, {256, 512},
                                   {256, 256},   {128, 256},  {128, 128}};
    enum { N_SIZES = sizeof sizes / sizeof sizes[0] };
    cut t = {0};
    if (p->m == 0 || p->k == 0) return t; /* T3 */
    for (int i = 0; i < N_SIZES && t.down * t.across * E < TILES_WANTED; i++) {
        t.down = ceil_div(p->m, sizes[i][0]);
        t.across = ceil_div(p->n, sizes[i][1]);
    }
    t.height = round_up(ceil_div(p->m, t.down), UNIT);
    t.width = round_up(ceil_div(p->n, t.across), UNIT);
    t.down = ceil_div(p->m, t.height);
    t.across = ceil_div(p->n, t.width);
    return t;
}

static void run_tile(const blas_operands *p, const cut *t, int64_t tile)
{
    int64_t i = tile % t->down * t->height, j = tile / t->down * t->width;
    blas_operands part = *p;
    part.m = p->m - i < t->height ? p->m - i : t->height;
    part.n = p->n - j < t->width ? p->n - j : t->width;
    part.a += p->ta ? i : i * p->lda;
    part.b += p->tb ? j * p->ldb : j;
    part.c += i * p->ldc + j;
    blas_gemm_here(&part);
}

/* A place in the list of all tiles; it only moves on. */
typedef struct tile_place {
    int64_t e, first; /* the expert, and the number of its first tile */
    blas_operands p;
    cut t;
} tile_place;

static void go_to_expert(tile_place *at, const grouped *g, int64_t e)
{
    at->first += at->t.down * at->t.across;
    at->e = e;
    at->p = gemm_of(g, e);
    at->t = cut_of(&at->p, g->o->dim[DIM_GROUPED_E]);
}

static void go_to_tile(tile_place *at, const grouped *g, int64_t tile)
{
    while (tile >= at->first + at->t.down * at->t.across) go_to_expert(at, g, at->e + 1);
}

static int64_t count_tiles(const grouped *g)
{
    tile_place at = {.e = -1};
    for (int64_t e = 0; e < g->o->dim[DIM_GROUPED_E]; e++) go_to_expert(&at, g, e);
    return at.first + at.t.down * at.t.across;
}

static void run_grouped(const grouped *g)
{
    int64_t n = count_tiles(g);
    tile_place at = {.e = -1};
#pragma omp parallel for schedule(monotonic : dynamic, 1) firstprivate(at)
    for (int64_t i = 0; i < n; i++) {
        go_to_tile(&at, g, i);
        run_tile(&at.p, &at.t, i - at.first); /* T2 */
    }
}

/* Rows of y[ROOM][n] past the last expert's. */
static void zero_tail(const op *o, const int32_t *offsets, float *y, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = offsets[o->dim[DIM_GROUPED_E]]; r < o->dim[DIM_GROUPED_ROOM]; r++)
        memset(y + r * n, 0, (size_t)n * sizeof *y);
}

static void fast_grouped(const op *o, void *const *in, void *const *out)
{
    const op_grouped a = op_grouped_of(o, in, out);
    run_grouped(&(grouped){o, a.x, a.w, a.offsets, a.y});
    zero_tail(o, a.offsets, a.y, a.N);
}

static void fast_grouped_d(const op *o, void *const *in, void *const *out)
{
    const op_grouped_d a = op_grouped_d_of(o, in, out);
    run_grouped(&(grouped){o, a.dy, a.w, a.offsets, a.dx});
    zero_tail(o, a.offsets, a.dx, a.K);
}

/* Experts without rows have no tile (T3). */
static void zero_idle(const op *o, const int32_t *offsets, float *dw)
{
    int64_t each = o->dim[DIM_GROUPED_W_N] * o->dim[DIM_GROUPED_W_K];
#pragma omp parallel for schedule(static)
    for (int64_t e = 0; e < o->dim[DIM_GROUPED_W_E]; e++) {
        span s = expert_rows(offsets, e, o->dim[DIM_GROUPED_W_ROOM]);
        if (s.begin >= s.end) memset(dw + e * each, 0, (size_t)each * sizeof *dw);
    }
}

static void fast_grouped_w(const op *o, void *const *in, void *const *out)
{
    const op_grouped_w a = op_grouped_w_of(o, in, out);
    if (o->flags & OVERWRITE) zero_idle(o, a.offsets, a.dw);
    run_grouped(&(grouped){o, a.dy, a.x, a.offsets, a.dw});
}

static bool has_blas(const op *o, const op_types *t)
{
    (void)t;
    (void)o;
    return blas_ready();
}

kernel_rows fast_moe_grouped(void)
{
    static const kernel rows[] = {
        {OP_GROUPED, "openblas", .accepts = has_blas, .run = fast_grouped},
        {OP_GROUPED_D, "openblas", .accepts = has_blas, .run = fast_grouped_d},
        {OP_GROUPED_W, "openblas", .accepts = has_blas, .run = fast_grouped_w},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
