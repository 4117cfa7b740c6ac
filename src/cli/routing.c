/* routing.c - what is said of routing. */
#include "answer/price.h"
#include "cli/routing.h"

#include <math.h>

const char *cli_other_text(const other_routing *x, arena *a)
{
    if (!x->there) return NULL;
    const char *name = x->natural ? arena_text(a, "with natural routing (%.3g times)", x->skew)
                                  : "with forced balance";
    return arena_text(a, "%s: a step of %s, %s on the fullest rank%s", name,
                      text_seconds(a, x->step_s), text_bytes(a, x->peak_bytes),
                      x->fits ? "" : ", which does not fit");
}

/* In tenths, as a person would set it. */
static double factor_for(const price *p)
{
    return ceil(p->worst_skew * 10 - 1e-6) / 10;
}

const char *cli_routing_text(const price *p, const price_options *o, arena *a)
{
    if (p->skew <= 0 && o->skew > 1)
        return arena_text(a, "--routing %g changes nothing: no two ranks share experts (EP 1)",
                          o->skew);
    if (p->skew <= 0 || (p->worst_skew <= 1 && !o->routing)) return NULL;
    textbuf t = text_init(a);
    text_add(&t, "the fullest EP rank has %.3f times the mean load%s", p->skew,
             o->routing ? "" : " (natural routing: moefold.routing_skew)");
    if (p->worst_layer >= 0)
        text_add(&t, " in the mean layer, %.3f times in layer %lld (%s)", p->worst_skew,
                 (long long)p->worst_layer, o->routing->path);
    if (answer_overflows(p))
        text_add(&t,
                 ";\n"
                 "         routed buffers are planned for %.3g times: a run needs "
                 "moefold.moe_buffer_factor=%.3g, which the memory above does not include",
                 p->room, factor_for(p));
    if (o->routing && !p->room_is_planned)
        text_add(&t, ";\n         memory is predicted for %.3g times (moefold.routing_skew)",
                 p->room);
    return t.s;
}
