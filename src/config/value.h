/* value.h - what a knob can hold, and its text form.
 *
 * The text form is that of Hydra overrides, YAML scalars and our exports alike: null, true, 4096,
 * 1e-3, words, 'quoted text', [lists, [of, lists]]. Values never change once made; they live in an
 * arena. */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

typedef enum value_kind { V_NULL, V_BOOL, V_INT, V_FLOAT, V_TEXT, V_LIST } value_kind;

typedef struct value {
    value_kind kind;
    union {
        bool flag;
        int64_t whole;
        double real;
        const char *text;
        struct {
            const struct value *items;
            int n;
        } list;
    };
} value;

/* Parses a whole override value. A number that does not fit is an error, not text. */
status value_parse(arena *a, const char *s, value *out, error *err);

/* A plain scalar: the same, but brackets and commas are text (YAML has read the lists already). */
status value_scalar(arena *a, const char *s, value *out, error *err);

/* The same two for what holds text: all but null, quotes and lists is text as it is written, and
 * YAML has one spelling of null more. 1.10 and 1e3 are names of folders, not numbers. */
status value_parse_text(arena *a, const char *s, value *out, error *err);
value value_scalar_text(const char *s);

void value_print(textbuf *t, value v);
const char *value_text(arena *a, value v);
/* "128K" is 131072, "2M" 2097152 (K = 1024, M = 1024 squared), "8" is 8; false: no such size. */
bool value_size(const char *s, int64_t *out);

bool value_equal(value a, value b); /* 1 equals 1.0 */

/* "null", "true or false", "a whole number", ...: for messages. */
const char *value_kind_name(value_kind kind);

static inline value value_of_int(int64_t whole)
{
    return (value){.kind = V_INT, .whole = whole};
}
static inline value value_of_bool(bool flag)
{
    return (value){.kind = V_BOOL, .flag = flag};
}
static inline value value_of_float(double real)
{
    return (value){.kind = V_FLOAT, .real = real};
}
static inline value value_of_text(const char *word)
{
    return (value){.kind = V_TEXT, .text = word};
}

#endif
