/* guard.c - the handler of SIGBUS, and the list of what it answers for.
 *
 * I1  The handler takes no lock: the list only grows, and an entry that was given back is empty
 *     (first and end are 0) until it is taken again.
 * I2  What is not ours is left to whoever handled SIGBUS before: the handler steps back and the
 *     access fails once more. */
#define _GNU_SOURCE
#include "train/data/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    atomic_uintptr_t first, end; /* addresses */
    atomic_bool lost;
    guard *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of who takes and gives back */
static guard *_Atomic all;
static struct sigaction previous;
static uintptr_t page;

static bool replace(guard *g, uintptr_t at)
{
    if (at < atomic_load(&g->first) || at >= atomic_load(&g->end)) return false;
    void *start = (void *)(at / page * page);
    if (mmap(start, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    atomic_store(&g->lost, true);
    return true;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    int kept = errno;
    bool replaced = false;
    for (guard *g = atomic_load(&all); g && !replaced; g = g->next)
        replaced = replace(g, (uintptr_t)info->si_addr);
    if (!replaced) sigaction(SIGBUS, &previous, NULL); /* I2 */
    errno = kept;
}

/* Looks each time: a library may have put its own handler there since. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO}, now;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus) return;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    previous = now;
    sigaction(SIGBUS, &action, NULL);
}

static guard *unused(void)
{
    for (guard *g = atomic_load(&all); g; g = g->next)
        if (!atomic_load(&g->end)) return g;
    guard *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->next = atomic_load(&all);
    atomic_store(&all, g); /* I1 */
    return g;
}

guard *guard_take(const void *bytes, size_t n)
{
    pthread_mutex_lock(&lock);
    install();
    guard *g = unused();
    if (g) {
        atomic_store(&g->lost, false);
        atomic_store(&g->first, (uintptr_t)bytes);
        atomic_store(&g->end, (uintptr_t)bytes + n);
    }
    pthread_mutex_unlock(&lock);
    return g;
}

void guard_release(guard *g)
{
    if (!g) return;
    pthread_mutex_lock(&lock);
    atomic_store(&g->first, 0);
    atomic_store(&g->end, 0);
    pthread_mutex_unlock(&lock);
}

bool guard_lost(const guard *g)
{
    return g && atomic_load(&g->lost);
}
