/* weights.c - loading weights, and single tensors of a flat array.
 *
 * I1  The plan comes first: every tensor is found, checked and given its use before an element is
 *     written. What can still fail then is the disk.
 * I2  A tensor is used by one part.
 * I3  Nothing is held but one window; a window of which the rank has no element is not read. */
#include "train/hf/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/waiting.h"
#include "train/hf/held.h"
#include "train/hf/leftover.h"
#include "train/hf/source.h"

typedef struct loading {
    const setup *s;
    hf_source *src;
    float *weights;
    const part_map *map; /* of the weight that is being loaded */
    float *window;       /* [HF_WINDOW] */
    int64_t written;
    error *err;
} loading;

/* The spelling in which the files have the weight. Where none has it, the public one's message says
 * what is missing. */
static hf_spelling spelling_of(const loading *l, const weight *w, arena *a)
{
    for (int k = HF_FUSED; k < HF_SPELLINGS; k++) {
        hf_part p;
        if (!hf_parts(w, (hf_spelling)k)) continue;
        hf_part_init(&p, &l->s->m, w, (hf_spelling)k, 0, a);
        if (hf_source_find(l->src, p.name)) return (hf_spelling)k;
    }
    return HF_PUBLIC;
}

typedef status part_action(loading *l, const hf_part *p, hf_match *m);

/* Calls `act` for every part of the weight. */
static status each_part(loading *l, const weight *w, arena *a, part_action *act)
{
    arena_place mark = arena_mark(a);
    hf_spelling spelling = spelling_of(l, w, a);
    int64_t n = hf_parts(w, spelling);
    status st = OK;
    for (int64_t i = 0; i < n && !st; i++) {
        hf_part p;
        hf_match m;
        hf_part_init(&p, &l->s->m, w, spelling, i, a);
        st = hf_source_match(l->src, &p, &m, l->err);
        if (!st) st = act(l, &p, &m);
        arena_release(a, mark);
    }
    return st;
}

static status plan_part(loading *l, const hf_part *p, hf_match *m)
{
    (void)p;
    if (m->values->use != HF_UNUSED) /* I2 */
        return error_set(l->err, ERR_INPUT,
                         "%s: tensor '%.200s' is wanted by two weights; files of this family hold "
                         "one prediction module: set %s=1",
                         m->values->path, m->values->t->name, knobs[K_MTP].key);
    m->values->use = HF_USED;
    if (m->scales) m->scales->use = HF_APPLIED;
    return OK;
}

static void scatter(loading *l, const hf_part *p, int64_t lo, int64_t hi)
{
    float *ours = l->weights + l->map->w->offset, shift = hf_shift(p->w);
    hf_held held = hf_held_of(l->map, p, lo, hi);
    for (hf_run r; hf_held_next(&held, &r); l->written += r.n) {
        const float *from = l->window + (r.hf - lo);
        float *to = ours + r.ours;
        for (int64_t i = 0; i < r.n; i++) to[i * r.our_step] = from[i * r.hf_step];
        if (shift != 0.0f) /* adding zero would lose the sign of -0 */
            for (int64_t i = 0; i < r.n; i++) to[i * r.our_step] += shift;
    }
}

static status load_part(loading *l, const hf_part *p, hf_match *m)
{
    if (!hf_held_any(l->map, p, 0, p->elements)) return OK;
    status st = hf_source_begin(l->src, m, l->err);
    for (int64_t lo = 0; lo < p->elements && !st; lo += HF_WINDOW) {
        int64_t hi = p->elements - lo < HF_WINDOW ? p->elements : lo + HF_WINDOW;
        if (!hf_held_any(l->map, p, lo, hi)) continue; /* I3 */
        st = hf_source_read(l->src, m, lo, hi, l->window, l->err);
        if (!st) scatter(l, p, lo, hi);
    }
    hf_source_end(m);
    return st;
}

static status plan_weights(loading *l, const weight_list *whole, arena *a)
{
    status st = OK;
    for (int i = 0; i < whole->n && !st; i++) st = each_part(l, &whole->list[i], a, plan_part);
    return st;
}

static status load_weights(loading *l, const rank_at *at, const weight_list *w,
                           const weight_list *whole)
{
    arena *a = arena_create();
    status st = OK;
    l->window = ARENA_ARRAY(l->src->a, float, HF_WINDOW);
    for (int i = 0; i < w->n && !st; i++) {
        const weight *one = &w->list[i], *all = weight_find(whole, one->row, one->layer, -1);
        part_map map;
        part_map_init(&map, l->s, at, one);
        l->map = &map;
        st = each_part(l, all, a, load_part);
        waiting_part((double)(i + 1) / (double)w->n);
    }
    arena_destroy(a);
    return st;
}

/* ---- the report */

static void count_uses(hf_report *r, const hf_source *src, arena *a)
{
    hf_count by_use[HF_USES] = {{0}};
    for (int i = 0; i < src->n_entries; i++) {
        const hf_entry *e = &src->entries[i];
        by_use[e->use].tensors++;
        by_use[e->use].elements += safetensor_elements(e->t);
        r->found.elements += safetensor_elements(e->t);
    }
    r->n_files = src->n_files;
    r->found.tensors = src->n_entries;
    r->used = by_use[HF_USED];
    r->applied = by_use[HF_APPLIED];
    r->ignored = by_use[HF_IGNORED];
    hf_ignored *list = ARENA_ARRAY(a, hf_ignored, r->ignored.tensors);
    r->list = list;
    for (int i = 0; i < src->n_entries; i++) {
        const hf_entry *e = &src->entries[i];
        if (e->use != HF_IGNORED) continue;
        *list++ = (hf_ignored){
            arena_copy(a, e->t->name, strlen(e->t->name)), arena_copy(a, e->path, strlen(e->path)),
            arena_copy(a, e->reason, strlen(e->reason)), safetensor_elements(e->t)};
    }
}

static void report_load(hf_report *report, const loading *l, const weight_list *whole)
{
    *report = (hf_report){.written = l->written};
    count_uses(report, l->src, l->s->r.a);
    for (int i = 0; i < whole->n; i++) report->padded += hf_padding(&l->s->m, &whole->list[i]);
}

status hf_load(const hf_rank *to, const char *folder, hf_report *report, error *err)
{
    const setup *s = to->s;
    arena *a = arena_create(), *names = arena_create();
    weight_list whole;
    weight_list_init(&whole, s, a);
    hf_source src = {.fd = -1};
    status st = hf_check(s, &whole, err);
    if (!st) st = hf_source_open(&src, a, folder, err);
    loading l = {.s = s, .src = &src, .weights = to->values, .err = err};
    if (!st) st = plan_weights(&l, &whole, names); /* I1 */
    if (!st) st = hf_leftovers(&src, s, err);
    if (!st) st = load_weights(&l, to->at, to->w, &whole);
    if (!st) report_load(report, &l, &whole);
    hf_source_close(&src);
    arena_destroy(names);
    arena_destroy(a);
    return st;
}

/* ---- single tensors */

void hf_gather(const hf_flat *f, const hf_part *p, int64_t lo, int64_t hi, float *out)
{
    const float *ours = f->values + p->w->offset;
    float shift = f->gradient ? 0.0f : -hf_shift(p->w);
    hf_runs runs = hf_runs_of(p, lo, hi);
    for (hf_run r; hf_runs_next(&runs, &r);) {
        const float *from = ours + r.ours;
        float *to = out + (r.hf - lo);
        for (int64_t i = 0; i < r.n; i++) to[i * r.hf_step] = from[i * r.our_step];
        if (shift != 0.0f)
            for (int64_t i = 0; i < r.n; i++) to[i * r.hf_step] += shift;
    }
}

static status tensor_out(const hf_flat *f, const hf_part *p, float *out, int64_t n, error *err)
{
    if (f->gradient && !p->w->row->trained)
        return error_set(err, ERR_INPUT, "tensor '%.200s' is not trained: it has no gradient",
                         p->name);
    if (p->elements != n)
        return error_set(err, ERR_INPUT,
                         "tensor '%.200s' has %" PRId64 " elements; this model needs %" PRId64,
                         p->name, n, p->elements);
    hf_gather(f, p, 0, n, out);
    return OK;
}

status hf_tensor(const hf_flat *f, const char *name, float *out, int64_t n, error *err)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    status st = error_set(err, ERR_INPUT, "tensor '%.200s' is none of this model's", name);
    hf_walk walk = {.s = f->s, .w = f->w};
    for (hf_part p; hf_walk_next(&walk, &p, a); arena_release(a, mark)) {
        if (strcmp(p.name, name) != 0) continue;
        err->text[0] = 0;
        st = tensor_out(f, &p, out, n, err);
        break;
    }
    arena_destroy(a);
    return st;
}
