/* test_checkpoint_meta.c - metadata.json whose checksum is right and whose numbers cannot be. */
#include "checkpoint_testing.h"

#include "train/checkpoint/meta.h"

/* Changes iteration 1's metadata.json and makes its checksum right. */
static void change(run *r, const char *in, const char *field, json_t *now)
{
    const char *path = inside(r, 1, CHECKPOINT_META);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *o = strcmp(in, "files") == 0 ? json_array_get(json_object_get(root, in), 0)
                                         : json_object_get(root, in);
    assert_non_null(o);
    if (now)
        json_object_set_new(o, field, now);
    else
        json_object_del(o, field);
    checkpoint_meta_seal(root);
    (void)remove(path);
    if (checkpoint_meta_write(root, file_folder(r->x.a, path), &r->x.err))
        fail_msg("%s", r->x.err.text);
    json_decref(root);
}

static const struct {
    const char *in, *field;
    int64_t value;
    bool fine;
} rows[] = {
    {"state", "iteration", -1, false},
    {"state", "iteration", INT64_MIN, false},
    {"state", "iteration", INT64_MAX, false},
    {"state", "iteration", (INT64_C(1) << 53) + 1, false},
    {"state", "iteration", 1, true},
    {"state", "consumed_samples", -1, false},
    {"state", "consumed_samples", INT64_MAX, false},
    {"state", "consumed_samples", INT64_C(1) << 53, true},
    {"state", "consumed_valid_samples", -5, false},
    {"state", "consumed_valid_samples", INT64_C(1) << 62, false},
    {"state", "skipped_iterations", -1, false},
    {"state", "skipped_iterations", 2, false}, /* of one step */
    {"state", "skipped_iterations", 1, true},
    {"state", "scheduler_samples", -3, false},
    {"state", "scheduler_samples", INT64_MAX, false},
    {"state", "optimizer_steps", -1, false},
    {"state", "optimizer_steps", 2, false},
    {"state", "seed", -7, true},
    {"state", "seed", INT64_MIN, true},
    {"files", "bytes", -1, false},
    {"files", "bytes", INT64_MAX, false},
};

static void sealed_numbers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run a;
        run_init(&a, NULL, tiny);
        a.c.state = (checkpoint_state){.consumed_samples = 2, .optimizer_steps = 1};
        save(&a, 1, 0);
        checkpoint_state before = {.iteration = 77};
        a.c.state = before;
        change(&a, rows[i].in, rows[i].field, json_integer(rows[i].value));
        status s = checkpoint_load(&a.c, a.folder, 1, &a.x.err);
        assert_int_equal(s, rows[i].fine ? OK : ERR_INPUT);
        if (!rows[i].fine) {
            assert_has(a.x.err.text, "iter_0000001/metadata.json");
            assert_has(a.x.err.text,
                       arena_text(a.x.a, " %s=%" PRId64, rows[i].field, rows[i].value));
            assert_has(a.x.err.text, "repair: load another checkpoint (checkpoint.ckpt_step=N)");
            assert_memory_equal(&a.c.state, &before, sizeof before);
        }
        run_release(&a);
    }
}

static void fields_of_another_type_are_refused_by_name(void **state)
{
    (void)state;
    json_t *values[] = {json_string("1"), json_real(1.5), json_null(), NULL};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        run a;
        run_init(&a, NULL, tiny);
        save(&a, 1, 0);
        change(&a, "state", "consumed_samples", values[i]);
        assert_int_equal(checkpoint_load(&a.c, a.folder, 1, &a.x.err), ERR_INPUT);
        assert_has(a.x.err.text, "consumed_samples is missing or of the wrong type");
        run_release(&a);
    }
}

static void buffer_factors_that_cannot_be_are_refused(void **state)
{
    (void)state;
    json_t *values[] = {json_string("2"), json_real(0.5), json_real(1e9), json_null()};
    run a;
    run_init(&a, NULL, tiny);
    save(&a, 1, 0);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        change(&a, "state", "moe_buffer_factor", values[i]);
        assert_int_equal(checkpoint_load(&a.c, a.folder, 1, &a.x.err), ERR_INPUT);
        assert_has(a.x.err.text, "moe_buffer_factor is missing or of the wrong type");
    }
    change(&a, "state", "moe_buffer_factor", NULL); /* as in older checkpoints */
    assert_int_equal(checkpoint_load(&a.c, a.folder, 1, &a.x.err), OK);
    run_release(&a);
}

/* What could not be read again is not saved. */
static void numbers_that_cannot_be_are_not_saved(void **state)
{
    (void)state;
    run a;
    int64_t n;
    run_init(&a, NULL, tiny);
    save(&a, 1, 0);
    a.c.state = (checkpoint_state){.iteration = 2, .consumed_samples = -4};
    assert_int_equal(checkpoint_save(&a.c, a.folder, 1, &a.x.err), ERR_MACHINE);
    assert_has(a.x.err.text, "consumed_samples=-4");
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 1);
    run_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_numbers_that_cannot_be_are_refused),
        cmocka_unit_test(fields_of_another_type_are_refused_by_name),
        cmocka_unit_test(buffer_factors_that_cannot_be_are_refused),
        cmocka_unit_test(numbers_that_cannot_be_are_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
