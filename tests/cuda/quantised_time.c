/* quantised_time.c - how long quantising, what is fused with it, and quantised GEMMs take, by
 * every row that takes them: 128 experts of 2,048 rows as in a layer of Qwen3-30B-A3B, its dense
 * GEMMs with 32,768 tokens, and the experts of DeepSeek-V3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "cuda/cases.h"
#include "cuda/quantised.h"
#include "op/quant.h"

quantised_call quantised_call_of(const kernel *k, const op *o, const op_types *t, void *const *in,
                                 void *const *out)
{
    quantised_call c = {{.row = k, .o = o, .types = t, .in = in, .out = out}, NULL};
    const int64_t bytes = kernel_workspace_of(k, o, t);
    error err = {""};
    if (bytes) must_run(cudaMalloc(&c.workspace, (size_t)bytes));
    c.call.workspace = c.workspace;
    if (k->prepare && k->prepare(o, t, &c.call.state, &err)) {
        printf("%s, %s: %s\n", op_infos[o->kind].name, k->name, err.text);
        exit(1);
    }
    return c;
}

void quantised_call_end(quantised_call *c)
{
    if (c->call.row->release && c->call.state) c->call.row->release(c->call.state);
    must_run(cudaFree(c->workspace));
}

/* Seconds of a call, the mean of ten without pauses. */
static double seconds_of(const kernel *k, const op *o, const op_types *t, void *const *in,
                         void *const *out)
{
    enum { TIMES = 10 };
    cudaEvent_t a, b;
    float ms = 0;
    quantised_call c = quantised_call_of(k, o, t, in, out);
    must_run(cudaEventCreate(&a)), must_run(cudaEventCreate(&b));
    for (int i = -2; i < TIMES; i++) {
        if (i == 0) must_run(cudaEventRecord(a, NULL));
        k->launch(&c.call);
    }
    must_run(cudaEventRecord(b, NULL));
    must_run(cudaEventSynchronize(b));
    must_run(cudaEventElapsedTime(&ms, a, b));
    must_run(cudaEventDestroy(a)), must_run(cudaEventDestroy(b));
    quantised_call_end(&c);
    return (double)ms / 1e3 / TIMES;
}

/* `work`: bytes of what makes codes, else operations. */
static void time_rows(const char *what, const op *o, const op_types *t, void *const *in,
                      void *const *out, double work)
{
    int n;
    const kernel *list = kernels_cuda(&n);
    for (int i = 0; i < n; i++) {
        if (list[i].kind != o->kind || !list[i].accepts(o, t)) continue;
        if (o->kind != OP_QUANTISE && strcmp(list[i].name, "plain") == 0) continue;
        const double s = seconds_of(&list[i], o, t, in, out);
        printf("| %s, %s | %s | %.3f ms | %.2f T%s/s |\n", op_infos[o->kind].name, what,
               list[i].name, 1e3 * s, work / s / 1e12, op_makes_codes(o->kind) ? "B" : "FLOP");
        fflush(stdout);
    }
}

/* ---- buffers, large enough for all */

typedef struct bench_memory {
    void *x, *w, *y, *g;          /* BF16; FP32 gradients */
    void *q, *s, *qt, *st;        /* of x */
    void *p, *r, *pt, *rt;        /* of the gradient, as wide as y */
    void *wq, *ws, *wt, *wst;     /* of w */
    void *even, *skewed, *single; /* offsets */
    int experts;
} bench_memory;

static void *offsets_of(int n, int64_t rows, bool skewed)
{
    int32_t *at = malloc(sizeof *at * (size_t)(n + 1));
    if (!at) exit(1);
    at[0] = 0;
    for (int e = 0; e < n; e++) { /* a quarter has twice as many as the rest and a quarter more */
        const int64_t part = rows / n / 128;
        const int64_t have = !skewed ? part : e % 4 ? part - part / 3 : part + part / 3 * 3;
        at[e + 1] = (int32_t)(at[e] + have * 128);
    }
    void *p = device_of(at, (int64_t)sizeof *at * (n + 1));
    free(at);
    return p;
}

static bench_memory memory_of(int experts, int64_t rows, int64_t n, int64_t k)
{
    bench_memory m = {.experts = experts};
    const int64_t weights = experts * n * k;
    m.x = device_of(NULL, 2 * rows * k), m.y = device_of(NULL, 2 * rows * (n > k ? n : k));
    m.w = device_of(NULL, 2 * weights), m.g = device_of(NULL, 4 * weights);
    m.q = device_of(NULL, rows * k), m.qt = device_of(NULL, rows * k);
    m.s = device_of(NULL, rows * k / 16), m.st = device_of(NULL, rows * k / 16);
    m.p = device_of(NULL, rows * n), m.pt = device_of(NULL, rows * n);
    m.r = device_of(NULL, rows * n / 16), m.rt = device_of(NULL, rows * n / 16);
    m.wq = device_of(NULL, weights), m.wt = device_of(NULL, weights);
    m.ws = device_of(NULL, weights / 256), m.wst = device_of(NULL, weights / 256);
    m.even = offsets_of(experts, rows, false), m.skewed = offsets_of(experts, rows, true);
    return m;
}

static void memory_free(const bench_memory *m)
{
    void *const all[] = {m->x, m->w,  m->y,  m->g,  m->q,  m->s,  m->qt,  m->st,   m->p,
                         m->r, m->pt, m->rt, m->wq, m->ws, m->wt, m->wst, m->even, m->skewed};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) must_run(cudaFree(all[i]));
}

/* ---- operations */

static const op_types gemm_types = {
    .in = {DTYPE_E4M3, DTYPE_F32, DTYPE_F32, DTYPE_E4M3, DTYPE_F32, DTYPE_F32, DTYPE_I32},
    .out = {DTYPE_BF16}};

static void time_quantise(const bench_memory *m, int64_t rows, int64_t n, int64_t k)
{
    const op_types t = {.in = {DTYPE_BF16, DTYPE_I32},
                        .out = {DTYPE_E4M3, DTYPE_F32, DTYPE_F32, DTYPE_E4M3, DTYPE_F32}};
    char what[64];
    op o = quantised_op(OP_QUANTISE,
                        (const int64_t[]){m->experts, rows, k, QUANT_BLOCK, DTYPE_E4M3, 0}, 6);
    o.out[OUT_QUANTISE_g] = -1;
    snprintf(what, sizeof what, "[%lld][%lld], both copies", (long long)rows, (long long)k);
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->x, m->even},
              (void *[OP_OUT_MAX]){m->q, m->s, NULL, m->qt, m->st}, 4.0 * (double)(rows * k));
    o.out[OUT_QUANTISE_qt] = o.out[OUT_QUANTISE_st] = -1;
    snprintf(what, sizeof what, "[%lld][%lld], along columns", (long long)rows, (long long)k);
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->x, m->even},
              (void *[OP_OUT_MAX]){m->q, m->s, NULL, NULL, NULL}, 3.0 * (double)(rows * k));
    o = quantised_op(OP_QUANTISE, (const int64_t[]){m->experts, n, k, QUANT_BLOCK, DTYPE_E4M3, 1},
                     6);
    o.out[OUT_QUANTISE_g] = o.in[IN_QUANTISE_offsets] = -1;
    snprintf(what, sizeof what, "weights [%d][%lld][%lld]", m->experts, (long long)n, (long long)k);
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->w},
              (void *[OP_OUT_MAX]){m->wq, m->ws, NULL, m->wt, m->wst},
              4.0 * (double)(m->experts * n * k));
    o = quantised_op(OP_QUANTISE,
                     (const int64_t[]){m->experts, rows, n, QUANT_BLOCK, DTYPE_E4M3, 0}, 6);
    o.out[OUT_QUANTISE_g] = -1;
    snprintf(what, sizeof what, "gradient [%lld][%lld]", (long long)rows, (long long)n);
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->y, m->even},
              (void *[OP_OUT_MAX]){m->p, m->r, NULL, m->pt, m->rt}, 4.0 * (double)(rows * n));
}

/* Activations `wide` numbers wide, and the way to rows of `across`; eight choices a token. */
static void time_fused(const bench_memory *m, int64_t rows, int64_t wide, int64_t across)
{
    enum { CHOSEN = 8 };
    const double act = (double)(rows * wide), moved = (double)(rows * across);
    const int64_t acts[] = {m->experts, rows, wide, QUANT_BLOCK, DTYPE_E4M3};
    const int64_t moves[] = {rows / CHOSEN, CHOSEN,      across,    rows,
                             m->experts,    QUANT_BLOCK, DTYPE_E4M3};
    int32_t *to = malloc(sizeof *to * (size_t)rows);
    if (!to) exit(1);
    for (int64_t i = 0; i < rows; i++) /* pair i has expert i % experts */
        to[i] = (int32_t)(i % m->experts * (rows / m->experts) + i / m->experts);
    void *places = device_of(to, 4 * rows);
    void *const codes[OP_OUT_MAX] = {m->p, m->r, m->pt, m->rt}, *const there[OP_OUT_MAX] = {
                                                                    m->q, m->s, m->qt, m->st};
    op_types t = {.in = {DTYPE_BF16, DTYPE_F32, DTYPE_I32, DTYPE_I32},
                  .out = {DTYPE_E4M3, DTYPE_F32, DTYPE_E4M3, DTYPE_F32, DTYPE_F32}};
    char what[64];
    free(to);
    snprintf(what, sizeof what, "[%lld][%lld]", (long long)rows, (long long)wide);
    op o = quantised_op(OP_ACT_QUANT, acts, 5);
    o.in[IN_ACT_QUANT_p] = -1;
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->y, NULL, m->even}, codes, 6 * act);
    o = quantised_op(OP_ACT_D_QUANT, acts, 5);
    o.in[IN_ACT_D_QUANT_p] = o.out[OUT_ACT_D_QUANT_dp] = -1;
    t.in[IN_ACT_D_QUANT_u] = DTYPE_BF16, t.in[IN_ACT_D_QUANT_p] = DTYPE_F32;
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->x, m->y, NULL, m->even}, codes, 10 * act);
    snprintf(what, sizeof what, "[%lld][%lld]", (long long)rows, (long long)across);
    o = quantised_op(OP_PERMUTE_QUANT, moves, 7);
    o.in[IN_PERMUTE_QUANT_probs] = o.out[OUT_PERMUTE_QUANT_pp] = -1;
    t.in[IN_PERMUTE_QUANT_probs] = DTYPE_F32, t.in[IN_PERMUTE_QUANT_rows] = DTYPE_I32;
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->x, NULL, places, m->even}, there, 4 * moved);
    o = quantised_op(OP_UNPERMUTE_D_QUANT, moves, 7);
    t.in[IN_UNPERMUTE_D_QUANT_rows] = DTYPE_I32;
    time_rows(what, &o, &t, (void *[OP_IN_MAX]){m->x, places, m->even}, there, 4 * moved);
    must_run(cudaFree(places));
}

/* The three GEMMs of y[rows][n] = x[rows][k] w^T, of experts or (offsets NULL) dense. */
static void time_gemms(const char *name, const bench_memory *m, void *offsets, int64_t rows,
                       int64_t n, int64_t k)
{
    const bool grouped = offsets != NULL;
    const double work = 2.0 * (double)rows * (double)n * (double)k;
    op_types t = gemm_types;
    void *const in[][OP_IN_MAX] = {{m->q, m->s, NULL, m->wq, m->ws, NULL, offsets},
                                   {m->p, m->r, NULL, m->wt, m->wst, NULL, offsets},
                                   {m->pt, m->rt, NULL, m->qt, m->st, NULL, offsets}};
    for (int i = 0; i < 3; i++) {
        const op_kind kind = (op_kind)((grouped ? OP_QGROUPED : OP_QGEMM) + i);
        const int64_t dims[] = {rows, m->experts, n, k, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3};
        const int64_t dense[] = {rows, n, k, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3};
        op o = grouped ? quantised_op(kind, dims, 7) : quantised_op(kind, dense, 6);
        o.in[IN_QGEMM_xg] = o.in[IN_QGEMM_wg] = -1;
        if (!grouped) o.in[IN_QGROUPED_offsets] = -1;
        t.out[0] = i == 2 ? DTYPE_F32 : DTYPE_BF16;
        time_rows(name, &o, &t, in[i], (void *[OP_OUT_MAX]){i == 2 ? m->g : m->y}, work);
    }
}

void time_quantised(void)
{
    static const struct {
        const char *name;
        int experts;
        int64_t rows, n, k;
    } cases[] = {
        {"128 x 2048 rows, N1536 K2048", 128, 262144, 1536, 2048},
        {"128 x 2048 rows, N2048 K768", 128, 262144, 2048, 768},
        {"32 x 2048 rows, N4096 K7168", 32, 65536, 4096, 7168},
        {"32 x 2048 rows, N7168 K2048", 32, 65536, 7168, 2048},
        {"32768 x 5120 x 2048", 1, 32768, 5120, 2048},
        {"32768 x 2048 x 4096", 1, 32768, 2048, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bench_memory m = memory_of(cases[i].experts, cases[i].rows, cases[i].n, cases[i].k);
        char skewed[64];
        time_quantise(&m, cases[i].rows, cases[i].n, cases[i].k);
        if (i % 2 == 0 && i < 4) time_fused(&m, cases[i].rows, cases[i].n / 2, cases[i].k);
        snprintf(skewed, sizeof skewed, "skew, %s", cases[i].name);
        time_gemms(cases[i].name, &m, cases[i].experts > 1 ? m.even : NULL, cases[i].rows,
                   cases[i].n, cases[i].k);
        if (i < 2) time_gemms(skewed, &m, m.skewed, cases[i].rows, cases[i].n, cases[i].k);
        memory_free(&m);
    }
}
