/* directions_deltas.h - published differences beside ours, group by group. */
#ifndef BENCH_DIRECTIONS_DELTAS_H
#define BENCH_DIRECTIONS_DELTAS_H

#include <stdio.h>

#include "predict/deltas.h"

static inline const char *delta_unit(const char *metric)
{
    if (!strcmp(metric, "seconds")) return "s";
    if (!strcmp(metric, "GB")) return "GB";
    return strstr(metric, "GiB") ? "GiB" : "%";
}

static inline const char *delta_word(const char *metric)
{
    if (!strcmp(metric, "speed")) return "tokens a second";
    if (!strcmp(metric, "tflops")) return "TFLOP/s";
    if (!strcmp(metric, "time") || !strcmp(metric, "seconds")) return "step";
    return strstr(metric, "GiB") ? "memory of pipeline rank 2" : "memory of the fullest rank";
}

static inline void print_delta_head(const char *group)
{
    printf("\n### %s\n\n| change | of | published | predicted | source; remark |\n"
           "|---|---|--:|--:|---|\n",
           group);
}

static inline status print_deltas(arena *a, error *err)
{
    csv t, rows;
    delta_memo m = {0};
    const char *group = "";
    status st = csv_read(&t, DELTAS_CSV, a, err);
    if (!st) st = csv_read(&rows, DELTAS_SOURCE, a, err);
    for (int i = 0; !st && i < t.n_rows; i++) {
        double ours = 0;
        const char *metric = csv_cell(&t, i, "metric"), *unit = delta_unit(metric);
        const char *comment = csv_cell(&t, i, "comment");
        if (strcmp(group, csv_cell(&t, i, "group")) != 0)
            print_delta_head(group = csv_cell(&t, i, "group"));
        st = delta_predict(&ours, &m, &t, i, &rows, a, err);
        if (st) break;
        printf("| %s | %s | %+.*f %s | %+.*f %s | %s%s%s |\n", csv_cell(&t, i, "what"),
               delta_word(metric), *unit == '%' ? 1 : 2, csv_real(&t, i, "published"), unit,
               *unit == '%' ? 1 : 2, ours, unit, csv_cell(&t, i, "source"), *comment ? "; " : "",
               comment);
    }
    return st;
}

static inline status print_all_deltas(arena *a, error *err)
{
    printf("\n"
           "## Published differences beside ours\n\n"
           "Each row is one change to one run. The remark states what a source leaves out and, if "
           "we are far off, what we think the\n"
           "reason is. Rows of the ModelZoo and of the GB200 report are priced with their "
           "container generation, 25.11.\n"
           "tests/data/published/deltas.csv has the rows and the overrides of their runs.\n");
    return print_deltas(a, err);
}

#endif
