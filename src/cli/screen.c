/* screen.c - lines within the window, tables, bars, numbers with units (screen.h: S1 to S3). */
#include "cli/screen.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- the window */

enum { LEAST = 40, MOST = 120, TERMINAL = 80, PIPE = 100 };

int screen_columns(void)
{
    static int known;
    if (known) return known;
    const char *said = getenv("COLUMNS");
    long n = said ? strtol(said, NULL, 10) : 0;
    struct winsize w = {0};
    if (n <= 0 && !isatty(STDOUT_FILENO)) n = PIPE;
    if (n <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
        n = w.ws_col < MOST ? w.ws_col : MOST;
    if (n <= 0) n = TERMINAL;
    known = n < LEAST ? LEAST : n > 10000 ? 10000 : (int)n;
    return known;
}

/* ---- wrapping (S1) */

/* Bytes of the character or escape sequence at s; *wide: the columns that it takes. */
static size_t character(const char *s, int *wide)
{
    size_t n = 1;
    *wide = 1;
    if (*s == '\033' && s[1] == '[') {
        n = 2 + strcspn(s + 2, "m");
        *wide = 0;
        return s[n] ? n + 1 : n;
    }
    while (((unsigned char)s[n] & 0xc0) == 0x80) n++;
    return n;
}

static int width_of(const char *s, size_t n)
{
    int all = 0, wide;
    for (size_t i = 0; i < n; all += wide) i += character(s + i, &wide);
    return all;
}

static bool is_unit(const char *word, size_t n)
{
    static const char *const units[] = {
        "%", "s", "ms", "us", "bytes", "KiB",       "MiB",     "GiB",     "TiB",
        "K", "M", "B",  "T",  "GPUs",  "tok/s/GPU", "MFLOP/s", "GFLOP/s", "TFLOP/s"};
    while (n && strchr(",.;:)", word[n - 1])) n--;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i]) == n && strncmp(units[i], word, n) == 0) return true;
    return false;
}

/* "TP 8": a size stays with its name. */
static bool is_size(const char *s, size_t blank)
{
    size_t n = blank;
    while (n && isupper((unsigned char)s[n - 1])) n--;
    return blank - n >= 2 && (!n || s[n - 1] == ' ' || s[n - 1] == '(') &&
           isdigit((unsigned char)s[blank + 1]);
}

/* Length of the next piece: up to two blanks (`words`: up to one that may break), or the end. */
static size_t piece(const char *s, bool words)
{
    size_t n = 0;
    for (; s[n]; n++) {
        if (s[n] != ' ') continue;
        if (s[n + 1] == ' ' || !s[n + 1]) return n;
        bool unit =
            n && isdigit((unsigned char)s[n - 1]) && is_unit(s + n + 1, strcspn(s + n + 1, " "));
        if (words && !unit && !is_size(s, n)) return n;
    }
    return n;
}

/* Bytes of a word that fill `room` columns, up to a mark that a word may be broken behind. */
static size_t part_of_word(const char *s, size_t n, int room)
{
    size_t at = 0, mark = 0;
    int used = 0, wide;
    while (at < n) {
        size_t step = character(s + at, &wide);
        if (used + wide > room) break;
        used += wide;
        at += step;
        if (strchr(",=/+:;.", s[at - 1]) && used > room / 2) mark = at;
    }
    return at == n || !mark ? at : mark;
}

typedef struct pen {
    int at, hang, columns;
    const char *end; /* of a line that goes on */
} pen;

static void next_line(pen *p)
{
    printf("%s\n%*s", p->end, p->hang, "");
    p->at = p->hang;
}

/* What lies between `blanks` and the next break. */
static void put(pen *p, int blanks, const char *s, size_t n)
{
    int wide = width_of(s, n);
    bool beyond = p->at + blanks + wide > p->columns;
    if (beyond && p->at > p->hang) {
        next_line(p);
        blanks = 0;
    } else if (beyond && blanks > p->hang) {
        blanks = p->hang; /* a line that begins far in */
    }
    printf("%*s", blanks, "");
    p->at += blanks;
    while (p->at + width_of(s, n) > p->columns && !*p->end) {
        size_t part = part_of_word(s, n, p->columns - p->at);
        if (!part || part >= n) break;
        printf("%.*s", (int)part, s);
        s += part;
        n -= part;
        next_line(p);
    }
    printf("%.*s", (int)n, s);
    p->at += width_of(s, n);
}

static void wrap(pen *p, const char *s)
{
    bool first = true;
    while (*s) {
        size_t blanks = strspn(s, " "), n = piece(s + blanks, false);
        int wide = width_of(s + blanks, n);
        bool whole = p->at + (int)blanks + wide <= p->columns || p->hang + wide <= p->columns;
        s += blanks;
        if (!n) break;
        if (whole && (first || blanks > 1) && !*p->end) {
            put(p, (int)blanks, s, n);
        } else {
            for (size_t at = 0, gap = blanks; at < n;) {
                size_t word = piece(s + at, true);
                if (at + word > n) word = n - at;
                put(p, (int)gap, s + at, word);
                at += word;
                gap = strspn(s + at, " ");
                at += gap;
            }
        }
        s += n;
        first = false;
    }
    putchar('\n');
}

static pen begin(const char *label)
{
    int wide = width_of(label, strlen(label));
    pen p = {.at = SCREEN_LABEL, .hang = SCREEN_LABEL, .columns = screen_columns(), .end = ""};
    colour_print(stdout, *label ? COLOUR_HEADING : COLOUR_NONE, label);
    printf("%*s", wide < SCREEN_LABEL ? SCREEN_LABEL - wide : 1, "");
    if (wide >= SCREEN_LABEL) p.at = wide + 1;
    return p;
}

static void say(pen *p, const char *format, va_list args)
{
    arena *a = arena_create();
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = arena_take(a, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    wrap(p, text);
    arena_destroy(a);
}

void screen_line(const char *label, const char *format, ...)
{
    pen p = begin(label);
    va_list args;
    va_start(args, format);
    say(&p, format, args);
    va_end(args);
}

void screen_title(const char *format, ...)
{
    pen p = {.hang = 2, .columns = screen_columns(), .end = ""};
    va_list args;
    va_start(args, format);
    say(&p, format, args);
    va_end(args);
}

void screen_command(const char *label, const char *words)
{
    pen p = begin(label);
    p.columns -= 2;
    p.end = " \\";
    wrap(&p, words);
}

/* A heading of the first column has the rest of its line below its text; what is further in goes on
 * two columns further in. */
static int hang_of(const char *line)
{
    int in = (int)strspn(line, " ");
    if (in) return in + 2;
    const char *gap = strstr(line, "  ");
    int text = gap ? (int)(gap - line) + (int)strspn(gap, " ") : 2;
    return text <= 12 ? text : 2;
}

void screen_print(const char *text)
{
    arena *a = arena_create();
    while (*text) {
        size_t n = strcspn(text, "\n");
        const char *line = arena_copy(a, text, n);
        pen p = {.hang = hang_of(line), .columns = screen_columns(), .end = ""};
        if (p.hang > p.columns / 2) p.hang = p.columns / 4;
        if (width_of(line, n) <= p.columns)
            printf("%s\n", line);
        else
            wrap(&p, line);
        text += n + (text[n] == '\n');
    }
    arena_destroy(a);
}

static FILE *held; /* what is kept; NULL: nothing is, or no file could be made */
static int own_output;

void screen_hold(void)
{
    screen_columns(); /* both ask what the standard output is */
    colour_on(stdout, COLOUR_HEADING);
    fflush(stdout);
    held = tmpfile();
    own_output = held ? dup(STDOUT_FILENO) : -1;
    if (own_output >= 0) dup2(fileno(held), STDOUT_FILENO);
}

void screen_release(void)
{
    fflush(stdout);
    if (own_output >= 0) {
        dup2(own_output, STDOUT_FILENO);
        close(own_output);
        long n = (fseek(held, 0, SEEK_END), ftell(held));
        arena *a = arena_create();
        char *text = arena_take(a, (size_t)n + 1);
        rewind(held);
        text[fread(text, 1, (size_t)n, held)] = 0;
        screen_print(text);
        arena_destroy(a);
    }
    if (held) fclose(held);
    held = NULL;
}

/* ---- tables */

static int cell_width(const screen_column *c, int n, const char *const *cells, int rows, int column)
{
    int most = width_of(c[column].title, strlen(c[column].title));
    for (int i = 0; i < rows; i++) {
        const char *s = cells[i * n + column];
        int wide = s ? width_of(s, strlen(s)) : 0;
        if (wide > most) most = wide;
    }
    return most;
}

void screen_table(const screen_column *columns, int n, const char *const *cells, int rows)
{
    enum { COLUMNS_MAX = 24, LAST = 24 }; /* the last column has so much, or all that it needs */
    int wide[COLUMNS_MAX], all = SCREEN_LABEL;
    bool out[COLUMNS_MAX] = {false};
    if (n > COLUMNS_MAX) n = COLUMNS_MAX;
    for (int c = 0; c < n; c++) wide[c] = cell_width(columns, n, cells, rows, c);
    for (int c = 0; c < n - 1; c++) all += wide[c] + 2;
    all += wide[n - 1] < LAST ? wide[n - 1] : LAST;
    while (all > screen_columns()) {
        int most = 0;
        for (int c = 1; c < n - 1; c++)
            if (!out[c] && columns[c].spare > (most ? columns[most].spare : 0)) most = c;
        if (!most) break;
        out[most] = true;
        all -= wide[most] + 2;
    }
    for (int i = -1; i < rows; i++) {
        int at = SCREEN_LABEL;
        printf("%*s", at, "");
        for (int c = 0; c < n; c++) {
            const char *s = i < 0 ? columns[c].title : cells[i * n + c];
            if (out[c]) continue;
            if (!s) s = "";
            int own = width_of(s, strlen(s)), blanks = wide[c] - own;
            if (c == n - 1) {
                pen p = {.at = at, .hang = at, .columns = screen_columns(), .end = ""};
                if (!columns[c].left && blanks > 0 && at + wide[c] <= p.columns)
                    p.at += printf("%*s", blanks, "");
                wrap(&p, s);
                break;
            }
            printf("%*s%s%*s", columns[c].left ? 0 : blanks, "", s,
                   (columns[c].left ? blanks : 0) + 2, "");
            at += wide[c] + 2;
        }
    }
}

/* ---- bars */

int screen_bar_width(void)
{
    int n = screen_columns() - SCREEN_LABEL - 32;
    return n < 20 ? 20 : n > 60 ? 60 : n;
}

const char *screen_bar(arena *a, const screen_part *parts, int n, double room, int width)
{
    char *s = arena_take(a, (size_t)width + 1);
    double sum = 0, shown = 0;
    for (int i = 0; i < n; i++) sum += parts[i].amount;
    double whole = sum > room ? sum : room;
    int end = width - 2, at = 1;
    s[0] = '|';
    for (int i = 0; i < n && whole > 0; i++) {
        shown += parts[i].amount;
        int to = 1 + (int)(shown / whole * end + 0.5);
        for (; at < to; at++)
            s[at] = room > 0 && at - 1 >= (int)(room / whole * end + 0.5) ? '!' : parts[i].letter;
    }
    for (; at <= end; at++) s[at] = '.';
    s[at++] = '|';
    s[at] = 0;
    return s;
}

/* ---- numbers (S2, S3) */

void screen_round(int64_t *out, const double *x, int n, double unit)
{
    double sum = 0;
    int64_t given = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i];
        out[i] = (int64_t)floor(x[i] / unit);
        given += out[i];
    }
    for (int64_t left = llround(sum / unit) - given; left > 0; left--) {
        int most = 0; /* the largest that is still to be given */
        for (int i = 1; i < n; i++)
            if (x[i] / unit - (double)out[i] > x[most] / unit - (double)out[most]) most = i;
        out[most]++;
    }
}

/* With so many digits behind the point; "1,230". */
static const char *fixed(arena *a, double x, int digits)
{
    if (digits > 0) return arena_text(a, "%.*f", digits, x);
    double unit = pow(10, -digits);
    return text_grouped(a, llround(x / unit) * llround(unit));
}

/* So that x has three digits. */
static int digits_of(double x)
{
    return x > 0 ? 2 - (int)floor(log10(x * (1 + 5e-4))) : 0;
}

const char *screen_number(arena *a, double x)
{
    double size = fabs(x);
    return fixed(a, x, digits_of(size));
}

typedef struct unit {
    double size;
    const char *name;
} unit;

/* The last is the smallest. */
static const unit *unit_for(const unit *units, double x)
{
    while (units[1].name && fabs(x) < units->size * (1 - 5e-4)) units++;
    return units;
}

static const unit times[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {0, NULL}};

static const char *with_unit(arena *a, double x, const unit *units)
{
    const unit *u = unit_for(units, x);
    return arena_text(a, "%s%s%s", screen_number(a, x / u->size), *u->name ? " " : "", u->name);
}

const char *screen_seconds(arena *a, double s)
{
    return s == 0 ? "0 s" : with_unit(a, s, times);
}

const char *screen_bytes(arena *a, double bytes)
{
    static const unit units[] = {
        {1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"},
        {1024.0, "KiB"},          {1, "bytes"},          {0, NULL}};
    return bytes == 0 ? "0" : with_unit(a, bytes, units);
}

const char *screen_flops(arena *a, double per_s)
{
    static const unit units[] = {{1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}, {0, NULL}};
    return with_unit(a, per_s, units);
}

const char *screen_count(arena *a, double n)
{
    static const unit units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"},
                                 {1e4, "K"},  {1, ""},    {0, NULL}};
    const unit *u = unit_for(units, n);
    double size = u->size > 1e3 && u->size < 1e5 ? 1e3 : u->size;
    if (size <= 1) return text_grouped(a, llround(n));
    return arena_text(a, "%s %s", screen_number(a, n / size), u->name);
}

const char *screen_percent(arena *a, double part)
{
    double x = 100 * part;
    if (fabs(x) < 0.05) return "0 %";
    return arena_text(a, fabs(x) < 9.95 ? "%+.1f %%" : "%+.0f %%", x);
}

/* An end of a band: with no more digits than its middle has. */
static const char *bound(arena *a, double x, int digits)
{
    int own = digits_of(x);
    return fixed(a, x, own < digits ? own : digits);
}

const char *screen_band(arena *a, double s, double low_s, double high_s)
{
    const unit *u = unit_for(times, s);
    if (!(high_s > low_s)) return screen_seconds(a, s);
    int digits = digits_of(s / u->size);
    while ((high_s - low_s) / u->size < 4 * pow(10, -digits)) digits++; /* a band that shows */
    return arena_text(a, "%s %s (%s to %s)", fixed(a, s / u->size, digits), u->name,
                      bound(a, low_s / u->size, digits), bound(a, high_s / u->size, digits));
}

const char *screen_coloured(arena *a, colour c, const char *text)
{
    return arena_text(a, "%s%s%s", colour_on(stdout, c), text, c ? colour_off(stdout) : "");
}
