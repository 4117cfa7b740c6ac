/* deltas.h - tests/data/published/deltas.csv: published differences between two runs, and ours.
 *
 * A row names a base (a recipe's file or a preset model, then overrides), what is set before and
 * after, and what is compared: speed (% of tokens a second), time (% of the step), tflops (%),
 * seconds (of the step), GB (allocated on the fullest rank, 10^9 bytes), "GiB of rank 2" (of that
 * pipeline rank). With the base "published" before and after are ids of published.csv. */
#ifndef TESTS_PREDICT_DELTAS_H
#define TESTS_PREDICT_DELTAS_H

#include "config/models/models.h"
#include "predict/audit/audit.h"
#include "predict/price.h"
#include "predict/published.h"

#define DELTAS_CSV    "tests/data/published/deltas.csv"
#define DELTAS_SOURCE "tests/data/published/published.csv"

/* One of the two runs. */
typedef struct delta_end {
    price p;
    int64_t rank2; /* bytes of pipeline rank 2; 0: there is none */
} delta_end;

/* "NAME override override ...": a recipe with model_fill behind it. */
static inline status words_recipe(recipe *r, const char *words, arena *a, error *err)
{
    char *rest = NULL, *copy = arena_copy(a, words, strlen(words));
    char *name = strtok_r(copy, " ", &rest);
    recipe_init(r, a, name);
    status st = OK;
    if (strstr(name, ".yaml"))
        st = recipe_read_yaml(r, name, err);
    else
        recipe_set(r, K_MODEL, value_of_text(name), "test");
    for (char *w = strtok_r(NULL, " ", &rest); w && !st; w = strtok_r(NULL, " ", &rest))
        st = recipe_override(r, w, name, err);
    return st ? st : model_fill(r, err);
}

static inline status price_words(delta_end *out, const setup *s, const char *stack, arena *a,
                                 error *err)
{
    const char *why_not = audit_why_not(s, a);
    if (why_not) return error_set(err, ERR_RULE, "%s: %s", s->r.name, why_not);
    hardware *hw = ARENA_NEW(a, hardware);
    status st = hardware_read(hw, recipe_word(&s->r, K_GPU), a, err);
    if (st) return st;
    price_setup(&out->p, s, hw, &(price_options){.stack = stack}, a);
    out->p.evidence = NULL;
    out->rank2 = 0;
    if (s->pipe.pp <= 2) return OK;
    program *p = ARENA_NEW(a, program);
    program_build(p, s, layout_stage_rank(&s->lay, 2), a);
    out->rank2 = p->arena_bytes;
    return OK;
}

static inline status delta_of_words(delta_end *out, const char *base, const char *words, arena *a,
                                    error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    status st = words_recipe(r, arena_text(a, "%s %s", base, words), a, err);
    if (!st) st = setup_init(s, r, a, err);
    return st ? st : price_words(out, s, NULL, a, err);
}

static inline status delta_of_id(delta_end *out, const csv *rows, const char *id, arena *a,
                                 error *err)
{
    int row = csv_find(rows, id);
    if (row < 0) return error_set(err, ERR_INPUT, "%s: no such id", id);
    published p;
    violations broken;
    setup *s = ARENA_NEW(a, setup);
    published_recipe(&p, rows, row, a);
    if (p.why_not) return error_set(err, ERR_INPUT, "%s: %s", id, p.why_not);
    status st = published_setup(&p, s, &broken, err);
    return st ? st : price_words(out, s, published_stack(&p), a, err);
}

static inline status delta_end_of(delta_end *out, const csv *rows, const char *base,
                                  const char *words, arena *a, error *err)
{
    arena_place mark = arena_mark(a);
    status st = strcmp(base, "published") == 0 ? delta_of_id(out, rows, words, a, err)
                                               : delta_of_words(out, base, words, a, err);
    arena_release(a, mark);
    return st;
}

static inline double delta_percent(double before, double after)
{
    return 100 * (after / before - 1);
}

static inline double delta_between(const char *metric, const delta_end *x, const delta_end *y)
{
    if (!strcmp(metric, "speed"))
        return delta_percent(x->p.tokens_per_s_per_gpu, y->p.tokens_per_s_per_gpu);
    if (!strcmp(metric, "tflops")) return delta_percent(x->p.tflops_per_gpu, y->p.tflops_per_gpu);
    if (!strcmp(metric, "time")) return delta_percent(x->p.step_s, y->p.step_s);
    if (!strcmp(metric, "seconds")) return y->p.step_s - x->p.step_s;
    if (!strcmp(metric, "GB")) return (double)(y->p.memory.allocated - x->p.memory.allocated) / 1e9;
    return (double)(y->rank2 - x->rank2) / 1073741824.0;
}

/* What we predict for a row, in the metric's unit. `last` keeps the row's ends for the next one,
 * which often has the same. */
typedef struct delta_memo {
    const char *base, *before, *after;
    delta_end x, y;
} delta_memo;

static inline status delta_predict(double *out, delta_memo *m, const csv *t, int row,
                                   const csv *rows, arena *a, error *err)
{
    const char *base = csv_cell(t, row, "base"), *before = csv_cell(t, row, "before");
    const char *after = csv_cell(t, row, "after");
    bool same = m->base && !strcmp(m->base, base);
    status st = OK;
    if (!same || strcmp(m->before, before) != 0)
        st = delta_end_of(&m->x, rows, base, before, a, err);
    if (!st && (!same || strcmp(m->after, after) != 0))
        st = delta_end_of(&m->y, rows, base, after, a, err);
    m->base = st ? NULL : base;
    m->before = before;
    m->after = after;
    if (!st) *out = delta_between(csv_cell(t, row, "metric"), &m->x, &m->y);
    return st;
}

#endif
