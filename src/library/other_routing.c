/* other_routing.c - a recipe with the other routing. */
#include "library/other_routing.h"

#include <limits.h>

#include "config/loads.h"
#include "predict/try.h"

/* `forced`: balance is, in one way or the other. A room that --routing set is the old one's. */
static void flip(recipe *r, bool natural, bool forced)
{
    if (natural) recipe_set(r, K_FORCE_RANDOM, value_of_bool(false), "natural routing");
    if (natural || !forced)
        recipe_set(r, K_FORCE_BALANCE, value_of_bool(!natural), "the other routing");
    setting *room = &r->knob[K_BUFFER_FACTOR];
    if (room->from != FROM_USER || text_equal(room->why, "--routing"))
        *room = (setting){.from = FROM_NOTHING};
}

void price_other_routing(other_routing *out, const recipe *given, const price_job *j)
{
    const setup *now = j->s;
    *out = (other_routing){0};
    if (!now->m.moe->experts || now->lay.ep < 2) return;
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    try_result t;
    bool asked = j->o && (j->o->skew > 0 || j->o->routing);
    *r = *given;
    r->a = a;
    bool forced = loads_forced(&now->j);
    out->natural = forced && !asked;
    flip(r, out->natural, forced);
    const price_options o = {.stack = j->o ? j->o->stack : NULL};
    const try_job other = {.hw = j->hw, .o = &o, .depth = TRY_PRICE, .errors = INT_MAX};
    out->there = try_recipe(&t, r, &other, a);
    if (out->there) {
        out->skew = t.p.skew;
        out->step_s = t.p.step_s;
        out->peak_bytes = t.p.peak_bytes;
        out->fits = t.p.fits;
    }
    arena_destroy(a);
}

const other_routings_answer *other_routing_answer_of(const other_routing *x, arena *a)
{
    if (!x->there) return NULL;
    other_routings_answer *out = ARENA_NEW(a, other_routings_answer);
    other_routing_answer *other = ARENA_NEW(a, other_routing_answer);
    *other = (other_routing_answer){x->skew, x->step_s, x->peak_bytes};
    *(x->natural ? &out->natural : &out->forced) = other;
    return out;
}
