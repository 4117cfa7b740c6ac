/* Differences between recipes: planted ones are named, parts add up, what is the same is silent. */
#include "ir/testing.h"

#include <math.h>

#include "config/models/models.h"
#include "plan/differences.h"

static const char base[] = "cluster.gpu=H100 cluster.n_gpus=64 tp=2 pp=4 ep=8 etp=1 gbs=128 mbs=1";

static status machine(hardware *h, const setup *s, arena *a, error *err)
{
    return hardware_read(h, recipe_word(&s->r, K_GPU), a, err);
}

static recipe *recipe_of(arena *a, const char *model_name, const char *words)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    recipe_init(r, a, model_name);
    recipe_set(r, K_MODEL, value_of_text(model_name), "test");
    status st = OK;
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        if (n) st = recipe_override(r, arena_copy(a, w, n), "test", &err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, &err);
    if (st) fail_msg("%s: %s", words, err.text);
    return r;
}

static status find(differences *d, arena *a, const char *more_a, const char *more_b, error *err)
{
    diff_job j = {.machine = machine};
    j.a = recipe_of(a, "qwen3-30b-a3b", arena_text(a, "%s %s", base, more_a));
    j.b = recipe_of(a, "qwen3-30b-a3b", arena_text(a, "%s %s", base, more_b));
    return differences_find(d, &j, a, err);
}

static double sum_of_changes(const differences *d)
{
    double sum = 0;
    for (int i = 0; i < d->n_changes; i++) sum += d->changes[i].seconds;
    return sum;
}

static const diff_change *change_of(const differences *d, const char *word)
{
    for (int i = 0; i < d->n_changes; i++)
        if (strstr(d->changes[i].words, word)) return &d->changes[i];
    return NULL;
}

/* One knob is planted each time: it is the only change, and accounts for all of it. */
static void planted_knobs_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *words, *names, *key;
        int time, memory; /* sign that they must have; 0: any */
    } planted[] = {
        {"mbs=2", "microbatch", "train.micro_batch_size", 0, +1},
        {"model.moe_token_dispatcher_type=allgather", "dispatcher",
         "model.moe_token_dispatcher_type", 0, 0},
        {"model.recompute_granularity=full model.recompute_method=uniform "
         "model.recompute_num_layers=1",
         "recompute", "model.recompute_granularity", +1, -1},
        {"gbs=256", "train.global_batch_size", "train.global_batch_size", +1, 0},
        {"cluster.gpu=H200", "cluster", "cluster.gpu", 0, 0},
        {"mixed_precision=bf16_mixed", "precision", "mixed_precision", 0, 0},
    };
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        arena *a = arena_create();
        differences d;
        error err = {{0}};
        if (find(&d, a, "mixed_precision=bf16_with_fp8_current_scaling_mixed",
                 arena_text(a, "mixed_precision=bf16_with_fp8_current_scaling_mixed %s",
                            planted[i].words),
                 &err))
            fail_msg("%s: %s", planted[i].words, err.text);
        if (d.n_changes != 1 || !text_equal(d.changes[0].names, planted[i].names) ||
            !strstr(d.changes[0].words, planted[i].key))
            fail_msg("%s: %d changes, the first is %s: %s", planted[i].words, d.n_changes,
                     d.n_changes ? d.changes[0].names : "", d.n_changes ? d.changes[0].words : "");
        const diff_change *c = &d.changes[0];
        assert_true(fabs(c->seconds - (d.b.p.step_s - d.a.p.step_s)) < 1e-12);
        assert_true(c->alone && fabs(c->alone_seconds - c->seconds) < 1e-12);
        assert_true(planted[i].time * c->seconds >= 0 && planted[i].memory * c->bytes >= 0);
        if (planted[i].time) assert_true(c->seconds != 0);
        if (planted[i].memory) assert_true(c->bytes != 0);
        arena_destroy(a);
    }
}

/* Five at once: each is a stop, and the parts are the whole. */
static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    arena *a = arena_create();
    differences d;
    error err = {{0}};
    if (find(&d, a, "",
             "mbs=2 gbs=256 model.moe_token_dispatcher_type=allgather "
             "model.recompute_granularity=full model.recompute_method=uniform "
             "model.recompute_num_layers=1 cluster.gpu=H200",
             &err))
        fail_msg("%s", err.text);
    assert_int_equal(d.n_changes, 5);
    assert_true(fabs(sum_of_changes(&d) - (d.b.p.step_s - d.a.p.step_s)) < 1e-9);
    static const char *const keys[] = {"micro_batch_size", "global_batch_size", "dispatcher_type",
                                       "recompute_granularity", "cluster.gpu"};
    for (int i = 0; i < 5; i++)
        if (!change_of(&d, keys[i])) fail_msg("%s is no change", keys[i]);
    const diff_change *last = &d.changes[4];
    assert_true(last->p.step_s == d.b.p.step_s && last->p.peak_bytes == d.b.p.peak_bytes);
    arena_destroy(a);
}

static void sizes_that_go_together_are_one_change(void **state)
{
    (void)state;
    arena *a = arena_create();
    differences d;
    error err = {{0}};
    if (find(&d, a, "", "tp=8 ep=16 mbs=2", &err)) fail_msg("%s", err.text);
    assert_true(d.n_changes >= 2 && d.n_changes <= 3);
    assert_true(fabs(sum_of_changes(&d) - (d.b.p.step_s - d.a.p.step_s)) < 1e-9);
    arena_destroy(a);
}

static void the_same_recipe_has_no_difference(void **state)
{
    (void)state;
    arena *a = arena_create();
    differences d;
    error err = {{0}};
    if (find(&d, a, "", "", &err)) fail_msg("%s", err.text);
    assert_true(d.n_knobs == 0 && d.n_changes == 0 && d.a.p.step_s == d.b.p.step_s);
    /* What is said and is so anyway is no difference either. */
    if (find(&d, a, "", "model.context_parallel_size=1", &err)) fail_msg("%s", err.text);
    assert_true(d.n_knobs == 0 && d.n_changes == 0);
    arena_destroy(a);
}

/* What cannot be built has knobs, and no price. */
static void what_cannot_be_built_has_knobs_only(void **state)
{
    (void)state;
    arena *a = arena_create();
    differences d;
    error err = {{0}};
    if (find(&d, a, "", "tp=3", &err)) fail_msg("%s", err.text);
    assert_true(!d.a.why_not && d.b.why_not && d.n_changes == 0 && d.n_knobs >= 1);
    arena_destroy(a);
}

static void models_must_be_the_same(void **state)
{
    (void)state;
    arena *a = arena_create();
    differences d;
    error err = {{0}};
    diff_job j = {.machine = machine};
    j.a = recipe_of(a, "qwen3-30b-a3b", base);
    j.b = recipe_of(a, "mixtral-8x7b", base);
    assert_int_equal(differences_find(&d, &j, a, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "different models"));
    assert_non_null(strstr(err.text, "mixtral-8x7b"));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_knobs_are_named),
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(sizes_that_go_together_are_one_change),
        cmocka_unit_test(the_same_recipe_has_no_difference),
        cmocka_unit_test(what_cannot_be_built_has_knobs_only),
        cmocka_unit_test(models_must_be_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
