/* executor_graphs.c - forward and backward of a step as graphs of the device.
 *
 * The operations of a step are cut into stretches. One that is captured is put once between two
 * calls of the device, which keeps it with its addresses, and is one call from then on. What may
 * change from step to step lies in memory that is bound once: tokens, counts, rates and flags are
 * uploaded before, so nothing of a stretch has to be told anew.
 *
 * I1  A stretch has kernels of the compute stream alone: no wait stands in it, and no event that is
 *     waited for is recorded in it. So streams are ordered as they are without graphs, and with
 *     several ranks no message is in a graph: a stretch ends where one is waited for.
 * I2  Graphs of parts end where a list ends, as Megatron's do; that of an iteration goes on.
 * I3  The first run is eager: kernels that were never launched are loaded there. The second
 *     captures.
 * I4  Who takes times of operations gets them one by one: those steps are eager, with the same
 *     bits. */
#include "ir/capture.h"
#include "train/executor/executor_state.h"

enum { SHORTEST = 2 }; /* of a stretch that is worth a graph, in operations */

typedef struct stretch {
    int64_t item; /* where it begins */
    int first;
    int64_t n; /* operations */
    int graph; /* -1: they are put one by one */
    op as;     /* for people */
} stretch;

typedef struct graph_plan {
    stretch *list;
    int n, room, n_graphs, runs;
    int64_t kernels;
} graph_plan;

/* ---- planning */

static bool can_be_held(const op *o, const bound_op *b, unsigned parts) /* I1 */
{
    return o->stream == STREAM_COMPUTE && b->row && b->event == NO_EVENT &&
           (capture_part(o) & parts) != 0;
}

static void add_op(executor *e, graph_plan *g, int64_t i, int k, unsigned parts)
{
    const bound_item *it = &e->items[PART_STEP][i];
    int phase = e->p->items[PART_STEP].list[i].phase;
    const op *o = &it->seg->seg->ops[phase][k];
    bool held = can_be_held(o, &it->seg->ops[phase][k], parts);
    stretch *last = g->n ? &g->list[g->n - 1] : NULL;
    bool begins = k == 0 && (parts != ~0u || it->seg->starts[phase]); /* I2 */
    if (!last || begins || held != (last->graph >= 0)) {
        ARENA_GROW(e->memory, g->list, g->n, g->room);
        last = &g->list[g->n++];
        *last = (stretch){.item = i, .first = k, .graph = held ? 0 : -1, .as = *o};
        last->as.name = arena_text(e->memory, "graph that begins with %s", o->name);
    }
    last->n++;
}

static void number_graphs(graph_plan *g)
{
    for (int i = 0; i < g->n; i++) {
        stretch *s = &g->list[i];
        if (s->graph >= 0) s->graph = s->n >= SHORTEST ? g->n_graphs++ : -1;
    }
}

status executor_graphs(executor *e, error *err)
{
    unsigned parts = capture_of(&e->p->s->j);
    e->graphs = NULL;
    if (!parts || !e->d->table->graphs) return OK;
    graph_plan *g = ARENA_NEW(e->memory, graph_plan);
    for (int64_t i = 0; i < e->p->items[PART_STEP].n; i++) {
        const item *it = &e->p->items[PART_STEP].list[i];
        for (int k = 0; k < it->seg->n_ops[it->phase]; k++) add_op(e, g, i, k, parts);
    }
    number_graphs(g);
    TRY(e->d->table->graphs(e->d, g->n_graphs, err));
    e->graphs = g;
    return OK;
}

/* ---- running */

static void put_ops(executor *e, const stretch *s)
{
    const item *list = e->p->items[PART_STEP].list;
    int64_t at = s->item;
    int k = s->first;
    for (int64_t i = 0; i < s->n; i++) {
        for (; k == list[at].seg->n_ops[list[at].phase]; k = 0) at++;
        if (k == 0) executor_begin_item(e, PART_STEP, at);
        executor_put_op(e, PART_STEP, at, k++);
    }
}

bool executor_graphs_run(executor *e)
{
    graph_plan *g = e->graphs;
    if (!g || e->clock || e->planted) return false; /* I4 */
    int run = g->runs < 2 ? g->runs++ : 2;
    if (run == 0) return false; /* I3 */
    for (int i = 0; i < g->n; i++) {
        const stretch *s = &g->list[i];
        if (s->graph < 0) {
            put_ops(e, s);
            continue;
        }
        if (run == 1) {
            int64_t before = e->put;
            e->d->table->capture(e->d, s->graph);
            put_ops(e, s);
            g->kernels += e->d->table->captured(e->d, s->graph);
            e->put = before;
        }
        e->d->place = &e->items[PART_STEP][s->item].place;
        e->d->table->replay(e->d, s->graph, &s->as);
        e->replayed++;
    }
    return true;
}

executor_calls executor_calls_of(const executor *e)
{
    return (executor_calls){e->put, e->replayed, e->graphs ? e->graphs->kernels : 0};
}
