/* rig_threads.h - ranks of a layout as threads, for tests that look inside them. To be included
 * behind layout_rig.c. */
#ifndef TESTS_TRAIN_RIG_THREADS_H
#define TESTS_TRAIN_RIG_THREADS_H

/* A rank, ready for its first step. One that cannot be opened ends the job. */
static inline void rig_open(rank_rig *g)
{
    error err = {{0}};
    g->a = arena_create();
    status st = open_rank(g, &err);
    if (!st) st = load_weights(g, &err);
    if (st) comm_abort(g->c, 3, err.text);
    fill_tables(g);
}

static inline void rig_close(rank_rig *g)
{
    executor_settle(g->e);
    executor_close(g->e);
    arena_destroy(g->a);
}

/* Runs `rank` for each rank of the layout on an element of `list`, `size` bytes each, which begins
 * with its rank_rig. Returns how many there are. */
static inline int rig_run(void *list, size_t size, const char *folder, const char *words,
                          void *(*rank)(void *))
{
    int n = (int)ranks_of(folder, words);
    comm *comms[RIG_RANKS_MAX];
    pthread_t threads[RIG_RANKS_MAX];
    error err = {{0}};
    assert_int_equal(comm_open_threads(comms, n, &err), OK);
    for (int i = 0; i < n; i++) {
        void *own = (char *)list + size * (size_t)i;
        *(rank_rig *)own = (rank_rig){.folder = folder, .words = words, .c = comms[i]};
        pthread_create(&threads[i], NULL, rank, own);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) comm_close(comms[i]);
    return n;
}

#endif
