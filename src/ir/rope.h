/* rope.h - rotary embedding, plain or YaRN, as numbers. */
#ifndef IR_ROPE_H
#define IR_ROPE_H

#include "layout/setup.h"

/* Elements of a head that are rotated; 0: none. */
int64_t rope_width(const setup *s);

/* table[S][rot]: cosines of rot / 2 frequencies, then sines, for the S = seq / CP positions of the
 * CP rank at place `cp`, chunks cp and 2CP-1-cp of the sequence; YaRN's factor on both. */
void rope_table(const setup *s, int64_t cp, float *table);

/* What attention logits are multiplied with: 1 / sqrt(head), and YaRN's share for MLA. */
double rope_softmax_scale(const setup *s);

#endif
