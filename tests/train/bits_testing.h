/* bits_testing.h - the arrays that ranks of a layout end with, to be compared with another's. */
#ifndef TESTS_TRAIN_BITS_TESTING_H
#define TESTS_TRAIN_BITS_TESTING_H

#include <stdlib.h>
#include <string.h>

#include "train/layout_rig.h"
#include "train/rig_threads.h"

/* What a rank has computed. */
typedef struct bits {
    rank_rig g;
    char *gradients, *weights; /* of the first step; after all */
    int64_t n_gradients, n_weights, host;
} bits;

static inline char *copy_region(const rank_rig *g, region r)
{
    char *out = malloc((size_t)g->p.bytes[r] + 1);
    executor_read(g->e, out, g->p.offset[r], g->p.bytes[r]);
    return out;
}

static inline void *bits_main(void *with)
{
    bits *b = with;
    rank_rig *g = &b->g;
    rig_open(g);
    for (int step = 0; step < RIG_STEPS; step++) {
        run_step(g, step);
        if (step == 0) b->gradients = copy_region(g, REGION_GRADIENTS);
        update(g);
    }
    b->weights = copy_region(g, REGION_WEIGHTS);
    b->n_gradients = g->p.bytes[REGION_GRADIENTS];
    b->n_weights = g->p.bytes[REGION_WEIGHTS];
    b->host = g->p.host_bytes;
    rig_close(g);
    return NULL;
}

static inline int run_bits(bits *list, const char *folder, const char *words)
{
    for (int i = 0; i < RIG_RANKS_MAX; i++) list[i] = (bits){.n_weights = 0};
    return rig_run(list, sizeof *list, folder, words, bits_main);
}

/* Gradients of the first step, weights and losses of all, to the bit. */
static inline bool same_bits(const bits *x, const bits *y)
{
    return x->n_gradients == y->n_gradients && x->n_weights == y->n_weights &&
           !memcmp(x->gradients, y->gradients, (size_t)y->n_gradients) &&
           !memcmp(x->weights, y->weights, (size_t)y->n_weights) &&
           !memcmp(x->g.loss, y->g.loss, sizeof y->g.loss);
}

static inline void free_bits(bits *list, int n)
{
    for (int i = 0; i < n; i++) free(list[i].gradients), free(list[i].weights);
}

#endif
