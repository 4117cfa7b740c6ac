/* test_crash.c - what a rank says when the program itself fails: which rank, at what, by which
 * signal; also where the stack is full, and in a thread that is no rank's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/comm/comm.h"

typedef void failing(void);

static void bad_address(void)
{
    volatile uintptr_t at = 16;
    *(volatile int *)at = 1;
}

static int deep(volatile int *at)
{
    volatile int here[1024];
    here[0] = *at + 1;
    if (here[0] < 0) return 0;
    return deep(here) + here[0];
}

static void full_stack(void)
{
    volatile int zero = 0;
    deep(&zero);
}

static void ends(void)
{
    abort();
}

static void *no_rank(void *unused)
{
    (void)unused;
    bad_address();
    return NULL;
}

static void in_a_helper(void)
{
    pthread_t t;
    pthread_create(&t, NULL, no_rank, NULL);
    pthread_join(t, NULL);
}

typedef struct rank_of {
    comm *c;
    failing *how; /* NULL: waits for its end */
    pthread_barrier_t *all;
} rank_of;

static void *run(void *with)
{
    rank_of *r = with;
    comm_here(r->c);
    comm_where(r->c, "layer", "experts.fc1");
    pthread_barrier_wait(r->all); /* both ranks are known before one fails */
    if (r->how) r->how();
    for (;;) pause();
    return NULL;
}

/* In a process of its own: two ranks, the second fails. */
static void child(failing *f)
{
    comm *c[2];
    pthread_t t[2];
    rank_of r[2];
    pthread_barrier_t all;
    error err;
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT};
    for (int i = 0; i < 3; i++) signal(numbers[i], SIG_DFL); /* the test library's handlers */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    comm_crashes();
    if (comm_open_threads(c, 2, &err)) _exit(9);
    pthread_barrier_init(&all, NULL, 2);
    for (int i = 0; i < 2; i++) {
        r[i] = (rank_of){c[i], i ? f : NULL, &all};
        pthread_create(&t[i], NULL, run, &r[i]);
    }
    pthread_join(t[1], NULL);
    _exit(8);
}

/* What it says goes to `text`; returns its exit status as wait has it. */
static int said_by(failing *f, char *text, size_t room)
{
    int ends_of[2], code = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends_of), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends_of[1], STDERR_FILENO);
        close(ends_of[0]);
        alarm(30);
        child(f);
    }
    close(ends_of[1]);
    for (ssize_t got; (got = read(ends_of[0], text + n, room - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(ends_of[0]);
    waitpid(pid, &code, 0);
    return code;
}

static void expect(failing *f, const char *wanted)
{
    static char text[1 << 16];
    int code = said_by(f, text, sizeof text);
    if (!strstr(text, wanted)) fail_msg("no '%s' in '%s'", wanted, text);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), ERR_MACHINE);
}

static void a_bad_address_names_rank_and_place(void **state)
{
    (void)state;
    expect(bad_address, "moefold: rank 1 of 2: SIGSEGV at address 0x10 while it computes: layer "
                        "experts.fc1; the process ends.");
}

static void a_full_stack_does_too(void **state)
{
    (void)state;
    expect(full_stack, "moefold: rank 1 of 2: SIGSEGV at address 0x");
}

static void an_abort_does_too(void **state)
{
    (void)state;
    expect(ends, "moefold: rank 1 of 2: SIGABRT while it computes: layer experts.fc1;");
}

static void a_thread_that_is_no_ranks_says_so(void **state)
{
    (void)state;
    expect(in_a_helper, "moefold: SIGSEGV at address 0x10 in a helper thread of the ranks;");
}

int main(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return 0; /* sanitizers handle these signals by themselves */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_address_names_rank_and_place),
        cmocka_unit_test(a_full_stack_does_too),
        cmocka_unit_test(an_abort_does_too),
        cmocka_unit_test(a_thread_that_is_no_ranks_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
