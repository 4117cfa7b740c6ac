/* Recorded loads of experts: what files say, what they are refused for, and what they cost. */
#include "ir/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "predict/price.h"

/* ---- files */

typedef struct bad_file {
    const char *text, *says;
} bad_file;

static const bad_file bad_files[] = {
    {"", "bad.json:1:"},
    {"[]", "is not a recorded routing"},
    {"{\"experts\": 2}", "is not a recorded routing"},
    {"{\"experts\": 0, \"layers\": []}", "\"experts\": a whole number of at least 1"},
    {"{\"experts\": 2.5, \"layers\": []}", "\"experts\": a whole number"},
    {"{\"experts\": 99999999, \"layers\": []}", "99999999 is too large"},
    {"{\"experts\": 2, \"topk\": -1, \"layers\": []}", "\"topk\": a whole number of at least 0"},
    {"{\"experts\": 2, \"experts\": 2, \"layers\": []}", "duplicate"},
    {"{\"experts\": 2, \"layers\": 7}", "\"layers\": a list of 1 to"},
    {"{\"experts\": 2, \"layers\": []}", "\"layers\": a list of 1 to"},
    {"{\"experts\": 2, \"layers\": [3]}", "row 0 of \"layers\""},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 0}]}", "layer 0: \"loads\": a list of 2"},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 0, \"loads\": [1]}]}", "a list of 2 numbers"},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 0, \"loads\": [1, -1]}]}", "layer 0, expert 1"},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 0, \"loads\": [1, 1e300]}]}", "layer 0, expert 1"},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 0, \"loads\": [\"1\", 1]}]}", "layer 0, expert 0"},
    {"{\"experts\": 2, \"layers\": [{\"layer\": 5, \"loads\": [0, 0]}]}", "layer 5: no expert got"},
    {"{\"experts\": 1, \"layers\": [{\"layer\": 1, \"loads\": [1]}, {\"layer\": 1, \"loads\": "
     "[1]}]}",
     "layer 1 comes after 1"},
};

static void bad_files_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        arena *a = arena_create();
        routing r;
        error err = {{0}};
        const char *text = bad_files[i].text;
        status s = routing_parse(&r, "bad.json", text, strlen(text), a, &err);
        if (s != ERR_INPUT || !strstr(err.text, bad_files[i].says) || !strstr(err.text, "bad.json"))
            fail_msg("%s: '%s' instead of '%s'", text, err.text, bad_files[i].says);
        arena_destroy(a);
    }
}

static const char three[] =
    "{\"model\": \"x\", \"experts\": 4, \"topk\": 2, \"steps\": 3, \"tokens\": 50, \"layers\": ["
    "{\"layer\": 1, \"loads\": [10, 30, 40, 20]}, {\"layer\": 2, \"loads\": [25, 25, 25, 25]}]}";

static void fullest_rank_of_each_size(void **state)
{
    (void)state;
    arena *a = arena_create();
    routing r;
    error err = {{0}};
    assert_int_equal(routing_parse(&r, "x", three, sizeof three - 1, a, &err), OK);
    expert_loads alone = routing_of_layer(&r, 1, 1, a), two = routing_of_layer(&r, 1, 2, a);
    assert_true(alone.skew == 1 && alone.n == 4 && alone.loads[2] == 1.6);
    assert_true(two.skew == 1.2 && two.n == 2 && two.loads[0] == 1.6 && two.loads[1] == 0.8);
    expert_loads four = routing_of_layer(&r, 1, 4, a);
    assert_true(four.skew == 1.6 && !four.loads);
    assert_true(routing_of_layer(&r, 2, 4, a).skew == 1);
    assert_true(routing_of_layer(&r, 0, 4, a).skew == 1); /* not in the file */
    assert_true(fabs(routing_skew(&r, 2) - 1.1) < 1e-12);
    assert_true(routing_skew(&r, 3) == 1); /* no such layout */
    arena_destroy(a);
}

static void written_files_are_read_back(void **state)
{
    (void)state;
    arena *a = arena_create();
    routing r, back;
    error err = {{0}};
    const char *path = arena_text(a, "/tmp/moefold-routing-%ld.json", (long)getpid());
    assert_int_equal(routing_parse(&r, "x", three, sizeof three - 1, a, &err), OK);
    for (int i = 0; i < 2; i++) /* and replaced */
        if (routing_write(&r, path, &err)) fail_msg("%s", err.text);
    if (routing_read(&back, path, a, &err)) fail_msg("%s", err.text);
    assert_true(back.n == 2 && back.experts == 4 && back.topk == 2);
    assert_true(back.steps == 3 && back.tokens == 50 && strcmp(back.model, "x") == 0);
    assert_memory_equal(back.layers[0].loads, r.layers[0].loads, 4 * sizeof(double));
    unlink(path);
    assert_int_equal(routing_write(&r, "/nowhere/x.json", &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "/nowhere/x.json: cannot be written"));
    assert_int_equal(routing_read(&back, "/nowhere/x.json", a, &err), ERR_INPUT);
    arena_destroy(a);
}

static void files_of_other_models_are_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    routing r;
    setup s;
    error err = {{0}};
    setup_of_words(&s, a, "tiny", "model.num_moe_experts=4 model.num_layers=4");
    assert_int_equal(routing_parse(&r, "r.json", three, sizeof three - 1, a, &err), OK);
    assert_int_equal(routing_fits(&r, &s.m, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "r.json: has 2 MoE layers, but tiny has 4"));
    setup_of_words(&s, a, "tiny", "model.num_moe_experts=4 model.num_layers=2");
    assert_int_equal(routing_fits(&r, &s.m, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "loads of layer 1"));
    setup_of_words(&s, a, "tiny", "model.num_moe_experts=8 model.num_layers=2");
    assert_int_equal(routing_fits(&r, &s.m, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "loads of 4 experts, but tiny has 8"));
    setup_of_words(&s, a, "tiny", "model.moe_router_topk=1 model.num_moe_experts=4");
    assert_int_equal(routing_fits(&r, &s.m, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "topk 2, but tiny has 1"));
    arena_destroy(a);
}

/* ---- prices */

/* Loads of an expert of a layer. */
typedef double (*load_of)(const model *m, int64_t row, int64_t expert, int64_t ep);

static double evenly(const model *m, int64_t row, int64_t expert, int64_t ep)
{
    (void)m, (void)row, (void)expert, (void)ep;
    return 120;
}

/* The first rank has half as much again as the mean, the last one half less. */
static double one_and_a_half(const model *m, int64_t row, int64_t expert, int64_t ep)
{
    (void)row;
    int64_t each = m->moe->experts / ep, rank = expert / each;
    return rank == 0 ? 180 : rank == ep - 1 ? 60 : 120;
}

static int64_t hot_row; /* of `hot` */

static double hot(const model *m, int64_t row, int64_t expert, int64_t ep)
{
    return row == hot_row ? one_and_a_half(m, row, expert, ep) : 120;
}

/* Ranks are alike, experts of each are not. */
static double ragged(const model *m, int64_t row, int64_t expert, int64_t ep)
{
    (void)row;
    int64_t each = m->moe->experts / ep;
    return expert % each < each / 2 ? 230 : 10;
}

static routing *made(const model *m, int64_t ep, load_of load, arena *a)
{
    textbuf t = text_init(a);
    int64_t list[MODEL_LAYERS_MAX], n = routing_layers(m, list);
    text_add(&t, "{\"experts\": %lld, \"layers\": [", (long long)m->moe->experts);
    for (int64_t i = 0; i < n; i++) {
        text_add(&t, "%s{\"layer\": %lld, \"loads\": [", i ? "," : "", (long long)list[i]);
        for (int64_t e = 0; e < m->moe->experts; e++)
            text_add(&t, "%s%g", e ? "," : "", load(m, i, e, ep));
        text_add(&t, "]}");
    }
    text_add(&t, "]}");
    routing *r = ARENA_NEW(a, routing);
    error err = {{0}};
    if (routing_parse(r, "made", t.s, t.n, a, &err)) fail_msg("%s", err.text);
    if (routing_fits(r, m, &err)) fail_msg("%s", err.text);
    return r;
}

static price priced(const char *words, load_of load, double skew, int64_t *rows)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    hardware *hw = ARENA_NEW(a, hardware);
    error err = {{0}};
    setup_of_words(s, a, "tiny", words);
    if (!s->possible || s->pipe.why_not) fail_msg("%s: not possible", words);
    if (hardware_read(hw, "h100", a, &err)) fail_msg("%s", err.text);
    hw->launch = hw->graph_launch = hw->sync = 0; /* so that nothing hides behind launching */
    price_options o = {.skew = skew};
    if (load) o.routing = made(&s->m, s->lay.ep, load, a);
    price p;
    price_setup(&p, s, hw, &o, a);
    p.evidence = NULL;
    if (rows) *rows = routing_layers(&s->m, NULL);
    arena_destroy(a);
    return p;
}

#define WIDE                                                                                       \
    "cluster.gpu=H100 model.hidden_size=2048 model.moe_ffn_hidden_size=2048 "                      \
    "model.seq_length=8192 train.global_batch_size=32 train.micro_batch_size=1 "
static const char *const layouts[] = {
    WIDE "cluster.n_gpus=4 model.expert_model_parallel_size=4",
    WIDE "cluster.n_gpus=4 model.expert_model_parallel_size=4 model.moe_token_dispatcher_type=flex "
         "model.moe_flex_dispatcher_backend=deepep",
    WIDE "cluster.n_gpus=8 model.expert_model_parallel_size=4 model.tensor_model_parallel_size=2 "
         "model.expert_tensor_parallel_size=2",
    WIDE "cluster.n_gpus=4 model.expert_model_parallel_size=4 model.recompute_granularity=full "
         "model.recompute_method=uniform model.recompute_num_layers=2",
    WIDE "cluster.n_gpus=4 model.expert_model_parallel_size=4 model.mtp_num_layers=1",
    WIDE "cluster.n_gpus=8 model.expert_model_parallel_size=4 model.pipeline_model_parallel_size=2 "
         "model.virtual_pipeline_model_parallel_size=2 "
         "comm_overlap.overlap_moe_expert_parallel_comm=true",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void same_price(const char *words, const price *a, const price *b)
{
    bool same = a->step_s == b->step_s && a->peak_bytes == b->peak_bytes;
    for (int k = 0; k < COST_KINDS; k++) same = same && a->time[k] == b->time[k];
    if (!same) fail_msg("%s: %.17g s and %.17g s", words, a->step_s, b->step_s);
}

static void even_loads_cost_what_balance_does(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        price none = priced(layouts[i], NULL, 1, NULL), even = priced(layouts[i], evenly, 0, NULL);
        same_price(layouts[i], &none, &even);
    }
}

static void uniform_loads_cost_what_their_skew_does(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        price number = priced(layouts[i], NULL, 1.5, NULL);
        price file = priced(layouts[i], one_and_a_half, 0, NULL),
              none = priced(layouts[i], NULL, 1, NULL);
        same_price(layouts[i], &number, &file);
        assert_true(file.step_s > none.step_s);
        assert_true(file.time[COST_EP] > 1.2 * none.time[COST_EP]);
        assert_true(file.skew == 1.5 && file.worst_skew == 1.5);
    }
}

static void option_and_knob_are_one(void **state)
{
    (void)state;
    char words[1024], room[1024];
    snprintf(words, sizeof words, "%s moefold.routing_skew=1.5", layouts[0]);
    snprintf(room, sizeof room, "%s moefold.moe_buffer_factor=1.5", layouts[0]);
    price option = priced(room, NULL, 1.5, NULL), set = priced(words, NULL, 0, NULL);
    same_price(words, &option, &set);
}

/* What each layer adds by itself is what all add together: no layer takes another's loads. */
static void layers_have_their_own_loads(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        if (strstr(layouts[i], "pipeline")) continue; /* the slowest stage would change */
        int64_t n = 0;
        price none = priced(layouts[i], NULL, 1, &n), all = priced(layouts[i], NULL, 1.5, NULL);
        for (int k = COST_GROUPED; k <= COST_EP; k += COST_EP - COST_GROUPED) {
            double sum = 0;
            for (hot_row = 0; hot_row < n; hot_row++) {
                price one = priced(layouts[i], hot, 0, NULL);
                assert_true(one.time[k] > none.time[k]);
                assert_true(one.worst_skew == 1.5 && one.skew < 1.5);
                sum += one.time[k] - none.time[k];
            }
            if (fabs(sum / (all.time[k] - none.time[k]) - 1) > 1e-9)
                fail_msg("%s: kind %d: %g one by one, %g together", layouts[i], k, sum,
                         all.time[k] - none.time[k]);
        }
    }
}

/* The two halves of a pair belong to different layers: a stage with the hot layer is slower,
 * whichever it is. */
static void pairs_know_their_layers(void **state)
{
    (void)state;
    const char *words = layouts[N_LAYOUTS - 1];
    int64_t n = 0;
    price none = priced(words, NULL, 1, &n), all = priced(words, NULL, 1.5, NULL);
    for (hot_row = 0; hot_row < n; hot_row++) {
        price one = priced(words, hot, 0, NULL);
        assert_true(one.step_s > none.step_s && one.step_s < all.step_s);
    }
}

static void ragged_experts_cost_more_than_even_ones(void **state)
{
    (void)state;
    const char *words = WIDE "cluster.n_gpus=2 model.expert_model_parallel_size=2 "
                             "model.seq_length=512 model.max_position_embeddings=8192";
    price even = priced(words, evenly, 0, NULL), own = priced(words, ragged, 0, NULL);
    assert_true(own.skew == 1);
    assert_true(own.time[COST_GROUPED] > even.time[COST_GROUPED]);
    assert_true(own.time[COST_EP] == even.time[COST_EP]);
}

static void one_rank_with_all_experts_has_no_skew(void **state)
{
    (void)state;
    const char *words = WIDE "cluster.n_gpus=4";
    price none = priced(words, NULL, 0, NULL), skewed = priced(words, NULL, 3, NULL);
    same_price(words, &none, &skewed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(fullest_rank_of_each_size),
        cmocka_unit_test(written_files_are_read_back),
        cmocka_unit_test(files_of_other_models_are_refused),
        cmocka_unit_test(even_loads_cost_what_balance_does),
        cmocka_unit_test(uniform_loads_cost_what_their_skew_does),
        cmocka_unit_test(option_and_knob_are_one),
        cmocka_unit_test(layers_have_their_own_loads),
        cmocka_unit_test(pairs_know_their_layers),
        cmocka_unit_test(ragged_experts_cost_more_than_even_ones),
        cmocka_unit_test(one_rank_with_all_experts_has_no_skew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
