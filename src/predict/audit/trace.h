/* trace.h - the messages and waits of a rank's program, in order.
 *
 * A list has the messages and waits of one list of operations of a segment. A part of a trace is
 * the order in which a rank goes through lists, each with the layer, stage and microbatch that it
 * works for. Equal lists and equal parts of all programs exist once.
 *
 * A lane is a sequence of messages that is matched in order and has its own communicator: all
 * collectives of one stream over one kind of group, or all sends (or receives) of one stream with
 * one distance and one tag in it. Messages in groups of one member are copies and are left out, and
 * so are waits for anything but messages. */
#ifndef PREDICT_AUDIT_TRACE_H
#define PREDICT_AUDIT_TRACE_H

#include "predict/audit/expected.h"
#include "ir/program.h"

typedef enum lane_kind { LANE_COLLECTIVE, LANE_SEND, LANE_RECV } lane_kind;

typedef struct audit_lane {
    lane_kind kind;
    comm_group group;
    op_stream stream;
    int64_t step, tag; /* of sends and receives; the step is 0 .. members - 1 */
} audit_lane;

typedef struct audit_entry {
    op_kind kind; /* a message, or WAIT */
    comm_group group;
    op_stream stream;     /* of a message */
    int64_t n;            /* elements to each member; of EXCHANGE: rows of room */
    int64_t width;        /* EXCHANGE: elements of a row; else 1 */
    dtype type;           /* of its elements */
    int64_t step, tag;    /* SHIFT, SEND, RECV */
    int event;            /* its own, or what a WAIT waits for */
    bool across;          /* the event is one of the program, not of the list */
    exchange_shape shape; /* EXCHANGE */
    int owner;            /* of a pair: whose microbatch it belongs to */
    const char *name;
    int lane;      /* WAIT: -1 */
    uint64_t hash; /* of what members must agree in */
} audit_entry;

typedef struct audit_list {
    segment_kind kind;
    const char *name; /* of the segment */
    int phase;
    audit_entry *entries;
    int n, n_events; /* events of the list: 1 .. n_events */
    uint64_t hash;
    int id;    /* its place in the book */
    int shape; /* lists of one shape differ in sizes and names alone */
} audit_list;

typedef struct audit_label {
    int32_t stage, layer, micro; /* -1: none */
} audit_label;

typedef struct audit_item {
    const audit_list *list;
    audit_label at[2];
} audit_item;

/* What is said in one lane. */
typedef struct lane_use {
    int64_t count;
    uint64_t hash;
} lane_use;

typedef struct audit_part {
    audit_item *items;
    int64_t n;
    uint64_t hash;
    int id, shape; /* as of lists */
    lane_use *use; /* [book's n_lanes], once all programs are there */
} audit_part;

typedef struct audit_trace {
    const audit_part *part[PART_COUNT];
    int n_events; /* of the program */
} audit_trace;

/* All lists, lanes and parts. */
typedef struct audit_book {
    const setup *s;
    arena *a;
    audit_list **lists;
    int n_lists, lists_room;
    audit_lane *lanes;
    int n_lanes, lanes_room;
    audit_part **parts;
    int n_parts, parts_room;
    int n_shapes; /* of lists */
    int n_part_shapes;
} audit_book;

/* The trace of a program, from memory of the book: it outlives the program. */
audit_trace trace_of(audit_book *book, const program *p);

bool trace_equal(const audit_trace *a, const audit_trace *b);

/* For tests: a copy of a part that is the trace's own, and a list that is the part's own, to be
 * altered; then trace_seal makes numbers and shapes agree with them. */
audit_part *trace_own_part(audit_book *book, audit_trace *trace, item_part part);
audit_list *part_own_list(audit_book *book, audit_part *part, int64_t item_id);
void trace_seal(audit_book *book, audit_trace *trace);

bool lane_equal(const audit_lane *a, const audit_lane *b);

/* Fills `use` of all parts. */
void book_count(audit_book *book);

/* The label of a message in an item. */
static inline const audit_label *label_of(const audit_item *it, const audit_entry *e)
{
    return &it->at[e->owner];
}

/* Groups whose members are on several pipeline stages: there an item of one has no twin on another,
 * so labels are not compared. */
static inline bool group_spans_stages(comm_group g)
{
    return g == GROUP_WORLD || g == GROUP_PP || g == GROUP_EMBEDDING;
}

/* What members must agree in, as a number: kind, name and sizes, layer and microbatch. */
uint64_t entry_hash_at(const audit_item *it, const audit_entry *e);
bool entries_agree(const audit_item *ia, const audit_entry *a, const audit_item *ib,
                   const audit_entry *b);

/* One message after another of a lane. */
typedef struct lane_cursor {
    const audit_trace *trace;
    int lane, part, last_part; /* through these parts */
    int64_t item;
    int entry;
} lane_cursor;

lane_cursor lane_start(const audit_trace *trace, int lane);

/* Moves on to the next message; false: there is none. */
bool lane_next(lane_cursor *c);
static inline const audit_item *lane_item(const lane_cursor *c)
{
    return &c->trace->part[c->part]->items[c->item];
}
static inline const audit_entry *lane_entry(const lane_cursor *c)
{
    return &lane_item(c)->list->entries[c->entry];
}

/* "ALL_GATHER qkv.in, 4,096 bytes to each (moe layer 3, forward, microbatch 0, chunk 1)" */
const char *entry_text(const audit_item *it, const audit_entry *e, arena *a);

/* Bytes of a message to one other member; EXCHANGE: of its whole room. */
int64_t entry_bytes(const audit_entry *e);

#endif
