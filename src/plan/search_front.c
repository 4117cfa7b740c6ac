/* search_front.c - the rest of the front: what is fastest with more memory to spare.
 *
 * The list of the best meets layouts as large as memory allows. So what was found is followed by
 * searches for the one fastest layout that fits in a part of the memory, with the cards and tables
 * that are there already.
 *
 * I1  After it, the front has the fastest layout of all for each of these parts, as sums of cards
 *     have it, and breaks no rule.
 * I2  The list of the best and all counts stay as they were. */
#include "plan/search_best.h"
#include "plan/search_parts.h"

static const double parts[] = {0.8, 0.6, 0.4};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* The fastest on the front that is not larger; NULL: there is none. */
static const found *known_for(const search_result *r, int64_t usable)
{
    for (int i = 0; i < r->n_front; i++)
        if (r->front[i].peak_bytes <= usable) return &r->front[i];
    return NULL;
}

/* The fastest that fits in so much is on the front afterwards. False: nothing does. */
static bool find_fastest(search *s, node *nodes, int n, int64_t usable)
{
    search_result *r = s->out;
    const search_options *own = s->o;
    hardware less = *own->hw;
    search_options o = *own;
    const found *known = known_for(r, usable);
    less.usable = usable;
    o.hw = &less;
    s->o = &o;
    r->n_best = r->n_near = 0;
    r->room = 1;
    if (known) best_put(r, known);
    search_visit_nodes(s, nodes, n);
    s->o = own;
    return r->n_best > 0;
}

void search_fill_front(search *s, node *nodes, int n)
{
    search_result *r = s->out;
    if (!r->n_best || s->late || s->o->judge_all || s->o->only_fit || !s->o->front) return;
    search_result *before = ARENA_RAW(s->a, search_result, 1);
    *before = *r;
    for (int i = 0; i < PARTS; i++) {
        int64_t usable = (int64_t)(parts[i] * (double)s->o->hw->usable);
        if (!find_fastest(s, nodes, n, usable) || s->late) break;
    }
    before->n_front = r->n_front;
    for (int i = 0; i < r->n_front; i++) before->front[i] = r->front[i];
    *r = *before; /* I2 */
}
