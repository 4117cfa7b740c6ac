/* text.c - strings. */
#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

textbuf text_init(arena *a)
{
    textbuf t = {.a = a, .s = arena_take(a, 256), .room = 256};
    return t;
}

static void make_room(textbuf *t, size_t more)
{
    if (t->n + more + 1 <= t->room) return;
    size_t room = t->room * 2 > t->n + more + 1 ? t->room * 2 : t->n + more + 1;
    char *s = arena_take(t->a, room);
    memcpy(s, t->s, t->n);
    t->s = s;
    t->room = room;
}

void text_put(textbuf *t, const char *s, size_t n)
{
    make_room(t, n);
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void text_add(textbuf *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n > 0) {
        make_room(t, (size_t)n);
        vsnprintf(t->s + t->n, (size_t)n + 1, format, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

void text_real(textbuf *t, double v)
{
    char shortest[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*g", digits, v);
        if (strtod(shortest, NULL) == v) break;
    }
    if (v == floor(v) && fabs(v) < 1e15)
        text_add(t, "%.1f", v);
    else
        text_add(t, "%s", shortest);
}

bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool text_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool text_in(const char *list, char sep, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, sep), p = p ? p + 1 : NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == sep || p[n] == 0)) return true;
    return false;
}

enum { WORD_MAX = 96, FAR = 1000, BEGINNING = 3 };

static bool same(char x, char y)
{
    return tolower((unsigned char)x) == tolower((unsigned char)y);
}

int text_near(const char *word)
{
    int letters = (int)strlen(word + strspn(word, "-"));
    return letters < 5 ? letters > 1 : (letters + 1) / 3;
}

int text_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na >= WORD_MAX || nb >= WORD_MAX) return FAR;
    int row[3][WORD_MAX]; /* distances of prefixes: two rows back, last row, this row */
    for (size_t j = 0; j <= nb; j++) row[1][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        row[2][0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int d = row[1][j - 1] + !same(a[i - 1], b[j - 1]);
            if (row[1][j] + 1 < d) d = row[1][j] + 1;
            if (row[2][j - 1] + 1 < d) d = row[2][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
            if (swapped && row[0][j - 2] + 1 < d) d = row[0][j - 2] + 1;
            row[2][j] = d;
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][nb];
}

static bool begins(const char *word, const char *start)
{
    size_t n = strlen(start), i = 0;
    while (i < n && word[i] && same(word[i], start[i])) i++;
    return i == n && n - strspn(start, "-") >= BEGINNING;
}

int text_begun(const char *word, const char *const *words, int n_words, const char **first)
{
    int n = 0;
    *first = NULL;
    for (int i = n_words - 1; i >= 0; i--)
        if (begins(words[i], word)) *first = words[i], n++;
    return n;
}

const char *text_nearest(const char *word, const char *const *words, int n_words)
{
    const char *best = NULL;
    int best_distance = text_near(word) + 1;
    for (int i = 0; i < n_words; i++) {
        size_t n = strlen(words[i]), m = strlen(word);
        if ((int)(n > m ? n - m : m - n) >= best_distance) continue; /* at least that many edits */
        int d = text_distance(word, words[i]);
        if (d < best_distance) {
            best_distance = d;
            best = words[i];
        }
    }
    return best;
}

const char *text_meant(arena *a, const char *word, const char *const *words, int n_words)
{
    const char *first;
    int left = text_begun(word, words, n_words, &first);
    if (!left) return text_nearest(word, words, n_words);
    textbuf t = text_init(a);
    for (int i = 0; i < n_words; i++) {
        if (!begins(words[i], word)) continue;
        left--;
        text_add(&t, "%s%s", words[i], left > 1 ? ", " : left ? " or " : "");
    }
    return t.s;
}

bool text_contains(const char *s, const char *part)
{
    size_t n = strlen(part);
    for (; *s || !n; s++) {
        size_t i = 0;
        while (i < n && s[i] && tolower((unsigned char)s[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == n) return true;
    }
    return false;
}

const char *text_grouped(arena *a, int64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    textbuf t = text_init(a);
    for (int i = 0; i < len; i++) {
        bool comma = i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0;
        text_add(&t, comma ? ",%c" : "%c", digits[i]);
    }
    return t.s;
}

const char *text_count(arena *a, int64_t n)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if ((double)n >= units[i].unit)
            return arena_text(a, "%.2f %s", (double)n / units[i].unit, units[i].name);
    return arena_text(a, "%" PRId64, n);
}

const char *text_bytes(arena *a, int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1024 && u < 5) {
        v /= 1024;
        u++;
    }
    return u == 0 ? arena_text(a, "%" PRId64 " bytes", bytes)
                  : arena_text(a, "%.2f %s", v, units[u]);
}

const char *text_seconds(arena *a, double s)
{
    if (s >= 100) return arena_text(a, "%s s", text_grouped(a, (int64_t)(s + 0.5)));
    return arena_text(a, s >= 10 ? "%.1f s" : s >= 1 ? "%.2f s" : "%.3g s", s);
}

const char *text_visible(arena *a, const char *s)
{
    if (text_is_plain(s)) return s;
    size_t room = 4 * strlen(s) + 1;
    char *out = arena_take(a, room);
    text_escape(out, room, s, false);
    return out;
}
