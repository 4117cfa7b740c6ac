/* order.c - 1F1B and interleaved 1F1B.
 *
 * I1  A backward follows its own forward, and every pair has both.
 * I2  Backwards run through the same table as forwards, with the chunks in reverse. */
#include "ir/order.h"

#include "ir/segment.h"

/* Entry k of the table of forwards: groups of microbatches, in each group chunk after chunk. */
static order_entry forward_entry(const order_shape *h, int64_t k)
{
    if (h->vpp == 1) return (order_entry){SEG_FORWARD, 0, k};
    int64_t in_group = h->group * h->vpp, g = k / in_group, first = g * h->group;
    int64_t size = h->micros - first < h->group ? h->micros - first : h->group;
    int64_t at = k - g * in_group;
    return (order_entry){SEG_FORWARD, at / size, first + at % size};
}

static order_entry backward_entry(const order_shape *h, int64_t k)
{
    order_entry e = forward_entry(h, k);
    return (order_entry){SEG_BACKWARD, h->vpp - 1 - e.chunk, e.micro}; /* I2 */
}

int64_t order_warmup(const order_shape *h)
{
    int64_t total = h->micros * h->vpp, w;
    if (h->pp == 1)
        w = h->ep_overlap ? 1 : 0;
    else if (h->vpp == 1)
        w = h->pp - h->rank - 1;
    else
        w = 2 * (h->pp - h->rank - 1) + (h->vpp - 1) * h->group + h->ep_overlap;
    return w < total ? w : total;
}

void order_make(step_order *s, const order_shape *h, arena *a)
{
    int64_t total = h->micros * h->vpp, n = 0;
    *s = (step_order){.list = ARENA_ARRAY(a, order_entry, 2 * total), .n = 2 * total};
    s->warmup = order_warmup(h);
    for (int64_t i = 0; i < s->warmup; i++) s->list[n++] = forward_entry(h, i);
    for (int64_t i = s->warmup; i < total; i++) {
        s->list[n++] = forward_entry(h, i);
        s->list[n++] = backward_entry(h, i - s->warmup);
    }
    for (int64_t i = total - s->warmup; i < total; i++) s->list[n++] = backward_entry(h, i);
}

int64_t order_peak(const step_order *s)
{
    int64_t alive = 0, peak = 0;
    for (int64_t i = 0; i < s->n; i++) {
        alive += s->list[i].phase == SEG_FORWARD;
        if (alive > peak) peak = alive;
        alive -= s->list[i].phase == SEG_BACKWARD;
    }
    return peak;
}
