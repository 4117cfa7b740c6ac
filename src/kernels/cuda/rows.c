/* rows.c - the GPU's table, put together, and which row takes an operation. */
#include "kernels/cuda/cuda_rows.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cuda/parts.h"

static struct {
    pthread_once_t once;
    cuda_row rows[OP_COUNT];
    int n;
} all = {.once = PTHREAD_ONCE_INIT};

static void gather(void)
{
    cuda_part (*const parts[])(void) = {
        cuda_dense, cuda_norm,     cuda_layer_norm,    cuda_maps,      cuda_act,
        cuda_move,  cuda_heads,    cuda_loss,          cuda_attention, cuda_attention_back,
        cuda_gdn,   cuda_gdn_rule, cuda_gdn_rule_back, cuda_router,    cuda_router_loss,
        cuda_order, cuda_permute,  cuda_grouped,       cuda_route,     cuda_flex,
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cuda_part part = parts[i]();
        assert(all.n + part.n <= OP_COUNT);
        memcpy(all.rows + all.n, part.rows, sizeof(cuda_row) * (size_t)part.n);
        all.n += part.n;
    }
}

const cuda_row *cuda_rows(int *n)
{
    pthread_once(&all.once, gather);
    *n = all.n;
    return all.rows;
}

/* Do the tensors that are there have types of the row's letters? */
static bool types_match(const char *letters, const int *there, const dtype *types)
{
    for (int i = 0; letters[i]; i++) {
        const bool number = types[i] == DTYPE_F32 || types[i] == DTYPE_BF16;
        const bool fine = letters[i] == 'n'   ? number
                          : letters[i] == 'f' ? types[i] == DTYPE_F32
                          : letters[i] == 'i' ? types[i] == DTYPE_I32
                                              : number || types[i] == DTYPE_I32;
        if (there[i] >= 0 && !fine) return false;
    }
    return true;
}

static bool accepts(const cuda_row *r, const op *o, const op_types *t)
{
    return r->kind == o->kind && (!r->fits || r->fits(o)) && types_match(r->in, o->in, t->in) &&
           types_match(r->out, o->out, t->out);
}

const cuda_row *cuda_row_for(const op *o, const op_types *t)
{
    int n;
    const cuda_row *rows = cuda_rows(&n);
    for (int i = 0; i < n; i++)
        if (accepts(&rows[i], o, t)) return &rows[i];
    return NULL;
}

int64_t cuda_row_workspace(const cuda_row *r, const op *o)
{
    return r->workspace ? r->workspace(o) : 0;
}
