/* shell_vars.c - the variables of a script.
 *
 * I1  What the user gave with --set stays, whatever the script assigns.
 * I2  A variable is a list of (key, text); a plain one has one item with the key 0. */
#include "config/shell_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

variable *shell_find(const shell *sh, const char *name)
{
    for (int i = 0; i < sh->vars.n; i++)
        if (strcmp(sh->vars.items[i].name, name) == 0) return &sh->vars.items[i];
    return NULL;
}

variable *shell_touch(shell *sh, const char *name)
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

static status too_many(shell *sh)
{
    return error_set(sh->err, ERR_INPUT, "%s:%d: more than %d variables", sh->name, sh->line,
                     SHELL_VARIABLES_MAX);
}

status shell_assign(shell *sh, const char *name, const char *text)
{
    variable *v = shell_touch(sh, name);
    if (!v) return too_many(sh);
    shell_use(sh, v);
    if (v->given) return OK; /* I1 */
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

status shell_assign_key(shell *sh, const char *name, const char *key, const char *text, bool append)
{
    variable *v = shell_touch(sh, name);
    if (!v) return too_many(sh);
    shell_use(sh, v);
    if (v->given) return OK; /* I1 */
    bool behind = !key;      /* behind the last: no key can be the same */
    if (behind) key = next_key(sh, v);
    v->set = v->is_array = true;
    for (int i = 0; !behind && i < v->n; i++) {
        if (strcmp(v->items[i].key, key) != 0) continue;
        element *copy = arena_larger(sh->a, v->items, sizeof *v->items * (size_t)v->n,
                                     sizeof *v->items * (size_t)v->n);
        status s = shell_charge(sh, sizeof *v->items * (size_t)v->n);
        if (s) return s;
        copy[i].text = append ? arena_text(sh->a, "%s%s", copy[i].text, text) : text;
        v->items = copy;
        v->room = v->n;
        return shell_charge(sh, strlen(copy[i].text));
    }
    ARENA_GROW(sh->a, v->items, v->n, v->room);
    v->items[v->n++] = (element){key, text, sh->line};
    return shell_charge(sh, sizeof(element));
}

/* Lists that copies share must not grow in the same room: rooms are cut to what is used. */
variables shell_copy_variables(const shell *sh)
{
    variables copy = sh->vars;
    for (int i = 0; i < copy.n; i++) sh->vars.items[i].room = sh->vars.items[i].n;
    copy.items = ARENA_ARRAY(sh->a, variable, copy.n ? copy.n : 1);
    if (copy.n) memcpy(copy.items, sh->vars.items, sizeof *copy.items * (size_t)copy.n);
    copy.room = copy.n ? copy.n : 1;
    return copy;
}

char *shell_mark(arena *a, const char *name)
{
    return arena_text(a, "%c%.200s%c", SHELL_MARK, name, SHELL_MARK_END);
}

status shell_charge(shell *sh, size_t bytes)
{
    sh->bytes += bytes;
    if (bytes <= SHELL_VALUE_MAX && sh->bytes <= SHELL_TOTAL_MAX) return OK;
    return error_set(sh->err, ERR_INPUT, "%s:%d: the script's words become too long to be read",
                     sh->name, sh->line);
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
