/* Order of issue in a layer of experts: nodes of combined 1F1B, what runs beside messages. */
#include "dispatch_testing.h"

#define SHARED "model.moe_shared_expert_overlap=true "
#define LATE   "model.overlap_dispatch_backward_with_experts_wgrad=true "

static segment *segment_of(arena *a, const char *name, const char *more)
{
    lockstep *l = ARENA_NEW(a, lockstep);
    segment *seg = ARENA_NEW(a, segment);
    *l = (lockstep){.a = a, .seq = SEQ, .B = 4};
    setup_of_words(&l->s, a, name, words_of(a, (lay){1, 1, 4, 2, 8}, more));
    builder b = builder_of(l, 5);
    layer_of_experts = 1;
    experts_alone(&b, seg);
    return seg;
}

/* The first or last operation of a kind whose name begins so. */
static int find(const segment *seg, int phase, op_kind kind, const char *name, bool last)
{
    int found = -1;
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        if (o->kind != kind || strncmp(o->name, name, strlen(name)) != 0) continue;
        if (found < 0 || last) found = i;
    }
    if (found < 0) fail_msg("no %s %s", op_infos[kind].name, name);
    return found;
}

static const char *const dispatchers[] = {ALLTOALL, FLEX(deepep) NODES(2), FLEX(deepep) NODES(8),
                                          FLEX(hybridep) NODES(4)};

static bool reads(const op *o, int id)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] == id) return true;
    return false;
}

/* Forward goes through the nodes in their order, backward the other way; messages that carry rows
 * to experts are dispatch's, those that carry them back combine's. */
static void nodes_follow_one_another(void **state)
{
    (void)state;
    static const op_node ways[2][4] = {{NODE_ATTN, NODE_DISPATCH, NODE_MLP, NODE_COMBINE},
                                       {NODE_COMBINE, NODE_MLP, NODE_DISPATCH, NODE_ATTN}};
    for (int i = 0; i < 4; i++) {
        arena *a = arena_create();
        segment *seg = segment_of(a, GOLDEN "deepseek-v3-tiny", dispatchers[i]);
        for (int phase = 0; phase < 2; phase++) {
            int at = 0, seen[4] = {0};
            for (int k = 0; k < seg->n_ops[phase]; k++) {
                const op *o = &seg->ops[phase][k];
                while (at < 4 && o->node != ways[phase][at]) at++;
                if (at == 4) fail_msg("%s: %s %s", dispatchers[i], op_infos[o->kind].name, o->name);
                seen[at]++;
                bool experts = strncmp(o->name, "experts.", 8) == 0 && o->kind != OP_UNPERMUTE_D;
                if (experts) assert_int_equal(o->node, NODE_MLP);
                if (o->kind != OP_EXCHANGE) continue;
                bool back = strncmp(o->name, "combine", 7) == 0;
                assert_int_equal(o->node, back ? NODE_COMBINE : NODE_DISPATCH);
            }
            for (int k = 0; k < 4; k++) assert_true(seen[k] > 0);
        }
        arena_destroy(a);
    }
}

/* Behind the start of the last message, before anyone reads what it brings. */
static void stands_beside(const segment *seg, int phase, const char *message, int first, int last)
{
    int start = find(seg, phase, OP_EXCHANGE, message, true);
    int brings = seg->ops[phase][start].out[0];
    assert_true(first > start && last >= first);
    for (int i = start + 1; i <= last; i++) assert_false(reads(&seg->ops[phase][i], brings));
}

static void shared_expert_runs_beside_messages(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        arena *a = arena_create();
        const char *more = arena_text(a, SHARED "%s", dispatchers[i]);
        segment *seg = segment_of(a, GOLDEN "qwen3-next-tiny", more);
        const int forward = SEG_FORWARD, backward = SEG_BACKWARD;
        int fc1 = find(seg, forward, OP_GEMM, "shared.fc1", false);
        int fc2 = find(seg, forward, OP_GEMM, "shared.fc2", false);
        stands_beside(seg, forward, "dispatch.x", fc1, fc1);
        stands_beside(seg, forward, "combine", fc2, fc2);
        fc1 = find(seg, backward, OP_GEMM_D, "shared.fc1", false);
        fc2 = find(seg, backward, OP_GEMM_D, "shared.fc2", false);
        stands_beside(seg, backward, "combine", fc2, fc2);
        stands_beside(seg, backward, "dispatch.x", fc1, fc1);
        arena_destroy(a);
    }
}

static void shared_expert_comes_before_dispatch_otherwise(void **state)
{
    (void)state;
    arena *a = arena_create();
    segment *seg = segment_of(a, GOLDEN "qwen3-next-tiny", ALLTOALL);
    assert_true(find(seg, SEG_FORWARD, OP_GEMM, "shared.fc2", false) <
                find(seg, SEG_FORWARD, OP_EXCHANGE, "dispatch", false));
    arena_destroy(a);
}

static void weight_gradients_run_beside_dispatch(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        arena *a = arena_create();
        segment *seg = segment_of(a, GOLDEN "gpt-oss-tiny", dispatchers[i]);
        assert_true(find(seg, SEG_BACKWARD, OP_GROUPED_W, "experts", true) <
                    find(seg, SEG_BACKWARD, OP_EXCHANGE, "dispatch", false));
        seg = segment_of(a, GOLDEN "gpt-oss-tiny", arena_text(a, LATE "%s", dispatchers[i]));
        stands_beside(seg, SEG_BACKWARD, "dispatch.p",
                      find(seg, SEG_BACKWARD, OP_GROUPED_BIAS_W, "experts", false),
                      find(seg, SEG_BACKWARD, OP_GROUPED_W, "experts", true));
        arena_destroy(a);
    }
}

/* One message that carries what the experts wrote must not start before: a buffer is written by
 * operations in a row, and by nobody once it was read (forward lists are replayed). */
static void forward_writes_no_buffer_after_it_was_read(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        arena *a = arena_create();
        segment *seg = segment_of(a, GOLDEN "gpt-oss-tiny", dispatchers[i]);
        bool *was_read = ARENA_ARRAY(a, bool, seg->n_bufs);
        for (int k = 0; k < seg->n_ops[SEG_FORWARD]; k++) {
            const op *o = &seg->ops[SEG_FORWARD][k];
            for (int n = 0; n < OP_OUT_MAX; n++)
                if (o->out[n] >= 0 && was_read[o->out[n]] && !reads(o, o->out[n]))
                    fail_msg("%s is written again by %s", seg->bufs[o->out[n]].name, o->name);
            for (int n = 0; n < OP_IN_MAX; n++)
                if (o->in[n] >= 0) was_read[o->in[n]] = true;
        }
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_follow_one_another),
        cmocka_unit_test(shared_expert_runs_beside_messages),
        cmocka_unit_test(shared_expert_comes_before_dispatch_otherwise),
        cmocka_unit_test(weight_gradients_run_beside_dispatch),
        cmocka_unit_test(forward_writes_no_buffer_after_it_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
