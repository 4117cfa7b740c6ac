/* accuracy_winners.h - what `plan` finds for the jobs of published runs, beside the fastest of
 * those.
 *
 * A job is a model, a GPU, their number and a precision at 4K; its batch, number formats and
 * container generation are those of its fastest published run. Routing is balanced, and features
 * that published runs have are searched: what `plan` does unless told otherwise. */
#ifndef BENCH_ACCURACY_WINNERS_H
#define BENCH_ACCURACY_WINNERS_H

#include "accuracy_parts.h"
#include "accuracy_stats.h"
#include "base/clock.h"
#include "predict/bands.h"
#include "config/models/models.h"
#include "plan/search.h"

static const double WINNER_SECONDS = 30;

static inline bool winner_counts(const judged *j)
{
    return j->list != LIST_MEMORY && !j->refused && j->tokens > 0 &&
           recipe_int(&j->s->r, K_SEQ) == 4096 && strcmp(j->source, "GBO") != 0;
}

static inline bool winner_job(const judged *j)
{
    return winner_counts(j) && j->list != LIST_NATURAL;
}

/* Sources write one precision in several ways. */
static inline const char *winner_precision(const judged *j)
{
    return band_traits_of(j->s).feature[BAND_PRECISION];
}

static inline bool winner_same(const judged *x, const judged *y)
{
    return !strcmp(x->model, y->model) && !strcmp(x->gpu, y->gpu) &&
           recipe_int(&x->s->r, K_N_GPUS) == recipe_int(&y->s->r, K_N_GPUS) &&
           !strcmp(winner_precision(x), winner_precision(y));
}

/* The fastest run of its job? */
static inline bool winner_best(const judging *b, int i)
{
    const judged *j = &b->rows[i];
    if (!winner_job(j)) return false;
    for (int k = 0; k < b->n_rows; k++)
        if (k != i && winner_job(&b->rows[k]) && winner_same(j, &b->rows[k]) &&
            (b->rows[k].tokens > j->tokens || (b->rows[k].tokens == j->tokens && k < i)))
            return false;
    return true;
}

/* Of all that was published of this model on this GPU at 4K, however many, however precise and
 * however balanced. */
static inline double winner_fastest(const judging *b, const judged *j)
{
    double most = 0;
    for (int k = 0; k < b->n_rows; k++) {
        const judged *x = &b->rows[k];
        bool same = winner_counts(x) && !strcmp(x->model, j->model) && !strcmp(x->gpu, j->gpu);
        if (same && x->tokens > most) most = x->tokens;
    }
    return most;
}

/* Does a published run of the same model on as many of the same GPUs have wider numbers, and more
 * tokens a second? Then nobody would run this one. */
static inline bool winner_wider_is_faster(const judging *b, const judged *j)
{
    if (text_equal(winner_precision(j), "bf16")) return false;
    for (int k = 0; k < b->n_rows; k++) {
        const judged *x = &b->rows[k];
        if (winner_job(x) && !strcmp(x->model, j->model) && !strcmp(x->gpu, j->gpu) &&
            recipe_int(&x->s->r, K_N_GPUS) == recipe_int(&j->s->r, K_N_GPUS) &&
            text_equal(winner_precision(x), "bf16") && x->tokens > j->tokens)
            return true;
    }
    return false;
}

/* Why a job's fastest run says little about what its GPUs can do; NULL: it does. */
static inline const char *winner_untuned(const judging *b, const judged *j)
{
    band_traits t = band_traits_of(j->s);
    bool alone = text_equal(t.feature[BAND_OVERLAP], "off");
    if (alone && text_equal(t.feature[BAND_GRAPHS], "none")) return "no overlap, no graphs";
    return winner_wider_is_faster(b, j) ? "slower than in BF16" : NULL;
}

/* The job alone: what a plan decides is left open. */
static inline status winner_recipe(recipe *r, const judging *b, const judged *j, arena *a,
                                   error *err)
{
    published p = {.t = &b->t, .row = j->p.row, .a = a};
    const published_name *m = published_known(csv_cell(&b->t, j->p.row, "model"));
    published_model(&p, m);
    published_set(&p, arena_text(a, "cluster.gpu=%s", j->gpu));
    published_size(&p, "n_gpus", "cluster.n_gpus", 0);
    if (text_starts(j->gpu, "GB")) published_set(&p, "cluster.nvlink_domain=64");
    published_size(&p, "gbs", "train.global_batch_size", 0);
    published_precision(&p);
    published_habits(&p, m->preset);
    recipe_init(r, a, j->id);
    status st = OK;
    for (int i = 0; i < p.n && !st; i++) st = recipe_override(r, p.overrides[i], j->id, err);
    return st ? st : model_fill(r, err);
}

static inline status winner_of(found *out, const char **text, judging *b, const judged *j, arena *a,
                               error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_result *found_all = ARENA_NEW(a, search_result);
    status st = winner_recipe(r, b, j, a, err);
    if (st) return st;
    search_options o = {.hw = machine_of(b, j->gpu, err),
                        .prices = {.stack = j->stack},
                        .published = true,
                        .judged = true,
                        .until = clock_seconds() + WINNER_SECONDS};
    st = search_run(found_all, r, &o, a, err);
    if (!st && !found_all->n_best) st = error_set(err, ERR_RULE, "nothing published fits");
    if (st) return st;
    *out = found_all->best[0];
    *text = arena_text(b->a, "%s, recompute %s, graphs %s", choice_text(b->a, &out->c),
                       choice_modules(b->a, out->c.drop), choice_graphs(out->c.graphs));
    return OK;
}

/* The winner's dispatcher and overlap, which its text leaves out, and both steps. */
static inline void print_winner_parts(const judged *j, const found *f)
{
    static const char *const to[] = {"allgather", "alltoall", "flex"};
    static const char *const overlap[] = {"-", "shared", "wgrad", "EP", "EP delayed"};
    printf("%s, overlap %s, offload %d/4, %.1f of %.1f GiB\n", to[f->c.to], overlap[f->c.overlap],
           f->c.offload, (double)f->exact.peak_bytes / (1 << 30),
           (double)f->exact.usable / (1 << 30));
    print_parts("  published run", &j->pr);
    print_parts("  winner", &f->exact);
}

static inline void print_ratios(const char *what, numbers *x)
{
    if (!x->n) return;
    double mean = exp(numbers_mean(x));
    qsort(x->x, (size_t)x->n, sizeof x->x[0], numbers_order);
    printf("%s: geometric mean of the ratio %.2f, smallest %.2f, largest %.2f.\n\n", what, mean,
           exp(x->x[0]), exp(x->x[x->n - 1]));
}

static inline void print_winners(judging *b, bool parts)
{
    numbers ratios = {0}, others = {0}, scored = {0}, tuned = {0};
    printf("| model | GPU | n | precision | best published | tokens/s | plan's first | tokens/s | "
           "ratio | of any | its best run |\n|---|---|--:|---|---|--:|---|--:|--:|--:|---|\n");
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (!winner_best(b, i)) continue;
        arena *a = arena_create();
        error err = {{0}};
        found f;
        const char *text = NULL;
        printf("| %s | %s | %" PRId64 " | %s | %s | %.0f | ", j->model, j->gpu,
               recipe_int(&j->s->r, K_N_GPUS), winner_precision(j), j->id, j->tokens);
        if (winner_of(&f, &text, b, j, a, &err)) {
            printf("%s | - | - | - | |\n", err.text);
        } else {
            double ours = f.exact.tokens_per_s_per_gpu;
            double ratio = ours / j->tokens, other = ours / winner_fastest(b, j);
            numbers_add(&ratios, log(ratio));
            numbers_add(&others, log(other));
            const char *untuned = winner_untuned(b, j);
            if (j->list == LIST_SET) numbers_add(&scored, log(ratio));
            if (!untuned) numbers_add(&tuned, log(ratio));
            printf("%s | %.0f | %.2f | %.2f | %s |\n", text, ours, ratio, other,
                   untuned ? untuned : "");
            if (parts) print_winner_parts(j, &f);
        }
        fflush(stdout);
        arena_destroy(a);
    }
    printf("\n");
    print_ratios(arena_text(b->a, "%d jobs", ratios.n), &ratios);
    print_ratios(arena_text(b->a, "Of those, %d whose best run is in the accuracy set", scored.n),
                 &scored);
    print_ratios(arena_text(b->a,
                            "%d whose best run has EP overlap or graphs, and is not slower "
                            "than one in BF16",
                            tuned.n),
                 &tuned);
    print_ratios(
        "Against the fastest run of the same model and GPU, at any GPU count and precision",
        &others);
}

#endif
