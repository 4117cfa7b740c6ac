/* megatron_list.h - the list expressions that Megatron-LM takes for patterns of layers. */
#ifndef CONFIG_MEGATRON_LIST_H
#define CONFIG_MEGATRON_LIST_H

#include "config/value.h"

/* The most items of a list, as many as a model may have layers. */
enum { PATTERN_ITEMS_MAX = 4096 };

/* Evaluates whole numbers, [lists], (groups), a+b, a*b and a,b as Python does: "([0]*3+[1]*58)*1",
 * "(127,0)". The result is a whole number or a list of them. Errors name the column. */
status list_expression(arena *a, const char *s, value *out, error *err);

#endif
