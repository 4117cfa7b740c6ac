/* routing.h - what is said of routing. */
#ifndef CLI_ROUTING_H
#define CLI_ROUTING_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "library/other_routing.h"

/* Two lines for people: how full the fullest rank is, and whether routed buffers have room for it.
 * NULL: nothing is to be said. */
const char *cli_routing_text(const price *p, const price_options *o, arena *a);

/* A line for people, NULL: nothing is to be said; and the key `forced` or `natural`. */
const char *cli_other_text(const other_routing *x, arena *a);

#endif
