/* kernels.c - the CPU's table, and what its kernels share: threads, workspace. */
#include "backend/kernels/kernels.h"

#include <assert.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/fast_dense.h"
#include "backend/cpu/kernels/launch.h"
#include "backend/cpu/kernels/rows.h"

enum { ROWS_MAX = 4 * OP_COUNT };

static struct {
    pthread_once_t once;
    kernel rows[ROWS_MAX];
    int n;
} cpu = {.once = PTHREAD_ONCE_INIT};

/* A row that names a function only is launched as all of those are. */
static void adapt(kernel *k)
{
    if (k->launch) return;
    k->prepare = cpu_prepare;
    k->release = cpu_release;
    k->workspace = cpu_workspace;
    k->launch = cpu_launch;
}

kernel_rows kernel_rows_joined(kernel *room, int n, const kernel_rows *parts, size_t n_parts)
{
    kernel_rows all = {room, 0};
    for (size_t i = 0; i < n_parts; i++) {
        assert(all.n + parts[i].n <= n);
        memcpy(room + all.n, parts[i].rows, sizeof(kernel) * (size_t)parts[i].n);
        all.n += parts[i].n;
    }
    (void)n;
    return all;
}

static void gather(void)
{
    kernel_rows (*const parts[])(void) = {
        plain_dense,  plain_attention, plain_moe,   plain_gdn,  plain_move,     plain_layer,
        plain_update, plain_fused,     plain_quant, fast_dense, fast_attention, fast_moe,
        fast_gdn,     fast_move,       fast_fused,  fast_quant,
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        kernel_rows part = parts[i]();
        assert(cpu.n + part.n <= ROWS_MAX);
        memcpy(cpu.rows + cpu.n, part.rows, sizeof(kernel) * (size_t)part.n);
        cpu.n += part.n;
    }
    for (int i = 0; i < cpu.n; i++) adapt(&cpu.rows[i]);
}

const kernel *kernels_cpu(int *n)
{
    pthread_once(&cpu.once, gather);
    *n = cpu.n;
    return cpu.rows;
}

/* An OpenBLAS that is built on OpenMP sets the number of threads of its caller while it is loaded:
 * ours is set after that. */
void kernels_threads(int n)
{
    if (n < 1) n = 1;
    blas_ready();
    omp_set_num_threads(n);
    blas_warm(n);
}

/* ---- workspace */

/* Each thread that runs operations has its own: ranks may be threads of one process. The threads
 * that help it inside a kernel are not lent any; they get addresses from the kernel. */
static _Thread_local struct {
    void *p;
    size_t bytes;
} workspace;

size_t kernel_workspace_bytes(const op *o)
{
    return (size_t)op_cpu_room(o);
}

void kernels_workspace(void *p, size_t bytes)
{
    workspace.p = p;
    workspace.bytes = bytes;
}

void *kernel_workspace(size_t bytes)
{
    assert(workspace.bytes >= bytes);
    (void)bytes;
    return workspace.p;
}
