/* slow_op.c - emulated delays of operations. */
#include "train/executor/slow_op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

status slow_op_read(slow_op *out, error *err)
{
    const char *word = getenv("MOEFOLD_SLOW_OP");
    *out = (slow_op){0};
    if (!word || !*word) return OK;
    const char *colon = strrchr(word, ':');
    char *end = NULL;
    double ms = colon ? strtod(colon + 1, &end) : 0;
    if (!colon || colon == word || end == colon + 1 || *end || !(ms >= 0 && ms < 60000))
        return error_set(err, ERR_INPUT,
                         "MOEFOLD_SLOW_OP=%s: a name and milliseconds are needed; repair: "
                         "MOEFOLD_SLOW_OP=experts.fc1:2",
                         word);
    *out = (slow_op){word, (size_t)(colon - word), ms / 1000};
    return OK;
}

void slow_op_wait(const slow_op *s, const char *name)
{
    if (!name || strncmp(name, s->name, s->n) != 0 || name[s->n]) return;
    struct timespec t = {(time_t)s->seconds, (long)(1e9 * fmod(s->seconds, 1))};
    nanosleep(&t, NULL);
}
