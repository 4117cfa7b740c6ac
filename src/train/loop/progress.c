/* progress.c - drawing, erasing and the estimate of the time left.
 *
 * I1  The bar is written in one piece and ends without a newline; to erase it is to return to the
 *     line's start and clear the line.
 * I2  The estimate is the mean over this run, so that checkpoints and validations count. */
#include "train/loop/progress.h"

#include "base/waiting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 240, COLUMNS_UNKNOWN = 80, BAR_MAX = 40, BAR_MIN = 5 };

static const double redraw_seconds = 0.1;

static bool can_erase(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
}

static int columns_of(FILE *out)
{
    struct winsize size = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return COLUMNS_UNKNOWN;
    return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

void progress_init(progress *p, FILE *out, int64_t first, int64_t total, double now)
{
    *p = (progress){.out = out, .on = can_erase(out), .first = first, .done = first};
    p->total = total;
    p->started = p->now = p->drawn = now;
}

/* ---- text */

static void time_left(char *out, size_t room, double seconds)
{
    int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    int64_t days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;
    if (days > 0)
        snprintf(out, room, "%" PRId64 "d %" PRId64 ":%02" PRId64, days, hours, minutes);
    else
        snprintf(out, room, "%" PRId64 ":%02" PRId64 ":%02" PRId64, hours, minutes, s % 60);
}

static double part_done(const progress *p)
{
    return p->done < p->total ? (double)p->done / (double)p->total : 1;
}

/* What stands right of the bar. */
static void pace_text(const progress *p, char *out, size_t room)
{
    int n = snprintf(out, room, " %3d%%", (int)(100 * part_done(p)));
    if (p->done <= p->first || n < 0 || (size_t)n >= room) return;
    double each = (p->now - p->started) / (double)(p->done - p->first); /* I2 */
    char left[32];
    time_left(left, sizeof left, p->done < p->total ? each * (double)(p->total - p->done) : 0);
    const char *unit = each < 1 ? "ms/it" : "s/it";
    snprintf(out + n, room - (size_t)n, "  %.*f %s  ETA %s", each < 1 ? 0 : 2,
             each < 1 ? each * 1000 : each, unit, left);
}

static void bar_text(const progress *p, char *out, int width)
{
    int full = (int)(width * part_done(p));
    for (int i = 0; i < width; i++) out[i] = i < full ? '=' : i == full ? '>' : ' ';
    out[width] = 0;
}

void progress_text(const progress *p, char *out, size_t room, int columns)
{
    char count[64], pace[96], bar[BAR_MAX + 1];
    snprintf(count, sizeof count, "%8" PRId64 "/%" PRId64, p->done, p->total);
    pace_text(p, pace, sizeof pace);
    size_t limit = columns > 1 ? (size_t)columns : 1;
    int width = columns - 1 - (int)strlen(count) - (int)strlen(pace) - 3;
    if (width > BAR_MAX) width = BAR_MAX;
    if (width < BAR_MIN) {
        snprintf(out, room < limit ? room : limit, "%s%s", count, pace);
        return;
    }
    bar_text(p, bar, width);
    snprintf(out, room < limit ? room : limit, "%s [%s]%s", count, bar, pace);
}

/* ---- on the terminal */

static void erase(progress *p)
{
    if (!p->shown) return;
    fputs("\r\033[K", p->out); /* I1 */
    fflush(p->out);
    p->shown = false;
}

static void draw(progress *p)
{
    char text[COLUMNS_MAX + 1];
    progress_text(p, text, sizeof text, columns_of(p->out));
    fprintf(p->out, "\r%s\033[K", text); /* I1 */
    fflush(p->out);
    p->shown = true;
    p->drawn = p->now;
}

void progress_step(progress *p, int64_t done, double now)
{
    p->done = done;
    p->now = now;
    if (p->on && (!p->shown || now - p->drawn >= redraw_seconds)) draw(p);
}

void progress_line(progress *p, FILE *to, const char *text)
{
    erase(p);
    waiting_clear();
    fprintf(to, "%s\n", text);
    fflush(to);
    if (p->on && p->done > p->first) draw(p);
}

void progress_finish(progress *p)
{
    erase(p);
    p->on = false;
}
