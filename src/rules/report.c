/* report.c - from a broken rule to a message and overrides.
 *
 * I1  A repair names only what it changes, and no two repairs of a violation are the same. */
#include <string.h>

#include "config/bridge_derive.h"
#include "rules/call.h"
#include "rules/words.h"

enum { REPAIR_WORDS_MAX = 48 };

/* {ID}, {=ID}, {ID:key}, {ID:why}, {quantity}. False: a quantity does not exist here. */
static bool expand_word(textbuf *t, const setup *s, const char *word, arena *a)
{
    bool with_key = *word == '=';
    if (with_key) word++;
    const char *colon = strchr(word, ':');
    size_t n = colon ? (size_t)(colon - word) : strlen(word);
    for (int k = 0; k < K_COUNT; k++) {
        if (strlen(knobs[k].id) != n || strncmp(knobs[k].id, word, n) != 0) continue;
        const char *why = recipe_why(&s->r, (knob_id)k);
        if (with_key) text_add(t, "%s=", knobs[k].key);
        if (colon && text_equal(colon, ":key"))
            text_add(t, "%s", knobs[k].key);
        else if (colon)
            text_add(t, "%s", why ? why : "unset");
        else
            text_add(t, "%s", recipe_shown(&s->r, (knob_id)k, a));
        return true;
    }
    const char *quantity = rule_quantity(s, word, a);
    if (quantity) text_add(t, "%s", quantity);
    return quantity != NULL;
}

static bool expand(textbuf *t, const setup *s, const char *template, arena *a)
{
    for (const char *p = template; *p;) {
        size_t plain = strcspn(p, "{");
        text_put(t, p, plain);
        p += plain;
        if (!*p) break;
        size_t n = strcspn(p, "}");
        if (!expand_word(t, s, arena_copy(a, p + 1, n - 1), a)) return false;
        p += n + 1;
    }
    return true;
}

/* "TP=2" -> "model.tensor_model_parallel_size=2"; a word that is an override already stays. */
static const char *override_of(const char *assignment, arena *a)
{
    size_t left = strcspn(assignment, "=");
    for (int k = 0; k < K_COUNT; k++)
        if (strlen(knobs[k].id) == left && strncmp(knobs[k].id, assignment, left) == 0)
            return arena_text(a, "%s%s", knobs[k].key, assignment + left);
    return assignment;
}

static bool changes(const setup *s, const char *assignment, arena *a)
{
    const char *equals = strchr(assignment, '=');
    bool is_alias;
    int k = knob_find(arena_copy(a, assignment, (size_t)(equals - assignment)), &is_alias);
    value v;
    error err;
    if (k < 0 || is_alias || knob_parse(a, (knob_id)k, equals + 1, &v, &err)) return true;
    return recipe_changes(&s->r, (knob_id)k, v);
}

static bool same(const char *const *a, const char *const *b)
{
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0) return false;
    return !*a && !*b;
}

/* With the key that counts where Megatron-Bridge has another one for this knob, too. */
static const char *counted(rule_call *call, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    int k = knob_find(arena_copy(call->a, assignment, (size_t)(equals - assignment)), NULL);
    const char *key = k < 0 ? NULL : bridge_key_that_counts(&call->s->r, (knob_id)k);
    return k < 0 || key == knobs[k].key ? assignment : arena_text(call->a, "%s%s", key, equals);
}

void rule_repair(rule_call *call, violation *v, const char *const *assignments, int n)
{
    if (v->n_repairs == REPAIRS_MAX) return;
    const char **list = ARENA_ARRAY(call->a, const char *, n + 1);
    int count = 0;
    for (int i = 0; i < n; i++) {
        const char *made = override_of(assignments[i], call->a);
        if (changes(call->s, made, call->a)) list[count++] = counted(call, made); /* I1 */
    }
    for (int i = 0; i < v->n_repairs; i++)
        if (same(v->repairs[i], list)) return; /* I1 */
    if (count) v->repairs[v->n_repairs++] = list;
}

violation *rule_report(rule_call *call, const char *message)
{
    violations *out = call->out;
    if (out->n == call->room) {
        call->room = call->room ? call->room * 2 : 16;
        violation *larger = ARENA_ARRAY(call->a, violation, call->room);
        if (out->n) memcpy(larger, out->list, sizeof *larger * (size_t)out->n);
        out->list = larger;
    }
    violation *v = &out->list[out->n++];
    *v = (violation){.rule = call->rule, .message = call->silent ? "" : message};
    out->n_errors += call->rule->severity == ERROR;
    return v;
}

/* ---- rows of the table */

void rule_alternative(rule_call *call, violation *v, const char *template)
{
    const char *list[REPAIR_WORDS_MAX];
    int n = 0;
    textbuf t = text_init(call->a);
    if (!expand(&t, call->s, template, call->a)) return;
    for (const char *p = t.s; *p && n < REPAIR_WORDS_MAX;) {
        size_t len = strcspn(p, " ");
        if (len) list[n++] = arena_copy(call->a, p, len);
        p += len + strspn(p + len, " ");
    }
    rule_repair(call, v, list, n);
}

void rule_report_row(rule_call *call)
{
    textbuf t = text_init(call->a);
    if (!call->silent) expand(&t, call->s, call->rule->message, call->a);
    violation *v = rule_report(call, t.s);
    for (const char *p = call->rule->repair; *p;) {
        const char *bar = strstr(p, " | ");
        size_t n = bar ? (size_t)(bar - p) : strlen(p);
        rule_alternative(call, v, arena_copy(call->a, p, n));
        p += n + (bar ? 3 : 0);
    }
}
