/* words.c - what the environment may ask of a test build: emulated devices, faults and delays.
 *
 *     MOEFOLD_DEVICE=deferred:SEED|peers...|null  a device of this folder
 *     MOEFOLD_FAULT=KIND:N[:RANK]                 operation N of the compute stream ends with a
 *                                                 fault of the device (trap), or never (hang), or
 *                                                 the host, when it puts that operation, fails
 *                                                 (crash) or leaves the job without a word (leave)
 *     MOEFOLD_FAULT=overflow:N                    step N finds a routed buffer too small
 *     MOEFOLD_SLOW=WORK:RANK:SECONDS              that rank sleeps so long when it is at that work
 *                                                 for the first time (names: work_rows)
 *     MOEFOLD_SLOW_OP=NAME:MILLISECONDS           after each operation of that name the host
 *                                                 computes nothing for so long
 *     MOEFOLD_MPI_PIECE=N                         MPI is given at most N elements at once
 *     MOEFOLD_TUNE_PROGRAM=FILE                   `tune` runs its trials with that program
 *     MOEFOLD_TRACE_EVERY_OTHER=1                 --trace-steps leaves out odd steps
 *     MOEFOLD_WAITING_SECONDS=S                   the line of long work is drawn after so long
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/comm/state.h"
#include "backend/device/log.h"
#include "base/waiting.h"
#include "emulated/emulated.h"
#include "measure/tune/tune.h"
#include "train/loop/trainer.h"

/* A word of the environment that is set and not empty, or NULL. */
static const char *word_of(const char *variable)
{
    const char *word = getenv(variable);
    return word && *word ? word : NULL;
}

static void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * fmod(seconds, 1))};
    while (nanosleep(&t, &t) != 0) continue; /* a signal is no reason to be quick */
}

/* ---- devices */

const device_table *planted_device(const char *name, size_t n)
{
    static const device_table *const list[] = {&device_deferred, &device_peers, &device_null};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strlen(list[i]->name) == n && strncmp(list[i]->name, name, n) == 0) return list[i];
    return NULL;
}

/* ---- faults of operations */

typedef enum fault { FAULT_NONE, FAULT_TRAP, FAULT_HANG, FAULT_CRASH, FAULT_LEAVE } fault;

typedef struct planted {
    log_faults calls;
    fault kind;
    uint32_t at;
    long rank; /* -1: on all */
} planted;

static fault fault_of(const device *d, op_stream s, uint32_t number)
{
    const planted *p = (const planted *)d->log->faults;
    return s == STREAM_COMPUTE && number == p->at ? p->kind : FAULT_NONE;
}

static void put(const device *d, op_stream s, uint32_t number)
{
    fault f = fault_of(d, s, number);
    if (f == FAULT_CRASH) *(volatile char *)(uintptr_t)number = 0;
    if (f == FAULT_LEAVE) _exit(OK);
}

static void sleep_for_ever(void *unused)
{
    (void)unused;
    for (;;) sleep_for(1);
}

/* By the driver, which the CUDA object has opened; `stream` is one of its. */
static void trap_or_hang(fault f, void *stream)
{
    typedef int launch_host(void *stream, void (*f)(void *), void *with);
    typedef int load(void **module, const void *image);
    typedef int find(void **function, void *module, const char *name);
    typedef int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, void *stream, void **in,
                       void **extra);
    static const char trap[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                               ".visible .entry fault()\n{\n\ttrap;\n\tret;\n}\n";
    static const char *const names[] = {"cuLaunchHostFunc", "cuModuleLoadData",
                                        "cuModuleGetFunction", "cuLaunchKernel"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *at[4] = {NULL}, *module, *function;
    for (int i = 0; driver && i < 4; i++) at[i] = dlsym(driver, names[i]);
    launch_host *on_host;
    load *load_it;
    find *find_it;
    launch *launch_it;
    memcpy(&on_host, &at[0], sizeof at[0]);
    memcpy(&load_it, &at[1], sizeof at[1]);
    memcpy(&find_it, &at[2], sizeof at[2]);
    memcpy(&launch_it, &at[3], sizeof at[3]);
    if (!at[0] || !at[1] || !at[2] || !at[3] ||
        (f == FAULT_HANG ? on_host(stream, sleep_for_ever, NULL)
                         : load_it(&module, trap) || find_it(&function, module, "fault") ||
                               launch_it(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)))
        fprintf(stderr, "MOEFOLD_FAULT: the driver does not plant it\n");
}

/* Of a CPU as of a GPU: a fault is known when somebody waits, and what does not end holds up who
 * does. */
static void begin(const device *d, op_stream s, uint32_t number, void *stream)
{
    char text[LOG_TEXT];
    fault f = fault_of(d, s, number);
    if (f != FAULT_TRAP && f != FAULT_HANG) return;
    if (stream) {
        trap_or_hang(f, stream);
        return;
    }
    if (f == FAULT_HANG) sleep_for_ever(NULL);
    log_text(d, text, sizeof text);
    comm_abort(d->c, ERR_MACHINE, text);
}

status planted_faults(device *d, error *err)
{
    static const char *const kinds[] = {"", "trap:", "hang:", "crash:", "leave:"};
    const char *word = word_of("MOEFOLD_FAULT");
    if (!word) return OK;
    if (strncmp(word, "overflow:", 9) == 0 && word[9] && !word[9 + strspn(word + 9, "0123456789")])
        return OK; /* of the trainer */
    for (int k = FAULT_TRAP; k <= FAULT_LEAVE; k++) {
        size_t n = strlen(kinds[k]);
        if (strncmp(word, kinds[k], n) != 0) continue;
        char *end;
        unsigned long at = strtoul(word + n, &end, 10);
        if (end == word + n || at < 1 || at > UINT32_MAX) break;
        long rank = *end == ':' ? strtol(end + 1, &end, 10) : -1;
        if (*end) break;
        if (d->c && rank >= 0 && comm_rank(d->c) != rank) return OK;
        planted *p = malloc(sizeof *p);
        if (!p) return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
        *p = (planted){{put, begin}, (fault)k, (uint32_t)at, rank};
        d->log->faults = &p->calls;
        return OK;
    }
    return error_set(
        err, ERR_MACHINE,
        "MOEFOLD_FAULT=%s in the environment is not trap:N, hang:N, crash:N or leave:N, with the "
        "number of an operation and perhaps :RANK, or overflow:N, with that of a step; unset it",
        word);
}

/* Where the device counts, the first layer's routed buffer is too small in the first run of that
 * step. One rank alone never has that. */
void planted_step(executor *e, int64_t overflow_at, int64_t iteration)
{
    static const char name[] = "overflow:";
    static _Thread_local int64_t planted_in; /* of this rank */
    const float rows[2] = {2, 1};            /* wanted, room */
    const char *word = word_of("MOEFOLD_FAULT");
    if (!word || strncmp(word, name, strlen(name)) != 0) return;
    if (planted_in == iteration || atoll(word + strlen(name)) != iteration) return;
    executor_write(e, overflow_at, rows, sizeof rows);
    planted_in = iteration;
}

/* ---- delays */

static _Thread_local struct {
    const comm *of; /* whose rank this thread is; NULL: not set, or done */
    comm_work work;
    double seconds;
} slow;

/* "save:1:5" */
status planted_slow(const comm *c, error *err)
{
    const char *word = getenv("MOEFOLD_SLOW");
    slow.of = NULL;
    if (!word) return OK;
    char name[16] = "", *end = NULL;
    size_t n = strcspn(word, ":");
    comm_work w = WORK_START;
    long rank = -1;
    double seconds = -1;
    if (n < sizeof name) memcpy(name, word, n);
    while (w < WORK_COUNT && strcmp(work_rows[w].name, name) != 0) w++;
    if (word[n]) rank = strtol(word + n + 1, &end, 10);
    if (end && *end == ':') seconds = strtod(end + 1, &end);
    if (w == WORK_COUNT || rank < 0 || !(seconds >= 0 && seconds < 1e6) || *end)
        return error_set(err, ERR_INPUT,
                         "MOEFOLD_SLOW=%s in the environment is not WORK:RANK:SECONDS, such as "
                         "save:1:5; unset it",
                         word);
    if (rank != comm_rank(c)) return OK;
    slow.of = c;
    slow.work = w;
    slow.seconds = seconds;
    return OK;
}

void planted_work(const comm *c, comm_work w)
{
    if (slow.of != c || slow.work != w) return;
    slow.of = NULL;
    sleep_for(slow.seconds);
}

/* "experts.fc1:2" */
static bool slow_op(const char *word, size_t *n, double *seconds)
{
    const char *colon = strrchr(word, ':');
    char *end = NULL;
    double ms = colon ? strtod(colon + 1, &end) : 0;
    if (!colon || colon == word || end == colon + 1 || *end || !(ms >= 0 && ms < 60000))
        return false;
    *n = (size_t)(colon - word);
    *seconds = ms / 1000;
    return true;
}

static void after(const char *name)
{
    const char *word = word_of("MOEFOLD_SLOW_OP");
    size_t n;
    double seconds;
    if (word && name && slow_op(word, &n, &seconds) && strlen(name) == n &&
        strncmp(name, word, n) == 0)
        sleep_for(seconds);
}

status planted_executor(executor_planted *out, error *err)
{
    const char *word = word_of("MOEFOLD_SLOW_OP");
    size_t n;
    double seconds;
    if (!word) return OK;
    if (!slow_op(word, &n, &seconds))
        return error_set(err, ERR_INPUT,
                         "MOEFOLD_SLOW_OP=%s: a name and milliseconds are needed; repair: "
                         "MOEFOLD_SLOW_OP=experts.fc1:2",
                         word);
    *out = after;
    return OK;
}

/* Tests cannot send 2^31 floats. */
status planted_mpi(int64_t *most, error *err)
{
    const char *word = getenv("MOEFOLD_MPI_PIECE");
    if (!word) return OK;
    char *end;
    *most = strtoll(word, &end, 10);
    if (end != word && !*end && *most >= 1 && *most <= 1 << 30) return OK;
    return error_set(
        err, ERR_INPUT,
        "MOEFOLD_MPI_PIECE=%s in the environment is not a number from 1 to 2^30; unset it", word);
}

/* ---- what commands run and show */

status planted_trial(const char **path, error *err)
{
    *path = getenv("MOEFOLD_TUNE_PROGRAM");
    if (!*path || access(*path, X_OK) == 0) return OK;
    return error_set(err, ERR_INPUT,
                     "MOEFOLD_TUNE_PROGRAM=%s in the environment is not a program that can be "
                     "started; unset it to run trials with this program",
                     *path);
}

static bool is_odd(int64_t iteration)
{
    return iteration % 2;
}

status planted_tracing(bool (**leaves_out)(int64_t iteration), error *err)
{
    const char *word = word_of("MOEFOLD_TRACE_EVERY_OTHER");
    if (!word || strcmp(word, "0") == 0) return OK;
    if (strcmp(word, "1") != 0)
        return error_set(err, ERR_INPUT,
                         "MOEFOLD_TRACE_EVERY_OTHER=%s in the environment is not 0 or 1; unset it "
                         "to trace every step of --trace-steps",
                         word);
    *leaves_out = is_odd;
    return OK;
}

double planted_waiting(double otherwise)
{
    const char *word = word_of("MOEFOLD_WAITING_SECONDS");
    if (!word) return otherwise;
    char *end;
    double seconds = strtod(word, &end);
    if (end != word && !*end && seconds >= 0 && seconds <= 60) return seconds;
    fprintf(stderr,
            "MOEFOLD_WAITING_SECONDS=%s in the environment is not a number of seconds from 0 to "
            "60; unset it to use %g\n",
            word, otherwise);
    return otherwise;
}
