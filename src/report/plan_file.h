/* plan_file.h - what `moefold plan --json` wrote, read back. */
#ifndef REPORT_PLAN_FILE_H
#define REPORT_PLAN_FILE_H

#include <stdbool.h>

#include "base/json.h"

/* Does the text look like one? No recipe and no config.json does. */
bool plan_file_is(const char *data);

/* Rows have their numbers, so that a page can be drawn. The caller gives it back. ERR_INPUT: cut
 * short, or not a plan: what, where, and the repair. */
status plan_file_parse(json_t **plan, const char *name, const char *data, size_t n, error *err);

#endif
