/* csv.h - a table of comma-separated cells, quotes and all; the first line names the columns. */
#ifndef TESTS_PREDICT_CSV_H
#define TESTS_PREDICT_CSV_H

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

enum { CSV_COLUMNS_MAX = 64, CSV_BYTES_MAX = 16 << 20 };

typedef struct csv {
    const char *path;
    int n_rows, n_columns; /* the line of names is not a row */
    const char *name[CSV_COLUMNS_MAX];
    const char *const **row; /* [n_rows][n_columns]; a cell that is missing is "" */
} csv;

/* One cell; *p moves behind it and its comma. *ends: it was the last of its line. */
static inline const char *csv_take(arena *a, const char **p, bool *ends)
{
    textbuf t = text_init(a);
    bool quoted = **p == '"';
    if (quoted) ++*p;
    for (; **p; ++*p) {
        if (quoted && **p == '"' && (*p)[1] == '"')
            ++*p;
        else if (quoted && **p == '"') {
            quoted = false;
            continue;
        } else if (!quoted && (**p == ',' || **p == '\n'))
            break;
        if (**p != '\r' || quoted) text_put(&t, *p, 1);
    }
    *ends = **p != ',';
    if (**p) ++*p;
    return t.s;
}

static inline int csv_line(arena *a, const char **p, const char **cells)
{
    int n = 0;
    for (bool ends = false; !ends;) {
        const char *cell = csv_take(a, p, &ends);
        if (n < CSV_COLUMNS_MAX) cells[n++] = cell;
    }
    return n;
}

static inline status csv_read(csv *t, const char *path, arena *a, error *err)
{
    char *data;
    size_t n;
    *t = (csv){.path = path};
    status st = file_read(a, path, CSV_BYTES_MAX, &data, &n, err);
    if (st) return st;
    int lines = 1;
    for (size_t i = 0; i < n; i++) lines += data[i] == '\n';
    t->row = ARENA_ARRAY(a, const char *const *, lines);
    const char *p = data;
    t->n_columns = csv_line(a, &p, t->name);
    while (*p) {
        const char **cells = ARENA_ARRAY(a, const char *, CSV_COLUMNS_MAX);
        int got = csv_line(a, &p, cells);
        if (got == 1 && !*cells[0]) continue;
        if (got > t->n_columns)
            return error_set(err, ERR_INPUT, "%s: row %d has %d cells, its columns are %d", path,
                             t->n_rows + 1, got, t->n_columns);
        for (; got < t->n_columns; got++) cells[got] = "";
        t->row[t->n_rows++] = cells;
    }
    return OK;
}

/* "" where there is no such column. */
static inline const char *csv_cell(const csv *t, int row, const char *column)
{
    for (int k = 0; k < t->n_columns; k++)
        if (strcmp(t->name[k], column) == 0) return t->row[row][k];
    return "";
}

/* An empty cell is `blank`. */
static inline int64_t csv_int(const csv *t, int row, const char *column, int64_t blank)
{
    const char *cell = csv_cell(t, row, column);
    return *cell ? strtoll(cell, NULL, 10) : blank;
}

static inline double csv_real(const csv *t, int row, const char *column)
{
    return strtod(csv_cell(t, row, column), NULL);
}

/* -1: none. */
static inline int csv_find(const csv *t, const char *id)
{
    for (int i = 0; i < t->n_rows; i++)
        if (strcmp(t->row[i][0], id) == 0) return i;
    return -1;
}

#endif
