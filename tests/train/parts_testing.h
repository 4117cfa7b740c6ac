/* parts_testing.h - a layout whose ranks are threads, each with its weights, and what every element
 * of theirs is in the whole model. That is worked out here from weight_boxes, element by element:
 * none of the code under test does it. */
#ifndef TESTS_TRAIN_PARTS_TESTING_H
#define TESTS_TRAIN_PARTS_TESTING_H

#include "hf_testing.h"

#include <pthread.h>

#include "base/philox.h"
#include "backend/comm/comm.h"

typedef struct ranks ranks;

typedef struct one_rank {
    ranks *all;
    rank_at at;
    comm *c;
    arena *a;
    weight_list w;
    uint64_t *id;   /* [w.elements] of the element of the model; 0: padding */
    int64_t *whole; /* [w.elements] its place in the array of the whole model; -1: padding */
    float *values, *first, *second;
    bool joined;
    status s;
    error err;
    char wrong[256]; /* what a thread found; threads cannot fail a test */
    pthread_t thread;
} one_rank;

struct ranks {
    loaded x; /* setup and whole model */
    int n;
    one_rank *list;
    void (*work)(one_rank *r);
    const char *folder;
    int64_t iteration;
    int salt; /* other values with another */
};

/* ---- what an element is */

enum { PADS = 2 }; /* the id of a row that pads the vocabulary: not every layout has as many */

static inline void name_element(one_rank *r, const weight *w, uint64_t name, const int64_t whole[3],
                                const int64_t part[3])
{
    const int64_t *of = w->row->dim, *dim = w->dim;
    int64_t g = 0, l = 0;
    for (int i = 0; i < w->row->n_dims; i++) {
        g = g * of[i] + whole[i];
        l = l * dim[i] + part[i];
    }
    assert_true(l < w->n && r->id[w->offset + l] == 0);
    bool pads = w->row->kind == PARAM_EMBEDDING && whole[0] >= r->all->x.s->m.vocab;
    r->id[w->offset + l] = pads ? PADS : (name ^ ((uint64_t)g * 0x9e3779b97f4a7c15u)) | 1;
    r->whole[w->offset + l] = g;
}

static inline void name_box(one_rank *r, const weight *w, const weight_box *b)
{
    uint64_t name = philox_id(weight_name(r->a, r->all->x.s, w));
    int64_t dim[3] = {1, 1, 1};
    for (int i = 0; i < w->row->n_dims; i++) dim[i] = b->dim[i];
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            for (int64_t k = 0; k < dim[2]; k++)
                name_element(r, w, name, (int64_t[]){b->at[0] + i, b->at[1] + j, b->at[2] + k},
                             (int64_t[]){b->local[0] + i, b->local[1] + j, b->local[2] + k});
}

static inline void name_weight(one_rank *r, const weight *w)
{
    weight_box boxes[PARAM_SECTIONS_MAX];
    int n = weight_boxes(boxes, r->all->x.s, &r->at, w);
    for (int k = 0; k < n; k++) name_box(r, w, &boxes[k]);
    int64_t offset = weight_find(&r->all->x.w, w->row, w->layer, -1)->offset;
    for (int64_t k = w->offset; k < w->offset + w->n; k++) {
        if (r->id[k] == 0)
            fail_msg("rank %d: %s is not made of its boxes", (int)r->at.rank,
                     weight_name(r->a, r->all->x.s, w));
        r->whole[k] += offset;
    }
}

static inline void name_elements(one_rank *r)
{
    r->id = ARENA_ARRAY(r->a, uint64_t, r->w.elements);
    r->whole = ARENA_ARRAY(r->a, int64_t, r->w.elements);
    for (int64_t i = 0; i < r->w.elements; i++) r->whole[i] = -1;
    for (int i = 0; i < r->w.n; i++) name_weight(r, &r->w.list[i]);
}

/* A value of an element, another for each array; from 1 to 2. */
static inline float value_of(uint64_t id, int array)
{
    uint64_t h = (id + (uint64_t)array) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return 1.0f + (float)(h >> 41) / 8388608.0f;
}

/* ---- arrays of a rank */

#define UNTOUCHED (-7.0f)

static inline void rank_arrays(one_rank *r)
{
    r->values = ARENA_ARRAY(r->a, float, r->w.elements);
    r->first = ARENA_ARRAY(r->a, float, r->w.owned);
    r->second = ARENA_ARRAY(r->a, float, r->w.owned);
    for (int64_t i = 0; i < r->w.elements; i++) r->values[i] = UNTOUCHED;
    for (int64_t i = 0; i < r->w.owned; i++) r->first[i] = r->second[i] = UNTOUCHED;
}

/* Sets an element where `check` is false; else says what differs. */
static inline void see_value(one_rank *r, float *at, uint64_t id, int array, bool check)
{
    float right = id ? value_of(id, 3 * r->all->salt + array) : UNTOUCHED;
    if (!check)
        *at = right;
    else if (*at != right && id != PADS)
        snprintf(r->wrong, sizeof r->wrong, "rank %d: array %d has %g for %g", (int)r->at.rank,
                 array, (double)*at, (double)right);
}

static inline void see_arrays(one_rank *r, bool check)
{
    for (int64_t i = 0; i < r->w.elements; i++) see_value(r, &r->values[i], r->id[i], 0, check);
    for (int b = 0; b < r->w.n_buckets; b++) {
        const bucket *k = &r->w.buckets[b];
        for (int64_t i = 0; i < bucket_slice(k); i++) {
            uint64_t id = r->id[bucket_slice_start(k) + i];
            see_value(r, &r->first[k->moments + i], id, 1, check);
            see_value(r, &r->second[k->moments + i], id, 2, check);
        }
    }
}

/* ---- all ranks */

/* `name`: a folder or NULL; `cut`: overrides that say how many ranks there are. */
static inline void ranks_init(ranks *all, const char *name, const char *more, const char *cut)
{
    char overrides[1024];
    snprintf(overrides, sizeof overrides, "%s %s", more, cut);
    *all = (ranks){0};
    loaded_init(&all->x, name, overrides + strspn(overrides, " "));
    if (!all->x.s->possible || all->x.s->pipe.why_not) fail_msg("%s: no such layout", cut);
    all->n = (int)all->x.s->lay.world;
    all->list = ARENA_ARRAY(all->x.a, one_rank, all->n);
    comm **c = ARENA_ARRAY(all->x.a, comm *, all->n);
    if (comm_open_threads(c, all->n, &all->x.err)) fail_msg("%s", all->x.err.text);
    for (int i = 0; i < all->n; i++) {
        one_rank *r = &all->list[i];
        *r = (one_rank){.all = all, .at = rank_coordinates(&all->x.s->lay, i), .c = c[i]};
        r->a = arena_create();
        weight_list_rank(&r->w, all->x.s, &r->at, r->a);
        name_elements(r);
        rank_arrays(r);
    }
}

static inline void *ranks_thread(void *with)
{
    one_rank *r = with;
    r->all->work(r);
    return NULL;
}

/* Runs `work` on all ranks at once and waits. */
static inline void ranks_run(ranks *all, void (*work)(one_rank *r))
{
    all->work = work;
    for (int i = 0; i < all->n; i++) {
        one_rank *r = &all->list[i];
        assert_int_equal(pthread_create(&r->thread, NULL, ranks_thread, r), 0);
    }
    for (int i = 0; i < all->n; i++) pthread_join(all->list[i].thread, NULL);
    for (int i = 0; i < all->n; i++)
        if (all->list[i].wrong[0]) fail_msg("%s", all->list[i].wrong);
}

/* Before the first message; once. */
static inline void ranks_join(one_rank *r)
{
    if (r->joined) return;
    r->joined = true;
    r->s = comm_groups(r->c, r->all->x.s, &r->err);
    if (r->s) snprintf(r->wrong, sizeof r->wrong, "%.200s", r->err.text);
}

static inline void ranks_leave(one_rank *r)
{
    comm_close(r->c);
}

static inline void ranks_release(ranks *all)
{
    ranks_run(all, ranks_leave);
    for (int i = 0; i < all->n; i++) arena_destroy(all->list[i].a);
    loaded_release(&all->x);
}

/* ---- layouts */

#define TP(n)     " model.tensor_model_parallel_size=" #n
#define CP(n)     " model.context_parallel_size=" #n
#define PP(n)     " model.pipeline_model_parallel_size=" #n
#define VPP(n)    " model.virtual_pipeline_model_parallel_size=" #n
#define EP(n)     " model.expert_model_parallel_size=" #n
#define ETP(n)    " model.expert_tensor_parallel_size=" #n
#define RANKS(n)  " cluster.n_gpus=" #n
#define UNSHARDED " ddp.use_distributed_optimizer=false"
#define BUCKETS   " ddp.overlap_grad_reduce=true ddp.bucket_size=5000"

/* Every dimension, alone and folded. */
static const char *const layouts[] = {
    RANKS(16) TP(2) CP(2) EP(4) PP(2) ETP(1) BUCKETS,
    RANKS(1),
    RANKS(2) TP(2),
    RANKS(2) EP(2) BUCKETS,
    RANKS(4) PP(2) VPP(2) UNSHARDED,
    RANKS(4) CP(2) EP(4),
    RANKS(8) TP(2) EP(2) ETP(2) BUCKETS,
    RANKS(8) TP(2) PP(4) UNSHARDED,
    RANKS(8) TP(2) EP(8) ETP(1),
    RANKS(8) PP(2) EP(2) " ddp.num_distributed_optimizer_instances=2",
    RANKS(3) BUCKETS,
    RANKS(8) EP(2) ETP(2) PP(2),
    RANKS(12) PP(4) EP(3) UNSHARDED,
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

#endif
