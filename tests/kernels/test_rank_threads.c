/* test_rank_threads.c - ranks that are threads of one process: each runs kernels, with a workspace
 * and helping threads of its own, and gets the bits that it gets alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/rows.h"
#include "kernels/harness.c"

enum { RANKS = 3, THREADS = 2, TIMES = 20, OUTPUTS = 3 };

typedef struct rank {
    test_case c;
    kernel_run run;
    void *room; /* the workspace */
    size_t bytes;
    void *alone[OUTPUTS];
    pthread_barrier_t *start;
    pthread_t id;
    bool same;
} rank;

static void head_loss_init(test_case *c, int r)
{
    const int64_t t = 70, h = 64, v = 500 + 100 * r;
    case_init(c, OP_HEAD_LOSS, F32, (int64_t[]){t, h, v, 30}, 4);
    case_reals(c, &c->in[0], t * h);
    case_reals(c, &c->in[1], v * h);
    case_ids(c, &c->in[2], t, 0, (int)v);
    case_reals(c, &c->out[0], 2);
    case_reals(c, &c->out[1], t * h);
    case_reals(c, &c->out[2], v * h);
}

static void attention_init(test_case *c, int r)
{
    const int64_t s = 200 + 10 * r, n = 4, d = 32;
    case_init(c, OP_ATTN, F32, (int64_t[]){1, s, n, n, d, d, 0}, 7);
    c->o.real[0] = 0.3;
    for (int i = 0; i < 3; i++) case_reals(c, &c->in[i], s * n * d);
    case_reals(c, &c->out[0], s * n * d);
    case_reals(c, &c->out[1], s * n);
}

/* Runs it alone, in this thread. */
static void rank_init(rank *k, int r, void (*init)(test_case *c, int r), pthread_barrier_t *start)
{
    int n;
    const kernel *table = kernels_cpu(&n);
    *k = (rank){.start = start};
    init(&k->c, r);
    k->run = kernel_pick(table, n, &k->c.o, NULL, false)->run;
    k->bytes = kernel_workspace_bytes(&k->c.o);
    k->room = take(k->bytes);
    kernels_workspace(k->room, k->bytes);
    case_run(&k->c, k->run);
    for (int i = 0; i < OUTPUTS; i++) {
        if (!k->c.out[i].data) continue;
        k->alone[i] = take(tensor_bytes(&k->c.out[i]));
        memcpy(k->alone[i], k->c.out[i].data, tensor_bytes(&k->c.out[i]));
    }
}

static void *rank_run(void *what)
{
    rank *k = what;
    kernels_threads(THREADS);
    kernels_workspace(k->room, k->bytes);
    pthread_barrier_wait(k->start); /* all have lent before any runs */
    k->same = true;
    for (int time = 0; time < TIMES; time++) {
        case_run(&k->c, k->run);
        for (int i = 0; i < OUTPUTS; i++)
            k->same &=
                !k->alone[i] || !memcmp(k->alone[i], k->c.out[i].data, tensor_bytes(&k->c.out[i]));
    }
    return NULL;
}

static void rank_release(rank *k)
{
    for (int i = 0; i < OUTPUTS; i++) free(k->alone[i]);
    free(k->room);
    case_release(&k->c);
}

static void check(void (*init)(test_case *c, int r))
{
    rank all[RANKS];
    pthread_barrier_t start;
    kernels_threads(THREADS);
    assert_int_equal(pthread_barrier_init(&start, NULL, RANKS), 0);
    for (int r = 0; r < RANKS; r++) rank_init(&all[r], r, init, &start);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&all[r].id, NULL, rank_run, &all[r]), 0);
    for (int r = 0; r < RANKS; r++) {
        pthread_join(all[r].id, NULL);
        assert_true(all[r].same);
    }
    for (int r = 0; r < RANKS; r++) rank_release(&all[r]);
    pthread_barrier_destroy(&start);
    kernels_workspace(NULL, 0);
}

static void head_and_loss_in_workspaces_of_their_own(void **state)
{
    (void)state;
    check(head_loss_init);
}

static void attention_at_the_same_time(void **state)
{
    (void)state;
    check(attention_init);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_and_loss_in_workspaces_of_their_own),
        cmocka_unit_test(attention_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
