/* ranks.c - the command line of mpirun. */
#include "cli/ranks.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/ranks_job.h"

enum { WORDS_MAX = 4096 };

typedef struct words {
    arena *a;
    char *list[WORDS_MAX + 1]; /* ends with NULL */
    int n;
} words;

static void add(words *w, const char *word)
{
    if (w->n < WORDS_MAX) w->list[w->n++] = arena_copy(w->a, word, strlen(word));
}

static void add_all(words *w, const char *const *list)
{
    for (; *list; list++) add(w, *list);
}

/* With few ranks each gets its part of the cores; with many none is bound. See ranks.h. */
static void add_mpirun(words *w, int n, int cores)
{
    static const char *const always[] = {
        "mpirun", "--quiet", "--mca", "btl_base_warn_component_unused", "0",
        /* in containers a process may not read the memory of another: no word about it */
        "--mca", "btl_vader_single_copy_mechanism", "none",
        /* ranks of one machine: shared memory only, and what mpirun itself opens for other machines
         * is announced on loopback. It still listens on all addresses (docs/STOPPING.md). */
        "--mca", "pml", "ob1", "--mca", "btl", "vader,self", "--mca", "oob_tcp_if_include",
        "127.0.0.0/8",
        /* with 1, which it is, SIGKILL follows SIGTERM too soon to say where a rank was */
        "--mca", "odls_base_sigkill_timeout", "2", NULL};
    static const char *const crowded[] = {"--oversubscribe",     "--bind-to", "none", "--mca",
                                          "mpi_yield_when_idle", "1",         NULL};
    add_all(w, always);
    if (getuid() == 0) add(w, "--allow-run-as-root");
    if (n > cores) {
        add_all(w, crowded);
    } else {
        add(w, "--use-hwthread-cpus");
        add(w, "--map-by");
        add(w, arena_text(w->a, "slot:PE=%d", cores / n));
        add(w, "--bind-to");
        add(w, "hwthread");
    }
    add(w, "-n");
    add(w, arena_text(w->a, "%d", n));
}

static bool sets(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);
    for (int i = 1; i < argc; i++) {
        const char *p = argv[i] + strspn(argv[i], "+");
        if (strncmp(p, key, n) == 0 && p[n] == '=') return true;
    }
    return false;
}

/* The command without --ranks, and the cluster that it asks for. */
static void add_command(words *w, int argc, char **argv, int n)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--ranks") == 0)
            i++;
        else if (strncmp(argv[i], "--ranks=", 8) != 0)
            add(w, argv[i]);
    }
    static const char *const keys[] = {"cluster.n_gpus", "cluster.gpus_per_node"};
    for (int k = 0; k < 2; k++)
        if (!sets(argc, argv, keys[k])) add(w, arena_text(w->a, "%s=%d", keys[k], n));
}

static bool in_path(const char *name)
{
    const char *p = getenv("PATH");
    char file[PATH_MAX];
    while (p && *p) {
        size_t n = strcspn(p, ":");
        int length = snprintf(file, sizeof file, "%.*s/%s", (int)n, p, name);
        if (length > 0 && (size_t)length < sizeof file && access(file, X_OK) == 0) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static void say(const words *w, const char *threads)
{
    fprintf(stderr, "moefold: OMP_NUM_THREADS=%s", threads);
    for (int i = 0; i < w->n; i++) fprintf(stderr, " %s", word_quoted(w->a, w->list[i]));
    fprintf(stderr, "\n");
}

bool cli_ranks_ended(void)
{
    return job_was_told();
}

static bool program_path(char *out, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", out, room - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

int cli_run_ranks(int argc, char **argv, int n)
{
    char program[PATH_MAX];
    if (n < 1 || n > 4096) {
        fprintf(stderr, "moefold %s: --ranks %d: 1 to 4096 ranks of this machine are possible\n",
                argv[0], n);
        return ERR_INPUT;
    }
    if (!in_path("mpirun") || !program_path(program, sizeof program)) {
        fprintf(stderr,
                "moefold %s: --ranks %d: there is no mpirun in PATH; install Open MPI (Debian, "
                "Ubuntu: apt-get install openmpi-bin libopenmpi-dev) and run `make`\n",
                argv[0], n);
        return ERR_MACHINE;
    }
    int cores = omp_get_num_procs();
    arena *a = arena_create();
    words *w = ARENA_NEW(a, words);
    w->a = a;
    add_mpirun(w, n, cores);
    add(w, program);
    add_command(w, argc, argv, n);
    setenv("OMP_NUM_THREADS", arena_text(a, "%d", n > cores ? 1 : cores / n), 0);
    say(w, getenv("OMP_NUM_THREADS"));
    int code = job_run(w->list, n, strcmp(argv[0], "train") == 0);
    arena_destroy(a);
    return code;
}
