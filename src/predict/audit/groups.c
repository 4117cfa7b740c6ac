/* groups.c - the groups that messages name as lists of ranks, and what each class says in them.
 *
 * I1  Members of a group ascend, so that those inside a node are a run of the list.
 * I2  Two lanes have the same id only when their messages were compared one by one. */
#include <string.h>

#include "predict/audit/hash.h"
#include "predict/audit/state.h"

static void make_table(audit_state *t, comm_group g)
{
    group_table *table = &t->groups[g];
    int64_t world = t->s->lay.world, n = group_width(t->s, g);
    *table = (group_table){.used = true, .n = n};
    table->ranks = ARENA_ARRAY(t->a, int64_t, world + n);
    table->group_of = ARENA_ARRAY(t->a, int32_t, world);
    table->place = ARENA_ARRAY(t->a, int32_t, world);
    for (int64_t r = 0; r < world; r++) table->group_of[r] = -1;
    for (int64_t r = 0; r < world; r++) {
        if (table->group_of[r] >= 0) continue;
        arena_place mark = arena_mark(t->a);
        members m = members_of(t->s, g, r, t->a);
        int64_t at = table->n_groups;
        for (int64_t i = 0; i < m.n && m.n == n; i++) {
            table->ranks[at * n + i] = m.ranks[i];
            table->group_of[m.ranks[i]] = (int32_t)at;
            table->place[m.ranks[i]] = (int32_t)i;
        }
        table->n_groups += m.n == n;
        arena_release(t->a, mark);
    }
}

const int64_t *group_at(const group_table *g, int64_t rank)
{
    return g->ranks + (int64_t)g->group_of[rank] * g->n;
}

int64_t group_partner(const group_table *g, int64_t rank, int64_t step)
{
    return group_at(g, rank)[(g->place[rank] + step) % g->n];
}

/* ---- lanes of classes */

/* A lane of a class: what ids are given to. */
typedef struct lane_ref {
    int class_id, lane;
} lane_ref;

static const audit_trace *trace_at(const audit_state *t, lane_ref r)
{
    return &t->classes[r.class_id].trace;
}

static bool part_agrees(const audit_state *t, lane_ref a, lane_ref b, int part)
{
    const audit_trace *sa = trace_at(t, a), *sb = trace_at(t, b);
    if (sa->part[part] == sb->part[part] && a.lane == b.lane) return true;
    lane_use ua = sa->part[part]->use[a.lane], ub = sb->part[part]->use[b.lane];
    if (ua.count != ub.count || ua.hash != ub.hash) return false;
    lane_cursor ca = {sa, a.lane, part, part, 0, -1}, cb = {sb, b.lane, part, part, 0, -1};
    while (lane_next(&ca) && lane_next(&cb))
        if (!entries_agree(lane_item(&ca), lane_entry(&ca), lane_item(&cb), lane_entry(&cb)))
            return false;
    return true; /* I2: the counts are equal, so both ended */
}

static bool lane_same(const audit_state *t, lane_ref a, lane_ref b)
{
    const audit_lane *la = &t->book->lanes[a.lane], *lb = &t->book->lanes[b.lane];
    if (la->group != lb->group || (la->kind == LANE_COLLECTIVE) != (lb->kind == LANE_COLLECTIVE))
        return false;
    for (int part = 0; part < PART_COUNT; part++)
        if (!part_agrees(t, a, b, part)) return false;
    return true;
}

static uint64_t lane_hash(const audit_state *t, lane_ref r)
{
    uint64_t h = HASH_START;
    for (int part = 0; part < PART_COUNT; part++)
        h = hash_add(h, trace_at(t, r)->part[part]->use[r.lane].hash);
    return h;
}

int64_t lane_count(const audit_state *t, int class_id, int lane)
{
    int64_t n = 0;
    for (int part = 0; part < PART_COUNT; part++)
        n += t->classes[class_id].trace.part[part]->use[lane].count;
    return n;
}

/* Open addressing over the hashes of lanes. */
typedef struct id_table {
    lane_ref *first; /* [room]: the first lane with an id */
    int *id;         /* [room]; 0: free */
    size_t room;     /* a power of two */
    int n;
} id_table;

static int id_of(const audit_state *t, id_table *ids, lane_ref ref)
{
    size_t at = (size_t)lane_hash(t, ref) & (ids->room - 1);
    for (; ids->id[at]; at = (at + 1) & (ids->room - 1))
        if (lane_same(t, ids->first[at], ref)) return ids->id[at];
    ids->first[at] = ref;
    return ids->id[at] = ++ids->n;
}

void tables_make(audit_state *t)
{
    int n_lanes = t->book->n_lanes;
    for (int l = 0; l < n_lanes; l++)
        if (!t->groups[t->book->lanes[l].group].used) make_table(t, t->book->lanes[l].group);
    book_count(t->book);
    arena *scratch = arena_create();
    id_table ids = {.room = 64};
    while (ids.room < 2 * (size_t)n_lanes * (size_t)t->n_classes) ids.room *= 2;
    ids.first = ARENA_ARRAY(scratch, lane_ref, ids.room);
    ids.id = ARENA_ARRAY(scratch, int, ids.room);
    t->ids = ARENA_ARRAY(t->a, int *, t->n_classes);
    for (int c = 0; c < t->n_classes; c++) {
        t->ids[c] = ARENA_ARRAY(t->a, int, n_lanes + 1);
        for (int l = 0; l < n_lanes; l++)
            if (lane_count(t, c, l)) t->ids[c][l] = id_of(t, &ids, (lane_ref){c, l});
    }
    arena_destroy(scratch);
}
