/* fuzz.h - what the fuzz targets share: the input as a text, and what must hold of every reader.
 *
 * I1  A reader returns OK or ERR_INPUT, whatever it is given.
 * I2  A refusal has a message; a success has none.
 * I3  A value that was taken survives its text form: value_text, read again, is equal. So what
 *     `moefold show` prints can be given back as an override. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "config/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) fuzz_fail(__FILE__, __LINE__, #condition);                               \
    } while (0)

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* Returns whether the reader accepted. */
static inline bool fuzz_accepted(status s, const error *err)
{
    MUST(s == OK || s == ERR_INPUT);        /* I1 */
    MUST((s == OK) == (err->text[0] == 0)); /* I2 */
    return s == OK;
}

static inline void fuzz_value(arena *a, value v) /* I3 */
{
    value again;
    error err = {0};
    const char *text = value_text(a, v);
    status s = value_parse(a, text, &again, &err);
    if (s || !value_equal(v, again)) fprintf(stderr, "text: %s\nmessage: %s\n", text, err.text);
    MUST(s == OK);
    MUST(value_equal(v, again));
}

/* Every setting has an origin and a reason, and can be given as an override (I3). */
static inline void fuzz_settings(const recipe *r)
{
    MUST(r->n_aliases >= 0 && r->n_aliases <= ALIASES_MAX);
    MUST(r->n_notes >= 0 && r->n_notes <= NOTES_MAX);
    recipe other;
    recipe_init(&other, r->a, "override");
    for (knob_id k = 0; k < K_COUNT; k++) {
        const setting *set = &r->knob[k];
        if (set->from == FROM_NOTHING) continue;
        MUST(set->why && set->why[0]);
        fuzz_value(r->a, set->v);
        error err = {0};
        const char *text = arena_text(r->a, "%s=%s", knobs[k].key, value_text(r->a, set->v));
        status s = recipe_override(&other, text, "command line", &err);
        if (s) fprintf(stderr, "override: %s\nmessage: %s\n", text, err.text);
        MUST(s == OK);
        MUST(value_equal(other.knob[k].v, set->v));
    }
}

#endif
