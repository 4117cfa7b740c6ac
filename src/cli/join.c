/* join.c - joining a job of several ranks. */
#define _GNU_SOURCE
#include "cli/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/job_of.h"
#include "train/loop/facts.h"

/* Set for ranks whose recipe --ranks has checked: its warnings have been printed. */
#define CHECKED "MOEFOLD_RANKS_CHECKED"

static bool on_line(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i] + strspn(argv[i], "+");
        if (strncmp(word, key, n) == 0 && word[n] == '=') return true;
    }
    return false;
}

status cli_read_ranks(const char *ranks, int argc, char **argv, recipe *r, int *n, error *err)
{
    char *end;
    *n = 0;
    if (!ranks || comm_launched()) return OK;
    long count = strtol(ranks, &end, 10);
    if (end == ranks || *end || count < 1 || count > 4096)
        return error_set(err, ERR_INPUT, "--ranks %s: is not a number of ranks (1 to 4096)", ranks);
    *n = (int)count;
    setenv(CHECKED, "1", 1);
    for (int i = 0; i < 2; i++) {
        knob_id k = i ? K_GPUS_PER_NODE : K_N_GPUS;
        if (!on_line(argc, argv, knobs[k].key)) recipe_set(r, k, value_of_int(count), "--ranks");
    }
    return OK;
}

static status open_job(comm **out, const setup *s, error *err)
{
    long long world = (long long)s->lay.world;
    if (comm_launched()) return comm_open_mpi(out, err);
    if (world == 1) return comm_open_self(out, err);
    return error_set(err, ERR_RULE,
                     "cluster.n_gpus=%lld, but this is one process; repair: start with --ranks "
                     "%lld, or under mpirun -n %lld or srun -n %lld",
                     world, world, world, world);
}

/* A layout that every recipe gives alike, for the time before ranks know that theirs agree. */
static const setup *plain_setup(int64_t world, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    static const knob_id one[] = {K_TP, K_CP, K_PP, K_EP, K_ETP};
    recipe_init(&s->r, a, "");
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
        recipe_set(&s->r, one[i], value_of_int(1), "");
    static const knob_id all[] = {K_N_GPUS, K_GPUS_PER_NODE, K_NVLINK};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        recipe_set(&s->r, all[i], value_of_int(world), "");
    recipe_fill_defaults(&s->r);
    job_of(&s->j, &s->r);
    layout_init(&s->lay, &s->j);
    s->pipe = (pipeline){.pp = 1, .vpp = 1, .stages = ARENA_NEW(a, stage)};
    s->possible = true;
    return s;
}

status cli_open(comm **out, const setup *s, arena *a, error *err)
{
    comm *c = NULL;
    status st = open_job(&c, s, err);
    if (!st) comm_here(c);
    if (!st && comm_size(c) > 1) {
        st = comm_groups(c, plain_setup(comm_size(c), a), err);
        if (!st) st = facts_start(c, s, a, err);
    }
    *out = c;
    return st;
}

status cli_join(comm **out, const setup *s, arena *a, error *err)
{
    TRY(cli_open(out, s, a, err));
    return comm_groups(*out, s, err);
}

/* The rank as the launcher tells it, before any MPI. */
static long launched_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i])) return atol(getenv(names[i]));
    return 0;
}

bool cli_speaks(void)
{
    return !comm_launched() || launched_rank() == 0;
}

void cli_let_first_speak(void)
{
    if (!cli_speaks()) sleep(3);
}

int cli_fail_alone(const char *name, status s, const error *err)
{
    if (cli_speaks()) return cli_fail(name, s, err);
    cli_let_first_speak();
    fprintf(stderr, "moefold %s: rank %ld: %s\n", name, launched_rank(), err->text);
    return (int)s;
}

bool cli_rank_refuses(const char *name, const setup *s, arena *a)
{
    violations found;
    bool quiet = comm_launched() && (!cli_speaks() || getenv(CHECKED));
    if (!quiet) return cli_refuse(name, s, a);
    rules_check(&found, s, false, a);
    if (found.n_errors == 0) return false;
    cli_let_first_speak();
    return cli_refuse(name, s, a);
}
