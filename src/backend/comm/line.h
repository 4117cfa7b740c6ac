/* line.h - one line to people about a rank: also from a signal handler, so without stdio and
 * without taking memory. Inside src/backend/comm only. */
#ifndef BACKEND_COMM_LINE_H
#define BACKEND_COMM_LINE_H

#include "backend/comm/state.h"

typedef struct line {
    char text[3072];
    size_t n;
} line;

void line_put(line *l, const char *s); /* NULL: nothing */
void line_number(line *l, long long v);
void line_address(line *l, const void *at);

void line_rank(line *l, const comm *c); /* "moefold: rank 1 of 4: " */

/* What the rank computes, behind `before`; nothing where that is not known. */
void line_where(line *l, comm *c, const char *before);

/* "ALL_GATHER weights (group dp-cp, update AdamW)": the message that it waits in. */
void line_operation(line *l, comm *c);

/* "while it waits in ...", "while it is saving a checkpoint", "while it computes: ..." */
void line_doing(line *l, comm *c);

void line_say(line *l); /* to the standard error */

#endif
