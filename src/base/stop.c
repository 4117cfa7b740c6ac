/* stop.c - see stop.h. */
#define _GNU_SOURCE
#include "base/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

const int stop_signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, 0};

enum { FROM_ANYONE, FROM_LAUNCHER, FROM_RANKS, ORIGINS };

#define REPEAT_NS 5000000000LL

static atomic_int heard[ORIGINS];
static atomic_llong first_term[ORIGINS]; /* ns; 0: none came */
static atomic_bool watching;             /* ranks may be threads: each of them asks for it */
static bool of_many;
static pid_t ranks_process; /* of `--ranks`; 0: none */
static void (*on_term)(void);

static int origin_of(const siginfo_t *info)
{
    bool by_process = info->si_code <= 0;
    if (!of_many || !by_process) return FROM_ANYONE;
    if (ranks_process && info->si_pid == ranks_process) return FROM_RANKS;
    return info->si_pid == getppid() ? FROM_LAUNCHER : FROM_ANYONE;
}

bool stop_is_repeat(atomic_llong *first, int number)
{
    struct timespec t;
    long long none = 0;
    if (number != SIGTERM) return false;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = t.tv_sec * 1000000000LL + t.tv_nsec;
    if (atomic_compare_exchange_strong(first, &none, now)) return false;
    return now - none < REPEAT_NS; /* the exchange has put what is there into `none` */
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    int kept = errno, origin = origin_of(info);
    if (stop_is_repeat(&first_term[origin], number)) {
        errno = kept;
        return;
    }
    if (atomic_fetch_add(&heard[origin], 1) > 0) {
        static const char text[] =
            "moefold: told to stop a second time: exiting now; unsaved steps are lost\n";
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        (void)written;
        _exit(ERR_MACHINE);
    }
    if (number == SIGTERM && on_term) on_term();
    errno = kept;
}

void stop_watch(bool launched, void (*says)(void))
{
    if (atomic_exchange(&watching, true)) return;
    const char *word = getenv(STOP_PARENT);
    ranks_process = word ? (pid_t)atol(word) : 0;
    of_many = launched || ranks_process;
    on_term = says;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    for (const int *s = stop_signals; *s; s++) sigaddset(&action.sa_mask, *s);
    for (const int *s = stop_signals; *s; s++) {
        sigaction(*s, NULL, &old);
        if (*s != SIGHUP || old.sa_handler != SIG_IGN) sigaction(*s, &action, NULL);
    }
}

bool stop_asked(void)
{
    for (int i = 0; i < ORIGINS; i++)
        if (atomic_load_explicit(&heard[i], memory_order_relaxed)) return true;
    return false;
}

void stop_over(void)
{
    signal(SIGTERM, SIG_IGN);
}
