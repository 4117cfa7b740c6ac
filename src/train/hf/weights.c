/* weights.c - loading weights, single tensors of a flat array, and tensors beside what ranks hold.
 *
 * I1  The plan comes first: every tensor is found, checked and given its use before an element is
 *     written. What can still fail then is the disk.
 * I2  A tensor is used by one part.
 * I3  Nothing is held but one window; a window of which the rank has no element is not read.
 * I4  Of a comparison only what the rank answers for is looked at, so the sums over all ranks see
 *     every element once. */
#include "train/hf/weights.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "base/waiting.h"
#include "train/executor/owned.h"
#include "train/executor/part_map.h"
#include "train/hf/map.h"
#include "train/hf/source.h"

/* ---- what a rank holds of a tensor */

/* Element hf + i * hf_step of the tensor is element ours + i * our_step of the rank's part of the
 * weight, i < n. */
typedef struct held_runs {
    const part_map *map;
    hf_runs runs;
    hf_run run; /* of the whole weight, from its element `next` on */
    int64_t next;
} held_runs;

/* Of the elements [lo, hi) of a part of the whole model's weight. */
static held_runs held_of(const part_map *map, const hf_part *p, int64_t lo, int64_t hi)
{
    return (held_runs){.map = map, .runs = hf_runs_of(p, lo, hi)};
}

/* Elements one behind the other are so in the whole and in the part: a run of a larger step takes
 * every step-th of them. */
static bool held_next(held_runs *h, hf_run *run)
{
    for (;;) {
        if (h->next >= h->run.n) {
            if (!hf_runs_next(&h->runs, &h->run)) return false;
            h->next = 0;
        }
        const hf_run *r = &h->run;
        int64_t alike, i = h->next;
        int64_t at = part_map_find(h->map, r->ours + i * r->our_step, &alike);
        int64_t n = ceil_div(alike, r->our_step);
        if (n > r->n - i) n = r->n - i;
        h->next += n;
        if (at < 0) continue;
        *run = (hf_run){r->hf + i * r->hf_step, at, n, r->hf_step, r->our_step};
        return true;
    }
}

/* Has the rank any of them? */
static bool held_any(const part_map *map, const hf_part *p, int64_t lo, int64_t hi)
{
    hf_run run;
    held_runs h = held_of(map, p, lo, hi);
    return held_next(&h, &run);
}

/* ---- why a tensor of a file may be left out
 *
 * The reasons are a table, tried in order. What fits none is refused: a tensor that we do not know
 * may be one that the model needs. */

typedef struct finder {
    hf_source *src;
    const setup *s;
    error *err;
} finder;

#define LAYERS "model.layers."
#define TABLE  "model.embed_tokens.weight"
#define HEAD   "lm_head.weight"

/* The number in "model.layers.N." with what follows it; -1: another name. */
static int64_t layer_of(const char *name, const char **rest)
{
    const char *digits = name + strlen(LAYERS);
    if (!text_starts(name, LAYERS) || !isdigit((unsigned char)*digits)) return -1;
    char *end;
    long long n = strtoll(digits, &end, 10);
    *rest = end + 1;
    return *end == '.' ? n : -1;
}

/* Of a prediction module whose weights the model has: a repeated one exists once. */
static bool is_kept_module(const model *m, int64_t layer)
{
    return layer >= m->n_layers && layer < m->n_layers + model_modules(m, m->n_mtp);
}

/* A layer beyond the model's may be its next layer, which somebody has cut off, or a prediction
 * module, which alone has a projection of two inputs. */
static bool is_module(const finder *f, int64_t layer)
{
    const char *name = arena_text(f->src->a, LAYERS "%" PRId64 ".eh_proj.weight", layer);
    return hf_source_find(f->src, name) != NULL;
}

/* "a copy of X", or that it differs; NULL where there is no X. */
static status copy_of(finder *f, const hf_entry *e, const char *name, const char **reason)
{
    const hf_entry *original = hf_source_find(f->src, name);
    bool same = false;
    *reason = NULL;
    if (!original) return OK;
    status st = hf_source_same(f->src, e, original, &same, f->err);
    *reason =
        arena_text(f->src->a, "%s of %s, which is used", same ? "a copy" : "another version", name);
    return st;
}

/* ---- reasons: each sets *reason where it holds */

static status frequencies(finder *f, const hf_entry *e, const char **reason)
{
    static const char tail[] = "rotary_emb.inv_freq";
    size_t n = strlen(e->t->name), n_tail = sizeof tail - 1;
    (void)f;
    if (n >= n_tail && strcmp(e->t->name + n - n_tail, tail) == 0)
        *reason = "rotary frequencies are computed instead";
    return OK;
}

/* transformers writes the weights of zero shared experts. */
static status nothing(finder *f, const hf_entry *e, const char **reason)
{
    (void)f;
    if (safetensor_elements(e->t) == 0) *reason = "has no elements";
    return OK;
}

static status module_tables(finder *f, const hf_entry *e, const char **reason)
{
    const char *rest = "";
    if (!is_kept_module(&f->s->m, layer_of(e->t->name, &rest))) return OK;
    if (strcmp(rest, "embed_tokens.weight") == 0) return copy_of(f, e, TABLE, reason);
    if (strcmp(rest, "shared_head.head.weight") == 0)
        return copy_of(f, e, f->s->m.tied ? TABLE : HEAD, reason);
    return OK;
}

static status left_out_module(finder *f, const hf_entry *e, const char **reason)
{
    const model *m = &f->s->m;
    const char *rest;
    int64_t layer = layer_of(e->t->name, &rest);
    bool module = layer >= m->n_layers && !is_kept_module(m, layer) && is_module(f, layer);
    if (text_starts(e->t->name, "mtp.")) module = m->n_mtp == 0 || m->mtp_repeated;
    if (module)
        *reason = arena_text(f->src->a,
                             "a prediction module that the recipe leaves out (%s is %" PRId64 ")",
                             knobs[K_MTP].key, m->n_mtp);
    return OK;
}

static status tied_head(finder *f, const hf_entry *e, const char **reason)
{
    if (!f->s->m.tied || strcmp(e->t->name, HEAD) != 0) return OK;
    bool same = false;
    const hf_entry *table = hf_source_find(f->src, TABLE);
    if (table) TRY(hf_source_same(f->src, e, table, &same, f->err));
    if (same) {
        *reason = "a copy of " TABLE ": the head is tied to it";
        return OK;
    }
    return error_set(f->err, ERR_INPUT,
                     "%s: tensor '" HEAD "' differs from '" TABLE "', but the model ties them; if "
                     "they are two, set %s=false",
                     e->path, knobs[K_TIED].key);
}

static status (*const reasons[])(finder *, const hf_entry *, const char **) = {
    frequencies, nothing, module_tables, left_out_module, tied_head};

static status unknown(const finder *f, const hf_entry *e)
{
    const char *rest;
    int64_t layer = layer_of(e->t->name, &rest);
    if (layer >= f->s->m.n_layers)
        return error_set(f->err, ERR_INPUT,
                         "%s: tensor '%.200s' is of layer %" PRId64 "; the model has %" PRId64
                         " layers (%s)",
                         e->path, e->t->name, layer, f->s->m.n_layers, knobs[K_LAYERS].key);
    return error_set(
        f->err, ERR_INPUT,
        "%s: tensor '%.200s' is none of this model's (%s); is config.json the one that "
        "came with it?",
        e->path, e->t->name, f->s->m.family);
}

static status find_reason(finder *f, hf_entry *e)
{
    status st = OK;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0] && !e->reason && !st; i++)
        st = reasons[i](f, e, &e->reason);
    if (st) return st;
    e->use = HF_IGNORED;
    return e->reason ? OK : unknown(f, e);
}

/* Gives each tensor that no weight has used a reason to be ignored, or fails with the first that
 * has none. */
static status find_leftovers(hf_source *src, const setup *s, error *err)
{
    finder f = {src, s, err};
    status st = OK;
    for (int i = 0; i < src->n_entries && !st; i++)
        if (src->entries[i].use == HF_UNUSED) st = find_reason(&f, &src->entries[i]);
    return st;
}

/* ---- loading */

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
    held_runs held = held_of(l->map, p, lo, hi);
    for (hf_run r; held_next(&held, &r); l->written += r.n) {
        const float *from = l->window + (r.hf - lo);
        float *to = ours + r.ours;
        for (int64_t i = 0; i < r.n; i++) to[i * r.our_step] = from[i * r.hf_step];
        if (shift != 0.0f) /* adding zero would lose the sign of -0 */
            for (int64_t i = 0; i < r.n; i++) to[i * r.our_step] += shift;
    }
}

static status load_part(loading *l, const hf_part *p, hf_match *m)
{
    if (!held_any(l->map, p, 0, p->elements)) return OK;
    status st = hf_source_begin(l->src, m, l->err);
    for (int64_t lo = 0; lo < p->elements && !st; lo += HF_WINDOW) {
        int64_t hi = p->elements - lo < HF_WINDOW ? p->elements : lo + HF_WINDOW;
        if (!held_any(l->map, p, lo, hi)) continue; /* I3 */
        st = hf_source_read(l->src, m, lo, hi, l->window, l->err);
        if (!st) scatter(l, p, lo, hi);
    }
    hf_source_end(m);
    return st;
}

static status plan_weights(loading *l, const weight_list *whole, arena *a)
{
    for (int i = 0; i < whole->n; i++) TRY(each_part(l, &whole->list[i], a, plan_part));
    return OK;
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
    if (!st) st = find_leftovers(&src, s, err);
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

/* ---- a tensor of a file beside what ranks hold of it */

typedef struct comparing {
    const hf_flat *f;
    const weight *w;    /* on this rank */
    int64_t first, end; /* elements of it that count (I4) */
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
    held_runs held = held_of(&map, p, 0, p->elements);
    for (hf_run r; n > 0 && held_next(&held, &r);) see_run(g, &r);
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
