/* word_routing.h - the word of --routing. */
#ifndef LIBRARY_WORD_ROUTING_H
#define LIBRARY_WORD_ROUTING_H

#include "predict/price.h"

#define ROUTING_WORD "SKEW|FILE"
#define ROUTING_HELP                                                                               \
    "load of the fullest EP rank over the mean (unset: moefold.routing_skew, 1 if balance is "     \
    "forced), or a file that `train --save-routing` wrote"

/* A number becomes moefold.routing_skew, so that memory follows it and a plan's recipe has it;
 * before the recipe is resolved. */
void words_routing_knob(recipe *r, const char *word);

/* The same, and of a file what it says of this recipe's EP: the fullest rank in the mean layer, as
 * tensors of all layers live at once. Not for a search, which has no EP yet. */
status words_routing_room(recipe *r, const char *word, arena *a, error *err);

/* A number, or a file that fits the model; NULL: neither. ERR_INPUT: what is wrong with it. */
status words_routing(price_options *o, const char *word, const setup *s, arena *a, error *err);

#endif
