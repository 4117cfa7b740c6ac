/* waiting.h - a line on the terminal while a command works: what it is at, and how long it will
 * take.
 *
 *     moefold check: programs of 256 ranks, 3 s so far, 42 %, about 4 s left
 *
 * Work that may take more than two seconds is put between waiting_begin and waiting_end; who does
 * it says how far it is (waiting_part), from whatever depth and thread, or a limit of time is known
 * beforehand. A thread of its own draws, so that the work needs no place for it. Nothing is drawn
 * before a second and a half, nothing where the standard error is no terminal that can erase a
 * line, and nothing stays: the line is gone when waiting_end returns. In between nobody prints. */
#ifndef BASE_WAITING_H
#define BASE_WAITING_H

#include "base/planted.h"

typedef enum waiting_limit {
    WAITING_UNKNOWN, /* waiting_part tells */
    WAITING_ABOUT,   /* it takes about so many seconds */
    WAITING_AT_MOST, /* it ends after so many, or sooner */
} waiting_limit;

/* `command` and `what` stay the caller's and stay in place. A begin inside another one's work only
 * counts: the outer line stays. */
void waiting_begin(const char *command, const char *what, waiting_limit limit, double seconds);

/* A part from 0 to 1 of the work is done. Cheap; nothing where nobody waits. */
void waiting_part(double part);

void waiting_end(void);

/* Takes the line away for now: who prints in between, after all, calls it before. */
void waiting_clear(void);

/* The line after so many seconds; `part` below 0: not known. For waiting.c and its test. */
typedef struct waiting_state {
    const char *command, *what;
    waiting_limit limit;
    double seconds, elapsed, part;
} waiting_state;
void waiting_text(char *out, int room, const waiting_state *w);

/* Seconds before the first line in a test build, whose tests have no time. */
PLANTED double planted_waiting(double otherwise);

#endif
