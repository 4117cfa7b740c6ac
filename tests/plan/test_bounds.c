/* test_bounds.c - what excludes layouts of a search never excludes a winner: bounds are below what
 * they bound, layout by layout; and the best of whole programs, each priced by itself, is the
 * search's. */
#include "plan/searching.h"

#include "ir/segment.h"

typedef struct fixture {
    arena *a;
    hardware hw;
    recipe *given;
} fixture;

static void open_recipe(fixture *f, const char *hw, const char *name, const char *const *words)
{
    f->a = arena_create();
    f->given = searching_recipe(name, words, f->a);
    searching_machine(&f->hw, hw, f->a);
}

/* ---- layout by layout */

typedef struct space_of {
    const char *hw, *model;
    const char *words[17];
} space_of;

/* Cuts through the space: each leaves other axes open. Memory is no question. */
static const space_of spaces[] = {
    {"hardware/h100.yaml",
     "deepseek-v3",
     {"cluster.gpu=H100", "cluster.n_gpus=256", "model.seq_length=32768",
      "train.global_batch_size=256", "train.micro_batch_size=1",
      "model.tensor_model_parallel_size=2", "model.context_parallel_size=4",
      "model.expert_model_parallel_size=32", "model.expert_tensor_parallel_size=1",
      "model.pipeline_model_parallel_size=4", "model.virtual_pipeline_model_parallel_size=4",
      "model.cuda_graph_impl=none", "model.recompute_granularity=null"}},
    {"hardware/h100.yaml", /* TP overlap */
     "qwen3-235b-a22b",
     {"cluster.gpu=H100", "cluster.n_gpus=256", "model.seq_length=16384",
      "train.global_batch_size=256", "train.micro_batch_size=1",
      "model.tensor_model_parallel_size=4", "model.context_parallel_size=1",
      "model.expert_model_parallel_size=32", "model.expert_tensor_parallel_size=1",
      "model.pipeline_model_parallel_size=4", "model.moe_token_dispatcher_type=flex",
      "model.cuda_graph_impl=none", "model.recompute_granularity=null"}},
    {"hardware/h100.yaml",
     "deepseek-v3",
     {"cluster.gpu=H100", "cluster.n_gpus=256", "model.seq_length=32768",
      "train.global_batch_size=256", "train.micro_batch_size=1",
      "model.tensor_model_parallel_size=1", "model.context_parallel_size=8",
      "model.cp_comm_type=a2a", "model.expert_model_parallel_size=64",
      "model.expert_tensor_parallel_size=1", "model.pipeline_model_parallel_size=4",
      "model.virtual_pipeline_model_parallel_size=2", "model.moe_token_dispatcher_type=alltoall",
      "optimizer.optimizer_cpu_offload=false"}},
    {"hardware/h100.yaml", /* the prediction module, under all sets of recompute and overlaps */
     "deepseek-v3",
     {"cluster.gpu=H100", "cluster.n_gpus=256", "model.seq_length=8192",
      "train.global_batch_size=256", "train.micro_batch_size=1", "model.mtp_num_layers=1",
      "model.tensor_model_parallel_size=2", "model.context_parallel_size=1",
      "model.expert_model_parallel_size=32", "model.expert_tensor_parallel_size=1",
      "model.pipeline_model_parallel_size=4", "model.virtual_pipeline_model_parallel_size=4",
      "model.moe_token_dispatcher_type=flex", "model.cuda_graph_impl=none",
      "optimizer.optimizer_cpu_offload=false"}},
    {"hardware/h100.yaml", /* and under graphs, alltoall and shares of the optimizer */
     "deepseek-v3",
     {"cluster.gpu=H100", "cluster.n_gpus=128", "model.seq_length=32768",
      "train.global_batch_size=128", "train.micro_batch_size=1", "model.mtp_num_layers=1",
      "model.tensor_model_parallel_size=1", "model.context_parallel_size=8",
      "model.cp_comm_type=a2a", "model.expert_model_parallel_size=32",
      "model.expert_tensor_parallel_size=1", "model.pipeline_model_parallel_size=4",
      "model.moe_token_dispatcher_type=alltoall", "model.recompute_granularity=selective",
      "model.recompute_modules=[layernorm,mla_up_proj]"}},
    {"hardware/gb200.yaml",
     "qwen3-235b-a22b",
     {"cluster.gpu=GB200", "cluster.n_gpus=64", "model.seq_length=4096",
      "train.global_batch_size=256", "model.tensor_model_parallel_size=1",
      "model.context_parallel_size=1", "model.expert_model_parallel_size=32",
      "model.pipeline_model_parallel_size=2", "model.recompute_granularity=null",
      "model.moe_token_dispatcher_type=flex"}},
    {"hardware/gb200.yaml",
     "qwen3-next-80b-a3b",
     {"cluster.gpu=GB200", "cluster.n_gpus=64", "model.seq_length=8192",
      "train.global_batch_size=128", "train.micro_batch_size=1",
      "model.tensor_model_parallel_size=2", "model.context_parallel_size=1",
      "model.pipeline_model_parallel_size=1", "model.expert_tensor_parallel_size=1",
      "model.moe_token_dispatcher_type=alltoall", "optimizer.optimizer_cpu_offload=false",
      "model.expert_model_parallel_size=16"}},
};

static void bounds_are_below(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        fixture f;
        error err = {{0}};
        open_recipe(&f, spaces[i].hw, spaces[i].model, spaces[i].words);
        f.hw.usable = INT64_C(1) << 50;
        search_options o = {.hw = &f.hw, .best = 1, .judge_all = true};
        search_result *all = ARENA_NEW(f.a, search_result);
        assert_int_equal(search_run(all, f.given, &o, f.a, &err), OK);
        print_message("%s: %lld of %lld layouts judged\n", spaces[i].model,
                      (long long)all->counts.fitted, (long long)all->counts.legal);
        assert_true(all->counts.fitted > 80);
        assert_int_equal(all->counts.fitted, all->counts.legal);
        assert_int_equal(all->counts.broken, 0);
        arena_destroy(f.a);
    }
}

/* ---- whole programs */

static const char *const small[] = {"cluster.n_gpus=16",
                                    "mixed_precision=bf16_mixed",
                                    "cluster.gpu=H100",
                                    "model.seq_length=4096",
                                    "train.global_batch_size=64",
                                    "train.micro_batch_size=1",
                                    "model.tensor_model_parallel_size=1",
                                    "model.context_parallel_size=1",
                                    "model.expert_tensor_parallel_size=1",
                                    "model.cuda_graph_impl=none",
                                    "optimizer.optimizer_cpu_offload=false",
                                    NULL};

/* A recipe as a person would write it, priced if no rule stands against it. */
static double price_words(fixture *f, const char *const *words, arena *a)
{
    error err = {{0}};
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    violations v;
    price p;
    *r = *f->given;
    r->a = a;
    for (; *words; words++)
        if (recipe_override(r, *words, "test", &err)) fail_msg("%s", err.text);
    if (setup_init(s, r, a, &err) || !s->possible || s->pipe.why_not) return -1;
    rules_check(&v, s, false, a);
    if (v.n_errors) return -1;
    price_setup(&p, s, &f->hw, NULL, a);
    return p.fits ? p.step_s : -1;
}

static const char *const besides[] = {
    NULL, "model.overlap_dispatch_backward_with_experts_wgrad=true",
    "comm_overlap.overlap_moe_expert_parallel_comm=true", "comm_overlap.delay_wgrad_compute=true"};

typedef struct words_of {
    int64_t ep, pp, vpp;
    const char *to, *flex, *drop;
    int overlap;
} words_of;

static double price_one(fixture *f, const words_of *w)
{
    arena *a = arena_create();
    const char *words[18];
    int n = 0;
    words[n++] = "optimizer.use_precision_aware_optimizer=true"; /* as the search sets it */
    words[n++] = arena_text(a, "model.expert_model_parallel_size=%d", (int)w->ep);
    words[n++] = arena_text(a, "model.pipeline_model_parallel_size=%d", (int)w->pp);
    if (w->vpp > 1)
        words[n++] = arena_text(a, "model.virtual_pipeline_model_parallel_size=%d", (int)w->vpp);
    words[n++] = arena_text(a, "model.moe_token_dispatcher_type=%s", w->to);
    if (w->flex) words[n++] = arena_text(a, "model.moe_flex_dispatcher_backend=%s", w->flex);
    if (w->drop) words[n++] = "model.recompute_granularity=selective";
    if (w->drop) words[n++] = arena_text(a, "model.recompute_modules=%s", w->drop);
    if (w->overlap == 3) words[n++] = besides[2];
    if (w->overlap) words[n++] = besides[w->overlap];
    words[n] = NULL;
    double step = price_words(f, words, a);
    arena_destroy(a);
    return step;
}

static double best_of_all(fixture *f, int *n)
{
    static const char *const drops[] = {NULL, "[layernorm]", "[moe_act]", "[layernorm,moe_act]"};
    static const char *const ways[][2] = {
        {"allgather", NULL}, {"alltoall", NULL}, {"flex", "deepep"}, {"flex", "hybridep"}};
    double best = 1e300;
    for (int64_t ep = 4; ep <= 16; ep *= 2)
        for (int64_t pp = 1; pp <= 2; pp++)
            for (int64_t vpp = 1; vpp <= (pp > 1 ? 4 : 1); vpp *= 2)
                for (int i = 0; i < 4 * 4 * 4; i++) {
                    words_of w = {.ep = ep, .pp = pp, .vpp = vpp, .overlap = i % 4};
                    w.drop = drops[i / 4 % 4];
                    w.to = ways[i / 16][0];
                    w.flex = ways[i / 16][1];
                    double step = price_one(f, &w);
                    if (step <= 0) continue;
                    ++*n;
                    if (step < best) best = step;
                }
    return best;
}

static void best_is_that_of_whole_programs(void **state)
{
    (void)state;
    fixture f;
    error err = {{0}};
    int n = 0;
    open_recipe(&f, "hardware/h100.yaml", "qwen3-30b-a3b", small);
    double best = best_of_all(&f, &n);
    search_options o = {.hw = &f.hw};
    search_result *r = ARENA_NEW(f.a, search_result);
    assert_int_equal(search_run(r, f.given, &o, f.a, &err), OK);
    print_message("best of %d whole programs %.6f s, the search's %.6f s: %s\n", n, best,
                  r->best[0].exact.step_s, choice_text(f.a, &r->best[0].c));
    assert_true(n > 60);
    assert_true(r->best[0].exact.step_s <= best * (1 + 1e-9));
    const choice *c = &r->best[0].c; /* is it one of those? */
    if (c->ep >= 4 && c->pp <= 2 && c->vpp <= 4 && c->vpp != 3 && !c->split &&
        !(c->drop & ~(unsigned)(DROP_LAYERNORM | DROP_MOE_ACT)))
        assert_true(r->best[0].exact.step_s >= best * (1 - 1e-9));
    arena_destroy(f.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_below),
        cmocka_unit_test(best_is_that_of_whole_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
