/* mapped.c - see mapped.h.
 *
 * I1  The handler reads the list while a thread changes it: an entry is complete before it is
 *     linked, and stays readable after it is taken out (it is kept for the next file). */
#define _GNU_SOURCE
#include "base/mapped.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

typedef struct mapping {
    struct mapping *next;
    _Atomic uintptr_t from; /* 0: free */
    size_t n;
    char *path;
} mapping;

static _Atomic(mapping *) all;

static void put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static const mapping *find(uintptr_t at)
{
    for (const mapping *m = atomic_load(&all); m; m = m->next) {
        uintptr_t from = atomic_load(&m->from);
        if (from && at >= from && at - from < m->n) return m;
    }
    return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const mapping *m = find((uintptr_t)info->si_addr);
    if (!m) {
        signal(number, SIG_DFL); /* not ours: it strikes again, as it would have */
        return;
    }
    put("moefold: ");
    put(m->path);
    put(": became shorter while it was read, or its disk failed; repair: write it again, and "
        "resume\n");
    _exit(ERR_MACHINE);
}

static void watch(void)
{
    static bool watching;
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    if (watching) return;
    watching = sigaction(SIGBUS, &action, NULL) == 0;
}

void mapped_add(const void *bytes, size_t n, const char *path)
{
    mapping *m = atomic_load(&all);
    char *copy = strdup(path);
    while (m && atomic_load(&m->from)) m = m->next;
    bool is_new = !m;
    if (is_new) m = calloc(1, sizeof *m);
    if (!copy || !m) { /* without memory there is only no message */
        free(copy);
        if (is_new) free(m);
        return;
    }
    free(m->path);
    m->path = copy;
    m->n = n;
    atomic_store(&m->from, (uintptr_t)bytes); /* I1 */
    if (is_new) {
        m->next = atomic_load(&all);
        atomic_store(&all, m);
    }
    watch();
}

void mapped_remove(const void *bytes)
{
    for (mapping *m = atomic_load(&all); bytes && m; m = m->next)
        if (atomic_load(&m->from) == (uintptr_t)bytes) atomic_store(&m->from, 0);
}
