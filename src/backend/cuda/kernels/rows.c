/* rows.c - the GPU's table, put together, and which row takes an operation: plain rows first. */
#include "backend/cuda/kernels/cuda_rows.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "backend/cuda/kernels/parts.h"

enum { ROWS_MAX = 2 * OP_COUNT };

static struct {
    pthread_once_t once;
    kernel rows[ROWS_MAX];
    int n;
} all = {.once = PTHREAD_ONCE_INIT};

static void gather(void)
{
    cuda_part (*const parts[])(void) = {
#define CUDA_PART(name) cuda_##name,
#include "backend/cuda/kernels/parts.def"
#undef CUDA_PART
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cuda_part part = parts[i]();
        assert(all.n + part.n <= ROWS_MAX);
        memcpy(all.rows + all.n, part.rows, sizeof(kernel) * (size_t)part.n);
        all.n += part.n;
    }
    for (int i = 0; i < all.n; i++)
        if (!all.rows[i].accepts) all.rows[i].accepts = cuda_types_fit;
}

const kernel *kernels_cuda(int *n)
{
    pthread_once(&all.once, gather);
    *n = all.n;
    return all.rows;
}

/* Copies to and from the host, and zeros, are of bytes. */
static bool is_number(op_kind k, dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_BF16 || op_is_copy(k) || k == OP_ZERO ||
           op_is_quantised(k) || op_makes_codes(k);
}

bool cuda_types_fit(const op *o, const op_types *t)
{
    const char *in = op_infos[o->kind].types, *out = strchr(in, '>') + 1;
    if (!op_types_fit(o, t)) return false;
    for (int i = 0; in[i] != '>'; i++)
        if (o->in[i] >= 0 && in[i] == '.' && !is_number(o->kind, t->in[i])) return false;
    for (int i = 0; out[i]; i++)
        if (o->out[i] >= 0 && out[i] == '.' && !is_number(o->kind, t->out[i])) return false;
    return true;
}

bool all_bf16(const op *o, const op_types *t, int n_in, int n_out)
{
    for (int i = 0; i < n_in; i++)
        if (o->in[i] < 0 || t->in[i] != DTYPE_BF16) return false;
    for (int i = 0; i < n_out; i++)
        if (o->out[i] < 0 || t->out[i] != DTYPE_BF16) return false;
    return cuda_types_fit(o, t);
}

bool is_wide(const op *o, const op_types *t, int i)
{
    return o->out[i] < 0 || t->out[i] == DTYPE_F32;
}

bool sums_wide(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && is_wide(o, t, 0) && is_wide(o, t, 1);
}
