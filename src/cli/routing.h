/* routing.h - the word of --routing, for `price` and `plan`. */
#ifndef CLI_ROUTING_H
#define CLI_ROUTING_H

#include "cli/cli.h"
#include "price/price.h"

#define ROUTING_WORD "SKEW|FILE"
#define ROUTING_HELP                                                                               \
    "load of the fullest EP rank over the mean (unset: 1), or what `train --save-routing` wrote"

/* A number, or a file that fits the model; NULL: neither. ERR_INPUT: what is wrong with it. */
status cli_routing(price_options *o, const char *word, const setup *s, arena *a, error *err);

/* Two lines for people and an object for programs: how full the fullest rank is, and whether routed
 * buffers have room for it. NULL: nothing is to be said. */
const char *cli_routing_text(const price *p, const price_options *o, arena *a);
json_t *cli_routing_json(const price *p, const price_options *o);

#endif
