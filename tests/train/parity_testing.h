/* parity_testing.h - a reference case on one rank or several, compared with what transformers
 * computed. */
#ifndef TESTS_TRAIN_PARITY_TESTING_H
#define TESTS_TRAIN_PARITY_TESTING_H

#include "../ir/testing.h"

#include <stdio.h>

#include "config/models/models.h"
#include "train/parity/parity.h"
#include "ranks_testing.h"

typedef struct parity_case {
    const char *folder, *words; /* overrides with spaces between them */
    parity_options o;
    parity_result result[TEST_RANKS_MAX]; /* by rank */
    status s[TEST_RANKS_MAX];
    error err[TEST_RANKS_MAX];
    char worst[TEST_RANKS_MAX][256];
} parity_case;

/* Runs the case on one rank; the recipe is this rank's own. */
static inline void run_case(comm *c, void *with)
{
    parity_case *q = with;
    int64_t rank = c ? comm_rank(c) : 0;
    error *err = &q->err[rank];
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, q->folder);
    setup *built = ARENA_NEW(a, setup);
    parity_fixed fixed;
    status s = parity_fixes(&fixed, q->folder, a, err);
    recipe_set(r, K_MODEL, value_of_text(q->folder), "reference case");
    for (int i = 0; i < fixed.n && !s; i++) s = recipe_override(r, fixed.list[i], "test", err);
    for (const char *w = q->words; *w && !s;) {
        size_t n = strcspn(w, " ");
        if (n) s = recipe_override(r, arena_copy(a, w, n), "test", err);
        w += n + strspn(w + n, " ");
    }
    if (!s) s = model_fill(r, err);
    if (!s) s = setup_init(built, r, a, err);
    parity_options o = q->o;
    o.folder = q->folder;
    if (!s) s = parity_run(&q->result[rank], built, a, &o, c, err);
    const char *worst = q->result[rank].grad_worst;
    snprintf(q->worst[rank], sizeof q->worst[rank], "%s", worst ? worst : "-");
    q->s[rank] = s;
    if (c && !s) comm_barrier(c, GROUP_WORLD); /* nobody needs this arena any more */
    arena_destroy(a);
}

static inline void assert_agrees(const parity_case *q, int rank)
{
    const parity_result *r = &q->result[rank];
    if (q->s[rank]) fail_msg("%s %s: %s", q->folder, q->words, q->err[rank].text);
    if (!r->ok)
        fail_msg("%s %s, rank %d: loss %g logits %g gradients %g (%s) curve %g", q->folder,
                 q->words, rank, r->loss_rel_err, r->logits_rel_err, r->grad_rel_err_max,
                 q->worst[rank], r->curve_rel_err_max);
    assert_true(r->n_gradients > 20);
    assert_true(r->logits_rel_err > 0 && r->arena_bytes > 0);
}

static inline void agrees(const char *folder, const char *words, bool plain, int steps)
{
    parity_case q = {.folder = folder, .words = words, .o = {.plain = plain, .max_steps = steps}};
    run_case(NULL, &q);
    assert_agrees(&q, 0);
}

/* On one rank: by fast kernels, by plain ones in smaller microbatches, and with full recompute,
 * which brings the same gradients. */
static inline void cases_agree(const char *const *folders, int n)
{
    for (int i = 0; i < n; i++) {
        agrees(folders[i], "", false, 0);
        agrees(folders[i], "train.micro_batch_size=2", true, 2);
        agrees(folders[i],
               "model.recompute_granularity=full model.recompute_method=uniform "
               "model.recompute_num_layers=1",
               false, 2);
    }
}

/* The case must not agree with this changed: what it is there for would not be tested. */
static inline void needs(const char *folder, const char *words)
{
    parity_case q = {.folder = folder, .words = words, .o = {.max_steps = 1}};
    run_case(NULL, &q);
    if (q.s[0]) fail_msg("%s %s: %s", folder, words, q.err[0].text);
    if (q.result[0].ok) fail_msg("%s agrees with %s, too", folder, words);
}

/* Every rank has the same result. */
static inline void agrees_on(int ranks, const char *folder, const char *words)
{
    parity_case *q = calloc(1, sizeof *q);
    error err = {{0}};
    *q = (parity_case){.folder = folder, .words = words, .o = {.max_steps = 3}};
    if (ranks_run(ranks, run_case, q, &err)) fail_msg("%s", err.text);
    for (int r = 0; r < ranks; r++) {
        assert_agrees(q, r);
        assert_true(q->result[r].loss == q->result[0].loss);
        assert_true(q->result[r].grad_rel_err_max == q->result[0].grad_rel_err_max);
    }
    free(q);
}

#define TP2  "model.tensor_model_parallel_size=2 "
#define CP2  "model.context_parallel_size=2 "
#define PP2  "model.pipeline_model_parallel_size=2 "
#define EP2  "model.expert_model_parallel_size=2 "
#define EP4  "model.expert_model_parallel_size=4 "
#define ETP1 "model.expert_tensor_parallel_size=1 "
#define N(n) "cluster.gpus_per_node=" #n " cluster.n_gpus=" #n " "

#endif
