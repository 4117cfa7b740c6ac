/* search_own.c - runs the search again with sequence chunks.
 *
 * I1  Knobs that the user set are kept.
 * I2  A chunked layout replaces the best one only if it is faster by more than TAKEN_FROM. Between
 *     equals, the recipe with fewer changes wins.
 * I3  Chunks gain nothing if neither MLPs nor experts are recomputed and nothing is on the host. */
#include "plan/search_own.h"

#include "base/clock.h"
#include "ir/segment.h"

static const double TAKEN_FROM = 0.001;

/* Chunks are of what is recomputed of MLPs and experts; the host's share may go by them, too. I3 */
static bool chunks_may_help(const search_result *r)
{
    const unsigned cut = DROP_MLP | DROP_MOE | DROP_SHARED_EXPERTS | DROP_FULL;
    return !r->n_best || r->best[0].c.drop & cut || r->best[0].c.offload;
}

static double step_of(const search_result *r)
{
    return r->best[0].priced ? r->best[0].exact.step_s : r->best[0].step_s;
}

static bool is_faster(const search_result *x, const search_result *y)
{
    return x->n_best && (!y->n_best || step_of(x) < step_of(y) * (1 - TAKEN_FROM)); /* I2 */
}

typedef struct own_search {
    search_own *own;
    search_result *out;
    const recipe **given;
    const search_options *o;
    arena *a;
} own_search;

/* The search with so many chunks. */
static bool try_chunks(own_search *w, int64_t n)
{
    if (w->o->until > 0 && clock_seconds() >= w->o->until) return false;
    recipe *r = ARENA_NEW(w->a, recipe);
    search_result *x = ARENA_NEW(w->a, search_result);
    error err;
    *r = **w->given;
    recipe_set(r, K_SEQUENCE_CHUNKS, value_of_int(n), "less is held at once");
    w->own->tried++;
    if (search_run(x, r, w->o, w->a, &err) || !is_faster(x, w->out)) return false;
    if (!w->own->chunks) w->own->without_s = w->out->n_best ? step_of(w->out) : 0;
    *w->out = *x;
    *w->given = r;
    return true;
}

void search_own_ways(search_own *own, search_result *out, const recipe **given,
                     const search_options *o, arena *a)
{
    static const int64_t chunks[] = {8, 16, 4, 2};
    own_search w = {own, out, given, o, a};
    *own = (search_own){.chunks = 0};
    const choice_maker *m = out->maker;
    if (!m || !m->ours || m->pinned[K_SEQUENCE_CHUNKS] || !out->complete) return; /* I1 */
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        if (!chunks_may_help(out)) return;
        if (try_chunks(&w, chunks[i])) own->chunks = chunks[i];
    }
}
