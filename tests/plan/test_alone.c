/* test_alone.c - the planner is linked without backends, MPI, training and commands (Makefile:
 * PLANNER), and plans a job. A call of any of those is an error of the linker, a thread one of the
 * test. */
#include "plan/searching.h"

#include <pthread.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *with)
{
    (void)thread;
    (void)attributes;
    (void)function;
    (void)with;
    fail_msg("the planner starts a thread");
    return -1;
}

static void a_job_is_planned(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.gpu=H100", "cluster.n_gpus=8",
                                        "model.seq_length=4096", "train.global_batch_size=64",
                                        NULL};
    arena *a = arena_create();
    error err = {{0}};
    hardware hw;
    searching_machine(&hw, "hardware/h100.yaml", a);
    const search_options o = {.hw = &hw, .published = true, .judged = true, .front = true};
    search_result *r = ARENA_NEW(a, search_result);
    const recipe *given = searching_recipe("qwen3-30b-a3b", words, a);
    if (search_run(r, given, &o, a, &err)) fail_msg("%s", err.text);
    assert_true(r->n_best > 0 && r->best[0].priced && r->best[0].exact.fits);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_is_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
