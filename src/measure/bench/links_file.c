/* links_file.c - measured messages between the ranks of a device as a hardware file.
 *
 * Ranks show links alone. All else is that of another file: what one rank measured of the same GPU,
 * or the shipped one.
 *
 * I1  The bandwidth is the best rate of any size, and efficiencies are parts of it. What
 *     dispatchers reach inside a node is the largest exchange's part of it: prices take that for
 *     large ones and make it less by the curve for small ones (predict/cost_message.c).
 * I2  `measured` stays as it is: the day of the kernels, or none. The day of the messages is in the
 *     heading. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "measure/bench/measure.h"

static hardware described(const measured *m, const hardware *base)
{
    hardware h = *base;
    curve c = measured_messages(m);
    const curve *exchange = &m->message[MEASURED_EXCHANGE];
    const double best = measured_best(&c), moved = exchange->y[exchange->n - 1];
    for (int i = 0; i < c.n; i++) c.y[i] /= best;
    measured_cut(&c, MEASURED_BY_SIZE);
    h.node = (link_level){.latency = m->latency, .bandwidth = best, .efficiency = c};
    for (int k = 0; k < DISPATCH_KINDS; k++) h.dispatch[k][0] = fmin(moved / best, 1.5); /* I1 */
    return h;
}

/* ---- where each number is from */

typedef struct reasons {
    const char *base;
    arena *a;
} reasons;

static const char *why_of(const void *who, const char *key)
{
    const reasons *r = who;
    if (text_equal(key, "node.latency")) return "the fastest message";
    if (text_equal(key, "node.bandwidth")) return "best of all sizes";
    if (text_equal(key, "node.efficiency"))
        return "by bytes; shift, all-gather, reduce-scatter, all-to-all";
    const char *end = strrchr(key, '.');
    if (text_starts(key, "dispatch.") && end && text_equal(end, ".inside"))
        return "the largest all-to-all relative to the best message";
    return arena_text(r->a, "as %s", r->base);
}

static const char *sharing(const measured *m, arena *a)
{
    if (m->devices == 1)
        return "# All ranks share one device: messages are copies inside one memory, not over "
               "NVLink.\n";
    if (m->devices < m->ranks)
        return arena_text(a,
                          "# The ranks share %d devices: some messages are copies inside one "
                          "memory, not over NVLink.\n",
                          m->devices);
    return "";
}

static const char *heading_of(const measured *m, const char *day, const char *base, arena *a)
{
    return arena_text(a,
                      "# %s, communication between %d ranks, measured by `moefold bench --device "
                      "%s --ranks %d` on %s.\n"
                      "# Transport: %s.\n"
                      "%s# Everything but the links inside a node is taken from %s.\n",
                      m->gpu, m->ranks, m->device, m->ranks, day, m->transport, sharing(m, a),
                      base);
}

status measured_write_links(const measured *m, const hardware *base, const char *path, error *err)
{
    char day[MEASURED_DAY];
    arena *a = arena_create();
    measured_day(day);
    reasons r = {measured_base(base, a), a};
    hardware h = described(m, base);
    const char *text = hardware_text(&h, heading_of(m, day, r.base, a), why_of, &r, a);
    status s = file_write(path, text, strlen(text), err);
    arena_destroy(a);
    return s;
}
