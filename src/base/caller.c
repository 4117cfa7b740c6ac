/* caller.c - the call of a thread.
 *
 * I1  What is held is given back before the jump, the last first: it may lie on the stack. */
#include "base/caller.h"

#include "base/clock.h"

static const double BETWEEN_SECONDS = 0.02; /* of two questions */

static _Thread_local caller *now;

caller_end caller_run(caller *c, void (*work)(void *of), void *of)
{
    caller *outer = now;
    c->held = (caller_held){.next = &c->held, .last = &c->held};
    c->taken = 0;
    c->what = NULL;
    c->asked = 0;
    now = c;
    int ended = setjmp(c->back);
    if (!ended) work(of);
    now = outer;
    return (caller_end)ended;
}

static void end(caller_end how)
{
    caller *c = now;
    while (c->held.last != &c->held) { /* I1 */
        caller_held *h = c->held.last;
        caller_drops(h);
        h->give_back(h->of);
    }
    longjmp(c->back, (int)how);
}

void caller_holds(caller_held *h, void (*give_back)(void *of), void *of)
{
    *h = (caller_held){.give_back = give_back, .of = of};
    if (!now) return;
    h->next = &now->held;
    h->last = now->held.last;
    h->last->next = h;
    now->held.last = h;
}

void caller_drops(caller_held *h)
{
    if (!h->next) return;
    h->next->last = h->last;
    h->last->next = h->next;
    h->next = h->last = NULL;
}

bool caller_takes(size_t bytes)
{
    caller *c = now;
    if (!c) return true;
    if (c->most && (bytes > c->most || c->taken > c->most - bytes)) return false;
    c->taken += bytes;
    caller_goes_on(-1);
    return true;
}

void caller_gives(size_t bytes)
{
    if (now) now->taken -= bytes;
}

void caller_no_memory(void)
{
    if (now) end(CALLER_NO_MEMORY);
}

bool caller_says(const char *what)
{
    if (!now) return false;
    now->what = what;
    return caller_goes_on(-1);
}

bool caller_goes_on(double part)
{
    caller *c = now;
    if (!c) return false;
    if (!c->goes_on || !c->what) return true;
    double time = clock_seconds();
    if (time < c->asked + BETWEEN_SECONDS) return true;
    c->asked = time;
    if (!c->goes_on(c->with, c->what, part)) end(CALLER_CANCELLED);
    return true;
}
