/* rank_threads.c - ranks as threads: no MPI, one process, and on a GPU one context for all.
 *
 * Each rank has an arena, a recipe and a setup of its own, as in a process of its own: what a rank
 * resolves later it writes there. */
#include "cli/rank_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cli/cli.h"
#include "backend/kernels/kernels.h"
#include "ir/capture.h"

typedef struct rank_run {
    comm *c;
    arena *a;
    recipe *r;
    setup *s;
    train_options o;
    train_summary sum;
    status st;
    error err;
} rank_run;

static void *run(void *with)
{
    rank_run *k = with;
    comm_here(k->c);
    k->st = comm_groups(k->c, k->s, &k->err);
    if (!k->st) k->st = trainer_run(k->s, k->c, &k->o, &k->sum, k->a, &k->err);
    comm_close(k->c);
    return NULL;
}

static status prepare(rank_run *k, const recipe *r, const train_options *o, error *err)
{
    k->a = arena_create();
    k->r = ARENA_NEW(k->a, recipe);
    k->s = ARENA_NEW(k->a, setup);
    *k->r = *r;
    k->r->a = k->a;
    k->o = *o;
    return setup_init(k->s, k->r, k->a, err);
}

/* Libraries that plan kernels go deep: a stack as large as the first thread's, or larger. */
void cli_rank_threads(comm *const *comms, int n, void *(*function)(void *), void *const *with)
{
    enum { STACK = 64 << 20, THREADS_MAX = 4096 };
    pthread_t threads[THREADS_MAX];
    pthread_attr_t large;
    error err = {{0}};
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, STACK);
    kernels_threads(1); /* opens OpenBLAS, which sets variables of the environment: others read */
    for (int i = 0; i < n; i++) {
        if (pthread_create(&threads[i], &large, function, with[i]) == 0) continue;
        error_set(&err, ERR_MACHINE, "--ranks %d --as-threads: thread %d cannot be started", n, i);
        comm_abort(comms[0], ERR_MACHINE, err.text); /* those that run wait for it */
    }
    pthread_attr_destroy(&large);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

status cli_threads_can_run(const setup *s, int n, error *err)
{
    const recipe *r = &s->r;
    if (n < 2 || !recipe_is(r, K_DEVICE, "cuda") || !capture_of(&s->j)) return OK;
    return error_set(err, ERR_RULE,
                     "%s=%s with --as-threads: ranks as threads of one process cannot use CUDA "
                     "graphs; repair: %s=none with %s=[], or --ranks %d without --as-threads",
                     knobs[K_GRAPHS].key, recipe_word(r, K_GRAPHS), knobs[K_GRAPHS].key,
                     knobs[K_GRAPH_MODULES].key, n);
}

/* Its texts go with the rank's arena. */
static void take_sum(train_summary *to, const train_summary *from, arena *a)
{
    evaluation *e = &to->evaluated;
    *to = *from;
    if (e->weights) e->weights = arena_copy(a, e->weights, strlen(e->weights));
    if (e->data) e->data = arena_copy(a, e->data, strlen(e->data));
}

int cli_train_threads(const char *name, const recipe *r, const train_options *o, int n,
                      train_summary *sum)
{
    error err = {{0}};
    rank_run *all = calloc((size_t)n, sizeof *all);
    comm **comms = calloc((size_t)n, sizeof *comms);
    void **with = calloc((size_t)n, sizeof *with);
    status st = OK;
    if (!all || !comms || !with) st = error_set(&err, ERR_MACHINE, "no memory for %d ranks", n);
    stop_watch(false, comm_told_to_end);
    for (int i = 0; i < n && !st; i++) st = prepare(&all[i], r, o, &err);
    if (!st) st = comm_open_threads(comms, n, &err);
    for (int i = 0; i < n && !st; i++) {
        all[i].c = comms[i];
        with[i] = &all[i];
    }
    if (!st) cli_rank_threads(comms, n, run, with);
    for (int i = n - 1; i >= 0 && all; i--) {
        if (all[i].st) err = all[i].err;
        if (all[i].st) st = all[i].st;
        if (i == 0) take_sum(sum, &all[i].sum, r->a);
        if (all[i].a) arena_destroy(all[i].a);
    }
    free(all);
    free(comms);
    free(with);
    return st ? cli_fail(name, st, &err) : OK;
}
