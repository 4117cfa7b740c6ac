/* `--ranks N`: this program starts itself under mpirun, and says what reached it there. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/cli.h"
#include "cli/ranks.h"
#include "backend/comm/comm.h"

static char said[8192];

/* Runs this program as `train WORDS`; returns its exit code. */
static int run(const char *environment, const char *list)
{
    char self[1024], line[2048];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(line, sizeof line, "%s '%s' train %s 2>&1 </dev/null", environment, self, list);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    size_t got = fread(said, 1, sizeof said - 1, f);
    said[got] = 0;
    int how = pclose(f);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void expect(const char *part)
{
    if (!strstr(said, part)) fail_msg("no '%s' in what it said:\n%s", part, said);
}

static void expect_not(const char *part)
{
    if (strstr(said, part)) fail_msg("'%s' is in what it said:\n%s", part, said);
}

static void needs_mpirun(void)
{
    if (system("command -v mpirun >/dev/null 2>&1") == 0) return;
    print_message("Open MPI is not installed: starting ranks is not tested\n");
    skip();
}

static void every_rank_gets_the_words_and_the_cluster(void **state)
{
    (void)state;
    needs_mpirun();
    assert_int_equal(run("", "tiny --ranks 3 'a.b=x y'"), 0);
    expect("rank 0 got: tiny|a.b=x y|cluster.n_gpus=3|cluster.gpus_per_node=3|");
    expect("rank 2 got: tiny|a.b=x y|cluster.n_gpus=3|cluster.gpus_per_node=3|");
    expect("moefold: OMP_NUM_THREADS="); /* and the whole command */
    expect("-n 3 ");
}

static void what_the_user_sets_stays(void **state)
{
    (void)state;
    needs_mpirun();
    assert_int_equal(
        run("OMP_NUM_THREADS=5", "--ranks=2 cluster.gpus_per_node=1 ++cluster.n_gpus=2"), 0);
    expect("rank 1 got: cluster.gpus_per_node=1|++cluster.n_gpus=2|");
    expect("threads 5");
    expect_not("cluster.n_gpus=2|cluster");
}

static void the_exit_code_is_the_jobs(void **state)
{
    (void)state;
    needs_mpirun();
    assert_int_equal(run("TEST_EXIT=1", "--ranks 2"), 1);
    assert_int_equal(run("TEST_KILL=1", "--ranks 2"), ERR_MACHINE);
    expect("signal 9");
}

static void a_rank_that_stays_ends_the_job(void **state)
{
    (void)state;
    needs_mpirun();
    assert_int_equal(run("MOEFOLD_TIMEOUT_SECONDS=2 TEST_STOP=1", "--ranks 2"), ERR_MACHINE);
    expect("has not ended 2 s after another one; the job ends");
}

static void without_mpirun_the_repair_is_named(void **state)
{
    (void)state;
    assert_int_equal(run("PATH=/nonexistent", "--ranks 2"), ERR_MACHINE);
    expect("openmpi-bin");
    assert_int_equal(run("", "--ranks 0"), ERR_INPUT);
    expect("--ranks 0");
}

/* What a rank says. */
static int be_rank(int argc, char **argv)
{
    char line[512] = "";
    for (int i = 2; i < argc; i++) {
        strncat(line, argv[i], 200);
        strcat(line, "|");
    }
    int rank = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    printf("rank %d got: %s threads %s\n", rank, line, getenv("OMP_NUM_THREADS"));
    fflush(stdout);
    if (rank == 1 && getenv("TEST_KILL")) raise(SIGKILL);
    if (rank == 1 && getenv("TEST_STOP")) raise(SIGSTOP);
    return rank == 1 && getenv("TEST_EXIT") ? atoi(getenv("TEST_EXIT")) : 0;
}

/* main.c's table is not part of the library. */
const char cli_absent[] = "";

const command *command_table(int *n)
{
    *n = 0;
    return NULL;
}

static int ranks_asked(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strncmp(argv[i], "--ranks=", 8) == 0) return atoi(argv[i] + 8);
        if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc) return atoi(argv[i + 1]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (comm_launched()) return be_rank(argc, argv);
    if (argc > 1) return cli_run_ranks(argc - 1, argv + 1, ranks_asked(argc, argv));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_the_words_and_the_cluster),
        cmocka_unit_test(what_the_user_sets_stays),
        cmocka_unit_test(the_exit_code_is_the_jobs),
        cmocka_unit_test(a_rank_that_stays_ends_the_job),
        cmocka_unit_test(without_mpirun_the_repair_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
