/* Layouts agree with one rank: gradients of the first step, loads of the experts, five losses.
 *
 * Layouts are chosen so that every pair of options (TP, CP and its kind, EP, ETP, PP, VPP,
 * replicas, dispatcher, recompute, overlap) that rules allow together occurs for some family, and
 * every family occurs in at least twelve. The choice is the same each time. MOEFOLD_LAYOUTS=all
 * runs all of them and a large random sample besides (MOEFOLD_SEED); MOEFOLD_LAYOUTS=N every N-th
 * of them. Unset it is 4, so that `make test` stays short. MOEFOLD_RANKS_MAX=N leaves out layouts
 * of more ranks. */
#include "train/layout_rig.c"

#include "rules/rules.h"

enum { DIMENSIONS = 11, VALUES_MAX = 8 };

typedef struct option {
    const char *name;
    const char *values[VALUES_MAX]; /* overrides; "" is the default */
} option;

#define M "model."
static const option options[DIMENSIONS] = {
    {"TP", {"", M "tensor_model_parallel_size=2", M "tensor_model_parallel_size=4"}},
    {"CP", {"", M "context_parallel_size=2", M "context_parallel_size=4"}},
    {"CP kind",
     {"", M "cp_comm_type=all_gather", M "cp_comm_type=a2a",
      M "cp_comm_type=a2a+p2p " M "hierarchical_context_parallel_sizes=[2,2]",
      "moefold.mla_latent_ring=true"}},
    {"EP",
     {"", M "expert_model_parallel_size=2", M "expert_model_parallel_size=4",
      M "expert_model_parallel_size=8"}},
    {"ETP", {M "expert_tensor_parallel_size=1", M "expert_tensor_parallel_size=2"}},
    {"PP", {"", M "pipeline_model_parallel_size=2", M "pipeline_model_parallel_size=4"}},
    {"VPP", {"", M "virtual_pipeline_model_parallel_size=2"}},
    {"replicas", {"1", "2", "4"}},
    {"dispatcher",
     {M "moe_token_dispatcher_type=alltoall", M "moe_token_dispatcher_type=allgather",
      M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=deepep",
      M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend=hybridep"}},
    {"recompute",
     {"", M "recompute_granularity=selective " M "recompute_modules=[core_attn,layernorm,moe_act]",
      M "recompute_granularity=selective " M "recompute_modules=[moe,mlp]",
      M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1"}},
    {"overlap",
     {"", "comm_overlap.overlap_moe_expert_parallel_comm=true",
      "comm_overlap.overlap_moe_expert_parallel_comm=true comm_overlap.delay_wgrad_compute=true",
      "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=8000",
      "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false",
      M "moe_shared_expert_overlap=true", "comm_overlap.tp_comm_overlap=true",
      "ddp.use_distributed_optimizer=false"}},
};

/* The same for one rank and many. Routed buffers have room for any routing. */
static const char same[] =
    "moefold.moe_buffer_factor=64 " M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 " M
    "moe_router_load_balancing_type=aux_loss " M "should_pad_vocab=false optimizer.clip_grad=1.0";

/* ---- combinations */

typedef struct combination {
    int family;
    int value[DIMENSIONS];
} combination;

static uint64_t seed_state;

static int below(int n)
{
    seed_state = seed_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed_state >> 33) % (uint64_t)n);
}

static int n_values(int d)
{
    int n = 0;
    while (n < VALUES_MAX && options[d].values[n]) n++;
    return n;
}

static int64_t size_in(const combination *c, int d)
{
    const char *equals = strchr(options[d].values[c->value[d]], '=');
    return equals ? atoll(equals + 1) : d == 7 ? atoll(options[d].values[c->value[d]]) : 1;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

static int64_t world_of(const combination *c)
{
    int64_t dense = size_in(c, 0) * size_in(c, 1), expert = size_in(c, 3) * size_in(c, 4);
    return size_in(c, 5) * (dense / gcd(dense, expert) * expert) * size_in(c, 7);
}

static const char *words_of(const combination *c, arena *a)
{
    textbuf t = text_init(a);
    for (int d = 0; d < DIMENSIONS; d++)
        if (d != 7) text_add(&t, "%s ", options[d].values[c->value[d]]);
    int64_t world = world_of(c);
    text_add(&t, "cluster.n_gpus=%lld cluster.gpus_per_node=%d cluster.nvlink_domain=%d",
             (long long)world, world >= 4 ? 2 : 1, world >= 4 ? 4 : 1);
    return t.s;
}

static bool is_legal(const combination *c, arena *a)
{
    int64_t world = world_of(c);
    if (world < 2 || world > RIG_RANKS_MAX || (c->value[2] && !c->value[1])) return false;
    arena_place mark = arena_mark(a);
    bool legal =
        rig_is_legal(family_cases[c->family], arena_text(a, "%s %s", same, words_of(c, a)), a);
    arena_release(a, mark);
    return legal;
}

static combination random_combination(int family)
{
    combination c = {.family = family};
    for (int d = 0; d < DIMENSIONS;
         d++) /* defaults often: long lists of options rarely go together */
        c.value[d] = below(2) ? 0 : below(n_values(d));
    c.value[7] = below(3) ? 0 : below(n_values(7));
    return c;
}

typedef struct coverage {
    bool seen[DIMENSIONS][VALUES_MAX][DIMENSIONS][VALUES_MAX];
} coverage;

static int new_pairs(coverage *v, const combination *c, bool mark)
{
    int n = 0;
    for (int i = 0; i < DIMENSIONS; i++)
        for (int k = i + 1; k < DIMENSIONS; k++) {
            bool *seen = &v->seen[i][c->value[i]][k][c->value[k]];
            n += !*seen;
            *seen = *seen || mark;
        }
    return n;
}

enum { POOL = 1500, CHOSEN_MAX = 400, LEAST_OF_FAMILY = 12 };

/* Greedy: from a pool of legal combinations, always the one that brings most new pairs; then enough
 * of every family. */
static int choose(combination *chosen, arena *a)
{
    combination *pool = ARENA_ARRAY(a, combination, POOL);
    coverage *v = ARENA_NEW(a, coverage);
    int n = 0, n_chosen = 0, of_family[N_FAMILY_CASES] = {0};
    memset(v, 0, sizeof *v);
    seed_state = 20250101;
    for (int tries = 0; n < POOL && tries < POOL * 60; tries++) {
        combination c = random_combination(tries % N_FAMILY_CASES);
        if (is_legal(&c, a)) pool[n++] = c;
    }
    while (n_chosen < CHOSEN_MAX) {
        int best = -1, most = 0;
        for (int i = 0; i < n; i++) {
            int fresh = new_pairs(v, &pool[i], false);
            if (fresh > most) {
                most = fresh;
                best = i;
            }
        }
        if (best < 0) break;
        new_pairs(v, &pool[best], true);
        of_family[pool[best].family]++;
        chosen[n_chosen++] = pool[best];
    }
    for (int i = 0; i < n && n_chosen < CHOSEN_MAX; i++)
        if (of_family[pool[i].family] < LEAST_OF_FAMILY) {
            of_family[pool[i].family]++;
            chosen[n_chosen++] = pool[i];
        }
    return n_chosen;
}

/* ---- running them */

static rig_reference *references[N_FAMILY_CASES];

static bool agrees(const rig_reference *ref, const char *words)
{
    rig_result r;
    rig_compare(&r, ref, words);
    double limit = 10 * ref->spread, losses = limit > 1e-4 ? limit : 1e-4;
    bool ok = !r.text[0] && r.gradient <= limit && r.loss <= losses && !r.loads_differ;
    if (!ok || getenv("MOEFOLD_VERBOSE"))
        print_message("%s %s: %s\n    %s gradients %.1e (%s; limit %.1e), curve %.1e (%.1e)%s\n",
                      ok ? "ok" : "NOT OK", strrchr(ref->folder, '/') + 1, words, r.text,
                      r.gradient, r.worst ? r.worst : "-", limit, r.loss, losses,
                      r.loads_differ ? ", other routing" : "");
    return ok;
}

static bool wants_all(void)
{
    const char *which = getenv("MOEFOLD_LAYOUTS");
    return which && strcmp(which, "all") == 0;
}

static int every(void)
{
    const char *which = getenv("MOEFOLD_LAYOUTS");
    int n = which ? atoi(which) : 0;
    return wants_all() ? 1 : n > 0 ? n : 4;
}

static int64_t most_ranks(void)
{
    const char *most = getenv("MOEFOLD_RANKS_MAX");
    return most ? atoll(most) : RIG_RANKS_MAX;
}

static void layouts_agree_with_one_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    combination *chosen = ARENA_ARRAY(a, combination, CHOSEN_MAX);
    int n = choose(chosen, a), bad = 0, ran = 0, step = every();
    for (int i = 0; i < n; i += step) {
        if (world_of(&chosen[i]) > most_ranks()) continue;
        bad += !agrees(references[chosen[i].family], words_of(&chosen[i], a));
        ran++;
    }
    print_message("%d of %d layouts, %d do not agree\n", ran, n, bad);
    assert_true(n >= 80);
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

static void random_layouts_agree(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *seed = getenv("MOEFOLD_SEED");
    int wanted = wants_all() ? 60 : 4, bad = 0, ran = 0;
    seed_state = seed ? strtoull(seed, NULL, 10) : 7;
    while (ran < wanted) {
        combination c = random_combination(below(N_FAMILY_CASES));
        if (!is_legal(&c, a) || world_of(&c) > most_ranks()) continue;
        bad += !agrees(references[c.family], words_of(&c, a));
        ran++;
    }
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

/* ---- what has no row among the options */

typedef struct special {
    const char *family, *both, *words; /* both: for one rank and many */
} special;

#define TP2       M "tensor_model_parallel_size=2 "
#define PP2       M "pipeline_model_parallel_size=2 "
#define PP4       M "pipeline_model_parallel_size=4 "
#define VPP2      M "virtual_pipeline_model_parallel_size=2 "
#define EP2       M "expert_model_parallel_size=2 "
#define TIED      M "share_embeddings_and_output_weights=true "
#define STAGES    M "pipeline_model_parallel_layout="
#define SEQ_AUX   M "moe_router_load_balancing_type=seq_aux_loss "
#define PER_TOKEN M "calculate_per_token_loss=true "

static const special specials[] = {
    {"qwen3-moe", TIED, PP2 "cluster.n_gpus=2"},
    {"qwen3-moe", TIED, PP4 TP2 "cluster.n_gpus=8"},
    {"qwen3-moe", TIED,
     PP2 "cluster.n_gpus=8 ddp.overlap_grad_reduce=true "
         "ddp.overlap_param_gather=true ddp.bucket_size=4000"},
    {"qwen3-moe", "", PP2 STAGES "Et|tttL cluster.n_gpus=2"},
    {"mixtral", "",
     PP2 STAGES "E|t|tt|tL "
                "cluster.n_gpus=4"},
    {"mtp", "", PP2 STAGES "Ettt|mL cluster.n_gpus=4"},
    {"mtp", "", PP4 STAGES "Et|t|tm|L cluster.n_gpus=4"},
    {"mtp", "", PP4 STAGES "Et|tt|m|L cluster.n_gpus=4"},
    {"mtp", "", PP4 TP2 STAGES "Et|t|tm|L cluster.n_gpus=8"},
    {"mtp", "",
     PP2 EP2 STAGES "Et|t|t|mL cluster.n_gpus=4 "
                    "comm_overlap.overlap_moe_expert_parallel_comm=true " M
                    "moe_token_dispatcher_type=alltoall"},
    {"deepseek", "", TP2 PP2 EP2 "dist.use_tp_pp_dp_mapping=true cluster.n_gpus=8"},
    {"qwen3-moe", SEQ_AUX "train.micro_batch_size=2 ", TP2 "cluster.n_gpus=4"},
    {"deepseek", SEQ_AUX "train.micro_batch_size=2 ",
     TP2 M "context_parallel_size=2 cluster.n_gpus=8"},
    {"qwen3-next", "train.micro_batch_size=2 ", M "context_parallel_size=2 cluster.n_gpus=4"},
    {"mixtral", "",
     M "context_parallel_size=2 " M "cp_comm_type=[p2p,a2a,all_gather,p2p] cluster.n_gpus=2"},
    {"qwen3-moe", PER_TOKEN, TP2 PP2 "cluster.n_gpus=8"},
    {"qwen3-moe", "", PP2 VPP2 "cluster.n_gpus=2 " M "microbatch_group_size_per_vp_stage=4"},
    {"qwen3-moe", "",
     PP2 VPP2 EP2 "cluster.n_gpus=4 " M "microbatch_group_size_per_vp_stage=4 "
                  "comm_overlap.overlap_moe_expert_parallel_comm=true " M
                  "moe_token_dispatcher_type=alltoall"},
    {"gpt-oss", "", TP2 EP2 PP2 VPP2 M "moe_token_dispatcher_type=alltoall cluster.n_gpus=4"},
};

static void special_layouts_agree(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        const special *x = &specials[i];
        arena *a = arena_create();
        for (int c = 0; c < N_FAMILY_CASES; c++) {
            if (!strstr(family_cases[c], x->family)) continue;
            rig_reference *ref =
                rig_reference_of(family_cases[c], arena_text(a, "%s %s", same, x->both));
            bad += !agrees(ref, x->words);
            rig_reference_free(ref);
        }
        arena_destroy(a);
    }
    assert_int_equal(bad, 0);
}

static int make_references(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        references[c] = rig_reference_of(family_cases[c], same);
    return 0;
}

static int free_references(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) rig_reference_free(references[c]);
    return 0;
}

/* test_layouts FAMILY "WORDS": one layout, as a line of a failed run names it. */
static int run_one(const char *family, const char *words)
{
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        if (!strstr(family_cases[c], family)) continue;
        rig_reference *ref = rig_reference_of(family_cases[c], same);
        rig_result r;
        rig_compare(&r, ref, words);
        printf("%s gradients %.2e (%s; limit %.1e), curve %.2e, loads %s, overflow %lld\n", r.text,
               r.gradient, r.worst ? r.worst : "-", 10 * ref->spread, r.loss,
               r.loads_differ ? "differ" : "equal", (long long)r.overflows);
        rig_reference_free(ref);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3) return run_one(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_agree_with_one_rank),
        cmocka_unit_test(random_layouts_agree),
        cmocka_unit_test(special_layouts_agree),
    };
    return cmocka_run_group_tests(tests, make_references, free_references);
}
