/* accuracy_bands.h - src/predict/bands.def: errors of rows, what was run, and how wrong differences
 * are; and how well the bands that follow from it cover what was published. */
#ifndef BENCH_ACCURACY_BANDS_H
#define BENCH_ACCURACY_BANDS_H

#include "accuracy_rows.h"
#include "accuracy_runs.h"
#include "accuracy_stats.h"
#include "predict/bands.h"
#include "predict/deltas.h"
#include "ir/segment.h"

/* GBO's other rows are steps of tuning kernels and the host, most of which no recipe here tells
 * apart. */
static inline bool band_counts(const judged *j)
{
    if (j->list == LIST_OTHER && !strcmp(j->source, "GBO")) return false;
    return (j->list == LIST_SET || j->list == LIST_OTHER) && !j->refused && j->tokens > 0;
}

/* Of ours over the published time. */
static inline double band_error(const judged *j)
{
    return log(j->tokens / j->pr.tokens_per_s_per_gpu);
}

/* ---- differences */

/* Two runs of one job: model, GPUs, sequence, batch and generation of containers. */
static inline bool band_same_job(const judged *x, const judged *y)
{
    const recipe *a = &x->s->r, *b = &y->s->r;
    return !strcmp(x->model, y->model) && !strcmp(x->gpu, y->gpu) && x->stack && y->stack &&
           !strcmp(x->stack, y->stack) && !strcmp(x->source, y->source) &&
           recipe_int(a, K_N_GPUS) == recipe_int(b, K_N_GPUS) &&
           recipe_int(a, K_SEQ) == recipe_int(b, K_SEQ);
}

typedef struct band_pairs {
    numbers apart; /* sizes of errors over what the knobs that differ make of them */
    int n[32];     /* by knobs */
} band_pairs;

static inline void band_pair(band_pairs *p, const band_traits *x, const band_traits *y, double off)
{
    int n = band_differences(x, y);
    if (!n) return;
    numbers_add(&p->apart, fabs(off) / band_growth(n));
    p->n[n < 31 ? n : 31]++;
}

static inline void band_pairs_of_rows(band_pairs *p, const judging *b)
{
    for (int i = 0; i < b->n_rows; i++)
        for (int k = 0; k < i; k++) {
            const judged *x = &b->rows[i], *y = &b->rows[k];
            if (!band_counts(x) || !band_counts(y) || !band_same_job(x, y)) continue;
            band_traits tx = band_traits_of(x->s), ty = band_traits_of(y->s);
            band_pair(p, &tx, &ty, band_error(x) - band_error(y));
        }
}

/* Published differences in speed of deltas.csv. */
static inline double band_log_ratio(const char *metric, double percent)
{
    double ratio = log(1 + percent / 100);
    return strcmp(metric, "time") == 0 ? -ratio : ratio;
}

static inline status band_setup_of(setup *s, const csv *rows, const char *base, const char *words,
                                   arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    if (strcmp(base, "published") != 0) {
        status st = words_recipe(r, arena_text(a, "%s %s", base, words), a, err);
        return st ? st : setup_init(s, r, a, err);
    }
    published p;
    violations broken;
    published_recipe(&p, rows, csv_find(rows, words), a);
    return published_setup(&p, s, &broken, err);
}

static inline status band_pairs_of_deltas(band_pairs *p, const judging *b, error *err)
{
    csv t;
    status st = csv_read(&t, DELTAS_CSV, b->a, err);
    delta_memo memo = {0};
    for (int i = 0; i < t.n_rows && !st; i++) {
        const char *metric = csv_cell(&t, i, "metric"), *base = csv_cell(&t, i, "base");
        if (strcmp(metric, "speed") != 0 && strcmp(metric, "time") != 0) continue;
        double ours;
        setup *x = ARENA_NEW(b->a, setup), *y = ARENA_NEW(b->a, setup);
        st = delta_predict(&ours, &memo, &t, i, &b->t, b->a, err);
        if (!st) st = band_setup_of(x, &b->t, base, csv_cell(&t, i, "before"), b->a, err);
        if (!st) st = band_setup_of(y, &b->t, base, csv_cell(&t, i, "after"), b->a, err);
        if (st) return st;
        band_traits tx = band_traits_of(x), ty = band_traits_of(y);
        band_pair(p, &tx, &ty,
                  band_log_ratio(metric, ours) -
                      band_log_ratio(metric, csv_real(&t, i, "published")));
    }
    return st;
}

static inline double numbers_quantile(const numbers *l, double part)
{
    numbers sorted = *l;
    qsort(sorted.x, (size_t)l->n, sizeof sorted.x[0], numbers_order);
    int at = (int)ceil(part * (l->n + 1)) - 1;
    at = at < 0 ? 0 : at < l->n ? at : l->n - 1;
    return l->n ? sorted.x[at] : 0;
}

/* ---- the table */

static inline const char *band_feature_id(int f)
{
    static const char *const ids[] = {
#define BAND_ID(id, name) #id,
        BAND_FEATURES_TABLE(BAND_ID)
#undef BAND_ID
    };
    return ids[f];
}

/* What was run on a family of GPUs, by feature, and since which container. Megatron-LM's branch dev
 * has what no container has yet: its runs date only what no other source has. */
typedef struct band_support {
    const char *word[BAND_FEATURES][64];
    const char *since[BAND_FEATURES][64];
    bool ahead[BAND_FEATURES][64]; /* dated by the branch alone */
    int n[BAND_FEATURES];
    const char *stack; /* of the row that is added; "": not known, an old one */
    bool dev;
} band_support;

static inline void support_row_of(band_support *s, const csv *t, int row, arena *a)
{
    published p = {.t = t, .row = row, .a = a};
    const char *stack = published_stack(&p);
    s->stack = stack ? stack : "";
    s->dev = published_from(&p, "MLR");
}

/* What is off was always possible. */
static inline void support_add(band_support *s, int f, const char *word)
{
    if (!word || (f == BAND_DISPATCH && !strcmp(word, "none"))) return;
    bool off = !strcmp(word, "none") || !strcmp(word, "off");
    const char *since = off ? "" : s->stack;
    int at = 0;
    while (at < s->n[f] && strcmp(s->word[f][at], word) != 0) at++;
    if (at == 64) return;
    bool first = at == s->n[f], better = !s->dev && s->ahead[f][at];
    bool older = !first && s->dev == s->ahead[f][at] && strcmp(since, s->since[f][at]) < 0;
    if (first || better || older) {
        s->since[f][at] = since;
        s->ahead[f][at] = s->dev;
    }
    s->word[f][at] = word;
    s->n[f] += first;
}

/* "a+b": each module by itself. */
static inline void support_modules(band_support *s, const char *list)
{
    for (const char *w = list; *w;) {
        size_t n = strcspn(w, "+");
        for (int i = 0; i < DROP_MODULES; i++)
            if (strlen(drop_modules[i].word) == n && !strncmp(w, drop_modules[i].word, n))
                support_add(s, BAND_RECOMPUTE, drop_modules[i].word);
        w += n + (w[n] == '+');
    }
}

/* Cells of rows that are no recipe here, other models among them: each feature taken alone. */
static inline void support_of_cells(band_support *s, const csv *t, int row)
{
    static const char *const precisions[][2] = {
        {"BF16", "bf16"},      {"MXFP8", "mxfp8"},       {"FP8-MX", "mxfp8"},
        {"NVFP4", "nvfp4"},    {"FP8-CS", "tensorwise"}, {"FP8-BLK", "blockwise"},
        {"FP8-DS", "delayed"},
    };
    const char *recompute = csv_cell(t, row, "recompute"), *graphs = csv_cell(t, row, "cuda_graph");
    const char *precision = csv_cell(t, row, "precision"), *beside = csv_cell(t, row, "overlap_ep");
    if (*recompute)
        support_add(s, BAND_RECOMPUTE,
                    !strcmp(recompute, "full") || !strcmp(recompute, "none") ? recompute
                                                                             : "selective");
    support_modules(s, recompute);
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++)
        if (!strcmp(precision, precisions[i][0])) support_add(s, BAND_PRECISION, precisions[i][1]);
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++)
        if (!strcmp(graphs, "full_iteration") && !strcmp(precision, precisions[i][0]))
            support_add(s, BAND_GRAPHS, band_full_iteration(precisions[i][1]));
    if (text_starts(graphs, "TE")) support_add(s, BAND_GRAPHS, "parts");
    if (!strcmp(beside, "on")) support_add(s, BAND_OVERLAP, "on");
}

static inline void print_support(const judging *b, char family)
{
    band_support s = {0};
    for (int i = 0; i < b->n_rows; i++) {
        if (!band_counts(&b->rows[i])) continue;
        band_traits t = band_traits_of(b->rows[i].s);
        support_row_of(&s, &b->t, b->rows[i].p.row, b->a);
        for (int f = 0; f < BAND_FEATURES && t.family == family; f++)
            support_add(&s, f, t.feature[f]);
    }
    for (int i = 0; i < b->t.n_rows; i++) {
        support_row_of(&s, &b->t, i, b->a);
        if (band_family(csv_cell(&b->t, i, "gpu")) == family) support_of_cells(&s, &b->t, i);
    }
    for (int f = 0; f < BAND_FEATURES; f++)
        for (int i = 0; i < s.n[f]; i++)
            printf("SUPPORT('%c', %s, \"%s\", \"%s\")\n", family, band_feature_id(f), s.word[f][i],
                   s.since[f][i]);
}

static inline status print_bands_def(const judging *b, error *err)
{
    band_pairs p = {0};
    run_list *runs = ARENA_NEW(b->a, run_list);
    band_pairs_of_rows(&p, b);
    status st = band_pairs_of_deltas(&p, b, err);
    if (st) return st;
    runs_of(runs, &b->t, b->a);
    runs_named_as_priced(runs, b);
    printf("/* Written by `make accuracy`; not to be edited. See bands.h. */\n");
    printf("/* clang-format off */\n");
    print_shapes(runs);
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (!band_counts(j)) continue;
        band_traits t = band_traits_of(j->s);
        printf("ROW(\"%s\", \"%s\", \"%s\", %" PRId64 ", %" PRId64 ",\n    SIZES(", j->id, t.gpu,
               j->model, t.seq, recipe_int(&j->s->r, K_N_GPUS));
        for (int k = 0; k < 8; k++) printf("%s%" PRId64, k ? ", " : "", t.sizes[k]);
        printf(")");
        for (int f = 0; f < BAND_FEATURES; f++)
            printf("%s\"%s\"", f ? ", " : ",\n    ", t.feature[f]);
        printf(", %.0f, %.4f)\n", j->tokens, band_error(j));
    }
    printf("DIFFERENCE(%.4f)\n", numbers_quantile(&p.apart, 0.8));
    print_support(b, 'H');
    print_support(b, 'B');
    print_runs(runs);
    return OK;
}

/* ---- how well bands cover */

static inline void print_bands(const judging *b)
{
    numbers half = {0};
    int n, covered = 0;
    const band_row *rows = band_rows(&n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < b->n_rows; k++) {
            if (!band_counts(&b->rows[k]) || strcmp(b->rows[k].id, rows[i].id) != 0) continue;
            band_traits t = band_traits_of(b->rows[k].s);
            numbers_add(&half, band_of_time(&t, i));
            covered += fabs(rows[i].error) <= half.x[half.n - 1];
            break;
        }
    }
    printf("Half of the band of a time, each row judged by the others: median %.1f %%, smallest "
           "%.1f %%, largest\n%.1f %%; it covers %.0f %% of %d rows. Half of the band of a "
           "difference: %.1f %% where one knob differs,\n%.1f %% where four do.\n\n",
           100 * numbers_median(&half), 100 * numbers_quantile(&half, 0),
           100 * numbers_quantile(&half, 1), 100.0 * covered / half.n, half.n,
           100 * band_of_difference(1), 100 * band_of_difference(4));
}

#endif
