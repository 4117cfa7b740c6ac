/* plan_file.h - what `moefold plan --json` or `moefold diff --json` wrote, read back. */
#ifndef REPORT_PLAN_FILE_H
#define REPORT_PLAN_FILE_H

#include <stdbool.h>

#include "base/json.h"

/* Does the text look like one? No recipe and no config.json does. */
bool plan_file_is(const char *data);

bool plan_file_is_diff(const json_t *file);

/* Rows and ends have their numbers, so that a page can be drawn. The caller gives it back.
 * ERR_INPUT: cut short, or neither a plan nor a difference: what, where, and the repair. */
status plan_file_parse(json_t **plan, const char *name, const char *data, size_t n, error *err);

#endif
