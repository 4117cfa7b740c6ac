/* megatron_yaml.c - flags in YAML, as the functional tests of Megatron-LM and the model zoo have
 * them: `--flag: value` under MODEL_ARGS, variables of the environment under ENV_VARS.
 *
 * true is the flag alone, false leaves it out, "[a b c]" and lists are several words, all else is
 * one word. MODEL_ARGS_2 is what a second run takes: --command 2 reads it. */
#include <string.h>

#include "base/yaml.h"
#include "config/megatron_reader.h"

typedef struct source {
    reader *rd;
    shell_set *sets;
    int n_sets;
} source;

static yaml_node *member(const yaml_node *map, const char *key)
{
    for (int i = 0; map->kind == YAML_MAP && i < map->n_items; i++)
        if (text_equal(map->items[i]->key, key)) return map->items[i];
    return NULL;
}

static status fail(const source *in, const yaml_node *n, const char *what)
{
    return error_set(in->rd->err, ERR_INPUT, "%s:%d: %.100s: %s", in->rd->name, n->line,
                     n->key ? n->key : "a list", what);
}

static status expanded(const source *in, const yaml_node *n, char **out)
{
    shell_source from = {.name = in->rd->name,
                         .data = n->text,
                         .n = strlen(n->text),
                         .line = n->line,
                         .sets = in->sets,
                         .n_sets = in->n_sets};
    return shell_text(in->rd->r->a, &from, out, in->rd->err);
}

/* The words between the brackets. */
static void split(arena *a, const char *text, size_t n, int line, shell_words *w)
{
    const char *end = text + n;
    while (text < end) {
        while (text < end && strchr(" \t\n,", *text)) text++;
        const char *p = text;
        while (p < end && !strchr(" \t\n,", *p)) p++;
        if (p > text) shell_push(a, w, arena_copy(a, text, (size_t)(p - text)), line);
        text = p;
    }
}

static status put_scalar(const source *in, const yaml_node *n, shell_words *w)
{
    arena *a = in->rd->r->a;
    char *text;
    TRY(expanded(in, n, &text));
    size_t len = strlen(text);
    if (len >= 2 && strchr("'\"", text[0]) && text[len - 1] == text[0]) { /* a shell's quotes */
        shell_push(a, w, arena_copy(a, text + 1, len - 2), n->line);
        return OK;
    }
    bool list = len >= 2 && text[0] == '[' && strchr(text, ']') == text + len - 1;
    if (list)
        split(a, text + 1, len - 2, n->line, w);
    else
        shell_push(a, w, text, n->line);
    return OK;
}

static status put_flag(const source *in, const yaml_node *n, shell_words *w)
{
    arena *a = in->rd->r->a;
    bool scalar = n->kind == YAML_SCALAR;
    char *text = "";
    if (!n->key || !text_starts(n->key, "--"))
        return fail(in, n, "flags begin with --, as in --num-layers: 4");
    if (n->kind == YAML_MAP) return fail(in, n, "a value or a list is needed");
    status s = scalar ? expanded(in, n, &text) : OK;
    if (s || (scalar && strcmp(text, "false") == 0)) return s;
    shell_push(a, w, arena_copy(a, n->key, strlen(n->key)), n->line);
    bool alone = strcmp(text, "true") == 0 || (!n->quoted && (!*text || strcmp(text, "null") == 0));
    if (scalar) return alone ? OK : put_scalar(in, n, w);
    for (int i = 0; i < n->n_items && !s; i++) {
        if (n->items[i]->kind != YAML_SCALAR)
            return fail(in, n, "a list of plain values is needed");
        s = expanded(in, n->items[i], &text);
        if (!s) shell_push(a, w, text, n->items[i]->line);
    }
    return s;
}

static status take_environment(const source *in, const yaml_node *root)
{
    const yaml_node *env = member(root, "ENV_VARS");
    for (int i = 0; env && env->kind == YAML_MAP && i < env->n_items; i++) {
        const yaml_node *n = env->items[i];
        char *text;
        if (n->kind != YAML_SCALAR) continue;
        status s = expanded(in, n, &text);
        bool taken;
        in->rd->where = arena_text(in->rd->r->a, "%s:%d", in->rd->name, n->line);
        if (!s)
            s = reader_environment(in->rd, arena_text(in->rd->r->a, "%s=%s", n->key, text), &taken);
        if (s) return s;
    }
    return OK;
}

/* What is not training has other flags, and nothing here would be true of it. */
static status check_mode(const source *in, const yaml_node *root)
{
    const yaml_node *mode = member(root, "MODE");
    if (!mode || mode->kind != YAML_SCALAR || text_in("pretraining,training", ',', mode->text))
        return OK;
    return error_set(in->rd->err, ERR_INPUT, "%s:%d: MODE: %.50s: only training is read",
                     in->rd->name, mode->line, mode->text);
}

static status find_flags(const source *in, const yaml_node *root, const char *command,
                         const yaml_node **out)
{
    recipe *r = in->rd->r;
    bool first = !command || strcmp(command, "1") == 0;
    const char *key = first ? "MODEL_ARGS" : arena_text(r->a, "MODEL_ARGS_%.20s", command);
    *out = member(root, key);
    if (!*out)
        return error_set(in->rd->err, ERR_INPUT, "--command %s: %s has no %s", command,
                         in->rd->name, key);
    if ((*out)->kind != YAML_MAP) return fail(in, *out, "flags with values are needed");
    const yaml_node *second = member(root, "MODEL_ARGS_2");
    if (second && !command)
        recipe_note(r, "%s:%d: MODEL_ARGS_2 (the second run) is read with --command 2",
                    in->rd->name, second->line);
    return OK;
}

status megatron_yaml(reader *rd, const char *data, size_t n, shell_set *sets,
                     const megatron_options *o)
{
    source in = {rd, sets, o ? o->n_sets : 0};
    yaml_node *root;
    const yaml_node *flags;
    TRY(yaml_parse(rd->r->a, rd->name, data, n, &root, rd->err));
    TRY(check_mode(&in, root));
    TRY(find_flags(&in, root, o ? o->command : NULL, &flags));
    TRY(take_environment(&in, root));
    shell_words w = {0};
    for (int i = 0; i < flags->n_items; i++) TRY(put_flag(&in, flags->items[i], &w));
    if (w.n > MEGATRON_WORDS_MAX)
        return error_set(rd->err, ERR_INPUT, "%s: more than %d words", rd->name,
                         MEGATRON_WORDS_MAX);
    rd->in_launcher = false;
    return reader_words(rd, &w, 0);
}
