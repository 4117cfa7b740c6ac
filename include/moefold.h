/* moefold.h - the planner as a library: the answers of `moefold check`, `price` and `plan`.
 *
 * A question is the words that follow the command's name on a command line, options included:
 * {"deepseek-v3", "--gpus", "256xH100", "--seq", "128K"}. The answer is what --json prints, with
 * the fields of `moefold help json` (docs/JSON.md), found by their path: "fits",
 * "memory.peak_parts.0.bytes", "violations.0.rule".
 *
 * Nothing here prints, ends the process or keeps data between calls. Calls of several threads know
 * nothing of one another. */
#ifndef MOEFOLD_H
#define MOEFOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the program and of what it answers: fields come and go with its first two numbers. */
#define MOEFOLD_VERSION "0.1.0"
const char *moefold_version(void); /* of the library that is there when a program runs */

/* The first four are the program's exit codes. */
typedef enum moefold_status {
    MOEFOLD_OK,
    MOEFOLD_RULE,    /* a rule is broken, or it does not fit: the answer says which; or none */
    MOEFOLD_INPUT,   /* a word or a file is wrong; no answer */
    MOEFOLD_MACHINE, /* the machine failed; no answer */
    MOEFOLD_CANCELLED,
    MOEFOLD_MEMORY, /* there is none left, or no more than moefold_watch.memory */
} moefold_status;

typedef struct moefold_answer moefold_answer;

/* How a call is watched; NULL for one that is not. */
typedef struct moefold_watch {
    /* Called at most fifty times a second, in the thread of the call: what it is at, and which part
     * of that is done (0 to 1; below 0: not known). False ends the call: MOEFOLD_CANCELLED. */
    bool (*goes_on)(void *with, const char *what, double part);
    void *with;
    size_t memory; /* bytes that the call may use while it works; 0: what there is */
} moefold_watch;

/* Each sets *answer, which moefold_free gives back; NULL where not even that could be made. */
moefold_status moefold_check(moefold_answer **answer, const char *const *words, int n,
                             const moefold_watch *watch);
moefold_status moefold_price(moefold_answer **answer, const char *const *words, int n,
                             const moefold_watch *watch);
moefold_status moefold_plan(moefold_answer **answer, const char *const *words, int n,
                            const moefold_watch *watch);
void moefold_free(moefold_answer *answer); /* may be NULL, as may `answer` below */

/* What is wrong, with the repair, as the program says it; "": nothing, or the answer says it. */
const char *moefold_why(const moefold_answer *answer);

/* False, NULL, -1: there is no such field, it is null, or of another type. Texts live as long as
 * the answer. */
bool moefold_bool(const moefold_answer *answer, const char *path, bool *out);
bool moefold_integer(const moefold_answer *answer, const char *path, int64_t *out);
bool moefold_real(const moefold_answer *answer, const char *path, double *out); /* integers, too */
const char *moefold_text(const moefold_answer *answer, const char *path);
int64_t moefold_count(const moefold_answer *answer, const char *path); /* of a list or an object */

/* All of it as --json prints it; free() gives it back. NULL: there is no answer. */
char *moefold_json(const moefold_answer *answer);

#ifdef __cplusplus
}
#endif

#endif
