/* test_optimizer_ranks.c - ranks share the norm and the update; the router's correction bias. */
#include "train/executor/init_weights.h"
#include "train/optimizer_testing.h"

/* ---- ranks */

/* What one rank, or one with the whole model, holds; values follow from names and places alone. */
typedef struct held {
    program p;
    optimizer o;
    float *w, *g, *m, *v;
} held;

static void hold(held *h, const setup *s, const rank_at *at)
{
    *h = (held){.p = {.s = s, .at = at ? *at : (rank_at){0}}};
    if (at)
        weight_list_rank(&h->p.weights, s, at, scratch);
    else
        weight_list_init(&h->p.weights, s, scratch);
    optimizer_init(&h->o, &h->p, DECAY_MEGATRON, scratch);
    h->w = ARENA_ARRAY(scratch, float, h->p.weights.elements);
    h->g = ARENA_ARRAY(scratch, float, h->p.weights.elements);
    h->m = ARENA_ARRAY(scratch, float, h->p.weights.owned);
    h->v = ARENA_ARRAY(scratch, float, h->p.weights.owned);
    init_weights(s, at, &h->p.weights, 5, h->w);
    init_weights(s, at, &h->p.weights, 6, h->g);
}

/* What the rank has updated is as in the whole model; counts the elements that it answers for. */
static void compare_rank(const held *rank, const held *whole, char *times)
{
    const setup *s = rank->p.s;
    for (int i = 0; i < rank->p.weights.n; i++) {
        const weight *w = &rank->p.weights.list[i];
        const weight *all = weight_find(&whole->p.weights, w->row, w->layer, -1);
        if (!w->row->trained) continue;
        part_map map;
        part_map_init(&map, s, &rank->p.at, w);
        int64_t first, n = owned_range(&rank->p.weights, w, &first), run;
        bool answers = rank_answers(s, &rank->p.at, w);
        for (int64_t e = 0; e < all->n; e++) {
            int64_t k = part_map_find(&map, e, &run);
            if (k < first || k >= first + n) continue;
            assert_true(rank->w[w->offset + k] == whole->w[all->offset + e]);
            times[all->offset + e] = (char)(times[all->offset + e] + answers);
        }
    }
}

static void ranks_share(const char *overrides)
{
    setup s;
    held whole;
    set_up_words(&s, overrides);
    hold(&whole, &s, NULL);
    double sum = 0, all = optimizer_squares(&whole.o, F32(whole.g));
    int64_t zeros = 0;
    char *times = ARENA_ARRAY(scratch, char, whole.p.weights.elements);
    step_rates rates = {1e-3, 2e-3, 0.1, 0.5};
    optimizer_update(&whole.o, ARRAYS(whole), rates);
    for (int64_t r = 0; r < s.lay.world; r++) {
        held rank;
        rank_at at = rank_coordinates(&s.lay, r);
        hold(&rank, &s, &at);
        sum += optimizer_squares(&rank.o, F32(rank.g));
        zeros += optimizer_zeros(&rank.o, F32(rank.g));
        optimizer_update(&rank.o, ARRAYS(rank), rates);
        compare_rank(&rank, &whole, times);
    }
    assert_true(fabs(sum - all) < 1e-12 * all);
    assert_int_equal(zeros, optimizer_zeros(&whole.o, F32(whole.g)));
    for (int i = 0; i < whole.p.weights.n; i++) {
        const weight *w = &whole.p.weights.list[i];
        for (int64_t e = 0; e < w->n && w->row->trained; e++)
            assert_int_equal(times[w->offset + e], 1);
    }
}

static void ranks_share_norm_and_update(void **state)
{
    (void)state;
    ranks_share(SMALL " cluster.n_gpus=4 model.tensor_model_parallel_size=2 "
                      "model.expert_model_parallel_size=2 model.expert_tensor_parallel_size=1");
    ranks_share(GOLDEN "gpt-oss-tiny cluster.n_gpus=4 model.expert_tensor_parallel_size=2 "
                       "model.expert_model_parallel_size=2 model.tensor_model_parallel_size=2");
    ranks_share(SMALL " cluster.n_gpus=4 model.pipeline_model_parallel_size=2 "
                      "model.context_parallel_size=2");
    ranks_share(SMALL " cluster.n_gpus=4 ddp.use_distributed_optimizer=false "
                      "model.expert_model_parallel_size=2");
    ranks_share(GOLDEN "mtp-tiny cluster.n_gpus=4 model.pipeline_model_parallel_size=2");
}

/* ---- the router's correction bias */

/* Computed by Megatron-Core's get_updated_expert_bias, rate 1e-3; expert 3 has the mean load. */
static void expert_bias_is_megatrons(void **state)
{
    (void)state;
    static const float counts[] = {1, 2, 22, 12, 20, 15, 11, 29, 6, 22, 0, 9, 15, 15, 13, 0};
    static const double before[] = {
        -0.23305609822273254, -0.146515354514122,  0.10327304899692535,   -0.06977449357509613,
        0.22772541642189026,  0.04932216927409172, -0.11740028113126755,  0.25976935029029846,
        -0.1391223520040512,  0.0668177455663681,  -0.35918501019477844,  -0.0732475072145462,
        0.007164320442825556, 0.07015325874090195, -0.048962756991386414, -0.49148088693618774};
    static const double after[] = {
        -0.23205609619617462, -0.1455153524875641, 0.10227304697036743,  -0.06977449357509613,
        0.22672541439533234,  0.0483221709728241,  -0.11640027910470963, 0.25876936316490173,
        -0.1381223499774933,  0.06581774353981018, -0.3581850230693817,  -0.07224750518798828,
        0.006164320278912783, 0.06915325671434402, -0.04996275529265404, -0.490480899810791};
    float bias[16];
    for (int i = 0; i < 16; i++) bias[i] = (float)before[i];
    update_bias(bias, counts, 16, 1e-3);
    for (int i = 0; i < 16; i++) assert_true(bias[i] == (float)after[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_norm_and_update),
        cmocka_unit_test(expert_bias_is_megatrons),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
