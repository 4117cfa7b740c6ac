/* crash.c - the handler of fatal signals: it reports which rank failed, and where.
 *
 * I1  The handler runs on the thread that failed. Ranks may be threads, so each of them names its
 *     rank (comm_here); a thread that is nobody's, OpenMP's or a driver's, belongs to the process's
 *     only rank, and else is called a helper.
 * I2  A full stack is one of the faults: ranks have another one for the handler.
 * I3  Only the first fault is reported. Threads that fail meanwhile wait for the process to end; a
 *     fault inside the handler ends it at once.
 * I4  A signal that is handled already is left alone, and so is one that another handler, which was
 *     set later, hands back (data/guard.c): it then fails once more, here. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend/comm/line.h"
#include "backend/comm/state.h"

static const struct {
    int number;
    const char *name;
} faults[] = {{SIGSEGV, "SIGSEGV"},
              {SIGBUS, "SIGBUS"},
              {SIGFPE, "SIGFPE"},
              {SIGILL, "SIGILL"},
              {SIGABRT, "SIGABRT"}};
enum { N_FAULTS = sizeof faults / sizeof faults[0], STACK = 64 << 10, CALLS = 48 };

static _Thread_local comm *mine;
static _Thread_local void *stack; /* I2 */
static _Thread_local bool speaks;
static comm *_Atomic any; /* a rank of this process */
static atomic_int n_ranks;
static atomic_bool spoken;

/* ---- the handler */

static const char *name_of(int number)
{
    for (int i = 0; i < N_FAULTS; i++)
        if (faults[i].number == number) return faults[i].name;
    return "a signal";
}

static comm *whose(void) /* I1 */
{
    if (mine) return mine;
    return atomic_load(&n_ranks) == 1 ? atomic_load(&any) : NULL;
}

static void put_device(line *l, comm *c)
{
    char text[2048];
    if (!c->watch.device.text) return;
    c->watch.device.text(c->watch.device.with, text, sizeof text);
    if (text[0]) line_put(l, "; ");
    line_put(l, text);
}

static void put_rank(line *l, comm *c, const char *thread)
{
    line_put(l, thread);
    line_put(l, " ");
    line_doing(l, c);
    if (watch_work(c)) line_where(l, c, ": ");
    put_device(l, c);
}

static void speak(int number, const siginfo_t *info)
{
    void *calls[CALLS];
    line l = {.n = 0};
    comm *c = whose();
    if (c)
        line_rank(&l, c);
    else
        line_put(&l, "moefold: ");
    line_put(&l, name_of(number));
    if (number == SIGSEGV || number == SIGBUS) {
        line_put(&l, " at address ");
        line_address(&l, info->si_addr);
    }
    if (c)
        put_rank(&l, c, mine ? "" : " in a helper thread of the rank,");
    else
        line_put(&l, atomic_load(&n_ranks) ? " in a helper thread of the ranks" : "");
    line_put(&l, "; the process ends. Calls, last first (`addr2line -e` reads them):");
    line_say(&l);
    backtrace_symbols_fd(calls, backtrace(calls, CALLS), STDERR_FILENO);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    struct rlimit core = {0, 0};
    if (speaks) _exit(ERR_MACHINE);
    while (atomic_exchange(&spoken, true)) pause(); /* I3 */
    speaks = true;
    speak(number, info);
    getrlimit(RLIMIT_CORE, &core);
    if (core.rlim_cur == 0) _exit(ERR_MACHINE);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- who is where */

/* Opening the library that reads stacks takes memory: not in a handler. */
void comm_crashes(void)
{
    void *calls[1];
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER},
                     now;
    backtrace(calls, 1);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_FAULTS; i++) {
        sigaction(faults[i].number, NULL, &now);
        if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL) /* I4 */
            sigaction(faults[i].number, &action, NULL);
    }
}

void comm_here(comm *c)
{
    if (!mine) atomic_fetch_add(&n_ranks, 1);
    mine = c;
    atomic_store(&any, c);
    if (!stack) stack = malloc(STACK);
    if (stack) sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK}, NULL);
}

void crash_forget(comm *c)
{
    if (mine != c) return;
    mine = NULL;
    atomic_store(&any, NULL);
    atomic_fetch_sub(&n_ranks, 1);
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(stack);
    stack = NULL;
}
