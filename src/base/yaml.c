/* yaml.c - a tree from libfyaml's events.
 *
 * I1  An alias shares the node of its anchor: the tree is a graph without cycles, because an anchor
 *     can be named only after its node is complete.
 * I2  `weight` counts a shared node each time: a reader may walk the tree as if unfolded. */
#include "base/yaml.h"

#include <libfyaml.h>
#include <string.h>

#include "base/caller.h"
#include "base/text.h"

typedef struct anchor {
    const char *name;
    yaml_node *node;
    struct anchor *older;
} anchor;

typedef struct reader {
    arena *a;
    const char *name;
    struct fy_parser *parser;
    struct fy_diag *diag;
    anchor *anchors;
    int depth;
    error *err;
    struct fy_event *open[2 * YAML_DEPTH_MAX + 4]; /* being read, of each level a key and a value */
    int n_open;
} reader;

/* libfyaml reports what it dislikes through its diagnostics, not through the event. */
static status syntax_error(reader *r)
{
    void *at = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(r->diag, &at);
    if (!e) return error_set(r->err, ERR_INPUT, "%s: is not YAML", r->name);
    return error_set(r->err, ERR_INPUT, "%s:%d:%d: %s", r->name, e->line, e->column,
                     e->msg ? e->msg : "is not YAML");
}

static const char *token_text(reader *r, struct fy_token *token)
{
    size_t n = 0;
    const char *s = token ? fy_token_get_text(token, &n) : NULL;
    return s ? arena_copy(r->a, s, n) : "";
}

/* Escapes in quotes can stand for what the file itself may not hold. */
static status check_scalar(reader *r, const yaml_node *node, struct fy_token *token)
{
    size_t n = 0;
    const char *s = token ? fy_token_get_text(token, &n) : NULL;
    for (size_t i = 0, length; s && i < n; i += length) {
        length = text_character(s + i, n - i);
        if (!length)
            return error_set(r->err, ERR_INPUT,
                             "%s:%d:%d: a text holds the control character 0x%02x; leave it out",
                             r->name, node->line, node->column, (unsigned char)s[i]);
    }
    return OK;
}

static yaml_node *node_create(reader *r, struct fy_event *e, yaml_kind kind)
{
    yaml_node *node = ARENA_NEW(r->a, yaml_node);
    const struct fy_mark *mark = fy_event_start_mark(e);
    node->kind = kind;
    node->line = mark ? mark->line + 1 : 1;
    node->column = mark ? mark->column + 1 : 1;
    node->weight = 1;
    return node;
}

static status remember_anchor(reader *r, struct fy_event *e, yaml_node *node)
{
    struct fy_token *token = fy_event_get_anchor_token(e);
    if (!token) return OK;
    anchor *made = ARENA_NEW(r->a, anchor);
    *made = (anchor){token_text(r, token), node, r->anchors};
    r->anchors = made;
    return OK;
}

static status find_alias(reader *r, struct fy_event *e, yaml_node **out)
{
    const char *name = token_text(r, e->alias.anchor);
    const struct fy_mark *mark = fy_event_start_mark(e);
    for (const anchor *a = r->anchors; a; a = a->older)
        if (text_equal(a->name, name)) {
            *out = a->node;
            return OK;
        }
    return error_set(
        r->err, ERR_INPUT,
        "%s:%d:%d: *%s does not name a complete node before it (it is unknown, or inside itself)",
        r->name, mark ? mark->line + 1 : 1, mark ? mark->column + 1 : 1, name);
}

static status read_node(reader *r, struct fy_event *e, yaml_node **out);

static struct fy_event *next_event(reader *r)
{
    struct fy_event *e = fy_parser_parse(r->parser);
    if (e) r->open[r->n_open++] = e;
    return e;
}

static void end_event(reader *r)
{
    fy_parser_event_free(r->parser, r->open[--r->n_open]);
}

static void append(reader *r, yaml_node *parent, yaml_node *child, int *room)
{
    if (parent->n_items == *room) {
        *room = *room ? *room * 2 : 8;
        yaml_node **items = ARENA_ARRAY(r->a, yaml_node *, *room);
        if (parent->n_items) memcpy(items, parent->items, sizeof *items * (size_t)parent->n_items);
        parent->items = items;
    }
    parent->items[parent->n_items++] = child;
    parent->weight += child->weight; /* I2 */
}

/* A map's member is a copy of its node that carries the key: shared nodes stay as they are. */
static status read_member(reader *r, struct fy_event *key_event, yaml_node **out)
{
    yaml_node *key, *value;
    status s = read_node(r, key_event, &key);
    if (s) return s;
    if (key->kind != YAML_SCALAR)
        return error_set(r->err, ERR_INPUT, "%s:%d:%d: a key must be a word", r->name, key->line,
                         key->column);
    struct fy_event *e = next_event(r);
    if (!e) return syntax_error(r);
    s = read_node(r, e, &value);
    end_event(r);
    if (s) return s;
    yaml_node *member = ARENA_NEW(r->a, yaml_node);
    *member = *value;
    member->key = key->text;
    member->line = key->line;
    member->column = key->column;
    *out = member;
    return OK;
}

static status read_items(reader *r, yaml_node *parent, enum fy_event_type end)
{
    int room = 0;
    for (;;) {
        struct fy_event *e = next_event(r);
        if (!e) return syntax_error(r);
        bool done = e->type == end;
        yaml_node *child = NULL;
        status s = OK;
        if (!done)
            s = parent->kind == YAML_MAP ? read_member(r, e, &child) : read_node(r, e, &child);
        end_event(r);
        if (s || done) return s;
        append(r, parent, child, &room);
        if (parent->weight > YAML_NODES_MAX)
            return error_set(r->err, ERR_INPUT, "%s:%d: unfolds to more than %d nodes", r->name,
                             child->line, YAML_NODES_MAX);
    }
}

static status read_collection(reader *r, struct fy_event *e, yaml_kind kind, yaml_node **out)
{
    yaml_node *node = node_create(r, e, kind);
    if (r->depth >= YAML_DEPTH_MAX)
        return error_set(r->err, ERR_INPUT, "%s:%d:%d: nested deeper than %d", r->name, node->line,
                         node->column, YAML_DEPTH_MAX);
    r->depth++;
    status s = read_items(r, node, kind == YAML_MAP ? FYET_MAPPING_END : FYET_SEQUENCE_END);
    r->depth--;
    if (s) return s;
    *out = node;
    return remember_anchor(r, e, node); /* I1: after the end */
}

static status read_node(reader *r, struct fy_event *e, yaml_node **out)
{
    switch (e->type) {
    case FYET_SCALAR:
        *out = node_create(r, e, YAML_SCALAR);
        (*out)->text = token_text(r, e->scalar.value);
        (*out)->quoted = e->scalar.value && fy_token_scalar_style(e->scalar.value) != FYSS_PLAIN;
        TRY(check_scalar(r, *out, e->scalar.value));
        return remember_anchor(r, e, *out);
    case FYET_ALIAS:
        return find_alias(r, e, out);
    case FYET_SEQUENCE_START:
        return read_collection(r, e, YAML_LIST, out);
    case FYET_MAPPING_START:
        return read_collection(r, e, YAML_MAP, out);
    default:
        return error_set(r->err, ERR_INPUT, "%s: is not one YAML document", r->name);
    }
}

static status read_stream(reader *r, yaml_node **root)
{
    int n_documents = 0;
    for (;;) {
        struct fy_event *e = next_event(r);
        if (!e) {
            void *at = NULL;
            return fy_diag_errors_iterate(r->diag, &at) || n_documents == 0 ? syntax_error(r) : OK;
        }
        status s = OK;
        bool end = e->type == FYET_STREAM_END;
        if (e->type == FYET_DOCUMENT_START && n_documents++ > 0)
            s = error_set(r->err, ERR_INPUT,
                          "%s: holds several documents; a recipe is one document", r->name);
        else if (e->type != FYET_STREAM_START && e->type != FYET_DOCUMENT_START &&
                 e->type != FYET_DOCUMENT_END && !end)
            s = read_node(r, e, root);
        end_event(r);
        if (s || end) return s;
    }
}

/* libfyaml loops on some of what is no UTF-8, so it never gets to see any. */
static status check_text(const char *name, const char *data, size_t n, error *err)
{
    int line = 1;
    if (n > 1 && data[0] == '\x1f' && (unsigned char)data[1] == 0x8b)
        return error_set(err, ERR_INPUT,
                         "%s: is a gzip file, not a recipe; `moefold trace A B` reads traces, "
                         "`moefold profile` reads profiles",
                         name);
    for (size_t i = 0; i < n;) {
        size_t length = text_character(data + i, n - i);
        if (!length)
            return error_set(err, ERR_INPUT, "%s:%d: byte 0x%02x is not text (UTF-8 is needed)",
                             name, line, (unsigned char)data[i]);
        line += data[i] == '\n';
        i += length;
    }
    return OK;
}

static void end_reader(void *of)
{
    reader *r = of;
    while (r->n_open) end_event(r);
    fy_parser_destroy(r->parser);
    fy_diag_destroy(r->diag);
}

status yaml_parse(arena *a, const char *name, const char *data, size_t n, yaml_node **root,
                  error *err)
{
    status bad = check_text(name, data, n, err);
    if (bad) return bad;
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.colorize = false;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_2, .diag = diag};
    reader r = {.a = a, .name = name, .diag = diag, .err = err};
    caller_held held;
    r.parser = fy_parser_create(&cfg);
    caller_holds(&held, end_reader, &r);
    yaml_node *tree = NULL;
    status s = ERR_INPUT;
    if (!r.parser || fy_parser_set_string(r.parser, data, n))
        error_set(err, ERR_INPUT, "%s: is not YAML", name);
    else
        s = n ? read_stream(&r, &tree) : OK;
    caller_drops(&held);
    end_reader(&r);
    if (s) return s;
    if (!tree) {
        tree = ARENA_NEW(a, yaml_node);
        *tree = (yaml_node){.kind = YAML_MAP, .line = 1, .column = 1, .weight = 1};
    }
    *root = tree;
    return OK;
}
