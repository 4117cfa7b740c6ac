/* hardware_write.c - a hardware file's text, by the table of its keys: what is written is read back
 * as it was.
 *
 * I1  Keys of a section stand together in the table, so that a section is opened once. */
#include <string.h>

#include "base/text.h"
#include "hardware/hardware_fields.h"

typedef struct writer {
    textbuf t;
    const hardware *h;
    hardware_says says;
    const void *who;
    const char *last; /* the key before */
} writer;

/* Letters of the sections that both keys have, with their dots. */
static size_t same_sections(const char *a, const char *b)
{
    size_t same = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '.') same = i + 1;
    return same;
}

static void indent(writer *w, const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key[i] == '.') text_add(&w->t, "  ");
}

/* Opens the sections of a key that are not open yet (I1), and writes its last word. */
static void put_key(writer *w, const char *key)
{
    size_t at = same_sections(w->last, key);
    for (const char *dot; (dot = strchr(key + at, '.')); at = (size_t)(dot - key) + 1) {
        indent(w, key, at);
        text_add(&w->t, "%.*s:\n", (int)(dot - key - (ptrdiff_t)at), key + at);
    }
    indent(w, key, at);
    text_add(&w->t, "%s: ", key + at);
    w->last = key;
}

static void put_curve(writer *w, const curve *c)
{
    text_add(&w->t, "{");
    for (int i = 0; i < c->n; i++) text_add(&w->t, "%s%.0f: %.4g", i ? ", " : "", c->x[i], c->y[i]);
    text_add(&w->t, "}");
}

static void put_reason(writer *w, const char *key)
{
    const char *why = w->says ? w->says(w->who, key) : NULL;
    text_add(&w->t, why ? "  # %s\n" : "\n", why);
}

static void put_field(writer *w, const field *f)
{
    const char *at = (const char *)w->h + f->at;
    double number = 0;
    int64_t whole = 0;
    curve c = {0};
    if (f->kind == FIELD_CURVE) memcpy(&c, at, sizeof c);
    if (f->kind == FIELD_NUMBER) memcpy(&number, at, sizeof number);
    if (f->kind == FIELD_WHOLE) memcpy(&whole, at, sizeof whole);
    if (f->optional && number == 0 && c.n == 0) return;
    put_key(w, f->path);
    if (f->kind == FIELD_CURVE)
        put_curve(w, &c);
    else if (f->kind == FIELD_WHOLE)
        text_add(&w->t, "%lld", (long long)whole);
    else
        text_add(&w->t, "%.6g", number);
    put_reason(w, f->path);
}

static void put_lists(writer *w)
{
    const hardware *h = w->h;
    if (h->n_kinds) text_add(&w->t, "kinds:");
    if (h->n_kinds) put_reason(w, "kinds");
    for (int i = 0; i < h->n_kinds; i++)
        text_add(&w->t, "  %s: %.4g\n", h->kinds[i].kind, h->kinds[i].part);
    text_add(&w->t, "stacks:\n");
    for (int i = 0; i < h->n_stacks; i++)
        text_add(&w->t, "  \"%s\": {device: %.6g, host: %.6g}\n", h->stacks[i].name,
                 h->stacks[i].device, h->stacks[i].host);
}

const char *hardware_text(const hardware *h, const char *heading, hardware_says says,
                          const void *who, arena *a)
{
    writer w = {.t = text_init(a), .h = h, .says = says, .who = who, .last = ""};
    text_add(&w.t, "%sname: %s\n", heading, h->name);
    if (h->measured) text_add(&w.t, "measured: \"%s\"\n", h->measured);
    text_add(&w.t, "architecture: %s\n", gpu_arch_word(h->arch));
    for (int i = 0; i < N_FIELDS; i++) put_field(&w, &fields[i]);
    put_lists(&w);
    return w.t.s;
}
