/* text.h - strings: a growing buffer, numbers, and the nearest word. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* A buffer that grows in an arena; always ends with a 0. */
typedef struct textbuf {
    arena *a;
    char *s;
    size_t n, room;
} textbuf;

textbuf text_init(arena *a);
void text_add(textbuf *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_put(textbuf *t, const char *s, size_t n);

/* The shortest digits that read back as the same number; whole ones without an exponent. */
void text_real(textbuf *t, double v);

bool text_equal(const char *a, const char *b); /* both may be NULL */
bool text_starts(const char *s, const char *prefix);

/* Is `word` one of the `sep`-separated words of `list`? */
bool text_in(const char *list, char sep, const char *word);

/* The length of the UTF-8 character at s, of which `left` bytes are there, or 0: it is none, or a
 * control character other than a tab or the end of a line. */
size_t text_character(const char *s, size_t left);

/* Is it UTF-8 without control characters but tabs? What is foreign is asked this first. */
bool text_is_plain(const char *s);

/* What is foreign as it may be printed: control characters and bytes that are not UTF-8 are escaped
 * (\n, \x1b), so that nothing moves a terminal's cursor or ends a line of a script. With `lines`
 * the ends of lines stay. Cut to fit. */
void text_escape(char *out, size_t room, const char *s, bool lines);
const char *text_visible(arena *a, const char *s); /* s itself, where it is plain */

/* How many words begin so (three letters or more, whatever the case); *first is the first of them,
 * or NULL. */
int text_begun(const char *word, const char *const *words, int n_words, const char **first);

/* The word of `words` that is fewest edits from `word` (a swap of neighbours is one edit), or NULL
 * when none is near enough to be what was meant. */
const char *text_nearest(const char *word, const char *const *words, int n_words);

/* What a person meant: the words that begin so ("a, b or c"), else the nearest; NULL: none. */
const char *text_meant(arena *a, const char *word, const char *const *words, int n_words);

/* How many edits of a word still leave it recognisable: one in three letters, at least one. */
int text_near(const char *word);

/* How many edits lead from a to b, swaps of neighbours included, whatever the case; long words
 * count as far. */
int text_distance(const char *a, const char *b);

/* Case-insensitive search. */
bool text_contains(const char *s, const char *part);

/* 1234567 -> "1,234,567" */
const char *text_grouped(arena *a, int64_t n);

/* 671026404352 -> "671.03 B", 1251328 -> "1.25 M" */
const char *text_count(arena *a, int64_t n);

/* 36408905728 -> "33.91 GiB" */
const char *text_bytes(arena *a, int64_t bytes);

/* "1,999 s", "12.3 s", "0.02 s" */
const char *text_seconds(arena *a, double seconds);

#endif
