/* test_log.c - what streams are at, as the watchdog and faults say it. */
#include "comm/running.h"
#include "backend/device/log.h"

static device *opened(comm **c)
{
    device *d = NULL;
    error err = {{0}};
    if (comm_open_self(c, &err) ||
        device_open(&d, &(device_options){.name = "deferred:1"}, *c, &err))
        fail_msg("%s", err.text);
    return d;
}

static void closed(device *d, comm *c)
{
    device_close(d);
    comm_close(c);
}

static void text_is(const device *d, const char *wanted)
{
    char text[LOG_TEXT];
    log_text(d, text, sizeof text);
    assert_string_equal(text, wanted);
}

/* Numbers by hand, as a GPU writes them. */
static void streams_that_are_not_at_their_end_are_named(void **state)
{
    (void)state;
    comm *c;
    device *d = opened(&c);
    bool busy;
    device_place layer = {"layer", {3, 3}, {2, 2}}, head = {"head", {-1, -1}, {1, 1}},
                 pair = {"pair", {4, 7}, {5, 6}}, update = {"update", {-1, -1}, {-1, -1}};
    op norm = {.kind = OP_NORM, .name = "norm"},
       fc1 = {.kind = OP_GROUPED_D,
              .name = "experts.fc1",
              .phase = PHASE_BACKWARD,
              .layer_step = 1},
       gather = {.kind = OP_ALL_GATHER, .phase = PHASE_RECOMPUTE};
    assert_int_equal(log_progress(d, &busy), 0);
    assert_false(busy);
    text_is(d, "");
    d->place = &layer;
    assert_int_equal(log_put(d, STREAM_COMPUTE, &norm), 1);
    assert_int_equal(log_put(d, STREAM_COMPUTE, &fc1), 2);
    text_is(d, "stream compute: norm (NORM) of layer 3, microbatch 2, forward, is not finished "
               "(operation 1)");
    log_finish(d, STREAM_COMPUTE);
    text_is(d, "stream compute: experts.fc1 (GROUPED_D) of layer 4, microbatch 2, backward, is not "
               "finished (operation 2)");
    assert_int_equal(log_progress(d, &busy), 1);
    assert_true(busy);
    d->place = &pair; /* the halves of a pair are at other layers and microbatches */
    log_put(d, STREAM_COMM, &gather);
    log_finish(d, STREAM_COMPUTE);
    text_is(d, "stream layers: operation (ALL_GATHER) of layer 7, microbatch 6, recompute, is not "
               "finished (operation 1)");
    d->place = &head;
    log_put(d, STREAM_COMPUTE, &norm);
    log_finish(d, STREAM_COMM);
    text_is(d, "stream compute: norm (NORM) of head, microbatch 1, forward, is not finished "
               "(operation 3)");
    d->place = &update;
    log_put(d, STREAM_DP, &gather);
    log_finish(d, STREAM_COMPUTE);
    text_is(d, "stream replicas: operation (ALL_GATHER) of update, is not finished (operation 1)");
    log_finish(d, STREAM_DP);
    assert_int_equal(log_progress(d, &busy), 5);
    assert_false(busy);
    closed(d, c);
}

static void rings_go_round_and_text_is_cut(void **state)
{
    (void)state;
    comm *c;
    char small[16];
    device *d = opened(&c);
    op norm = {.kind = OP_NORM, .name = "norm"}, last = {.kind = OP_NORM, .name = "last"};
    for (int i = 0; i < 3 * LOG_NAMES; i++) {
        log_put(d, STREAM_COMPUTE, &norm);
        log_finish(d, STREAM_COMPUTE);
    }
    log_put(d, STREAM_COMPUTE, &last);
    log_text(d, small, sizeof small);
    assert_string_equal(small, "stream compute:");
    text_is(d, "stream compute: last (NORM), is not finished (operation 12289)");
    log_finish(d, STREAM_COMPUTE);
    closed(d, c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_that_are_not_at_their_end_are_named),
        cmocka_unit_test(rings_go_round_and_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
