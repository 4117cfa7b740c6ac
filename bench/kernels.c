/* kernels.c - how fast the CPU's dense kernels and attention are: GFLOP/s of GEMMs, GB/s of what
 * is bound by memory, for the 113 M model of cpu.md at 1 x 1024. Usage: kernels [threads, 2 unless
 * given].
 *
 * Machines are shared: a kernel is run for a while and its best time counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/kernels/kernels.h"

enum { TENSORS = 7 };

/* FLOPs and bytes an operation must do, and numbers in each of its tensors. */
typedef struct row {
    const char *name;
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    double gflop, mbytes;
    int64_t in[TENSORS], out[TENSORS];
    int ids; /* the input that is int32, -1: none */
} row;

enum { M = 1024, H = 512, V = 32000, F = 512, QKV = 1024, E = 16, X = 256, HEADS = 8, D = 64 };

#define GFLOP(m, n, k)   (2e-9 * (m) * (n) * (k))
#define MB(numbers)      (4e-6 * (numbers))
#define FORWARD(m, n, k) {m, n, k}, GFLOP(m, n, k), 0, {(m) * (k), (n) * (k)}, {(m) * (n)}, -1
#define DATA(m, n, k)    {m, n, k}, GFLOP(m, n, k), 0, {(m) * (n), (n) * (k)}, {(m) * (k)}, -1
#define WEIGHT(m, n, k)  {m, n, k}, GFLOP(m, n, k), 0, {(m) * (n), (m) * (k)}, {(n) * (k)}, -1

/* Queries of the second of two ranks, keys of the first: half of them are seen, all in one half. */
#define RING_PLACES M / 2, M, 0, 3 * M / 2
#define PAIRS       (0.5 * M * M) /* that causal attention has */

/* clang-format off */
static const row rows[] = {
    {"qkv", OP_GEMM, FORWARD(M, QKV, H)},
    {"qkv, data", OP_GEMM_D, DATA(M, QKV, H)},
    {"qkv, weight", OP_GEMM_W, WEIGHT(M, QKV, H)},
    {"attention out", OP_GEMM, FORWARD(M, H, H)},
    {"attention out, data", OP_GEMM_D, DATA(M, H, H)},
    {"attention out, weight", OP_GEMM_W, WEIGHT(M, H, H)},
    {"router", OP_GEMM, FORWARD(M, E, H)},
    {"router, weight", OP_GEMM_W, WEIGHT(M, E, H)},
    {"one expert, gate and up", OP_GEMM, FORWARD(X, 2 * F, H)},
    {"one expert, down", OP_GEMM, FORWARD(X, H, F)},
    {"2048 x 2048 x 2048", OP_GEMM, FORWARD(2048, 2048, 2048)},
    {"logits", OP_HEAD_LOGITS, {M, H, V}, GFLOP(M, V, H), 0, {M * H, V * H}, {M * V}, -1},
    {"head and loss, 1024 rows", OP_HEAD_LOSS, {M, H, V, M}, 3 * GFLOP(M, V, H), 0,
     {M * H, V * H, M, M}, {2, M * H, V * H}, 2},
    {"head and loss, 256 rows", OP_HEAD_LOSS, {M, H, V, X}, 3 * GFLOP(M, V, H), 0,
     {M * H, V * H, M, M}, {2, M * H, V * H}, 2},
    {"embedding", OP_EMBED, {M, H, V}, 0, MB(2 * M * H), {V * H, M}, {M * H}, 1},
    {"embedding, weight", OP_EMBED_W, {M, H, V}, 0, MB(3 * M * H), {M * H, M}, {V * H}, 1},
    {"norm", OP_NORM, {M, H}, 0, MB(2 * M * H), {M * H, H}, {M * H, M}, -1},
    {"norm, data", OP_NORM_D, {M, H}, 0, MB(3 * M * H), {M * H, M * H, H, M}, {M * H}, -1},
    {"norm, weight", OP_NORM_W, {M, H}, 0, MB(2 * M * H), {M * H, M * H, M}, {H}, -1},
    {"norm of heads", OP_NORM, {M * HEADS, D}, 0, MB(2 * M * H), {M * H, D},
     {M * H, M * HEADS}, -1},
    {"norm of heads, data", OP_NORM_D, {M * HEADS, D}, 0, MB(3 * M * H),
     {M * H, M * H, D, M * HEADS}, {M * H}, -1},
    {"norm of heads, weight", OP_NORM_W, {M * HEADS, D}, 0, MB(2 * M * H),
     {M * H, M * H, M * HEADS}, {D}, -1},
    {"rotation", OP_ROPE, {M, M, HEADS, D, 0, D}, 0, MB(2 * M * H), {M * D}, {M * H}, -1},
    {"sum", OP_ADD, {M * H}, 0, MB(3 * M * H), {M * H, M * H}, {M * H}, -1},
    {"activation of 4096 rows", OP_ACT, {4 * M, F}, 0, MB(12 * M * F), {8 * M * F, 4 * M},
     {4 * M * F}, -1},
    {"activation, gradient", OP_ACT_D, {4 * M, F}, 0, MB(20 * M * F),
     {4 * M * F, 8 * M * F, 4 * M}, {8 * M * F, 4 * M}, -1},
    {"sigmoid gate", OP_GATE, {M, H, H}, 0, MB(3 * M * H), {M * H, M * H}, {M * H}, -1},
    {"cut into heads", OP_QKV_SPLIT, {M, HEADS, HEADS / 2, D}, 0, MB(2 * M * QKV), {M * QKV},
     {M * H, M * H / 2, M * H / 2}, -1},
    {"attention", OP_ATTN, {1, M, HEADS, HEADS / 2, D, D}, GFLOP(PAIRS, H, 2), 0,
     {M * H, M * H / 2, M * H / 2}, {M * H, M * HEADS}, -1},
    {"attention, gradient", OP_ATTN_D, {1, M, HEADS, HEADS / 2, D, D}, GFLOP(PAIRS, H, 5), 0,
     {M * H, M * H, M * H / 2, M * H / 2, M * H, M * HEADS}, {M * H, M * H / 2, M * H / 2}, -1},
    {"block of a ring", OP_ATTN_BLOCK, {1, M, M, HEADS, HEADS / 2, D, D, 0, RING_PLACES},
     GFLOP(PAIRS, H, 2), 0, {M * H, M * H / 2, M * H / 2}, {M * H, M * HEADS}, -1},
    {"block of a ring, gradient", OP_ATTN_BLOCK_D,
     {1, M, M, HEADS, HEADS / 2, D, D, 0, RING_PLACES}, GFLOP(PAIRS, H, 5), 0,
     {M * H, M * H, M * H / 2, M * H / 2, M * H, M * HEADS},
     {M * H, M * H / 2, M * H / 2}, -1},
    {"half a head, 256 rows", OP_HEAD_PART, {M, H, V / 2, X, 0, 0}, GFLOP(X, V / 2, H), 0,
     {M * H, V / 2 * H, M}, {X * V / 2, X * 3}, 2},
    {"heads to the front", OP_MOVE, {1, M, HEADS, D, 0, H, D, 0, 0, D, M * D, 0}, 0, MB(2 * M * H),
     {M * H}, {M * H}, -1},
};
/* clang-format on */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes)
{
    const size_t line = 64;
    void *p = aligned_alloc(line, (bytes + line - 1) / line * line);
    if (!p) exit(3);
    memset(p, 0, bytes);
    return p;
}

/* Small numbers, none the same as the next. */
static float *take_floats(int64_t n)
{
    float *x = take(sizeof(float) * (size_t)n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 2003) * 1e-3F - 1;
    return x;
}

static int32_t *take_ids(int64_t n)
{
    int32_t *ids = take(sizeof(int32_t) * (size_t)n);
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 7919 % V);
    return ids;
}

static double best_seconds(const kernel *k, const op *o, void **in, void **out)
{
    const double enough = 0.3;
    double best = 1e9;
    for (double begin = now(); now() - begin < enough || best > 1e8;) {
        double t = now();
        k->run(o, in, out);
        t = now() - t;
        if (t < best) best = t;
    }
    return best;
}

static void measure(const row *r)
{
    int n;
    const kernel *table = kernels_cpu(&n);
    op o = {.kind = r->kind, .real = {1e-5}};
    memcpy(o.dim, r->dim, sizeof r->dim);
    void *in[OP_IN_MAX] = {0}, *out[OP_OUT_MAX] = {0};
    for (int i = 0; i < TENSORS; i++)
        if (r->in[i]) in[i] = i == r->ids ? (void *)take_ids(r->in[i]) : take_floats(r->in[i]);
    for (int i = 0; i < TENSORS; i++)
        if (r->out[i]) out[i] = take(sizeof(float) * (size_t)r->out[i]);
    size_t bytes = kernel_workspace_bytes(&o);
    void *room = take(bytes);
    kernels_workspace(room, bytes);
    const kernel *k = kernel_pick(table, n, &o, NULL, false);
    double s = best_seconds(k, &o, in, out);
    printf("%-26s %-9s %9.3f ms  %7.1f %s\n", r->name, k->name, s * 1e3,
           r->gflop > 0 ? r->gflop / s : r->mbytes * 1e-3 / s, r->gflop > 0 ? "GFLOP/s" : "GB/s");
    free(room);
    for (int i = 0; i < TENSORS; i++) free(in[i]);
    for (int i = 0; i < TENSORS; i++) free(out[i]);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    kernels_threads(threads);
    printf("%d threads; %s\n", threads, blas_describe());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) measure(&rows[i]);
    return 0;
}
