/* test_peers.c - ranks that move their messages by themselves, as on GPUs, leave the same bits as
 * ranks whose messages comm moves, and count the same bytes.
 *
 * The device `peers` runs the queues and meetings of the GPU (issue.h, meeting.h) on
 * the CPU's memory; as peers:late its streams run by themselves, some time later, and what waits do
 * not order goes wrong. `make test` runs seven of the guard's layouts, MOEFOLD_LAYOUTS=all all. */
#include "train/layout_rig.c"

#include "guard/guard_testing.h"
#include "guard/layouts_testing.h"

enum { STEPS = 2 };

static const int chosen[] = {2, 4, 5, 9, 13, 15, 19};

static guard_state *state_after(int which, const char *name, arena *a)
{
    const char *folder = guard_folder(a);
    guard_run g = {.model = guard_layouts[which].model, .device = name};
    g.words = arena_text(a, GUARD_COMMON "%s train.train_iters=%d checkpoint.save=%s",
                         guard_layouts[which].words, STEPS, folder);
    guard_train(&g);
    free(g.said);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s on %s: %s", guard_layouts[which].name, name, g.err[r].text);
    guard_state *s = guard_read(folder, STEPS);
    guard_remove(folder);
    return s;
}

static void same_on_all(int which)
{
    arena *a = arena_create();
    guard_state *right = state_after(which, "cpu", a);
    static const char *const names[] = {"peers", "peers:staged", "peers:late=1"};
    for (int i = 0; i < 3; i++) {
        guard_state *s = state_after(which, names[i], a);
        guard_same(right, s, arena_text(a, "%s on %s", guard_layouts[which].name, names[i]));
        free(s);
    }
    free(right);
    arena_destroy(a);
}

static void ranks_that_move_their_messages_leave_the_same_bits(void **state)
{
    (void)state;
    const char *asked = getenv("MOEFOLD_LAYOUTS");
    if (asked && strcmp(asked, "all") == 0)
        for (int i = 0; i < N_GUARD_LAYOUTS; i++) same_on_all(i);
    else
        for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) same_on_all(chosen[i]);
}

/* ---- what is counted */

#define FOUR_NODES "cluster.n_gpus=8 cluster.gpus_per_node=2 cluster.nvlink_domain=4 "

static void what_they_send_is_counted_alike(void **state)
{
    (void)state;
    static const char *const words[] = {
        FOUR_NODES "model.expert_model_parallel_size=4 model.moe_token_dispatcher_type=alltoall",
        FOUR_NODES "model.tensor_model_parallel_size=2 model.context_parallel_size=2 "
                   "model.pipeline_model_parallel_size=2"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        rig_reference *ref =
            rig_reference_of("tests/data/golden/qwen3-moe-tiny", "moefold.moe_buffer_factor=64");
        rig_result by_comm, by_peers;
        rig_compare(&by_comm, ref, words[i]);
        setenv("MOEFOLD_DEVICE", "peers", 1);
        rig_compare(&by_peers, ref, words[i]);
        unsetenv("MOEFOLD_DEVICE");
        if (by_peers.text[0]) fail_msg("%s: %s", words[i], by_peers.text);
        double sum = 0;
        for (int l = 0; l < LEVEL_COUNT; l++) {
            sum += by_peers.bytes[l];
            if (by_comm.bytes[l] != by_peers.bytes[l])
                fail_msg("%s: level %d: %.0f bytes instead of %.0f", words[i], l, by_peers.bytes[l],
                         by_comm.bytes[l]);
        }
        assert_true(sum > 0);
        rig_reference_free(ref);
    }
}

/* ---- an emulated link */

/* A gradient's way takes as long as the link says; what is computed is the same. */
static void the_emulated_link_holds_them_up(void **state)
{
    (void)state;
    rig_reference *ref =
        rig_reference_of("tests/data/golden/qwen3-moe-tiny", "moefold.moe_buffer_factor=64");
    rig_result r;
    setenv("MOEFOLD_DEVICE", "peers", 1);
    rig_compare(&r, ref, "cluster.n_gpus=2 moefold.comm_delay=200ms");
    unsetenv("MOEFOLD_DEVICE");
    if (r.text[0]) fail_msg("%s", r.text);
    assert_true(r.gradient <= 10 * ref->spread);
    assert_true(r.exposed >= 0.2);
    rig_reference_free(ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_move_their_messages_leave_the_same_bits),
        cmocka_unit_test(what_they_send_is_counted_alike),
        cmocka_unit_test(the_emulated_link_holds_them_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
