/* hardware_yaml.c - the text of a hardware file, read by the table of its keys.
 *
 * I1  A key that the table does not have is refused, and so is a file without one that it needs.
 * I2  Every number is finite and inside the bounds of its row; curves grow no faster than sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml.h"
#include "hardware/hardware_fields.h"

typedef struct reader {
    hardware *h;
    arena *a;
    const char *path;
    error *err;
    bool seen[N_FIELDS], arch_seen;
} reader;

/* No machine is that slow, and sums of what it takes would not be numbers. */
#define LEAST_PART    1e-12 /* of the most that a number may be */
#define LEAST_REACHED 1e-6  /* of what a machine could reach */

/* ---- numbers with units */

static const struct unit {
    const char *name;
    double factor;
} units[] = {
    {"", 1},       {"ns", 1e-9},     {"us", 1e-6},     {"ms", 1e-3},   {"s", 1},
    {"TF", 1e12},  {"GB", 1e9},      {"GB/s", 1e9},    {"TB/s", 1e12}, {"MB/s", 1e6},
    {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"M/s", 1e6},
};

static bool number_of(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || !isfinite(*out)) return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].name, end) != 0) continue;
        *out *= units[i].factor;
        return isfinite(*out);
    }
    return false;
}

static status bad_number(reader *r, const yaml_node *node, const char *key, double most)
{
    const char *text = node->kind == YAML_SCALAR ? node->text : "a list or map";
    return error_set(r->err, ERR_INPUT,
                     "%s:%d: %s: \"%.60s\" is not a number from %g to %g; write one like 3.5, "
                     "2e12, 450 GB/s, 5 us, 79 GiB or 989 TF",
                     r->path, node->line, key, text, most * LEAST_PART, most);
}

static status bad_point(reader *r, const yaml_node *node, const field *f)
{
    const char *text = node->kind == YAML_SCALAR ? node->text : "a list or map";
    return error_set(r->err, ERR_INPUT,
                     "%s:%d: %s: \"%.60s\" is not a fraction from %g to %g of the machine's peak; "
                     "write one like 0.7",
                     r->path, node->line, f->path, text, LEAST_REACHED, f->most);
}

static status read_number(reader *r, const yaml_node *node, const field *f)
{
    double x;
    if (node->kind != YAML_SCALAR || !number_of(node->text, &x) || x < 0 || x > f->most ||
        (x == 0 ? !f->optional : x < f->most * LEAST_PART))
        return bad_number(r, node, f->path, f->most);
    int64_t whole = (int64_t)x;
    if (f->kind == FIELD_WHOLE && whole < 1) return bad_number(r, node, f->path, f->most);
    if (f->kind == FIELD_WHOLE)
        memcpy((char *)r->h + f->at, &whole, sizeof whole);
    else
        memcpy((char *)r->h + f->at, &x, sizeof x);
    return OK;
}

/* ---- curves */

static status read_point(reader *r, const yaml_node *node, const field *f, curve *c)
{
    double x, y;
    if (!node->key || !number_of(node->key, &x) || x <= 0 || (c->n && x <= c->x[c->n - 1]))
        return error_set(
            r->err, ERR_INPUT,
            "%s:%d: %s: \"%.60s\" is not a size; a curve is a map of sizes, each larger than the "
            "one before, to the fraction of the peak that is reached: {1024: 0.4, 4096: 0.7}",
            r->path, node->line, f->path, node->key ? node->key : "");
    if (node->kind != YAML_SCALAR || !number_of(node->text, &y) || y < LEAST_REACHED || y > f->most)
        return bad_point(r, node, f);
    c->x[c->n] = x;
    c->y[c->n++] = y;
    return OK;
}

/* GEMMs are by the side of their result, and work grows with its square; a little more than the
 * size is noise of a measurement. */
#define STEEPEST 1.1

static bool curve_finish(curve *c, double steepest)
{
    for (int i = 0; i < c->n; i++) {
        c->log_x[i] = log2(c->x[i]);
        c->log_y[i] = log2(c->y[i]);
    }
    for (int i = 0; i + 1 < c->n; i++) {
        c->slope[i] = (c->log_y[i + 1] - c->log_y[i]) / (c->log_x[i + 1] - c->log_x[i]);
        if (!(c->slope[i] <= steepest)) return false;
    }
    return true;
}

static status read_curve(reader *r, const yaml_node *node, const field *f)
{
    curve c = {0};
    if (node->kind != YAML_MAP || node->n_items < 1 || node->n_items > CURVE_MAX)
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: %s: needs a map of 1 to %d sizes, as {1024: 0.4, 4096: 0.7}",
                         r->path, node->line, f->path, CURVE_MAX);
    for (int i = 0; i < node->n_items; i++) {
        status s = read_point(r, node->items[i], f, &c);
        if (s) return s;
    }
    if (!curve_finish(&c, text_starts(f->path, "products.") ? 2 : STEEPEST))
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: %s: grows faster than the size, so that twice the work would take "
                         "less time; lower its later values",
                         r->path, node->line, f->path);
    memcpy((char *)r->h + f->at, &c, sizeof c);
    return OK;
}

/* ---- stacks */

static status read_stack(reader *r, const yaml_node *node)
{
    struct stack *k = &r->h->stacks[r->h->n_stacks];
    static const char *const words[] = {"device", "host", "unfused_sinks", "fused_experts"};
    enum { WORDS = sizeof words / sizeof words[0] };
    double *at[WORDS] = {&k->device, &k->host, &k->unfused_sinks, &k->fused_experts};
    *k = (struct stack){.name = node->key};
    for (int i = 0; node->kind == YAML_MAP && i < node->n_items; i++) {
        const yaml_node *x = node->items[i];
        int which = 0;
        while (which < WORDS && x->key && strcmp(x->key, words[which]) != 0) which++;
        if (!x->key || which == WORDS || x->kind != YAML_SCALAR || !number_of(x->text, at[which]) ||
            *at[which] < 100 * LEAST_PART || *at[which] > 100)
            return bad_number(r, x, "stacks", 100);
    }
    if (!k->name || !*k->name || k->device <= 0 || k->host <= 0)
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: stacks: each is NAME: {device: FACTOR, host: FACTOR}", r->path,
                         node->line);
    r->h->n_stacks++;
    return OK;
}

static status read_stacks(reader *r, const yaml_node *map)
{
    if (map->kind != YAML_MAP || map->n_items < 1 || map->n_items > CURVE_MAX || r->h->n_stacks)
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: stacks: needs one map of 1 to %d container generations, oldest "
                         "first, each NAME: {device: FACTOR, host: FACTOR}",
                         r->path, map->line, CURVE_MAX);
    for (int i = 0; i < map->n_items; i++) {
        status s = read_stack(r, map->items[i]);
        if (s) return s;
    }
    return OK;
}

/* ---- kinds of operations */

static status read_kinds(reader *r, const yaml_node *map)
{
    const double most = 4;
    if (map->kind != YAML_MAP || map->n_items < 1 || map->n_items > PARTS_MAX || r->h->n_kinds)
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: kinds: needs one map of 1 to %d kinds of operations to the "
                         "fraction of memory.efficiency that they reach, as {NORM: 0.9, SORT: 0.1}",
                         r->path, map->line, PARTS_MAX);
    for (int i = 0; i < map->n_items; i++) {
        const yaml_node *x = map->items[i];
        kind_part *k = &r->h->kinds[r->h->n_kinds++];
        k->kind = x->key ? x->key : "";
        if (x->kind != YAML_SCALAR || !number_of(x->text, &k->part) || k->part < LEAST_REACHED ||
            k->part > most)
            return bad_number(r, x, "kinds", most);
    }
    return OK;
}

/* ---- the tree */

static status unknown_key(reader *r, const yaml_node *node, const char *path)
{
    if (strcmp(path, "memory.usable") == 0)
        return error_set(r->err, ERR_INPUT,
                         "%s:%d: memory.usable is no longer read: plans leave moefold.headroom "
                         "(unset: %g) of memory.visible free; repair: remove the line",
                         r->path, node->line, HEADROOM_DEFAULT);
    const char *words[N_FIELDS];
    for (int i = 0; i < N_FIELDS; i++) words[i] = fields[i].path;
    const char *near = text_nearest(path, words, N_FIELDS);
    return error_set(r->err, ERR_INPUT, "%s:%d: unknown key \"%.80s\"%s%s%s", r->path, node->line,
                     path, near ? "; did you mean \"" : "; hardware/h100.yaml has all keys",
                     near ? near : "", near ? "\"?" : "");
}

static bool is_section(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; i < N_FIELDS; i++)
        if (strncmp(fields[i].path, path, n) == 0 && fields[i].path[n] == '.') return true;
    return false;
}

static status read_field(reader *r, const yaml_node *node, int i)
{
    if (r->seen[i])
        return error_set(r->err, ERR_INPUT, "%s:%d: %s is there twice; remove one", r->path,
                         node->line, fields[i].path);
    r->seen[i] = true;
    return fields[i].kind == FIELD_CURVE ? read_curve(r, node, &fields[i])
                                         : read_number(r, node, &fields[i]);
}

static status read_architecture(reader *r, const yaml_node *node)
{
    r->arch_seen = true;
    const char *word = node->kind == YAML_SCALAR ? node->text : "a list or map";
    if (node->kind == YAML_SCALAR && gpu_arch_find(word, &r->h->arch)) return OK;
    return error_set(r->err, ERR_INPUT, "%s:%d: architecture: \"%.60s\" is not known; write %s",
                     r->path, node->line, word, gpu_arch_words);
}

/* Files that were written before the key existed have a name that tells. */
static status default_architecture(reader *r)
{
    const gpu *known = gpu_find(r->h->name);
    if (known) {
        r->h->arch = known->arch;
        return OK;
    }
    return error_set(r->err, ERR_INPUT,
                     "%s: architecture is missing; write %s: the rules for that architecture hold",
                     r->path, gpu_arch_words);
}

static status read_node(reader *r, const yaml_node *node, const char *path)
{
    for (int i = 0; i < N_FIELDS; i++)
        if (strcmp(fields[i].path, path) == 0) return read_field(r, node, i);
    if (strcmp(path, "stacks") == 0) return read_stacks(r, node);
    if (strcmp(path, "architecture") == 0) return read_architecture(r, node);
    if (strcmp(path, "kinds") == 0) return read_kinds(r, node);
    if (strcmp(path, "name") == 0 && node->kind == YAML_SCALAR) {
        r->h->name = text_visible(r->a, node->text);
        return OK;
    }
    if (strcmp(path, "measured") == 0 && node->kind == YAML_SCALAR) {
        r->h->measured = text_visible(r->a, node->text);
        return OK;
    }
    if (node->kind != YAML_MAP || !is_section(path)) return unknown_key(r, node, path);
    for (int i = 0; i < node->n_items; i++) {
        const yaml_node *x = node->items[i];
        status s = read_node(r, x, arena_text(r->a, "%s.%.60s", path, x->key ? x->key : ""));
        if (s) return s;
    }
    return OK;
}

static status check_whole(reader *r)
{
    const hardware *h = r->h;
    for (int i = 0; i < N_FIELDS; i++)
        if (!fields[i].optional && !r->seen[i])
            return error_set(r->err, ERR_INPUT, "%s: %s is missing; hardware/h100.yaml shows it",
                             r->path, fields[i].path);
    if (!h->name || !*h->name) return error_set(r->err, ERR_INPUT, "%s: name is missing", r->path);
    if (!r->arch_seen && default_architecture(r)) return ERR_INPUT;
    if (!h->n_stacks)
        return error_set(r->err, ERR_INPUT,
                         "%s: stacks is missing; one is enough: {any: {device: "
                         "1, host: 1}}",
                         r->path);
    for (int k = NUMBER_FP8; k < NUMBER_COUNT; k++)
        if (h->peak[k] > 0 && (!h->gemm[k].n || !h->grouped[k].n || h->depth[k] <= 0))
            return error_set(r->err, ERR_INPUT,
                             "%s: peak.%s is there, so products.%s and grouped.%s must be", r->path,
                             k == NUMBER_FP8 ? "fp8" : "fp4", k == NUMBER_FP8 ? "fp8" : "fp4",
                             k == NUMBER_FP8 ? "fp8" : "fp4");
    return OK;
}

status hardware_parse(hardware *h, const char *path, const char *data, size_t n, arena *a,
                      error *err)
{
    hardware made = {.path = path};
    reader r = {.h = &made, .a = a, .path = path, .err = err};
    yaml_node *root;
    TRY(yaml_parse(a, path, data, n, &root, err));
    if (root->kind != YAML_MAP)
        return error_set(err, ERR_INPUT,
                         "%s: is not a map of keys; hardware/h100.yaml is an example", path);
    for (int i = 0; i < root->n_items; i++)
        TRY(read_node(&r, root->items[i], root->items[i]->key ? root->items[i]->key : ""));
    TRY(check_whole(&r));
    hardware_leave(&made, HEADROOM_DEFAULT);
    *h = made;
    return OK;
}
