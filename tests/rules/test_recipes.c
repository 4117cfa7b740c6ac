/* The recipes that we ship: each is valid, and each says what is wrong when one knob of it is. */
#include "rules/testing.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/maths.h"
#include "rules/words.h"

enum { RECIPES_MAX = 64 };
static const char *recipes[RECIPES_MAX];
static int n_recipes;
static arena *names;

static int find_recipes(void **state)
{
    (void)state;
    names = arena_create();
    DIR *folder = opendir("recipes");
    if (!folder) return -1;
    for (struct dirent *e; (e = readdir(folder)) && n_recipes < RECIPES_MAX;)
        if (strstr(e->d_name, ".yaml"))
            recipes[n_recipes++] = arena_text(names, "recipes/%s", e->d_name);
    closedir(folder);
    return n_recipes ? 0 : -1;
}

static int forget_recipes(void **state)
{
    (void)state;
    arena_destroy(names);
    return 0;
}

static void each_is_valid(void **state)
{
    (void)state;
    for (int i = 0; i < n_recipes; i++) {
        made x;
        made_good(&x, recipes[i], "");
        if (x.found.n_errors) {
            print_message("%s\n", recipes[i]);
            print_errors(&x.found);
        }
        assert_int_equal(x.found.n_errors, 0);
        made_release(&x);
    }
}

/* ---- one wrong knob */

/* Each is wrong in every recipe; where two knobs are set, the second asks for what the first
 * forbids. */
static const char *const wrong[] = {
    "TP=3",
    "TP=0",
    "TP=1000000",
    "CP=5",
    "CP=-1",
    "EP=7",
    "EP=0",
    "PP=7",
    "PP=1000000",
    "VPP=5 GBS=7",
    "VPP=0",
    "ETP=5",
    "N_GPUS=100",
    "N_GPUS=0",
    "GBS=7",
    "GBS=0",
    "MBS=0",
    "MBS=1000000000",
    "SEQ=1000000007 SYSTEM=megatron-lm",
    "SEQ=0",
    "MAX_POSITIONS=128 SYSTEM=megatron-lm",
    "PP_LAYOUT=Et|(tt|)*7L",
    "FIRST_LAYERS=1000",
    "LAYERS=0",
    "HEADS=7",
    "TOPK=100000",
    "EXPERTS=0",
    "DISPATCHER=allgathr",
    "FLEX=ncclep",
    "CAPACITY=1.0",
    "PAD_CAPACITY=true",
    "RECOMPUTE=selective RECOMPUTE_MODULES=[moe_akt]",
    "RECOMPUTE=full RECOMPUTE_METHOD=null",
    "RECOMPUTE=selective RECOMPUTE_LAYERS=4",
    "EP_OVERLAP=true RECOMPUTE=full",
    "DELAY_WGRAD=true EP_OVERLAP=false",
    "GRAPHS=transformer_engine GRAPH_MODULES=[attn,moe]",
    "GRAPHS=full_iteration",
    "PRECISION=mxfp8 GPU=H100",
    "PRECISION=nvfp4 GPU=A100",
    "FP16=true BF16=true",
    "FP8_RECIPE=mxfp9",
    "CP=1024 CP_COMM=a2a",
    "CP=2 CP_COMM=a2a+p2p",
    "CP_LEVELS=[3,7]",
    "OPT_OFFLOAD=true PRECISION_AWARE=false SYSTEM=megatron-lm",
    "EXP_AVG=bf16 PRECISION_AWARE=false",
    "DIST_OPT=false PRECISION_AWARE=true",
    "MIN_LR=1.0",
    "TRAIN_ITERS=100 WARMUP=100 SYSTEM=megatron-lm",
    "TRAIN_ITERS=100 TRAIN_SAMPLES=100",
    "SEED=0",
    "OFFLOAD=true OFFLOAD_MODULES=[attn_proj]",
    "VARIABLE_SEQ=true GRAPHS=transformer_engine",
    "MTP=2",
    "OPTIMIZER=muon TARGET=moefold",
    "OPTIMIZER=muon FP16=true BF16=false",
    "FSDP=true DIST_OPT=false",
    "HYBRID_CP=true",
    "GPU=H1000",
    "dataset.seq_length=1024",
};
enum { N_WRONG = sizeof wrong / sizeof wrong[0] };

static void check_wrong(const char *recipe_name, const char *overrides)
{
    made x, y;
    made_good(&x, recipe_name, overrides);
    if (!x.found.n_errors) fail_msg("%s %s: nothing is wrong", recipe_name, overrides);
    for (int i = 0; i < x.found.n_errors; i++) {
        const violation *v = &x.found.list[i];
        if (!*v->message) fail_msg("%s %s: %s says nothing", recipe_name, overrides, v->rule->id);
        if (!v->n_repairs) fail_msg("%s %s: %s: no repair", recipe_name, overrides, v->rule->id);
    }
    const char *const *set = NULL;
    if (!(set = fix_words(&x.r, x.a))) fail_msg("%s %s: no fix", recipe_name, overrides);
    if (made_again(&y, &x, set) || y.found.n_errors) {
        print_errors(&y.found);
        fail_msg("%s %s: the fix does not mend it", recipe_name, overrides);
    }
    made_release(&y);
    made_release(&x);
}

static void each_wrong_knob_is_named_and_mended(void **state)
{
    (void)state;
    assert_true(N_WRONG >= 20);
    for (int i = 0; i < n_recipes; i++)
        for (int k = 0; k < N_WRONG; k++) check_wrong(recipes[i], wrong[k]);
}

static void unreadable_values_are_refused(void **state)
{
    (void)state;
    static const char *const unreadable[] = {
        "PP_LAYOUT=Et|(tt|*30L", "PP_LAYOUT=Etx|L",  "TP=two",        "TP=2.5", "SP=maybe",
        "MOE_FREQ=[1,0]",        "RECOMPUTE=[full]", "no.such_knob=1"};
    for (int i = 0; i < n_recipes; i++)
        for (size_t k = 0; k < sizeof unreadable / sizeof unreadable[0]; k++) {
            made x;
            assert_int_equal(made_init(&x, recipes[i], unreadable[k]), ERR_INPUT);
            assert_true(strlen(x.err.text) > 10);
            made_release(&x);
        }
}

/* ---- a wrong world */

static int64_t fewest_by_trial(int64_t tp, int64_t cp, int64_t pp, int64_t ep, int64_t etp)
{
    int64_t n = 1;
    while (n % (tp * cp * pp) || n % (ep * etp * pp)) n++;
    return n;
}

static void check_world(const char *base, const char *overrides)
{
    made x;
    made_good(&x, base, overrides);
    const violation *v = find_violation(&x.found, "world-divides-dense-grid");
    if (!v) v = find_violation(&x.found, "world-divides-expert-grid");
    if (!v) fail_msg("%s %s: the world is not wrong", base, overrides);
    const setup *s = &x.s;
    const char *fewest = arena_text(x.a, "these sizes need at least %" PRId64 " GPUs; valid near",
                                    fewest_by_trial(I(TP), I(CP), I(PP), I(EP), I(ETP)));
    if (!strstr(v->message, fewest)) fail_msg("'%s' does not hold '%s'", v->message, fewest);
    near_layout near[3];
    int n = near_layouts(s, near, 3);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        if (i) assert_true(near[i].n_changes >= near[i - 1].n_changes);
        const char *set[N_SIZES + 1] = {NULL};
        int n_set = 0;
        textbuf named = text_init(x.a);
        for (int k = 0; k < N_SIZES; k++) {
            if (!near_layout_changes(s, &near[i], k)) continue;
            const knob *size = &knobs[near_knobs[k]];
            set[n_set++] = arena_text(x.a, "%s=%" PRId64, size->key, near[i].size[k]);
            text_add(&named, "%s%s %" PRId64, named.n ? " " : "", size->id, near[i].size[k]);
        }
        if (!strstr(v->message, named.s)) fail_msg("'%s' does not name %s", v->message, named.s);
        made y;
        assert_int_equal(made_again(&y, &x, set), OK);
        if (y.found.n_errors) print_errors(&y.found);
        if (y.found.n_errors) fail_msg("%s %s: %s is not valid", base, overrides, named.s);
        made_release(&y);
    }
    made_release(&x);
}

static void wrong_world_names_fewest_and_nearest(void **state)
{
    (void)state;
    check_world("qwen3-30b-a3b TP=2 EP=8 PP=4", "N_GPUS=12");
    check_world("qwen3-30b-a3b TP=2 EP=8 PP=4", "N_GPUS=48");
    check_world("qwen3-30b-a3b EP=16", "N_GPUS=24");
    check_world("qwen3-235b-a22b TP=4 CP=4 EP=32 PP=4", "N_GPUS=96");
    check_world("deepseek-v3 EP=64 PP=8", "N_GPUS=96");
    check_world("deepseek-v3 EP=64 PP=16", "N_GPUS=1000");
    check_world("qwen3-next-80b-a3b CP=8 EP=32", "N_GPUS=24");
    check_world("mixtral-8x7b TP=4 EP=8", "N_GPUS=12");
    check_world("lm mixtral-8x7b TP=4 EP=8 SP=true", "N_GPUS=24");
    check_world("gpt-oss-20b EP=8 PP=4", "N_GPUS=12");
}

static void one_changed_size_is_preferred(void **state)
{
    (void)state;
    made x;
    made_good(&x, "qwen3-30b-a3b TP=2 EP=8", "N_GPUS=12");
    near_layout near[3];
    assert_int_equal(near_layouts(&x.s, near, 3), 3);
    assert_int_equal(near[0].n_changes, 1);
    assert_int_equal(near[0].size[EP_], 4);
    assert_int_equal(near[0].size[TP_], 2);
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_valid),
        cmocka_unit_test(each_wrong_knob_is_named_and_mended),
        cmocka_unit_test(unreadable_values_are_refused),
        cmocka_unit_test(wrong_world_names_fewest_and_nearest),
        cmocka_unit_test(one_changed_size_is_preferred),
    };
    return cmocka_run_group_tests(tests, find_recipes, forget_recipes);
}
