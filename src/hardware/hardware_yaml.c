/* hardware_yaml.c - the text of a hardware file, read and written by the table of its keys: what is
 * written is read back as it was.
 *
 * I1  A key that the table does not have is refused, and so is a file without one that it needs.
 * I2  Every number is finite and inside the bounds of its row; curves grow no faster than sizes.
 * I3  Keys of a section stand together in the table, so that a section is opened once. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml.h"
#include "hardware/hardware.h"

/* ---- the table: every key, and where its number goes */

typedef enum field_kind { FIELD_NUMBER, FIELD_WHOLE, FIELD_CURVE } field_kind;

typedef struct field {
    const char *path;
    size_t at;
    field_kind kind;
    bool optional;
    double most; /* numbers are above 0 (or 0, where optional), no more than this */
} field;

#define NUM(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_NUMBER, false, m                                      \
    }
#define OPT(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_NUMBER, true, m                                       \
    }
#define INT(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_WHOLE, false, m                                       \
    }
#define CRV(p, member)                                                                             \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_CURVE, false, 1.5                                     \
    }
#define COP(p, member)                                                                             \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_CURVE, true, 1.5                                      \
    }
#define LEVEL(p, member)                                                                           \
    NUM(p ".latency", member.latency, 1), NUM(p ".bandwidth", member.bandwidth, 1e15),             \
        CRV(p ".efficiency", member.efficiency)
#define GRADIENTS(p, member)                                                                       \
    COP(p "data", member[GRADIENT_DATA]), COP(p "weight", member[GRADIENT_WEIGHT]),                \
        COP(p "added", member[GRADIENT_ADDED])
#define SCALED(p, i)                                                                               \
    NUM("quantise." p ".rate", narrow_rate[i], 1.5),                                               \
        NUM("quantise." p ".bytes", narrow_bytes[i], 64)
#define DISPATCHED(id, p)                                                                          \
    NUM("dispatch." p ".inside", dispatch[DISPATCH_##id][0], 1.5),                                 \
        NUM("dispatch." p ".across", dispatch[DISPATCH_##id][1], 1.5),                             \
        NUM("dispatch." p ".copies", dispatch_copies[DISPATCH_##id], 4),                           \
        COP("dispatch." p ".near", dispatch_near[DISPATCH_##id]),                                  \
        OPT("dispatch." p ".row", dispatch_row[DISPATCH_##id][0], 1),                              \
        OPT("dispatch." p ".row_across", dispatch_row[DISPATCH_##id][1], 1),
#define LAUNCHED(p, i) NUM("launches." p, launches[i], 1000)
#define CALLED(p, i)                                                                               \
    OPT("calls." p ".forward", calls[i][0], 1000), OPT("calls." p ".backward", calls[i][1], 1000)

static const field fields[] = {
    NUM("peak.fp32", peak[NUMBER_FP32], 1e18),
    NUM("peak.bf16", peak[NUMBER_BF16], 1e18),
    OPT("peak.fp8", peak[NUMBER_FP8], 1e18),
    OPT("peak.fp4", peak[NUMBER_FP4], 1e18),
    INT("memory.visible", memory, 1e18),
    NUM("memory.bandwidth", memory_bandwidth, 1e18),
    CRV("memory.efficiency", memory_efficiency),
    INT("node.gpus", gpus_per_node, 1 << 20),
    LEVEL("node", node),
    INT("domain.gpus", nvlink_domain, 1 << 20),
    LEVEL("domain", domain),
    LEVEL("across", across),
    NUM("host.bandwidth", host_bandwidth, 1e15),
    OPT("host.both", host_both, 1e15),
    OPT("host.memory", host_memory, 1e18),
    NUM("host.adam", host_adam, 1e15),
    NUM("host.launch", launch, 1),
    NUM("host.graph_launch", graph_launch, 1),
    NUM("host.sync", sync, 1),
    OPT("host.step", step, 10),
    NUM("device.least", least, 1),
    OPT("device.clock", clock, 4),
    OPT("device.message_share", message_share, 1),
    OPT("device.near_share", near_share, 1),
    NUM("device.fusion", fusion, 4),
    NUM("device.unfused", unfused, 16),
    NUM("products.fp32.depth", depth[NUMBER_FP32], 1e6),
    CRV("products.fp32.efficiency", gemm[NUMBER_FP32]),
    GRADIENTS("products.fp32.", gemm_gradient[NUMBER_FP32]),
    NUM("products.bf16.depth", depth[NUMBER_BF16], 1e6),
    CRV("products.bf16.efficiency", gemm[NUMBER_BF16]),
    GRADIENTS("products.bf16.", gemm_gradient[NUMBER_BF16]),
    OPT("products.fp8.depth", depth[NUMBER_FP8], 1e6),
    COP("products.fp8.efficiency", gemm[NUMBER_FP8]),
    GRADIENTS("products.fp8.", gemm_gradient[NUMBER_FP8]),
    OPT("products.fp4.depth", depth[NUMBER_FP4], 1e6),
    COP("products.fp4.efficiency", gemm[NUMBER_FP4]),
    NUM("grouped.tile", tile, 1 << 20),
    OPT("grouped.depth", grouped_depth, 1e6),
    CRV("grouped.fp32", grouped[NUMBER_FP32]),
    CRV("grouped.bf16", grouped[NUMBER_BF16]),
    GRADIENTS("grouped.", grouped_gradient),
    COP("grouped.fp8", grouped[NUMBER_FP8]),
    GRADIENTS("grouped.fp8_", grouped_narrow),
    OPT("grouped.fp8_depth", grouped_narrow_depth, 1e6),
    COP("grouped.fp4", grouped[NUMBER_FP4]),
    CRV("attention.forward", attention[0]),
    CRV("attention.backward", attention[1]),
    CRV("attention.head", attention_head),
    OPT("attention.unequal_forward", attention_unequal[0], 4),
    OPT("attention.unequal_backward", attention_unequal[1], 4),
    NUM("attention.sinks", attention_sinks, 1.5),
    OPT("attention.wide_forward", attention_wide[0], 1.5),
    OPT("attention.wide_backward", attention_wide[1], 1.5),
    NUM("attention.linear", linear_attention, 1.5),
    OPT("delta_rule.forward", rule.part[0], 1.5),
    OPT("delta_rule.backward", rule.part[1], 1.5),
    OPT("delta_rule.chunk_forward", rule.chunk[0], 1),
    OPT("delta_rule.chunk_backward", rule.chunk[1], 1),
    OPT("delta_rule.heads", rule.heads, 1 << 20),
    NUM("head.efficiency", head, 1.5),
    NUM("head.logit_bytes", logit_bytes, 1000),
    SCALED("delayed", SCALING_DELAYED),
    SCALED("tensorwise", SCALING_TENSORWISE),
    SCALED("blockwise", SCALING_BLOCKWISE),
    SCALED("mxfp8", SCALING_MXFP8),
    SCALED("nvfp4", SCALING_NVFP4),
    DISPATCH_RATES(DISPATCHED) OPT("dispatch.start", dispatch_start, 1),
    LAUNCHED("product", LAUNCH_PRODUCT),
    LAUNCHED("grouped", LAUNCH_GROUPED),
    OPT("launches.expert", launches[LAUNCH_EXPERT], 1000),
    OPT("launches.expert_narrow", launches[LAUNCH_EXPERT_NARROW], 1000),
    LAUNCHED("attention", LAUNCH_ATTENTION),
    OPT("launches.delta_rule", launches[LAUNCH_RULE], 1000),
    LAUNCHED("head", LAUNCH_HEAD),
    LAUNCHED("router", LAUNCH_ROUTER),
    LAUNCHED("router_unfused", LAUNCH_ROUTER_UNFUSED),
    LAUNCHED("routing", LAUNCH_ROUTING),
    LAUNCHED("routing_unfused", LAUNCH_ROUTING_UNFUSED),
    LAUNCHED("elementwise", LAUNCH_ELEMENTWISE),
    LAUNCHED("quantise", LAUNCH_QUANTISE),
    LAUNCHED("message", LAUNCH_MESSAGE),
    CALLED("product", CALL_PRODUCT),
    CALLED("grouped", CALL_GROUPED),
    CALLED("expert", CALL_EXPERT),
    CALLED("attention", CALL_ATTENTION),
    CALLED("delta_rule", CALL_RULE),
    CALLED("head", CALL_HEAD),
    CALLED("router", CALL_ROUTER),
    CALLED("routing", CALL_ROUTING),
    CALLED("elementwise", CALL_ELEMENTWISE),
    CALLED("delta_heads", CALL_HEADS),
    CALLED("message", CALL_MESSAGE),
    CALLED("replay", CALL_REPLAY),
    CALLED("node", CALL_NODE),
    OPT("calls.narrow", narrow_calls, 100),
    OPT("calls.unfused", unfused_calls, 100),
    OPT("framework", framework, 1),
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* ---- reading */

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
    for (int i = 0; i < node->n_items; i++) TRY(read_point(r, node->items[i], f, &c));
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
    static const char *const words[] = {"device", "host", "unfused_sinks", "fused_experts",
                                        "fused_biases"};
    enum { WORDS = sizeof words / sizeof words[0] };
    double *at[WORDS] = {&k->device, &k->host, &k->unfused_sinks, &k->fused_experts,
                         &k->fused_biases};
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
    for (int i = 0; i < map->n_items; i++) TRY(read_stack(r, map->items[i]));
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
        TRY(read_node(r, x, arena_text(r->a, "%s.%.60s", path, x->key ? x->key : "")));
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

/* ---- writing */

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

/* Opens the sections of a key that are not open yet (I3), and writes its last word. */
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
    for (int i = 0; i < h->n_stacks; i++) {
        const struct stack *k = &h->stacks[i];
        text_add(&w->t, "  \"%s\": {device: %.6g, host: %.6g", k->name, k->device, k->host);
        if (k->unfused_sinks > 0) text_add(&w->t, ", unfused_sinks: %.6g", k->unfused_sinks);
        if (k->fused_experts > 0) text_add(&w->t, ", fused_experts: %.6g", k->fused_experts);
        if (k->fused_biases > 0) text_add(&w->t, ", fused_biases: %.6g", k->fused_biases);
        text_add(&w->t, "}\n");
    }
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
