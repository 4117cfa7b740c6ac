/* layout_rig.c - see layout_rig.h. */
#include "train/layout_rig.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "rules/rules.h"
#include "backend/comm/comm.h"
#include "train/executor/arrays.h"
#include "train/data/batch.h"
#include "train/executor/executor.h"
#include "train/executor/init_weights.h"
#include "train/executor/step.h"

enum { ERROR_ROOM = sizeof(error) + 64 };

typedef struct rank_rig {
    const rig_reference *r;
    const char *folder, *words;
    comm *c;
    arena *a;
    setup s;
    program p;
    executor *e;
    optimizer opt;
    step_report report;
    int32_t *tokens, *labels; /* [SAMPLES][seq] */
    float *mask;
    double loss[RIG_STEPS];
    rig_result *out;     /* of the whole layout; rank 0 writes */
    rig_reference *keep; /* where one rank keeps what it did */
    bool touch;
    const char *device;                        /* NULL: as the recipe says */
    void (*change)(program *p, const void *w); /* of the program, before it is bound; or NULL */
    const void *with;
    char failed[ERROR_ROOM];
} rank_rig;

/* ---- the batch */

static void make_batch(rank_rig *g)
{
    int64_t seq = batch_seq(&g->p), n = RIG_SAMPLES * seq;
    uint64_t x = 0x9e3779b97f4a7c15u;
    g->tokens = ARENA_ARRAY(g->a, int32_t, n + 1);
    g->labels = g->tokens + 1;
    g->mask = ARENA_ARRAY(g->a, float, n);
    for (int64_t i = 0; i <= n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        g->tokens[i] = (int32_t)(x % (uint64_t)g->s.m.vocab);
    }
    for (int64_t i = 0; i < n; i++) g->mask[i] = 1;
}

static void load_batch(rank_rig *g)
{
    int64_t seq = batch_seq(&g->p);
    for (int64_t m = 0; m < g->p.micros; m++) {
        int64_t first = (m * g->s.lay.dp + g->p.at.dp) * g->p.B * seq;
        batch b = {g->tokens + first, g->labels + first, g->mask + first};
        batch_load(g->e, &g->p, m, &b, 0);
    }
}

/* ---- a step */

/* Tables that steps read: rotations, and what the optimizer owns. */
static void fill_tables(rank_rig *g)
{
    batch_tables(g->e, &g->p);
    step_table(g->e, &g->p, &g->opt);
}

static void update(rank_rig *g)
{
    if (!g->p.types.moments) return;
    step_run_update(g->e, &g->p);
    g->opt.steps += g->report.verdict[VERDICT_OUTCOME] == STEP_TAKEN;
}

static void run_step(rank_rig *g, int step)
{
    double given[GIVEN_COUNT];
    load_batch(g);
    optimizer_give(&g->opt, (step_rates){1e-3, 1e-3, 0.1, 1}, given);
    step_run_begin(g->e);
    step_give(g->e, given);
    step_run_end(g->e, &g->p, STEP_ONLY);
    g->report = step_report_of(g->e, &g->p);
    g->loss[step] = g->report.sums[SUM_OBJECTIVE];
}

/* ---- the first step of one rank, and of many beside it */

static array_loan gradients_of(rank_rig *g)
{
    array_loan l;
    error err;
    if (array_borrow(&l, g->e, &g->p, ARRAY_GRADIENTS, &err))
        snprintf(g->failed, sizeof g->failed, "%s", err.text);
    return l;
}

static void keep_gradients(rank_rig *g)
{
    rig_reference *k = g->keep;
    array_loan gradients = gradients_of(g);
    hf_flat flat = {&g->s, &g->p.weights, gradients.values, true};
    hf_walk walk = {.s = &g->s, .w = &g->p.weights};
    k->list = ARENA_ARRAY(k->a, rig_tensor, 4096);
    for (hf_part part; hf_walk_next(&walk, &part, k->a);) {
        if (!part.w->row->trained) continue;
        rig_tensor *t = &k->list[k->n++];
        *t = (rig_tensor){part.name, NULL, part.elements};
        t->gradient = ARENA_ARRAY(k->a, float, t->n);
        error err;
        if (hf_tensor(&flat, t->name, t->gradient, t->n, &err))
            snprintf(g->failed, sizeof g->failed, "%s", err.text);
    }
    array_return(&gradients, ARRAY_READ);
}

static double *loads_of(rank_rig *g)
{
    int64_t n = g->p.step_bytes[STEP_LOAD] / 4;
    const float *mine = g->report.loads;
    double *sum = ARENA_ARRAY(g->a, double, n + 1);
    for (int64_t i = 0; i < n; i++) sum[i] = (double)mine[i];
    comm_sum(g->c, GROUP_WORLD, sum, (int)n);
    return sum;
}

static void compare_gradients(rank_rig *g)
{
    array_loan gradients = gradients_of(g);
    hf_flat flat = {&g->s, &g->p.weights, gradients.values, true};
    for (int i = 0; i < g->r->n; i++) {
        const rig_tensor *t = &g->r->list[i];
        hf_golden golden = {t->name, t->gradient, t->n};
        hf_compared c = {0};
        error err;
        if (hf_compare(&flat, &g->p.at, &golden, &c, &err))
            snprintf(g->failed, sizeof g->failed, "%s", err.text);
        double sums[3] = {c.difference, c.golden, (double)c.elements}, largest = c.largest;
        comm_sum(g->c, GROUP_WORLD, sums, 3);
        comm_max(g->c, GROUP_WORLD, &largest, 1);
        if ((int64_t)sums[2] != t->n)
            snprintf(g->failed, sizeof g->failed, "%s: %.0f elements of %lld are answered for",
                     t->name, sums[2], (long long)t->n);
        double e = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : largest > 1e-7 ? 1 : 0;
        if (g->p.at.rank == 0 && !(e <= g->out->gradient)) {
            g->out->gradient = e;
            g->out->worst = t->name;
        }
    }
    array_return(&gradients, ARRAY_READ);
}

static void compare_loads(rank_rig *g)
{
    double *loads = loads_of(g);
    for (int64_t i = 0; i < g->r->n_loads; i++)
        if (g->p.at.rank == 0 && loads[i] != g->r->loads[i]) g->out->loads_differ = true;
}

static void add_statistics(rank_rig *g)
{
    const comm_stats *stats = comm_statistics(g->c);
    double bytes[LEVEL_COUNT] = {0}, exposed = 0, planned = (double)g->p.arena_bytes;
    for (int grp = 0; grp < GROUP_COUNT; grp++)
        for (int l = 0; l < LEVEL_COUNT; l++) bytes[l] += stats->bytes[grp][l];
    for (int i = 0; i < STREAM_COUNT; i++) exposed += stats->exposed[i];
    comm_sum(g->c, GROUP_WORLD, bytes, LEVEL_COUNT);
    comm_max(g->c, GROUP_WORLD, &exposed, 1);
    comm_sum(g->c, GROUP_WORLD, &planned, 1);
    if (g->p.at.rank) return;
    memcpy(g->out->bytes, bytes, sizeof bytes);
    g->out->exposed = exposed;
    g->out->planned = (int64_t)planned;
}

static double overflow_of(rank_rig *g)
{
    double most = 0;
    const float *rows = g->report.rows;
    for (int64_t i = 0; i < g->p.step_bytes[STEP_OVERFLOW] / 8; i++)
        most = fmax(most, (double)rows[2 * i] - (double)rows[2 * i + 1]);
    comm_max(g->c, GROUP_WORLD, &most, 1);
    return most;
}

/* ---- a rank */

static status open_rank(rank_rig *g, error *err)
{
    setup_of_words(&g->s, g->a, g->folder, g->words);
    status st = comm_groups(g->c, &g->s, err);
    program_build(&g->p, &g->s, comm_rank(g->c), g->a);
    if (g->change) g->change(&g->p, g->with);
    kernels_threads(1);
    if (!st) st = executor_open(&g->e, &g->p, g->c, (executor_options){.device = g->device}, err);
    if (st) return st;
    optimizer_init(&g->opt, &g->p, DECAY_MEGATRON, g->a);
    make_batch(g);
    return OK;
}

/* The cases' files have two tables: a model that ties them starts from drawn weights. */
static status load_weights(rank_rig *g, error *err)
{
    hf_report report;
    array_loan w;
    status s = array_borrow(&w, g->e, &g->p, ARRAY_WEIGHTS, err);
    if (s) return s;
    if (g->s.m.tied)
        init_weights(&g->s, &g->p.at, &g->p.weights, 1, w.values);
    else
        s = hf_load(&(hf_rank){&g->s, &g->p.at, &g->p.weights, w.values}, g->folder, &report, err);
    array_return(&w, ARRAY_ROUNDED);
    return s;
}

static void run_rank(rank_rig *g)
{
    fill_tables(g);
    for (int step = 0; step < RIG_STEPS; step++) {
        if (step == 0) comm_statistics_clear(g->c);
        run_step(g, step);
        if (step == 0) {
            add_statistics(g);
            double over = overflow_of(g);
            if (g->p.at.rank == 0) g->out->overflows = (int64_t)over;
            if (g->keep) {
                keep_gradients(g);
                double *loads = loads_of(g);
                g->keep->n_loads = g->p.step_bytes[STEP_LOAD] / 4;
                g->keep->loads = ARENA_ARRAY(g->keep->a, double, g->keep->n_loads + 1);
                memcpy(g->keep->loads, loads, sizeof *loads * (size_t)g->keep->n_loads);
            } else {
                compare_gradients(g);
                compare_loads(g);
            }
        }
        update(g);
    }
}

/* Two patterns: a byte that happens to be written as one of them shows under the other. */
static void touch_rank(rank_rig *g)
{
    int64_t n = g->p.arena_bytes, used = 0, host = 0;
    int64_t all = n + g->p.host_bytes + g->p.staging_bytes;
    unsigned char *touched = calloc(1, (size_t)all), *bytes = malloc((size_t)all);
    for (int k = 0; k < 2; k++) {
        unsigned char pattern = k ? 0x5a : 0xa5;
        error err;
        static const region zeros[] = {REGION_WEIGHTS, REGION_OPTIMIZER};
        executor_fill(g->e, 0, all, pattern);
        for (int i = 0; i < 2; i++)
            executor_fill(g->e, g->p.offset[zeros[i]], g->p.bytes[zeros[i]], 0);
        if (load_weights(g, &err)) snprintf(g->failed, sizeof g->failed, "%s", err.text);
        fill_tables(g);
        run_step(g, 0);
        update(g);
        executor_read(g->e, bytes, 0, all);
        for (int64_t i = 0; i < all; i++) touched[i] |= bytes[i] != pattern;
    }
    int64_t whole = g->p.offset[REGION_SAVED]; /* weights, gradients, moments: used whole */
    for (int64_t i = 0; i < n; i++) used += i < whole || touched[i];
    for (int64_t i = n; i < all; i++) host += touched[i];
    double sums[4] = {(double)program_buffer_bytes(&g->p), (double)used,
                      (double)program_host_buffer_bytes(&g->p) +
                          (double)program_staging_buffer_bytes(&g->p),
                      (double)host};
    free(touched);
    free(bytes);
    comm_sum(g->c, GROUP_WORLD, sums, 4);
    if (g->p.at.rank) return;
    g->out->planned = (int64_t)sums[0];
    g->out->used = (int64_t)sums[1];
    g->out->host_planned = (int64_t)sums[2];
    g->out->host_used = (int64_t)sums[3];
}

static void *rank_main(void *with)
{
    rank_rig *g = with;
    error err = {{0}};
    g->a = arena_create();
    status st = open_rank(g, &err);
    if (!st) st = load_weights(g, &err);
    if (st) {
        snprintf(g->failed, sizeof g->failed, "rank %lld: %s", (long long)comm_rank(g->c),
                 err.text);
        comm_abort(g->c, 3, g->failed);
    }
    if (g->touch)
        touch_rank(g);
    else
        run_rank(g);
    executor_settle(g->e);
    executor_close(g->e);
    arena_destroy(g->a);
    return NULL;
}

/* ---- layouts */

static int64_t ranks_of(const char *folder, const char *words)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    setup_of_words(s, a, folder, words);
    violations found;
    rules_check(&found, s, false, a);
    if (found.n_errors) fail_msg("%s: %s", words, found.list[0].message);
    int64_t n = s->lay.world;
    arena_destroy(a);
    return n;
}

static void run_ranks(rank_rig *rigs, int n, rig_result *out)
{
    comm *comms[RIG_RANKS_MAX];
    pthread_t threads[RIG_RANKS_MAX];
    error err = {{0}};
    if (comm_open_threads(comms, n, &err)) {
        snprintf(out->text, sizeof out->text, "%s", err.text);
        return;
    }
    for (int i = 0; i < n; i++) {
        rigs[i].c = comms[i];
        pthread_create(&threads[i], NULL, rank_main, &rigs[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        if (rigs[i].failed[0] && !out->text[0])
            snprintf(out->text, sizeof out->text, "%s", rigs[i].failed);
        comm_close(comms[i]);
    }
}

static double spread_of(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *json = json_load_file(path, 0, NULL);
    double spread =
        json_real_value(json_object_get(json_object_get(json, "last_bit_spread"), "grad"));
    json_decref(json);
    return spread;
}

static rank_rig *rigs_of(const rig_reference *r, const char *words, rig_result *out)
{
    rank_rig *rigs = calloc(RIG_RANKS_MAX, sizeof *rigs);
    for (int i = 0; i < RIG_RANKS_MAX; i++)
        rigs[i] = (rank_rig){.r = r, .folder = r->folder, .words = words, .out = out};
    return rigs;
}

/* MOEFOLD_WORDS: overrides for one rank and many, as model.deterministic_mode=true on a GPU. */
static const char *common_words(arena *a, const char *words)
{
    const char *also = getenv("MOEFOLD_WORDS");
    return arena_text(a, "model.seq_length=%d train.global_batch_size=%d %s %s", RIG_SEQ,
                      RIG_SAMPLES, also ? also : "", words);
}

bool rig_is_legal(const char *folder, const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    violations found;
    setup_of_words(s, a, folder, common_words(a, words));
    rules_check(&found, s, false, a);
    return s->possible && found.n_errors == 0;
}

rig_reference *rig_reference_of(const char *folder, const char *words)
{
    rig_reference *r = calloc(1, sizeof *r);
    rig_result ignored = {.text = ""};
    r->a = arena_create();
    r->folder = folder;
    r->words = arena_copy(r->a, words, strlen(words));
    r->spread = spread_of(folder);
    rank_rig *one = rigs_of(r, common_words(r->a, words), &ignored);
    one->keep = r;
    run_ranks(one, 1, &ignored);
    if (ignored.text[0]) fail_msg("%s: %s", folder, ignored.text);
    memcpy(r->loss, one->loss, sizeof r->loss);
    free(one);
    return r;
}

void rig_reference_free(rig_reference *r)
{
    arena_destroy(r->a);
    free(r);
}

void rig_compare(rig_result *out, const rig_reference *r, const char *words)
{
    arena *a = arena_create();
    const char *all = common_words(a, arena_text(a, "%s %s", r->words, words));
    int64_t n = ranks_of(r->folder, all);
    *out = (rig_result){.text = ""};
    if (n < 1 || n > RIG_RANKS_MAX) fail_msg("%s: %lld ranks", words, (long long)n);
    rank_rig *rigs = rigs_of(r, all, out);
    run_ranks(rigs, (int)n, out);
    for (int i = 0; i < RIG_STEPS; i++)
        out->loss = fmax(out->loss, fabs(rigs[0].loss[i] - r->loss[i]) / fabs(r->loss[i]));
    free(rigs);
    arena_destroy(a);
}

void rig_touch(rig_result *out, const char *folder, const char *words)
{
    arena *a = arena_create();
    rig_reference r = {.folder = folder};
    const char *all = common_words(a, words);
    int64_t n = ranks_of(folder, all);
    *out = (rig_result){.text = ""};
    rank_rig *rigs = rigs_of(&r, all, out);
    for (int64_t i = 0; i < n; i++) rigs[i].touch = true;
    run_ranks(rigs, (int)n, out);
    free(rigs);
    arena_destroy(a);
}
