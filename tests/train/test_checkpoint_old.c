/* test_checkpoint_old.c - checkpoints that were written by earlier programs load, bit for bit.
 *
 * tests/data/checkpoint has one folder for each format that was ever written, and make.sh, which
 * wrote them. They are never written again: what people have on their disks is not, either. */
#include "checkpoint_testing.h"

#include "train/checkpoint/tensor_file.h"

#define OLD "tests/data/checkpoint/"

/* As the program that wrote it had them. */
static const struct {
    const char *folder;
    int64_t iteration;
    checkpoint_state state;
    uint64_t fingerprint, weights, exp_avg, exp_avg_sq;
    int n_files;
} rows[] = {
    {OLD "v1",
     3,
     {.iteration = 3,
      .consumed_samples = 6,
      .scheduler_samples = 6,
      .optimizer_steps = 3,
      .seed = 1234},
     0xc27b8cdc1fe2043c,
     0xf5d20cd952dcc2f0,
     0xdcb08a0e59dd2a7e,
     0x25e1018aada6bc4c,
     6},
};

/* The model that the checkpoint's own recipe describes, on one rank. */
static void build(run *r, const checkpoint_info *info)
{
    arena *a = r->x.a;
    recipe *read = ARENA_NEW(a, recipe);
    recipe_init(read, a, "old");
    if (recipe_parse_yaml(read, "recipe", info->recipe, strlen(info->recipe), &r->x.err))
        fail_msg("%s", r->x.err.text);
    setup *s = ARENA_NEW(a, setup);
    weight_list *w = ARENA_NEW(a, weight_list);
    if (setup_init(s, read, a, &r->x.err)) fail_msg("%s", r->x.err.text);
    weight_list_init(w, s, a);
    r->c = (checkpoint){.s = s, .w = w};
    r->c.weights = ARENA_ARRAY(a, float, w->elements);
    r->c.exp_avg = ARENA_ARRAY(a, float, w->owned);
    r->c.exp_avg_sq = ARENA_ARRAY(a, float, w->owned);
}

/* Of what is trained, weight after weight, without what lies between them. */
static uint64_t moments_sum(const weight_list *w, const float *values)
{
    sum64 sum;
    sum_init(&sum);
    for (int i = 0; i < w->n; i++)
        if (w->list[i].row->trained)
            sum_add(&sum, values + w->list[i].offset, (size_t)w->list[i].n * sizeof *values);
    return sum_value(&sum);
}

static void must_be(const char *what, uint64_t is, uint64_t was)
{
    if (is != was) fail_msg("%s: %016" PRIx64 ", was %016" PRIx64, what, is, was);
}

static void old_checkpoints_load_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = {.x.a = arena_create()};
        checkpoint_info info;
        int64_t latest;
        assert_int_equal(checkpoint_latest(rows[i].folder, &latest, &r.x.err), OK);
        assert_int_equal(latest, rows[i].iteration);
        if (checkpoint_read_info(&info, r.x.a, rows[i].folder, latest, &r.x.err))
            fail_msg("%s", r.x.err.text);
        assert_int_equal(info.n_files, rows[i].n_files);
        assert_true(info.has_moments);
        build(&r, &info);
        if (checkpoint_load(&r.c, rows[i].folder, latest, &r.x.err)) fail_msg("%s", r.x.err.text);
        assert_memory_equal(&r.c.state, &rows[i].state, sizeof r.c.state);
        must_be("fingerprint", checkpoint_fingerprint(r.c.s, r.c.w), rows[i].fingerprint);
        must_be("weights", checkpoint_weights_sum(r.c.w, r.c.weights), rows[i].weights);
        must_be("exp_avg", moments_sum(r.c.w, r.c.exp_avg), rows[i].exp_avg);
        must_be("exp_avg_sq", moments_sum(r.c.w, r.c.exp_avg_sq), rows[i].exp_avg_sq);
        arena_destroy(r.x.a);
    }
}

/* Knobs that are gone would make the recipe of an old checkpoint unreadable. */
static void nothing_in_an_old_recipe_has_changed_its_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = {.x.a = arena_create()};
        checkpoint_info info;
        if (checkpoint_read_info(&info, r.x.a, rows[i].folder, rows[i].iteration, &r.x.err))
            fail_msg("%s", r.x.err.text);
        build(&r, &info);
        textbuf changed = text_init(r.x.a);
        const stored_recipe stored = checkpoint_recipe(&info);
        if (stored_compare(&stored, &r.c.s->r, true, &changed, &r.x.err))
            fail_msg("%s", r.x.err.text);
        assert_string_equal(changed.s ? changed.s : "", "");
        arena_destroy(r.x.a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_checkpoints_load_bit_for_bit),
        cmocka_unit_test(nothing_in_an_old_recipe_has_changed_its_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
