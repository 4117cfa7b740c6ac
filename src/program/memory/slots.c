/* slots.c - places for what forward saves until backward.
 *
 * I1  A slot belongs to a chunk of a microbatch from its forward to its backward. With combined
 *     1F1B it belongs to one instance of the chunk: there the forward of one microbatch takes
 *     places as the backward of another leaves them, layer by layer.
 * I2  Slots are packed at the lowest place that no living one covers, so the pool is the peak of
 *     their sum wherever sizes allow. */
#include "program/memory/plan.h"
#include "program/memory/pool.h"

typedef struct packing {
    program *p;
    bool host;
    pool l;
} packing;

static int64_t *slot_of(const packing *w, int64_t chunk_id, int64_t micro, int instance_id)
{
    return w->host ? program_host_slot(w->p, chunk_id, micro, instance_id)
                   : program_slot(w->p, chunk_id, micro, instance_id);
}

/* ---- by chunk */

static void by_chunk(packing *w, arena *a)
{
    program *p = w->p;
    int64_t *bytes = ARENA_ARRAY(a, int64_t, p->n_chunks);
    for (int64_t c = 0; c < p->n_chunks; c++)
        bytes[c] = w->host ? p->chunks[c].host_bytes : p->chunks[c].saved_bytes;
    chunk_slots s = {.bytes = bytes, .micros = p->micros, .ahead = p->posts_early && !w->host};
    s.at = ARENA_ARRAY(a, int64_t, p->n_chunks * p->micros);
    pool_by_chunk(&w->l, &p->order, &s);
    for (int64_t c = 0; c < p->n_chunks; c++)
        for (int64_t m = 0; m < p->micros; m++)
            for (int i = 0; i < p->chunks[c].n; i++) {
                const instance *in = &p->chunks[c].list[i];
                *slot_of(w, c, m, i) =
                    s.at[c * p->micros + m] + (w->host ? in->host_offset : in->saved_offset);
            }
}

/* ---- by instance */

static void take_instance(packing *w, const item_at *at, int instance_id)
{
    const chunk *c = &w->p->chunks[at->chunk];
    if (instance_id >= c->n) return;
    int64_t *slot = slot_of(w, at->chunk, at->micro, instance_id);
    const segment *seg = c->list[instance_id].seg;
    int64_t bytes = w->host ? seg->host_bytes : seg->saved_bytes;
    if (*slot >= 0) return;
    *slot = bytes ? pool_take(&w->l, (living){.bytes = bytes,
                                              .chunk = at->chunk,
                                              .micro = at->micro,
                                              .instance = instance_id})
                  : 0;
}

/* A forward writes what it saves, and on the device the input of the instance behind it. */
static void by_instance(packing *w)
{
    const item_list *items = &w->p->items[PART_STEP];
    for (int64_t i = 0; i < items->n; i++) {
        const item *it = &items->list[i];
        bool pair = it->seg->kind == SEGMENT_PAIR;
        const item_at *f = &it->at[0], *b = &it->at[pair];
        if (f->chunk < 0) continue;
        if (it->phase == SEG_FORWARD) {
            take_instance(w, f, f->instance);
            if (!w->host) take_instance(w, f, f->instance + 1);
        }
        bool posts = it->seg->kind == SEGMENT_POST;
        if (pair || (it->phase == SEG_BACKWARD && !posts))
            pool_leave(&w->l, b->chunk, b->micro, b->instance);
    }
}

int64_t place_slots(program *p, bool host, arena *a)
{
    packing w = {.p = p, .host = host, .l = {.a = a}};
    p->slots = 1;
    for (int64_t c = 0; c < p->n_chunks; c++)
        if (p->chunks[c].n > p->slots) p->slots = p->chunks[c].n;
    int64_t n = p->n_chunks * p->micros * p->slots;
    int64_t **slots = host ? &p->host_slot : &p->slot;
    *slots = ARENA_ARRAY(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) (*slots)[i] = -1;
    if (recipe_on(&p->s->r, K_EP_OVERLAP)) /* I1 */
        by_instance(&w);
    else
        by_chunk(&w, a);
    return w.l.end;
}
