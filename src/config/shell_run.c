/* shell_run.c - the walk through a script's tree: commands, branches and loops.
 *
 * I1  A branch whose test is MAYBE is walked with the variables set aside: its commands are kept,
 *     and what it assigns is not known afterwards.
 * I2  A branch that ends the script is not taken on an assumption (sh->assumed): launch scripts
 *     check so that their arguments were given.
 * I3  A failure leaves the walk where it stood: who goes on nevertheless (run_documents) takes all
 *     of it back. */
#include "config/shell_walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static status run(shell *sh, const node *n, truth *out);
static status run_text(shell *sh, const char *text, size_t n, int line);

/* ---- limits and notes */

status shell_fail(shell *sh, int line, const char *what)
{
    return error_set(sh->err, ERR_INPUT, "%s:%d: %s", sh->name, line, what);
}

status shell_charge(shell *sh, size_t bytes)
{
    sh->bytes += bytes;
    if (bytes <= SHELL_VALUE_MAX && sh->bytes <= SHELL_TOTAL_MAX) return OK;
    return shell_fail(sh, sh->line, "the script's words become too long to be read");
}

status shell_charge_search(shell *sh, const char *text, const char *pattern)
{
    return shell_charge(sh, strlen(text) * strlen(pattern) / 16);
}

void shell_note(shell *sh, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    shell_result *out = sh->out;
    char *plain = shell_plain(sh->a, text);
    for (int i = 0; i < out->n_notes; i++)
        if (strcmp(out->notes[i], plain) == 0) return;
    if (out->n_notes == SHELL_NOTES_MAX) return;
    ARENA_GROW(sh->a, out->notes, out->n_notes, out->notes_room);
    out->notes[out->n_notes++] = plain;
}

/* ---- what the shell itself knows */

static status call_eval(shell *sh, const shell_words *w)
{
    textbuf t = text_init(sh->a);
    for (int i = 1; i < w->n; i++) text_add(&t, "%s%s", i > 1 ? " " : "", w->text[i]);
    TRY(shell_charge(sh, t.n));
    return run_text(sh, t.s, t.n, w->line[0]);
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
    return read ? run_text(sh, text, length, n->line) : OK;
}

/* Commands of the shell: whether it was one, and what it answers. */
static status call_builtin(shell *sh, const node *n, const shell_words *w, truth *out, bool *taken)
{
    const char *name = w->text[0];
    const bool bracket = strcmp(name, "[") == 0;
    *taken = true;
    if (bracket || strcmp(name, "test") == 0)
        return shell_test_fields(sh, &(shell_words){w->text + 1, w->line + 1, w->n - 1, 0},
                                 w->n - 1 - (bracket && strcmp(w->text[w->n - 1], "]") == 0), out);
    if (strcmp(name, "eval") == 0) return call_eval(sh, w);
    if (strcmp(name, "source") == 0 || strcmp(name, ".") == 0) return call_source(sh, n, w);
    if (strcmp(name, "exit") == 0)
        sh->stop = true;
    else if (strcmp(name, "return") == 0)
        sh->leave_function = true;
    else if (strcmp(name, "break") == 0)
        sh->leave_loop = true;
    else if (strcmp(name, "continue") == 0)
        sh->next_loop = true;
    else if (strcmp(name, "shift") == 0)
        call_shift(sh, w);
    else if (text_in("false,getopts", ',', name))
        *out = NO;
    else if (text_in("unset," SHELL_DECLARES, ',', name)) {
        for (int i = 1; i < w->n; i++) {
            variable *v = shell_find(sh, w->text[i]);
            if (!v) continue;
            if (*name != 'u')
                v->exported = true;
            else if (!v->given) /* shell_vars.c, I1 */
                *v = (variable){.name = v->name};
        }
    } else if (text_in("read,mapfile,readarray", ',', name)) {
        shell_forget(sh, n, NULL);
        *out = MAYBE;
    } else if (!text_in("true,:,set,cd,echo,printf,wait,trap,shopt,ulimit,umask,sleep,mkdir", ',',
                        name))
        *taken = false;
    return OK;
}

static function *find_function(shell *sh, const char *name)
{
    for (int i = 0; i < sh->n_functions; i++)
        if (strcmp(sh->functions[i].name, name) == 0) return &sh->functions[i];
    return NULL;
}

static status call_function(shell *sh, const function *f, const shell_words *w, truth *out)
{
    shell_words *before = sh->arguments;
    shell_words args = {w->text + 1, w->line + 1, w->n - 1, w->n - 1};
    sh->arguments = &args;
    status s = run(sh, f->body, out);
    sh->arguments = before;
    sh->leave_function = false;
    return s;
}

/* ---- other programs */

const char *shell_program(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash ? slash + 1 : word;
}

/* The word that is a script of its own, or 0: bash -c TEXT, also after srun and the like (*prefix
 * words), or ssh HOST "torchrun ... pretrain_gpt.py ...". */
static int script_word(const shell_words *w, int *prefix)
{
    *prefix = 0;
    for (int i = 0; i + 2 < w->n; i++) {
        if (!text_in("bash,sh,zsh", ',', shell_program(w->text[i]))) continue;
        for (int j = i + 1; j + 1 < w->n && w->text[j][0] == '-'; j++) {
            const char *c = strchr(w->text[j], 'c');
            if (!c || c[1] || w->text[j][1] == '-') continue;
            *prefix = i;
            return j + 1;
        }
    }
    const char *last = w->text[w->n - 1];
    bool remote = text_in("ssh,pdsh,clush,pssh,parallel-ssh", ',', shell_program(w->text[0]));
    return remote && strchr(last, ' ') && strstr(last, ".py") ? w->n - 1 : 0;
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
        if (!d->literal) TRY(shell_expand_text(sh, d->body, &text));
        if (!strstr(text, ".py") && !strstr(text, "python")) continue;
        variables kept;
        TRY(shell_set_aside(sh, &kept));
        const shell before = *sh;
        status s = run_text(sh, text, strlen(text), d->body.line);
        if (s && before.maybe == 0 && strstr(text, "#!")) return s;
        if (s) { /* no script: a text for people, which took time alone */
            const shell failed = *sh;
            *sh = before;
            sh->bytes = failed.bytes;
            sh->steps = failed.steps;
            sh->err->text[0] = 0;
        }
        sh->vars = kept;
        sh->stop = false;
    }
    return OK;
}

static status call(shell *sh, const node *n, const shell_words *w, truth *out)
{
    bool taken;
    int n_prefix;
    status s = call_builtin(sh, n, w, out, &taken);
    if (s || taken) return s;
    const function *f = find_function(sh, w->text[0]);
    if (f) return call_function(sh, f, w, out);
    int script = script_word(w, &n_prefix);
    if (!script) return keep(sh, n, w);
    const shell_words *before = sh->prefix, prefix = {w->text, w->line, n_prefix, n_prefix};
    if (n_prefix) sh->prefix = &prefix;
    s = run_text(sh, w->text[script], strlen(w->text[script]), w->line[script]);
    sh->prefix = before;
    return s;
}

static status run_command(shell *sh, const node *n, truth *out)
{
    shell_words w = {0};
    status s = OK;
    for (int i = 0; i < n->words.n && !s; i++) s = shell_expand(sh, n->words.items[i], true, &w);
    if (s) return s;
    *out = YES;
    bool declares = w.n && text_in(SHELL_DECLARES, ',', w.text[0]);
    bool exports =
        declares && (strcmp(w.text[0], "export") == 0 || (w.n > 1 && strcmp(w.text[1], "-x") == 0));
    for (int i = 0; i < n->n_assigns && (!w.n || declares) && !s; i++) {
        const assignment *as = &n->assigns[i];
        s = shell_assign_as(sh, as);
        variable *v = s ? NULL : shell_find(sh, arena_copy(sh->a, as->name.s, as->name.n));
        if (v) v->exported |= exports;
    }
    if (!s && w.n) s = call(sh, n, &w, out);
    return s || !n->n_docs ? s : run_documents(sh, n, &w);
}

/* ==== the walk */

static bool leaving(const shell *sh)
{
    return sh->stop || sh->leave_function || sh->leave_loop || sh->next_loop;
}

/* Runs a branch that may or may not be taken: its commands are kept, what it assigns is not. */
static status run_maybe(shell *sh, const node *branch)
{
    if (!branch) return OK;
    variables kept;
    truth t;
    TRY(shell_set_aside(sh, &kept));
    sh->maybe++;
    TRY(run(sh, branch, &t));
    sh->maybe--;
    sh->vars = kept;
    sh->stop = sh->leave_function = sh->leave_loop = sh->next_loop = false;
    return OK;
}

/* ---- branches */

/* Does the branch end the script, or the function, in its own list? */
static bool leaves(const node *n)
{
    for (int i = 0; n && n->kind == NODE_LIST && i < n->n_items; i++)
        if (shell_is_command(n->items[i], "exit,return")) return true;
    return false;
}

/* Evaluates a test; *cause is what it depends on, or NULL. */
static status decide(shell *sh, const node *test, truth *t, const char **cause)
{
    const char *assumed = sh->assumed, *before = sh->cause;
    sh->assumed = sh->cause = NULL;
    TRY(run(sh, test, t));
    const char *now = sh->assumed;
    *cause = *t != MAYBE && now ? now : sh->cause;
    sh->assumed = now ? now : assumed;
    sh->cause = before;
    return OK;
}

static void say_maybe(shell *sh, const node *n, const char *cause)
{
    if (cause)
        shell_note(sh,
                   "%s:%d: this test depends on %s, which is not known here (--set %s=value "
                   "decides it)",
                   sh->name, n->line, cause, cause);
    else
        shell_note(sh,
                   "%s:%d: this test cannot be decided here (files are not read): whatever depends "
                   "on it is unknown",
                   sh->name, n->line);
}

static void say_assumed(shell *sh, const node *n, const char *name)
{
    if (!*name) return;
    if (strcmp(name, "#") == 0)
        shell_note(sh, "%s:%d: the script's own arguments are not known: none are assumed",
                   sh->name, n->line);
    else
        shell_note(sh, "%s:%d: %s is not set here and taken as empty (--set %s=value)", sh->name,
                   n->line, name, name);
}

static status run_if(shell *sh, const node *n, truth *out)
{
    truth t;
    const char *cause, *before = sh->assumed;
    sh->assumed = NULL;
    TRY(decide(sh, n->a, &t, &cause));
    bool assumed = sh->assumed != NULL && t != MAYBE;
    sh->assumed = before;
    *out = YES;
    if (leaving(sh)) return OK;
    const node *branch = t == YES ? n->b : n->c;
    if (t != MAYBE && !(assumed && leaves(branch))) { /* I2 */
        if (assumed) say_assumed(sh, n, cause);
        return branch ? run(sh, branch, out) : OK;
    }
    TRY(run_maybe(sh, n->b));
    TRY(run_maybe(sh, n->c));
    if (t != MAYBE) return OK;
    if (shell_forget(sh, n->b, cause) + shell_forget(sh, n->c, cause)) /* I1 */
        say_maybe(sh, n, cause);
    return OK;
}

static status run_case(shell *sh, const node *n, truth *out)
{
    char *word;
    *out = YES;
    TRY(shell_expand_one(sh, n->words.items[0], false, &word));
    const char *p = word, *cause = shell_next_mark(sh->a, &p);
    for (int i = 0; i < n->n_items; i++) {
        const node *arm = n->items[i];
        for (int j = 0; j < arm->words.n && !cause; j++) {
            char *pattern;
            TRY(shell_expand_one(sh, arm->words.items[j], true, &pattern));
            TRY(shell_charge_search(sh, word, pattern));
            if (shell_match(pattern, word)) return run(sh, arm->b, out);
        }
        if (cause) TRY(run_maybe(sh, arm->b));
    }
    int names = 0;
    for (int i = 0; i < n->n_items && cause; i++) names += shell_forget(sh, n->items[i]->b, cause);
    if (names) say_maybe(sh, n, cause);
    return OK;
}

/* && and ||: the left side decides; what is no test is taken to succeed. */
static status run_both(shell *sh, const node *n, truth *out)
{
    const char *cause;
    TRY(decide(sh, n->a, out, &cause));
    if (leaving(sh)) return OK;
    bool skip = n->kind == NODE_AND ? *out == NO : *out == YES;
    if (skip) return OK;
    if (*out != MAYBE) return run(sh, n->b, out);
    if (!sh->cause) sh->cause = cause;
    truth right;
    if (n->b->kind == NODE_TEST || n->b->kind == NODE_ARITH || shell_is_command(n->b, "[")) {
        TRY(run(sh, n->b, &right));
        if (n->kind == NODE_AND && right == NO) *out = NO;
        if (n->kind == NODE_OR && right == YES) *out = YES;
        return OK;
    }
    TRY(run_maybe(sh, n->b));
    shell_forget(sh, n->b, cause);
    return OK;
}

/* ---- loops */

/* Runs a body once; does the loop go on? */
static status once(shell *sh, const node *body, bool *on)
{
    truth t;
    TRY(run(sh, body, &t));
    *on = !sh->stop && !sh->leave_function && !sh->leave_loop;
    sh->next_loop = false;
    return OK;
}

static status run_for(shell *sh, const node *n)
{
    shell_words list = {0};
    bool on = true;
    static const slice own = {"\"$@\"", 4, 0};
    if (n->in_args) TRY(shell_expand(sh, (slice){own.s, own.n, n->line}, true, &list));
    for (int i = 0; i < n->words.n; i++) TRY(shell_expand(sh, n->words.items[i], true, &list));
    const char *name = arena_copy(sh->a, n->name.s, n->name.n);
    for (int i = 0; i < list.n && on; i++) {
        TRY(shell_assign(sh, name, list.text[i]));
        TRY(once(sh, n->b, &on));
    }
    sh->leave_loop = false;
    return OK;
}

static status run_while(shell *sh, const node *n)
{
    for (bool on = true; on;) {
        truth t;
        const char *cause;
        TRY(decide(sh, n->a, &t, &cause));
        if (leaving(sh)) break;
        if (n->kind == NODE_UNTIL && t != MAYBE) t = !t;
        if (t == NO && cause) say_assumed(sh, n, cause);
        if (t == MAYBE) {
            TRY(run_maybe(sh, n->b));
            shell_forget(sh, n->b, cause);
            break;
        }
        if (t == NO) break;
        TRY(once(sh, n->b, &on));
    }
    sh->leave_loop = false;
    return OK;
}

static status run_loop(shell *sh, const node *n)
{
    char *text;
    TRY(shell_arithmetic(sh, n->words.items[0], &text));
    for (bool on = true;;) {
        TRY(shell_arithmetic(sh, n->words.items[1], &text));
        if ((strcmp(text, "0") == 0 && n->words.items[1].n) || shell_has_mark(text)) break;
        if (++sh->steps > SHELL_STEPS_MAX) return shell_fail(sh, n->line, "a loop without an end");
        TRY(once(sh, n->b, &on));
        if (!on) break;
        TRY(shell_arithmetic(sh, n->words.items[2], &text));
    }
    sh->leave_loop = false;
    return OK;
}

/* ---- everything */

static status define(shell *sh, const node *n)
{
    const char *name = arena_copy(sh->a, n->name.s, n->name.n);
    function *f = find_function(sh, name);
    if (!f && sh->n_functions == SHELL_VARIABLES_MAX)
        return shell_fail(sh, n->line, "too many functions");
    if (!f) {
        ARENA_GROW(sh->a, sh->functions, sh->n_functions, sh->functions_room);
        f = &sh->functions[sh->n_functions++];
    }
    *f = (function){name, n->b};
    return OK;
}

static status run_group(shell *sh, const node *n, truth *out)
{
    if (!n->subshell) return run(sh, n->b, out);
    variables kept;
    TRY(shell_set_aside(sh, &kept));
    TRY(run(sh, n->b, out));
    sh->vars = kept;
    sh->stop = false;
    return OK;
}

static status run_arithmetic(shell *sh, const node *n, truth *out)
{
    char *text;
    TRY(shell_arithmetic(sh, n->words.items[0], &text));
    *out = shell_has_mark(text) ? MAYBE : strcmp(text, "0") != 0;
    if (*out == MAYBE) shell_depends(sh, text);
    return OK;
}

static status run_kind(shell *sh, const node *n, truth *out)
{
    status s = OK;
    switch (n->kind) {
    case NODE_COMMAND:
        return run_command(sh, n, out);
    case NODE_LIST:
        for (int i = 0; i < n->n_items && !s && !leaving(sh); i++) s = run(sh, n->items[i], out);
        return s;
    case NODE_AND:
    case NODE_OR:
        return run_both(sh, n, out);
    case NODE_NOT:
        s = run(sh, n->a, out);
        if (*out != MAYBE) *out = !*out;
        return s;
    case NODE_PIPE:
        s = run(sh, n->a, out);
        return s ? s : run(sh, n->b, out);
    case NODE_IF:
        return run_if(sh, n, out);
    case NODE_WHILE:
    case NODE_UNTIL:
        return run_while(sh, n);
    case NODE_FOR:
        return run_for(sh, n);
    case NODE_LOOP:
        return run_loop(sh, n);
    case NODE_CASE:
        return run_case(sh, n, out);
    case NODE_GROUP:
        return run_group(sh, n, out);
    case NODE_FUNCTION:
        return define(sh, n);
    case NODE_TEST:
        return shell_test_words(sh, &n->words, out);
    case NODE_ARITH:
        return run_arithmetic(sh, n, out);
    case NODE_ARM:
        break;
    }
    return OK;
}

static status run(shell *sh, const node *n, truth *out)
{
    *out = YES;
    if (!n) return OK;
    sh->line = n->line;
    if (++sh->steps > SHELL_STEPS_MAX)
        return error_set(sh->err, ERR_INPUT,
                         "%s:%d: the script takes more than %d steps: give the training command "
                         "itself as a list",
                         sh->name, n->line, SHELL_STEPS_MAX);
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, n->line, "nested too deeply");
    status s = run_kind(sh, n, out);
    sh->depth--;
    return s;
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

static status run_text(shell *sh, const char *text, size_t n, int line)
{
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, line, "nested too deeply");
    node *tree;
    truth t;
    TRY(shell_charge(sh, n));
    text = readable_again(sh, text, n);
    shell_source from = {.name = sh->name, .data = text, .n = strlen(text), .line = line};
    TRY(shell_parse(sh->a, &from, &tree, sh->err));
    TRY(run(sh, tree, &t));
    sh->depth--;
    return OK;
}

/* ---- from outside */

static status begin(shell *sh, arena *a, const shell_source *from, shell_result *out, error *err)
{
    *out = (shell_result){0};
    *sh = (shell){.a = a,
                  .name = from->name,
                  .folder = from->folder,
                  .err = err,
                  .sets = from->sets,
                  .n_sets = from->n_sets,
                  .out = out};
    TRY(check_bytes(from->name, from->data, from->n, err));
    for (int i = 0; i < from->n_known; i++)
        TRY(shell_assign(sh, from->known[i].name, from->known[i].value));
    for (int i = 0; i < sh->n_sets; i++) {
        const char *name = sh->sets[i].name, *value = sh->sets[i].value;
        TRY(check_bytes("--set", value, strlen(value), err));
        TRY(shell_assign(sh, name, value));
        shell_find(sh, name)->given = true;
    }
    return OK;
}

status shell_read(arena *a, const shell_source *from, shell_result *out, error *err)
{
    shell sh;
    shell_source whole = *from;
    node *tree;
    truth t;
    TRY(begin(&sh, a, from, out, err));
    whole.data = arena_copy(a, from->data, from->n); /* ends with a 0 */
    TRY(shell_parse(a, &whole, &tree, err));
    return run(&sh, tree, &t);
}

status shell_list(arena *a, const shell_source *from, int max, shell_words *out, error *err)
{
    shell_result result;
    shell sh;
    const char *p = arena_copy(a, from->data, from->n), *end = p + from->n;
    int line = from->line;
    *out = (shell_words){0};
    TRY(begin(&sh, a, from, &result, err));
    while (p < end) {
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
        TRY(shell_word_end(&rest, true, &len, err));
        sh.line = line;
        TRY(shell_expand(&sh, (slice){p, len, line}, true, out));
        for (size_t i = 0; i < len; i++) line += p[i] == '\n';
        p += len;
        if (out->n > max)
            return error_set(err, ERR_INPUT, "%s:%d: more than %d words", from->name, line, max);
    }
    return OK;
}

status shell_text(arena *a, const shell_source *from, char **out, error *err)
{
    shell_result result;
    shell sh;
    TRY(begin(&sh, a, from, &result, err));
    return shell_expand_text(&sh, (slice){from->data, from->n, from->line}, out);
}
