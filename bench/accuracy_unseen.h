/* accuracy_unseen.h - rows that nothing was fitted to: tests/data/unseen, priced as its README
 * says.
 *
 * jobs.csv has the recipe of each row, written before any error of it was known. Of several metrics
 * of one run the step counts, then tokens, then TFLOP/s. */
#ifndef BENCH_ACCURACY_UNSEEN_H
#define BENCH_ACCURACY_UNSEEN_H

#include "accuracy_rows.h"
#include "accuracy_stats.h"
#include "config/megatron.h"
#include "predict/bands.h"
#include "predict/deltas.h"
#include "predict/fit.h"

#define UNSEEN_FOLDER "tests/data/unseen"

/* Kinds are words of jobs.csv; what they are called. */
typedef struct unseen_kind {
    const char *word, *title;
} unseen_kind;

static const unseen_kind unseen_kinds[] = {
    {"moe", "MoE, stacks of 2025 and later"},
    {"older", "MoE, NeMo 25.02 to 25.09"},
    {"dense", "dense models"},
    {"memory", "peak memory"},
};
enum { UNSEEN_KINDS = sizeof unseen_kinds / sizeof unseen_kinds[0] };

/* Whose rows: several ids may have one. */
static inline const char *source_of(const char *id)
{
    static const char *const names[][2] = {
        {"MLP", "MLPerf"},        {"DGXC", "DGX Cloud"},    {"BPR", "pull requests"},
        {"BIS", "pull requests"}, {"CI2", "Megatron's CI"}, {"CI-", "Megatron's CI"},
        {"SWIFT", "ms-swift"},    {"CARD", "cards"},        {"MB", "Bridge's tables"},
        {"MLR", "Megatron-LM"},   {"GBO", "Megatron-LM"},   {"SK", "cards"},
        {"VC", "cards"},          {"ZOO", "ModelZoo"},      {"MCP", "papers"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_starts(id, names[i][0])) return names[i][1];
    return "others";
}

static inline const char *unseen_cell(const judging *b, const judged *j, const char *column)
{
    return csv_cell(&b->unseen_jobs, (int)(j - b->unseen), column);
}

static inline bool unseen_is(const judging *b, const judged *j, const char *kind)
{
    return text_equal(unseen_cell(b, j, "kind"), kind);
}

static inline status unseen_setup(judging *b, judged *j, error *err)
{
    const char *file = unseen_cell(b, j, "file"), *words = unseen_cell(b, j, "overrides");
    recipe *r = ARENA_NEW(b->a, recipe);
    recipe_init(r, b->a, j->id);
    char *rest = NULL, *copy = arena_copy(b->a, words, strlen(words));
    if (*file) TRY(megatron_read(r, arena_text(b->a, "%s/%s", UNSEEN_FOLDER, file), err));
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        TRY(recipe_override(r, w, j->id, err));
    TRY(model_fill(r, err));
    j->s = ARENA_NEW(b->a, setup);
    TRY(setup_init(j->s, r, b->a, err));
    setup_states(j->s, b->a);
    violations found = {0};
    rules_check(&found, j->s, false, b->a);
    if (found.n_errors) j->broken = found.list[0].rule->id;
    const char *why_not = audit_why_not(j->s, b->a);
    return why_not ? error_set(err, ERR_RULE, "%s", why_not) : OK;
}

/* Memory of the rank that was measured; where none is named, of the fullest one. */
static inline double unseen_bytes(const judging *b, const judged *j, arena *scratch)
{
    const char *rank = unseen_cell(b, j, "rank");
    if (text_starts(j->id, "SWIFT")) return (double)j->pr.peak_bytes; /* as nvidia-smi has it */
    if (!*rank) return (double)j->pr.memory.allocated;
    program *p = ARENA_NEW(scratch, program);
    program_build(p, j->s, strtoll(rank, NULL, 10), scratch);
    program_size size = program_size_of(p);
    fit f = {0};
    fit_see(&f, j->s, &size);
    return (double)f.memory.allocated;
}

static inline void unseen_price(judging *b, judged *j, const hardware *hw, arena *scratch)
{
    arena_place place = arena_mark(scratch);
    row_price(j, hw, scratch);
    double published_value = csv_real(&b->unseen_rows, j->p.row, "value");
    const char *metric = csv_cell(&b->unseen_rows, j->p.row, "metric");
    if (text_equal(metric, "peak_mem_GB")) {
        j->gigabytes = published_value;
        j->bytes = unseen_bytes(b, j, scratch);
    } else if (text_equal(metric, "step_time_s")) {
        j->tokens = j->pr.tokens_per_s_per_gpu * j->pr.step_s / published_value;
    } else if (text_equal(metric, "tflops_per_gpu")) {
        j->tokens = j->pr.tokens_per_s_per_gpu * published_value / j->pr.tflops_per_gpu;
    } else {
        j->tokens = published_value;
    }
    arena_release(scratch, place);
}

static inline double unseen_error(const judged *j)
{
    return j->gigabytes > 0 ? j->bytes / (1e9 * j->gigabytes) - 1 : judged_error(j);
}

static inline int unseen_order(const judging *b, const judged *j)
{
    const char *metric = csv_cell(&b->unseen_rows, j->p.row, "metric");
    return text_equal(metric, "step_time_s")              ? 0
           : text_equal(metric, "tokens_per_sec_per_gpu") ? 1
           : text_equal(metric, "tflops_per_gpu")         ? 2
                                                          : 3;
}

/* Another metric of the same run, which says more, stands for it. */
static inline bool unseen_is_told(const judging *b, const judged *j)
{
    size_t n = (size_t)(strrchr(j->id, '-') - j->id);
    for (const judged *k = b->unseen; k < b->unseen + b->n_unseen; k++)
        if (k != j && !k->refused && strrchr(k->id, '-') == k->id + n &&
            !strncmp(k->id, j->id, n) && unseen_order(b, j) < 3 &&
            unseen_order(b, k) < unseen_order(b, j))
            return true;
    return false;
}

static inline status unseen_read(judging *b, error *err)
{
    TRY(csv_read(&b->unseen_rows, UNSEEN_FOLDER "/rows-2026-11.csv", b->a, err));
    TRY(csv_read(&b->unseen_jobs, UNSEEN_FOLDER "/jobs.csv", b->a, err));
    b->n_unseen = b->unseen_jobs.n_rows;
    b->unseen = ARENA_ARRAY(b->a, judged, b->n_unseen);
    arena *scratch = arena_create();
    status st = OK;
    for (int i = 0; i < b->n_unseen && !st; i++) {
        judged *j = &b->unseen[i];
        error no = {{0}};
        const char *id = csv_cell(&b->unseen_jobs, i, "id");
        *j = (judged){.id = id,
                      .p = {.t = &b->unseen_rows, .row = csv_find(&b->unseen_rows, id)},
                      .source = source_of(id),
                      .model = csv_cell(&b->unseen_rows, i, "model"),
                      .gpu = csv_cell(&b->unseen_rows, i, "gpu")};
        if (j->p.row != i)
            return error_set(err, ERR_INPUT, "%s/jobs.csv: row %d is not that of rows-2026-11.csv",
                             UNSEEN_FOLDER, i + 1);
        const char *why_not = unseen_cell(b, j, "why_not");
        if (*why_not) j->refused = why_not;
        if (!j->refused && unseen_setup(b, j, &no)) j->refused = arena_text(b->a, "%s", no.text);
        if (j->refused) continue;
        const hardware *hw = machine_of(b, recipe_word(&j->s->r, K_GPU), err);
        st = hw ? OK : ERR_INPUT;
        if (!st) unseen_price(b, j, hw, scratch);
    }
    arena_destroy(scratch);
    for (judged *j = b->unseen; j < b->unseen + b->n_unseen; j++)
        j->told = !j->refused && unseen_is_told(b, j);
    return st;
}

/* ---- tables */

typedef struct unseen_sum {
    numbers errors;
    int inside, supported;
    const judged *worst;
} unseen_sum;

static inline void unseen_add(unseen_sum *t, const judged *j)
{
    double e = unseen_error(j);
    numbers_add(&t->errors, e);
    if (!t->worst || fabs(e) > fabs(unseen_error(t->worst))) t->worst = j;
    if (j->gigabytes > 0) return;
    band_traits traits = band_traits_of(j->s);
    t->inside += fabs(log1p(e)) <= band_of_time(&traits, -1);
    t->supported += band_unsupported(&traits) == BAND_FEATURES;
}

static inline bool unseen_counts(const judged *j)
{
    return !j->refused && !j->told;
}

static inline double numbers_nine_in_ten(const numbers *l)
{
    numbers size = numbers_absolute(l);
    qsort(size.x, (size_t)size.n, sizeof size.x[0], numbers_order);
    int at = (int)(0.9 * size.n);
    return size.n ? size.x[at < size.n ? at : size.n - 1] : 0;
}

static inline void print_unseen_sum(const char *name, const unseen_sum *t)
{
    numbers size = numbers_absolute(&t->errors);
    printf("| %s | %d | %.1f %% | %.1f %% | %+.1f %% | ", name, t->errors.n,
           100 * numbers_median(&size), 100 * numbers_nine_in_ten(&t->errors),
           100 * numbers_median(&t->errors));
    if (t->worst->gigabytes > 0)
        printf("- | - | ");
    else
        printf("%d | %d | ", t->inside, t->supported);
    printf("%+.0f %% (%s) |\n", 100 * unseen_error(t->worst), t->worst->id);
}

/* Of every group of a kind, then of the kind. */
static inline void print_unseen_kind(const judging *b, const unseen_kind *kind)
{
    unseen_sum all = {0};
    for (const judged *j = b->unseen; j < b->unseen + b->n_unseen; j++) {
        if (!unseen_counts(j) || !unseen_is(b, j, kind->word)) continue;
        unseen_add(&all, j);
        const char *group = unseen_cell(b, j, "group");
        unseen_sum t = {0};
        for (const judged *k = b->unseen; k < b->unseen + b->n_unseen; k++) {
            if (!unseen_counts(k) || !text_equal(unseen_cell(b, k, "group"), group)) continue;
            if (k < j) break;
            unseen_add(&t, k);
        }
        if (t.errors.n) print_unseen_sum(group, &t);
    }
    if (all.errors.n) print_unseen_sum(arena_text(b->a, "**%s**", kind->title), &all);
}

static inline void print_unseen_rows(const judging *b)
{
    printf("| id | published | ours | error | band | supported | breaks |\n"
           "|---|--:|--:|--:|--:|---|---|\n");
    for (const judged *j = b->unseen; j < b->unseen + b->n_unseen; j++) {
        if (!unseen_counts(j)) continue;
        printf("| %s | %s %s | ", j->id, csv_cell(&b->unseen_rows, j->p.row, "value"),
               csv_cell(&b->unseen_rows, j->p.row, "metric"));
        double e = unseen_error(j);
        if (j->gigabytes > 0) {
            printf("%.3f | %+.1f %% | - | - | |\n", j->bytes / 1e9, 100 * e);
            continue;
        }
        band_traits t = band_traits_of(j->s);
        double published_value = csv_real(&b->unseen_rows, j->p.row, "value");
        bool step = text_equal(csv_cell(&b->unseen_rows, j->p.row, "metric"), "step_time_s");
        printf("%.4g | %+.1f %% | %.0f %% | %s | %s |\n",
               step ? j->pr.step_s : published_value * (1 + e), 100 * e, 100 * band_of_time(&t, -1),
               band_unsupported(&t) == BAND_FEATURES ? "yes" : "no", j->broken ? j->broken : "");
    }
    printf("\n");
}

static inline void print_unseen(const judging *b)
{
    printf("| group | n | median error | nine in ten | bias | in their band | supported | worst |\n"
           "|---|--:|--:|--:|--:|--:|--:|---|\n");
    for (int i = 0; i < UNSEEN_KINDS; i++) print_unseen_kind(b, &unseen_kinds[i]);
    printf("\n");
}

#endif
