/* start.c - operations of the program as messages. */
#include <stdio.h>

#include "comm/state.h"

/* Which message an operation is, and which of its sizes say what (-1: it has none). */
typedef struct row {
    message_kind kind;
    int n, step, tag;
    bool from_x, to_y;
} row;

static const row rows[] = {
    [OP_ALL_GATHER] = {MESSAGE_GATHER, 0, -1, -1, true, true},
    [OP_REDUCE_SCATTER] = {MESSAGE_REDUCE_SCATTER, 0, -1, -1, true, true},
    [OP_ALL_REDUCE] = {MESSAGE_ALL_REDUCE, 0, -1, -1, false, true},
    [OP_ALL_TO_ALL] = {MESSAGE_ALL_TO_ALL, 0, -1, -1, true, true},
    [OP_EXCHANGE] = {MESSAGE_EXCHANGE, 1, -1, -1, true, true}, /* n: W, floats of a row */
    [OP_SHIFT] = {MESSAGE_SHIFT, 0, 1, -1, true, true},
    [OP_SEND] = {MESSAGE_SEND, 0, 1, 2, true, false},
    [OP_RECV] = {MESSAGE_RECV, 0, 1, 2, false, true},
};

/* Without scratch the parts of x that others still read would be overwritten. */
static void scratch_is_there(comm *c, const message *m)
{
    size_t block = (size_t)m->n * m->size;
    size_t whole = block * (size_t)c->groups[m->group].n;
    if (m->scratch || !block || m->y + block <= m->x || m->y >= m->x + whole) return;
    char text[160];
    snprintf(text, sizeof text, "%s %s: y lies in x, and there is no scratch", m->what,
             m->name ? m->name : "");
    comm_abort(c, ERR_MACHINE, text);
}

int comm_start(comm *c, const op *o, void *const *in, void *const *out)
{
    const row *r = &rows[o->kind];
    message *m = comm_take(c, r->kind, o->group, op_infos[o->kind].name);
    m->name = o->name;
    m->stream = o->stream;
    m->n = o->dim[r->n];
    m->step = r->step < 0 ? 0 : o->dim[r->step];
    m->tag = r->tag < 0 ? 0 : o->dim[r->tag];
    if (r->from_x) m->x = in[0];
    if (r->to_y) m->y = out[0];
    if (o->kind == OP_EXCHANGE) m->table = in[1];
    if (o->kind == OP_REDUCE_SCATTER) {
        m->scratch = o->out[1] < 0 ? NULL : out[1];
        if (c->groups[m->group].n > 1) scratch_is_there(c, m);
    }
    comm_begin(c, m);
    return (int)(m - c->messages);
}
