/* show_export.c - `moefold show --as SYSTEM`: the recipe for another system, or why it cannot be
 * written and what is nearest. `launch` and `tune --next` put it into a batch script.
 *
 * I1  What is written for another system starts there: nothing is left out without a word, and no
 *     rule of that system is broken. Otherwise nothing is written. */
#include <stdio.h>
#include <string.h>

#include "predict/audit/audit.h"
#include "base/file.h"
#include "config/models/models.h"
#include "cli/show.h"
#include "predict/price.h"
#include "config/export.h"
#include "predict/machine.h"

typedef struct export_row {
    const char *name, *title;
    knob_system system; /* MOEFOLD: our own format */
} export_row;

static const export_row exports[] = {{"megatron-lm", "Megatron-LM", MEGATRON_LM},
                                     {"megatron-bridge", "Megatron-Bridge", MEGATRON_BRIDGE},
                                     {"recipe", "moefold", MOEFOLD}};

/* ---- the nearest recipe that can be written */

enum { ROUNDS_MAX = 4, WORDS_MAX = 64 };

typedef struct nearest {
    recipe r; /* the given one with `words` on top */
    setup s;
    const char *words[WORDS_MAX];
    int n_words;
    bool found; /* it has no gap and breaks no rule */
} nearest;

static void add_words(nearest *n, const char *overrides, arena *a)
{
    for (const char *p = overrides; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (n->n_words < WORDS_MAX) n->words[n->n_words++] = arena_copy(a, p, len);
        p += len;
    }
}

/* Applies what was added since `from` and resolves again. */
static bool apply_words(nearest *n, int from, arena *a)
{
    error err = {{0}};
    for (int i = from; i < n->n_words; i++)
        if (recipe_override(&n->r, n->words[i], "nearest", &err)) return false;
    return setup_init(&n->s, &n->r, a, &err) == OK;
}

/* Gaps go first; what then breaks a rule is repaired as `check --fix` would. */
static void find_nearest(nearest *n, const recipe *given, const setup *s, knob_system to, arena *a)
{
    n->r = *given;
    n->s = *s;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        export_gap gaps[EXPORT_GAPS_MAX];
        int n_gaps = export_gaps(&n->s.r, to, gaps, a), from = n->n_words;
        violations found;
        rules_check(&found, &n->s, true, a);
        n->found = !n_gaps && !found.n_errors;
        if (n->found) return;
        for (int i = 0; i < n_gaps; i++) add_words(n, gaps[i].instead, a);
        if (!n_gaps) {
            edits e;
            if (!rules_fix(&n->r, a, &e)) return;
            for (const char *const *fix = edits_words(e, a); *fix && n->n_words < WORDS_MAX; fix++)
                n->words[n->n_words++] = *fix;
        }
        if (n->n_words == from || !apply_words(n, from, a)) return;
    }
}

/* "846.3 s a step, 58.30 GiB" or why there is no price. */
static const char *price_text(const setup *s, arena *a)
{
    hardware *hw = ARENA_NEW(a, hardware);
    price *p = ARENA_NEW(a, price);
    error err = {{0}};
    const char *why_not = audit_why_not(s, a);
    if (why_not) return arena_text(a, "not priced: %s", why_not);
    if (machine_of_setup(hw, s, a, &err)) return arena_text(a, "not priced: %s", err.text);
    price_setup(p, s, hw, NULL, a);
    return arena_text(a, "%.4g s a step, %s%s", p->step_s, text_bytes(a, p->peak_bytes),
                      p->fits ? "" : ", which does not fit");
}

static void print_nearest(const recipe *given, const setup *s, const export_row *to, arena *a)
{
    nearest *n = ARENA_NEW(a, nearest);
    memset(n, 0, sizeof *n);
    find_nearest(n, given, s, to->system, a);
    if (!n->found) {
        fprintf(stderr, "  found no similar recipe that can be written for %s\n", to->title);
        return;
    }
    fprintf(stderr, "  the nearest recipe that can be written:");
    for (int i = 0; i < n->n_words; i++) fprintf(stderr, " %s", word_quoted(a, n->words[i]));
    fprintf(stderr, "\n    this recipe:    %s\n", price_text(s, a));
    fprintf(stderr, "    the nearest:    %s\n", price_text(&n->s, a));
}

/* In the export, and where the price is another, to who reads only the terminal, too. */
static void add_followed(textbuf *out, knob_id k, const setup *was, const setup *s, const char *by)
{
    arena *a = out->a;
    const char *before = price_text(was, a), *after = price_text(s, a);
    const bool same = strcmp(before, after) == 0;
    const char *text = arena_text(a, "%s=%s instead of %s (%s): %s; %s%s%s", knobs[k].key,
                                  value_text(a, s->r.knob[k].v), value_text(a, was->r.knob[k].v),
                                  was->r.knob[k].why, s->r.knob[k].why, before,
                                  same ? " with both" : " -> ", same ? "" : after);
    text_add(out, "# %s\n", text);
    if (!same)
        fprintf(stderr, "moefold %s: %s; give %s=%s to plan, too, to search with it\n", by, text,
                knobs[k].key, value_text(a, s->r.knob[k].v));
}

/* ---- refusals */

static int print_gaps(const setup *s, const export_row *to, const char *by, arena *a)
{
    export_gap gaps[EXPORT_GAPS_MAX];
    int n = export_gaps(&s->r, to->system, gaps, a);
    for (int i = 0; i < n; i++) {
        const setting *set = &s->r.knob[gaps[i].knob];
        fprintf(stderr, "moefold %s: %s=%s (%s) cannot be written for %s: %s\n", by,
                knobs[gaps[i].knob].key, value_text(a, set->v), set->why, to->title, gaps[i].why);
    }
    return n;
}

static void print_errors(const violations *found, const char *by)
{
    for (int k = 0; k < found->n_errors; k++)
        if (found->list[k].rule->number != RULE_target_can_run) /* gaps say it */
            fprintf(stderr, "moefold %s: error %s: %s\n", by, found->list[k].rule->id,
                    found->list[k].message);
}

/* Flags and keys that were read and have no knob here are in no export either. */
static bool is_lost(const char *note)
{
    if (strstr(note, ": part of the command") || strstr(note, "of the launcher")) return false;
    return strstr(note, "no effect here") || strstr(note, "moefold has no knob for it");
}

static void print_notes(const recipe *r, const char *by)
{
    for (int i = 0; i < r->n_notes; i++)
        if (is_lost(r->notes[i])) fprintf(stderr, "moefold %s: not written: %s\n", by, r->notes[i]);
}

status cli_export(textbuf *out, const recipe *given, const setup *s, const export_words *w,
                  error *err)
{
    arena *a = out->a;
    const setup *was = s;
    const export_row *to = exports;
    recipe *there = ARENA_NEW(a, recipe);
    while (to->system != w->system) to++;
    *there = *given;
    const knob_id follows = export_follow(there, &s->r, to->system);
    if (follows < K_COUNT) {
        setup *made = ARENA_NEW(a, setup);
        TRY(setup_init(made, there, a, err));
        given = there;
        s = made;
    }
    violations found;
    rules_check(&found, s, to->system != MOEFOLD, a);
    int n_gaps = to->system == MOEFOLD ? 0 : print_gaps(s, to, w->command, a);
    print_errors(&found, w->command);
    if (to->system != MOEFOLD && (n_gaps || found.n_errors)) {
        print_nearest(given, s, to, a);
        return error_set(err, ERR_RULE,
                         "%s: nothing is written for %s, because it would not run there", s->r.name,
                         to->title);
    }
    if (to->system == MEGATRON_LM)
        export_megatron_lm_by(&s->r, w->launcher, w->more, out);
    else if (to->system == MEGATRON_BRIDGE)
        export_bridge(&s->r, out);
    else
        export_yaml(&s->r, false, out);
    if (follows < K_COUNT) add_followed(out, follows, was, s, w->command);
    print_notes(&s->r, w->command);
    return OK;
}

/* ---- for Hugging Face: what `convert` would write beside the weights */

enum { CONFIG_BYTES_MAX = 1 << 20 };

static status print_config(const setup *s, arena *a, error *err)
{
    char *text = NULL;
    size_t n;
    config_made made;
    const char *path = model_config_path(&s->r);
    if (path) TRY(file_read(a, path, CONFIG_BYTES_MAX, &text, &n, err));
    config_source from = {.config = text, .model = s->m.name, .dtype = "float32"};
    TRY(model_write_config(&s->r, &from, &made, err));
    fputs(made.text, stdout);
    return OK;
}

status show_export(const recipe *given, const setup *s, const char *system, arena *a, error *err)
{
    if (strcmp(system, "config.json") == 0) return print_config(s, a, err);
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        if (strcmp(exports[i].name, system) != 0) continue;
        textbuf out = text_init(a);
        const export_words w = {
            .command = "show", .system = exports[i].system, .launcher = "", .more = ""};
        TRY(cli_export(&out, given, s, &w, err));
        fputs(out.s, stdout);
        return OK;
    }
    return error_set(err, ERR_INPUT,
                     "--as %s: known are megatron-lm, megatron-bridge, recipe and config.json",
                     system);
}
