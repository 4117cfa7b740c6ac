/* profile.c - `moefold profile RECIPE FILE`: where the time of a run went, beside its price. */
#include "cli/profile.h"

#include <string.h>

#include "predict/audit/audit.h"
#include "base/file.h"
#include "base/waiting.h"
#include "predict/machine.h"

enum { STEPS_MAX = 1000000 };

typedef struct profile_words {
    bool json, why, everything;
    const char *without, *steps, *stack;
} profile_words;

/* Options whose next word is their value. */
static const char with_value[] = "-o|--out|--without|--steps|--stack|--versions|--gpus|--seq|--"
                                 "with|--from-megatron|--set|--command";

int profile_find_file(const cli_words *w, arena *a)
{
    int n = 0, found = 0, second = 0;
    for (int i = 1; i < w->argc; i++) {
        const char *word = w->argv[i];
        if ((word[0] == '-' && word[1]) || text_in(with_value, '|', w->argv[i - 1])) {
            if (strcmp(word, "--from-megatron") == 0) n++; /* that is the recipe */
            continue;
        }
        bool plain = !strchr(word, '=') && !word_short(a, word);
        if (!file_exists(word) && !plain) continue;
        if (n == 1 && !second) second = i;
        if (n++ > 0 && file_exists(word)) found = i;
    }
    return found ? found : second;
}

cli_words profile_recipe_words(const cli_words *w, int without, arena *a)
{
    cli_words own = *w;
    own.argv = ARENA_ARRAY(a, char *, w->argc + 1);
    own.argc = 0;
    for (int i = 0; i < w->argc; i++)
        if (!without || i != without) own.argv[own.argc++] = w->argv[i];
    return own;
}

status profile_options(profiled *q, const char *without, const char *steps, error *err)
{
    if (steps) TRY(word_count("--steps", steps, STEPS_MAX, &q->steps, err));
    if (!without) return OK;
    if (strcmp(without, "optimizer") != 0)
        return error_set(
            err, ERR_INPUT,
            "--without %s: only the optimizer can be left out; repair: write --without optimizer",
            without);
    q->without_optimizer = true;
    return OK;
}

static status price_recipe(profiled *q, const recipe *r, const price_options *o, arena *a,
                           error *err)
{
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    violations found = {0};
    q->s = s;
    q->hw = hw;
    TRY(setup_init(s, r, a, err));
    TRY(machine_of_setup(hw, s, a, err));
    TRY(hardware_has_stack(hw, o->stack ? o->stack : recipe_word(&s->r, K_STACK), err));
    rules_check(&found, s, false, a);
    const char *why_not = audit_not_known(s, a);
    if (!why_not) why_not = audit_why_not_of(s, &found, a);
    if (why_not)
        return error_set(err, ERR_RULE,
                         "%s: no program can be built: %s (moefold check lists repairs)", s->r.name,
                         why_not);
    price_setup(&q->predicted, s, hw, o, a);
    return OK;
}

static cost_kind largest_exposed(const price *p)
{
    int most = COST_TP;
    for (int k = COST_TP; k <= COST_COPY; k++)
        if (p->exposed[k] > p->exposed[most]) most = k;
    return p->bubble > p->exposed[most] ? COST_PP : (cost_kind)most;
}

status profile_look(profiled *q, const recipe *r, const price_options *o, arena *a, error *err)
{
    waiting_begin("profile", "reading", WAITING_UNKNOWN, 0);
    status st = profile_read(&q->p, q->path, q->steps, a, err);
    waiting_end();
    if (!st) st = price_recipe(q, r, o, a, err);
    if (st) return st;
    profile_make_rows(q);
    price without = q->predicted;
    if (q->without_optimizer) {
        without.step_s -= without.optimizer;
        without.optimizer = 0;
    }
    profile_as_price(&q->measured, &q->p, &without, a);
    if (!q->measured.evidence) return OK;
    change_job j = {.given = r, .now = &q->predicted, .hw = q->hw, .o = o};
    q->n_fixes = profile_fixes(q->fixes, q->measured.wall, largest_exposed(&q->measured), &j, a);
    return OK;
}

int command_profile(int argc, char **argv)
{
    profile_words own = {0};
    const cli_option options[] = {
        {"--without", "optimizer",
         "the profiled step has no optimizer: leave it out of the prediction", NULL, &own.without},
        {"--steps", "N", "number of steps in the file; unset: as marked in the file, otherwise 1",
         NULL, &own.steps},
        {"--stack", "NAME", "container generation; unset: the newest in the hardware file", NULL,
         &own.stack},
        {"--why", NULL, "add the evidence, every fix, and kernels that waited for the host",
         &own.why, NULL},
        {"--everything", NULL, "add all figures", &own.everything, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &own.json, NULL},
    };
    arena *a = arena_create();
    profiled *q = ARENA_NEW(a, profiled);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    bool done = false;
    cli_words words = {"profile", argc, argv, options, 6};
    int file = profile_find_file(&words, a);
    const cli_words of_recipe = profile_recipe_words(&words, file, a);
    status st = cli_read(a, &of_recipe, r, &done, &err);
    if (!st && !done && !file)
        st = error_set(&err, ERR_INPUT,
                       "no profile is named; repair: moefold profile RECIPE FILE, where FILE is a "
                       "PyTorch-profiler trace, an Nsight SQLite export or a Megatron log");
    if (!st && !done) {
        q->path = argv[file];
        q->json = own.json;
        q->why = own.why;
        q->everything = own.everything;
        st = profile_options(q, own.without, own.steps, &err);
    }
    if (!st && !done) st = profile_look(q, r, &(price_options){.stack = own.stack}, a, &err);
    int code = st ? cli_fail("profile", st, &err) : OK;
    if (!st && !done && q->json) cli_json_print(profile_json(q, a));
    if (!st && !done && !q->json) profile_print(q, a);
    arena_destroy(a);
    return code;
}
