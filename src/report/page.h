/* page.h - one page that shows data by itself: markup, style, script and the data in one file, no
 * network. What is drawn from which key of the data is in page.js; docs/REPORT.md has the keys. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "base/json.h"
#include "base/status.h"

enum { PAGE_BYTES_MAX = 2000000 };

/* ERR_RULE: it would be larger than a page may be. `title` is plain text. */
status page_write(const char *path, const char *title, const json_t *data, error *err);

#endif
