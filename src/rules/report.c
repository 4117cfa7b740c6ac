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

static bool same(edits x, edits y, arena *a)
{
    for (size_t i = 0; i < x.n && x.n == y.n; i++)
        if (!edits_have(y, &x.list[i], a)) return false;
    return x.n == y.n;
}

void rule_repair(rule_call *call, violation *v, const char *const *assignments, int n)
{
    arena *a = call->a;
    edits e = NO_EDITS;
    if (v->n_repairs == REPAIRS_MAX) return;
    for (int i = 0; i < n; i++) {
        edit x;
        const char *made = override_of(assignments[i], a);
        bool sound = edit_read(&x, made, a);
        bool own = x.k != K_COUNT && !x.read.key;
        if (own && sound && !recipe_changes(&call->s->r, x.k, x.read.v)) continue; /* I1 */
        /* with the key that counts where Megatron-Bridge has another one for this knob, too */
        const char *key = x.k == K_COUNT ? NULL : bridge_key_that_counts(&call->s->r, x.k);
        if (key && key != knobs[x.k].key)
            edit_read(&x, arena_text(a, "%s%s", key, strchr(made, '=')), a);
        e = edits_join(e, (edits){&x, 1}, a);
    }
    for (int i = 0; i < v->n_repairs; i++)
        if (same(v->repairs[i], e, a)) return; /* I1 */
    if (e.n) v->repairs[v->n_repairs++] = e;
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
