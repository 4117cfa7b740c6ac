/* line.c - see line.h. */
#include "backend/comm/line.h"

#include <unistd.h>

void line_put(line *l, const char *s)
{
    while (s && *s && l->n < sizeof l->text) l->text[l->n++] = *s++;
}

void line_number(line *l, long long v)
{
    char digits[24];
    size_t n = sizeof digits;
    digits[--n] = 0;
    do digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    line_put(l, digits + n);
}

void line_address(line *l, const void *at)
{
    static const char hex[] = "0123456789abcdef";
    char digits[24];
    size_t n = sizeof digits;
    uintptr_t v = (uintptr_t)at;
    digits[--n] = 0;
    do digits[--n] = hex[v % 16];
    while (v /= 16);
    line_put(l, "0x");
    line_put(l, digits + n);
}

void line_rank(line *l, const comm *c)
{
    line_put(l, "moefold: rank ");
    line_number(l, c->rank);
    line_put(l, " of ");
    line_number(l, c->size);
    line_put(l, ": ");
}

void line_where(line *l, comm *c, const char *before)
{
    const char *where = atomic_load_explicit(&c->watch.where, memory_order_relaxed);
    const char *detail = atomic_load_explicit(&c->watch.detail, memory_order_relaxed);
    if (!where && !detail) return;
    line_put(l, before);
    line_put(l, where);
    if (where && detail) line_put(l, " ");
    line_put(l, detail);
}

void line_operation(line *l, comm *c)
{
    const char *name = atomic_load_explicit(&c->watch.name, memory_order_relaxed);
    int group = atomic_load_explicit(&c->watch.group, memory_order_relaxed);
    line_put(l, atomic_load_explicit(&c->watch.what, memory_order_relaxed));
    if (name) line_put(l, " ");
    line_put(l, name);
    line_put(l, " (group ");
    line_put(l, comm_group_name((comm_group)group));
    comm_work w = watch_work(c);
    if (w) {
        line_put(l, ", ");
        line_put(l, work_rows[w].doing);
    } else {
        line_where(l, c, ", ");
    }
    line_put(l, ")");
}

void line_doing(line *l, comm *c)
{
    comm_work w = watch_work(c);
    if (atomic_load_explicit(&c->watch.since, memory_order_acquire)) {
        line_put(l, "while it waits in ");
        line_operation(l, c);
    } else if (w) {
        line_put(l, "while it is ");
        line_put(l, work_rows[w].doing);
    } else {
        line_put(l, "while it computes");
        line_where(l, c, ": ");
    }
}

void line_say(line *l)
{
    if (l->n == sizeof l->text) l->n--;
    l->text[l->n++] = '\n';
    ssize_t written = write(STDERR_FILENO, l->text, l->n);
    (void)written; /* nobody left to tell */
}
