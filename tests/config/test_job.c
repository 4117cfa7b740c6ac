/* The typed job: equality and hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/job_of.h"
#include "config/models/models.h"
#include "layout/setup.h"

static arena *memory;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static recipe *recipe_of(const char *preset)
{
    error err;
    recipe *r = ARENA_NEW(memory, recipe);
    recipe_init(r, memory, preset);
    recipe_set(r, K_MODEL, value_of_text(preset), "test");
    assert_int_equal(model_fill(r, &err), OK);
    return r;
}

static const setup *setup_of(const recipe *r)
{
    error err;
    setup *s = ARENA_NEW(memory, setup);
    assert_int_equal(setup_init(s, r, memory, &err), OK);
    return s;
}

static void one_recipe_is_one_job(void **state)
{
    (void)state;
    int n;
    const char *const *names = model_presets(&n);
    for (int i = 0; i < n; i++) {
        const setup *a = setup_of(recipe_of(names[i])), *b = setup_of(recipe_of(names[i]));
        assert_true(job_equal(&a->j, &b->j));
        assert_true(job_hash(&a->j) == job_hash(&b->j));
        if (i == 0) continue;
        const setup *other = setup_of(recipe_of(names[i - 1]));
        assert_false(job_equal(&a->j, &other->j));
        assert_true(job_hash(&a->j) != job_hash(&other->j));
    }
}

/* Whoever asked for a value, it is the same work. */
static void origins_do_not_count(void **state)
{
    (void)state;
    recipe *r = recipe_of("qwen3-30b-a3b");
    const setup *derived = setup_of(r);
    recipe_set(r, K_SEQ, derived->r.knob[K_SEQ].v, "a person");
    const setup *said = setup_of(r);
    assert_true(job_equal(&derived->j, &said->j));
    assert_true(job_hash(&derived->j) == job_hash(&said->j));
}

static void every_knob_counts(void **state)
{
    (void)state;
    const setup *s = setup_of(recipe_of("deepseek-v3"));
    for (int k = 0; k < K_COUNT; k++) {
        job other = s->j;
        recipe r = s->r;
        r.a = memory;
        value v = r.knob[k].v, changed = {.kind = V_NULL};
        if (v.kind == V_NULL)
            changed = knobs[k].kind == BOOL    ? value_of_bool(true)
                      : knobs[k].kind == INT   ? value_of_int(3)
                      : knobs[k].kind == FLOAT ? value_of_float(0.5)
                                               : value_of_text("word");
        r.knob[k] = (setting){changed, FROM_USER, "test"};
        job_take(&other, &r, (knob_id)k);
        if (job_equal(&s->j, &other)) fail_msg("%s does not count", knobs[k].key);
        if (job_hash(&s->j) == job_hash(&other)) fail_msg("%s is not in the hash", knobs[k].key);
    }
}

static void room_between_fields_is_not_read(void **state)
{
    (void)state;
    const setup *s = setup_of(recipe_of("deepseek-v3"));
    job dirty;
    memset(&dirty, 0xa5, sizeof dirty);
    for (int k = 0; k < K_COUNT; k++) job_put_as(&dirty, &s->j, (knob_id)k);
    assert_true(job_equal(&s->j, &dirty));
    assert_true(job_hash(&s->j) == job_hash(&dirty));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_recipe_is_one_job, begin, end),
        cmocka_unit_test_setup_teardown(origins_do_not_count, begin, end),
        cmocka_unit_test_setup_teardown(every_knob_counts, begin, end),
        cmocka_unit_test_setup_teardown(room_between_fields_is_not_read, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
