/* answer.h - what commands answer, as structs: one a table of answer.def, with a field a row.
 *
 * A command fills one; its text is written by hand from it, and answer_json writes what programs
 * read. Lists are a pointer and a count (`n_` before the name). What is not known is NULL, NAN,
 * FIELD_NONE or MAYBE_UNKNOWN. Memory of what is filled comes from the arena `a`. */
#ifndef ANSWER_ANSWER_H
#define ANSWER_ANSWER_H

#include "base/fields.h"
#include "predict/fit.h"

/* clang-format off */
#define ANSWER(name) \
    typedef struct name name; \
    const field *name##_fields(void); \
    struct name {
#define SECTION(name, ...)         ANSWER(name)
#define END                        };
#define OR_NULL(type, ...)         type(__VA_ARGS__)
#define OR_NONE(type, ...)         type(__VA_ARGS__)
#define BOOL(key, ...)             bool key;
#define MAYBE(key, ...)            signed char key;
#define INT(key, ...)              int64_t key;
#define INT_AS(text, key, ...)     int64_t key;
#define BYTES(key, ...)            int64_t key;
#define REAL(key, ...)             double key;
#define SECONDS(key, ...)          double key;
#define TEXT(key, ...)             const char *key;
#define TEXTS(key, ...)            const char *const *key;
#define TEXT_LISTS(key, ...)       const char *const *const *key;
#define PAIR(key, ...)             double key[2];
#define REALS(key, ...)            const double *key; int n_##key;
#define INTS(key, ...)             const int64_t *key; int64_t n_##key;
#define RAW(key, ...)              json_t *key;
#define RAW_AS(text, key, ...)     json_t *key;
#define PART(key, of, ...)         const struct of *key;
#define PART_AS(text, key, of, ...) const struct of *key;
#define JOIN(key, of)              const struct of *key;
#define POINTERS(key, of, ...)     const struct of *const *key; int n_##key;
#define LIST(key, of, ...)         const struct of *key; int n_##key;
#define MAP(key, of, ...)          const struct of *key; int n_##key;
#define SPREAD(key, of, ...)       const struct of *key; int n_##key;
/* clang-format on */
#include "answer/answer.def"

const field *price_change_fields(void);
const field *not_priced_fields(void);
const field *peak_part_fields(void);

#define answer_json(name, it) fields_json(name##_fields(), it)

/* The sections of docs/JSON.md that are made of the tables; the JSON Schema of each command. */
void answer_document(textbuf *out);
json_t *answer_schema(void);

/* ---- of a setup */

const violation_answer *answer_violations(int *n, const violations *found, arena *a);
const fit_answer *answer_fit(const fit *f, arena *a);
const model_answer *answer_model(const setup *s, arena *a);
const layout_answer *answer_layout(const setup *s, arena *a);
const reported_answer *answer_reported(const reported *r, bool megatron, arena *a);
const peak_part *answer_peak(int *n, const reported *r, const int64_t *arena_parts, arena *a);

/* State of a rank of pipeline stage `pp_rank`; with `f` what else it holds. NULL: the sizes allow
 * no layout. */
const rank_memory_answer *answer_memory(const setup *s, int64_t pp_rank, const fit *f, arena *a);

/* The pipeline rank of the fullest rank; where its peak is not known, of that with most state. */
int64_t answer_stage(const setup *s, const fit *f);

/* Regions that are shown of `bytes` [REGION_COUNT]. */
const bytes_answer *answer_regions(int *n, const int64_t *bytes, arena *a);

json_t *answer_value(value v);
const char *const *answer_texts(const char *const *list, int n, arena *a);

#endif
