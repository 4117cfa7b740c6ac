/* test_measure_gpu.c - what a GPU's measurement asks for is there: a row for every operation, room
 * in the pools and in the workspace. The kernels are those of the GPU's object where it was built,
 * but nothing is launched; without the object the CPU's rows stand in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "backend/device/device.h"
#include "measure/bench/measure.h"

/* ---- the clock of base/clock.h: it goes on by what replays take, and a little with each look at
 * it, however loaded the machine is */

static double now;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const double look = 1e-7;
    if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, t);
    now += look;
    t->tv_sec = (time_t)now;
    t->tv_nsec = (long)((now - (double)t->tv_sec) * 1e9);
    return 0;
}

/* ---- a device without memory: what is put counts, and is not run */

enum { ROWS_MAX = 1024, GRAPHS_MAX = 16, QUEUE = 1024 };

static const double replay_seconds = 30e-6, held_seconds = 0.5e-6;

static struct {
    kernel rows[ROWS_MAX];
    int n;
    int64_t bytes[SPACE_COUNT], put[OP_COUNT];
    void *kept; /* what the host updates is memory */
    int slow;   /* FP8 operations that the fast rows did not take */
    bool gpu;
    int held[GRAPHS_MAX], n_graphs, capturing; /* launches that a graph has; -1: none is open */
    int under_way, most;                       /* launches since the last wait for all */
} dry;

static void put_nothing(const kernel_call *c)
{
    (void)c;
}

static void load_rows(void)
{
    char path[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = 0;
    for (int i = 0; i < 3 && (slash = strrchr(path, '/')); i++) *slash = 0; /* build/tests/train */
    strncat(path, "/moefold-cuda.so", sizeof path - strlen(path) - 1);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = NULL;
    const kernel *(*rows)(int *) = kernels_cpu;
    if (object) symbol = dlsym(object, "kernels_cuda");
    if (symbol) memcpy(&rows, &symbol, sizeof symbol);
    dry.gpu = symbol != NULL;
    const kernel *list = rows(&dry.n);
    assert_true(dry.n <= ROWS_MAX);
    memcpy(dry.rows, list, sizeof *list * (size_t)dry.n);
    for (int i = 0; i < dry.n; i++) {
        dry.rows[i].prepare = NULL;
        dry.rows[i].release = NULL;
        dry.rows[i].launch = put_nothing;
    }
}

static const kernel *dry_rows(int *n)
{
    *n = dry.n;
    return dry.rows;
}

static status dry_take(device *d, device_space s, int64_t bytes, error *err)
{
    (void)d, (void)err;
    dry.bytes[s] = bytes;
    if (s != SPACE_KEPT) return OK;
    free(dry.kept);
    dry.kept = bytes ? calloc(1, (size_t)bytes) : NULL;
    return OK;
}

static void *dry_map(const device *d, device_address at)
{
    (void)d;
    assert_true(at.space == SPACE_KEPT && at.offset == 0);
    return dry.kept;
}

static void *dry_pointer(const device *d, device_address at)
{
    (void)d;
    assert_true(at.offset >= 0 && at.offset < dry.bytes[at.space]);
    return (void *)(uintptr_t)(0x1000 + at.offset);
}

static void dry_write(device *d, device_address to, const void *from, int64_t bytes)
{
    (void)d, (void)from;
    assert_true(to.offset + bytes <= dry.bytes[to.space]);
}

static void dry_copy(device *d, op_stream s, device_address to, device_address from, int64_t bytes)
{
    (void)d, (void)s;
    assert_true(to.offset + bytes <= dry.bytes[to.space]);
    assert_true(from.offset + bytes <= dry.bytes[from.space]);
}

static status dry_events(device *d, int n, error *err)
{
    (void)d, (void)n, (void)err;
    return OK;
}

static void dry_record(device *d, op_stream s, int event)
{
    (void)d, (void)s, (void)event;
}

static void dry_wait_here(device *d, int event)
{
    (void)d, (void)event;
}

static void dry_launch(device *d, op_stream s, kernel_call *c)
{
    (void)d, (void)s;
    if (dry.capturing >= 0) {
        dry.held[dry.capturing]++;
        return;
    }
    dry.put[c->o->kind]++;
    bool fp8 = op_is_quantised(c->o->kind) || op_makes_codes(c->o->kind);
    dry.slow += fp8 && (strcmp(c->row->name, "plain") == 0 || strcmp(c->row->name, "mma") == 0);
    if (dry.gpu && c->row->workspace)
        assert_true(c->row->workspace(c->o, c->types) <= measure_scale_gpu.workspace);
}

static void dry_sync(device *d)
{
    (void)d;
    dry.under_way = 0;
}

/* ---- graphs, of which each replay takes the host a known time */

static status dry_graphs(device *d, int n, error *err)
{
    (void)d, (void)err;
    assert_true(n <= GRAPHS_MAX);
    memset(dry.held, 0, sizeof dry.held);
    dry.n_graphs = n;
    return OK;
}

static void dry_capture(device *d, int graph)
{
    (void)d;
    assert_true(graph < dry.n_graphs && dry.capturing < 0);
    dry.capturing = graph;
}

static int dry_captured(device *d, int graph)
{
    (void)d;
    assert_int_equal(dry.capturing, graph);
    dry.capturing = -1;
    return dry.held[graph];
}

static void dry_replay(device *d, int graph, const op *o)
{
    (void)d, (void)o;
    assert_true(graph < dry.n_graphs && dry.held[graph] > 0);
    dry.under_way += dry.held[graph];
    if (dry.under_way > dry.most) dry.most = dry.under_way;
    now += replay_seconds + held_seconds * dry.held[graph];
}

static const device_table dry_table = {.name = "dry",
                                       .rows = dry_rows,
                                       .take = dry_take,
                                       .map = dry_map,
                                       .pointer = dry_pointer,
                                       .write = dry_write,
                                       .copy = dry_copy,
                                       .events = dry_events,
                                       .record = dry_record,
                                       .wait_here = dry_wait_here,
                                       .launch = dry_launch,
                                       .graphs = dry_graphs,
                                       .capture = dry_capture,
                                       .captured = dry_captured,
                                       .replay = dry_replay,
                                       .sync = dry_sync};

static void every_operation_of_the_gpus_scale_has_a_row_and_room(void **state)
{
    (void)state;
    static const op_kind some[] = {
        OP_GEMM_W,  OP_GROUPED_W, OP_ATTN_D,   OP_HEAD_LOSS,  OP_PERMUTE_D,   OP_SORT,
        OP_EMBED_W, OP_SQUARES,   OP_ADAMW,    OP_GDN_RULE_D, OP_QGEMM,       OP_QGEMM_D,
        OP_QGEMM_W, OP_QGROUPED,  OP_QUANTISE, OP_QGROUPED_W, OP_ACT_D_QUANT, OP_NORM_QUANT};
    device d = {.table = &dry_table};
    measure_scale scale = measure_scale_gpu;
    scale.host_updates = 4096; /* no cache need be too small here */
    measure_options o = {.seconds = 0.01, .threads = 1, .on = &d, .scale = &scale};
    measured m;
    error err = {{0}};
    load_rows();
    if (!dry.gpu) scale.workspace = (int64_t)1 << 40; /* the GPU's is no room for the CPU's rows */
    dry.capturing = -1;
    if (measure_machine(&m, NULL, &o, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) assert_true(dry.put[some[i]] > 0);
    for (int k = 0; k < GRADIENT_FORMS; k++) assert_true(m.grouped_form[FORM_DATA + k].n > 3);
    for (int k = 0; k < FORM_COUNT; k++)
        assert_true(m.narrow[k].n > 3 && m.narrow_experts[k].n > 3);
    assert_true(m.kind[OP_QUANTISE] > 0 && m.kind[OP_ACT_QUANT] > 0);
    if (dry.gpu) assert_int_equal(dry.slow, 0);
    /* the host is timed, not a queue that is full, and nothing stays captured */
    assert_true(fabs(m.graph_launch / held_seconds - 1) < 0.01);
    assert_true(fabs(m.replay / replay_seconds - 1) < 0.01);
    assert_true(dry.most > 0 && dry.most < QUEUE && dry.n_graphs == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_of_the_gpus_scale_has_a_row_and_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
