/* slots.c - places for what forward saves until backward.
 *
 * I1  A slot belongs to a chunk of a microbatch from its forward to its backward. With combined
 *     1F1B it belongs to one instance of the chunk: there the forward of one microbatch takes
 *     places as the backward of another leaves them, layer by layer.
 * I2  Slots are packed at the lowest place that no living one covers, so the pool is the peak of
 *     their sum wherever sizes allow. */
#include <string.h>

#include "program/plan.h"

typedef struct living {
    int64_t at, bytes, chunk, micro;
    int instance;
} living;

typedef struct pool {
    program *p;
    arena *a;
    bool host;
    living *alive;
    int64_t n, room, end;
} pool;

static int64_t lowest_place(const pool *l, int64_t bytes)
{
    int64_t at = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (at < l->alive[i].at + l->alive[i].bytes && l->alive[i].at < at + bytes) {
            at = l->alive[i].at + l->alive[i].bytes;
            i = -1;
        }
    return at;
}

static int64_t take(pool *l, living x)
{
    if (l->n == l->room) {
        int64_t room = l->room ? l->room * 2 : 64;
        living *larger = ARENA_ARRAY(l->a, living, room);
        if (l->n) memcpy(larger, l->alive, sizeof *larger * (size_t)l->n);
        l->alive = larger;
        l->room = room;
    }
    x.at = lowest_place(l, x.bytes); /* I2 */
    l->alive[l->n++] = x;
    if (x.at + x.bytes > l->end) l->end = x.at + x.bytes;
    return x.at;
}

static void leave(pool *l, int64_t chunk_id, int64_t micro, int instance_id)
{
    for (int64_t k = 0; k < l->n; k++) {
        const living *x = &l->alive[k];
        if (x->chunk != chunk_id || x->micro != micro || x->instance != instance_id) continue;
        l->alive[k] = l->alive[--l->n];
        return;
    }
}

static int64_t *slot_of(const pool *l, int64_t chunk_id, int64_t micro, int instance_id)
{
    return l->host ? program_host_slot(l->p, chunk_id, micro, instance_id)
                   : program_slot(l->p, chunk_id, micro, instance_id);
}

/* ---- by chunk */

static void take_chunk(pool *l, const order_entry *e)
{
    program *p = l->p;
    const chunk *c = &p->chunks[e->chunk];
    if (e->phase != SEG_FORWARD || *slot_of(l, e->chunk, e->micro, 0) >= 0) return;
    int64_t bytes = l->host ? c->host_bytes : c->saved_bytes;
    int64_t at = take(l, (living){.bytes = bytes, .chunk = e->chunk, .micro = e->micro});
    for (int i = 0; i < c->n; i++)
        *slot_of(l, e->chunk, e->micro, i) =
            at + (l->host ? c->list[i].host_offset : c->list[i].saved_offset);
}

/* A message that is received ahead needs its slot that much earlier. */
static void by_chunk(pool *l)
{
    const step_order *o = &l->p->order;
    int64_t ahead = l->p->posts_early && !l->host ? 1 : 0;
    for (int64_t i = 0; i < o->n; i++) {
        for (int64_t k = i; k <= i + ahead && k < o->n; k++) take_chunk(l, &o->list[k]);
        if (o->list[i].phase == SEG_BACKWARD) leave(l, o->list[i].chunk, o->list[i].micro, 0);
    }
}

/* ---- by instance */

static void take_instance(pool *l, const item_at *at, int instance_id)
{
    const chunk *c = &l->p->chunks[at->chunk];
    if (instance_id >= c->n) return;
    int64_t *slot = slot_of(l, at->chunk, at->micro, instance_id);
    const segment *seg = c->list[instance_id].seg;
    int64_t bytes = l->host ? seg->host_bytes : seg->saved_bytes;
    if (*slot >= 0) return;
    *slot = bytes ? take(l, (living){.bytes = bytes,
                                     .chunk = at->chunk,
                                     .micro = at->micro,
                                     .instance = instance_id})
                  : 0;
}

/* A forward writes what it saves, and on the device the input of the instance behind it. */
static void by_instance(pool *l)
{
    const item_list *items = &l->p->items[PART_STEP];
    for (int64_t i = 0; i < items->n; i++) {
        const item *it = &items->list[i];
        bool pair = strcmp(it->seg->name, "pair") == 0;
        const item_at *f = &it->at[0], *b = &it->at[pair];
        if (f->chunk < 0) continue;
        if (it->phase == SEG_FORWARD) {
            take_instance(l, f, f->instance);
            if (!l->host) take_instance(l, f, f->instance + 1);
        }
        bool posts = strcmp(it->seg->name, "post") == 0;
        if (pair || (it->phase == SEG_BACKWARD && !posts))
            leave(l, b->chunk, b->micro, b->instance);
    }
}

int64_t place_slots(program *p, bool host, arena *a)
{
    pool l = {.p = p, .a = a, .host = host};
    p->slots = 1;
    for (int64_t c = 0; c < p->n_chunks; c++)
        if (p->chunks[c].n > p->slots) p->slots = p->chunks[c].n;
    int64_t n = p->n_chunks * p->micros * p->slots;
    int64_t **slots = host ? &p->host_slot : &p->slot;
    *slots = ARENA_ARRAY(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) (*slots)[i] = -1;
    if (recipe_on(&p->s->r, K_EP_OVERLAP)) /* I1 */
        by_instance(&l);
    else
        by_chunk(&l);
    return l.end;
}
