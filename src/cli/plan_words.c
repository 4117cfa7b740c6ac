/* plan_words.c - from the words of `moefold plan` to a job: a recipe with cluster, sequence and
 * batch, in which what a person set is not searched.
 *
 * Words win over a recipe's file, and a recipe's file over what we would choose. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/plan.h"
#include "cli/routing.h"
#include "run/timing.h"
#include "search/against.h"
#include "search/search_space.h"

enum { TOKENS_A_STEP = 8 << 20, SAMPLES_MOST = 1 << 16 };

static const char by_block[] = "equal blocks of nodes for each NVLink domain";

/* ---- pins */

/* `--pin key=value` is an override: what a person set is not searched. */
status plan_take_pins(int argc, char **argv, char **out, int *n, error *err)
{
    *n = 0;
    for (int i = 0; i < argc; i++) {
        bool joined = strncmp(argv[i], "--pin=", 6) == 0;
        if (!joined && strcmp(argv[i], "--pin") != 0) {
            out[(*n)++] = argv[i];
            continue;
        }
        char *pin = joined ? argv[i] + 6 : i + 1 < argc ? argv[++i] : NULL;
        if (!pin || pin[0] == '-' || !strchr(pin, '='))
            return error_set(err, ERR_INPUT,
                             "--pin%s%s: write a knob and its value, as in --pin "
                             "model.context_parallel_size=32 (`moefold knobs` lists them)",
                             pin ? " " : "", pin ? pin : "");
        out[(*n)++] = pin;
    }
    return OK;
}

/* ---- the cluster */

/* "256xH100", or "H100" for one node. */
static status read_gpus(const char *word, int64_t *n, const char **name, error *err)
{
    char *end;
    long long count = strtoll(word, &end, 10);
    if (end == word && *word) {
        *n = 0;
        *name = word;
        return OK;
    }
    if (*end != 'x' || !end[1])
        return error_set(err, ERR_INPUT, "--gpus %s: write a count, x and a name, as in 256xH100",
                         word);
    if (count < 1 || count > LAYOUT_WORLD_MAX)
        return error_set(err, ERR_INPUT,
                         "--gpus %s: a count from 1 to %lld is wanted, as in 256x%s", word,
                         (long long)LAYOUT_WORLD_MAX, end + 1);
    *n = count;
    *name = end + 1;
    return OK;
}

/* Schedulers hand out equal blocks of nodes, so that a job of 256 on racks of 72 has four of 64. */
void plan_set_world(recipe *r, const hardware *hw, int64_t n)
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
    int64_t n = r->knob[K_N_GPUS].from == FROM_USER ? recipe_int(r, K_N_GPUS) : 0;
    const char *name = r->knob[K_GPU].from == FROM_USER ? recipe_word(r, K_GPU) : NULL;
    status s = w->gpus ? read_gpus(w->gpus, &n, &name, err) : OK;
    if (s) return s;
    if (!name)
        return error_set(err, ERR_INPUT, "say on what: --gpus 256xH100 (`moefold plan --help`)");
    bool local = strcasecmp(name, "local") == 0;
    s = local ? timing_local(hw, &n, a, err) : hardware_read(hw, name, a, err);
    if (s && w->gpus) error_prefix(err, s, "--gpus %s", w->gpus);
    if (s) return s;
    value located = recipe_located(r, K_GPU, value_of_text(name), "");
    s = recipe_set_key(r, knobs[K_GPU].key, located, "--gpus", err);
    if (!s) s = recipe_read_machine(r, err);
    if (s) return s;
    if (n < 1 && recipe_on_cpu(r)) n = sysconf(_SC_NPROCESSORS_ONLN);
    plan_set_world(r, hw, n > 0 ? n : hw->gpus_per_node);
    return OK;
}

/* ---- sequence and batch */

static status read_count(const char *option, const char *word, int64_t most, int64_t *n, error *err)
{
    char *end;
    long long count = strtoll(word, &end, 10);
    if (end == word || *end || count < 1 || count > most)
        return error_set(err, ERR_INPUT, "%s %s: a whole number from 1 to %lld is wanted", option,
                         word, (long long)most);
    *n = count;
    return OK;
}

static int64_t batch_for(int64_t seq)
{
    int64_t gbs = 1;
    while (gbs * 2 * seq <= TOKENS_A_STEP && gbs < SAMPLES_MOST) gbs *= 2;
    return gbs;
}

/* A count from its word, from the recipe, or from us, with where it came from. */
static void set_count(recipe *r, knob_id k, const char *word, int64_t n, const char *ours)
{
    bool given = !word && r->knob[k].from == FROM_USER && recipe_int(r, k) > 0;
    if (!given) recipe_set(r, k, value_of_int(n), ours);
}

static status set_batch(recipe *r, const plan_words *w, error *err)
{
    int64_t seq = recipe_int(r, K_SEQ), gbs = recipe_int(r, K_GBS);
    status s = OK;
    if (w->seq) s = read_count("--seq", w->seq, 1 << 30, &seq, err);
    if (!s && w->gbs) s = read_count("--gbs", w->gbs, 1 << 30, &gbs, err);
    if (s) return s;
    if (seq < 1) seq = 4096;
    if (gbs < 1 || (!w->gbs && r->knob[K_GBS].from != FROM_USER)) gbs = batch_for(seq);
    int64_t most = SPACE_MICROS_MOST * SPACE_MBS_MOST * recipe_int(r, K_N_GPUS);
    if (gbs > most)
        return error_set(
            err, ERR_INPUT,
            "--gbs %lld: on %lld GPUs a step would have more than %d microbatches of %d "
            "samples; at most --gbs %lld",
            (long long)gbs, (long long)recipe_int(r, K_N_GPUS), SPACE_MICROS_MOST, SPACE_MBS_MOST,
            (long long)most);
    set_count(r, K_SEQ, w->seq, seq, w->seq ? "--seq" : "unset: 4096");
    set_count(r, K_GBS, w->gbs, gbs, w->gbs ? "--gbs" : "about 8 million tokens a step");
    if (recipe_int(r, K_MAX_POSITIONS) < seq)
        recipe_set(r, K_MAX_POSITIONS, value_of_int(seq), "--seq");
    return OK;
}

/* ---- a recipe to compare with */

static bool by_words(const setting *x)
{
    return x->from == FROM_USER && text_equal(x->why, "command line");
}

status plan_read_against(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err)
{
    recipe *own = ARENA_NEW(a, recipe);
    recipe_init(own, a, w->against);
    if (!file_exists(w->against))
        return error_set(err, ERR_INPUT, "--against %s: there is no such recipe (a YAML file)",
                         w->against);
    status s = recipe_read_yaml(own, w->against, err);
    if (!s) s = model_fill(own, err);
    if (s) return s;
    for (int k = 0; k < K_COUNT && w->job_of_against; k++)
        if (path_decides((knob_id)k) && r->knob[k].from == FROM_USER && !by_words(&r->knob[k]))
            r->knob[k] = (setting){.from = FROM_NOTHING};
    p->own = own;
    return against_join(r, own, err);
}

/* ---- the whole */

/* Whatever the layout, the model is the same. */
static status set_routing(recipe *r, const plan_words *w, plan_answer *p, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    status st = setup_init(s, r, a, err);
    return st ? st : cli_routing(&p->prices, w->routed, s, a, err);
}

status plan_prepare(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err)
{
    hardware *hw = ARENA_NEW(a, hardware);
    status s = w->against ? plan_read_against(p, r, w, a, err) : OK;
    if (!s) s = set_cluster(r, w, hw, a, err);
    if (!s) s = set_batch(r, w, err);
    if (!s && p->own) s = against_join(r, p->own, err); /* now with cluster and batch */
    if (!s && w->routed) s = set_routing(r, w, p, a, err);
    if (!s) s = hardware_has_stack(hw, w->stack ? w->stack : recipe_word(r, K_STACK), err);
    if (!s && w->precision && strcmp(w->precision, "any") != 0)
        s = error_set(err, ERR_INPUT, "--precision %s: any, or --pin mixed_precision=NAME",
                      w->precision);
    p->hw = hw;
    p->given = r;
    p->world = recipe_int(r, K_N_GPUS);
    p->prices.stack = w->stack;
    p->more = w->more;
    return s;
}
