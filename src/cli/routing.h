/* routing.h - the word of --routing, for `check`, `price` and `plan`. */
#ifndef CLI_ROUTING_H
#define CLI_ROUTING_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "library/other_routing.h"

#define ROUTING_WORD "SKEW|FILE"
#define ROUTING_HELP                                                                               \
    "load of the fullest EP rank over the mean (unset: moefold.routing_skew, 1 if balance is "     \
    "forced), or a file that `train --save-routing` wrote"

/* A number becomes moefold.routing_skew, so that memory follows it and a plan's recipe has it;
 * before the recipe is resolved. */
void cli_routing_knob(recipe *r, const char *word);

/* The same, and of a file what it says of this recipe's EP: the fullest rank in the mean layer, as
 * tensors of all layers live at once. Not for a search, which has no EP yet. */
status cli_routing_room(recipe *r, const char *word, arena *a, error *err);

/* A number, or a file that fits the model; NULL: neither. ERR_INPUT: what is wrong with it. */
status cli_routing(price_options *o, const char *word, const setup *s, arena *a, error *err);

/* Two lines for people: how full the fullest rank is, and whether routed buffers have room for it.
 * NULL: nothing is to be said. */
const char *cli_routing_text(const price *p, const price_options *o, arena *a);

/* A line for people, NULL: nothing is to be said; and the key `forced` or `natural`. */
const char *cli_other_text(const other_routing *x, arena *a);
const other_routings_answer *cli_other_answer(const other_routing *x, arena *a);

#endif
