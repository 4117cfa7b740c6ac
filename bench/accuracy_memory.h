/* accuracy_memory.h - memory as Megatron would report it, beside what was measured: the rows of
 * tests/data/measured-memory.csv as a table, part by part. */
#ifndef BENCH_ACCURACY_MEMORY_H
#define BENCH_ACCURACY_MEMORY_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict/memory_rows.h"

enum { MEASURED_MOST = 256 };

typedef struct memory_errors {
    double list[MEASURED_MOST];
    int n;
} memory_errors;

static inline double memory_gib(double bytes)
{
    return bytes / 1073741824.0;
}

static inline int memory_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void memory_summary(const char *what, memory_errors *e)
{
    if (!e->n) return;
    qsort(e->list, (size_t)e->n, sizeof e->list[0], memory_by_size);
    int within = 0;
    while (within < e->n && e->list[within] <= 0.06) within++;
    printf("%s: %d rows, median error %.1f %%, worst %.1f %%; %d within 6 %%.\n\n", what, e->n,
           100 * e->list[e->n / 2], 100 * e->list[e->n - 1], within);
}

/* Parts in columns, those that are small or rare together. */
static inline void memory_parts(const reported *r, bool optimizer)
{
    static const allocated_part shown[] = {
        ALLOCATED_WEIGHTS, ALLOCATED_COPIES,      ALLOCATED_GRADIENTS, ALLOCATED_OPTIMIZER,
        ALLOCATED_DUMMIES, ALLOCATED_ACTIVATIONS, ALLOCATED_LOGITS};
    int64_t rest = r->allocated;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        bool there = optimizer || shown[i] != ALLOCATED_OPTIMIZER;
        printf(" %.2f |", there ? memory_gib((double)r->part[shown[i]]) : 0);
        rest -= r->part[shown[i]];
    }
    printf(" %.2f |\n", memory_gib((double)rest));
}

/* Errors: of allocated bytes, of reserved ones, and of those without rows that are left out. */
static inline void memory_row(const measured *m, bool optimizer, bool left_out, memory_errors e[3])
{
    double off = m->ours / m->allocated - 1;
    e[0].list[e[0].n++] = fabs(off);
    printf("| %s | %.1f | %.1f | %+.1f %% |", m->id, memory_gib(m->allocated), memory_gib(m->ours),
           100 * off);
    if (m->reserved > 0) {
        double more = m->ours_reserved / m->reserved - 1;
        e[1].list[e[1].n++] = fabs(more);
        if (!left_out) e[2].list[e[2].n++] = fabs(more);
        printf(" %.1f | %.1f | %+.1f %% |", memory_gib(m->reserved), memory_gib(m->ours_reserved),
               100 * more);
    } else {
        printf(" | | |");
    }
    memory_parts(&m->r, optimizer);
}

/* Rows whose id has `only` in it. */
static inline status memory_table(const char *only, arena *a, error *err)
{
    csv t;
    memory_errors e[3] = {{.n = 0}, {.n = 0}, {.n = 0}};
    status st = csv_read(&t, MEASURED_CSV, a, err);
    if (st) return st;
    printf(
        "| id | allocated, measured | ours | error | reserved, measured | ours | error | weights "
        "| FP8 copies | gradients | optimizer | dummies | activations | logits | rest |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < t.n_rows && i < MEASURED_MOST && !st; i++) {
        measured m;
        if (!strstr(csv_cell(&t, i, "id"), only)) continue;
        st = measured_row(&m, &t, i, a, err);
        bool left_out = strcmp(csv_cell(&t, i, "left_out"), "reserved") == 0;
        if (!st) memory_row(&m, csv_int(&t, i, "optimizer", 1) != 0, left_out, e);
    }
    printf("\n");
    memory_summary("Allocated", &e[0]);
    memory_summary("Reserved", &e[1]);
    if (e[2].n < e[1].n) memory_summary("Reserved, without H200-Q30-1x32k-fp8", &e[2]);
    return st;
}

#endif
