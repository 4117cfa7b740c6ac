/* test_data_sampler.c - which rank reads what, and reading on after a stop. */
#include "train/test_data_golden.h"

#include "train/data/index.h"

static void check_rank(const json_t *want, int64_t rank, const json_t *batches)
{
    data_sampler s = {int_of(want, "total_samples"), int_of(want, "consumed_samples"),
                      int_of(want, "micro_batch_size"), int_of(want, "dp"), rank};
    assert_int_equal(sampler_microbatches(&s), length_of(batches));
    for (int64_t m = 0; m < length_of(batches); m++) {
        const json_t *batch = json_array_get(batches, (size_t)m);
        assert_int_equal(length_of(batch), s.micro_batch_size);
        for (int64_t i = 0; i < length_of(batch); i++)
            assert_int_equal(sampler_first(&s, m) + i, item_of(batch, i));
    }
    assert_int_equal(sampler_first(&s, length_of(batches)), -1);
    assert_int_equal(sampler_first(&s, -1), -1);
}

static void samplers_are_megatrons(void **state)
{
    (void)state;
    json_t *root = orders_read(), *list = json_object_get(root, "samplers");
    assert_true(length_of(list) >= 9);
    for (int64_t i = 0; i < length_of(list); i++) {
        const json_t *want = json_array_get(list, (size_t)i);
        const json_t *ranks = json_object_get(want, "microbatches_of_rank");
        assert_int_equal(length_of(ranks), int_of(want, "dp"));
        for (int64_t r = 0; r < length_of(ranks); r++)
            check_rank(want, r, json_array_get(ranks, (size_t)r));
    }
    json_decref(root);
}

/* A run that stops after any step, and goes on with other ranks and micro batches, reads on. */
static void resume_reads_on(void **state)
{
    (void)state;
    enum { BATCH = 8, SAMPLES = 61 };
    for (int64_t steps = 0; steps < SAMPLES / BATCH; steps++) {
        int64_t seen = 0;
        for (int64_t m = 0; m < BATCH / 4; m++)
            for (int64_t r = 0; r < 2; r++) {
                data_sampler s = {SAMPLES, steps * BATCH, 2, 2, r};
                assert_int_equal(sampler_first(&s, m), steps * BATCH + seen);
                seen += 2;
            }
        data_sampler whole = {SAMPLES, 0, BATCH, 1, 0};
        assert_int_equal(sampler_first(&whole, steps), steps * BATCH);
        assert_int_equal(seen, BATCH);
    }
    data_sampler over = {SAMPLES, 64, 1, 1, 0};
    assert_int_equal(sampler_microbatches(&over), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_are_megatrons),
        cmocka_unit_test(resume_reads_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
