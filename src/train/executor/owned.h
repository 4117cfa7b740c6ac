/* owned.h - which rank answers for an element of a weight.
 *
 * Many ranks hold the same element: replicas of a dense weight over DP-CP, of an expert weight over
 * EDP, of an uncut one over TP (ETP) besides, and of the word table on several stages. Where each
 * must count once (the gradient norm, comparisons, checkpoints) it counts on the rank that answers
 * for it: rank_answers(weight), and the element lies in that rank's owned_range of it. Over all
 * ranks of the layout that is each element of the model exactly once. */
#ifndef TRAIN_EXECUTOR_OWNED_H
#define TRAIN_EXECUTOR_OWNED_H

#include "ir/weights.h"

/* Does this rank answer for its slice of this weight, which it holds? `at` NULL: one rank with the
 * whole model. */
bool rank_answers(const setup *s, const rank_at *at, const weight *w);

/* The elements [*first, *first + n) of the weight on this rank that lie in the slice of its bucket
 * that this rank's optimizer owns; returns n, which may be 0. Weights that are not trained have no
 * slices: all of it. */
int64_t owned_range(const weight_list *wl, const weight *w, int64_t *first);

/* Where that range starts in the moments. The weight is trained. */
int64_t owned_moments(const weight_list *wl, const weight *w, int64_t first);

#endif
