/* show_export.c - `moefold show --as SYSTEM`: the recipe for another system, or why it cannot be
 * written and what is nearest.
 *
 * I1  What is written for another system starts there: nothing is left out without a word, and no
 *     rule of that system is broken. Otherwise nothing goes to the standard output. */
#include <stdio.h>
#include <string.h>

#include "predict/audit/audit.h"
#include "base/file.h"
#include "config/models/models.h"
#include "cli/show.h"
#include "predict/price.h"
#include "config/export.h"
#include "train/executor/timing.h"

typedef struct export_row {
    const char *name, *title;
    knob_system system; /* MOEFOLD: our own format */
    void (*write)(const recipe *r, textbuf *out);
} export_row;

static void write_recipe(const recipe *r, textbuf *out)
{
    export_yaml(r, false, out);
}

static const export_row exports[] = {
    {"megatron-lm", "Megatron-LM", MEGATRON_LM, export_megatron_lm},
    {"megatron-bridge", "Megatron-Bridge", MEGATRON_BRIDGE, export_bridge},
    {"recipe", "moefold", MOEFOLD, write_recipe},
};

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
            const char *const *fix = NULL;
            if (!rules_fix(&n->r, a, &fix)) return;
            for (; *fix && n->n_words < WORDS_MAX; fix++) n->words[n->n_words++] = *fix;
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
    if (timing_machine(hw, s, a, &err)) return arena_text(a, "not priced: %s", err.text);
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
static void print_followed(knob_id k, const setup *was, const setup *s, arena *a)
{
    const char *before = price_text(was, a), *after = price_text(s, a);
    const bool same = strcmp(before, after) == 0;
    const char *text = arena_text(a, "%s=%s instead of %s (%s): %s; %s%s%s", knobs[k].key,
                                  value_text(a, s->r.knob[k].v), value_text(a, was->r.knob[k].v),
                                  was->r.knob[k].why, s->r.knob[k].why, before,
                                  same ? " with both" : " -> ", same ? "" : after);
    printf("# %s\n", text);
    if (!same)
        fprintf(stderr, "moefold show: %s; give %s=%s to plan, too, to search with it\n", text,
                knobs[k].key, value_text(a, s->r.knob[k].v));
}

/* ---- refusals */

static int print_gaps(const setup *s, const export_row *to, arena *a)
{
    export_gap gaps[EXPORT_GAPS_MAX];
    int n = export_gaps(&s->r, to->system, gaps, a);
    for (int i = 0; i < n; i++) {
        const setting *set = &s->r.knob[gaps[i].knob];
        fprintf(stderr, "moefold show: %s=%s (%s) cannot be written for %s: %s\n",
                knobs[gaps[i].knob].key, value_text(a, set->v), set->why, to->title, gaps[i].why);
    }
    return n;
}

static void print_errors(const violations *found)
{
    for (int k = 0; k < found->n_errors; k++)
        if (found->list[k].rule->number != RULE_target_can_run) /* gaps say it */
            fprintf(stderr, "moefold show: error %s: %s\n", found->list[k].rule->id,
                    found->list[k].message);
}

/* Flags and keys that were read and have no knob here are in no export either. */
static bool is_lost(const char *note)
{
    if (strstr(note, ": part of the command") || strstr(note, "of the launcher")) return false;
    return strstr(note, "no effect here") || strstr(note, "moefold has no knob for it");
}

static void print_notes(const recipe *r)
{
    for (int i = 0; i < r->n_notes; i++)
        if (is_lost(r->notes[i])) fprintf(stderr, "moefold show: not written: %s\n", r->notes[i]);
}

static status export_to(const recipe *given, const setup *s, const export_row *to, arena *a,
                        error *err)
{
    const setup *was = s;
    recipe *there = ARENA_NEW(a, recipe);
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
    int n_gaps = to->system == MOEFOLD ? 0 : print_gaps(s, to, a);
    print_errors(&found);
    if (to->system != MOEFOLD && (n_gaps || found.n_errors)) {
        print_nearest(given, s, to, a);
        return error_set(err, ERR_RULE,
                         "%s: nothing is written for %s, because it would not run there", s->r.name,
                         to->title);
    }
    textbuf out = text_init(a);
    to->write(&s->r, &out);
    fputs(out.s, stdout);
    if (follows < K_COUNT) print_followed(follows, was, s, a);
    print_notes(&s->r);
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
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++)
        if (strcmp(exports[i].name, system) == 0) return export_to(given, s, &exports[i], a, err);
    return error_set(err, ERR_INPUT,
                     "--as %s: known are megatron-lm, megatron-bridge, recipe and config.json",
                     system);
}
