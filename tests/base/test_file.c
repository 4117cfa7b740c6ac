/* test_file.c - files that are replaced as a whole, and that no link leads elsewhere. */
#include "train/hf_testing.h"

#include <dirent.h>

static int count(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* The name that an earlier program used beside the file: FILE.PROCESS. */
static void a_link_where_a_temporary_file_was_expected_is_not_followed(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = scratch_make(a), *path = arena_text(a, "%s/plan.yaml", folder);
    const char *victim = arena_text(a, "%s/victim", folder);
    size_t n;
    error err;
    put_file(victim, "mine", 4);
    assert_int_equal(symlink("victim", arena_text(a, "%s.%d", path, (int)getpid())), 0);
    assert_int_equal(file_write(path, "text", 4, &err), OK);
    assert_string_equal(get_file(a, victim, &n), "mine");
    assert_string_equal(get_file(a, path, &n), "text");
    assert_int_equal(file_write(path, "more", 4, &err), OK);
    assert_string_equal(get_file(a, path, &n), "more");
    assert_int_equal(count(folder), 3); /* nothing stays beside it */
    scratch_remove(folder);
    arena_destroy(a);
}

static void a_link_to_a_file_stays_one(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = scratch_make(a), *link = arena_text(a, "%s/link", folder);
    const char *real = arena_text(a, "%s/real", folder);
    struct stat info;
    size_t n;
    error err;
    put_file(real, "old", 3);
    assert_int_equal(symlink("real", link), 0);
    assert_int_equal(file_write(link, "new", 3, &err), OK);
    assert_true(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    assert_string_equal(get_file(a, real, &n), "new");
    scratch_remove(folder);
    arena_destroy(a);
}

static void what_cannot_be_looked_at_is_not_nothing(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = scratch_make(a), *path = arena_text(a, "%s/file", folder);
    const char *circle = arena_text(a, "%s/circle", folder);
    file_kind kind;
    error err;
    put_file(path, "text", 4);
    assert_int_equal(symlink("circle", circle), 0);
    assert_int_equal(file_look(folder, &kind, &err), OK);
    assert_int_equal(kind, FILE_FOLDER);
    assert_int_equal(file_look(path, &kind, &err), OK);
    assert_int_equal(kind, FILE_OTHER);
    assert_int_equal(file_look(arena_text(a, "%s/none", folder), &kind, &err), OK);
    assert_int_equal(kind, FILE_NONE);
    assert_int_equal(file_look(arena_text(a, "%s/below", path), &kind, &err), OK);
    assert_int_equal(kind, FILE_NONE);
    assert_int_equal(file_look(circle, &kind, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, circle));
    scratch_remove(folder);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_where_a_temporary_file_was_expected_is_not_followed),
        cmocka_unit_test(a_link_to_a_file_stays_one),
        cmocka_unit_test(what_cannot_be_looked_at_is_not_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
