/* start.c - operations of the program as messages. */
#include <stdio.h>

#include "backend/comm/state.h"
#include "backend/comm/adder.h"

static const message_kind kinds[] = {
    [OP_ALL_GATHER] = MESSAGE_GATHER,
    [OP_REDUCE_SCATTER] = MESSAGE_REDUCE_SCATTER,
    [OP_ALL_REDUCE] = MESSAGE_ALL_REDUCE,
    [OP_ALL_TO_ALL] = MESSAGE_ALL_TO_ALL,
    [OP_EXCHANGE] = MESSAGE_EXCHANGE,
    [OP_SHIFT] = MESSAGE_SHIFT,
    [OP_SEND] = MESSAGE_SEND,
    [OP_RECV] = MESSAGE_RECV,
};

/* Elements of a block; of an exchange those of a row. */
static int64_t elements(const op *o)
{
    return o->dim[op_is(o->kind, BY_TABLE) ? DIM_EXCHANGE_W : DIM_MESSAGE_N];
}

static bool is_pair(op_kind k)
{
    return op_is(k, GIVES) || op_is(k, TAKES);
}

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
    const char *what = op_infos[o->kind].name, *name = o->name ? o->name : "";
    if (op_is(o->kind, SUMS) && !adder_has(o->type))
        return error_set(err, ERR_MACHINE,
                         "operation %s (%s): collectives cannot sum %s; they sum FP32, FP64, BF16, "
                         "FP16 and INT32",
                         name, what, dtype_name(o->type));
    int64_t n = elements(o);
    if (dtype_elements(o->type, dtype_bytes(o->type, n)) != n)
        return error_set(err, ERR_MACHINE,
                         "operation %s (%s): %lld elements of %s do not fill whole bytes; messages "
                         "carry whole bytes",
                         name, what, (long long)n, dtype_name(o->type));
    return OK;
}

int comm_start(comm *c, const op *o, void *const *in, void *const *out)
{
    error err;
    if (comm_can(o, &err)) comm_abort(c, ERR_MACHINE, err.text);
    message *m = comm_take(c, kinds[o->kind], o->group, op_infos[o->kind].name);
    m->name = o->name;
    m->type = o->type;
    m->stream = o->stream;
    m->n = elements(o);
    if (dtype_bits(m->type) < 8) { /* whole bytes, as comm_can has seen */
        m->n = dtype_bytes(m->type, m->n);
        m->type = DTYPE_U8;
    }
    m->step = op_is(o->kind, STEPPED) ? o->dim[DIM_MESSAGE_STEP] : 0;
    m->tag = is_pair(o->kind) ? o->dim[DIM_MESSAGE_TAG] : 0;
    if (*op_infos[o->kind].in) m->x = in[IN_MESSAGE_x];
    if (*op_infos[o->kind].out) m->y = out[OUT_MESSAGE_y];
    if (op_is(o->kind, BY_TABLE)) m->table = in[IN_EXCHANGE_table];
    if (op_is(o->kind, SUMS) && op_is(o->kind, SCATTERS)) {
        m->in_place = o->out[OUT_REDUCE_SCATTER_left] >= 0;
        if (c->groups[m->group].n > 1) lies_at_its_place(c, m);
    }
    stream_put(c, m);
    return (int)(m - c->messages);
}

/* Data of a SEND goes one way, the word that it was taken the other: a tag for each. */
static void pair_note(message *m, const op *o, const comm_note *n)
{
    bool gives = op_is(o->kind, GIVES) != n->last;
    m->kind = gives ? MESSAGE_SEND : MESSAGE_RECV;
    m->x = gives ? n->mine : NULL;
    m->y = gives ? NULL : n->all;
    m->tag = 2 * o->dim[DIM_MESSAGE_TAG] + n->last;
    m->step = o->dim[DIM_MESSAGE_STEP];
}

static void count_data(comm *c, message *m, const op *o, const int32_t *table)
{
    message data = {.kind = kinds[o->kind],
                    .group = o->group,
                    .type = o->type,
                    .n = elements(o),
                    .step = op_is(o->kind, STEPPED) ? o->dim[DIM_MESSAGE_STEP] : 0,
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
    message *m = comm_take(c, MESSAGE_GATHER, o->group, op_infos[o->kind].name);
    m->name = o->name;
    m->stream = o->stream;
    m->type = DTYPE_U8;
    m->n = (int64_t)n->bytes;
    m->x = n->mine;
    m->y = n->all;
    if (is_pair(o->kind)) pair_note(m, o, n);
    m->counted = true;
    if (!n->last) count_data(c, m, o, n->table);
    stream_put(c, m);
    return (int)(m - c->messages);
}
