/* start.c - operations of the program as messages. */
#include <stdio.h>

#include "backend/comm/state.h"
#include "backend/comm/adder.h"

/* Which message an operation is, and which of its sizes say what (-1: it has none). */
typedef struct row {
    message_kind kind;
    int n, step, tag;
    bool from_x, to_y;
} row;

static const row rows[] = {
    [OP_ALL_GATHER] = {MESSAGE_GATHER, DIM_ALL_GATHER_N, -1, -1, true, true},
    [OP_REDUCE_SCATTER] = {MESSAGE_REDUCE_SCATTER, DIM_REDUCE_SCATTER_N, -1, -1, true, true},
    [OP_ALL_REDUCE] = {MESSAGE_ALL_REDUCE, DIM_ALL_REDUCE_N, -1, -1, false, true},
    [OP_ALL_TO_ALL] = {MESSAGE_ALL_TO_ALL, DIM_ALL_TO_ALL_N, -1, -1, true, true},
    [OP_EXCHANGE] = {MESSAGE_EXCHANGE, DIM_EXCHANGE_W, -1, -1, true, true}, /* of a row */
    [OP_SHIFT] = {MESSAGE_SHIFT, DIM_SHIFT_N, DIM_SHIFT_STEP, -1, true, true},
    [OP_SEND] = {MESSAGE_SEND, DIM_SEND_N, DIM_SEND_STEP, DIM_SEND_TAG, true, false},
    [OP_RECV] = {MESSAGE_RECV, DIM_RECV_N, DIM_RECV_STEP, DIM_RECV_TAG, false, true},
};

/* Anywhere else in x the sum would overwrite what others still read. */
static void lies_at_its_place(comm *c, const message *m)
{
    const members *g = &c->groups[m->group];
    size_t block = message_bytes(m), whole = block * (size_t)g->n;
    if (!block || m->y + block <= m->x || m->y >= m->x + whole) return;
    if (m->in_place && m->y == m->x + block * (size_t)g->place) return;
    char text[160];
    snprintf(text, sizeof text, "%s %s: y lies in x, and %s", m->what, m->name ? m->name : "",
             m->in_place ? "not at this rank's part" : "the operation does not say so");
    comm_abort(c, ERR_MACHINE, text);
}

status comm_can(const op *o, error *err)
{
    const row *r = &rows[o->kind];
    const char *what = op_infos[o->kind].name, *name = o->name ? o->name : "";
    bool sums = r->kind == MESSAGE_REDUCE_SCATTER || r->kind == MESSAGE_ALL_REDUCE;
    if (sums && !adder_has(o->type))
        return error_set(err, ERR_MACHINE,
                         "operation %s (%s): collectives cannot sum %s; they sum FP32, FP64, BF16, "
                         "FP16 and INT32",
                         name, what, dtype_name(o->type));
    int64_t n = o->dim[r->n];
    if (dtype_elements(o->type, dtype_bytes(o->type, n)) != n)
        return error_set(err, ERR_MACHINE,
                         "operation %s (%s): %lld elements of %s do not fill whole bytes; messages "
                         "carry whole bytes",
                         name, what, (long long)n, dtype_name(o->type));
    return OK;
}

int comm_start(comm *c, const op *o, void *const *in, void *const *out)
{
    const row *r = &rows[o->kind];
    error err;
    if (comm_can(o, &err)) comm_abort(c, ERR_MACHINE, err.text);
    message *m = comm_take(c, r->kind, o->group, op_infos[o->kind].name);
    m->name = o->name;
    m->type = o->type;
    m->stream = o->stream;
    m->n = o->dim[r->n];
    if (dtype_bits(m->type) < 8) { /* whole bytes, as comm_can has seen */
        m->n = dtype_bytes(m->type, m->n);
        m->type = DTYPE_U8;
    }
    m->step = r->step < 0 ? 0 : o->dim[r->step];
    m->tag = r->tag < 0 ? 0 : o->dim[r->tag];
    if (r->from_x) m->x = in[IN_MESSAGE_x];
    if (r->to_y) m->y = out[OUT_MESSAGE_y];
    if (o->kind == OP_EXCHANGE) m->table = in[IN_EXCHANGE_table];
    if (o->kind == OP_REDUCE_SCATTER) {
        m->in_place = o->out[OUT_REDUCE_SCATTER_left] >= 0;
        if (c->groups[m->group].n > 1) lies_at_its_place(c, m);
    }
    stream_put(c, m);
    return (int)(m - c->messages);
}

/* Data of a SEND goes one way, the word that it was taken the other: a tag for each. */
static void pair_note(message *m, const op *o, const comm_note *n)
{
    bool gives = (o->kind == OP_SEND) != n->last;
    m->kind = gives ? MESSAGE_SEND : MESSAGE_RECV;
    m->x = gives ? n->mine : NULL;
    m->y = gives ? NULL : n->all;
    m->tag = 2 * o->dim[DIM_MESSAGE_TAG] + n->last;
    m->step = o->dim[DIM_MESSAGE_STEP];
}

static void count_data(comm *c, message *m, const op *o, const int32_t *table)
{
    const row *r = &rows[o->kind];
    message data = {.kind = r->kind,
                    .group = o->group,
                    .type = o->type,
                    .n = o->dim[r->n],
                    .step = r->step < 0 ? 0 : o->dim[r->step],
                    .table = table};
    c->stats.messages[o->stream]++;
    comm_count_as(c, m, &data);
}

void comm_counts(comm *c, const op *o, const int32_t *table)
{
    message unused;
    count_data(c, &unused, o, table);
}

int comm_meet(comm *c, const op *o, const comm_note *n)
{
    const row *r = &rows[o->kind];
    message *m = comm_take(c, MESSAGE_GATHER, o->group, op_infos[o->kind].name);
    m->name = o->name;
    m->stream = o->stream;
    m->type = DTYPE_U8;
    m->n = (int64_t)n->bytes;
    m->x = n->mine;
    m->y = n->all;
    if (message_is_pair(&(message){.kind = r->kind})) pair_note(m, o, n);
    m->counted = true;
    if (!n->last) count_data(c, m, o, n->table);
    stream_put(c, m);
    return (int)(m - c->messages);
}
