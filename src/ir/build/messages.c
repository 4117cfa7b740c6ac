/* messages.c - hidden states and their gradients between stages. */
#include "ir/build/messages.h"

enum { TAG_FORWARD, TAG_BACKWARD, TURNS_LEAST = 2 };

/* Numbers do not depend on whether there are one or two turns. */
static int room_of(int ring_depth)
{
    return ring_depth > TURNS_LEAST ? ring_depth : TURNS_LEAST;
}

int event_of_message(message_event e, int turn, int ring_depth)
{
    return 1 + (int)e * room_of(ring_depth) + turn;
}

int event_of_reduce(int bucket_id, int ring_depth)
{
    return 1 + MESSAGE_EVENTS * room_of(ring_depth) + 2 * bucket_id;
}

int event_of_gather(int bucket_id, int ring_depth)
{
    return event_of_reduce(bucket_id, ring_depth) + 1;
}

int events_of_program(int n_buckets, int ring_depth)
{
    return MESSAGE_EVENTS * room_of(ring_depth) + 2 * n_buckets;
}

static void wait_for(builder *b, int phase, const char *name, int event)
{
    op *o = seg_op(b, phase, OP_WAIT, name, NULL, NULL, DIM(event));
    o->flags = ACROSS;
}

static void begin(builder *b, segment *seg, segment_kind kind)
{
    segment_init(seg, b, kind, b->s, b->a);
    b->module = MODULE_MESSAGES;
    b->node = NODE_ATTN;
}

/* Hidden states go to the stage behind, gradients to the one before. */
static op *message(builder *b, int phase, op_kind kind, int id, const message_shape *m)
{
    int64_t step = (phase == SEG_FORWARD) == (kind == OP_SEND) ? 1 : -1;
    int64_t tag = phase == SEG_FORWARD ? TAG_FORWARD : TAG_BACKWARD;
    op *o = seg_comm(b, phase, kind, phase == SEG_FORWARD ? "hidden state" : "gradient", GROUP_PP,
                     kind == OP_SEND ? IN(id) : NULL, kind == OP_RECV ? OUT(id) : NULL,
                     DIM(m->elements, step, tag));
    o->stream = phase == SEG_FORWARD ? STREAM_SEND_FORWARD : STREAM_SEND_BACKWARD;
    if (kind == OP_RECV) o->stream = op_stream_opposite(o->stream);
    return o;
}

static void across(op *o, int event)
{
    o->flags |= ACROSS;
    o->event = event;
}

void build_receive(builder *b, segment *seg, message_shape m)
{
    begin(b, seg, SEGMENT_RECEIVE);
    int y = seg_other(b, "y", LIFE_OUTPUT, m.elements);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, m.elements);
    if (m.early)
        wait_for(b, SEG_FORWARD, "hidden state",
                 event_of_message(EVENT_RECV_FORWARD, m.turn, m.ring_depth));
    else
        message(b, SEG_FORWARD, OP_RECV, y, &m);
    across(message(b, SEG_BACKWARD, OP_SEND, dh, &m),
           event_of_message(EVENT_SEND_BACKWARD, m.turn, m.ring_depth));
}

void build_send(builder *b, segment *seg, message_shape m)
{
    begin(b, seg, SEGMENT_SEND);
    int x = seg_other(b, "x", LIFE_BOUNDARY, m.elements);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, m.elements);
    across(message(b, SEG_FORWARD, OP_SEND, x, &m),
           event_of_message(EVENT_SEND_FORWARD, m.turn, m.ring_depth));
    if (m.early)
        wait_for(b, SEG_BACKWARD, "gradient",
                 event_of_message(EVENT_RECV_BACKWARD, m.turn, m.ring_depth));
    else
        message(b, SEG_BACKWARD, OP_RECV, dh, &m);
}

void build_post(builder *b, segment *seg, message_shape m)
{
    begin(b, seg, SEGMENT_POST);
    int y = seg_other(b, "y", LIFE_OUTPUT, m.elements);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, m.elements);
    across(message(b, SEG_FORWARD, OP_RECV, y, &m),
           event_of_message(EVENT_RECV_FORWARD, m.turn, m.ring_depth));
    across(message(b, SEG_BACKWARD, OP_RECV, dh, &m),
           event_of_message(EVENT_RECV_BACKWARD, m.turn, m.ring_depth));
}

void build_wait(builder *b, segment *seg, int event)
{
    begin(b, seg, SEGMENT_WAIT);
    wait_for(b, SEG_FORWARD, "message", event);
}
