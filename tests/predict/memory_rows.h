/* memory_rows.h - a row of tests/data/measured-memory.csv as a recipe, and what we say of its
 * memory.
 *
 * Columns: id; rank (which was measured); optimizer (0: the run had none); system; overrides,
 * separated by blanks; allocated and reserved as measured, in unit (GiB or GB, 1e9 bytes); left_out
 * (reserved: what the allocator took has no reason in the tensors, docs/ACCURACY.md). */
#ifndef TESTS_PREDICT_MEMORY_ROWS_H
#define TESTS_PREDICT_MEMORY_ROWS_H

#include <inttypes.h>
#include <stdlib.h>

#include "predict/allocated.h"
#include "predict/csv.h"
#include "config/models/models.h"
#include "rules/rules.h"

#define MEASURED_CSV "tests/data/measured-memory.csv"

typedef struct measured {
    const char *id;
    double allocated, reserved; /* bytes; 0: not measured */
    double ours, ours_reserved;
    reported r;
} measured;

static inline status measured_recipe(recipe *r, const csv *t, int row, arena *a, error *err)
{
    const char *id = csv_cell(t, row, "id"), *words = csv_cell(t, row, "overrides");
    recipe_init(r, a, id);
    for (const char *w = words + strspn(words, " "); *w;) {
        size_t n = strcspn(w, " ");
        status st = recipe_override(r, arena_copy(a, w, n), id, err);
        if (st) return st;
        w += n + strspn(w + n, " ");
    }
    return model_fill(r, err);
}

static inline void measured_bytes(measured *m, const csv *t, int row)
{
    double unit = strcmp(csv_cell(t, row, "unit"), "GB") == 0 ? 1e9 : 1073741824.0;
    m->allocated = csv_real(t, row, "allocated") * unit;
    m->reserved = csv_real(t, row, "reserved") * unit;
}

static inline status measured_row(measured *m, const csv *t, int row, arena *a, error *err)
{
    *m = (measured){.id = csv_cell(t, row, "id")};
    measured_bytes(m, t, row);
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    status st = measured_recipe(r, t, row, a, err);
    if (!st) st = setup_init(s, r, a, err);
    if (st) return st;
    if (!s->possible || s->pipe.why_not)
        return error_set(err, ERR_RULE, "%s: %s", m->id,
                         s->pipe.why_not ? s->pipe.why_not : "cannot be laid out");
    program *p = ARENA_NEW(a, program);
    program_build(p, s, csv_int(t, row, "rank", 0), a);
    program_size z = program_size_of(p);
    reported_of_rank(&m->r, s, &z, 0);
    double optimizer = csv_int(t, row, "optimizer", 1) ? 0 : (double)m->r.part[ALLOCATED_OPTIMIZER];
    m->ours = (double)m->r.allocated - optimizer;
    double ratio = reserved_ratio_of(&s->j).middle;
    m->ours_reserved = (double)m->r.reserved - ratio * optimizer;
    return OK;
}

#endif
