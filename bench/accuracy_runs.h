/* accuracy_runs.h - every published speed of a model that we know, for bands.def: also of
 * runs whose layout nobody printed, which cannot be priced. */
#ifndef BENCH_ACCURACY_RUNS_H
#define BENCH_ACCURACY_RUNS_H

#include "config/models/models.h"
#include "accuracy_rows.h"
#include "predict/bands.h"

enum { RUNS_MAX = 512 };

typedef struct run_list {
    band_run list[RUNS_MAX];
    model_shape shape[RUNS_MAX];
    int n;
} run_list;

/* The job without its layout; false: there is none, or no speed. DeepSeek's own run (DSR) trained
 * on data, with routing as it came. */
static inline bool run_of_row(band_run *out, model_shape *shape, const csv *t, int row, arena *a)
{
    published p = {.t = t, .row = row, .a = a};
    const published_name *known = published_known(published_cell(&p, "model"));
    const char *chip = published_cell(&p, "gpu");
    if (!known || !band_family(chip) || !row_reports_speed(t, row)) return false;
    published_model(&p, known);
    published_set(&p, arena_text(a, "cluster.gpu=%s", chip));
    published_size(&p, "n_gpus", "cluster.n_gpus", 0);
    published_size(&p, "gbs", "train.global_batch_size", 0);
    published_precision(&p);
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err;
    recipe_init(r, a, "run");
    for (int i = 0; i < p.n && !p.why_not; i++)
        if (recipe_override(r, p.overrides[i], "run", &err)) return false;
    if (p.why_not || model_fill(r, &err) || setup_init(s, r, a, &err)) return false;
    *shape = model_shape_of(&s->m);
    *out = (band_run){.id = published_cell(&p, "id"),
                      .gpu = chip,
                      .name = known->preset,
                      .seq = recipe_int(&s->r, K_SEQ),
                      .n_gpus = csv_int(t, row, "n_gpus", 0),
                      .precision = band_precision(&s->j),
                      .natural = published_is_natural(&p) || published_from(&p, "DSR"),
                      .tokens = published_tokens(&p, s)};
    bool counted = csv_int(t, row, "n_gpus", 0) > 0 && csv_int(t, row, "gbs", 0) > 0;
    return out->tokens > 0 && (counted || !row_reports(t, row, "step_time_s"));
}

static inline bool run_same_job(const band_run *x, const band_run *y)
{
    return !strcmp(x->gpu, y->gpu) && !strcmp(x->name, y->name) && x->seq == y->seq &&
           x->n_gpus == y->n_gpus && !strcmp(x->precision, y->precision) &&
           x->natural == y->natural;
}

/* The fastest of each job. */
static inline void runs_of(run_list *out, const csv *t, arena *a)
{
    out->n = 0;
    for (int row = 0; row < t->n_rows; row++) {
        band_run run;
        model_shape shape;
        if (!run_of_row(&run, &shape, t, row, a)) continue;
        int at = 0;
        while (at < out->n && !run_same_job(&out->list[at], &run)) at++;
        if (at == RUNS_MAX || (at < out->n && out->list[at].tokens >= run.tokens)) continue;
        out->list[at] = run;
        out->shape[at] = shape;
        if (at == out->n) out->n++;
    }
}

/* Several metrics and dates of one run differ by roundings: one that was priced stands for all. */
static inline void runs_named_as_priced(run_list *l, const judging *b)
{
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (j->list == LIST_MEMORY || j->refused || !(j->tokens > 0)) continue;
        band_run x = {.id = j->id,
                      .gpu = j->gpu,
                      .name = j->model,
                      .seq = recipe_int(&j->s->r, K_SEQ),
                      .n_gpus = recipe_int(&j->s->r, K_N_GPUS),
                      .precision = band_precision(&j->s->j),
                      .natural = j->list == LIST_NATURAL,
                      .tokens = j->tokens};
        for (int k = 0; k < l->n; k++)
            if (run_same_job(&l->list[k], &x) && x.tokens > 0.97 * l->list[k].tokens)
                l->list[k] = x;
    }
}

/* The shapes of the models that runs are of, each once. */
static inline void print_shapes(const run_list *l)
{
    for (int i = 0; i < l->n; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first = first && strcmp(l->list[k].name, l->list[i].name) != 0;
        if (!first) continue;
        printf("MODEL(\"%s\", \"%s\",\n    SIZES(", l->list[i].name, l->shape[i].family);
        for (int k = 0; k < MODEL_SHAPE; k++)
            printf("%s%" PRId64, k ? ", " : "", l->shape[i].size[k]);
        printf("))\n");
    }
}

static inline void print_runs(const run_list *l)
{
    for (int i = 0; i < l->n; i++) {
        const band_run *x = &l->list[i];
        printf("RUN(\"%s\",\n    \"%s\", \"%s\", %" PRId64 ", %" PRId64 ", \"%s\", %s, %.0f)\n",
               x->id, x->gpu, x->name, x->seq, x->n_gpus, x->precision,
               x->natural ? "true" : "false", x->tokens);
    }
}

#endif
