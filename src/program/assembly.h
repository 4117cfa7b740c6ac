/* assembly.h - what the files that put a program together share. Internal to program.c, items.c. */
#ifndef PROGRAM_ASSEMBLY_H
#define PROGRAM_ASSEMBLY_H

#include "program/program.h"

typedef struct layer_kind {
    segment *seg;
    int64_t layer;
    unsigned drop;
} layer_kind;

typedef enum message_kind {
    MESSAGE_RECEIVE,
    MESSAGE_SEND,
    MESSAGE_POST,
    MESSAGE_KINDS
} message_kind;

typedef struct assembly {
    program *p;
    builder b;
    layer_kind *kinds;
    int n_kinds;
    struct known_message { /* segments of messages, by what they carry */
        const segment *seg;
        message_kind kind;
        int64_t elements;
        int turn;
    } messages[32];
    int n_messages;
    const segment **waits; /* [n_events + 1] */
    struct known_pair {
        const segment *f, *b, *seg;
    } * pairs;
    int n_pairs, pairs_room;
} assembly;

/* A new segment of the program; to be built, then finished by assembly_done. */
segment *assembly_segment(assembly *s);
void assembly_done(assembly *s, segment *seg, unsigned drop);

/* The segment of such a message, built once. */
const segment *message_segment(assembly *s, message_kind k, int64_t elements, int turn);

/* All items of the program, from its chunks and its order. */
void build_items(assembly *s);

#endif
