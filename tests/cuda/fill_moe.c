/* fill_moe.c - inputs of routed kinds: choices, the order that follows from them, tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cases.h"

/* Ways to choose: any experts; the first K; every second one. */
enum { SPREAD, CROWDED, SPARSE };

static void choose(trial *t, int32_t *ids, int64_t n_t, int64_t n_e, int64_t k, int way)
{
    const int64_t usable = way == CROWDED ? k : way == SPARSE ? (n_e + 1) / 2 : n_e;
    for (int64_t i = 0; i < n_t; i++) {
        const int64_t first = next_below(t, usable);
        for (int64_t j = 0; j < k; j++) {
            const int64_t e = (first + j) % usable;
            ids[i * k + j] = (int32_t)(way == SPARSE ? 2 * e : e);
        }
    }
}

/* One in three is dropped. */
static void drop_some(trial *t, tensor *keep)
{
    for (int64_t i = 0; i < keep->n; i++) keep->f[i] = next_below(t, 3) != 0;
}

/* ---- the router */

static void strange_logits(trial *t)
{
    static const float rows[4][8] = {{1, 1, 1, 1, 2, 1, 0, 1},
                                     {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN},
                                     {INFINITY, 0, -INFINITY, 3, 3, NAN, 5, 5},
                                     {-INFINITY, -INFINITY, 0, 0, 0, 0, -1, -1}};
    for (int64_t i = 0; i < t->in[0].n; i++) t->in[0].f[i] = rows[i / 8 % 4][i % 8];
}

void fill_router(trial *t)
{
    tensor_scale(&t->in[0], 4, 0);
    if (t->way == 1) strange_logits(t);
    tensor_ints(&t->out[1], t->o.dim[0] * t->o.dim[2]);
}

void fill_router_d(trial *t)
{
    op forward = t->o;
    tensor probs = {0};
    forward.kind = OP_ROUTER;
    tensor_scale(&t->in[1], 4, 0);
    tensor_ints(&t->in[2], t->in[0].n);
    tensor_reals(t, &probs, t->in[0].n);
    void *in[] = {t->in[1].f, NULL}, *out[] = {probs.f, t->in[2].i};
    oracle(&forward, in, out);
    tensor_release(&probs);
}

/* Counts are whole numbers; a rank may be at any sample. */
void fill_counts(trial *t)
{
    const op *o = &t->o;
    const bool count = o->kind == OP_AUX_COUNT, local = o->kind == OP_AUX_LOSS;
    const int64_t experts = local ? o->dim[2] : o->dim[1];
    const int64_t size = count ? o->dim[3] : local && o->dim[4] == 1 ? o->dim[1] : 0;
    const int64_t first = count ? o->dim[4] : local ? o->dim[5] : 0;
    const int64_t samples = size > 0 ? (first + o->dim[0]) / size + 1 : 1;
    tensor *counts = count ? &t->out[0] : &t->in[1];
    tensor_scale(&t->in[0], 3, 0);
    tensor_reals(t, counts, samples * experts);
    for (int64_t i = 0; i < counts->n; i++)
        counts->f[i] = t->way == 1 ? 0 : (float)next_below(t, 12);
}

/* ---- the order of rows */

void fill_choice(trial *t)
{
    const op *o = &t->o;
    const int64_t n_t = o->dim[0], k = o->dim[2];
    tensor *ids = &t->in[o->kind == OP_DROP ? 1 : 0];
    tensor_ints(ids, n_t * k);
    /* one of several ranks chooses among all experts */
    choose(t, ids->i, n_t, o->kind == OP_SORT ? o->dim[1] + 2 * o->dim[5] : o->dim[1], k, t->way);
    if (o->kind == OP_DROP) { /* some weights are equal */
        for (int64_t i = 0; i < t->in[0].n; i++)
            t->in[0].f[i] = roundf(8 * fabsf(t->in[0].f[i])) / 8;
        return;
    }
    drop_some(t, &t->in[1]);
    if (o->kind == OP_LOAD) return;
    tensor_ints(&t->out[0], n_t * k);
    tensor_ints(&t->out[1], o->dim[1] + 1);
    tensor_ints(&t->out[2], 2);
}

/* Rows of 7 experts, in as much room as there is; way 1 drops what has none, 2 leaves some
 * empty. */
void fill_permute(trial *t)
{
    const op *o = &t->o;
    const bool short_form = o->kind == OP_UNPERMUTE || o->kind == OP_UNPERMUTE_D;
    const int64_t n_t = o->dim[0], k = o->dim[1], experts = 7;
    tensor ids = {0}, offsets = {0}, *rows = &t->in[short_form ? 1 : 2];
    op sort = {.kind = OP_SORT, .dim = {n_t, experts, k, o->dim[3], 0, 0}};
    tensor_ints(&ids, n_t * k);
    tensor_ints(&offsets, experts + 1);
    tensor_ints(rows, n_t * k);
    choose(t, ids.i, n_t, experts, k, t->way);
    void *in[] = {ids.i, NULL}, *out[] = {rows->i, offsets.i, NULL};
    oracle(&sort, in, out);
    tensor_release(&ids);
    tensor_release(&offsets);
}

/* Where experts' rows start: 0 anywhere, 1 all to the second, 2 every second expert is empty, 3 all
 * to the first, 4 none, 5 a part of the room is empty. */
void fill_grouped(trial *t)
{
    const int64_t room = t->o.dim[0], n_e = t->o.dim[1];
    tensor *offsets = &t->in[2];
    tensor_ints(offsets, n_e + 1);
    const int64_t filled = t->way == 4 ? 0 : t->way == 5 ? room * 2 / 3 : room;
    for (int64_t i = 0; i < filled; i++) {
        const int64_t e = next_below(t, n_e);
        offsets->i[1 + (t->way == 1 ? 1 : t->way == 2 ? e / 2 * 2 : t->way == 3 ? 0 : e)]++;
    }
    for (int64_t e = 0; e < n_e; e++) offsets->i[e + 1] += offsets->i[e];
}

/* ---- tables of messages */

/* Offsets of every member's sort, and this one's rows. */
void fill_route(trial *t)
{
    const int64_t *d = t->o.dim;
    const int64_t n_e = d[0], ep = d[1], etp = d[2], place = d[3], n = d[4] * d[5], room = d[6];
    const int64_t n_members = ep * etp;
    tensor ids = {0}, rows = {0};
    tensor_ints(&ids, n);
    tensor_ints(&rows, n);
    tensor_ints(&t->in[0], n);
    tensor_ints(&t->in[1], n_members * (n_e + 1));
    for (int64_t m = 0; m < n_members; m++) {
        op sort = {.kind = OP_SORT, .dim = {d[4], n_e, d[5], n, 0, 0}};
        choose(t, ids.i, d[4], n_e, d[5], m == 1 ? CROWDED : m == 2 ? SPARSE : SPREAD);
        void *in[] = {ids.i, NULL};
        void *out[] = {rows.i, t->in[1].i + m * (n_e + 1), NULL};
        oracle(&sort, in, out);
        if (m == place) memcpy(t->in[0].i, rows.i, sizeof(int32_t) * (size_t)n);
    }
    const int64_t counts[] = {n, 6 * ep, 8 * etp, etp * room, n_e / ep + 1, room * etp, 2};
    for (int i = 0; i < 7; i++) tensor_ints(&t->out[i], counts[i]);
    tensor_release(&ids);
    tensor_release(&rows);
}

/* The flex dispatcher on all members: what one sees depends on what all have counted. */
typedef struct flex {
    int64_t members, domains, widest, own;
    tensor ids, keep, rows, counts;
} flex;

static int64_t domain_of(const int64_t *d, int64_t member)
{
    return (d[4] + member) / d[5];
}

static flex flex_sizes(const int64_t *d)
{
    flex f = {.members = d[1] * d[2]};
    f.domains = domain_of(d, f.members - 1) + 1;
    for (int64_t i = 0; i < f.domains; i++) {
        int64_t n = 0;
        for (int64_t m = 0; m < f.members; m++) n += domain_of(d, m) == i;
        if (n > f.widest) f.widest = n;
        if (i == domain_of(d, d[3])) f.own = n;
    }
    return f;
}

/* counts[members][domains + members], and this member's rows, of n_t tokens of K each. */
static void count_all(trial *t, const int64_t *d, int64_t n_t, int64_t k, tensor *rows,
                      tensor *counts)
{
    flex f = flex_sizes(d);
    tensor_ints(&f.ids, n_t * k);
    tensor_ints(&f.rows, n_t * f.domains);
    tensor_ints(counts, f.members * (f.domains + f.members));
    for (int64_t m = 0; m < f.members; m++) {
        op count = {.kind = OP_FLEX_COUNT, .dim = {d[0], d[1], d[2], m, d[4], d[5], n_t, k}};
        choose(t, f.ids.i, n_t, d[0], k, m % 4 == 1 ? CROWDED : SPREAD);
        void *in[] = {f.ids.i, NULL};
        void *out[] = {f.rows.i, counts->i + m * (f.domains + f.members)};
        oracle(&count, in, out);
        if (rows && m == d[3]) memcpy(rows->i, f.rows.i, sizeof(int32_t) * (size_t)f.rows.n);
    }
    tensor_release(&f.ids);
    tensor_release(&f.rows);
}

static void fill_count(trial *t)
{
    const int64_t *d = t->o.dim;
    const flex f = flex_sizes(d);
    tensor_ints(&t->in[0], d[6] * d[7]);
    choose(t, t->in[0].i, d[6], d[0], d[7], SPREAD);
    drop_some(t, &t->in[1]);
    tensor_ints(&t->out[0], d[6] * f.domains);
    tensor_ints(&t->out[1], f.domains + f.members);
}

static void fill_plan(trial *t)
{
    const int64_t *d = t->o.dim;
    const flex f = flex_sizes(d);
    const int64_t counts[] = {d[6] * f.domains, 6 * f.members, 6 * f.members, f.widest * f.widest,
                              6};
    tensor_ints(&t->in[0], d[6] * f.domains);
    count_all(t, d, d[6], 3, &t->in[0], &t->in[1]);
    for (int i = 0; i < 5; i++) tensor_ints(&t->out[i], counts[i]);
    if (t->out[3].n > f.own * f.own) t->out[3].n = f.own * f.own; /* what is written of it */
}

/* Experts of each row, then weights; some are none. */
static void fill_meta(trial *t, tensor *meta, int64_t rows, int64_t k, int64_t experts)
{
    tensor_reals(t, meta, rows * 2 * k);
    for (int64_t i = 0; i < rows * k; i++)
        meta->f[i / k * 2 * k + i % k] = (float)(next_below(t, experts + 1) - 1);
}

/* A table of which only the rows that come in count. */
static void fill_received(trial *t, tensor *table, int64_t n_members, int64_t rows)
{
    tensor_ints(table, 6 * n_members);
    for (int64_t i = 0; i < rows; i++) table->i[3 * n_members + next_below(t, n_members)]++;
}

static void fill_fan(trial *t)
{
    const int64_t *d = t->o.dim, n_t = d[6];
    const flex f = flex_sizes(d);
    fill_meta(t, &t->in[0], n_t, d[7], d[0]);
    fill_received(t, &t->in[1], f.members, n_t * 4 / 5);
    tensor_ints(&t->in[2], 6 * f.members);
    int32_t start = 0;
    for (int64_t m = 0; m < f.members; m++) { /* not all find room */
        if (domain_of(d, m) != domain_of(d, d[3])) continue;
        t->in[2].i[m] = start;
        start += t->in[2].i[f.members + m] = (int32_t)next_below(t, 60);
    }
    tensor_ints(&t->out[0], n_t * f.own);
}

void fill_flex(trial *t)
{
    const int64_t *d = t->o.dim;
    switch ((int)t->o.kind) {
    case OP_FLEX_COUNT:
        fill_count(t);
        break;
    case OP_FLEX_PLAN:
        fill_plan(t);
        break;
    case OP_FLEX_FAN:
        fill_fan(t);
        break;
    case OP_FLEX_PACK:
        tensor_ints(&t->in[1], d[0] * d[1]);
        choose(t, t->in[1].i, d[0], 4096, d[1], SPREAD);
        drop_some(t, &t->in[2]);
        break;
    case OP_FLEX_UNPACK:
        fill_meta(t, &t->in[0], d[0], d[1], 4096);
        fill_received(t, &t->in[1], d[2], d[0] - 7);
        tensor_ints(&t->out[1], d[0] * d[1]);
        break;
    default: /* FLEX_PLACE */
        fill_meta(t, &t->in[1], d[0], d[1], d[4] + 2 * d[5]);
        fill_received(t, &t->in[2], d[6], d[0] - 7);
        tensor_ints(&t->out[2], d[0] * d[1]);
        tensor_ints(&t->out[3], d[4] + 1);
        tensor_ints(&t->out[4], 2);
    }
}

/* Nothing before; less full before; fuller before. */
void fill_demand(trial *t)
{
    static const int32_t pairs[] = {5, 10, 9, 12, 1, 8};
    static const float before[][2] = {{0, 0}, {5, 10}, {100, 99}};
    tensor_ints(&t->in[0], 2 * t->o.dim[0]);
    memcpy(t->in[0].i, pairs, sizeof(int32_t) * (size_t)t->in[0].n);
    memcpy(t->out[0].f, before[t->way], sizeof before[0]);
}
