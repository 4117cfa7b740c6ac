/* part_map.h - a rank's part of a weight beside the whole weight.
 *
 * The whole weight is row-major in the shape of its row of the parameter table; the rank's part is
 * row-major in the shape that the rank holds. The part is a few boxes of the whole (program/
 * weights.h). Here places are turned from one into the other: for initial values, Hugging Face
 * files and checkpoints. */
#ifndef TRAIN_EXECUTOR_PART_MAP_H
#define TRAIN_EXECUTOR_PART_MAP_H

#include "ir/weights.h"

typedef struct part_map {
    const weight *w;
    weight_box box[PARAM_SECTIONS_MAX]; /* no two have an element in common */
    int n;
} part_map;

/* `at` NULL: the part is the whole. */
void part_map_init(part_map *m, const setup *s, const rank_at *at, const weight *w);

/* Where element `whole` of the whole weight lies in the part; -1: not in it. From there on *run
 * elements (at least one) lie one behind the other in both, or are all not in it. */
int64_t part_map_find(const part_map *m, int64_t whole, int64_t *run);

/* The elements [first, first + n) of the part as boxes; returns how many. A range of three
 * dimensions is at most five boxes of the part, each of which may meet every section. */
enum { PART_BOXES_MAX = 5 * PARAM_SECTIONS_MAX };
int part_map_boxes(weight_box out[PART_BOXES_MAX], const part_map *m, int64_t first, int64_t n);

/* ---- a box, run by run */

typedef struct box_run {
    int64_t whole, part; /* first elements */
    int64_t n;
} box_run;

int64_t box_elements(const weight *w, const weight_box *b);

/* Element i of the box, counted row-major in it, and how many follow in the box, the whole and the
 * part alike. */
box_run box_run_at(const weight *w, const weight_box *b, int64_t i);

#endif
