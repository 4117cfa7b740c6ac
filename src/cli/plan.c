/* plan.c - `moefold plan`: what to run on a cluster, and why. */
#include "cli/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/routing.h"
#include "recipe/export.h"
#include "run/timing.h"

enum { TOKENS_A_STEP = 8 << 20, PINS_MAX = 64 };

static const char by_block[] = "equal blocks of nodes for each NVLink domain";

/* ---- words */

/* "256xH100", or "H100" for one node. */
static status read_gpus(const char *word, int64_t *n, const char **name, error *err)
{
    char *end;
    long long count = strtoll(word, &end, 10);
    if (end == word) {
        *n = 0;
        *name = word;
        return OK;
    }
    if (*end != 'x' || !end[1] || count < 1 || count > LAYOUT_WORLD_MAX)
        return error_set(err, ERR_INPUT, "--gpus=%s: write a count, x and a name, as in 256xH100",
                         word);
    *n = count;
    *name = end + 1;
    return OK;
}

static status read_count(const char *option, const char *word, int64_t *n, error *err)
{
    char *end;
    long long count = strtoll(word, &end, 10);
    if (end == word || *end || count < 1 || count > (1LL << 40))
        return error_set(err, ERR_INPUT, "%s=%s: a whole number from 1 on is wanted", option, word);
    *n = count;
    return OK;
}

/* GPUs, and the NVLink domain that such a job fills: schedulers hand out equal blocks of nodes, so
 * that a job of 256 on racks of 72 has four of 64. */
static void set_world(recipe *r, const hardware *hw, int64_t n)
{
    recipe_set(r, K_N_GPUS, value_of_int(n), "--gpus");
    int64_t node = hw->gpus_per_node, block = hw->nvlink_domain;
    if (block <= node || n <= block || n % node) return;
    while (block > node && n % block) block -= node;
    bool open = r->knob[K_NVLINK].from != FROM_USER || r->knob[K_NVLINK].why == by_block;
    if (open && block % node == 0) recipe_set(r, K_NVLINK, value_of_int(block), by_block);
}

static status set_cluster(recipe *r, const plan_words *w, hardware *hw, arena *a, error *err)
{
    if (!w->gpus)
        return error_set(err, ERR_INPUT, "say on what: --gpus 256xH100 (`moefold plan --help`)");
    int64_t n = 0;
    const char *name = "";
    status s = read_gpus(w->gpus, &n, &name, err);
    bool local = strcasecmp(name, "local") == 0;
    if (!s) s = local ? timing_local(hw, &n, a, err) : hardware_read(hw, name, a, err);
    if (s) return s;
    const gpu *g = gpu_find(hw->name);
    if (!g) g = gpu_find(strcmp(hw->name, "local") ? name : "cpu");
    if (!g)
        return error_set(err, ERR_INPUT, "--gpus=%s: a description %s exists, but no cluster.gpu",
                         w->gpus, hw->name);
    if (!n && text_equal(g->name, "cpu")) n = sysconf(_SC_NPROCESSORS_ONLN);
    recipe_set(r, K_GPU, value_of_text(g->name), "--gpus");
    set_world(r, hw, n ? n : hw->gpus_per_node);
    return OK;
}

static int64_t batch_for(int64_t seq)
{
    int64_t gbs = 1;
    while (gbs * 2 * seq <= TOKENS_A_STEP) gbs *= 2;
    return gbs;
}

static status set_batch(recipe *r, const plan_words *w, error *err)
{
    int64_t seq = recipe_int(r, K_SEQ), gbs = recipe_int(r, K_GBS);
    status s = OK;
    if (w->seq) s = read_count("--seq", w->seq, &seq, err);
    if (!s && w->gbs) s = read_count("--gbs", w->gbs, &gbs, err);
    if (s) return s;
    if (seq < 1) seq = 4096;
    if (gbs < 1) gbs = batch_for(seq);
    recipe_set(r, K_SEQ, value_of_int(seq), w->seq ? "--seq" : "unset: 4096");
    recipe_set(r, K_GBS, value_of_int(gbs), w->gbs ? "--gbs" : "about 8 million tokens a step");
    if (recipe_int(r, K_MAX_POSITIONS) < seq)
        recipe_set(r, K_MAX_POSITIONS, value_of_int(seq), "--seq");
    return OK;
}

/* ---- the answer */

static status write_recipe(const plan_answer *p, const char *path, arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    textbuf t = text_init(a);
    export_yaml(r, false, &t);
    return file_write(path, t.s, t.n, err);
}

/* More GPUs, doubled until something fits. */
static void find_fewest(plan_answer *p, const search_options *o, arena *a)
{
    for (int64_t n = p->world * 2; n <= p->world * 64 && n <= LAYOUT_WORLD_MAX; n *= 2) {
        recipe *r = ARENA_NEW(a, recipe);
        *r = *p->given;
        set_world(r, p->hw, n);
        search_options more = *o;
        more.only_fit = true;
        search_result *found_there = ARENA_NEW(a, search_result);
        error err = {{0}};
        if (search_run(found_there, r, &more, a, &err) == OK && found_there->n_best) {
            p->fewest = n;
            return;
        }
    }
}

/* The winner on twice as many GPUs: DP doubles. */
static void price_next(plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    set_world(r, p->hw, p->world * 2);
    violations v;
    if (setup_init(s, r, a, &err) || !s->possible || s->pipe.why_not) return;
    rules_check(&v, s, false, a);
    if (v.n_errors) return;
    price_setup(&p->next, s, p->hw, &p->prices, a);
    p->has_next = true;
}

static int answer(plan_answer *p, const plan_words *w, const search_options *o, arena *a)
{
    error err = {{0}};
    status st = search_run(p->result, p->given, o, a, &err);
    if (st) return cli_fail("plan", st, &err);
    if (!p->result->n_best) {
        find_fewest(p, o, a);
        if (w->json)
            plan_print_json(p, a);
        else
            plan_print_miss(p, a);
        return ERR_RULE;
    }
    price_next(p, a);
    const char *path = w->out ? w->out : NULL;
    if (path) st = write_recipe(p, path, a, &err);
    if (st) return cli_fail("plan", st, &err);
    if (w->json) {
        plan_print_json(p, a);
        return OK;
    }
    plan_print(p, a);
    plan_explain(p, a);
    const char *routed = cli_routing_text(&p->result->best[0].exact, &p->prices, a);
    if (routed) printf("\nRouting  %s\n", routed);
    if (path) printf("\nWritten to %s: moefold check %s\n", path, path);
    return OK;
}

/* `--pin key=value` is an override: what a person set is not searched. */
static int without_pins(int argc, char **argv, char **out)
{
    int n = 0;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--pin") != 0) out[n++] = argv[i];
    return n;
}

/* Whatever the layout, the model is the same. */
static status set_routing(recipe *r, const plan_words *w, plan_answer *p, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    status st = setup_init(s, r, a, err);
    return st ? st : cli_routing(&p->prices, w->routed, s, a, err);
}

static status prepare(recipe *r, const plan_words *w, plan_answer *p, arena *a, error *err)
{
    hardware *hw = ARENA_NEW(a, hardware);
    status s = set_cluster(r, w, hw, a, err);
    if (!s) s = set_batch(r, w, err);
    if (!s) s = hardware_has_stack(hw, w->stack ? w->stack : recipe_word(r, K_STACK), err);
    if (!s && w->routed) s = set_routing(r, w, p, a, err);
    p->prices.stack = w->stack;
    p->hw = hw;
    p->given = r;
    p->world = recipe_int(r, K_N_GPUS);
    return s;
}

int command_plan(int argc, char **argv)
{
    plan_words w = {0};
    bool done = false;
    const cli_option options[] = {
        {"--gpus", "NxGPU",
         "how many of which, as in 256xH100; local, 4xlocal: ranks of this machine", NULL, &w.gpus},
        {"--seq", "TOKENS", "sequence length", NULL, &w.seq},
        {"--gbs", "N", "samples a step; unset: about 8 million tokens", NULL, &w.gbs},
        {"--out", "FILE", "write the winner as a recipe", NULL, &w.out},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &w.routed},
        {"--precision", "any", "search precisions too; unset: the platform's", NULL, &w.precision},
        {"--stack", "NAME", "container generation, as hardware/*.yaml names it", NULL, &w.stack},
        {"--json", NULL, "print for programs", &w.json, NULL},
    };
    arena *a = arena_create();
    char **words = ARENA_ARRAY(a, char *, argc + 1);
    int n = without_pins(argc, argv, words);
    recipe *r = ARENA_NEW(a, recipe);
    plan_answer *p = ARENA_NEW(a, plan_answer);
    error err = {{0}};
    status st =
        cli_read(a, "plan", n, words, options, sizeof options / sizeof options[0], r, &done, &err);
    if (!st && !done) st = prepare(r, &w, p, a, &err);
    p->result = ARENA_NEW(a, search_result);
    search_options o = {.hw = p->hw, .prices = p->prices};
    o.any_precision = w.precision && strcmp(w.precision, "any") == 0;
    int code = OK;
    if (!st && w.precision && !o.any_precision)
        st = error_set(&err, ERR_INPUT, "--precision=%s: any, or --pin mixed_precision=NAME",
                       w.precision);
    if (st)
        code = cli_fail("plan", st, &err);
    else if (!done)
        code = answer(p, &w, &o, a);
    arena_destroy(a);
    return code;
}
