/* ranks_testing.h - ranks as threads of a test. */
#ifndef TESTS_TRAIN_RANKS_TESTING_H
#define TESTS_TRAIN_RANKS_TESTING_H

#include <pthread.h>
#include <stdlib.h>

#include "backend/comm/comm.h"
#include "backend/kernels/kernels.h"

enum { TEST_RANKS_MAX = 64 };

/* Called on every rank; must not fail the test there, but leave what the test then looks at. */
typedef void (*rank_work)(comm *c, void *with);

typedef struct rank_thread {
    comm *c;
    rank_work work;
    void *with;
    pthread_t thread;
} rank_thread;

static inline void *rank_thread_run(void *with)
{
    rank_thread *t = with;
    kernels_threads(1);
    t->work(t->c, t->with);
    comm_close(t->c);
    return NULL;
}

static inline status ranks_run(int n, rank_work work, void *with, error *err)
{
    comm *all[TEST_RANKS_MAX];
    rank_thread threads[TEST_RANKS_MAX];
    status s = comm_open_threads(all, n, err);
    if (s) return s;
    for (int i = 0; i < n; i++) {
        threads[i] = (rank_thread){.c = all[i], .work = work, .with = with};
        if (pthread_create(&threads[i].thread, NULL, rank_thread_run, &threads[i]) != 0) abort();
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i].thread, NULL);
    return OK;
}

#endif
