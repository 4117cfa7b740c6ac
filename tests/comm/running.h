/* running.h - ranks as threads of this program, or as processes: this program again under mpirun.
 *
 * A test program that uses it looks first whether MOEFOLD_TEST_MODE is set: then it is such a
 * process and does what that says. */
#ifndef TESTS_COMM_RUNNING_H
#define TESTS_COMM_RUNNING_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "comm/checks.h"

enum { RANKS_MAX = 8 };

/* Four ranks in groups of several kinds. */
#define LAYOUT_OF_4                                                                                \
    "cluster.n_gpus=4 model.tensor_model_parallel_size=2 model.context_parallel_size=2 "           \
    "model.expert_model_parallel_size=4 "

typedef void rank_check(comm *c, const setup *s, result *r);

typedef struct rank_job {
    comm *c;
    const setup *s;
    rank_check *check;
    result r;
} rank_job;

static inline void run_rank(rank_job *j)
{
    error err = {{0}};
    if (comm_groups(j->c, j->s, &err)) {
        snprintf(j->r.text, sizeof j->r.text, "%.200s", err.text);
        return;
    }
    open_streams(j->c);
    j->check(j->c, j->s, &j->r);
}

static inline void *run_thread(void *p)
{
    rank_job *j = p;
    run_rank(j);
    comm_close(j->c);
    return NULL;
}

static inline void on_threads(int n, const char *words, rank_check *check)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    const char *wrong = setup_of(s, a, words);
    if (wrong) fail_msg("%s", wrong);
    comm *c[RANKS_MAX];
    rank_job jobs[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    error err = {{0}};
    if (comm_open_threads(c, n, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < n; i++) {
        jobs[i] = (rank_job){.c = c[i], .s = s, .check = check};
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &jobs[i]), 0);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        if (jobs[i].r.text[0]) fail_msg("%d ranks (%s): rank %d: %s", n, words, i, jobs[i].r.text);
    arena_destroy(a);
}

static inline int run_mpi(const char *words, rank_check *check)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    rank_job j = {.s = s, .check = check};
    error err = {{0}};
    const char *wrong = setup_of(s, a, words);
    if (!wrong && comm_open_mpi(&j.c, &err)) wrong = err.text;
    if (wrong) {
        printf("%s\n", wrong);
        return 1;
    }
    run_rank(&j);
    printf("rank %d: %s\n", (int)comm_rank(j.c), j.r.text[0] ? j.r.text : "all is well");
    comm_close(j.c);
    arena_destroy(a);
    return j.r.text[0] != 0;
}

/* ---- this program again */

static char again[4096]; /* all that it said */

/* Returns its exit code. */
static inline int run_again(const char *mode, const char *before)
{
    char self[1024], command[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(command, sizeof command,
             "MOEFOLD_TEST_MODE=%s ASAN_OPTIONS=detect_leaks=0 %s '%s' 2>&1 </dev/null", mode,
             before, self);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t got = fread(again, 1, sizeof again - 1, f);
    again[got] = 0;
    char rest[512];
    while (fread(rest, 1, sizeof rest, f) > 0) continue;
    int how = pclose(f);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static inline void expect_again(const char *part)
{
    if (!strstr(again, part)) fail_msg("no '%s' in what it said:\n%s", part, again);
}

#define MPIRUN_OF(n)                                                                               \
    "mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "       \
    "--mca btl_vader_single_copy_mechanism none --mca odls_base_sigkill_timeout 2 -n " #n " "
#define MPIRUN MPIRUN_OF(4)

static inline bool no_mpi(void)
{
    if (system("command -v mpirun mpicc >/dev/null 2>&1") == 0) return false;
    print_message("Open MPI is not installed: the MPI backend is not tested\n");
    return true;
}

#endif
