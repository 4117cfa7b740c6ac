/* live_program.c - the levels of a program's instances, and of its pairs. */
#include "ir/memory/live.h"
#include "ir/memory/plan.h"

typedef struct known_pair {
    const segment *f, *b;
    live_level level;
} known_pair;

typedef struct levels {
    const program *p;
    arena *a;
    live_row *rows;
    int **instance; /* of an entry of a row */
    known_pair *pairs;
    int n_pairs, room;
} levels;

static bool is_message(segment_kind k)
{
    return k == SEGMENT_RECEIVE || k == SEGMENT_SEND;
}

/* Segments repeat, so each is walked once. */
static live_span span_of(const levels *l, live_span *known, const segment *seg)
{
    const program *p = l->p;
    int id = 0;
    while (id < p->n_segments && p->segments[id] != seg) id++;
    if (id == p->n_segments) return live_of_segment(seg, p->s, l->a);
    if (known[id].forward.saved < 0) known[id] = live_of_segment(seg, p->s, l->a);
    return known[id];
}

static void make_row(levels *l, live_span *known, int64_t at)
{
    const chunk *c = &l->p->chunks[at];
    live_span *spans = ARENA_ARRAY(l->a, live_span, c->n + 1);
    segment_kind *kinds = ARENA_ARRAY(l->a, segment_kind, c->n + 1);
    l->instance[at] = ARENA_ARRAY(l->a, int, c->n + 1);
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (is_message(c->kinds[i])) continue;
        spans[n] = span_of(l, known, c->list[i].seg);
        kinds[n] = c->kinds[i];
        l->instance[at][n++] = i;
    }
    l->rows[at] = (live_row){spans, kinds, n};
}

/* Pairs stand among the items. */
static void find_pairs(levels *l)
{
    const program *p = l->p;
    for (int64_t i = 0; i < p->items[PART_STEP].n; i++) {
        const item *it = &p->items[PART_STEP].list[i];
        if (it->seg->kind != SEGMENT_PAIR) continue;
        const segment *f = p->chunks[it->at[0].chunk].list[it->at[0].instance].seg;
        const segment *b = p->chunks[it->at[1].chunk].list[it->at[1].instance].seg;
        int k = 0;
        while (k < l->n_pairs && (l->pairs[k].f != f || l->pairs[k].b != b)) k++;
        if (k < l->n_pairs) continue;
        ARENA_GROW(l->a, l->pairs, l->n_pairs, l->room);
        l->pairs[l->n_pairs++] = (known_pair){f, b, live_of_pair(it->seg, p->s, l->a)};
    }
}

static live_level level_of_pair(void *with, int64_t f_chunk, int f, int64_t b_chunk, int b)
{
    const levels *l = with;
    const segment *of_f = l->p->chunks[f_chunk].list[l->instance[f_chunk][f]].seg;
    const segment *of_b = l->p->chunks[b_chunk].list[l->instance[b_chunk][b]].seg;
    for (int k = 0; k < l->n_pairs; k++)
        if (l->pairs[k].f == of_f && l->pairs[k].b == of_b) return l->pairs[k].level;
    return l->rows[f_chunk].spans[f].forward;
}

static int64_t layers_in_flight(const program *p, arena *a)
{
    int64_t *n = ARENA_ARRAY(a, int64_t, p->n_chunks);
    for (int64_t c = 0; c < p->n_chunks; c++) {
        n[c] = p->chunks[c].st->n_layers;
        for (int i = 0; i < p->chunks[c].n; i++) n[c] += p->chunks[c].kinds[i] == SEGMENT_MTP;
    }
    return live_in_flight(&p->order, n);
}

void program_live(program_size *out, const program *p)
{
    levels l = {.p = p, .a = arena_create()};
    l.rows = ARENA_ARRAY(l.a, live_row, p->n_chunks);
    l.instance = ARENA_ARRAY(l.a, int *, p->n_chunks);
    live_span *known = ARENA_ARRAY(l.a, live_span, p->n_segments + 1);
    for (int i = 0; i < p->n_segments; i++) known[i].forward.saved = -1;
    for (int64_t i = 0; i < p->n_chunks; i++) make_row(&l, known, i);
    bool pairs = p->s->j.ep_overlap;
    if (pairs) find_pairs(&l);
    live_rank r = {.order = &p->order,
                   .rows = l.rows,
                   .n_chunks = p->n_chunks,
                   .pairs = pairs,
                   .pair = level_of_pair,
                   .with = &l};
    out->level = live_peak(&r, l.a);
    out->layers = layers_in_flight(p, l.a);
    arena_destroy(l.a);
}
