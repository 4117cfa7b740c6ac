/* tune_machines.c - `tune` on many invented machines: how near the best it ends, and how soon.
 *
 *     build/bench/tune_machines [MACHINES (50) [FIRST (1)]]     the table of docs/TUNE.md
 *
 * What a step takes on a machine is our price with every kind of operation slower or faster by a
 * factor of its own (deviation of the logarithm 0.5), and what no price knows: a cost of each
 * microbatch (up to a fifth of the start's step), and errors of each microbatch size (3 %), kind of
 * recompute (2 %), dispatcher with its EP size (5 %) and of each recipe (1 %), which stay. A
 * measurement is off by the machine's noise, and its speed walks by as much from one run to the
 * next: 0.5 % (a quiet machine) or 2 % (one that others use, too). Chosen and best are compared by
 * what they truly take.
 *
 * Five starts of a small model as in bench/tune.sh; TUNE_CASES="dispatcher ..." does only those,
 * and TUNE_SHOW=1 prints every trial. Exit code 1: fewer than 95 of 100 end within 3 % of the best
 * combination, or one took a third as many trials as there are combinations, or more. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "config/models/models.h"
#include "model/model.h"
#include "predict/machine.h"
#include "measure/tune/tune.h"

enum { MACHINES_MAX = 1000 };
static const double ENOUGH = 1.03, SHARE = 0.95;

typedef struct start {
    const char *name, *job, *words;
    bool dispatchers;
    int crash; /* trials of this microbatch; 0: none */
} start;

#define JOB "moefold.model=tiny cluster.gpu=cpu model.seq_length=128 train.global_batch_size=16 "
#define ONE JOB "cluster.n_gpus=1 "
static const start starts[] = {
    {"microbatch", ONE, "train.micro_batch_size=1", false, 0},
    {"recompute", ONE,
     "train.micro_batch_size=4 model.recompute_granularity=full model.recompute_method=uniform "
     "model.recompute_num_layers=1",
     false, 0},
    {"dispatcher", JOB "cluster.n_gpus=2 ",
     "model.expert_model_parallel_size=2 train.micro_batch_size=2 "
     "model.moe_token_dispatcher_type=allgather",
     true, 0},
    {"limited", ONE "moefold.memory_limit=45000000 ", "train.micro_batch_size=1", false, 0},
    {"crashing", ONE, "train.micro_batch_size=1", false, 8},
};
enum { STARTS = sizeof starts / sizeof starts[0] };

#define M(word) J_RECOMPUTE_MODULES_##word
#define SELECTIVE(...)                                                                             \
    EDITS(SET_WORD(RECOMPUTE, SELECTIVE), SET_WORDS(RECOMPUTE_MODULES, __VA_ARGS__),               \
          SET_NULL(RECOMPUTE_METHOD), SET_NULL(RECOMPUTE_LAYERS))
static const edits recompute[] = {
    EDITS(SET_NULL(RECOMPUTE), SET_NULL(RECOMPUTE_MODULES), SET_NULL(RECOMPUTE_METHOD),
          SET_NULL(RECOMPUTE_LAYERS)),
    SELECTIVE(M(LAYERNORM)),
    SELECTIVE(M(MOE_ACT)),
    SELECTIVE(M(LAYERNORM), M(MOE_ACT)),
    SELECTIVE(M(MOE)),
    SELECTIVE(M(MOE), M(LAYERNORM)),
    SELECTIVE(M(CORE_ATTN)),
    EDITS(SET_WORD(RECOMPUTE, FULL), SET_WORD(RECOMPUTE_METHOD, UNIFORM),
          SET_INT(RECOMPUTE_LAYERS, 1), SET_NULL(RECOMPUTE_MODULES)),
};
enum { N_RECOMPUTE = sizeof recompute / sizeof recompute[0] };

/* ---- machines */

typedef struct machine {
    uint64_t seed;
    double factor[STEP_PARTS], micro_s, drift, noise;
    int crash;
    const tune *described; /* prices before anything is learned */
    uint64_t runs;
} machine;

/* splitmix64: a number in (0, 1) for a seed. */
static double uniform(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t x)
{
    return sqrt(-2 * log(uniform(2 * x))) * cos(6.283185307179586 * uniform(2 * x + 1));
}

static uint64_t seed_of(const machine *m, const char *word)
{
    uint64_t h = m->seed * 1099511628211u + 14695981039346656037u;
    for (; *word; word++) h = (h ^ (unsigned char)*word) * 1099511628211u;
    return h >> 1;
}

/* The error of a word on this machine: recipes that share the word share it. */
static double error_of(const machine *m, const char *word, double deviation)
{
    return deviation * normal(seed_of(m, word));
}

static double all_errors(const machine *m, const recipe *r, arena *a)
{
    const char *micro = arena_text(a, "mbs %lld", (long long)recipe_int(r, K_MBS));
    const char *kind = value_text(a, r->knob[K_RECOMPUTE].v);
    bool some = strcmp(kind, "selective") == 0;
    const char *again =
        arena_text(a, "%s %s", kind, some ? value_text(a, r->knob[K_RECOMPUTE_MODULES].v) : "");
    const char *experts =
        arena_text(a, "EP%lld %s %s", (long long)recipe_int(r, K_EP),
                   value_text(a, r->knob[K_DISPATCHER].v), value_text(a, r->knob[K_FLEX].v));
    return error_of(m, micro, 0.03) + error_of(m, again, 0.02) + error_of(m, experts, 0.05) +
           error_of(m, arena_text(a, "%s %s %s", micro, again, experts), 0.01);
}

/* What a step of a change truly takes; 0: it cannot run. */
static double truth(const machine *m, const char *change, double parts[STEP_PARTS])
{
    arena *a = arena_create();
    try_result p;
    step_part priced[STEP_PARTS];
    double sum = 0;
    if (tune_price_of(m->described, change, &p, a) && p.p.fits) {
        const recipe *r = &p.s->r;
        double by = exp(all_errors(m, r, a));
        price_parts(priced, &p.p);
        for (int k = 0; k < STEP_PARTS; k++) {
            parts[k] = priced[k].seconds * m->factor[k] * by;
            sum += parts[k];
        }
        double n = (double)recipe_int(r, K_GBS) / (double)(recipe_int(r, K_MBS) * p.s->lay.dp);
        parts[COST_MEMORY] += n * m->micro_s;
        sum += n * m->micro_s;
    }
    arena_destroy(a);
    return sum;
}

static void measure(const tune *t, trial *x)
{
    machine *m = t->machine;
    arena *a = arena_create();
    try_result p;
    x->step_s = truth(m, x->change, x->parts);
    x->has_parts = true;
    x->end = x->step_s > 0 ? TRIAL_MEASURED : TRIAL_FAILED;
    if (tune_price_of(t, x->change, &p, a) && m->crash && recipe_int(&p.s->r, K_MBS) == m->crash)
        x->end = TRIAL_CRASHED;
    uint64_t run = m->seed * 100003 + ++m->runs;
    m->drift = 0.8 * m->drift + m->noise * normal(run * 2 + 1);
    double off = exp(m->drift + m->noise * normal(run * 2));
    x->step_s *= off;
    for (int k = 0; k < STEP_PARTS; k++) x->parts[k] *= off;
    x->spread = 0.02;
    arena_destroy(a);
}

/* ---- one tuning */

typedef struct outcome {
    int combinations, trials;
    double ratio, first; /* chosen over best; the start over best */
    bool bad;            /* nothing was chosen */
} outcome;

static status open_start(tune *t, const start *s, const char *folder, error *err)
{
    recipe *r = ARENA_NEW(t->a, recipe);
    char *copy, *rest = NULL;
    status st = OK;
    recipe_init(r, t->a, "start");
    copy = arena_text(t->a, "%s%s", s->job, s->words);
    for (char *w = strtok_r(copy, " ", &rest); w && !st; w = strtok_r(NULL, " ", &rest))
        st = recipe_override(r, w, "start", err);
    if (!st) st = model_fill(r, err);
    setup *laid = ARENA_NEW(t->a, setup);
    if (!st) st = setup_init(laid, r, t->a, err);
    if (!st) st = machine_of_setup(&t->base, laid, t->a, err);
    t->start = r;
    t->hw = t->base;
    t->dir = folder;
    return st ? st : tune_open(t, err);
}

static machine *invent(const tune *t, const start *s, uint64_t seed, double noise)
{
    machine *m = ARENA_NEW(t->a, machine);
    tune *described = ARENA_NEW(t->a, tune);
    double parts[STEP_PARTS];
    *described = *t;
    *m = (machine){.seed = seed, .noise = noise, .crash = s->crash, .described = described};
    for (int k = 0; k < STEP_PARTS; k++)
        m->factor[k] = exp(0.5 * normal(seed * 1000 + (uint64_t)k));
    double u = uniform(seed * 1000 + 999);
    m->micro_s = 0.2 * u * u * truth(m, "", parts) / 16;
    return m;
}

static void compare(outcome *out, const machine *m, const tune *t, const start *s)
{
    const edits ways[] = {EDITS(SET_WORD(DISPATCHER, ALLTOALL)),
                          EDITS(SET_WORD(DISPATCHER, ALLGATHER))};
    double best = 0, parts[STEP_PARTS];
    for (int micro = 1; micro <= 16; micro *= 2)
        for (int r = 0; r < N_RECOMPUTE; r += 1 + s->dispatchers)
            for (int d = 0; d < 1 + s->dispatchers; d++) {
                const edit size = {K_MBS, EDIT_INT, {.whole = micro}};
                edits e = edits_join((edits){&size, 1}, recompute[r], t->a);
                if (s->dispatchers) e = edits_join(e, ways[d], t->a);
                const char *change = tune_change(t, "", e, t->a);
                double step = change && micro != s->crash ? truth(m, change, parts) : 0;
                if (!(step > 0)) continue;
                out->combinations++;
                if (best == 0 || step < best) best = step;
            }
    const trial *pick = tune_pick(t);
    out->bad = !pick || best == 0;
    if (out->bad) return;
    out->ratio = truth(m, pick->change, parts) / best;
    out->first = truth(m, "", parts) / best;
    out->trials = t->n;
}

static status go_on(tune *t, error *err)
{
    trial_run run = {.steps = 8};
    for (;;) {
        tune_next *n = ARENA_NEW(t->a, tune_next);
        tune_choose(t, n, t->a);
        if (n->done) return tune_confirm(t, &run, HUGE_VAL, err);
        trial x = n->next;
        status st = trial_measure(t, &x, &run, err);
        if (!st) st = tune_record(t, &x, err);
        if (st) return st;
    }
}

static void show(const tune *t, const outcome *out, const start *s, uint64_t seed)
{
    for (int i = 0; i < t->n; i++)
        printf("    %d %s %.5f (expected %.5f) %s\n", i, trial_end_name(t->trials[i].end),
               t->trials[i].step_s, t->trials[i].expected_s, t->trials[i].change);
    printf("  %s, machine %d: %.3f in %d trials, %d combinations\n", s->name, (int)seed, out->ratio,
           out->trials, out->combinations);
}

static status tune_one(outcome *out, const start *s, uint64_t seed, double noise, error *err)
{
    const char *above = getenv("TMPDIR");
    arena *a = arena_create();
    char *folder = arena_text(a, "%s/tune-machines-XXXXXX", above ? above : P_tmpdir);
    if (!mkdtemp(folder)) {
        error_set(err, ERR_MACHINE, "%s cannot be made; repair: TMPDIR names a folder", folder);
        arena_destroy(a);
        return ERR_MACHINE;
    }
    tune *t = ARENA_NEW(a, tune);
    t->a = a;
    status st = open_start(t, s, folder, err);
    if (!st) {
        t->machine = invent(t, s, seed, noise);
        t->measure = measure;
        st = go_on(t, err);
    }
    *out = (outcome){0};
    if (!st) compare(out, t->machine, t, s);
    if (!st && getenv("TUNE_SHOW")) show(t, out, s, seed);
    if (system(arena_text(a, "rm -rf '%s'", folder)))
        fprintf(stderr, "tune_machines: %s stays\n", folder);
    arena_destroy(a);
    return st;
}

/* ---- the table */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double at(double *list, int n, double part)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return list[(int)(part * (n - 1) + 0.5)];
}

/* One row; false: it is not as wanted. */
static bool print_row(const start *s, double noise, const outcome *of, int n)
{
    static double ratio[MACHINES_MAX], trials[MACHINES_MAX], first[MACHINES_MAX];
    int near = 0, few = 0, most = 0;
    for (int i = 0; i < n; i++) {
        ratio[i] = of[i].bad ? 99 : of[i].ratio;
        first[i] = of[i].first;
        trials[i] = of[i].trials;
        near += ratio[i] <= ENOUGH;
        few += 3 * of[i].trials < of[i].combinations;
        if (of[i].combinations > most) most = of[i].combinations;
    }
    bool good = near >= SHARE * n && few == n;
    printf("| %s, %.1f %% | %d | %.2f | %.3f, %.3f, %.3f | %d of %d | %.0f, %.0f, %.0f | %d of %d "
           "| %s |\n",
           s->name, 100 * noise, most, at(first, n, 0.5), at(ratio, n, 0.5), at(ratio, n, 0.95),
           at(ratio, n, 1), near, n, at(trials, n, 0.5), at(trials, n, 0.95), at(trials, n, 1), few,
           n, good ? "yes" : "no");
    fflush(stdout);
    return good;
}

static status sweep(const start *s, double noise, int first, int n, bool *good)
{
    static outcome of[MACHINES_MAX];
    error err = {{0}};
    for (int i = 0; i < n; i++) {
        status st = tune_one(&of[i], s, (uint64_t)(first + i), noise, &err);
        if (!st) continue;
        fprintf(stderr, "tune_machines: %s, machine %d: %s\n", s->name, first + i, err.text);
        return st;
    }
    *good = print_row(s, noise, of, n) && *good;
    return OK;
}

int main(int argc, char **argv)
{
    static const double noises[] = {0.005, 0.02};
    int n = argc > 1 ? atoi(argv[1]) : 50, first = argc > 2 ? atoi(argv[2]) : 1;
    const char *only = getenv("TUNE_CASES");
    bool good = true;
    status st = OK;
    if (n < 1 || n > MACHINES_MAX || first < 0) {
        fprintf(stderr, "tune_machines: tune_machines [MACHINES (1 to %d) [FIRST]]\n",
                MACHINES_MAX);
        return 2;
    }
    printf(
        "| start, noise | combinations | start over best | chosen over best: median, 95 %%, worst "
        "| within 3 %% | trials: median, 95 %%, most | below a third | as asked |\n"
        "|---|--:|--:|---|--:|---|--:|---|\n");
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < STARTS && !st; s++)
            if (!only || strstr(only, starts[s].name))
                st = sweep(&starts[s], noises[k], first, n, &good);
    return st ? (int)st : !good;
}
