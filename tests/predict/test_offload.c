/* The price of activation offload: copies take the host link's time, show where nothing hides them,
 * and the memory that they free is what the plan says. */
#include "ir/testing.h"

#include <math.h>

#include "plan/changes.h"
#include "predict/price.h"
#include "config/models/models.h"
#include "rules/rules.h"

#define LAYOUT                                                                                     \
    "cluster.gpu=GB200 cluster.n_gpus=64 cluster.nvlink_domain=64 model.seq_length=4096 "          \
    "model.expert_model_parallel_size=8 model.pipeline_model_parallel_size=2 "                     \
    "train.global_batch_size=256 mixed_precision=bf16_mixed "                                      \
    "model.moe_router_force_load_balancing=true "
#define OFF(list) "model.fine_grained_activation_offloading=true model.offload_modules=[" list "] "
#define OVERLAP                                                                                    \
    "comm_overlap.overlap_moe_expert_parallel_comm=true "                                          \
    "model.virtual_pipeline_model_parallel_size=4 "

typedef struct priced {
    arena *a;
    setup s;
    hardware hw;
    price p;
} priced;

/* The link is `faster` times as fast as described. */
static priced *price_words(const char *words, double faster)
{
    arena *a = arena_create();
    priced *x = ARENA_NEW(a, priced);
    violations found;
    error err = {{0}};
    x->a = a;
    setup_of_words(&x->s, a, "qwen3-30b-a3b", words);
    rules_check(&found, &x->s, false, a);
    if (found.n_errors) fail_msg("%s: %s", words, found.list[0].message);
    assert_int_equal(hardware_read(&x->hw, recipe_word(&x->s.r, K_GPU), a, &err), OK);
    x->hw.host_bandwidth *= faster;
    price_setup(&x->p, &x->s, &x->hw, NULL, a);
    return x;
}

static double copied_bytes(const program *p)
{
    double bytes = 0;
    for (int64_t i = 0; i < p->items[PART_STEP].n; i++) {
        const item *it = &p->items[PART_STEP].list[i];
        for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
            const op *o = &it->seg->ops[it->phase][k];
            if (op_is_copy(o->kind)) bytes += (double)it->seg->bufs[o->in[0]].bytes;
        }
    }
    return bytes;
}

/* Everything that a microbatch leaves on the host goes there and comes back, once. */
static void copies_take_the_links_time(void **state)
{
    (void)state;
    static const char *const layouts[] = {LAYOUT OFF("core_attn,attn_proj,qkv_linear"),
                                          LAYOUT OVERLAP OFF("core_attn,attn_proj,mlp_norm")};
    for (int i = 0; i < 2; i++) {
        priced *x = price_words(layouts[i], 1);
        program *p = ARENA_NEW(x->a, program);
        program_build(p, &x->s, layout_stage_rank(&x->s.lay, x->p.slowest), x->a);
        double once = 0, bytes = copied_bytes(p);
        for (int64_t v = 0; v < p->n_chunks; v++) once += (double)p->chunks[v].host_bytes;
        assert_true(bytes > 0 && bytes <= 2 * once * (double)p->micros);
        assert_true(bytes > 0.999 * 2 * once * (double)p->micros); /* but for alignment */
        assert_true(fabs(x->p.time[COST_COPY] - bytes / x->hw.host_bandwidth) <
                    1e-6 * x->p.time[COST_COPY]);
        arena_destroy(x->a);
    }
}

static void what_nothing_hides_shows(void **state)
{
    (void)state;
    const char *words = LAYOUT OFF("core_attn,attn_proj,qkv_linear,expert_fc1,moe_act");
    priced *off = price_words(LAYOUT, 1), *on = price_words(words, 1);
    priced *fast = price_words(words, 1e6), *slow = price_words(words, 0.01);
    assert_true(off->p.time[COST_COPY] == 0 && on->p.time[COST_COPY] > 0);
    assert_true(fast->p.exposed[COST_COPY] < 1e-3 * off->p.step_s);
    assert_true(slow->p.exposed[COST_COPY] > 0.5 * slow->p.step_s);
    assert_true(slow->p.wall == WALL_COMMUNICATION);
    assert_true(fast->p.step_s <= on->p.step_s && on->p.step_s < slow->p.step_s);
    assert_true(off->p.step_s <= fast->p.step_s);
    arena_destroy(off->a), arena_destroy(on->a), arena_destroy(fast->a), arena_destroy(slow->a);
}

/* On CPUs the cores that compute make the copies: all of it shows. */
static void cpus_hide_no_copy(void **state)
{
    (void)state;
    priced *x = price_words(
        "cluster.gpu=cpu model.seq_length=256 model.num_layers=2 "
        "train.global_batch_size=2 model.min_offloaded_tensor_size=0 " OFF("core_attn,attn_proj"),
        1);
    assert_true(x->p.time[COST_COPY] > 0);
    assert_true(x->p.exposed[COST_COPY] == x->p.time[COST_COPY]);
    arena_destroy(x->a);
}

/* The device has less by what the host takes, and more by temporaries and inputs in passing. */
static void bytes_go_to_the_host(void **state)
{
    (void)state;
    priced *off = price_words(LAYOUT "comm_overlap.overlap_p2p_comm=false ", 1);
    priced *on = price_words(LAYOUT "comm_overlap.overlap_p2p_comm=false " OFF(
                                 "core_attn,attn_proj,qkv_linear,expert_fc1,moe_act"),
                             1);
    assert_int_equal(off->p.host_bytes, 0);
    assert_int_equal(off->p.fullest, on->p.fullest);
    assert_int_equal(off->p.bytes[REGION_SAVED] - on->p.bytes[REGION_SAVED], on->p.host_bytes);
    int64_t more = on->p.bytes[REGION_TEMP] - off->p.bytes[REGION_TEMP] +
                   on->p.bytes[REGION_BOUNDARY] - off->p.bytes[REGION_BOUNDARY];
    assert_int_equal(off->p.arena_bytes - on->p.arena_bytes, on->p.host_bytes - more);
    assert_true(more < on->p.host_bytes / 2);
    arena_destroy(off->a), arena_destroy(on->a);
}

static const price_change *change_with(const price_change *list, int n, const char *words)
{
    for (int i = 0; i < n; i++)
        if (strstr(list[i].words, words)) return &list[i];
    return NULL;
}

/* Offload is one of the changes that a price lists: on where it is off, off where it is on. */
static void offload_is_among_the_changes(void **state)
{
    (void)state;
    static const char *const layouts[] = {LAYOUT, LAYOUT OFF("expert_fc1,moe_act")};
    static const char *const wanted[] = {"offload_modules=[expert_fc1,moe_act]",
                                         "offload_modules=[]"};
    for (int i = 0; i < 2; i++) {
        price_change list[64];
        price_options o = {0};
        priced *x = price_words(layouts[i], 1);
        recipe *given = ARENA_NEW(x->a, recipe);
        *given = x->s.r;
        for (int k = 0; k < K_COUNT; k++)
            if (given->knob[k].from != FROM_USER) given->knob[k].from = FROM_NOTHING;
        error err = {{0}};
        assert_int_equal(model_fill(given, &err), OK);
        change_job about = {.given = given, .now = &x->p, .hw = &x->hw, .o = &o};
        int n = price_changes(list, 64, &about, x->a);
        const price_change *c = change_with(list, n, wanted[i]);
        assert_non_null(c);
        assert_true(i == 0 ? c->peak_bytes < x->p.peak_bytes : c->peak_bytes > x->p.peak_bytes);
        arena_destroy(x->a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_take_the_links_time),
        cmocka_unit_test(what_nothing_hides_shows),
        cmocka_unit_test(cpus_hide_no_copy),
        cmocka_unit_test(bytes_go_to_the_host),
        cmocka_unit_test(offload_is_among_the_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
