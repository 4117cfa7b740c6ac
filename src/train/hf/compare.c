/* compare.c - a tensor of a file beside what ranks hold of it.
 *
 * I1  Only what the rank answers for is looked at, so the sums over all ranks see every element
 *     once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "train/hf/held.h"
#include "train/hf/weights.h"
#include "train/executor/owned.h"

typedef struct comparing {
    const hf_flat *f;
    const weight *w;    /* on this rank */
    int64_t first, end; /* elements of it that count (I1) */
    const float *golden;
    float shift;
    hf_compared *out;
} comparing;

static void see(hf_compared *out, double ours, double golden)
{
    double d = ours - golden;
    out->difference += d * d;
    out->golden += golden * golden;
    out->elements++;
    if (golden == 0 && !(fabs(ours) <= out->largest)) out->largest = fabs(ours);
}

static void see_run(const comparing *g, const hf_run *r)
{
    bool zero = g->f->gradient && !g->w->row->trained;
    const float *ours = g->f->values + g->w->offset;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = r->ours + i * r->our_step;
        if (at < g->first || at >= g->end) continue;
        double x = zero ? 0 : (double)(ours[at] + g->shift);
        see(g->out, x, (double)g->golden[r->hf + i * r->hf_step]);
    }
}

static void compare_weight(comparing *g, const rank_at *at, const hf_part *p)
{
    const hf_flat *f = g->f;
    if (!rank_answers(f->s, at, g->w)) return;
    int64_t n = owned_range(f->w, g->w, &g->first);
    g->end = g->first + n;
    g->shift = f->gradient ? 0.0f : -hf_shift(g->w);
    part_map map;
    part_map_init(&map, f->s, at, g->w);
    hf_held held = hf_held_of(&map, p, 0, p->elements);
    for (hf_run r; n > 0 && hf_held_next(&held, &r);) see_run(g, &r);
}

static status compare_part(comparing *g, const rank_at *at, const hf_part *p, int64_t n, error *err)
{
    if (p->elements != n)
        return error_set(err, ERR_INPUT,
                         "tensor '%.200s' has %" PRId64 " elements; this model needs %" PRId64,
                         p->name, n, p->elements);
    for (int i = 0; i < g->f->w->n; i++) {
        g->w = &g->f->w->list[i];
        if (g->w->row == p->w->row && g->w->layer == p->w->layer) compare_weight(g, at, p);
    }
    return OK;
}

/* Compares with the part of this name, if there is one in this spelling. */
static bool compare_spelled(comparing *g, const rank_at *at, const hf_golden *t, hf_walk walk,
                            status *st, error *err)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    bool found = false;
    for (hf_part p; !found && hf_walk_next(&walk, &p, a); arena_release(a, mark)) {
        found = strcmp(p.name, t->name) == 0;
        if (found) *st = compare_part(g, at, &p, t->n, err);
    }
    arena_destroy(a);
    return found;
}

status hf_compare(const hf_flat *f, const rank_at *at, const hf_golden *t, hf_compared *out,
                  error *err)
{
    arena *a = arena_create();
    weight_list whole;
    weight_list_init(&whole, f->s, a);
    comparing g = {.f = f, .golden = t->values, .out = out};
    status st = OK;
    bool found = false;
    for (int k = HF_PUBLIC; k <= HF_FUSED && !found; k++) {
        hf_walk walk = {.s = f->s, .w = &whole, .spelling = (hf_spelling)k};
        found = compare_spelled(&g, at, t, walk, &st, err);
    }
    if (!found) st = error_set(err, ERR_INPUT, "tensor '%.200s' is none of this model's", t->name);
    arena_destroy(a);
    return st;
}
