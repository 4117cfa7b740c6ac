/* slow_op.h - an operation that takes longer than it does: for tests of those who look for it.
 *
 * MOEFOLD_SLOW_OP=NAME:MILLISECONDS in the environment ("experts.fc1:2"): after each operation of
 * that name the host computes nothing for so long, before the next is put. On the CPU that is the
 * operation's own time. */
#ifndef TRAIN_EXECUTOR_SLOW_OP_H
#define TRAIN_EXECUTOR_SLOW_OP_H

#include <stddef.h>

#include "base/status.h"

typedef struct slow_op {
    const char *name; /* in the environment, of n bytes; NULL: none is */
    size_t n;
    double seconds;
} slow_op;

/* ERR_INPUT: the variable says something else. */
status slow_op_read(slow_op *out, error *err);
void slow_op_wait(const slow_op *s, const char *name);

#endif
