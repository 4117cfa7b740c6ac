/* fields.h - the fields of a struct as a table, and what is made of such a table: JSON of a struct,
 * the JSON Schema that it follows, and rows for its documentation.
 *
 * The first row of a table is its head: `key` is its name and `words` say what it is. The last one
 * has no key. Empty is a NULL pointer, NAN, FIELD_NONE or MAYBE_UNKNOWN; what then stands in JSON
 * is in `need`. An empty list is [] and an empty map {} where ALWAYS. */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include <math.h>
#include <stdint.h>

#include "base/json.h"
#include "base/text.h"

#define FIELD_NONE INT64_MIN /* of an int64_t */
enum { MAYBE_UNKNOWN = -1 }; /* of a signed char: else 0 or 1 */

typedef enum field_need { ALWAYS, NULLABLE, OPTIONAL } field_need;

typedef enum field_kind {
    FIELD_BOOL,
    FIELD_MAYBE,
    FIELD_INT,
    FIELD_INT64,
    FIELD_REAL,
    FIELD_TEXT,
    FIELD_TEXTS,      /* ends with NULL */
    FIELD_TEXT_LISTS, /* of such lists; ends with NULL */
    FIELD_PAIR,       /* of doubles */
    FIELD_REALS,      /* a list of doubles, NAN: null */
    FIELD_INTS,       /* a list of int64_t */
    FIELD_JSON,       /* handed over to what is written; `unit` is its type in JSON */
    FIELD_PART,       /* a struct with a table, by pointer */
    FIELD_LIST,       /* of those */
    FIELD_POINTERS,   /* to those, any of which may be NULL */
    FIELD_MAP,        /* the same: the first field is the key; a single one beside it the value */
    FIELD_JOINED,     /* a part or a map whose fields are this struct's own */
    FIELD_KINDS
} field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    field_need need;
    const char *unit, *words;
    const struct field *(*of)(void); /* the table of its parts */
    size_t at, size;                 /* place in the struct; bytes of a part */
    size_t n_at, n_size;             /* of a list: its count */
} field;

json_t *fields_json(const field *table, const void *it);
json_t *fields_list(const field *table, const void *items, size_t size, int64_t n);

/* Rows of Markdown, a field a row, those of its parts beneath it. */
void fields_rows(textbuf *out, const field *table);

/* {name: schema} of a table and of all that it needs goes to `done`; returns a reference to it. */
json_t *fields_reference(json_t *done, const field *table);

#endif
