/* assembly.h - what the files that put a program together share. Internal to program.c, items.c. */
#ifndef IR_ASSEMBLY_ASSEMBLY_H
#define IR_ASSEMBLY_ASSEMBLY_H

#include "ir/program.h"

typedef struct known_layers {
    segment *seg, *copies;
    int64_t layer;
    unsigned drop;
} known_layers;

typedef struct assembly {
    program *p;
    builder b;  /* its arena holds segments */
    arena *own; /* and this one what no other rank's program uses */
    known_layers *kinds;
    int n_kinds, kinds_room;
    struct known_message { /* segments of messages, by what they carry */
        segment *seg;
        segment_kind kind; /* SEGMENT_RECEIVE, SEGMENT_SEND, SEGMENT_POST */
        int64_t elements;
        int turn;
        int64_t of; /* the last rank whose program has it */
    } * messages;
    int n_messages, messages_room;
    const segment **waits; /* [n_events + 1] */
    struct known_other {   /* embedding, final norm, prediction module, head */
        void (*build)(builder *, segment *);
        segment *seg, *copies;
    } others[4];
    int n_others;
    struct known_pair {
        const segment *f, *b;
        segment *seg;
        int64_t of;
    } * pairs;
    int n_pairs, pairs_room;
    int64_t flex_shift; /* of the rank whose segments are known */
    bool few_micros;    /* the order has two microbatches at most: the others are alike */
    bool sizes_only;    /* items are listed for what they hold: no messages between replicas */
} assembly;

/* A new segment of the program; to be built, then finished by assembly_done. */
segment *assembly_segment(assembly *s);
void assembly_done(assembly *s, segment *seg, unsigned drop);

/* A segment that was built for another rank of the same setup belongs to this program, too. */
void assembly_use(assembly *s, segment *seg);

/* The segment of such a message, built once. */
const segment *message_segment(assembly *s, segment_kind k, int64_t elements, int turn);

/* All items of the program, from its chunks and its order. */
void build_items(assembly *s);

/* Sums over TP of what its ranks each have a part of: a segment without operations where there is
 * none. */
segment *sums_segment(assembly *s);

#endif
