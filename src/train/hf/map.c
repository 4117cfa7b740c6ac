/* map.c - the maps of each kind of weight, as pieces. */
#include "train/hf/map.h"

#include <inttypes.h>

#include "base/maths.h"

static bool is_expert_rows(const weight *w)
{
    return w->row->hf == HF_EXPERT_ROWS;
}

/* Rows are stacked in equal shares, one for each section. A weight without sections (an MLP without
 * a gate) that would need two tensors is in no file. */
static bool stacks(const param *p)
{
    int parts = param_hf_parts(p);
    return parts == 1 || p->n_sections == parts;
}

static int64_t n_experts(const weight *w)
{
    return w->row->dim[0];
}

int64_t hf_parts(const weight *w, hf_spelling spelling)
{
    const param *p = w->row;
    int64_t in = p->n_dims == 3 ? p->dim[2] : 0;
    switch (spelling) {
    case HF_FUSED:
        return p->hf_fused != NULL;
    case HF_PACKED:
        return p->hf == HF_EXPERT_FUSED_T && in > 0 && in % HF_PACKED_BLOCK == 0;
    default:
        break;
    }
    bool rows = p->hf == HF_ROWS || p->hf == HF_MINUS_ONE || is_expert_rows(w);
    if (rows && !stacks(p)) return 0;
    return param_hf_parts(p) * (is_expert_rows(w) ? n_experts(w) : 1);
}

int64_t hf_padding(const model *m, const weight *w)
{
    const param *p = w->row;
    if (p->kind != PARAM_EMBEDDING || !p->hf_names[0]) return 0;
    return (p->dim[0] - m->vocab) * (w->n / p->dim[0]);
}

float hf_shift(const weight *w)
{
    return w->row->hf == HF_MINUS_ONE ? -1.0f : 0.0f;
}

/* ---- shapes */

static int64_t columns(const param *p)
{
    return p->n_dims == 2 ? p->dim[1] : 1;
}

/* Rows of the file's tensor, where its other dimensions are those of the weight. */
static int64_t rows_of_part(const model *m, const param *p, int part)
{
    int64_t sum = 0;
    switch (p->hf) {
    case HF_QKV:
    case HF_QKV_GATE:
        if (part > 0) return mul_sat(m->attention->kv_heads, m->attention->head_dim);
        return mul_sat(mul_sat(m->attention->heads, p->hf == HF_QKV_GATE ? 2 : 1),
                       m->attention->head_dim);
    case HF_GDN_IN:
        for (int i = part ? 4 : 0; i < (part ? 6 : 4); i++) sum = add_sat(sum, p->section[i]);
        return sum;
    default:
        return p->kind == PARAM_EMBEDDING ? m->vocab : p->dim[0] / param_hf_parts(p);
    }
}

static void set_dims(hf_part *p, int n, const int64_t *dim)
{
    p->n_dims = n;
    p->elements = 1;
    for (int i = 0; i < n; i++) {
        p->dim[i] = dim[i];
        p->elements = mul_sat(p->elements, dim[i]);
    }
}

static void set_packed_dims(hf_part *p)
{
    const int64_t *d = p->w->row->dim;
    set_dims(p, 4, (int64_t[]){d[0], d[1], d[2] / HF_PACKED_BLOCK, HF_PACKED_BLOCK / 2});
    p->elements = mul_sat(p->elements, 2);
}

static void set_shape(hf_part *p)
{
    const param *row = p->w->row;
    const int64_t *d = row->dim;
    if (p->spelling == HF_PACKED)
        set_packed_dims(p);
    else if (p->spelling == HF_FUSED || (row->hf == HF_EXPERT_FUSED_T && row->n_dims == 2))
        set_dims(p, row->n_dims, d);
    else if (row->hf == HF_EXPERT_FUSED_T)
        set_dims(p, 3, (int64_t[]){d[0], d[2], d[1]});
    else if (row->hf == HF_EXPERT_ROWS)
        set_dims(p, 2, (int64_t[]){d[1] / param_hf_parts(row), d[2]});
    else
        set_dims(p, row->n_dims, (int64_t[]){rows_of_part(p->m, row, p->part), d[1], d[2]});
}

static int64_t sections(const param *p)
{
    return p->n_sections ? p->n_sections : 1;
}

static int64_t count_pieces(const hf_part *p)
{
    const param *row = p->w->row;
    if (p->spelling == HF_FUSED) return 1;
    switch (row->hf) {
    case HF_QKV_GATE:
        return p->part == 0 ? 2 * p->m->attention->kv_heads : 1;
    case HF_GDN_IN:
        return p->part == 0 ? 4 : 2;
    case HF_EXPERT_FUSED_T:
        return n_experts(p->w) * sections(row);
    default:
        return 1;
    }
}

static const char *part_name(const hf_part *p, arena *a)
{
    const param *row = p->w->row;
    if (p->spelling == HF_FUSED)
        return arena_text(a, "%s%s", param_hf_prefix(a, p->m, row->block->kind, p->w->layer),
                          row->hf_fused);
    const char *name = param_hf_name(a, p->m, row, p->w->layer, p->part, p->expert);
    return p->spelling == HF_PACKED ? arena_text(a, "%s_blocks", name) : name;
}

void hf_part_init(hf_part *p, const model *m, const weight *w, hf_spelling spelling, int64_t i,
                  arena *a)
{
    int parts = param_hf_parts(w->row);
    *p = (hf_part){.m = m, .w = w, .spelling = spelling};
    if (spelling == HF_PUBLIC) {
        p->part = (int)(i % parts);
        p->expert = i / parts;
    }
    p->name = part_name(p, a);
    set_shape(p);
    p->n_pieces = count_pieces(p);
}

/* ---- pieces */

/* n elements in one row. */
static hf_piece plain(int64_t ours, int64_t n)
{
    return (hf_piece){0, ours, 1, n, n, 1, n, 1};
}

static hf_piece stacked_piece(const hf_part *p)
{
    int64_t parts = param_hf_parts(p->w->row);
    if (p->spelling == HF_FUSED) return plain(0, p->elements);
    return plain((p->expert * parts + p->part) * p->elements, p->elements);
}

/* Here a key/value group is its query heads, (their gates,) its key, its value. */
static hf_piece qkv_piece(const hf_part *p, int64_t i)
{
    const param *row = p->w->row;
    int64_t groups = p->m->attention->kv_heads,
            each = p->m->attention->heads / groups; /* query heads of a group */
    int64_t head = p->m->attention->head_dim * columns(row);
    int64_t queries = (row->hf == HF_QKV_GATE ? 2 : 1) * each, group = (queries + 2) * head;
    if (p->part > 0)
        return (hf_piece){0, (queries + p->part - 1) * head, groups, head, head, 1, group, 1};
    if (row->hf == HF_QKV) return (hf_piece){0, 0, groups, each * head, each * head, 1, group, 1};
    int64_t g = i / 2, gate = i % 2; /* the file has query and gate by head */
    return (hf_piece){(2 * g * each + gate) * head,
                      g * group + gate * each * head,
                      each,
                      head,
                      2 * head,
                      1,
                      head,
                      1};
}

/* Here sections over all heads; in the file they are by key head. */
static hf_piece gdn_piece(const hf_part *p, int64_t i)
{
    const param *row = p->w->row;
    int64_t heads = p->m->gdn->k_heads, cols = columns(row);
    int first = p->part ? 4 : 0, last = p->part ? 6 : 4, here = first + (int)i;
    int64_t before = 0, ours = 0, period = 0;
    for (int k = 0; k < here; k++) ours += row->section[k];
    for (int k = first; k < here; k++) before += row->section[k] / heads;
    for (int k = first; k < last; k++) period += row->section[k] / heads;
    int64_t width = row->section[here] / heads * cols;
    return (hf_piece){before * cols, ours * cols, heads, width, period * cols, 1, width, 1};
}

/* One expert, one section. The file's outputs alternate between sections. */
static hf_piece fused_t_piece(const hf_part *p, int64_t i)
{
    const param *row = p->w->row;
    int64_t n = sections(row), e = i / n, s = i % n, out = row->dim[1], each = out / n;
    int64_t in = row->n_dims == 3 ? row->dim[2] : 1;
    int64_t first = e * out * in, ours = first + s * each * in;
    if (p->spelling == HF_PACKED)
        return (hf_piece){first + s * in, ours, each, in, n * in, 1, in, 1};
    return (hf_piece){first + s, ours, in, each, out, n, 1, in};
}

static hf_piece piece_of(const hf_part *p, int64_t i)
{
    if (p->spelling == HF_FUSED) return stacked_piece(p);
    switch (p->w->row->hf) {
    case HF_QKV:
    case HF_QKV_GATE:
        return qkv_piece(p, i);
    case HF_GDN_IN:
        return gdn_piece(p, i);
    case HF_EXPERT_FUSED_T:
        return fused_t_piece(p, i);
    default:
        return stacked_piece(p);
    }
}

/* ---- runs */

hf_runs hf_runs_of(const hf_part *p, int64_t lo, int64_t hi)
{
    return (hf_runs){.p = p, .lo = lo, .hi = hi};
}

/* The smallest i >= 0 with i * step >= from. */
static int64_t first_at(int64_t from, int64_t step)
{
    return from <= 0 ? 0 : ceil_div(from, step);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void enter_piece(hf_runs *r)
{
    r->at = piece_of(r->p, r->next_piece++);
    int64_t reach = (r->at.n_inner - 1) * r->at.hf_inner;
    r->outer = first_at(r->lo - r->at.hf - reach, r->at.hf_outer);
    r->outer_end = least(r->at.n_outer, first_at(r->hi - r->at.hf, r->at.hf_outer));
}

bool hf_runs_next(hf_runs *r, hf_run *run)
{
    for (;;) {
        while (r->outer >= r->outer_end) {
            if (r->next_piece >= r->p->n_pieces) return false;
            enter_piece(r);
        }
        const hf_piece *at = &r->at;
        int64_t o = r->outer++, start = at->hf + o * at->hf_outer;
        int64_t from = first_at(r->lo - start, at->hf_inner);
        int64_t to = least(at->n_inner, first_at(r->hi - start, at->hf_inner));
        if (from >= to) continue; /* between two elements of the row */
        *run = (hf_run){start + from * at->hf_inner,
                        at->ours + o * at->our_outer + from * at->our_inner, to - from,
                        at->hf_inner, at->our_inner};
        return true;
    }
}

/* ---- all tensors */

bool hf_walk_next(hf_walk *walk, hf_part *p, arena *a)
{
    for (; walk->weight < walk->w->n; walk->weight++, walk->part = 0) {
        const weight *w = &walk->w->list[walk->weight];
        if (walk->part >= hf_parts(w, walk->spelling)) continue;
        hf_part_init(p, &walk->s->m, w, walk->spelling, walk->part++, a);
        return true;
    }
    return false;
}

/* ---- checks */

static bool heads_fit(const model *m, const param *p)
{
    if (p->hf == HF_QKV || p->hf == HF_QKV_GATE)
        return m->attention->kv_heads > 0 && m->attention->heads % m->attention->kv_heads == 0;
    if (p->hf == HF_GDN_IN) return m->gdn->k_heads > 0 && m->gdn->v_heads % m->gdn->k_heads == 0;
    return true;
}

/* All experts are alike: the parts of one are looked at. */
static int64_t covered(const setup *s, const weight *w, arena *a)
{
    int64_t parts = param_hf_parts(w->row), sum = 0;
    for (int64_t i = 0; i < parts; i++) {
        hf_part p;
        hf_part_init(&p, &s->m, w, HF_PUBLIC, i, a);
        sum = add_sat(sum, p.elements);
    }
    return is_expert_rows(w) ? mul_sat(sum, n_experts(w)) : sum;
}

static status check_weight(const setup *s, const weight *w, arena *a, error *err)
{
    const param *p = w->row;
    if (w->n <= 0 || w->n >= SIZE_HUGE || (hf_padding(&s->m, w) < 0))
        return error_set(err, ERR_INPUT,
                         "weight %s: its size is not usable; `moefold check` reports the reason",
                         weight_name(a, s, w));
    if (hf_parts(w, HF_PUBLIC) == 0)
        return error_set(err, ERR_INPUT,
                         "weight %s: Hugging Face files of this family (%s) have no such weight",
                         weight_name(a, s, w), s->m.family);
    if (!heads_fit(&s->m, p) || covered(s, w, a) + hf_padding(&s->m, w) != w->n)
        return error_set(err, ERR_INPUT,
                         "weight %s: heads, groups and widths do not fit together; `moefold check` "
                         "reports the reason",
                         weight_name(a, s, w));
    return OK;
}

status hf_check(const setup *s, const weight_list *w, error *err)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    status st = OK;
    for (int i = 0; i < w->n && !st; i++) {
        st = check_weight(s, &w->list[i], a, err);
        arena_release(a, mark);
    }
    arena_destroy(a);
    return st;
}
