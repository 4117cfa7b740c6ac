/* items.h - what the files that list items share. Internal to items*.c. */
#ifndef IR_ASSEMBLY_ITEMS_H
#define IR_ASSEMBLY_ITEMS_H

#include "ir/assembly/assembly.h"

typedef struct unit {
    int64_t f, b; /* entries of the order; -1: none */
} unit;

typedef struct item_walk {
    assembly *s;
    program *p;
    item_list *out;
    int *turn;        /* [order.n] of each entry */
    int64_t *first_f; /* [n_chunks] entry of the first forward */
    int64_t *last_b;  /* [n_chunks] entry of the last backward */
    int *user;        /* [n_buckets] first instance of its chunk that uses it */
    bool overlaps_reduction;
    unit *units;
    int64_t n_units;
} item_walk;

/* Appends an item; buffers of `nowhere` are fixed ones. */
extern const item_at nowhere;
item *add_item(item_walk *w, const segment *seg, int phase, item_at at);
void add_wait(item_walk *w, int event);
bool is_segment(const instance *i, segment_kind kind);

/* ---- first_writers.c */

/* Items of the step whose backward is the first of its instance get a segment of their own, in
 * which weight gradients are written instead of added to; fills p->written. After the step's items
 * are there. */
void first_writers(item_walk *w);

/* ---- items_replicas.c: buckets of gradients and weights */

/* Which instance of its chunk uses a bucket first. */
void find_users(item_walk *w);
/* Around an instance of an entry of the order: waits for gathered weights before its first forward,
 * reductions after its last backward. */
void before_instance(item_walk *w, int64_t entry, int i);
void after_instance(item_walk *w, int64_t entry, int i);
/* Gathers at the start of a step; what follows the step before and after the optimizer. */
void gather_items(item_walk *w);
void finish_items(item_walk *w);

/* Where the buffers of an instance of an entry of the order lie. */
item_at place_at(const item_walk *w, int64_t entry, int instance_id);

#endif
