/* test_null.c - a device that computes nothing takes every program: it is the least that a device
 * can be, and the second user of the seam between a program and what runs it (device.h). */
#include "../ir/testing.h"

#include "backend/device/log.h"
#include "train/executor/executor.h"
#include "train/executor/executor_state.h"
#include "train/executor/step.h"

typedef struct counts {
    executor_calls calls;
    uint32_t put[STREAM_COUNT];
} counts;

/* What one step of a program puts into a device. */
static counts step_on(const char *name, const program *p)
{
    executor *e;
    counts c;
    bool busy;
    error err = {{0}};
    if (executor_open(&e, p, NULL, (executor_options){.device = name}, &err))
        fail_msg("%s: %s", name, err.text);
    step_run_begin(e);
    double given[GIVEN_COUNT] = {0};
    step_give(e, given);
    step_run_end(e, p, STEP_UPDATES);
    e->d->table->sync(e->d);
    log_progress(e->d, &busy);
    assert_false(busy);
    c.calls = executor_calls_of(e);
    for (int s = 0; s < STREAM_COUNT; s++) c.put[s] = e->d->log->put[s];
    executor_close(e);
    return c;
}

static void it_takes_what_a_cpu_takes(void **state)
{
    (void)state;
    static const char *const words[] = {
        "model.seq_length=40 train.micro_batch_size=1 train.global_batch_size=2",
        "model.seq_length=40 train.micro_batch_size=1 train.global_batch_size=2 "
        "cluster.gpu=H100 cluster.n_gpus=1 moefold.target=moefold",
    };
    for (int i = 0; i < 2 * N_FAMILY_CASES; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program p;
        program_of(&p, s, a, family_cases[i / 2], words[i % 2]);
        counts cpu = step_on("cpu", &p), null = step_on("null", &p);
        assert_true(cpu.calls.put > 0);
        assert_int_equal(null.calls.put, cpu.calls.put);
        assert_memory_equal(null.put, cpu.put, sizeof cpu.put);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_takes_what_a_cpu_takes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
