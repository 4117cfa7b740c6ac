/* test_measure.c - a measured machine is one that the price can read, and times add up. */
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/bench/microbench.h"
#include "config/models/models.h"
#include "predict/machine.h"
#include "train/executor/timing.h"

enum { RANKS = 2, POINTS = 2 };

static const measure_options quick = {.seconds = 0.05, .threads = 1, .rows = POINTS};

static void is_curve(const curve *c)
{
    assert_int_equal(c->n, POINTS);
    for (int i = 0; i < c->n; i++) {
        assert_true(isfinite(c->y[i]) && c->y[i] > 0);
        assert_true(i == 0 || c->x[i] > c->x[i - 1]);
    }
}

static void is_measured(const measured *m)
{
    const curve *all[] = {&m->gemm,         &m->deep,  &m->grouped, &m->attention[0],
                          &m->attention[1], &m->heads, &m->memory,  &m->copy};
    const double once[] = {m->head, m->linear, m->adam, m->least, measured_depth(&m->deep)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) is_curve(all[i]);
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        assert_true(isfinite(once[i]) && once[i] > 0);
    for (size_t i = 0; i < 5; i++) assert_true(measured_best(all[i]) <= measured_peak(m));
}

/* ---- writing */

static hardware read_back(const measured *m, arena *a)
{
    char path[] = "/tmp/moefold-measure-XXXXXX.yaml";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    error err = {{0}};
    hardware h = {0};
    if (measured_write(m, path, &err) || hardware_read(&h, path, a, &err)) fail_msg("%s", err.text);
    unlink(path);
    return h;
}

static bool near_to(double x, double y)
{
    return fabs(x - y) <= 1e-3 * fabs(y);
}

static void one_rank_is_described(void **state)
{
    (void)state;
    measured m;
    error err = {{0}};
    arena *a = arena_create();
    assert_int_equal(measure_machine(&m, NULL, &quick, &err), OK);
    is_measured(&m);
    assert_int_equal(m.ranks, 1);
    assert_true(m.latency == 0);
    hardware h = read_back(&m, a);
    assert_true(near_to(h.peak[NUMBER_FP32], measured_peak(&m)));
    assert_true(near_to(h.memory_bandwidth, measured_best(&m.memory)));
    assert_true(near_to(h.host_adam, m.adam));
    /* forward of 64 x 64, sums of 512, as the price puts it together again */
    double sum = (double)m.scale->depth, depth = measured_depth(&m.deep),
           part = sum / (sum + depth);
    double rate = h.peak[NUMBER_FP32] * curve_at(&h.gemm[NUMBER_FP32], m.gemm.x[1]) * part;
    assert_true(near_to(rate, m.gemm.y[1]));
    arena_destroy(a);
}

/* Kernels that run late, whenever the stream is waited for, are measured as those that do not. */
static void a_late_device_is_measured_through_its_streams(void **state)
{
    (void)state;
    measured m;
    error err = {{0}};
    measure_options late = quick;
    late.device = &(device_options){.name = "deferred:7"};
    if (measure_machine(&m, NULL, &late, &err)) fail_msg("%s", err.text);
    is_measured(&m);
    /* work was done before the clock was read: no core of ours has a hundred times as much */
    assert_true(measured_peak(&m) < 1e13);
    late.device = &(device_options){.name = "nowhere"};
    assert_int_equal(measure_machine(&m, NULL, &late, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "nowhere"));
}

/* A graph's kernels take the host time on a device that computes in the call, and what is captured
 * is gone afterwards. */
static void graphs_are_measured_where_a_device_has_them(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "deferred:7", "peers:us=1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        measure_options o = quick;
        error err = {{0}};
        measured m = {0};
        comm *c;
        assert_int_equal(comm_open_self(&c, &err), OK);
        microbench j = {.ranks = 1, .scale = &measure_scale_cpu, .o = &o, .err = &err};
        if (device_open(&j.d, &(device_options){.name = names[i]}, c, &err) ||
            microbench_take(&j, &err))
            fail_msg("%s", err.text);
        measure_graphs(&j, &m);
        if (j.st) fail_msg("%s: %s", names[i], err.text);
        assert_true(m.graph_launch > 1e-9 && m.graph_launch < 1e-3);
        assert_true(m.replay > 0 && m.replay < 1e-2);
        device_table without = *j.d->table;
        const device_table *with = j.d->table;
        without.graphs = NULL;
        j.d->table = &without;
        measured none = {0};
        measure_graphs(&j, &none);
        assert_true(none.graph_launch == 0 && none.replay == 0 && j.st == OK);
        j.d->table = with;
        free(j.times);
        device_close(j.d);
        comm_close(c);
    }
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    measured m = {.scale = &measure_scale_cpu, .ranks = 1, .threads = 1};
    error err = {{0}};
    assert_int_equal(measured_write(&m, "/nowhere/local.yaml", &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "/nowhere/local.yaml"));
}

static void depth_is_found_again(void **state)
{
    (void)state;
    curve c = {.n = 5};
    for (int i = 0; i < 5; i++) {
        double k = c.x[i] = 32 << i;
        c.y[i] = 1e11 * k / (k + 40);
    }
    assert_true(near_to(measured_depth(&c), 40));
    c.y[0] = c.y[4] * 2; /* noise may turn it round: no depth then */
    assert_true(measured_depth(&c) == 1);
}

/* ---- several ranks */

typedef struct rank_job {
    comm *c;
    const setup *s;
    const char *device; /* whose streams messages go on, alone; NULL: all of a CPU is measured */
    int64_t put, moved; /* messages that the device was given, and bytes that ranks sent */
    measured m;
    status st;
    error err;
} rank_job;

/* What the rank of this thread puts into a device's streams is counted on the way. */
static _Thread_local int64_t messages_put;
static _Thread_local const device_table *counted;

static void count_message(device *d, op_stream s, const op *o, void *const *in, void *const *out)
{
    messages_put++;
    counted->message(d, s, o, in, out);
}

static status measure_messages_of(rank_job *r)
{
    measure_options o = quick;
    device_table table;
    status st = device_open((device **)&o.on, &(device_options){.name = r->device}, r->c, &r->err);
    if (st) return st;
    o.messages = true;
    counted = o.on->table;
    table = *counted;
    table.message = count_message;
    o.on->table = &table;
    st = measure_machine(&r->m, r->c, &o, &r->err);
    r->put = messages_put;
    r->moved = (int64_t)comm_statistics(r->c)->bytes[GROUP_WORLD][LEVEL_NODE];
    o.on->table = counted;
    device_close(o.on);
    return st;
}

static void *run_rank(void *arg)
{
    rank_job *r = arg;
    r->st = comm_groups(r->c, r->s, &r->err);
    if (r->st) return NULL;
    r->st = r->device ? measure_messages_of(r) : measure_machine(&r->m, r->c, &quick, &r->err);
    return NULL;
}

static setup *setup_of(const char *const *words, int n, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = OK;
    recipe_init(r, a, "test");
    recipe_set(r, K_MODEL, value_of_text("tiny"), "test");
    for (int i = 0; i < n && !st; i++) st = recipe_override(r, words[i], "test", &err);
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (st) fail_msg("%s", err.text);
    return s;
}

static void run_ranks(rank_job *jobs, const char *name, const setup *s)
{
    comm *c[RANKS];
    pthread_t threads[RANKS];
    error err = {{0}};
    assert_int_equal(comm_open_threads(c, RANKS, &err), OK);
    for (int i = 0; i < RANKS; i++) {
        jobs[i] = (rank_job){.c = c[i], .s = s, .device = name};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &jobs[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++) {
        if (jobs[i].st) fail_msg("%s", jobs[i].err.text);
        assert_int_equal(jobs[i].m.ranks, RANKS);
        assert_true(jobs[i].m.latency > 0);
        for (int k = 0; k < MEASURED_MESSAGES; k++) is_curve(&jobs[i].m.message[k]);
        comm_close(c[i]);
    }
}

static const char *const two_ranks[] = {"cluster.gpu=cpu", "cluster.n_gpus=2"};

static void ranks_measure_their_messages(void **state)
{
    (void)state;
    static rank_job jobs[RANKS];
    arena *a = arena_create();
    run_ranks(jobs, NULL, setup_of(two_ranks, 2, a));
    for (int i = 0; i < RANKS; i++) is_measured(&jobs[i].m);
    /* all ranks have the same numbers */
    assert_memory_equal(&jobs[0].m.gemm, &jobs[1].m.gemm, sizeof(curve));
    hardware h = read_back(&jobs[0].m, a);
    assert_true(near_to(h.node.latency, jobs[0].m.latency));
    assert_true(h.message_share == 1);
    arena_destroy(a);
}

/* Every message is one of the device's, and bytes move; nothing else is measured. */
static void messages_of_a_device_go_on_its_streams(void **state)
{
    (void)state;
    static const struct {
        const char *device, *transport;
    } cases[] = {{"peers", "threads of one process"},
                 {"peers:us=20", "threads of one process"},
                 {"peers:staged", "shared memory"},
                 {"peers:late=5", "threads of one process"},
                 {"deferred:7", "threads of one process"}};
    static rank_job jobs[RANKS];
    arena *a = arena_create();
    setup *s = setup_of(two_ranks, 2, a);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_ranks(jobs, cases[i].device, s);
        for (int r = 0; r < RANKS; r++) {
            const measured *m = &jobs[r].m;
            assert_string_equal(m->transport, cases[i].transport);
            assert_true(m->gemm.n == 0 && m->memory.n == 0 && m->least == 0);
            /* three and three at least of each size, in each round */
            const int least = 6 * POINTS * MEASURED_MESSAGES * m->scale->rounds;
            assert_true(jobs[r].put >= least && jobs[r].moved > 256 * (int64_t)least);
            assert_int_equal(jobs[r].put, jobs[0].put);
        }
        assert_memory_equal(jobs[0].m.message, jobs[1].m.message, sizeof jobs[0].m.message);
    }
    arena_destroy(a);
}

/* ---- predicted beside measured */

static void rows_add_up_to_the_step(void **state)
{
    (void)state;
    timing t = {.step = 20, .steps = 2};
    price p = {.step_s = 9, .optimizer = 1, .bubble = 0.5};
    hardware hw = {.message_share = 1};
    timing_row rows[TIMING_ROWS];
    timing_add(&t, COST_GEMM, 10);
    timing_add(&t, COST_GEMM, 2);
    timing_add(&t, COST_PP, 4);
    p.time[COST_GEMM] = 5;
    p.time[COST_PP] = 2;
    p.exposed[COST_PP] = 0.5;
    int n = timing_rows(rows, &t, &p, &hw);
    double predicted = 0, measured_sum = 0;
    assert_int_equal(n, 4); /* GEMMs, PP messages, the rest, the step */
    for (int i = 0; i < n - 1; i++) measured_sum += rows[i].measured;
    for (int i = 0; i < n - 1; i++) predicted += rows[i].predicted;
    assert_true(near_to(measured_sum, rows[n - 1].measured) && near_to(measured_sum, 10));
    assert_true(near_to(predicted, 5 + 2 + 0.5 + 1));
    assert_string_equal(rows[1].name, "PP communication");
    assert_true(near_to(rows[2].measured, 2));
}

static void the_machine_is_that_of_the_ranks(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.gpu=cpu", "cluster.n_gpus=61"};
    char folder[] = "/tmp/moefold-machine-XXXXXX", home[PATH_MAX], here[PATH_MAX];
    arena *a = arena_create();
    setup *s = setup_of(words, 2, a);
    measured m;
    hardware h = {0};
    error err = {{0}};
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(home, sizeof home, "%s/.config/moefold/hardware", folder);
    assert_int_equal(system(arena_text(a, "mkdir -p %s %s/hardware", home, folder)), 0);
    assert_int_equal(measure_machine(&m, NULL, &quick, &err), OK);
    const char *fewer = arena_text(a, "%s/local-59.yaml", home);
    const char *more = arena_text(a, "%s/hardware/local-60.yaml", folder);
    assert_int_equal(measured_write(&m, fewer, &err), OK);
    assert_int_equal(setenv("HOME", folder, 1), 0);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(machine_of_setup(&h, s, a, &err), OK);
    assert_string_equal(h.path, fewer);
    assert_int_equal(measured_write(&m, more, &err), OK);
    assert_int_equal(machine_of_setup(&h, s, a, &err), OK);
    assert_string_equal(h.path, "./hardware/local-60.yaml");
    FILE *f = fopen(more, "w");
    assert_non_null(f);
    fputs("peak: 3\n", f);
    fclose(f);
    assert_int_equal(machine_of_setup(&h, s, a, &err), ERR_INPUT); /* there, and wrong */
    assert_non_null(strstr(err.text, "local-60.yaml"));
    assert_int_equal(chdir(here), 0);
    assert_int_equal(system(arena_text(a, "rm -r %s", folder)), 0);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_described),
        cmocka_unit_test(a_late_device_is_measured_through_its_streams),
        cmocka_unit_test(graphs_are_measured_where_a_device_has_them),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(depth_is_found_again),
        cmocka_unit_test(ranks_measure_their_messages),
        cmocka_unit_test(messages_of_a_device_go_on_its_streams),
        cmocka_unit_test(rows_add_up_to_the_step),
        cmocka_unit_test(the_machine_is_that_of_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
