/* memory.c - memory as Megatron would report it, beside what was measured: one row of
 * tests/data/measured-memory.csv a line. `memory [--parts] [--only PART-OF-AN-ID]`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "price/measured.h"

static double gib(double bytes)
{
    return bytes / 1073741824.0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summary(const char *what, double *errors, int n)
{
    if (!n) return;
    qsort(errors, (size_t)n, sizeof *errors, by_size);
    printf("%s: %d rows, median %.1f %%, worst %.1f %%\n", what, n, 100 * errors[n / 2],
           100 * errors[n - 1]);
}

int main(int argc, char **argv)
{
    const char *only = "";
    bool parts = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--parts") == 0) parts = true;
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    }
    arena *a = arena_create();
    csv t;
    error err = {{0}};
    if (csv_read(&t, MEASURED_CSV, a, &err)) return fprintf(stderr, "%s\n", err.text), 2;
    double errors[2][256];
    int n[2] = {0, 0};
    printf("| id | allocated, measured GiB | ours | error | reserved | ours | error |\n"
           "|---|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < t.n_rows && n[0] < 256; i++) {
        measured m;
        if (!strstr(csv_cell(&t, i, "id"), only)) continue;
        if (measured_row(&m, &t, i, a, &err)) {
            printf("%s: %s\n", csv_cell(&t, i, "id"), err.text);
            continue;
        }
        double e = m.ours / m.allocated - 1;
        printf("| %s | %.2f | %.2f | %+.1f %% |", m.id, gib(m.allocated), gib(m.ours), 100 * e);
        errors[0][n[0]++] = fabs(e);
        if (m.reserved > 0) {
            double r = m.ours_reserved / m.reserved - 1;
            printf(" %.2f | %.2f | %+.1f %% |\n", gib(m.reserved), gib(m.ours_reserved), 100 * r);
            errors[1][n[1]++] = fabs(r);
        } else {
            printf(" | | |\n");
        }
        for (int k = 0; parts && k < ALLOCATED_PARTS; k++)
            if (m.r.part[k])
                printf("    %-40s %8.3f\n", allocated_title((allocated_part)k),
                       gib((double)m.r.part[k]));
    }
    printf("\n");
    summary("allocated", errors[0], n[0]);
    summary("reserved", errors[1], n[1]);
    arena_destroy(a);
    return 0;
}
