/* machine.c - what the machine does for a run beside its plan: what Linux counts of the process,
 * what the host takes to launch a step, memory outside the arena, algorithms of GEMMs. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "answer/answer.h"
#include "train/loop/state.h"

/* ---- what Linux counts of this process and of the thread that runs the rank */

/* "Name: 12 kB" of /proc/self/status, in bytes; 0: it is not there. */
static void read_status(system_count *c)
{
    long long kib;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %lld", &kib) == 1) c->most_resident = kib * 1024;
        if (sscanf(line, "VmRSS: %lld", &kib) == 1) c->resident = kib * 1024;
    }
    if (f) fclose(f);
}

/* Of all cores since the start: user, nice, system, idle, iowait, irq, softirq, steal. What a
 * hypervisor took away is somebody's, too. */
static double busy_seconds(void)
{
    unsigned long long n[8];
    FILE *f = fopen("/proc/stat", "r");
    bool read = f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &n[0], &n[1], &n[2],
                            &n[3], &n[4], &n[5], &n[6], &n[7]) == 8;
    if (f) fclose(f);
    return read ? (double)(n[0] + n[1] + n[2] + n[5] + n[6] + n[7]) / (double)sysconf(_SC_CLK_TCK)
                : 0;
}

system_count system_count_now(void)
{
    system_count c = {.at = clock_seconds(), .busy = busy_seconds()};
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
        c.used = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    int file = system_delay_open();
    c.waited = system_delay(file);
    if (file >= 0) close(file);
    read_status(&c);
    return c;
}

int system_delay_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

double system_delay(int file)
{
    char text[128];
    unsigned long long on_core, waited;
    ssize_t n = file >= 0 ? pread(file, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%llu %llu", &on_core, &waited) == 2 ? 1e-9 * (double)waited : 0;
}

/* ---- calls and host time of launching a step, to judge whether CUDA graphs would pay. Only for
 * devices that run asynchronously to the host. */

void trainer_host_note(trainer *t, double seconds)
{
    host_times *h = &t->host;
    executor_calls now = executor_calls_of(t->e);
    h->seconds[h->n++ % HOST_STEPS] = seconds;
    h->last =
        (executor_calls){now.put - h->so_far.put, now.replayed - h->so_far.replayed, now.kernels};
    h->so_far = now;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const host_times *h, int64_t *n)
{
    double sorted[HOST_STEPS];
    *n = h->n < HOST_STEPS ? h->n : HOST_STEPS;
    memcpy(sorted, h->seconds, sizeof sorted);
    qsort(sorted, (size_t)*n, sizeof *sorted, by_size);
    return sorted[*n / 2];
}

status trainer_host_line(trainer *t, error *err)
{
    const executor_calls *c = &t->host.last;
    if (!t->host.n || strcmp(executor_device(t->e), "cuda") != 0) return OK;
    int64_t n;
    double put = median(&t->host, &n);
    const char *graphs =
        c->replayed ? arena_text(t->a, "%lld graph%s of %lld kernels, and ", (long long)c->replayed,
                                 c->replayed > 1 ? "s" : "", (long long)c->kernels)
                    : "";
    trainer_say(t, stderr,
                arena_text(t->a,
                           "host: %.3f ms to launch a step (median of %lld): %s%lld operations",
                           1e3 * put, (long long)n, graphs, (long long)c->put));
    const host_event x = {"host", t->at.iteration, 1e3 * put, c->put, c->replayed, c->kernels};
    return trainer_event(t, answer_json(host_event, &x), err);
}

/* ---- device memory outside the arena: context, code and libraries
 *
 * It is not planned, so it is measured: after the first step, when every kernel has run once, and
 * again at the end. Nothing allocates in a step, so a difference is a leak of a library, or another
 * process on the same GPU; either is reported. CPUs cannot tell, so nothing is reported there. */

/* The most of all ranks; -1: not known. */
static int64_t most(trainer *t)
{
    double mine = (double)executor_outside_arena(t->e);
    if (mine >= 0) comm_max(t->c, GROUP_WORLD, &mine, 1);
    return (int64_t)mine;
}

static status event(trainer *t, int64_t now, error *err)
{
    const memory_event x = {"memory", t->at.iteration, t->p->arena_bytes, now,
                            now - t->outside_arena};
    return trainer_event(t, answer_json(memory_event, &x), err);
}

status trainer_outside_arena_first(trainer *t, error *err)
{
    t->outside_arena = most(t);
    if (t->outside_arena < 0) return OK;
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(t->a,
                           "[Rank 0] (after 1 iterations) memory outside the arena on %s: %s "
                           "(context, code, libraries, other processes)",
                           executor_device(t->e), text_bytes(t->a, t->outside_arena)));
    return event(t, t->outside_arena, err);
}

status trainer_outside_arena_last(trainer *t, error *err)
{
    if (t->outside_arena < 0) return OK;
    int64_t now = most(t), grown = now - t->outside_arena;
    const char *how = grown <= 0
                          ? "no more than after the first step"
                          : arena_text(t->a,
                                       "%s more than after the first step; moefold allocates "
                                       "nothing in a step, so a library or another process did",
                                       text_bytes(t->a, grown));
    trainer_say(t, stderr,
                arena_text(t->a, "memory outside the arena on %s at the end: %s, %s",
                           executor_device(t->e), text_bytes(t->a, now), how));
    return event(t, now, err);
}

/* ---- which cuBLASLt algorithms the GEMMs of a run use, and who chose them
 *
 * A resumed run must use the algorithms that it had before. A new run uses those that `bench` tuned
 * on this machine, if any. Either is reported before the first step, with the number of GEMMs whose
 * algorithm is not the heuristic's first choice. Devices without such a library report nothing. */

enum { PRODUCTS_MAX = 256 };

typedef struct tally {
    int n, of[LT_SOURCES], others; /* others: not the heuristic's first */
} tally;

static tally count(const trainer *t)
{
    tally c = {0};
    lt_use *list = ARENA_ARRAY(t->a, lt_use, PRODUCTS_MAX);
    c.n = executor_gemms(t->e, list, PRODUCTS_MAX);
    if (c.n > PRODUCTS_MAX) c.n = PRODUCTS_MAX;
    for (int i = 0; i < c.n; i++) {
        c.of[list[i].from]++;
        c.others += list[i].place != 0;
    }
    return c;
}

status trainer_gemms(trainer *t, error *err)
{
    const tally c = count(t);
    if (c.n == 0) return OK;
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(t->a,
                           "[Rank 0] GEMM by cuBLASLt: %d shapes; algorithms: %d kept by the run, "
                           "%d tuned by `bench`, %d the heuristic's first choice; %d differ from "
                           "that",
                           c.n, c.of[LT_KEPT], c.of[LT_TUNED], c.of[LT_FIRST], c.others));
    const products_event x = {"products",     c.n,     c.of[LT_KEPT], c.of[LT_TUNED],
                              c.of[LT_FIRST], c.others};
    return trainer_event(t, answer_json(products_event, &x), err);
}
