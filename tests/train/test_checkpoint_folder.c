/* test_checkpoint_folder.c - a folder of checkpoints that others use, too: what is theirs stays. */
#include "checkpoint_testing.h"

#include "train/checkpoint/folder.h"

/* A checkpoint as Megatron leaves it: the same name, and a metadata.json of another kind. */
static void put_foreign(run *r, int64_t iteration)
{
    static const char text[] = "{\"sharded_backend\": \"torch_dist\"}";
    assert_int_equal(mkdir(arena_text(r->x.a, "%s/iter_%07" PRId64, r->folder, iteration), 0777),
                     0);
    put_file(inside(r, iteration, "metadata.json"), text, strlen(text));
    put_file(inside(r, iteration, "__0_0.distcp"), "x", 1);
}

static void checkpoints_of_other_programs_are_not_pruned(void **state)
{
    (void)state;
    run a;
    int64_t n;
    run_init(&a, NULL, tiny);
    save(&a, 2, 0);
    put_foreign(&a, 1);
    save(&a, 3, 1);
    assert_true(file_exists(inside(&a, 1, "__0_0.distcp")));
    assert_false(file_exists(inside(&a, 2, "metadata.json")));
    assert_int_equal(checkpoint_previous(a.folder, 3, &n, &a.x.err), OK);
    assert_int_equal(n, -1);
    assert_int_equal(checkpoint_refuse_foreign(a.folder, &a.x.err), ERR_INPUT);
    assert_has(a.x.err.text, "iter_0000001");
    run_release(&a);
}

static void the_place_of_another_program_is_not_taken(void **state)
{
    (void)state;
    run a;
    int64_t n;
    run_init(&a, NULL, tiny);
    save(&a, 2, 0);
    put_foreign(&a, 5);
    a.c.state.iteration = 5;
    assert_int_equal(checkpoint_save(&a.c, a.folder, 1, &a.x.err), ERR_INPUT);
    assert_has(a.x.err.text, "iter_0000005: is not a checkpoint of moefold");
    assert_true(file_exists(inside(&a, 5, "__0_0.distcp")));
    assert_true(file_exists(inside(&a, 2, "metadata.json")));
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 2);
    run_release(&a);
}

static void a_text_file_of_another_program_is_not_changed(void **state)
{
    (void)state;
    run a;
    size_t n;
    run_init(&a, NULL, tiny);
    put_foreign(&a, 5);
    const char *latest = arena_text(a.x.a, "%s/latest_checkpointed_iteration.txt", a.folder);
    put_file(latest, "5", 1);
    a.c.state.iteration = 6;
    assert_int_equal(checkpoint_save(&a.c, a.folder, 1, &a.x.err), ERR_INPUT);
    assert_string_equal(get_file(a.x.a, latest, &n), "5");
    assert_false(file_exists(inside(&a, 6, "metadata.json")));
    run_release(&a);
}

static void one_of_ours_that_is_damaged_is_still_ours(void **state)
{
    (void)state;
    run a;
    size_t n;
    run_init(&a, NULL, tiny);
    save(&a, 2, 0);
    const char *path = inside(&a, 2, "metadata.json");
    char *text = get_file(a.x.a, path, &n);
    put_file(path, text, n / 2);
    assert_int_equal(checkpoint_refuse_foreign(a.folder, &a.x.err), OK);
    save(&a, 2, 1);
    assert_int_equal(checkpoint_load(&a.c, a.folder, 2, &a.x.err), OK);
    run_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_of_other_programs_are_not_pruned),
        cmocka_unit_test(the_place_of_another_program_is_not_taken),
        cmocka_unit_test(a_text_file_of_another_program_is_not_changed),
        cmocka_unit_test(one_of_ours_that_is_damaged_is_still_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
