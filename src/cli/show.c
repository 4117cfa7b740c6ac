/* show.c - `moefold show`: every knob with its reason, the parameter table, exports. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/models/models.h"
#include "cli/show.h"
#include "cli/verdict.h"

static const char *const origin_names[] = {"open", "default", "derived", "model", "user"};

/* ---- knobs */

static void print_knobs(const setup *s, origin from, const char *title, arena *a)
{
    int n = 0;
    for (int k = 0; k < K_COUNT; k++) {
        const setting *set = &s->r.knob[k];
        if (set->from != from) continue;
        if (!n++) printf("%s\n", title);
        printf("  %-52s %-24s %s\n", knobs[k].key, value_text(a, set->v), set->why);
    }
    if (n) printf("\n");
}

static void print_recipe(const setup *s, bool all, arena *a)
{
    cli_print_notes(&s->r, "", all);
    print_knobs(s, FROM_USER, "Set by you", a);
    print_knobs(s, FROM_MODEL, "Set by the model", a);
    print_knobs(s, FROM_DERIVED, "Derived", a);
    if (all)
        print_knobs(s, FROM_DEFAULT, "Defaults", a);
    else
        printf("All other knobs are at their default; --all shows them.\n\n");
    cli_print_model(s, a);
    cli_print_layout(s, a);
    cli_print_stages(s, a);
}

/* ---- parameters */

static const char *shape_text(const param *p, arena *a)
{
    textbuf t = text_init(a);
    for (int i = 0; i < p->n_dims; i++) text_add(&t, "%s%" PRId64, i ? " x " : "", p->dim[i]);
    return t.s;
}

static const char *cut_text(const param *p, arena *a)
{
    if (p->kind == PARAM_EXPERT)
        return p->cut == CUT_NONE ? "EP on 0" : arena_text(a, "EP on 0, ETP on %d", p->axis);
    return p->cut == CUT_NONE ? "on every rank" : arena_text(a, "TP on %d", p->axis);
}

static void print_params(const setup *s, arena *a)
{
    static const char *const words[BLOCK_KINDS] = {[BLOCK_EMBEDDING] = "embedding",
                                                   [BLOCK_ATTENTION] = "attention",
                                                   [BLOCK_GDN] = "linear",
                                                   [BLOCK_MLP] = "mlp",
                                                   [BLOCK_MOE] = "moe",
                                                   [BLOCK_MTP] = "mtp",
                                                   [BLOCK_HEAD] = "head"};
    cli_print_model(s, a);
    printf("\n%-10s %5s  %-44s %-20s %-20s %14s\n", "block", "times", "weight", "shape", "cut by",
           "elements");
    for (int i = 0; i < s->params.n_rows; i++) {
        const param *p = &s->params.rows[i];
        printf("%-10s %5" PRId64 "  %-44s %-20s %-20s %14s%s\n", words[p->block->kind],
               p->block->times, p->name, shape_text(p, a), cut_text(p, a),
               text_grouped(a, param_elements(p)), p->trained ? "" : "  not trained");
    }
}

/* ---- JSON */

/* NULL: there are none. */
static const stage_answer *answer_stages(int *n, const setup *s, arena *a)
{
    *n = 0;
    if (s->pipe.why_not) return NULL;
    *n = (int)(s->pipe.pp * s->pipe.vpp);
    stage_answer *list = ARENA_ARRAY(a, stage_answer, *n);
    for (int i = 0; i < *n; i++) {
        const stage *st = &s->pipe.stages[i];
        list[i] = (stage_answer){i % s->pipe.pp, i / s->pipe.pp, st->first_layer, st->n_layers,
                                 st->embedding,  st->n_mtp,      st->loss};
    }
    return list;
}

static void print_json(const setup *s, bool with_program, int64_t rank, arena *a)
{
    setting_answer *list = ARENA_ARRAY(a, setting_answer, K_COUNT);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *set = &s->r.knob[k];
        list[k] = (setting_answer){knobs[k].key, answer_value(set->v), origin_names[set->from],
                                   set->why ? set->why : ""};
    }
    violations found;
    fit f;
    error err;
    rules_check(&found, s, false, a);
    if (fit_asked(&f, s, &found, a, &err)) f = (fit){.why_not = err.text};
    broken_answer *broken = ARENA_ARRAY(a, broken_answer, found.n); /* `check` has repairs */
    for (int i = 0; i < found.n; i++)
        broken[i] =
            (broken_answer){found.list[i].rule->id, severity_name(found.list[i].rule->severity),
                            found.list[i].message};
    bool laid_out = s->possible && !s->pipe.why_not;
    memory_program_answer with = {0};
    show_answer x = {.recipe = s->r.name,
                     .knobs = list,
                     .n_knobs = K_COUNT,
                     .model = answer_model(s, a),
                     .layout = answer_layout(s, a),
                     .ok = found.n_errors == 0,
                     .violations = broken,
                     .n_violations = found.n,
                     .fit = answer_fit(&f, a),
                     .memory_program = with_program ? &with : NULL};
    x.stages = answer_stages(&x.n_stages, s, a);
    if (laid_out) x.memory = answer_memory(s, answer_stage(s, &f), NULL, a);
    if (with_program) with.program = cli_program_answer(s, rank, a);
    cli_json_print(answer_json(show_answer, &x));
}

/* ---- the command */

typedef struct show_options {
    bool json, all, params, presets, ops, memory, schedule;
    const char *as, *rank;
} show_options;

static void print_presets(bool json)
{
    int n;
    const char *const *names = model_presets(&n);
    json_t *list = json_array();
    for (int i = 0; i < n && json; i++) json_array_append_new(list, json_string(names[i]));
    for (int i = 0; i < n && !json; i++) puts(names[i]);
    if (json)
        cli_json_print(list);
    else
        json_decref(list);
}

/* Options of which one would be left out in silence. */
static status one_thing(const show_options *o, error *err)
{
    const struct {
        const char *name;
        bool given, json, rank;
    } views[] = {{"--ops", o->ops, false, true},
                 {"--memory", o->memory, true, true},
                 {"--schedule", o->schedule, false, true},
                 {"--params", o->params, false, false},
                 {"--as", o->as != NULL, false, false}};
    int n = sizeof views / sizeof views[0], first = -1;
    for (int i = 0; i < n; i++) {
        if (views[i].given && first >= 0)
            return error_set(err, ERR_INPUT, "%s and %s: one at a time is shown; leave one out",
                             views[first].name, views[i].name);
        if (views[i].given) first = i;
    }
    if (o->json && first >= 0 && !views[first].json)
        return error_set(err, ERR_INPUT, "%s has no JSON; leave --json out", views[first].name);
    if (o->json && o->rank && first < 0)
        return error_set(err, ERR_INPUT,
                         "--rank %s: the JSON of a rank is that of its memory; repair: --memory",
                         o->rank);
    if (o->rank && first >= 0 && !views[first].rank)
        return error_set(err, ERR_INPUT, "--rank %s: %s is not of one rank; leave --rank out",
                         o->rank, views[first].name);
    return OK;
}

static status show(const recipe *given, const setup *s, const show_options *o, arena *a, error *err)
{
    if (o->as) return show_export(given, s, o->as, a, err);
    int64_t rank = 0;
    if (o->rank) TRY(word_rank(o->rank, s, &rank, err));
    const char *what = o->ops ? "ops" : o->memory ? "memory" : o->schedule ? "schedule" : NULL;
    if (what && !o->json) return cli_print_program(s, what, rank, a, err);
    if (o->json)
        print_json(s, o->memory, rank, a);
    else if (o->rank)
        cli_print_rank(s, rank, a);
    else if (o->params)
        print_params(s, a);
    else
        print_recipe(s, o->all, a);
    return OK;
}

/* --presets needs no recipe. */
static bool wants_presets(int argc, char **argv, bool *json)
{
    bool wanted = false;
    for (int i = 1; i < argc; i++) {
        *json = *json || text_equal(argv[i], "--json");
        wanted = wanted || text_equal(argv[i], "--presets");
        if (!text_equal(argv[i], "--json") && !text_equal(argv[i], "--presets")) return false;
    }
    return wanted;
}

int command_show(int argc, char **argv)
{
    show_options o = {0};
    const cli_option options[] = {
        {"--all", NULL, "also show knobs at their default", &o.all, NULL},
        {"--rank", "R",
         "show groups, layers and memory of one rank; with --ops, --memory or --schedule its "
         "program",
         NULL, &o.rank},
        {"--params", NULL, "show the parameter table", &o.params, NULL},
        {"--ops", NULL, "show the operations of the step program", &o.ops, NULL},
        {"--memory", NULL,
         "show the memory of the step program: by region, by module, over the step", &o.memory,
         NULL},
        {"--schedule", NULL, "show the pipeline schedule", &o.schedule, NULL},
        {"--as", "SYSTEM",
         "write the recipe as megatron-lm (flags), megatron-bridge (overrides), recipe (YAML) or "
         "config.json (Hugging Face)",
         NULL, &o.as},
        {"--presets", NULL, "list the built-in models", &o.presets, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &o.json, NULL},
    };
    if (wants_presets(argc, argv, &o.json)) {
        print_presets(o.json);
        return OK;
    }
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    bool done = false;
    status st = cli_read(a, &(cli_words){"show", argc, argv, options, 9}, r, &done, &err);
    if (!st && !done && o.presets)
        st = error_set(&err, ERR_INPUT, "--presets goes without a recipe: moefold show --presets");
    if (!st && !done) st = one_thing(&o, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done) st = show(r, s, &o, a, &err);
    int code = st ? cli_fail("show", st, &err) : OK;
    arena_destroy(a);
    return code;
}
