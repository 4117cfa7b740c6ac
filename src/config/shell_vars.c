/* shell_vars.c - a script's variables: what assignments store, and what is no longer known after a
 * branch that may have been taken.
 *
 * I1  What the user gave with --set stays, whatever the script assigns. */
#include "config/shell_walk.h"

#include <stdlib.h>
#include <string.h>

variable *shell_find(const shell *sh, const char *name)
{
    for (int i = 0; i < sh->vars.n; i++)
        if (strcmp(sh->vars.items[i].name, name) == 0) return &sh->vars.items[i];
    return NULL;
}

static variable *touch(shell *sh, const char *name)
{
    variable *v = shell_find(sh, name);
    if (v || sh->vars.n == SHELL_VARIABLES_MAX) return v;
    ARENA_GROW(sh->a, sh->vars.items, sh->vars.n, sh->vars.room);
    v = &sh->vars.items[sh->vars.n++];
    *v = (variable){.name = arena_copy(sh->a, name, strlen(name))};
    return v;
}

void shell_use(shell *sh, const variable *v)
{
    for (int i = 0; v->given && i < sh->n_sets; i++)
        if (strcmp(sh->sets[i].name, v->name) == 0) sh->sets[i].used = true;
}

/* The variable that an assignment changes; NULL: the user gave it (I1). */
static status to_assign(shell *sh, const char *name, variable **v)
{
    *v = touch(sh, name);
    if (!*v)
        return error_set(sh->err, ERR_INPUT, "%s:%d: more than %d variables", sh->name, sh->line,
                         SHELL_VARIABLES_MAX);
    shell_use(sh, *v);
    if ((*v)->given) *v = NULL;
    return OK;
}

status shell_assign(shell *sh, const char *name, const char *text)
{
    variable *v;
    TRY(to_assign(sh, name, &v));
    if (!v) return OK;
    element *e = ARENA_NEW(sh->a, element);
    *e = (element){"0", text, sh->line};
    v->items = e; /* lists are never changed in place: copies of the table share them */
    v->n = v->room = 1;
    v->is_array = false;
    v->set = true;
    return OK;
}

/* The number behind the last key, for A+=(x) and A=(x y). */
static const char *next_key(shell *sh, const variable *v)
{
    long last = v->n ? strtol(v->items[v->n - 1].key, NULL, 10) : -1;
    if (last < -1 || last > 1 << 30) last = v->n - 1;
    return arena_text(sh->a, "%ld", last + 1);
}

static status assign_key(shell *sh, const char *name, const char *key, const char *text,
                         bool append)
{
    variable *v;
    TRY(to_assign(sh, name, &v));
    if (!v) return OK;
    bool behind = !key; /* behind the last: no key can be the same */
    if (behind) key = next_key(sh, v);
    v->set = v->is_array = true;
    for (int i = 0; !behind && i < v->n; i++) {
        if (strcmp(v->items[i].key, key) != 0) continue;
        element *copy = arena_larger(sh->a, v->items, sizeof *v->items * (size_t)v->n,
                                     sizeof *v->items * (size_t)v->n);
        TRY(shell_charge(sh, sizeof *v->items * (size_t)v->n));
        copy[i].text = append ? arena_text(sh->a, "%s%s", copy[i].text, text) : text;
        v->items = copy;
        v->room = v->n;
        return shell_charge(sh, strlen(copy[i].text));
    }
    ARENA_GROW(sh->a, v->items, v->n, v->room);
    v->items[v->n++] = (element){key, text, sh->line};
    return shell_charge(sh, sizeof(element));
}

/* A copy to go back to. Lists that copies share must not grow in the same room: rooms are cut to
 * what is used. */
status shell_set_aside(shell *sh, variables *kept)
{
    *kept = sh->vars;
    for (int i = 0; i < kept->n; i++) kept->items[i].room = kept->items[i].n;
    kept->room = kept->n ? kept->n : 1;
    kept->items = ARENA_ARRAY(sh->a, variable, kept->room);
    if (kept->n) memcpy(kept->items, sh->vars.items, sizeof *kept->items * (size_t)kept->n);
    return shell_charge(sh, sizeof(variable) * (size_t)kept->n / 4);
}

/* ---- what is not known after a branch */

static void forget_name(shell *sh, const char *name, bool adds, const char *cause)
{
    variable *v = touch(sh, name);
    if (!v || v->given) return;
    char *mark = shell_mark(sh->a, cause ? cause : name);
    if (adds && v->is_array)
        assign_key(sh, name, NULL, mark, false);
    else if (adds && v->set)
        shell_assign(sh, name, arena_text(sh->a, "%s%s", v->n ? v->items[0].text : "", mark));
    else
        shell_assign(sh, name, mark);
}

/* X="$X more" adds to X as X+=" more" does. */
static bool refers_to(slice text, slice name)
{
    for (size_t i = 1; i + name.n <= text.n; i++) {
        bool dollar =
            text.s[i - 1] == '$' || (i > 1 && text.s[i - 1] == '{' && text.s[i - 2] == '$');
        if (dollar && memcmp(text.s + i, name.s, name.n) == 0) return true;
    }
    return false;
}

static int forget_command(shell *sh, const node *n, const char *cause)
{
    for (int i = 0; i < n->n_assigns; i++) {
        const assignment *as = &n->assigns[i];
        const char *name = arena_copy(sh->a, as->name.s, as->name.n);
        slice first = as->is_array && as->items.n ? as->items.items[0] : as->value;
        forget_name(sh, name, as->append || as->key.s || refers_to(first, as->name), cause);
    }
    bool reads = shell_is_command(n, "read,mapfile,readarray");
    for (int i = 1; reads && i < n->words.n; i++) {
        slice w = n->words.items[i];
        if (w.n && shell_name_length(w.s, w.s + w.n) == w.n)
            forget_name(sh, arena_copy(sh->a, w.s, w.n), false, NULL);
    }
    return n->n_assigns + reads;
}

int shell_forget(shell *sh, const node *n, const char *cause)
{
    if (!n || sh->depth >= SHELL_DEPTH_MAX) return 0;
    int names = 0;
    sh->depth++;
    if (n->kind == NODE_COMMAND) names = forget_command(sh, n, cause);
    if (n->kind != NODE_FUNCTION && !n->subshell) {
        names += shell_forget(sh, n->a, cause) + shell_forget(sh, n->b, cause) +
                 shell_forget(sh, n->c, cause);
        for (int i = 0; i < n->n_items; i++) names += shell_forget(sh, n->items[i], cause);
    }
    sh->depth--;
    return names;
}

/* ---- assignments */

/* [key]=text as an item of an array. */
static bool keyed(slice item, slice *key, slice *text)
{
    if (item.n < 3 || item.s[0] != '[') return false;
    const char *close = memchr(item.s, ']', item.n);
    if (!close || close + 1 >= item.s + item.n || close[1] != '=') return false;
    *key = (slice){item.s + 1, (size_t)(close - item.s) - 1, item.line};
    *text = (slice){close + 2, (size_t)(item.s + item.n - (close + 2)), item.line};
    return true;
}

/* The items are expanded before anything is assigned: A=("${A[@]}" more). */
static status assign_array(shell *sh, const assignment *as, const char *name)
{
    shell_words keys = {0}, texts = {0};
    for (int i = 0; i < as->items.n; i++) {
        slice key, text;
        char *k = NULL, *t;
        if (!keyed(as->items.items[i], &key, &text)) {
            TRY(shell_expand(sh, as->items.items[i], true, &texts));
            while (keys.n < texts.n) shell_push(sh->a, &keys, NULL, 0);
            continue;
        }
        TRY(shell_expand_one(sh, key, false, &k));
        TRY(shell_expand_one(sh, text, false, &t));
        shell_push(sh->a, &keys, k, key.line);
        shell_push(sh->a, &texts, t, text.line);
    }
    variable *v = touch(sh, name);
    if (v && !v->given && (!as->append || !v->set)) {
        v->items = NULL;
        v->n = v->room = 0;
        v->set = v->is_array = true;
    }
    for (int i = 0; i < texts.n; i++) {
        sh->line = texts.line[i];
        TRY(assign_key(sh, name, keys.text[i], texts.text[i], false));
        shell_push(sh->a, &sh->out->arrays, texts.text[i], texts.line[i]);
    }
    return OK;
}

/* What came from a command alone is known under the variable's name: --set can give it. */
static const char *own_name(shell *sh, const char *name, char *text)
{
    const char *close = strchr(text, SHELL_MARK_END);
    bool command = text[0] == SHELL_MARK && text[1] == '$' && close && !close[1];
    return command ? shell_mark(sh->a, name) : text;
}

/* MODEL_ARGS="--num-layers 32 ...": words in a text, as in an array. */
static void push_listed(shell *sh, const char *name, const char *text)
{
    static const char blanks[] = " \t\r\n\\";
    size_t n = strlen(name);
    const char *p = text + strspn(text, blanks);
    if (strcmp(name, "TOKENIZER_MODEL") == 0) { /* whose vocabulary the list leaves open */
        shell_push(sh->a, &sh->out->arrays, arena_copy(sh->a, "--tokenizer-model", 17), sh->line);
        shell_push(sh->a, &sh->out->arrays, arena_copy(sh->a, text, strlen(text)), sh->line);
    }
    if (n < 5 || strcmp(name + n - 5, "_ARGS") != 0 || !text_starts(p, "--")) return;
    while (*p) {
        size_t len = strcspn(p, blanks);
        shell_push(sh->a, &sh->out->arrays, arena_copy(sh->a, p, len), sh->line);
        p += len;
        p += strspn(p, blanks);
    }
}

status shell_assign_as(shell *sh, const assignment *as)
{
    const char *name = arena_copy(sh->a, as->name.s, as->name.n);
    if (as->is_array) return assign_array(sh, as, name);
    char *text, *key;
    TRY(shell_expand_one(sh, as->value, false, &text));
    if (as->key.s) {
        TRY(shell_expand_one(sh, as->key, false, &key));
        return assign_key(sh, name, key, text, as->append);
    }
    push_listed(sh, name, text);
    const variable *v = shell_find(sh, name);
    if (as->append && v && v->set && v->n) {
        if (v->is_array) return assign_key(sh, name, v->items[0].key, text, true);
        TRY(shell_charge(sh, strlen(v->items[0].text) + strlen(text)));
        return shell_assign(sh, name, arena_text(sh->a, "%s%s", v->items[0].text, text));
    }
    return shell_assign(sh, name, own_name(sh, name, text));
}
