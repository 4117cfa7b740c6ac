/* shell_call.c - simple commands: assignments, what the shell itself knows, functions; all else is
 * kept as a command that the script would run. */
#include "config/shell_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

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
    status s = OK;
    for (int i = 0; i < as->items.n && !s; i++) {
        slice key, text;
        char *k = NULL, *t;
        if (!keyed(as->items.items[i], &key, &text)) {
            s = shell_expand(sh, as->items.items[i], true, &texts);
            while (keys.n < texts.n) shell_push(sh->a, &keys, NULL, 0);
            continue;
        }
        s = shell_expand_one(sh, key, false, &k);
        if (!s) s = shell_expand_one(sh, text, false, &t);
        if (s) return s;
        shell_push(sh->a, &keys, k, key.line);
        shell_push(sh->a, &texts, t, text.line);
    }
    variable *v = shell_touch(sh, name);
    if (!s && v && !v->given && (!as->append || !v->set)) {
        v->items = NULL;
        v->n = v->room = 0;
        v->set = v->is_array = true;
    }
    for (int i = 0; i < texts.n && !s; i++) {
        sh->line = texts.line[i];
        s = shell_assign_key(sh, name, keys.text[i], texts.text[i], false);
        shell_push(sh->a, &sh->out->arrays, texts.text[i], texts.line[i]);
    }
    return s;
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

static status assign(shell *sh, const assignment *as)
{
    const char *name = arena_copy(sh->a, as->name.s, as->name.n);
    if (as->is_array) return assign_array(sh, as, name);
    char *text, *key;
    status s = shell_expand_one(sh, as->value, false, &text);
    if (s) return s;
    if (as->key.s) {
        s = shell_expand_one(sh, as->key, false, &key);
        return s ? s : shell_assign_key(sh, name, key, text, as->append);
    }
    push_listed(sh, name, text);
    const variable *v = shell_find(sh, name);
    if (as->append && v && v->set && v->n) {
        if (v->is_array) return shell_assign_key(sh, name, v->items[0].key, text, true);
        s = shell_charge(sh, strlen(v->items[0].text) + strlen(text));
        return s ? s : shell_assign(sh, name, arena_text(sh->a, "%s%s", v->items[0].text, text));
    }
    return shell_assign(sh, name, own_name(sh, name, text));
}

static status assign_all(shell *sh, const node *n, bool exported)
{
    for (int i = 0; i < n->n_assigns; i++) {
        status s = assign(sh, &n->assigns[i]);
        if (s) return s;
        const slice *as = &n->assigns[i].name;
        variable *v = shell_find(sh, arena_copy(sh->a, as->s, as->n));
        if (v) v->exported |= exported;
    }
    return OK;
}

/* ---- what the shell itself knows */

static status call_exit(shell *sh)
{
    sh->stop = true;
    return OK;
}

static status call_eval(shell *sh, const shell_words *w)
{
    textbuf t = text_init(sh->a);
    for (int i = 1; i < w->n; i++) text_add(&t, "%s%s", i > 1 ? " " : "", w->text[i]);
    status s = shell_charge(sh, t.n);
    return s ? s : shell_run_text(sh, t.s, t.n, w->line[0]);
}

static void call_shift(shell *sh, const shell_words *w)
{
    if (!sh->arguments) return;
    int n = w->n > 1 ? atoi(w->text[1]) : 1;
    if (n < 0 || n > sh->arguments->n) n = sh->arguments->n;
    sh->arguments->text += n;
    sh->arguments->line += n;
    sh->arguments->n -= n;
    sh->arguments->room = sh->arguments->n;
}

static void call_unset(shell *sh, const shell_words *w)
{
    for (int i = 1; i < w->n; i++) {
        variable *v = shell_find(sh, w->text[i]);
        if (v && !v->given) *v = (variable){.name = v->name};
    }
}

static void call_export(shell *sh, const shell_words *w)
{
    for (int i = 1; i < w->n; i++) {
        variable *v = shell_find(sh, w->text[i]);
        if (v) v->exported = true;
    }
}

/* Bytes that stand for something else here cannot come from a file. */
static status check_bytes(const char *name, const char *data, size_t n, error *err)
{
    int line = 1;
    for (size_t i = 0; i < n; i++) {
        if (data[i] == 0 || data[i] == SHELL_MARK || data[i] == SHELL_MARK_END)
            return error_set(err, ERR_INPUT, "%s:%d: a byte %d is not text", name, line, data[i]);
        line += data[i] == '\n';
    }
    return OK;
}

/* Only blank lines, comments and NAME=value, with `export` before it or without. */
static bool only_assigns(const char *text)
{
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        p += strspn(p, " \t\r");
        if (!*p || *p == '\n' || *p == '#') continue;
        if (text_starts(p, "export ")) p += strlen("export ");
        size_t name = shell_name_length(p, p + strlen(p));
        if (!name || p[name] != '=') return false;
    }
    return true;
}

/* The file that is sourced, where it lies beside the script: ./env.sh, or env.sh behind a folder
 * that is only known where the script runs ($(dirname "$0")/env.sh). NULL: another one. */
static const char *file_beside(shell *sh, const char *word)
{
    const char *end = strrchr(word, SHELL_MARK_END), *slash = strrchr(word, '/');
    if (!sh->folder || *word == '/') return NULL;
    if (end && (*word != SHELL_MARK || slash != end + 1)) return NULL;
    if (end) word = slash + 1;
    if (text_starts(word, "./")) word += 2;
    const char *path = arena_text(sh->a, "%s%s", sh->folder, word);
    return strstr(word, "..") || !file_exists(path) ? NULL : path;
}

static status call_source(shell *sh, const node *n, const shell_words *w)
{
    char *text = NULL;
    size_t length = 0;
    error ignored = {{0}};
    const char *path = w->n == 2 ? file_beside(sh, w->text[1]) : NULL;
    bool read = path && !file_read(sh->a, path, SHELL_VALUE_MAX, &text, &length, &ignored) &&
                strlen(text) == length && only_assigns(text) &&
                !check_bytes(path, text, length, &ignored);
    shell_note(sh, "%s:%d: %.200s is sourced there; %s", sh->name, n->line,
               path       ? path
               : w->n > 1 ? shell_plain(sh->a, w->text[1])
                          : "a file",
               read ? "its assignments are read" : "it is not read");
    return read ? shell_run_text(sh, text, length, n->line) : OK;
}

/* Commands of the shell: whether it was one, and what it answers. */
static status call_builtin(shell *sh, const node *n, const shell_words *w, truth *out, bool *taken)
{
    const char *name = w->text[0];
    *taken = true;
    if (strcmp(name, "[") == 0)
        return shell_test_fields(sh, &(shell_words){w->text + 1, w->line + 1, w->n - 1, 0},
                                 w->n - 1 - (strcmp(w->text[w->n - 1], "]") == 0), out);
    if (strcmp(name, "test") == 0)
        return shell_test_fields(sh, &(shell_words){w->text + 1, w->line + 1, w->n - 1, 0},
                                 w->n - 1, out);
    if (strcmp(name, "exit") == 0) return call_exit(sh);
    if (strcmp(name, "eval") == 0) return call_eval(sh, w);
    if (strcmp(name, "source") == 0 || strcmp(name, ".") == 0) return call_source(sh, n, w);
    if (strcmp(name, "return") == 0)
        sh->leave_function = true;
    else if (strcmp(name, "break") == 0)
        sh->leave_loop = true;
    else if (strcmp(name, "continue") == 0)
        sh->next_loop = true;
    else if (strcmp(name, "shift") == 0)
        call_shift(sh, w);
    else if (strcmp(name, "unset") == 0)
        call_unset(sh, w);
    else if (text_in("export,declare,local,readonly,typeset", ',', name))
        call_export(sh, w);
    else if (text_in("false,getopts", ',', name))
        *out = NO;
    else if (text_in("read,mapfile,readarray", ',', name)) {
        shell_forget(sh, n, NULL);
        *out = MAYBE;
    } else if (!text_in("true,:,set,cd,echo,printf,wait,trap,shopt,ulimit,umask,sleep,mkdir", ',',
                        name))
        *taken = false;
    return OK;
}

static status call_function(shell *sh, const shell_words *w, truth *out, bool *taken)
{
    for (int i = 0; i < sh->n_functions; i++) {
        const function *f = &sh->functions[i];
        if (!shell_slice_is(f->name, w->text[0])) continue;
        *taken = true;
        shell_words *before = sh->arguments;
        shell_words args = {w->text + 1, w->line + 1, w->n - 1, w->n - 1};
        sh->arguments = &args;
        status s = shell_run(sh, f->body, out);
        sh->arguments = before;
        sh->leave_function = false;
        return s;
    }
    return OK;
}

/* ---- other programs */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* bash -c TEXT, also after srun and the like: the text is a script. */
static status call_shell(shell *sh, const shell_words *w, bool *taken)
{
    for (int i = 0; i + 2 < w->n; i++) {
        if (!text_in("bash,sh,zsh", ',', base_name(w->text[i]))) continue;
        for (int j = i + 1; j + 1 < w->n && w->text[j][0] == '-'; j++) {
            const char *c = strchr(w->text[j], 'c');
            if (!c || c[1] || w->text[j][1] == '-') continue;
            *taken = true;
            const char *text = w->text[j + 1];
            const shell_words *before = sh->prefix, prefix = {w->text, w->line, i, i};
            if (i) sh->prefix = &prefix;
            status s = shell_run_text(sh, text, strlen(text), w->line[j + 1]);
            sh->prefix = before;
            return s;
        }
    }
    return OK;
}

/* ssh HOST "torchrun ... pretrain_gpt.py ...": one word is the command. */
static status call_remote(shell *sh, const shell_words *w, bool *taken)
{
    if (!text_in("ssh,pdsh,clush,pssh,parallel-ssh", ',', base_name(w->text[0]))) return OK;
    const char *text = w->text[w->n - 1];
    if (!strchr(text, ' ') || !strstr(text, ".py")) return OK;
    *taken = true;
    return shell_run_text(sh, text, strlen(text), w->line[w->n - 1]);
}

static status keep(shell *sh, const node *n, const shell_words *w)
{
    shell_result *out = sh->out;
    if (out->n_commands == SHELL_COMMANDS_MAX)
        return shell_fail(sh, n->line, "too many commands to be read");
    ARENA_GROW(sh->a, out->commands, out->n_commands, out->room);
    shell_command *c = &out->commands[out->n_commands++];
    *c = (shell_command){.line = n->line};
    status st = shell_charge(sh, sizeof(char *) * (size_t)w->n);
    if (st) return st;
    for (int i = 0; sh->prefix && i < sh->prefix->n; i++)
        shell_push(sh->a, &c->words, sh->prefix->text[i], sh->prefix->line[i]);
    for (int i = 0; i < w->n; i++) shell_push(sh->a, &c->words, w->text[i], w->line[i]);
    for (int i = 0; i < sh->vars.n; i++) {
        const variable *v = &sh->vars.items[i];
        if (!v->exported || !v->set || v->is_array || !v->n) continue;
        status s = shell_charge(sh, strlen(v->name) + strlen(v->items[0].text));
        if (s) return s;
        shell_push(sh->a, &c->environment, arena_text(sh->a, "%s=%s", v->name, v->items[0].text),
                   n->line);
    }
    for (int i = 0; i < n->n_assigns; i++) {
        const assignment *as = &n->assigns[i];
        char *text;
        if (as->is_array) continue;
        status s = shell_expand_one(sh, as->value, false, &text);
        if (s) return s;
        shell_push(sh->a, &c->environment,
                   arena_text(sh->a, "%.*s=%s", (int)as->name.n, as->name.s, text), n->line);
    }
    return OK;
}

/* A document that a program gets, or that is written to a file, may be a script of its own; one
 * that is only shown is for people. */
static status run_documents(shell *sh, const node *n, const shell_words *w)
{
    bool shown = w->n && text_in("cat,echo", ',', w->text[0]) && !n->writes;
    for (int i = 0; i < n->n_docs && !shown; i++) {
        const here_doc *d = &n->docs[i];
        char *text = arena_copy(sh->a, d->body.s, d->body.n);
        status s = d->literal ? OK : shell_expand_text(sh, d->body, &text);
        if (s) return s;
        if (!strstr(text, ".py") && !strstr(text, "python")) continue;
        variables kept = shell_copy_variables(sh);
        s = shell_run_text(sh, text, strlen(text), d->body.line);
        sh->vars = kept;
        sh->stop = false;
        if (s && sh->maybe == 0 && strstr(text, "#!")) return s;
        sh->err->text[0] = 0; /* no script: a text for people */
    }
    return OK;
}

static status call(shell *sh, const node *n, const shell_words *w, truth *out)
{
    bool taken = false;
    status s = call_builtin(sh, n, w, out, &taken);
    if (!s && !taken) s = call_function(sh, w, out, &taken);
    if (!s && !taken) s = call_shell(sh, w, &taken);
    if (!s && !taken) s = call_remote(sh, w, &taken);
    if (!s && !taken) s = keep(sh, n, w);
    return s;
}

status shell_run_command(shell *sh, const node *n, truth *out)
{
    shell_words w = {0};
    status s = OK;
    for (int i = 0; i < n->words.n && !s; i++) s = shell_expand(sh, n->words.items[i], true, &w);
    if (s) return s;
    *out = YES;
    bool declares = w.n && text_in("export,declare,local,readonly,typeset", ',', w.text[0]);
    if (w.n == 0 || declares)
        s = assign_all(sh, n,
                       declares && (strcmp(w.text[0], "export") == 0 ||
                                    (w.n > 1 && strcmp(w.text[1], "-x") == 0)));
    if (!s && w.n) s = call(sh, n, &w, out);
    return s || !n->n_docs ? s : run_documents(sh, n, &w);
}

/* Marks of names are read as letters, so what ends a word there (a name that was made of a value
 * may hold blanks and quotes) becomes '_'; those of commands become commands again, which hold
 * blanks and quotes. */
static const char *readable_again(shell *sh, const char *text, size_t n)
{
    textbuf t = text_init(sh->a);
    bool command = false, name = false;
    for (size_t i = 0; i < n; i++) {
        bool opens = text[i] == SHELL_MARK, closes = text[i] == SHELL_MARK_END;
        command |= opens && i + 1 < n && text[i + 1] == '$';
        name &= !closes;
        bool ends = name && strchr(" \t\r\n'\"\\`$;&|<>(){}[]", text[i]);
        if (!command || !(opens || closes)) text_put(&t, ends ? "_" : text + i, 1);
        name |= opens && !command;
        command &= !closes;
    }
    return t.s;
}

status shell_run_text(shell *sh, const char *text, size_t n, int line)
{
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, line, "nested too deeply");
    node *tree;
    status s = shell_charge(sh, n);
    text = readable_again(sh, text, n);
    n = strlen(text);
    shell_source from = {.name = sh->name, .data = text, .n = n, .line = line};
    if (!s) s = shell_parse(sh->a, &from, &tree, sh->err);
    truth t;
    if (!s) s = shell_run(sh, tree, &t);
    sh->depth--;
    return s;
}

/* ---- from outside */

static status begin(shell *sh, const shell_source *from)
{
    status bytes = check_bytes(from->name, from->data, from->n, sh->err);
    if (bytes) return bytes;
    for (int i = 0; i < from->n_known; i++) {
        status s = shell_assign(sh, from->known[i].name, from->known[i].value);
        if (s) return s;
    }
    for (int i = 0; i < sh->n_sets; i++) {
        status s = check_bytes("--set", sh->sets[i].value, strlen(sh->sets[i].value), sh->err);
        if (!s) s = shell_assign(sh, sh->sets[i].name, sh->sets[i].value);
        if (s) return s;
        shell_find(sh, sh->sets[i].name)->given = true;
    }
    return OK;
}

static shell shell_of(arena *a, const shell_source *from, shell_result *out, error *err)
{
    return (shell){.a = a,
                   .name = from->name,
                   .folder = from->folder,
                   .err = err,
                   .sets = from->sets,
                   .n_sets = from->n_sets,
                   .out = out};
}

status shell_read(arena *a, const shell_source *from, shell_result *out, error *err)
{
    *out = (shell_result){0};
    shell sh = shell_of(a, from, out, err);
    shell_source whole = *from;
    node *tree;
    truth t;
    status s = begin(&sh, from);
    whole.data = arena_copy(a, from->data, from->n); /* ends with a 0 */
    if (!s) s = shell_parse(a, &whole, &tree, err);
    return s ? s : shell_run(&sh, tree, &t);
}

status shell_list(arena *a, const shell_source *from, int max, shell_words *out, error *err)
{
    shell_result result = {0};
    shell sh = shell_of(a, from, &result, err);
    const char *p = arena_copy(a, from->data, from->n), *end = p + from->n;
    int line = from->line;
    *out = (shell_words){0};
    status s = begin(&sh, from);
    while (!s && p < end) {
        bool skip = strchr(" \t\r\n\v\f", *p) || (*p == '\\' && p + 1 < end && p[1] == '\n') ||
                    (*p == '\\' && p + 2 < end && p[1] == '\r' && p[2] == '\n');
        if (skip) {
            line += *p++ == '\n';
            continue;
        }
        if (*p == '#') {
            while (p < end && *p != '\n') p++;
            continue;
        }
        size_t len;
        shell_source rest = {.name = from->name, .data = p, .n = (size_t)(end - p), .line = line};
        s = shell_word_end(&rest, true, &len, err);
        sh.line = line;
        if (!s) s = shell_expand(&sh, (slice){p, len, line}, true, out);
        for (size_t i = 0; !s && i < len; i++) line += p[i] == '\n';
        p += s ? 0 : len;
        if (!s && out->n > max)
            s = error_set(err, ERR_INPUT, "%s:%d: more than %d words", from->name, line, max);
    }
    return s;
}

status shell_text(arena *a, const shell_source *from, char **out, error *err)
{
    shell_result result = {0};
    shell sh = shell_of(a, from, &result, err);
    status s = begin(&sh, from);
    return s ? s : shell_expand_text(&sh, (slice){from->data, from->n, from->line}, out);
}
