/* tune.h - what the command of a tuning has in hand. Internal to src/cli. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "measure/tune/tune.h"

typedef struct tune_words {
    bool json, next, everything;
    const char *minutes, *dir, *threads, *steps, *tell;
} tune_words;

/* For people, while it goes on. */
void tune_print_start(const tune *t, const setup *s, arena *a);
void tune_print_trial(const trial *x, arena *a);
void tune_print_end(const tune *t, const trial *x, bool everything);
void tune_print_close(int n);
void tune_print_confirmed(const tune *t);
void tune_print_done(const tune *t, const char *why, double seconds);

const tune_answer *tune_answer_of(const tune *t, const char *why, arena *a);
json_t *tune_json(const tune *t, const char *why, arena *a);

/* tune_cluster.c: the next trial as files, and what its log says. */
status tune_write_next(tune *t, const tune_next *n, bool json, arena *a, error *err);
status tune_take_log(tune *t, const char *log, bool json, arena *a, error *err);

#endif
