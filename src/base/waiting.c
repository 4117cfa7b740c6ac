/* waiting.c - the thread that draws. A call of another program is told instead (caller.h).
 *
 * I1  The line is written in one piece without a newline; to erase it is to return to its start and
 *     clear it.
 * I2  The thread touches nothing but its own state: the work goes on as if it were not there. */
#define _GNU_SOURCE
#include "base/waiting.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/caller.h"
#include "base/clock.h"

enum { LINE_MAX_BYTES = 240, COLUMNS_UNKNOWN = 80, NO_PART = -1 };

static const double first_seconds = 1.5, redraw_seconds = 0.25;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t end;
    pthread_t thread;
    int depth; /* begins without their end */
    bool draws, ends, drawn;
    double started;
    waiting_state now;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int part_done = NO_PART; /* in a hundred thousand */

/* ---- text */

static void put_left(char *out, int room, const waiting_state *w)
{
    double left = -1;
    const char *word = "about";
    if (w->part > 0.01) {
        left = w->elapsed * (1 - w->part) / w->part;
    } else if (w->limit != WAITING_UNKNOWN) {
        left = w->seconds - w->elapsed;
        if (w->limit == WAITING_AT_MOST) word = "at most";
    }
    if (left < 0) {
        snprintf(out, (size_t)room, w->limit == WAITING_UNKNOWN ? "" : ", nearly done");
        return;
    }
    if (left < 100)
        snprintf(out, (size_t)room, ", %s %.0f s left", word, left);
    else
        snprintf(out, (size_t)room, ", %s %.0f min left", word, left / 60);
}

void waiting_text(char *out, int room, const waiting_state *w)
{
    char left[64], part[32] = "";
    put_left(left, (int)sizeof left, w);
    if (w->part >= 0) snprintf(part, sizeof part, ", %.0f %%", 100 * w->part);
    snprintf(out, (size_t)room, "moefold %s: %s, %.0f s so far%s%s", w->command, w->what,
             w->elapsed, part, left);
}

/* ---- drawing */

static bool can_erase(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static int columns(void)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return COLUMNS_UNKNOWN;
    return size.ws_col < LINE_MAX_BYTES ? size.ws_col : LINE_MAX_BYTES;
}

static void draw(void)
{
    char text[LINE_MAX_BYTES + 1];
    waiting_state now = waiting.now;
    int part = atomic_load(&part_done);
    now.elapsed = clock_seconds() - waiting.started;
    now.part = part == NO_PART ? NO_PART : part / 1e5;
    waiting_text(text, columns(), &now);
    fprintf(stderr, "\r%s\033[K", text); /* I1 */
    fflush(stderr);
    waiting.drawn = true;
}

static void *drawing(void *unused)
{
    (void)unused;
    double next = planted_waiting ? planted_waiting(first_seconds) : first_seconds;
    pthread_mutex_lock(&waiting.lock);
    while (!waiting.ends) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        double at = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + next;
        t.tv_sec = (time_t)at;
        t.tv_nsec = (long)(1e9 * (at - (double)t.tv_sec));
        pthread_cond_timedwait(&waiting.end, &waiting.lock, &t);
        if (!waiting.ends) draw();
        next = redraw_seconds;
    }
    pthread_mutex_unlock(&waiting.lock);
    return NULL;
}

/* Signals are the program's: its thread gets them. */
static bool start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&waiting.thread, NULL, drawing, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

void waiting_begin(const char *command, const char *what, waiting_limit limit, double seconds)
{
    if (caller_says(what) || waiting.depth++ > 0) return;
    waiting.now = (waiting_state){command, what, limit, seconds, 0, NO_PART};
    waiting.started = clock_seconds();
    waiting.ends = waiting.drawn = false;
    atomic_store(&part_done, NO_PART);
    pthread_cond_init(&waiting.end, NULL);
    waiting.draws = can_erase() && start_thread();
}

void waiting_part(double part)
{
    if (part >= 0 && part <= 1 && !caller_goes_on(part))
        atomic_store_explicit(&part_done, (int)(1e5 * part), memory_order_relaxed);
}

void waiting_clear(void)
{
    if (caller_goes_on(-1) || !waiting.draws) return;
    pthread_mutex_lock(&waiting.lock);
    if (waiting.drawn) fputs("\r\033[K", stderr);
    waiting.drawn = false;
    fflush(stderr);
    pthread_mutex_unlock(&waiting.lock);
}

void waiting_end(void)
{
    if (caller_says(NULL) || --waiting.depth > 0 || !waiting.draws) return;
    pthread_mutex_lock(&waiting.lock);
    waiting.ends = true;
    pthread_cond_signal(&waiting.end);
    pthread_mutex_unlock(&waiting.lock);
    pthread_join(waiting.thread, NULL);
    waiting.draws = false;
    if (!waiting.drawn) return;
    fputs("\r\033[K", stderr); /* I1 */
    fflush(stderr);
}
