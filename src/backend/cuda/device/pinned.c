/* pinned.c - pinned memory, much of it in little time.
 *
 * The driver's own way takes pages one by one, with one thread, in the system's small size: before
 * a model of twenty billion parameters starts, a hundred gibibytes are cleared like that. Here the
 * system is asked for large pages, all threads touch them, which is when the system clears them,
 * and the driver finds them present. What the host computes there goes faster, too, as it misses
 * fewer translations of addresses.
 *
 * I1  Memory comes from the system at that moment: it is zero.
 * I2  Less than LARGE, and what cannot be registered, is the driver's own. */
#define _GNU_SOURCE
#include "backend/cuda/device/pinned.h"

#include <string.h>
#include <sys/mman.h>

enum { SMALL_PAGE = 4096, LARGE_PAGE = 2 << 20, LARGE = 64 << 20 };

static int64_t whole_pages(int64_t bytes)
{
    return (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

/* One byte of every page: which size they have is the system's choice. */
static void touch(volatile unsigned char *at, int64_t bytes)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < bytes; i += LARGE_PAGE)
        for (int64_t k = i; k < bytes && k < i + LARGE_PAGE; k += SMALL_PAGE) at[k] = 0;
}

/* The first multiple of a large page in memory that is one page larger; the rest is given back. */
static unsigned char *map_aligned(int64_t bytes)
{
    size_t all = (size_t)bytes + LARGE_PAGE;
    unsigned char *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)at % LARGE_PAGE), behind = LARGE_PAGE - before;
    if (before) munmap(at, before);
    if (behind) munmap(at + before + bytes, behind);
    return at + before;
}

static bool registers(void)
{
    int device = 0, can = 0;
    if (cudaGetDevice(&device)) return false;
    cudaDeviceGetAttribute(&can, cudaDevAttrCanUseHostPointerForRegisteredMem, device);
    return can != 0;
}

static bool take_registered(pinned *p, int64_t bytes)
{
    int64_t whole = whole_pages(bytes);
    if (bytes < LARGE || !registers()) return false; /* I2 */
    unsigned char *at = map_aligned(whole);
    if (!at) return false;
    madvise(at, (size_t)whole, MADV_HUGEPAGE); /* without them it goes on more slowly */
    touch(at, whole);                          /* I1 */
    if (cudaHostRegister(at, (size_t)whole, cudaHostRegisterDefault)) {
        cudaGetLastError();
        munmap(at, (size_t)whole);
        return false;
    }
    *p = (pinned){at, whole, true};
    return true;
}

cudaError_t pinned_take(pinned *p, int64_t bytes)
{
    void *at = NULL;
    *p = (pinned){NULL, 0, false};
    if (take_registered(p, bytes)) return cudaSuccess;
    cudaError_t e = cudaHostAlloc(&at, (size_t)bytes, cudaHostAllocDefault);
    if (e) return e;
    memset(at, 0, (size_t)bytes);
    *p = (pinned){at, bytes, false};
    return cudaSuccess;
}

void pinned_give(pinned *p)
{
    if (p->registered) {
        cudaHostUnregister(p->at);
        munmap(p->at, (size_t)p->bytes);
    } else {
        cudaFreeHost(p->at);
    }
    *p = (pinned){NULL, 0, false};
}
