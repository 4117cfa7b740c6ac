/* packing_rows.h - layouts of GPU size whose saved buffers are packed: every shipped recipe, the
 * guard's priced jobs, every published run that is a recipe of ours.
 *
 * Packing is a matter of sizes and schedule, not of who runs it: rows are taken as they are,
 * Megatron's target included, and the arena is that of our own program. */
#ifndef TESTS_PREDICT_PACKING_ROWS_H
#define TESTS_PREDICT_PACKING_ROWS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/models/models.h"
#include "base/file.h"
#include "predict/published.h"
#include "ir/memory/packing.h"
#include "ir/program.h"

typedef struct packing_row {
    const char *name;
    int64_t rank, bytes, live; /* of the rank with the largest gap */
} packing_row;

typedef struct packing_list {
    packing_row *list;
    int n, room;
    arena *a;
} packing_list;

/* The rank of all stages whose region ends farthest above what lives at once. */
static inline void packing_add(packing_list *l, const char *name, const setup *s)
{
    arena *a = arena_create();
    program_size *sizes = ARENA_ARRAY(a, program_size, s->pipe.pp);
    packing_row worst = {.name = name, .bytes = -1};
    program_sizes(sizes, s, a);
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        int64_t bytes = sizes[i].bytes[REGION_SAVED], live = sizes[i].saved_live;
        if (worst.bytes < 0 || bytes - live > worst.bytes - worst.live)
            worst = (packing_row){name, sizes[i].rank, bytes, live};
    }
    arena_destroy(a);
    ARENA_GROW(l->a, l->list, l->n, l->room);
    l->list[l->n++] = worst;
}

static inline status packing_setup(recipe *r, setup *s, arena *a, error *err)
{
    status st = model_fill(r, err);
    return st ? st : setup_init(s, r, a, err);
}

/* ---- recipes/ */

static inline int packing_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static inline status packing_recipes(packing_list *l, error *err)
{
    const char *names[64];
    int n = 0;
    DIR *d = opendir("recipes");
    if (!d) return error_set(err, ERR_INPUT, "recipes/ cannot be read");
    for (struct dirent *e; (e = readdir(d)) && n < 64;)
        if (strstr(e->d_name, ".yaml")) names[n++] = arena_text(l->a, "%s", e->d_name);
    closedir(d);
    qsort(names, (size_t)n, sizeof names[0], packing_by_name);
    status st = OK;
    for (int i = 0; i < n && !st; i++) {
        recipe *r = ARENA_NEW(l->a, recipe);
        setup *s = ARENA_NEW(l->a, setup);
        recipe_init(r, l->a, names[i]);
        st = recipe_read_yaml(r, arena_text(l->a, "recipes/%s", names[i]), err);
        if (!st) st = packing_setup(r, s, l->a, err);
        if (!st) packing_add(l, names[i], s);
    }
    return st;
}

/* ---- tests/guard/jobs.txt: NAME | price MODEL OVERRIDES */

static inline status packing_job(packing_list *l, const char *name, const char *words, error *err)
{
    recipe *r = ARENA_NEW(l->a, recipe);
    setup *s = ARENA_NEW(l->a, setup);
    recipe_init(r, l->a, name);
    status st = OK;
    for (int i = 0; *words && !st; i++) {
        size_t n = strcspn(words, " ");
        const char *word = arena_copy(l->a, words, n);
        if (i) st = recipe_override(r, word, name, err);
        if (!i) recipe_set(r, K_MODEL, value_of_text(word), name);
        words += n + strspn(words + n, " ");
    }
    if (!st) st = packing_setup(r, s, l->a, err);
    if (!st) packing_add(l, name, s);
    return st;
}

static inline status packing_jobs(packing_list *l, const char *path, error *err)
{
    char *text = NULL;
    size_t length;
    status st = file_read(l->a, path, 1 << 20, &text, &length, err);
    for (char *line = st ? NULL : strtok(text, "\n"); line && !st; line = strtok(NULL, "\n")) {
        char *bar = strchr(line, '|');
        if (*line == '#' || !bar || strncmp(bar, "| price ", 8) != 0) continue;
        size_t n = (size_t)(bar - line);
        while (n && line[n - 1] == ' ') n--;
        st = packing_job(l, arena_copy(l->a, line, n), bar + 8, err);
    }
    return st;
}

/* ---- published runs; one row of each run, by its layout */

static inline status packing_published(packing_list *l, const char *path, error *err)
{
    csv t;
    status st = csv_read(&t, path, l->a, err);
    for (int i = 0; i < t.n_rows && !st; i++) {
        published p;
        violations found = {0};
        setup *s = ARENA_NEW(l->a, setup);
        const char *id = t.row[i][0];
        size_t n = strlen(id);
        if (n > 4 && strcmp(id + n - 4, "-tok") == 0) continue; /* the same run in tokens */
        published_recipe(&p, &t, i, l->a);
        if (p.why_not || published_setup(&p, s, &found, err)) continue;
        if (!found.n_errors) packing_add(l, id, s);
    }
    return st;
}

static inline status packing_all(packing_list *l, error *err)
{
    status st = packing_recipes(l, err);
    if (!st) st = packing_jobs(l, "tests/guard/jobs.txt", err);
    if (!st) st = packing_jobs(l, "tests/data/packing.txt", err);
    if (!st) st = packing_published(l, "tests/data/published/published.csv", err);
    return st;
}

/* ---- the table of docs/MEMORY.md */

/* Runs that differ in what packing does not see are printed once. */
static inline bool packing_is_known(const packing_list *l, int row)
{
    for (int i = 0; i < row; i++)
        if (l->list[i].bytes == l->list[row].bytes && l->list[i].live == l->list[row].live)
            return true;
    return false;
}

static inline void packing_print(const packing_list *l, FILE *out)
{
    int far = 0, touching = 0;
    fprintf(out, "| layout | rank | live at once, MiB | region, MiB | gap, MiB | gap |\n"
                 "|---|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < l->n; i++) {
        const packing_row *r = &l->list[i];
        double live = (double)r->live, gap = (double)(r->bytes - r->live), mib = 1 << 20;
        far += !packing_is_close(r->bytes, r->live);
        touching += r->bytes == r->live;
        if (100 * (r->bytes - r->live) > r->live && !packing_is_known(l, i))
            fprintf(out, "| %s | %lld | %.0f | %.0f | %.0f | %.2f %% |\n", r->name,
                    (long long)r->rank, live / mib, (double)r->bytes / mib, gap / mib,
                    live > 0 ? 100 * gap / live : 0);
    }
    fprintf(out,
            "\n%d layouts: %d have no gap, %d beyond 3 %% and 64 MiB. The table has rows with more "
            "than 1 %%, and of layouts with\nthe same bytes the first.\n",
            l->n, touching, far);
}

#endif
