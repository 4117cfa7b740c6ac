/* caller.h - a call of another program, which goes on when the call does not: memory may be out, or
 * the answer may no longer be wanted.
 *
 * Such a call ends where it began, by a jump; what it holds is given back before: all arenas made
 * in it, and what caller_holds names. It is a thread's own: others know nothing of it. Where
 * nobody calls, in the program itself, all of this does nothing, and the host out of memory ends
 * the program (arena.c). */
#ifndef BASE_CALLER_H
#define BASE_CALLER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum caller_end {
    CALLER_DONE,
    CALLER_CANCELLED, /* goes_on was false */
    CALLER_NO_MEMORY,
} caller_end;

/* What is to be given back, in a list; a member or a local of who holds it. */
typedef struct caller_held {
    struct caller_held *next, *last; /* NULL: of no call */
    void (*give_back)(void *of);
    void *of;
} caller_held;

typedef struct caller {
    /* Asked some times a second, once it is said what the call is at: does it go on? `part` of the
     * work is done, below 0: not known. NULL: it does. */
    bool (*goes_on)(void *with, const char *what, double part);
    void *with;
    size_t most; /* bytes of all its arenas; 0: as many as there are */
    /* of caller.c */
    jmp_buf back;
    caller_held held;
    size_t taken;
    const char *what; /* NULL: nothing is said yet, and it is not asked */
    double asked;     /* of clock_seconds */
} caller;

/* Does `work`, as far as it goes. `c` has what stands before `back`. */
caller_end caller_run(caller *c, void (*work)(void *of), void *of);

/* Until it is dropped. */
void caller_holds(caller_held *h, void (*give_back)(void *of), void *of);
void caller_drops(caller_held *h);

/* May a chunk of so many bytes be taken? Then it counts until it is given back. */
bool caller_takes(size_t bytes);
void caller_gives(size_t bytes);
void caller_no_memory(void); /* does not return where somebody calls */

/* What the call is at now, NULL: nothing that takes time; false: nobody calls. */
bool caller_says(const char *what);

/* Ends the call where it is not to go on: asked of whatever takes time. True: somebody calls. */
bool caller_goes_on(double part);

#endif
