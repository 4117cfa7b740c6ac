/* page.c - the parts of a page put together.
 *
 * I1  Data stand in the page as JSON inside a script element: every < is written as an escape, so
 *     nothing in them can end it. */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

static const char *const page_html[] = {
#include "report/page.html.h"
    NULL};
static const char *const page_css[] = {
#include "report/page.css.h"
    NULL};
static const char *const page_js[] = {
#include "report/page_cards.js.h"
#include "report/page_runs.js.h"
/* It draws the page at its end. */
#include "report/page.js.h"
    NULL};

static void put_lines(textbuf *t, const char *const *lines)
{
    for (; *lines; lines++) text_put(t, *lines, strlen(*lines));
}

static void put_escaped(textbuf *t, const char *s, bool json)
{
    for (; *s; s++) {
        if (*s == '<')
            text_add(t, json ? "\\u003c" : "&lt;");
        else if (*s == '&' && !json)
            text_add(t, "&amp;");
        else
            text_put(t, s, 1);
    }
}

/* Lines of the template that stand for something else. */
static void put_page(textbuf *t, const char *title, const char *data)
{
    for (const char *const *l = page_html; *l; l++) {
        if (strcmp(*l, "@style@\n") == 0) {
            put_lines(t, page_css);
        } else if (strcmp(*l, "@script@\n") == 0) {
            put_lines(t, page_js);
        } else if (strcmp(*l, "@data@\n") == 0) {
            put_escaped(t, data, true); /* I1 */
        } else if (strcmp(*l, "@title@\n") == 0) {
            put_escaped(t, title, false);
        } else {
            text_put(t, *l, strlen(*l));
        }
    }
}

status page_write(const char *path, const char *title, const json_t *data, error *err)
{
    arena *a = arena_create();
    textbuf t = text_init(a);
    const char *text;
    status s = json_print(a, path, data, JSON_COMPACT | JSON_REAL_PRECISION(9), &text, err);
    put_page(&t, title, text);
    if (!s && t.n > PAGE_BYTES_MAX)
        s = error_set(err, ERR_RULE, "%s: the page would have %zu bytes, more than %d", path, t.n,
                      PAGE_BYTES_MAX);
    if (!s) s = file_write(path, t.s, t.n, err);
    arena_destroy(a);
    return s;
}
