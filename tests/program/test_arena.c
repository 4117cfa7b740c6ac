/* test_arena.c - the arena holds nothing twice: gradients are reduced where they lie. */
#include "testing.h"

#define M     "model."
#define PP2   M "pipeline_model_parallel_size=2 "
#define EP2   M "expert_model_parallel_size=2 "
#define SHARD "ddp.use_distributed_optimizer=true "

static const char *const sharded[] = {
    SHARD "cluster.n_gpus=2",
    SHARD "cluster.n_gpus=2 ddp.overlap_grad_reduce=true ddp.bucket_size=8000",
    SHARD EP2 "cluster.n_gpus=4 ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true",
    SHARD PP2 EP2 "cluster.n_gpus=8 ddp.overlap_grad_reduce=true ddp.bucket_size=8000",
};
enum { N_SHARDED = sizeof sharded / sizeof sharded[0] };

/* Every reduction of a slice names gradients alone, and tells that all of x may be written. */
static int check_reductions(const program *p)
{
    int n = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const segment *seg = p->items[part].list[i].seg;
            if (seg->kind != SEGMENT_REDUCE) continue;
            const op *o = &seg->ops[SEG_FORWARD][seg->n_ops[SEG_FORWARD] - 1];
            for (int k = 0; k < seg->n_ops[SEG_FORWARD]; k++)
                if (seg->ops[SEG_FORWARD][k].kind == OP_REDUCE_SCATTER)
                    o = &seg->ops[SEG_FORWARD][k];
            if (o->kind != OP_REDUCE_SCATTER) continue;
            assert_int_equal(o->out[OUT_REDUCE_SCATTER_left], o->in[IN_REDUCE_SCATTER_x]);
            for (int id = 0; id < seg->n_bufs; id++)
                assert_int_equal(seg->bufs[id].region, REGION_GRADIENTS);
            n++;
        }
    return n;
}

static void gradients_are_reduced_in_place(void **state)
{
    (void)state;
    int reductions = 0;
    for (int i = 0; i < N_FAMILY_CASES * N_SHARDED; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        program_of(p, s, a, family_cases[i % N_FAMILY_CASES], sharded[i / N_FAMILY_CASES]);
        reductions += check_reductions(p);
        int64_t turns = p->turns * (p->dhidden_bytes + p->boundary_bytes);
        assert_int_equal(p->bytes[REGION_BOUNDARY], turns);
        arena_destroy(a);
    }
    assert_true(reductions > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_reduced_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
