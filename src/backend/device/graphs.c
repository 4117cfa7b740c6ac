/* graphs.c - graphs of the CPU's devices: launches that are kept, with their addresses, and made
 * again. They bring a CPU nothing; that a program can be captured is proved on them. */
#include "backend/device/host.h"

#include <stdlib.h>
#include <string.h>

struct host_graph {
    struct kept_call {
        op_stream stream;
        kernel_call call;
        void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    } * list;
    int n, room;
};

void host_close_graphs(host_device *h)
{
    for (int i = 0; i < h->n_graphs; i++) free(h->graphs[i].list);
    free(h->graphs);
    h->graphs = NULL;
    h->n_graphs = 0;
}

status host_graphs(device *d, int n, error *err)
{
    host_device *h = d->state;
    host_close_graphs(h);
    h->graphs = calloc((size_t)n + 1, sizeof *h->graphs);
    if (!h->graphs) return error_set(err, ERR_MACHINE, "no host memory for %d graphs", n);
    h->n_graphs = n;
    return OK;
}

void host_capture(device *d, int graph)
{
    host_device *h = d->state;
    h->capturing = &h->graphs[graph];
    h->capturing->n = 0;
}

int host_captured(device *d, int graph)
{
    host_device *h = d->state;
    h->capturing = NULL;
    return h->graphs[graph].n;
}

void host_keep(device *d, op_stream s, const kernel_call *c)
{
    host_device *h = d->state;
    host_graph *g = h->capturing;
    if (g->n == g->room) {
        g->room = g->room ? 2 * g->room : 16;
        void *more = realloc(g->list, sizeof *g->list * (size_t)g->room);
        if (!more) comm_abort(d->c, ERR_MACHINE, "no host memory for a graph");
        g->list = more;
    }
    struct kept_call *k = &g->list[g->n++];
    *k = (struct kept_call){.stream = s, .call = *c};
    memcpy(k->in, c->in, sizeof k->in);
    memcpy(k->out, c->out, sizeof k->out);
}

/* Call i of a graph, with its addresses. */
static kernel_call call_of(const host_graph *g, int i)
{
    kernel_call c = g->list[i].call;
    c.in = g->list[i].in;
    c.out = g->list[i].out;
    return c;
}

void host_replay(device *d, int graph, const op *o)
{
    host_device *h = d->state;
    const host_graph *g = &h->graphs[graph];
    (void)o;
    for (int i = 0; i < g->n; i++) {
        kernel_call c = call_of(g, i);
        host_launch(d, g->list[i].stream, &c);
    }
}

int host_run_graph(device *d, int graph)
{
    host_device *h = d->state;
    const host_graph *g = &h->graphs[graph];
    for (int i = 0; i < g->n; i++) {
        kernel_call c = call_of(g, i);
        c.row->launch(&c);
    }
    return g->n;
}
