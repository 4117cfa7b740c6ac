/* test_plan_random.c - properties of plans over random jobs: every GPU, every family of presets.
 *
 * TEST_ALL draws 300 jobs of any size, otherwise 30 on small clusters; TEST_SEED is another seed.
 * What fails is printed as a command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/models/models.h"
#include "cli/cli.h"
#include "library/plan_parts.h"
#include "predict/bands.h"
#include "plan/changes.h"
#include "config/export.h"
#include "config/input.h"
#include "rules/rules.h"
#include "plan/search_axes.h"
#include "plan/search_space.h"

/* main.c's table is not part of the library. */
const char cli_absent[] = "";

const command *command_table(int *n)
{
    *n = 0;
    return NULL;
}

/* ---- random jobs */

static uint64_t state_of_random;

static uint32_t draw(uint32_t below)
{
    state_of_random =
        state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state_of_random >> 33) % below;
}

#define DRAW(list) list[draw((uint32_t)(sizeof(list) / sizeof(list)[0]))]

typedef struct drawn_job {
    const char *model, *gpus, *seq, *gbs, *space, *pin; /* pin: NULL, or one override */
} drawn_job;

static bool long_form(void)
{
    return getenv("TEST_ALL") != NULL;
}

static drawn_job draw_job(arena *a)
{
    static const char *const chips[] = {"A100", "H100", "H200",  "H800",
                                        "B200", "B300", "GB200", "GB300"};
    static const int worlds[] = {8, 16, 24, 32, 64, 72, 128, 256}, few[] = {8, 8, 16};
    static const int seqs[] = {4096, 4096, 8192, 16384, 32768, 131072};
    static const int batches[] = {48, 64, 128, 256, 480, 1024, 2048}, small[] = {32, 48, 64, 128};
    static const char *const pins[] = {"mixed_precision=bf16_mixed",
                                       "model.moe_router_force_load_balancing=true",
                                       NULL,
                                       NULL,
                                       NULL,
                                       NULL};
    int n;
    const char *const *models = model_presets(&n);
    drawn_job j = {.model = models[draw((uint32_t)n)], .pin = DRAW(pins)};
    j.gpus = arena_text(a, "%dx%s", long_form() ? DRAW(worlds) : DRAW(few), DRAW(chips));
    j.seq = arena_text(a, "%d", DRAW(seqs));
    j.gbs = arena_text(a, "%d", long_form() ? DRAW(batches) : DRAW(small));
    j.space = draw(4) ? NULL : "all";
    return j;
}

static const char *command_of(const drawn_job *j, const char *pin, arena *a)
{
    return arena_text(a, "moefold plan %s --gpus %s --seq %s --gbs %s%s%s%s%s%s%s", j->model,
                      j->gpus, j->seq, j->gbs, j->space ? " --search " : "",
                      j->space ? j->space : "", j->pin ? " --pin " : "", j->pin ? j->pin : "",
                      pin ? " --pin " : "", pin ? word_quoted(a, pin) : "");
}

/* The plan's job, ready to be searched. */
static plan_answer *prepare(const drawn_job *j, const plan_words *w, const char *pin, arena *a)
{
    error err = {{0}};
    plan_answer *p = ARENA_NEW(a, plan_answer);
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, j->model);
    recipe_set(r, K_MODEL, value_of_text(j->model), "test");
    if ((j->pin && recipe_override(r, j->pin, PLAN_BY_WORDS, &err)) ||
        (pin && recipe_override(r, pin, PLAN_BY_WORDS, &err)) || model_fill(r, &err) ||
        plan_prepare(p, r, w, a, &err))
        fail_msg("%s: %s", command_of(j, pin, a), err.text);
    p->until = 0; /* a loaded machine changes nothing */
    return p;
}

static plan_words words_of(const drawn_job *j)
{
    return (plan_words){.gpus = j->gpus, .seq = j->seq, .gbs = j->gbs, .space = j->space};
}

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

static const found *fastest_of(const search_result *r)
{
    const found *f = &r->best[0];
    for (int i = 1; i < r->n_best; i++)
        if (seconds_of(&r->best[i]) < seconds_of(f)) f = &r->best[i];
    return f;
}

/* ---- pins */

typedef struct pin_list {
    const char *list[512];
    int n;
} pin_list;

static void add_pin(pin_list *l, const char *pin)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->list[i], pin) == 0) return;
    if (l->n < 512) l->list[l->n++] = pin;
}

/* Knobs that a graph of the whole step brings with it, by themselves: with those a person asks for
 * something that is not searched. */
static bool goes_with_graphs(knob_id k)
{
    return k == K_OP_FUSER || k == K_PAGED_STASH || k == K_RANK_CAPACITY || k == K_NAN_LOSS ||
           k == K_NAN_GRAD;
}

static void pins_of_row(pin_list *l, const plan_answer *p, const choice *c, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_recipe(r, p->result, p->given, c);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &r->knob[k];
        bool open = p->given->knob[k].from != FROM_USER || !value_equal(p->given->knob[k].v, x->v);
        if (x->from == FROM_USER && open && !goes_with_graphs((knob_id)k))
            add_pin(l, arena_text(a, "%s=%s", knobs[k].key, value_text(a, x->v)));
    }
}

static void pins_of_sizes(pin_list *l, const plan_answer *p, arena *a)
{
    static const struct {
        knob_id k;
        int most;
    } sizes[] = {{K_TP, 16},
                 {K_CP, 64},
                 {K_EP, 512},
                 {K_ETP, 16},
                 {K_PP, 64},
                 {K_VPP, 24},
                 {K_MBS, SPACE_MBS_MOST}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int64_t v = 1; v <= sizes[i].most; v++) {
            int64_t whole = sizes[i].k == K_MBS ? recipe_int(p->given, K_GBS) : p->world;
            if (sizes[i].k == K_VPP || whole % v == 0)
                add_pin(l, arena_text(a, "%s=%lld", knobs[sizes[i].k].key, (long long)v));
        }
}

/* ---- properties, all of one search of a job */

typedef enum property { PINS, RETURNS, LEAVES, MODULES, CHANGES, PROPERTIES } property;

static struct {
    int tried, failed;
} seen[PROPERTIES];

static void see(property which, bool good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void see(property which, bool good, const char *format, ...)
{
    va_list list;
    char text[2048];
    seen[which].tried++;
    if (good) return;
    seen[which].failed++;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    print_message("%s\n", text);
}

/* Is there a layout with this pin that is faster? */
static void try_pin(const drawn_job *j, const plan_answer *p, const search_options *o,
                    const char *pin)
{
    arena *a = arena_create();
    error err = {{0}};
    plan_words w = words_of(j);
    plan_answer *q = prepare(j, &w, pin, a);
    search_options below = *o;
    double fastest = fastest_of(p->result)->step_s;
    below.hw = q->hw;
    below.below = fastest * (1 - 1e-9);
    search_result *r = ARENA_NEW(a, search_result);
    bool faster = search_run(r, q->given, &below, a, &err) == OK && r->n_best;
    see(PINS, !faster, "%s: %.6f s, without the pin %.6f s", command_of(j, pin, a),
        faster ? r->best[0].step_s : 0, fastest);
    arena_destroy(a);
}

static void try_pins(const drawn_job *j, const plan_answer *p, const search_options *o, int n,
                     arena *a)
{
    pin_list list = {.n = 0};
    const search_result *r = p->result;
    pins_of_row(&list, p, &fastest_of(r)->c, a);
    pins_of_row(&list, p, &r->best[draw((uint32_t)r->n_best)].c, a);
    pins_of_sizes(&list, p, a);
    while (n-- > 0) try_pin(j, p, o, list.list[draw((uint32_t)list.n)]);
}

/* A file with this text, read as a recipe on the plan's machine; NULL: it cannot be. */
static setup *read_back(const textbuf *t, const plan_answer *p, arena *a, error *err)
{
    char path[] = "/tmp/plan-XXXXXX";
    int file = mkstemp(path);
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    assert_true(file >= 0 && write(file, t->s, t->n) == (ssize_t)t->n && close(file) == 0);
    recipe_init(r, a, path);
    status st = input_read(r, path, NULL, err);
    unlink(path);
    recipe_set(r, K_GPU, p->given->knob[K_GPU].v, "test"); /* a list of flags has none */
    recipe_set(r, K_N_GPUS, value_of_int(p->world), "test");
    if (!st) st = model_fill(r, err);
    if (!st) st = setup_init(s, r, a, err);
    return st ? NULL : s;
}

/* The first knob that differs; K_COUNT: none does. */
static int differs(const recipe *x, const recipe *y)
{
    int k = 0;
    while (k < K_COUNT && value_equal(x->knob[k].v, y->knob[k].v)) k++;
    return k;
}

/* What --out writes is the layout that was planned, and valid. */
static void try_return(const drawn_job *j, const recipe *winner, const setup *s,
                       const plan_answer *p, arena *a)
{
    error err = {{0}};
    violations v = {0};
    textbuf t = text_init(a);
    export_yaml(winner, false, &t);
    setup *back = read_back(&t, p, a, &err);
    const char *said = command_of(j, NULL, a);
    if (back) rules_check(&v, back, false, a);
    int k = back ? differs(&s->r, &back->r) : K_COUNT;
    see(RETURNS, back != NULL, "%s: %s", said, err.text);
    see(RETURNS, !v.n_errors, "%s --out FILE: %s", said, v.n_errors ? v.list[0].message : "");
    see(RETURNS, k == K_COUNT, "%s --out FILE: %s differs when it is read", said,
        k < K_COUNT ? knobs[k].key : "");
}

/* It can be told to both systems, and what is told to Megatron-LM costs the same and has nothing
 * that its own argument check refuses. */
static void try_leave(const drawn_job *j, const recipe *winner, const setup *s,
                      const plan_answer *p, arena *a)
{
    static const struct {
        const char *name;
        knob_system system;
    } to[] = {{"megatron-lm", MEGATRON_LM}, {"megatron-bridge", MEGATRON_BRIDGE}};
    error err = {{0}};
    violations v;
    const char *said = command_of(j, NULL, a);
    rules_check(&v, s, true, a);
    see(LEAVES, !v.n_errors, "%s: %s", said, v.n_errors ? v.list[0].message : "");
    bool list = true;
    recipe *follows = ARENA_NEW(a, recipe);
    setup *there = ARENA_NEW(a, setup);
    *follows = *winner;
    export_follow(follows, &s->r, MEGATRON_LM);
    assert_int_equal(setup_init(there, follows, a, &err), OK);
    for (int i = 0; i < 2; i++) {
        export_gap gaps[EXPORT_GAPS_MAX];
        const recipe *told = to[i].system == MEGATRON_LM ? &there->r : &s->r;
        int n = export_gaps(told, to[i].system, gaps, a);
        /* No layout of these models goes to Megatron-LM (OLMoE; YaRN of Kimi-K2). */
        if (n && (gaps[0].knob == K_QK_NORM_WHOLE || gaps[0].knob == K_ROPE_BETA_FAST)) {
            list = false;
            continue;
        }
        see(LEAVES, !n, "%s --out FILE; moefold show FILE --as %s: %s: %s", said, to[i].name,
            n ? knobs[gaps[0].knob].key : "", n ? gaps[0].why : "");
        if (n) return;
    }
    if (!list) return;
    textbuf t = text_init(a);
    export_megatron_lm(&there->r, &t);
    bool moved_by = strstr(t.s, "expandable_segments:True") &&
                    strstr(t.s, "--cuda-graph-impl transformer_engine");
    see(LEAVES, !moved_by || strstr(t.s, "NCCL_GRAPH_REGISTER=0 "), "%s: graphs are registered",
        said);
    see(LEAVES, !strstr(t.s, "--cross-entropy-fusion-impl te"), "%s: refused cross entropy", said);
    setup *back = read_back(&t, p, a, &err);
    price *x = ARENA_NEW(a, price), *y = ARENA_NEW(a, price);
    price_setup(x, there, p->hw, &p->prices, a);
    if (back) price_setup(y, back, p->hw, &p->prices, a);
    see(LEAVES, back && x->step_s == y->step_s && x->peak_bytes == y->peak_bytes,
        "%s: %.9f s, %lld bytes; from Megatron-LM's list %.9f s, %lld bytes %s", said, x->step_s,
        (long long)x->peak_bytes, y->step_s, (long long)y->peak_bytes, err.text);
}

/* Does a published run on such GPUs have each feature of the changed recipe? */
static bool supported(const recipe *given, const char *words, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    char *copy = arena_copy(a, words, strlen(words)), *rest = NULL;
    *r = *given;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        assert_int_equal(recipe_override(r, w, "test", &err), OK);
    assert_int_equal(setup_init(s, r, a, &err), OK);
    band_traits t = band_traits_of(s);
    return band_unsupported(&t) == BAND_FEATURES;
}

/* No change that `price` offers is a better plan, but for number formats, which a plan keeps,
 * activation offload, which a plan tries with --more alone, and features that no published run
 * has. */
static void try_changes(const drawn_job *j, const recipe *row, const plan_answer *p, arena *a)
{
    price *now = ARENA_NEW(a, price);
    recipe *given = ARENA_NEW(a, recipe), *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    price_change list[64];
    *given = *r = *row;
    assert_int_equal(setup_init(s, r, a, &err), OK);
    price_setup(now, s, p->hw, &p->prices, a);
    int n = price_changes(list, 64, &(change_job){given, now, p->hw, &p->prices, NULL}, a);
    for (int i = 0; i < n; i++) {
        if (!list[i].fits || list[i].gain < 0.005 || strstr(list[i].words, "mixed_precision") ||
            strstr(list[i].words, "fine_grained_activation_offloading=true"))
            continue;
        see(CHANGES, !supported(row, list[i].words, a), "%s: %s is %.1f %% faster",
            command_of(j, NULL, a), list[i].words, 100 * list[i].gain);
    }
}

/* ---- the jobs */

/* Does this rule forbid modules of graphs, whatever else the layout is? */
static bool is_of_modules(const rule *r, const search_result *of_search)
{
    unsigned of[K_COUNT];
    axes_of_knobs(of, of_search->maker);
    return !(axes_of_rule(r, of, NULL) & ~(unsigned)(ON_GRAPHS | ON_TP | ON_PRECISION)) &&
           r->reads && strstr(r->reads, "K_GRAPH_MODULES");
}

static void try_drawn(const drawn_job *j, int pins, bool changes)
{
    arena *a = arena_create();
    error err = {{0}};
    plan_words w = words_of(j);
    plan_answer *p = prepare(j, &w, NULL, a);
    search_result *r = p->result = ARENA_NEW(a, search_result);
    search_options o = {.hw = p->hw, .published = p->published, .unpriced = true};
    if (search_run(r, p->given, &o, a, &err) == OK && r->n_best) {
        try_pins(j, p, &o, pins, a);
        recipe *winner = ARENA_NEW(a, recipe), *row = ARENA_NEW(a, recipe);
        setup *s = ARENA_NEW(a, setup);
        search_recipe(winner, r, p->given, &r->best[0].c);
        search_recipe(row, r, p->given, &fastest_of(r)->c);
        assert_int_equal(setup_init(s, winner, a, &err), OK);
        try_return(j, winner, s, p, a);
        try_leave(j, winner, s, p, a);
        if (changes) try_changes(j, row, p, a);
    }
    for (int i = 0; i < r->n_breaks; i++)
        see(MODULES, !is_of_modules(r->breaks[i].rule, r), "%s: %s", command_of(j, NULL, a),
            r->breaks[i].rule->id);
    arena_destroy(a);
}

/* Jobs in which something was missed once. */
static const drawn_job named[] = {
    {.model = "deepseek-v2", .gpus = "16xH200", .seq = "4096", .gbs = "64"},
    {.model = "qwen3-next-80b-a3b", .gpus = "32xB200", .seq = "8192", .gbs = "512"},
    {.model = "qwen3-30b-a3b", .gpus = "24xGB200", .seq = "16384", .gbs = "504"},
    {.model = "kimi-k2", .gpus = "64xH200", .seq = "4096", .gbs = "48"},
    {.model = "tiny", .gpus = "16xH800", .seq = "4096", .gbs = "48"},
    {.model = "tiny", .gpus = "24xGB300", .seq = "4096", .gbs = "2048"},
    {.model = "qwen2.5-32b", .gpus = "32xGB300", .seq = "8192", .gbs = "1024"},
};

static int try_jobs(void **state)
{
    (void)state;
    const char *given = getenv("TEST_SEED");
    int jobs = long_form() ? 300 : 30, pins = long_form() ? 24 : 3;
    state_of_random = given ? strtoull(given, NULL, 10) : 20261119;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) try_drawn(&named[i], pins, true);
    for (int i = 0; i < jobs; i++) {
        arena *a = arena_create();
        drawn_job j = draw_job(a);
        try_drawn(&j, pins, long_form() || i % 10 == 0);
        arena_destroy(a);
    }
    return 0;
}

static void property_holds(property which)
{
    print_message("%d tried, %d failed\n", seen[which].tried, seen[which].failed);
    assert_int_equal(seen[which].failed, 0);
}

static void no_pin_finds_a_faster_layout(void **state)
{
    (void)state;
    assert_true(seen[PINS].tried > 20);
    property_holds(PINS);
}

static void a_winner_that_is_written_is_read_as_it_was_planned(void **state)
{
    (void)state;
    assert_true(seen[RETURNS].tried > 10);
    property_holds(RETURNS);
}

static void every_winner_can_be_told_to_megatron(void **state)
{
    (void)state;
    assert_true(seen[LEAVES].tried > 10);
    property_holds(LEAVES);
}

static void no_layout_names_modules_of_graphs_that_a_rule_forbids(void **state)
{
    (void)state;
    property_holds(MODULES);
}

static void price_offers_nothing_that_a_plan_should_have_found(void **state)
{
    (void)state;
    property_holds(CHANGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pin_finds_a_faster_layout),
        cmocka_unit_test(a_winner_that_is_written_is_read_as_it_was_planned),
        cmocka_unit_test(every_winner_can_be_told_to_megatron),
        cmocka_unit_test(no_layout_names_modules_of_graphs_that_a_rule_forbids),
        cmocka_unit_test(price_offers_nothing_that_a_plan_should_have_found),
    };
    return cmocka_run_group_tests(tests, try_jobs, NULL);
}
