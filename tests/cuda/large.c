/* large.c - tensors of more than 2^31 numbers: what a row does at their ends is what it does to
 * those ends alone, bit by bit. An index of 32 bits would read or write elsewhere. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cases.h"

enum { TAIL = 8, HUGE_ROWS = (1 << 20) + 512 };

/* Tensors have `width` numbers for each of the rows that dim[rows] counts, or, negative, as many in
 * all; 0: missing. */
typedef struct large {
    op_kind kind;
    int64_t dim[OP_DIM_MAX];
    int rows;
    int64_t in[6], out[4];
} large;

static const large larges[] = {
    {OP_ADD, {(1L << 31) + 4096}, 0, {1, 1}, {1}},
    {OP_COPY, {(1L << 31) + 4096}, 0, {1}, {1}},
    {OP_NORM, {HUGE_ROWS, 2048}, 0, {2048, -2048}, {2048, 1}},
    {OP_NORM_D, {HUGE_ROWS, 2048}, 0, {2048, 2048, -2048, 1}, {2048}},
    {OP_LAYER_NORM, {HUGE_ROWS, 2048}, 0, {2048, -2048, -2048}, {2048, 2}},
    {OP_ACT, {HUGE_ROWS, 1024}, 0, {2048, 1}, {1024}},
    {OP_ACT_D, {HUGE_ROWS, 1024}, 0, {1024, 2048, 1}, {2048, 1}},
    {OP_GATE, {HUGE_ROWS, 2048, 1}, 0, {2048, 1}, {2048}},
    {OP_EMBED, {HUGE_ROWS, 2048, 4}, 0, {-8192, 1}, {2048}},
    {OP_GEMM, {HUGE_ROWS, 8, 2048}, 0, {2048, -16384}, {8}},
    {OP_GEMM_D, {HUGE_ROWS, 8, 2048}, 0, {8, -16384}, {2048}},
    {OP_HEAD_LOGITS, {16384 + 16, 8, 131072}, 0, {8, -1048576}, {131072}},
    {OP_QKV_SPLIT, {HUGE_ROWS / 2, 16, 8, 128}, 0, {4096}, {2048, 1024, 1024}},
    {OP_ROPE, {HUGE_ROWS / 2, TAIL, 32, 128, 0, 128}, 0, {-1024}, {4096}},
    {OP_ATTN, {8192 + 16, 64, 32, 4, 128, 128, 0}, 0, {262144, 32768, 32768}, {262144, 2048}},
    {OP_CONV, {HUGE_ROWS / 64, 32, 4096, 4}, 0, {131072, -16384}, {131072}},
    {OP_ROUTER, {HUGE_ROWS * 2, 1024, 8}, 0, {1024}, {8, 8}},
};

typedef struct side {
    void *in[OP_IN_MAX], *out[OP_OUT_MAX], *workspace;
    op o;
} side;

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(3);
}

static size_t bytes_of(dtype t, int64_t n)
{
    return (t == DTYPE_BF16 ? 2 : 4) * (size_t)n;
}

/* BF16 where ops.def leaves it open. */
static dtype type_of(const char *letters, int i)
{
    const int n = (int)strcspn(letters, ">");
    const char c = i < n ? letters[i] : 'f';
    return c == '.' ? DTYPE_BF16 : c == 'i' ? DTYPE_I32 : DTYPE_F32;
}

/* Numbers between a half and two, or 0 to 3. */
static void put_random(trial *t, void *to, dtype type, int64_t n)
{
    char *p = malloc(bytes_of(type, n));
    if (!p) abort();
    for (int64_t i = 0; i < n; i++) {
        if (type == DTYPE_I32) ((int32_t *)p)[i] = (int32_t)next_below(t, 4);
        if (type == DTYPE_F32) ((float *)p)[i] = (float)(1.25 + 0.75 * next_random(t));
        if (type == DTYPE_BF16) ((uint16_t *)p)[i] = (uint16_t)(0x3f00 + next_below(t, 256));
    }
    must(cudaMemcpy(to, p, bytes_of(type, n), cudaMemcpyHostToDevice), "copy");
    free(p);
}

/* All rows alike but the last ones. `fill` is what the others have in every byte. */
static void *make(trial *t, int64_t width, int64_t rows, dtype type, int fill)
{
    const int64_t n = width < 0 ? -width : width * rows, tail = width < 0 ? n : width * TAIL;
    char *p = NULL;
    if (width == 0) return NULL;
    must(cudaMalloc((void **)&p, bytes_of(type, n)), "cudaMalloc");
    must(cudaMemset(p, fill, bytes_of(type, n)), "cudaMemset");
    put_random(t, p + bytes_of(type, n - tail), type, tail);
    return p;
}

/* The last rows of a tensor, or all of one that has none. */
static void *tail_of(void *p, int64_t width, int64_t rows, dtype type)
{
    return p && width > 0 ? (char *)p + bytes_of(type, width * (rows - TAIL)) : p;
}

static void launch(const kernel *row, side *s, const op_types *types)
{
    const kernel_call c = {.row = row,
                           .o = &s->o,
                           .types = types,
                           .in = s->in,
                           .out = s->out,
                           .workspace = s->workspace};
    row->launch(&c);
    must(cudaDeviceSynchronize(), op_infos[row->kind].name);
}

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    char *x = malloc(bytes), *y = malloc(bytes);
    if (!x || !y) abort();
    must(cudaMemcpy(x, a, bytes, cudaMemcpyDeviceToHost), "copy");
    must(cudaMemcpy(y, b, bytes, cudaMemcpyDeviceToHost), "copy");
    const bool same = memcmp(x, y, bytes) == 0;
    free(x);
    free(y);
    return same;
}

static bool check(const large *l, const kernel *row)
{
    trial t = {.random = 99};
    side whole = {.o = {.kind = l->kind, .real = {0.1}}}, part;
    op_types types = {.in = {0}};
    const char *letters = op_infos[l->kind].types;
    const int64_t rows = l->dim[l->rows];
    bool same = true;
    memcpy(whole.o.dim, l->dim, sizeof l->dim);
    part = whole;
    part.o.dim[l->rows] = TAIL;
    for (int i = 0; i < 6; i++) {
        types.in[i] = type_of(letters, i);
        whole.in[i] = make(&t, l->in[i], rows, types.in[i], types.in[i] == DTYPE_I32 ? 0 : 0x3c);
        part.in[i] = tail_of(whole.in[i], l->in[i], rows, types.in[i]);
    }
    for (int i = 0; i < 4; i++) {
        const trial before = t; /* the same for both: some are changed in place */
        types.out[i] = type_of(strchr(letters, '>') + 1, i);
        whole.out[i] = make(&t, l->out[i], rows, types.out[i], 0x3c);
        t = before;
        part.out[i] = make(&t, l->out[i], TAIL, types.out[i], 0x3c);
    }
    const size_t bytes = (size_t)kernel_workspace_of(row, &whole.o, &types);
    if (bytes) must(cudaMalloc(&whole.workspace, bytes), "cudaMalloc");
    part.workspace = whole.workspace;
    launch(row, &whole, &types);
    launch(row, &part, &types);
    for (int i = 0; i < 4; i++)
        same &= !whole.out[i] || same_bytes(tail_of(whole.out[i], l->out[i], rows, types.out[i]),
                                            part.out[i], bytes_of(types.out[i], l->out[i] * TAIL));
    for (int i = 0; i < 6; i++) cudaFree(whole.in[i]);
    for (int i = 0; i < 4; i++) cudaFree(whole.out[i]), cudaFree(part.out[i]);
    cudaFree(whole.workspace);
    return same;
}

int check_large(void)
{
    int bad = 0, n;
    const kernel *rows = kernels_cuda(&n);
    for (size_t i = 0; i < sizeof larges / sizeof larges[0]; i++)
        for (int k = 0; k < n; k++) {
            if (strcmp(rows[k].name, "plain") != 0) continue;
            if (rows[k].kind != larges[i].kind || check(&larges[i], &rows[k])) continue;
            printf("%s: the last rows of more than 2^31 numbers are others\n",
                   op_infos[rows[k].kind].name);
            bad++;
        }
    printf("%d large cases, %d wrong\n", (int)(sizeof larges / sizeof larges[0]), bad);
    return bad;
}
