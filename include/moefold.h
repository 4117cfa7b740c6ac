/* moefold.h - the planner as a library, begun: a job, its check and its price.
 *
 * A job is what `moefold check WORDS` is asked. Nothing here prints, ends the process or keeps data
 * between calls; jobs of several threads know nothing of one another. An answer has the fields of
 * `moefold help json` (docs/JSON.md), found by their path: "fits", "memory.peak_parts.0.bytes",
 * "violations.0.rule". It belongs to the caller and may outlive its job. */
#ifndef MOEFOLD_H
#define MOEFOLD_H

#include <stdbool.h>
#include <stdint.h>

/* As the program's exit codes. */
typedef enum moefold_status {
    MOEFOLD_OK,
    MOEFOLD_RULE,    /* a rule is broken, or nothing can be built */
    MOEFOLD_INPUT,   /* a word or a file is wrong */
    MOEFOLD_MACHINE, /* the machine failed */
} moefold_status;

typedef struct moefold_job moefold_job;
typedef struct moefold_answer moefold_answer;

/* The first of `n` words is a preset model, a config.json or its folder, a recipe or an input of
 * Megatron-LM; the others are overrides, key=value. *out is set whatever is returned: moefold_why
 * says what is wrong, and moefold_close gives it back. */
moefold_status moefold_open(moefold_job **out, const char *const *words, int n);
void moefold_close(moefold_job *j); /* may be NULL */

/* Why the last call with this job was not MOEFOLD_OK, with the repair; "" where it was. */
const char *moefold_why(const moefold_job *j);

/* Every broken rule with its repairs, whether it fits, its layout and memory. A job that breaks a
 * rule or does not fit is an answer, not an error. */
moefold_status moefold_check(moefold_job *j, moefold_answer **out);

/* The predicted step. MOEFOLD_RULE: no program can be built. */
moefold_status moefold_price(moefold_job *j, moefold_answer **out);

void moefold_answer_free(moefold_answer *answer); /* may be NULL */

/* False, NULL, -1: there is no such field, it is null, or of another type. Texts live as long as
 * the answer. */
bool moefold_bool(const moefold_answer *answer, const char *path, bool *out);
bool moefold_integer(const moefold_answer *answer, const char *path, int64_t *out);
bool moefold_real(const moefold_answer *answer, const char *path, double *out); /* integers, too */
const char *moefold_text(const moefold_answer *answer, const char *path);
int64_t moefold_count(const moefold_answer *answer, const char *path); /* of a list or an object */

/* All of it as `--json` prints it; free() gives it back. */
char *moefold_json(const moefold_answer *answer);

#endif
