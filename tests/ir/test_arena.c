/* test_arena.c - the arena holds nothing twice and nothing early: gradients are reduced where they
 * lie, a receive that is posted ahead takes one hidden state. */
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
        int64_t ring_depth = p->ring_depth * (p->dhidden_bytes + p->boundary_bytes);
        assert_int_equal(p->bytes[REGION_BOUNDARY], ring_depth);
        arena_destroy(a);
    }
    assert_true(reductions > 40);
}

#define VPP2  PP2 M "virtual_pipeline_model_parallel_size=2 cluster.n_gpus=2 "
#define POSTS "comm_overlap.overlap_p2p_comm="

static const program *built(arena *a, const char *name, const char *words)
{
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    setup_of_words(s, a, name, words);
    program_build(p, s, s->lay.world - 1, a); /* of the last stage: it receives in every chunk */
    return p;
}

static void a_posted_receive_takes_one_hidden_state(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILY_CASES; i++) {
        arena *a = arena_create();
        const program *off = built(a, family_cases[i], VPP2 POSTS "false");
        const program *on = built(a, family_cases[i], VPP2 POSTS "true");
        assert_true(on->posts_early && !off->posts_early);
        int64_t input = on->chunks[0].list[1].seg->parts[SAVED_INPUT];
        assert_int_equal(input, dtype_bytes(on->types.activation, on->T * on->s->m.hidden));
        assert_int_equal(on->saved_live, off->saved_live + input);
        assert_true(on->bytes[REGION_SAVED] >= on->saved_live);
        arena_destroy(a);
    }
}

/* The input of an instance is left when its backward is done: nothing before it reads it then. */
static void no_backward_reads_what_the_next_one_saved(void **state)
{
    (void)state;
    int64_t operations = 0;
    for (int i = 0; i < N_FAMILY_CASES; i++) {
        arena *a = arena_create();
        const program *p = built(a, family_cases[i], VPP2);
        for (int k = 0; k < p->n_segments; k++) {
            const segment *seg = p->segments[k];
            for (int n = 0; n < seg->n_ops[SEG_BACKWARD]; n++, operations++) {
                const op *o = &seg->ops[SEG_BACKWARD][n];
                for (int in = 0; in < OP_IN_MAX; in++)
                    assert_true(o->in[in] < 0 || seg->bufs[o->in[in]].life != LIFE_OUTPUT);
                for (int out = 0; out < OP_OUT_MAX; out++)
                    assert_true(o->out[out] < 0 || seg->bufs[o->out[out]].life != LIFE_OUTPUT);
            }
        }
        arena_destroy(a);
    }
    assert_true(operations > 100);
}

/* The operation of backward that first or last touches the buffer of this name; -1: none. */
static int touched_at(const segment *seg, const char *name, bool last)
{
    int found = -1;
    for (int n = 0; n < seg->n_ops[SEG_BACKWARD]; n++) {
        const op *o = &seg->ops[SEG_BACKWARD][n];
        for (int k = 0; k < OP_IN_MAX + OP_OUT_MAX; k++) {
            int id = k < OP_IN_MAX ? o->in[k] : o->out[k - OP_IN_MAX];
            if (id < 0 || strcmp(seg->bufs[id].name, name) != 0) continue;
            if (!last) return n;
            found = n;
        }
    }
    return found;
}

#define ONE_GPU "cluster.gpu=H200 cluster.n_gpus=1 mixed_precision=bf16_mixed "
#define FULL                                                                                       \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "

/* The rows of all experts' inputs are the widest buffers of a long sequence. */
static void inputs_of_experts_do_not_lie_beside_their_gradients(void **state)
{
    (void)state;
    int layers = 0;
    for (int own = 0; own < 2; own++) {
        arena *a = arena_create();
        const char *target = own ? "moefold.target=moefold" : "moefold.target=megatron";
        const program *p = built(a, "qwen3-30b-a3b", arena_text(a, ONE_GPU FULL "%s", target));
        for (int k = 0; k < p->n_segments; k++) {
            const segment *seg = p->segments[k];
            int x = touched_at(seg, "experts.x", true), dx = touched_at(seg, "experts.dx", false);
            if (dx < 0) continue;
            assert_true(own ? x < dx : x > dx); /* Megatron's memory is counted from its order */
            layers += own;
        }
        arena_destroy(a);
    }
    assert_true(layers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_reduced_in_place),
        cmocka_unit_test(a_posted_receive_takes_one_hidden_state),
        cmocka_unit_test(no_backward_reads_what_the_next_one_saved),
        cmocka_unit_test(inputs_of_experts_do_not_lie_beside_their_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
