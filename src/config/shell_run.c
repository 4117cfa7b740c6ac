/* shell_run.c - the walk through a script's tree.
 *
 * I1  A branch whose test is MAYBE is walked with the variables set aside: its commands are kept,
 *     and what it assigns is not known afterwards.
 * I2  A branch that ends the script is not taken on an assumption (sh->assumed): launch scripts
 *     check so that their arguments were given. */
#include "config/shell_state.h"

#include <string.h>

static status step(shell *sh, const node *n)
{
    sh->line = n->line;
    if (++sh->steps > SHELL_STEPS_MAX)
        return error_set(sh->err, ERR_INPUT,
                         "%s:%d: the script takes more than %d steps: give the training command "
                         "itself as a list",
                         sh->name, n->line, SHELL_STEPS_MAX);
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, n->line, "nested too deeply");
    return OK;
}

static bool leaving(const shell *sh)
{
    return sh->stop || sh->leave_function || sh->leave_loop || sh->next_loop;
}

/* ---- what is not known afterwards */

static void forget_name(shell *sh, const char *name, bool adds, const char *cause)
{
    variable *v = shell_touch(sh, name);
    if (!v || v->given) return;
    char *mark = shell_mark(sh->a, cause ? cause : name);
    if (adds && v->is_array)
        shell_assign_key(sh, name, NULL, mark, false);
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
    bool reads = n->words.n && (shell_slice_is(n->words.items[0], "read") ||
                                shell_slice_is(n->words.items[0], "mapfile") ||
                                shell_slice_is(n->words.items[0], "readarray"));
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

status shell_run_maybe(shell *sh, const node *branch)
{
    if (!branch) return OK;
    variables kept = shell_copy_variables(sh);
    status s = shell_charge(sh, sizeof(variable) * (size_t)kept.n / 4);
    truth t;
    sh->maybe++;
    if (!s) s = shell_run(sh, branch, &t);
    sh->maybe--;
    sh->vars = kept;
    sh->stop = sh->leave_function = sh->leave_loop = sh->next_loop = false;
    return s;
}

/* ---- branches */

/* Does the branch end the script, or the function, in its own list? */
static bool leaves(const node *n)
{
    for (int i = 0; n && n->kind == NODE_LIST && i < n->n_items; i++) {
        const node *c = n->items[i];
        if (c->kind != NODE_COMMAND || !c->words.n) continue;
        if (shell_slice_is(c->words.items[0], "exit") ||
            shell_slice_is(c->words.items[0], "return"))
            return true;
    }
    return false;
}

/* Evaluates a test; *cause is what it depends on, or NULL. */
static status decide(shell *sh, const node *test, truth *t, const char **cause)
{
    const char *assumed = sh->assumed, *before = sh->cause;
    sh->assumed = sh->cause = NULL;
    status s = shell_run(sh, test, t);
    const char *now = sh->assumed;
    *cause = sh->cause;
    sh->assumed = now ? now : assumed;
    sh->cause = before;
    if (!s && *t != MAYBE && now) {
        *cause = now;
        return OK;
    }
    return s;
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
    status s = decide(sh, n->a, &t, &cause);
    bool assumed = sh->assumed != NULL && t != MAYBE;
    sh->assumed = before;
    *out = YES;
    if (s || leaving(sh)) return s;
    const node *branch = t == YES ? n->b : n->c;
    if (t != MAYBE && !(assumed && leaves(branch))) { /* I2 */
        if (assumed) say_assumed(sh, n, cause);
        return branch ? shell_run(sh, branch, out) : OK;
    }
    s = shell_run_maybe(sh, n->b);
    if (!s) s = shell_run_maybe(sh, n->c);
    if (s || t != MAYBE) return s;
    if (shell_forget(sh, n->b, cause) + shell_forget(sh, n->c, cause)) /* I1 */
        say_maybe(sh, n, cause);
    return OK;
}

static status run_case(shell *sh, const node *n, truth *out)
{
    char *word;
    *out = YES;
    status s = shell_expand_one(sh, n->words.items[0], false, &word);
    const char *p = word;
    const char *cause = s ? NULL : shell_next_mark(sh->a, &p);
    for (int i = 0; i < n->n_items && !s; i++) {
        const node *arm = n->items[i];
        bool hit = false;
        for (int j = 0; j < arm->words.n && !cause && !hit && !s; j++) {
            char *pattern;
            s = shell_expand_one(sh, arm->words.items[j], true, &pattern);
            if (!s) s = shell_charge(sh, strlen(pattern) * strlen(word) / 16);
            hit = !s && shell_match(pattern, word);
        }
        if (hit) return shell_run(sh, arm->b, out);
        if (!s && cause) s = shell_run_maybe(sh, arm->b);
    }
    int names = 0;
    for (int i = 0; i < n->n_items && cause && !s; i++)
        names += shell_forget(sh, n->items[i]->b, cause);
    if (names) say_maybe(sh, n, cause);
    return s;
}

/* && and ||: the left side decides; what is no test is taken to succeed. */
static status run_both(shell *sh, const node *n, truth *out)
{
    const char *cause;
    status s = decide(sh, n->a, out, &cause);
    if (s || leaving(sh)) return s;
    bool skip = n->kind == NODE_AND ? *out == NO : *out == YES;
    if (skip) return OK;
    if (*out != MAYBE) return shell_run(sh, n->b, out);
    if (!sh->cause) sh->cause = cause;
    truth right;
    if (n->b->kind == NODE_TEST || n->b->kind == NODE_ARITH ||
        (n->b->kind == NODE_COMMAND && n->b->words.n &&
         shell_slice_is(n->b->words.items[0], "["))) {
        s = shell_run(sh, n->b, &right);
        if (n->kind == NODE_AND && right == NO) *out = NO;
        if (n->kind == NODE_OR && right == YES) *out = YES;
        return s;
    }
    s = shell_run_maybe(sh, n->b);
    if (!s) shell_forget(sh, n->b, cause);
    return s;
}

/* ---- loops */

/* Runs a body once; returns whether the loop goes on. */
static bool once(shell *sh, const node *body, status *s)
{
    truth t;
    *s = shell_run(sh, body, &t);
    bool on = !*s && !sh->stop && !sh->leave_function && !sh->leave_loop;
    sh->next_loop = false;
    return on;
}

static status run_for(shell *sh, const node *n)
{
    shell_words list = {0};
    status s = OK;
    static const slice own = {"\"$@\"", 4, 0};
    if (n->in_args) s = shell_expand(sh, (slice){own.s, own.n, n->line}, true, &list);
    for (int i = 0; i < n->words.n && !s; i++) s = shell_expand(sh, n->words.items[i], true, &list);
    const char *name = arena_copy(sh->a, n->name.s, n->name.n);
    for (int i = 0; i < list.n && !s; i++) {
        s = shell_assign(sh, name, list.text[i]);
        if (s || !once(sh, n->b, &s)) break;
    }
    sh->leave_loop = false;
    return s;
}

static status run_while(shell *sh, const node *n)
{
    status s = OK;
    for (;;) {
        truth t;
        const char *cause;
        s = decide(sh, n->a, &t, &cause);
        if (s || leaving(sh)) break;
        if (n->kind == NODE_UNTIL && t != MAYBE) t = !t;
        if (t == NO && cause) say_assumed(sh, n, cause);
        if (t == MAYBE) {
            s = shell_run_maybe(sh, n->b);
            if (!s) shell_forget(sh, n->b, cause);
            break;
        }
        if (t == NO || !once(sh, n->b, &s)) break;
    }
    sh->leave_loop = false;
    return s;
}

static status run_loop(shell *sh, const node *n)
{
    char *text;
    status s = shell_arithmetic(sh, n->words.items[0], &text);
    for (int i = 0; !s; i++) {
        s = shell_arithmetic(sh, n->words.items[1], &text);
        if (s || (strcmp(text, "0") == 0 && n->words.items[1].n) || shell_has_mark(text)) break;
        if (++sh->steps > SHELL_STEPS_MAX) return shell_fail(sh, n->line, "a loop without an end");
        if (!once(sh, n->b, &s)) break;
        s = shell_arithmetic(sh, n->words.items[2], &text);
    }
    sh->leave_loop = false;
    return s;
}

/* ---- everything */

static status define(shell *sh, const node *n)
{
    for (int i = 0; i < sh->n_functions; i++) {
        function *f = &sh->functions[i];
        if (f->name.n != n->name.n || memcmp(f->name.s, n->name.s, n->name.n) != 0) continue;
        f->body = n->b;
        return OK;
    }
    if (sh->n_functions == SHELL_VARIABLES_MAX)
        return shell_fail(sh, n->line, "too many functions");
    ARENA_GROW(sh->a, sh->functions, sh->n_functions, sh->functions_room);
    sh->functions[sh->n_functions++] = (function){n->name, n->b};
    return OK;
}

static status run_list(shell *sh, const node *n, truth *out)
{
    status s = OK;
    for (int i = 0; i < n->n_items && !s && !leaving(sh); i++) s = shell_run(sh, n->items[i], out);
    return s;
}

static status run_group(shell *sh, const node *n, truth *out)
{
    if (!n->subshell) return shell_run(sh, n->b, out);
    variables kept = shell_copy_variables(sh);
    status s = shell_charge(sh, sizeof(variable) * (size_t)kept.n / 4);
    if (!s) s = shell_run(sh, n->b, out);
    sh->vars = kept;
    sh->stop = false;
    return s;
}

static status run_arith(shell *sh, const node *n, truth *out)
{
    char *text;
    status s = shell_arithmetic(sh, n->words.items[0], &text);
    if (s) return s;
    *out = shell_has_mark(text) ? MAYBE : strcmp(text, "0") != 0;
    const char *p = text;
    if (*out == MAYBE && !sh->cause) sh->cause = shell_next_mark(sh->a, &p);
    return OK;
}

static status run_kind(shell *sh, const node *n, truth *out)
{
    status s = OK;
    switch (n->kind) {
    case NODE_COMMAND:
        return shell_run_command(sh, n, out);
    case NODE_LIST:
        return run_list(sh, n, out);
    case NODE_AND:
    case NODE_OR:
        return run_both(sh, n, out);
    case NODE_NOT:
        s = shell_run(sh, n->a, out);
        if (*out != MAYBE) *out = !*out;
        return s;
    case NODE_PIPE:
        s = shell_run(sh, n->a, out);
        return s ? s : shell_run(sh, n->b, out);
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
        return run_arith(sh, n, out);
    case NODE_ARM:
        break;
    }
    return OK;
}

status shell_run(shell *sh, const node *n, truth *out)
{
    *out = YES;
    if (!n) return OK;
    status s = step(sh, n);
    if (!s) s = run_kind(sh, n, out);
    sh->depth--;
    return s;
}
