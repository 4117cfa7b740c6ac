/* routing.c - the word of --routing, and what there is to say about it. */
#include "answer/price.h"
#include "cli/routing.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "config/loads.h"

enum { SKEW_MAX = 1024 };

/* The most EP ranks that share this model's experts on this cluster. */
static int64_t most_ep(const setup *s)
{
    int64_t world = recipe_int(&s->r, K_N_GPUS);
    return s->m.moe->experts < world ? s->m.moe->experts : world;
}

status cli_routing(price_options *o, const char *word, const setup *s, arena *a, error *err)
{
    char *end;
    if (!word) return OK;
    double skew = strtod(word, &end);
    if (end != word && !*end) {
        if (!(skew >= 1 && skew <= SKEW_MAX))
            return error_set(
                err, ERR_INPUT,
                "--routing %s: the load of the fullest EP rank over the mean must be in 1..%d",
                word, (int)SKEW_MAX);
        bool fixed = s->r.knob[K_EP].from == FROM_USER; /* a search looks for it otherwise */
        int64_t most = fixed && s->lay.ep > 1 ? s->lay.ep : most_ep(s);
        if (most > 1 && skew > (double)most)
            return error_set(err, ERR_INPUT,
                             "--routing %s: %s is %s%lld, so the fullest EP rank has at most %lld "
                             "times the mean load; repair: --routing %lld",
                             word, knobs[K_EP].key, fixed ? "" : "at most ", (long long)most,
                             (long long)most, (long long)most);
        o->skew = skew;
        return OK;
    }
    if (!file_exists(word))
        return error_set(err, ERR_INPUT,
                         "--routing %s: neither a number nor a file of this name; repair: give a "
                         "skew (1..%d) or a file that `train --save-routing` wrote",
                         word, (int)SKEW_MAX);
    routing *r = ARENA_NEW(a, routing);
    TRY(routing_read(r, word, a, err));
    TRY(routing_fits(r, &s->m, err));
    o->routing = r;
    return OK;
}

static const char by_word[] = "--routing";

void cli_routing_knob(recipe *r, const char *word)
{
    char *end;
    double skew = word ? strtod(word, &end) : 0;
    if (!word || end == word || *end || !(skew >= 1 && skew <= SKEW_MAX)) return;
    loads_set(r, skew, by_word);
}

status cli_routing_room(recipe *r, const char *word, arena *a, error *err)
{
    if (!word) return OK;
    cli_routing_knob(r, word);
    setup *s = ARENA_NEW(a, setup);
    price_options o = {0};
    TRY(setup_init(s, r, a, err));
    TRY(cli_routing(&o, word, s, a, err));
    if (o.routing && s->lay.ep > 1 && loads_by_megatron(&s->j))
        loads_set(r, fmax(1, routing_skew(o.routing, s->lay.ep)), by_word);
    return OK;
}

/* ---- what there is to say */

const char *cli_other_text(const other_routing *x, arena *a)
{
    if (!x->there) return NULL;
    const char *name = x->natural ? arena_text(a, "with natural routing (%.3g times)", x->skew)
                                  : "with forced balance";
    return arena_text(a, "%s: a step of %s, %s on the fullest rank%s", name,
                      text_seconds(a, x->step_s), text_bytes(a, x->peak_bytes),
                      x->fits ? "" : ", which does not fit");
}

const other_routings_answer *cli_other_answer(const other_routing *x, arena *a)
{
    if (!x->there) return NULL;
    other_routings_answer *out = ARENA_NEW(a, other_routings_answer);
    other_routing_answer *other = ARENA_NEW(a, other_routing_answer);
    *other = (other_routing_answer){x->skew, x->step_s, x->peak_bytes};
    *(x->natural ? &out->natural : &out->forced) = other;
    return out;
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
