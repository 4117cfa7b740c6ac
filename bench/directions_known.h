/* directions_known.h - the known configurations: do they fit where they were run, what do we
 * predict beside what was published, where do they stand in the plan of their own job, and what
 * beats them. */
#ifndef BENCH_DIRECTIONS_KNOWN_H
#define BENCH_DIRECTIONS_KNOWN_H

#include <stdio.h>

#include "predict/deltas.h"
#include "plan/against.h"

typedef struct known {
    const char *recipe, *words, *published;
    double tflops, step_s; /* published; 0: not */
} known;

/* The long ones in two spellings: what the card's table says (CP), and what its script ran (TP). */
static const known knowns[] = {
    {"recipes/dsv3-4k-h100.yaml", "", "295 TFLOP/s", 295, 0},
    {"recipes/dsv3-16k-h100.yaml", "", "315 TFLOP/s", 315, 0},
    {"recipes/dsv3-32k-h100.yaml", "", "321 TFLOP/s", 321, 0},
    {"recipes/dsv3-64k-h100.yaml", "", "306 TFLOP/s", 306, 0},
    {"recipes/dsv3-64k-h100-tp.yaml", "", "306 TFLOP/s", 306, 0},
    {"recipes/dsv3-128k-h100.yaml", "", "303 TFLOP/s", 303, 0},
    {"recipes/dsv3-128k-h100-tp.yaml", "", "303 TFLOP/s", 303, 0},
    {"recipes/dsv3-256k-h100.yaml", "", "297 TFLOP/s", 297, 0},
    {"recipes/dsv3-256k-h100-tp.yaml", "", "297 TFLOP/s", 297, 0},
    {"recipes/qwen3-235b-128k-gb200.yaml", "", "1150 TFLOP/s", 1150, 0},
    {"recipes/qwen3-next-8k-gb200.yaml", "", "267 TFLOP/s", 267, 0},
    {"recipes/qwen3-next-32k-gb200.yaml", "", "232 TFLOP/s", 232, 0},
    {"recipes/qwen3-next-64k-gb200.yaml", "", "100 TFLOP/s", 100, 0},
    {"recipes/qwen3-30b-4k-h100.yaml", "", "24.71 s", 0, 24.71},
    {"recipes/qwen3-30b-4k-overlap-h100.yaml", "", "20.99 s", 0, 20.99},
};
enum { KNOWNS = sizeof knowns / sizeof knowns[0] };

/* A known configuration beside its plan. */
typedef struct known_row {
    const known *k;
    const char *name;
    search_result *r;
    against *g;
} known_row;

/* The plan of a recipe's job: the same for every form of the recipe. */
typedef struct known_job {
    const char *recipe;
    arena *a;
    recipe *asked;
    hardware *hw;
    search_result *r;
} known_job;

static inline status known_search(known_job *j, const char *path, error *err)
{
    recipe *own = ARENA_NEW(j->a, recipe);
    j->recipe = path;
    j->asked = ARENA_NEW(j->a, recipe);
    j->hw = ARENA_NEW(j->a, hardware);
    j->r = ARENA_NEW(j->a, search_result);
    status st = words_recipe(own, path, j->a, err);
    if (!st) st = hardware_read(j->hw, recipe_word(own, K_GPU), j->a, err);
    if (st) return st;
    against_open(j->asked, own);
    search_options o = {.hw = j->hw};
    st = search_run(j->r, j->asked, &o, j->a, err);
    if (!st && !j->r->n_best) st = error_set(err, ERR_RULE, "%s: nothing fits", path);
    return st;
}

static inline status known_compare(known_row *out, const known *k, const known_job *j, error *err)
{
    arena *a = j->a;
    recipe *own = ARENA_NEW(a, recipe);
    *out = (known_row){.k = k, .r = j->r, .g = ARENA_NEW(a, against)};
    out->name = arena_text(a, "%.*s%s%s", (int)strcspn(k->recipe + 8, "."), k->recipe + 8,
                           *k->words ? ", " : "", *k->words ? strchr(k->words, '.') + 1 : "");
    search_options o = {.hw = j->hw};
    status st = words_recipe(own, arena_text(a, "%s %s", k->recipe, k->words), a, err);
    if (!st) st = against_price(out->g, own, &(searched){j->asked, j->r, &o}, a, err);
    if (!st && out->g->why_not) st = error_set(err, ERR_RULE, "%s: %s", k->recipe, out->g->why_not);
    return st;
}

static inline double known_error(const known_row *row)
{
    const price *p = &row->g->p;
    return row->k->tflops > 0 ? 100 * (p->tflops_per_gpu / row->k->tflops - 1)
                              : 100 * (row->k->step_s / p->step_s - 1);
}

static inline void add_known_row(textbuf *t, const known_row *row, arena *a)
{
    const price *p = &row->g->p;
    const search_result *r = row->r;
    const char *place = row->g->place > r->n_best ? arena_text(a, "below %d", r->n_best)
                                                  : arena_text(a, "%d", row->g->place);
    text_add(t, "| %s | %s | %.1f TFLOP/s, %.2f s | %+.0f %% | %.1f of %.1f GiB%s | %s | %.2f |\n",
             row->name, row->k->published, p->tflops_per_gpu, p->step_s, known_error(row),
             (double)p->peak_bytes / 1073741824.0, (double)p->usable / 1073741824.0,
             p->fits ? "" : ", does not fit", place, p->step_s / r->best[0].exact.step_s);
}

static inline void add_known_step(textbuf *t, const path_step *s)
{
    text_add(t, "| %+.1f %% | %.2f s | %.1f%s | %s: `%s` | ", 100 * s->gain, s->p.step_s,
             (double)s->p.peak_bytes / 1073741824.0, s->p.fits ? "" : "!", s->names, s->words);
    for (int k = 0; k < s->n_kinds && k < 4; k++)
        text_add(t, "%s%s %+.3g s", k ? ", " : "", s->kinds[k].title, s->kinds[k].seconds);
    text_add(t, " |\n");
}

static inline void add_known_path(textbuf *t, const known_row *row, arena *a)
{
    const against *g = row->g;
    const found *first = &row->r->best[0];
    text_add(t, "\n**%s** (%.2f s). First of its plan, %.2f s and %.1f GiB: %s, recompute %s.\n\n",
             row->name, g->p.step_s, first->exact.step_s,
             (double)first->exact.peak_bytes / 1073741824.0, choice_text(a, &first->c),
             choice_modules(a, first->c.drop));
    if (!g->n_path) text_add(t, "It is the first.\n");
    if (g->n_path)
        text_add(t, "| gain | step | GiB | change | time saved (-) or added (+) |\n"
                    "|--:|--:|--:|---|---|\n");
    for (int i = 0; i < g->n_path; i++) add_known_step(t, &g->path[i]);
    if (g->faster)
        text_add(t,
                 "\n"
                 "After change %d it is faster than the first of the plan: a combination that the "
                 "search does not try.\n",
                 g->faster);
}

/* ---- 256K on 256 GPUs */

static inline status print_half(arena *a, error *err)
{
    static const int64_t counts[] = {128, 256, 512};
    printf("\n"
           "### What fits 256K on 256 GPUs\n\n"
           "The published layout (CP64 PP8) needs 512 GPUs: TP x CP x PP = 512. With every knob "
           "searched and the same batch of 240:\n\n"
           "| H100 | found | tokens/s/GPU | GiB |\n"
           "|--:|---|--:|--:|\n");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        recipe *own = ARENA_NEW(a, recipe), *asked = ARENA_NEW(a, recipe);
        hardware *hw = ARENA_NEW(a, hardware);
        search_result *r = ARENA_NEW(a, search_result);
        status st = words_recipe(own, "recipes/dsv3-256k-h100.yaml", a, err);
        if (!st) st = hardware_read(hw, "H100", a, err);
        if (st) return st;
        against_open(asked, own);
        recipe_set(asked, K_N_GPUS, value_of_int(counts[i]), "directions");
        search_options o = {.hw = hw};
        st = search_run(r, asked, &o, a, err);
        if (st) return st;
        const found *f = r->n_best ? &r->best[0] : &r->miss;
        if (r->n_best)
            printf("| %lld | %s, recompute %s%s | %.1f | %.1f |\n", (long long)counts[i],
                   choice_text(a, &f->c), choice_modules(a, f->c.drop),
                   f->c.offload ? ", optimizer on the host" : "", f->exact.tokens_per_s_per_gpu,
                   (double)f->exact.peak_bytes / 1073741824.0);
        else
            printf("| %lld | nothing fits; nearest: %s, recompute %s | | %.1f of %.1f |\n",
                   (long long)counts[i], choice_text(a, &f->c), choice_modules(a, f->c.drop),
                   (double)f->peak_bytes / 1073741824.0, (double)hw->usable / 1073741824.0);
    }
    return OK;
}

/* ---- all of them */

/* Each job has an arena of its own: together they would take gigabytes. */
static inline status add_known(textbuf *table, textbuf *paths, known_job *j, const known *k,
                               error *err)
{
    known_row row;
    status st = OK;
    if (!j->recipe || strcmp(j->recipe, k->recipe) != 0) {
        fprintf(stderr, "directions: planning %s\n", k->recipe);
        arena_destroy(j->a);
        *j = (known_job){.a = arena_create()};
        st = known_search(j, k->recipe, err);
    }
    if (!st) st = known_compare(&row, k, j, err);
    if (!st) add_known_row(table, &row, j->a);
    if (!st) add_known_path(paths, &row, j->a);
    return st;
}

static inline status known_tables(textbuf *table, textbuf *paths, error *err)
{
    known_job j = {.a = arena_create()};
    status st = OK;
    for (int i = 0; i < KNOWNS && !st; i++) st = add_known(table, paths, &j, &knowns[i], err);
    arena_destroy(j.a);
    return st;
}

static inline status print_known(arena *a, error *err)
{
    textbuf table = text_init(a), paths = text_init(a);
    status st = known_tables(&table, &paths, err);
    if (st) return st;
    printf("\n"
           "## The known configurations beside their plans\n\n"
           "Place is the rank of a recipe among the first ten of `moefold plan --against RECIPE` "
           "(same model, cluster, sequence, batch\n"
           "and precision; one row for each set of parallel sizes). The last column is its step "
           "time over that of the first.\n\n"
           "| configuration | published | predicted | error | memory | place | times the first |\n"
           "|---|--:|--:|--:|--:|--:|--:|\n"
           "%s",
           table.s);
    printf("\n"
           "### What beats them, and why\n\n"
           "The changes that lead from each recipe to the first of its plan, largest gain first "
           "among those that fit and break no\n"
           "rule. Changes that gain nothing or are not possible alone are grouped.\n"
           "%s",
           paths.s);
    return print_half(a, err);
}

#endif
