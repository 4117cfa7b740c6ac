/* host_update.c - the row of what a GPU's program has the host compute: AdamW of the state that the
 * host keeps. The program's row of the CPU computes it.
 *
 * The stream calls the host when its turn comes, and goes on when the call returns. The driver has
 * one thread for such calls; the update takes the rank's but one (update.h). */
#include <cuda_runtime.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/update.h"
#include "backend/cuda/kernels/parts.h"

static const kernel *(*rows_of_host)(int *n);

void kernels_cuda_host(const kernel *(*rows)(int *n))
{
    rows_of_host = rows;
}

typedef struct host_call {
    const kernel *row;
    const op *o;
    op_types types;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    int threads;
} host_call;

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    int n;
    const kernel *rows = rows_of_host(&n);
    host_call *h = calloc(1, sizeof *h);
    if (!h) return error_set(err, ERR_MACHINE, "no host memory for a call of the host");
    *h = (host_call){.row = kernel_pick(rows, n, o, t, false),
                     .o = o,
                     .types = *t,
                     .threads = update_threads_beside_gpu()};
    *state = h;
    return OK;
}

static void CUDART_CB run(void *with)
{
    const host_call *h = with;
    omp_set_num_threads(h->threads);
    h->row->launch(
        &(kernel_call){.row = h->row, .o = h->o, .types = &h->types, .in = h->in, .out = h->out});
}

/* Addresses are the same in every step, until memory is taken anew with nothing under way. */
static void launch(const kernel_call *c)
{
    host_call *h = c->state;
    memcpy(h->in, c->in, sizeof h->in);
    memcpy(h->out, c->out, sizeof h->out);
    cudaLaunchHostFunc((cudaStream_t)c->stream, run, h);
}

cuda_part cuda_host_update(void)
{
    static const kernel rows[] = {
        {.kind = OP_HOST_ADAMW,
         .name = "host",
         .prepare = prepare,
         .release = free,
         .launch = launch},
    };
    return (cuda_part){rows, (int)(sizeof rows / sizeof rows[0])};
}
