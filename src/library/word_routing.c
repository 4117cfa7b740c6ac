/* word_routing.c - the word of --routing. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "config/loads.h"
#include "library/word_routing.h"
#include "predict/routing.h"

enum { SKEW_MAX = 1024 };

/* The most EP ranks that share this model's experts on this cluster. */
static int64_t most_ep(const setup *s)
{
    int64_t world = recipe_int(&s->r, K_N_GPUS);
    return s->m.moe->experts < world ? s->m.moe->experts : world;
}

status words_routing(price_options *o, const char *word, const setup *s, arena *a, error *err)
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

void words_routing_knob(recipe *r, const char *word)
{
    char *end;
    double skew = word ? strtod(word, &end) : 0;
    if (!word || end == word || *end || !(skew >= 1 && skew <= SKEW_MAX)) return;
    loads_set(r, skew, by_word);
}

status words_routing_room(recipe *r, const char *word, arena *a, error *err)
{
    if (!word) return OK;
    words_routing_knob(r, word);
    setup *s = ARENA_NEW(a, setup);
    price_options o = {0};
    TRY(setup_init(s, r, a, err));
    TRY(words_routing(&o, word, s, a, err));
    if (o.routing && s->lay.ep > 1 && loads_by_megatron(&s->j))
        loads_set(r, fmax(1, routing_skew(o.routing, s->lay.ep)), by_word);
    return OK;
}
