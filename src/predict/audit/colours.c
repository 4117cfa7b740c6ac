/* colours.c - which ranks can be played as one; see colours.h. */
#include "predict/audit/colours.h"

#include "predict/audit/hash.h"

/* Numbers for signatures, in the order in which they are first seen. */
typedef struct numbering {
    uint64_t *keys; /* [room] */
    int32_t *ids;   /* [room]; -1: free */
    size_t room;    /* a power of two */
    int32_t n;
} numbering;

static void numbering_clear(numbering *x)
{
    for (size_t i = 0; i < x->room; i++) x->ids[i] = -1;
    x->n = 0;
}

static int32_t number_of(numbering *x, uint64_t key)
{
    size_t at = (size_t)key & (x->room - 1);
    for (; x->ids[at] >= 0; at = (at + 1) & (x->room - 1))
        if (x->keys[at] == key) return x->ids[at];
    x->keys[at] = key;
    return x->ids[at] = x->n++;
}

typedef struct refining {
    const audit_state *t;
    arena *a;
    int64_t world;
    int32_t *of, *next;            /* [world] */
    int32_t *stamp;                /* [world], by colour */
    uint64_t *around[GROUP_COUNT]; /* [n_groups]: the set of colours in a group */
    numbering numbers;
} refining;

static void look_around(refining *x)
{
    int32_t mark = 0;
    for (int64_t i = 0; i < x->world; i++) x->stamp[i] = 0;
    for (int k = 0; k < GROUP_COUNT; k++) {
        const group_table *g = &x->t->groups[k];
        for (int64_t i = 0; g->used && i < g->n_groups; i++) {
            uint64_t set = 0; /* a sum: the order of members is nothing to it */
            mark++;
            for (int64_t m = 0; m < g->n; m++) {
                int32_t c = x->of[g->ranks[i * g->n + m]];
                if (x->stamp[c] != mark) set += hash_add(HASH_START, (uint64_t)c);
                x->stamp[c] = mark;
            }
            x->around[k][i] = set;
        }
    }
}

static uint64_t signature(const refining *x, int64_t rank)
{
    const audit_state *t = x->t;
    uint64_t h = hash_add(HASH_START, (uint64_t)x->of[rank]);
    for (int l = 0; l < t->book->n_lanes; l++) {
        const audit_lane *lane = &t->book->lanes[l];
        const group_table *g = &t->groups[lane->group];
        if (!t->ids[t->class_of[rank]][l] || g->group_of[rank] < 0) continue;
        if (lane->kind == LANE_COLLECTIVE)
            h = hash_add(h, x->around[lane->group][g->group_of[rank]]);
        else
            h = hash_add(h, (uint64_t)x->of[group_partner(g, rank, lane->step)]);
    }
    return h;
}

static int32_t refine(refining *x)
{
    look_around(x);
    numbering_clear(&x->numbers);
    for (int64_t r = 0; r < x->world; r++) x->next[r] = number_of(&x->numbers, signature(x, r));
    int32_t *swap = x->of;
    x->of = x->next;
    x->next = swap;
    return x->numbers.n;
}

static int32_t begin(refining *x, item_part part, const colours *before)
{
    numbering_clear(&x->numbers);
    for (int64_t r = 0; r < x->world; r++) {
        const audit_class *c = &x->t->classes[x->t->class_of[r]];
        uint64_t h = hash_add(HASH_START, (uint64_t)c->trace.part[part]->shape);
        h = hash_add(h, before ? (uint64_t)before->of[r] : (uint64_t)c->pp);
        x->of[r] = number_of(&x->numbers, h);
    }
    return x->numbers.n;
}

colours colours_make(const audit_state *t, item_part part, const colours *before, arena *a)
{
    int64_t world = t->s->lay.world;
    refining x = {.t = t, .a = a, .world = world};
    x.of = ARENA_ARRAY(a, int32_t, world);
    x.next = ARENA_ARRAY(a, int32_t, world);
    x.stamp = ARENA_ARRAY(a, int32_t, world);
    for (int k = 0; k < GROUP_COUNT; k++)
        x.around[k] = ARENA_ARRAY(a, uint64_t, t->groups[k].n_groups);
    for (x.numbers.room = 64; x.numbers.room < 2 * (size_t)world;) x.numbers.room *= 2;
    x.numbers.keys = ARENA_ARRAY(a, uint64_t, x.numbers.room);
    x.numbers.ids = ARENA_ARRAY(a, int32_t, x.numbers.room);
    int32_t n = begin(&x, part, before), more;
    while ((more = refine(&x)) > n) n = more;
    colours c = {.of = x.of, .n = n, .rank = ARENA_ARRAY(a, int64_t, n)};
    for (int64_t r = world - 1; r >= 0; r--) c.rank[c.of[r]] = r;
    return c;
}
