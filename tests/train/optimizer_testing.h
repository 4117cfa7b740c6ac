/* optimizer_testing.h - a model's weights with an optimizer and arrays, for its tests. */
#ifndef TESTS_TRAIN_OPTIMIZER_TESTING_H
#define TESTS_TRAIN_OPTIMIZER_TESTING_H

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "config/models/models.h"
#include "train/executor/optimizer.h"
#include "train/executor/owned.h"
#include "train/executor/part_map.h"

#define GOLDEN  "moefold.model=tests/data/golden/"
#define SMALL   GOLDEN "qwen3-moe-tiny"
#define NO_CLIP " optimizer.clip_grad=0"

static arena *scratch;

static inline int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

#define F32(p) ((typed){DTYPE_F32, p})
#define ARRAYS(d)                                                                                  \
    (&(update_arrays){.weights = F32((d).w),                                                       \
                      .gradients = F32((d).g),                                                     \
                      .first = F32((d).m),                                                         \
                      .second = F32((d).v)})

/* A model's weights with an optimizer, and arrays of numbers. */
typedef struct made {
    setup s;
    weight_list list;
    optimizer o;
    int64_t n;
    float *w, *g, *m, *v;
} made;

static inline float *numbers(const char *name, int64_t n, double deviation)
{
    float *x = ARENA_ARRAY(scratch, float, n);
    philox g = philox_stream(1, philox_id(name));
    philox_normal(&g, 0, n, deviation, x);
    return x;
}

static inline void set_up_words(setup *s, const char *overrides)
{
    recipe r;
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    status st = OK;
    for (char *word = strtok_r(text, " ", &rest); word && !st; word = strtok_r(NULL, " ", &rest))
        st = recipe_override(&r, word, "test", &err);
    if (!st) st = model_fill(&r, &err);
    if (!st) st = setup_init(s, &r, scratch, &err);
    if (st) fail_msg("%s", err.text);
}

static inline made make(const char *overrides, decay_rule rule)
{
    made d = {0};
    set_up_words(&d.s, overrides);
    weight_list_init(&d.list, &d.s, scratch);
    program whole = {.s = &d.s, .weights = d.list};
    optimizer_init(&d.o, &whole, rule, scratch);
    d.n = d.list.elements;
    d.w = numbers("weights", d.n, 0.02);
    d.g = numbers("gradients", d.n, 0.001);
    d.m = ARENA_ARRAY(scratch, float, d.n);
    d.v = ARENA_ARRAY(scratch, float, d.n);
    return d;
}

static inline float *copied(const float *x, int64_t n)
{
    float *y = ARENA_ARRAY(scratch, float, n);
    memcpy(y, x, sizeof *x * (size_t)n);
    return y;
}

static inline bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

/* Untrained elements and padding hold what must neither be read nor written. */
static inline void poison_gaps(made *d)
{
    bool *used = ARENA_ARRAY(scratch, bool, d->n), *moments = ARENA_ARRAY(scratch, bool, d->n);
    for (int i = 0; i < d->list.n; i++) {
        const weight *w = &d->list.list[i];
        if (!w->row->trained) continue;
        memset(used + w->offset, 1, (size_t)w->n);
        memset(moments + owned_moments(&d->list, w, 0), 1, (size_t)w->n);
    }
    for (int64_t i = 0; i < d->n; i++) {
        if (!used[i]) d->w[i] = d->g[i] = (float)NAN;
        if (!moments[i]) d->m[i] = d->v[i] = (float)NAN;
    }
}

static inline double plain_norm(const made *d, double scale)
{
    double sum = 0;
    for (int i = 0; i < d->list.n; i++)
        for (int64_t j = 0; j < d->list.list[i].n && d->list.list[i].row->trained; j++)
            sum += pow(scale * (double)d->g[d->list.list[i].offset + j], 2);
    return sqrt(sum);
}

static inline bool is_table_or_head(const param *row)
{
    return strcmp(row->name, "embedding.word_embeddings.weight") == 0 ||
           strcmp(row->name, "output_layer.weight") == 0;
}

#endif
