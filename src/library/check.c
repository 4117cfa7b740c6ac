/* check.c - is a recipe valid, and does it fit? Every violation with its repair, and bytes. */
#include "library/check.h"

#include "base/clock.h"
#include "base/waiting.h"
#include "config/appended.h"
#include "plan/repairs.h"
#include "predict/machine.h"

int check_options(word_option out[WORD_OPTIONS_MAX], check_words *w)
{
    const word_option options[] = {
        {"--all-ranks", NULL, "build the program of every rank and match their communication",
         &w->all_ranks, NULL},
        {"--rank", "R", "the same, and print what rank R holds and sends", NULL, &w->rank},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &w->headroom},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &w->routed},
        {"--why", NULL, "add the notes, with their repairs", &w->why, NULL},
        {"--everything", NULL, "add model, layout, groups, state and peak in full", &w->everything,
         NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w->json, NULL},
        {"--fix", NULL, "print the smallest set of overrides that makes the recipe valid and fit",
         &w->fix, NULL},
    };
    memcpy(out, options, sizeof options);
    return sizeof options / sizeof options[0];
}

status fit_asked(fit *out, const setup *s, const violations *found, arena *a, error *err)
{
    *out = (fit){.why_not = audit_why_not_of(s, found, a)};
    if (out->why_not) return OK; /* it may name a GPU that does not exist */
    hardware hw;
    TRY(machine_of_setup(&hw, s, a, err));
    fit_of(out, s, found, &hw, a);
    return OK;
}

violation *check_of_state(const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->number == RULE_state_fits_the_gpu) return &found->list[i];
    return NULL;
}

/* About how long --fix takes; of a search for a layout that fits, and for one on more GPUs. */
enum { FIX_SECONDS = 5, SEARCH_SECONDS = 20, MORE_SECONDS = 3, QUICK_SECONDS = 1 };

static status audit_ranks(checked *c, arena *a, error *err)
{
    const check_words *w = &c->w;
    if (!w->all_ranks && !w->rank) return OK;
    status st = w->rank ? word_rank(w->rank, c->s, &c->rank, err) : OK;
    if (st) return st;
    audit_result *r = ARENA_NEW(a, audit_result);
    double start = clock_seconds();
    const audit_options options = {.one = c->rank >= 0, .rank = c->rank};
    st = audit_run(r, c->s, &options, a, err);
    c->seconds = clock_seconds() - start;
    c->audit = r;
    return st;
}

/* Rules first, then memory with what they ask for. Without --fix: where a warning needs it, and not
 * for long. */
static status find_fix(checked *c, const recipe *r, bool whole, arena *a, error *err)
{
    bool broken = c->found.n_errors > 0;
    c->fixable = !broken && !fit_too_large(&c->memory);
    if (c->fixable || !(whole || check_of_state(&c->found))) return OK;
    if (broken && !rules_fix(r, a, &c->repair)) return OK;
    recipe *valid = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    violations found;
    fit f;
    hardware hw;
    c->fixable = rules_apply(valid, r, c->repair, a) && !setup_init(s, valid, a, err);
    if (!c->fixable) return OK;
    rules_check(&found, s, false, a);
    TRY(fit_asked(&f, s, &found, a, err));
    if (!fit_too_large(&f)) return OK;
    TRY(machine_of_setup(&hw, s, a, err));
    autofit_memory(&c->autofitted, r, c->repair, &hw, whole ? SEARCH_SECONDS : QUICK_SECONDS, a);
    c->fixable = c->autofitted.done;
    if (c->fixable) c->repair = c->autofitted.e;
    if (!c->fixable && !c->w.json)
        autofit_more_gpus(&c->autofitted, r, c->repair, &hw, whole ? MORE_SECONDS : QUICK_SECONDS,
                          a);
    return OK;
}

/* Rules give repairs for themselves; what must fit is repaired as --fix does. */
static void ready_repairs(checked *c, const recipe *r, arena *a)
{
    violation *state = check_of_state(&c->found);
    rules_prove(&c->found, c->s, false, a);
    if (state && c->fixable && c->repair.n) state->repairs[state->n_repairs++] = c->repair;
    advise(&c->found, r, c->s, &c->memory, a);
    c->fix = recipe_appended(r, edits_words(c->repair, a), a);
}

static status check_setup(checked *c, const recipe *r, bool whole, arena *a, error *err)
{
    const setup *s = c->s;
    bool only_fix = c->w.fix && !c->w.json;
    rules_check(&c->found, s, false, a);
    TRY(fit_asked(&c->memory, s, &c->found, a, err));
    TRY(find_fix(c, r, whole, a, err));
    ready_repairs(c, r, a);
    if (!only_fix) TRY(audit_ranks(c, a, err));
    c->bad = c->found.n_errors || fit_too_large(&c->memory) || (c->audit && !c->audit->ok);
    return OK;
}

status check_run(checked *out, recipe *r, const check_words *w, bool whole, arena *a, error *err)
{
    static const char *const none[] = {NULL};
    setup *s = ARENA_NEW(a, setup);
    *out = (checked){.w = *w, .s = s, .fix = none, .rank = -1};
    TRY(words_headroom(r, w->headroom, err));
    TRY(words_routing_room(r, w->routed, a, err));
    TRY(setup_init(s, r, a, err));
    setup_states(s, a);
    bool only_fix = w->fix && !w->json;
    waiting_begin("check", only_fix ? "looking for a repair" : "rules, programs of ranks, messages",
                  only_fix ? WAITING_ABOUT : WAITING_UNKNOWN, FIX_SECONDS);
    status st = check_setup(out, r, whole, a, err);
    waiting_end();
    return st;
}

json_t *check_json(const checked *c, arena *a)
{
    const setup *s = c->s;
    bool laid_out = s->possible && !s->pipe.why_not;
    int64_t fullest = laid_out ? answer_stage(s, &c->memory) : 0;
    check_answer x = {.ok = c->found.n_errors == 0,
                      .fit = answer_fit(&c->memory, a),
                      .recipe = s->r.name,
                      .fix = c->fix,
                      .fixable = c->fixable,
                      .notes = answer_texts(s->r.notes, s->r.n_notes, a),
                      .model = answer_model(s, a),
                      .memory = laid_out ? answer_memory(s, fullest, &c->memory, a) : NULL};
    x.violations = answer_violations(&x.n_violations, &c->found, a);
    audited_answer audited = {0};
    if (c->audit) {
        audited = (audited_answer){.audit_why_not = c->audit->why_not};
        audited.audit = answer_audit(s, c->audit, &c->memory, c->seconds, c->rank, a);
        x.audited = &audited;
    }
    x.layout = answer_layout(s, a);
    return answer_json(check_answer, &x);
}
