/* hardware_text.c - a machine as the text of a hardware file, which hardware_parse reads back.
 *
 * Rows of the table with the same first words stand together, so nested maps are written as the
 * rows come. */
#include <stdio.h>
#include <string.h>

#include "hardware/hardware_fields.h"

/* How many words of a path are those of the path before. */
static int shared_words(const char *path, const char *before)
{
    int words = 0;
    for (size_t i = 0; path[i] && path[i] == before[i]; i++) words += path[i] == '.';
    return words;
}

static void put_words(textbuf *t, const char *path, const char *before)
{
    int words = 0, shared = shared_words(path, before);
    for (const char *p = path; *p; words++) {
        size_t n = strcspn(p, ".");
        bool last = !p[n];
        if (words >= shared) text_add(t, "%*s%.*s:%s", 2 * words, "", (int)n, p, last ? "" : "\n");
        p += last ? n : n + 1;
    }
}

static void put_curve(textbuf *t, const curve *c)
{
    text_add(t, " {");
    for (int i = 0; i < c->n; i++) text_add(t, "%s%.9g: %.6g", i ? ", " : "", c->x[i], c->y[i]);
    text_add(t, "}\n");
}

static void put_field(textbuf *t, const hardware *h, const field *f, const char **before)
{
    const char *at = (const char *)h + f->at;
    double number = 0;
    int64_t whole = 0;
    curve c;
    if (f->kind == FIELD_CURVE) {
        memcpy(&c, at, sizeof c);
        if (!c.n) return;
    } else if (f->kind == FIELD_WHOLE) {
        memcpy(&whole, at, sizeof whole);
    } else {
        memcpy(&number, at, sizeof number);
        if (number == 0) return; /* optional, and not there */
    }
    put_words(t, f->path, *before);
    if (f->kind == FIELD_CURVE)
        put_curve(t, &c);
    else if (f->kind == FIELD_WHOLE)
        text_add(t, " %lld\n", (long long)whole);
    else
        text_add(t, " %.9g\n", number);
    *before = f->path;
}

void hardware_text(const hardware *h, textbuf *t)
{
    const char *before = "";
    text_add(t, "name: %s\narchitecture: %s\n", h->name, gpu_arch_name(h->arch));
    for (int i = 0; i < N_FIELDS; i++) put_field(t, h, &fields[i], &before);
    text_add(t, "stacks:\n");
    for (int i = 0; i < h->n_stacks; i++)
        text_add(t, "  %s: {device: %.9g, host: %.9g}\n", h->stacks[i].name, h->stacks[i].device,
                 h->stacks[i].host);
}
