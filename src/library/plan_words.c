/* plan_words.c - from the words of `moefold plan` to a job: a recipe with cluster, sequence and
 * batch, in which what a person pinned is not searched.
 *
 * Words win over a recipe's file, and a recipe's file over what we would choose. Of a file the job
 * is kept (model, data, batch, sequence, precision, optimizer); what a search decides is open. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "config/models/models.h"
#include "library/plan_parts.h"
#include "predict/bands.h"
#include "config/input.h"
#include "config/target.h"
#include "predict/machine.h"
#include "plan/against.h"
#include "plan/search_space.h"

enum { TOKENS_A_STEP = 8 << 20, SECONDS = 60 /* unless --seconds says */ };

int plan_options(word_option out[WORD_OPTIONS_MAX], plan_words *w)
{
    const word_option options[] = {
        {"--gpus", "NxGPU",
         "GPU count and type, as in 256xH100; local or 4xlocal: ranks of this machine", NULL,
         &w->gpus},
        {"--seq", "TOKENS", "sequence length", NULL, &w->seq},
        {"--gbs", "N",
         "global batch size in samples; unset: about 8 M tokens, as a multiple of a divisor of the "
         "GPU count",
         NULL, &w->gbs},
        {"--pin", "KEY=VALUE", "keep a knob at this value instead of searching it; may be repeated",
         NULL, &w->pin},
        {"--against", "RECIPE",
         "show how a recipe ranks, and which changes lead from it to the winner", NULL,
         &w->against},
        {"--out", "FILE", "write the winner as a recipe", NULL, &w->out},
        {"--bring-up", "DIR", "write one recipe per bring-up step, from a plain one to the winner",
         NULL, &w->bring_up},
        {"--routing", ROUTING_WORD, ROUTING_HELP, NULL, &w->routed},
        {"--headroom", HEADROOM_WORD, HEADROOM_HELP, NULL, &w->headroom},
        {"--precision", "any", "search precisions, too; unset: the platform's default", NULL,
         &w->precision},
        {"--search", "all|published",
         "search only features that published runs on such GPUs have, or all; unset: published",
         NULL, &w->space},
        {"--seconds", "N", "end every search after N seconds with the best so far; unset: 60", NULL,
         &w->seconds},
        {"--stack", "NAME", "container generation, by its name in hardware/*.yaml", NULL,
         &w->stack},
        {"--more", NULL, "also search for headroom, activation offload and the smallest cluster",
         &w->more, NULL},
        {"--why", NULL, "add the other layouts, and what each choice would cost otherwise", &w->why,
         NULL},
        {"--everything", NULL, "add all that was found: the search's counts, every table",
         &w->everything, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w->json, NULL},
    };
    memcpy(out, options, sizeof options);
    return sizeof options / sizeof options[0];
}

/* ---- words */

/* Is there a word for the recipe? Without one, the job is that of --against. */
static bool names_recipe(int argc, char **argv, const plan_words *w)
{
    for (int i = 1; i < argc; i++) {
        const char *begun;
        bool named = strcmp(argv[i], "-") == 0 || model_is_named(argv[i]) || file_exists(argv[i]) ||
                     model_begun(argv[i], &begun);
        if (named && argv[i] != w->against && strcmp(argv[i - 1], "--out") != 0) return true;
    }
    return false;
}

/* Where only --against names a recipe, it is the recipe. */
static int with_recipe(int n, char **words, plan_words *w)
{
    for (int i = 1; i < n; i++) {
        if (strncmp(words[i], "--against=", 10) == 0) w->against = words[i] + 10;
        if (strcmp(words[i], "--against") == 0 && i + 1 < n) w->against = words[i + 1];
    }
    if (w->against && !names_recipe(n, words, w)) words[n++] = (char *)(uintptr_t)w->against;
    return n;
}

status plan_ready_words(int argc, char **argv, char **out, int *n, plan_words *w, error *err)
{
    status st = words_pins(argc, argv, out, n, &w->pin_all, err);
    *n = with_recipe(*n, out, w);
    return st;
}

/* ---- the cluster */

static status set_cluster(recipe *r, const plan_words *w, hardware *hw, arena *a, error *err)
{
    int64_t n = r->knob[K_N_GPUS].from == FROM_USER ? recipe_int(r, K_N_GPUS) : 0;
    const char *name = r->knob[K_GPU].from == FROM_USER ? recipe_word(r, K_GPU) : NULL;
    int64_t asked = 0;
    const char *named = NULL;
    status s = w->gpus ? word_gpus(a, w->gpus, &asked, &named, err) : OK;
    if (s) return s;
    if (named) name = named;
    if (w->gpus && (asked || named)) n = asked;
    if (!name)
        return error_set(err, ERR_INPUT,
                         "no GPUs are given; repair: --gpus 256xH100 (`moefold plan --help`)");
    bool local = strcasecmp(name, "local") == 0;
    bool ours = target_of(r) == TARGET_MOEFOLD;
    s = local ? machine_local(hw, &n, a, err) : machine_gpu(hw, name, ours, a, err);
    if (s && w->gpus) error_prefix(err, s, "--gpus %s", w->gpus);
    if (s) return s;
    if (recipe_given(r, K_HEADROOM)) hardware_leave(hw, recipe_real(r, K_HEADROOM));
    s = words_set_gpu(r, w->gpus ? w->gpus : name, name, err);
    if (s) return s;
    if (n < 1 && recipe_on_cpu(r)) n = sysconf(_SC_NPROCESSORS_ONLN);
    recipe_set(r, K_N_GPUS, value_of_int(n > 0 ? n : hw->gpus_per_node), "--gpus");
    return OK;
}

/* ---- sequence and batch */

/* A batch for a cluster where nobody gave one: about 8 million tokens, in a multiple of the largest
 * divisor of the GPU count that is not larger, so that DP may take any divisor up to that. */
typedef struct own_batch {
    int64_t wanted, samples, divisor;
} own_batch;

static own_batch batch_for(int64_t seq, int64_t world)
{
    int64_t n = TOKENS_A_STEP / seq > 1 ? TOKENS_A_STEP / seq : 1, d = n < world ? n : world;
    while (world % d) d--;
    return (own_batch){n, (n + d / 2) / d * d, d};
}

static const char *batch_reason(own_batch b, int64_t seq, arena *a)
{
    return arena_text(a,
                      "no --gbs: the multiple of %lld nearest 2^23 / %lld = %lld; %lld is the "
                      "largest divisor of the GPU count not above that",
                      (long long)b.divisor, (long long)seq, (long long)b.wanted,
                      (long long)b.divisor);
}

/* A count from its word, from the recipe, or from us, with where it came from. */
static void set_count(recipe *r, knob_id k, const char *word, int64_t n, const char *ours)
{
    bool given = !word && r->knob[k].from == FROM_USER && recipe_int(r, k) > 0;
    if (!given) recipe_set(r, k, value_of_int(n), ours);
}

static status set_batch(recipe *r, const plan_words *w, arena *a, error *err)
{
    int64_t world = recipe_int(r, K_N_GPUS), most = SPACE_MICROS_MOST * SPACE_MBS_MOST * world;
    int64_t seq = recipe_int(r, K_SEQ), gbs = recipe_int(r, K_GBS);
    status s = OK;
    if (w->seq) s = word_count("--seq", w->seq, 1 << 30, &seq, err);
    if (!s && w->gbs) s = word_count("--gbs", w->gbs, 1 << 30, &gbs, err);
    if (s) return s;
    if (seq < 1) seq = 4096;
    const char *why = "--gbs";
    if (gbs < 1 || (!w->gbs && r->knob[K_GBS].from != FROM_USER)) {
        own_batch own = batch_for(seq, world);
        gbs = own.samples < most ? own.samples : most;
        why = gbs == own.samples ? batch_reason(own, seq, a)
                                 : arena_text(a,
                                              "no --gbs: the most that is searched, %d "
                                              "microbatches of %d samples on each GPU",
                                              SPACE_MICROS_MOST, SPACE_MBS_MOST);
    }
    if (gbs > most)
        return error_set(
            err, ERR_INPUT,
            "--gbs %lld: on %lld GPUs a step would have more than %d microbatches of %d "
            "samples; at most --gbs %lld",
            (long long)gbs, (long long)world, SPACE_MICROS_MOST, SPACE_MBS_MOST, (long long)most);
    set_count(r, K_SEQ, w->seq, seq, w->seq ? "--seq" : "unset: 4096");
    set_count(r, K_GBS, w->gbs, gbs, why);
    if (recipe_int(r, K_MAX_POSITIONS) < seq)
        recipe_set(r, K_MAX_POSITIONS, value_of_int(seq), "--seq");
    return OK;
}

/* ---- what a file sets: the job is kept, what a search decides is left open */

static void open_job(plan_answer *p, recipe *r, const plan_words *w, arena *a)
{
    p->set = ARENA_RAW(a, recipe, 1);
    *p->set = *r;
    if (!w->pin_all) path_open(r, PLAN_BY_WORDS);
}

/* ---- a recipe to compare with */

static status read_against(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err)
{
    recipe *own = ARENA_NEW(a, recipe);
    recipe_init(own, a, w->against);
    if (!file_exists(w->against))
        return error_set(err, ERR_INPUT,
                         "--against %s: there is no such recipe (a YAML file, or an input of "
                         "Megatron-LM)",
                         w->against);
    TRY(input_read(own, w->against, &w->how, err));
    TRY(model_fill(own, err));
    p->own = own;
    return against_join(r, own, err);
}

/* ---- what is searched */

/* Our own program is not bound to what others ran. */
static status set_space(plan_answer *p, const recipe *r, const plan_words *w, error *err)
{
    bool all = text_equal(w->space, "all");
    if (w->space && !all && !text_equal(w->space, "published"))
        return error_set(err, ERR_INPUT,
                         "--search %s: write all, or published (features that published runs on "
                         "such GPUs have)",
                         w->space);
    bool known = band_family(recipe_word(r, K_GPU)) != 0;
    p->published = known && (w->space ? !all : target_of(r) != TARGET_MOEFOLD);
    return OK;
}

/* ---- time */

static status set_time(plan_answer *p, const plan_words *w, error *err)
{
    char *end = NULL;
    p->limit = w->seconds ? strtod(w->seconds, &end) : SECONDS;
    if (w->seconds && (end == w->seconds || *end || !(p->limit > 0) || p->limit > 1e9))
        return error_set(err, ERR_INPUT,
                         "--seconds %s: a number of seconds above 0 is needed, as in --seconds 60",
                         w->seconds);
    p->until = clock_seconds() + p->limit;
    return OK;
}

/* Where nobody said how torch's allocator works, the recipe that is written says it: what is
 * reserved beside what is allocated decides which layouts fit. */
static void set_allocator(recipe *r)
{
    if (recipe_on_cpu(r) || target_of(r) != TARGET_MEGATRON || recipe_given(r, K_ALLOC_CONF))
        return;
    recipe_set(r, K_ALLOC_CONF, value_of_text("expandable_segments:True"),
               "torch's allocator leaves less of its reserved memory unused");
}

/* Fused kernels of the router and of permutation are faster on every layout, and performance
 * recipes of every generation have them. */
static void set_fusions(recipe *r)
{
    static const knob_id fused[] = {K_ROUTER_FUSION, K_PERMUTE_FUSION};
    if (recipe_on_cpu(r) || target_of(r) != TARGET_MEGATRON || !recipe_given(r, K_EXPERTS)) return;
    for (size_t i = 0; i < sizeof fused / sizeof fused[0]; i++)
        if (r->knob[fused[i]].from != FROM_USER && !recipe_on(r, fused[i]))
            recipe_set(r, fused[i], value_of_bool(true), "one kernel instead of several");
}

/* ---- the whole */

/* Whatever the layout, the model is the same. */
static status set_routing(recipe *r, const plan_words *w, plan_answer *p, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    TRY(setup_init(s, r, a, err));
    return words_routing(&p->prices, w->routed, s, a, err);
}

status plan_prepare(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err)
{
    hardware *hw = ARENA_NEW(a, hardware);
    status s = set_time(p, w, err);
    p->pin_all = w->pin_all;
    open_job(p, r, w, a);
    if (!s && w->against) s = read_against(p, r, w, a, err);
    if (!s) s = set_cluster(r, w, hw, a, err);
    if (!s) s = set_space(p, r, w, err);
    if (!s) s = set_batch(r, w, a, err);
    if (!s) words_routing_knob(r, w->routed);
    if (!s && p->own) s = against_join(r, p->own, err); /* now with cluster and batch */
    if (!s && w->routed) s = set_routing(r, w, p, a, err);
    if (!s) s = hardware_has_stack(hw, w->stack ? w->stack : recipe_word(r, K_STACK), err);
    if (!s && w->precision && strcmp(w->precision, "any") != 0)
        s = error_set(err, ERR_INPUT, "--precision %s: any, or --pin mixed_precision=NAME",
                      w->precision);
    set_allocator(r);
    if (!w->pin_all) set_fusions(r);
    p->hw = hw;
    p->given = r;
    p->world = recipe_int(r, K_N_GPUS);
    p->prices.stack = w->stack;
    p->more = w->more;
    p->any_precision = w->precision != NULL;
    p->out = w->out;
    p->steps = w->bring_up;
    return s;
}
