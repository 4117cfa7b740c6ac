/* traffic.c - bytes over links.
 *
 * What a collective sends is counted by definition, not by a library's algorithm: all-gather,
 * reduce-scatter and all-to-all N to each other member, all-reduce a reduce-scatter and an
 * all-gather, shift and send N to one member. */
#include <string.h>

#include "predict/audit/state.h"

/* What a part sends, before it is known who is where: to the member `step` on, or to each other
 * one; by a table rows, as many as are expected of it. */
typedef struct flow {
    bool stepped, by_table;
    comm_group group;
    int64_t step;
    exchange_shape shape; /* by_table */
    double bytes;         /* by_table: of one row, all messages together */
    int64_t messages;
} flow;

enum { FLOWS_MAX = 256 };

typedef struct flows {
    const audit_part *part;
    flow list[FLOWS_MAX];
    int n;
} flows;

static bool same_flow(const flow *f, const flow *x)
{
    return f->stepped == x->stepped && f->by_table == x->by_table && f->group == x->group &&
           f->step == x->step && f->shape.back == x->shape.back && f->shape.hop == x->shape.hop;
}

static flow flow_of(const audit_entry *e, int64_t width)
{
    flow f = {.group = e->group, .messages = 1, .bytes = (double)dtype_bytes(e->type, e->n)};
    if (op_is(e->kind, STEPPED)) {
        f.stepped = true;
        f.step = (e->step % width + width) % width;
        if (op_is(e->kind, TAKES)) f.bytes = 0;
    } else if (op_is(e->kind, BY_TABLE)) {
        f.by_table = true;
        f.shape = e->shape;
        f.bytes = (double)dtype_bytes(e->type, e->width);
    } else if (op_goes_twice(e->kind)) {
        f.bytes = 2 * f.bytes / (double)width;
    }
    return f;
}

static void add_flow(flows *f, const flow *x)
{
    int i = 0;
    while (i < f->n && !same_flow(&f->list[i], x)) i++;
    if (i == FLOWS_MAX) i--; /* more kinds than any program has: the last takes them in */
    if (i == f->n) {
        f->list[f->n++] = *x;
        return;
    }
    f->list[i].bytes += x->bytes;
    f->list[i].messages += x->messages;
}

/* How often each list occurs, then its entries once. */
static void part_flows(const audit_state *t, flows *f)
{
    arena *scratch = arena_create();
    int64_t *times = ARENA_ARRAY(scratch, int64_t, t->book->n_lists);
    for (int64_t i = 0; i < f->part->n; i++) times[f->part->items[i].list->id]++;
    for (int k = 0; k < t->book->n_lists; k++) {
        const audit_list *l = t->book->lists[k];
        for (int i = 0; i < l->n && times[k]; i++) {
            if (l->entries[i].lane < 0) continue;
            flow x = flow_of(&l->entries[i], t->groups[l->entries[i].group].n);
            x.bytes *= (double)times[k];
            x.messages = times[k];
            add_flow(f, &x);
        }
    }
    arena_destroy(scratch);
}

/* ---- one rank */

/* Members with ranks below `limit`; they ascend. */
static int64_t below(const int64_t *ranks, int64_t n, int64_t limit)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (ranks[mid] < limit)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int64_t in_box(const int64_t *ranks, int64_t n, int64_t rank, int64_t box)
{
    int64_t first = rank / box * box;
    return below(ranks, n, first + box) - below(ranks, n, first);
}

static void to_all(const audit_state *t, const flow *f, int64_t rank, double out[LINK_KINDS])
{
    const group_table *g = &t->groups[f->group];
    const int64_t *ranks = group_at(g, rank);
    int64_t node = in_box(ranks, g->n, rank, t->s->lay.gpus_per_node);
    int64_t domain = in_box(ranks, g->n, rank, layout_domain(&t->s->lay));
    out[LINK_IN_NODE] += f->bytes * (double)(node - 1);
    out[LINK_IN_DOMAIN] += f->bytes * (double)(domain - node);
    out[LINK_OUTSIDE] += f->bytes * (double)(g->n - domain);
}

static void exchanged(const audit_state *t, const flow *f, int64_t rank, double out[LINK_KINDS])
{
    const group_table *g = &t->groups[f->group];
    const int64_t *ranks = group_at(g, rank);
    for (int64_t i = 0; i < g->n; i++)
        if (ranks[i] != rank)
            out[layout_link(&t->s->lay, rank, ranks[i])] +=
                f->bytes * exchange_expected(t->s, &f->shape, rank, ranks[i]);
}

static void add_rank(const audit_state *t, const flows *f, int64_t rank, audit_traffic *out)
{
    for (int i = 0; i < f->n; i++) {
        const flow *x = &f->list[i];
        const group_table *g = &t->groups[x->group];
        out->messages[x->group] += x->messages;
        if (g->group_of[rank] < 0) continue;
        if (x->stepped)
            out->bytes[x->group][layout_link(&t->s->lay, rank, group_partner(g, rank, x->step))] +=
                x->bytes;
        else if (x->by_table)
            exchanged(t, x, rank, out->bytes[x->group]);
        else
            to_all(t, x, rank, out->bytes[x->group]);
    }
}

/* ---- all ranks */

static void sum_up(audit_result *out, int64_t rank, const audit_traffic *x)
{
    double all[LINK_KINDS] = {0};
    for (int g = 0; g < GROUP_COUNT; g++) {
        out->messages += x->messages[g];
        for (int k = 0; k < LINK_KINDS; k++) {
            out->group_bytes[g][k] += x->bytes[g][k];
            all[k] += x->bytes[g][k];
        }
    }
    for (int k = 0; k < LINK_KINDS; k++) {
        out->link_bytes[k] += all[k];
        if (all[k] <= out->most[k]) continue;
        out->most[k] = all[k];
        out->most_rank[k] = rank;
    }
}

static const flows *flows_of(const audit_state *t, flows **known, const audit_part *part, arena *a)
{
    flows **f = &known[part->id];
    if (*f) return *f;
    *f = ARENA_NEW(a, flows);
    (*f)->part = part;
    part_flows(t, *f);
    return *f;
}

static audit_traffic rank_traffic(const audit_state *t, int64_t rank, flows **known, arena *a)
{
    audit_traffic x = {0};
    const audit_class *c = &t->classes[t->class_of[rank]];
    for (int k = 0; k < PART_COUNT; k++)
        if (k != PART_GATHER || !c->gathers_late)
            add_rank(t, flows_of(t, known, c->trace.part[k], a), rank, &x);
    return x;
}

void traffic_all(audit_state *t)
{
    arena *scratch = arena_create();
    flows **known = ARENA_ARRAY(scratch, flows *, t->book->n_parts);
    for (int64_t r = 0; r < t->s->lay.world; r++) {
        audit_traffic x = rank_traffic(t, r, known, scratch);
        sum_up(t->out, r, &x);
    }
    arena_destroy(scratch);
}

audit_traffic audit_rank_traffic(const audit_result *r, int64_t rank)
{
    const audit_state *t = r->state;
    arena *scratch = arena_create();
    flows **known = ARENA_ARRAY(scratch, flows *, t->book->n_parts);
    audit_traffic x = rank_traffic(t, rank, known, scratch);
    arena_destroy(scratch);
    return x;
}
