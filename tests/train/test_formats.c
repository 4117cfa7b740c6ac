/* A message in a format that cannot be summed is refused when a program is bound, by name. */
#include "../ir/testing.h"

#include "train/executor/executor.h"

static op *first_sum(const program *p)
{
    for (int i = 0; i < p->n_segments; i++)
        for (int k = 0; k < p->segments[i]->n_ops[0]; k++)
            if (p->segments[i]->ops[0][k].kind == OP_ALL_REDUCE) return &p->segments[i]->ops[0][k];
    return NULL;
}

static void a_sum_of_fp8_is_refused(void **state)
{
    (void)state;
    error err = {{0}};
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    executor *e = NULL;
    program_of(&p, s, a, "tiny",
               "cluster.gpu=cpu cluster.n_gpus=2 model.tensor_model_parallel_size=2");
    op *o = first_sum(&p);
    assert_non_null(o);
    o->type = DTYPE_E5M2;
    assert_int_equal(executor_open(&e, &p, NULL, (executor_options){0}, &err), ERR_MACHINE);
    assert_null(e);
    assert_non_null(strstr(err.text, o->name));
    assert_non_null(strstr(err.text, "(ALL_REDUCE): collectives cannot sum FP8 E5M2"));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sum_of_fp8_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
