/* screen.h - what every screen is printed with: lines behind labels, tables, bars, and numbers with
 * their units.
 *
 * S1  No line is wider than the window and nothing is cut. Lines break at blanks: first where two
 *     stand together, which is between pieces that belong together ("TP 2  CP 16"), then at single
 *     ones, but never between a number and its unit.
 * S2  A number has three digits, or those that its uncertainty bears, in the unit of its size.
 * S3  Rounded parts add up to the rounded whole (screen_round). */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "base/colour.h"
#include "base/text.h"

enum { SCREEN_LABEL = 9 }; /* columns of a label and the blanks behind it */

/* COLUMNS where it is set, else the terminal's width (of a wide one 120); 80 in a terminal that
 * does not say, 100 in a pipe. Found once. */
int screen_columns(void);

/* printf behind a label, wrapped; "" goes on below a label. */
void screen_line(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* printf from the first column on, wrapped below it: what a screen is about. */
void screen_title(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Words for a shell: a line that goes on ends with a backslash, so that all can be copied. */
void screen_command(const char *label, const char *words);

/* Text that was laid out for wider windows: each line is wrapped where it is too wide, and goes on
 * below its own beginning. */
void screen_print(const char *text);

/* What is printed between these two is kept, then printed as screen_print does. */
void screen_hold(void);
void screen_release(void);

/* ---- tables */

typedef struct screen_column {
    const char *title;
    bool left; /* its cells start where they start; else they end together */
    int spare; /* above 0: left out where the window is narrow, the highest first */
} screen_column;

/* cells[row * n + column]; NULL is empty. The last column is wrapped. */
void screen_table(const screen_column *columns, int n, const char *const *cells, int rows);

/* ---- bars */

typedef struct screen_part {
    const char *name;
    double amount;
    char letter;
} screen_part;

/* "|wwwwgggg....|" in `width` columns. `room` above the sum: dots; below it: a '!' stands for what
 * is above. */
const char *screen_bar(arena *a, const screen_part *parts, int n, double room, int width);
int screen_bar_width(void); /* so that a few words have room behind it */

/* ---- numbers */

/* out[i] * unit is about x[i], and their sum is the rounded sum. */
void screen_round(int64_t *out, const double *x, int n, double unit);

const char *screen_number(arena *a, double x);     /* "1,230", "132", "13.2", "0.0132" */
const char *screen_seconds(arena *a, double s);    /* "132 s", "2.68 ms", "6.18 us" */
const char *screen_bytes(arena *a, double bytes);  /* "70.3 GiB", "192 MiB" */
const char *screen_flops(arena *a, double per_s);  /* "298 TFLOP/s", "12.3 GFLOP/s" */
const char *screen_count(arena *a, double n);      /* "247 M" */
const char *screen_percent(arena *a, double part); /* 0.014: "+1.4 %" */

/* "132 s (111 to 158)": one unit, and no more digits than a band of that width bears. */
const char *screen_band(arena *a, double s, double low_s, double high_s);

/* Text in a colour that means something: fits, does not, changed. */
const char *screen_coloured(arena *a, colour c, const char *text);

#endif
