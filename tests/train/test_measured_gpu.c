/* test_measured_gpu.c - what was measured of a GPU is what its file says and what prices follow;
 * times of GPUs that nobody measured are estimates. */
#define _GNU_SOURCE
#include "cli/verdict.h"
#include "predict/costing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/quant.h"
#include "measure/bench/measure.h"
#include "predict/machine.h"

static bool near_to(double x, double y)
{
    return fabs(x - y) <= 2e-3 * fabs(y);
}

/* ---- a GPU as it could be */

static curve flat(const scale_list *x, double y)
{
    curve c = {.n = x->n};
    for (int i = 0; i < c.n; i++) {
        c.x[i] = x->x[i];
        c.y[i] = y;
    }
    return c;
}

/* Forward 600, gradients 500, 400 and 300 TFLOP/s; half of each for experts; sums count for
 * nothing. */
static measured invented(void)
{
    const measure_scale *z = &measure_scale_gpu;
    measured m = {.scale = z, .ranks = 1, .threads = 4, .gpu = "NVIDIA H200", .device = "cuda"};
    m.gpu_total = (int64_t)140 << 30;
    m.gpu_free = (int64_t)139 << 30;
    m.gemm = flat(&z->sides, 600e12);
    m.deep = flat(&z->depths, 600e12);
    m.grouped = flat(&z->expert_rows, 300e12);
    m.grouped_deep = flat(&z->expert_depths, 300e12);
    for (int i = FORM_DATA; i < FORM_COUNT; i++) {
        m.gemm_form[i] = flat(&z->sides, (600 - 100 * i) * 1e12);
        m.grouped_form[i] = flat(&z->expert_rows, (300 - 50 * i) * 1e12);
    }
    for (int i = FORM_FORWARD; i < FORM_COUNT; i++) { /* 1,200 and less; 800 and less */
        m.narrow[i] = flat(&z->narrow_sides, (1200 - 100 * i) * 1e12);
        m.narrow_experts[i] = flat(&z->narrow_rows, (800 - 50 * i) * 1e12);
    }
    m.narrow_deep = flat(&z->narrow_depths, 1200e12);
    m.narrow_experts_deep = flat(&z->narrow_expert_depths, 800e12);
    for (int i = 0; i < 2; i++) m.attention[i] = flat(&z->lengths, (500 - 100 * i) * 1e12);
    m.heads = flat(&z->head_sizes, 1e12);
    m.memory = flat(&z->passes, 3e12);
    m.copy = flat(&z->passes, 4e12);
    m.head = 650e12;
    m.linear = 100e12;
    m.unequal[0] = 0.5;
    m.unequal[1] = 0.25;
    m.sinks = 0.9;
    m.kind[OP_NORM] = 1.5e12;
    m.kind[OP_ADAMW] = 4e12;
    m.kind_bytes[OP_NORM] = m.kind_bytes[OP_ADAMW] = 1 << 30;
    for (int k = 0; k < LAUNCH_KINDS; k++) m.host[k] = 4e-6;
    m.host[LAUNCH_PRODUCT] = 8e-6;
    m.adam = 1e9;
    m.least = 1e-9;
    m.wait = 1e-5;
    m.to_device = 50e9;
    m.to_host = 55e9;
    m.both_ways = 80e9;
    return m;
}

typedef struct folder {
    char path[64], before[PATH_MAX];
} folder;

static folder folder_open(void)
{
    folder f = {.path = "/tmp/moefold-measured-XXXXXX"};
    char text[256];
    assert_non_null(mkdtemp(f.path));
    assert_non_null(getcwd(f.before, sizeof f.before));
    snprintf(text, sizeof text, "mkdir %s/hardware", f.path);
    assert_int_equal(system(text), 0);
    assert_int_equal(chdir(f.path), 0);
    return f;
}

static void folder_close(const folder *f)
{
    char text[256];
    assert_int_equal(chdir(f->before), 0);
    snprintf(text, sizeof text, "rm -r %s", f->path);
    assert_int_equal(system(text), 0);
}

static void write_as(const measured *m, const char *base_name, const char *path)
{
    arena *a = arena_create();
    hardware base;
    error err = {{0}};
    if (hardware_read(&base, base_name, a, &err) || measured_write_gpu(m, &base, path, &err))
        fail_msg("%s", err.text);
    arena_destroy(a);
}

static const char ours[] = "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold";

/* ---- the file */

static void what_was_measured_is_read_back(void **state)
{
    (void)state;
    arena *a = arena_create();
    folder f = folder_open();
    measured m = invented();
    hardware h, base;
    error err = {{0}};
    write_as(&m, "H200", "hardware/x.yaml");
    if (hardware_read(&h, "./hardware/x.yaml", a, &err)) fail_msg("%s", err.text);
    assert_int_equal(hardware_read(&base, "H200", a, &err), OK);
    assert_string_equal(h.name, "H200");
    assert_int_equal(strlen(h.measured), strlen("2026-11-16"));
    assert_int_equal(h.arch, ARCH_HOPPER);
    assert_true(h.framework == 0 && h.memory == m.gpu_total);
    assert_true(near_to(h.across.bandwidth, base.across.bandwidth)); /* not to be seen by one GPU */
    assert_true(near_to(h.peak[NUMBER_BF16], base.peak[NUMBER_BF16]));
    assert_true(near_to(h.host_bandwidth, 50e9));
    assert_true(near_to(h.host_both, 80e9));
    assert_true(near_to(h.launches[LAUNCH_PRODUCT], 2));
    assert_int_equal(h.n_kinds, 2);
    assert_null(cost_unknown_kind(&h));
    folder_close(&f);
    arena_destroy(a);
}

static bool file_says(const char *path, const char *line)
{
    char text[512];
    snprintf(text, sizeof text, "grep -q '%s' %s", line, path);
    return system(text) == 0;
}

/* 16 MiB in 1 ms and more in proportion, exchanges half as fast; 5 us at least. */
static measured invented_links(int ranks, int devices)
{
    measured m = {.scale = &measure_scale_gpu, .ranks = ranks, .threads = 4, .latency = 5e-6};
    const scale_list *x = &measure_scale_gpu.messages;
    snprintf(m.gpu, sizeof m.gpu, "NVIDIA H200");
    snprintf(m.device, sizeof m.device, "cuda");
    snprintf(m.transport, sizeof m.transport, "CUDA IPC, as invented");
    m.devices = devices;
    for (int k = 0; k < MEASURED_MESSAGES; k++) {
        m.message[k] = flat(x, k == MEASURED_EXCHANGE ? 8e9 : 16e9);
        m.message[k].y[0] /= 4; /* small ones are slower */
    }
    return m;
}

static void links_are_the_ranks_and_the_rest_is_one_ranks(void **state)
{
    (void)state;
    static const char path[] = "./hardware/h200-measured-2.yaml";
    arena *a = arena_create();
    folder f = folder_open();
    measured one = invented(), links = invented_links(2, 1);
    hardware base, h;
    error err = {{0}};
    write_as(&one, "H200", "hardware/h200-measured.yaml");
    if (hardware_read(&base, "./hardware/h200-measured.yaml", a, &err) ||
        measured_write_links(&links, &base, path, &err) || hardware_read(&h, path, a, &err))
        fail_msg("%s", err.text);
    assert_true(near_to(h.node.latency, 5e-6) && near_to(h.node.bandwidth, 16e9));
    assert_true(near_to(curve_at(&h.node.efficiency, 1 << 24), 1));
    assert_true(near_to(curve_at(&h.node.efficiency, 4096), 0.25));
    for (int k = 0; k < DISPATCH_KINDS; k++) {
        assert_true(near_to(h.dispatch[k][0], 0.5));
        assert_true(near_to(h.dispatch[k][1], base.dispatch[k][1]));
    }
    assert_true(near_to(h.across.bandwidth, base.across.bandwidth));
    assert_true(near_to(h.launch, base.launch) && h.memory == base.memory);
    assert_true(h.framework == 0 && h.n_kinds == base.n_kinds);
    assert_string_equal(h.measured, base.measured);
    assert_true(file_says(path, "^# All ranks share one device: .*not over NVLink"));
    assert_true(file_says(path, "^# Transport: CUDA IPC, as invented"));
    assert_true(file_says(path, "launch: .*# as hardware/h200-measured.yaml"));
    links.devices = 2; /* each has its own: that is a link */
    assert_int_equal(measured_write_links(&links, &base, path, &err), OK);
    assert_false(file_says(path, "not over NVLink"));
    folder_close(&f);
    arena_destroy(a);
}

/* Seconds of the host for an operation alone, and for one in a graph of parts. */
static op_cost captured_cost(const char *path, double replay[2])
{
    costing x;
    lone_op o;
    char words[512];
    snprintf(words, sizeof words,
             "%s model.cuda_graph_impl=transformer_engine model.cuda_graph_modules=[attn]", ours);
    costing_open(&x, path, "tiny", words);
    lone_init(&o, OP_ADD, "pass", NULL, 0);
    o.o.in[0] = lone_buf(&o, "x", 1 << 20);
    op_cost c = cost_of(&x.c, &o.seg, &o.o);
    memcpy(replay, x.c.replay, sizeof x.c.replay);
    costing_close(&x);
    return c;
}

static void graphs_are_priced_as_they_were_measured(void **state)
{
    (void)state;
    static const char path[] = "./hardware/x.yaml";
    folder f = folder_open();
    arena *a = arena_create();
    measured m = invented();
    double replay[2];
    hardware base;
    error err = {{0}};
    assert_int_equal(hardware_read(&base, "H200", a, &err), OK);
    m.graph_launch = 5e-7;
    m.replay = 6e-6;
    write_as(&m, "H200", path);
    assert_true(file_says(path, "graph_launch: 5e-07  # host time per kernel of a replayed graph"));
    op_cost c = captured_cost(path, replay);
    assert_true(near_to(c.eager, 4e-6) && near_to(c.replayed, 5e-7));
    assert_true(near_to(replay[0], 6e-6) && near_to(replay[1], 6e-6));
    m.graph_launch = m.replay = 0; /* a device without them */
    write_as(&m, "H200", path);
    assert_true(file_says(path, "graph_launch: 4e-06  # there are no graphs"));
    assert_false(file_says(path, "over host.launch"));
    c = captured_cost(path, replay);
    assert_true(near_to(c.replayed, 4e-6));
    for (int i = 0; i < 2; i++) assert_true(near_to(replay[i], base.calls[CALL_REPLAY][i] * 4e-6));
    folder_close(&f);
    arena_destroy(a);
}

static void noise_that_grows_faster_than_sizes_is_cut(void **state)
{
    (void)state;
    arena *a = arena_create();
    folder f = folder_open();
    measured m = invented();
    hardware h;
    error err = {{0}};
    for (int i = 0; i < 3; i++) m.memory.y[i] = 1e9;
    m.grouped.y[0] = 1e12; /* from 16 rows to 64 as 1 to 300 */
    write_as(&m, "H200", "hardware/x.yaml");
    if (hardware_read(&h, "./hardware/x.yaml", a, &err)) fail_msg("%s", err.text);
    folder_close(&f);
    arena_destroy(a);
}

/* ---- prices */

static double seconds_of(const costing *x, lone_op *o)
{
    return cost_of(&x->c, &o->seg, &o->o).seconds;
}

static double gemm_rate(const costing *x, op_kind kind, unsigned flags)
{
    const int64_t dense[] = {8192, 8192, 8192}, grouped[] = {65536, 32, 4096, 4096};
    bool experts = kind >= OP_GROUPED && kind <= OP_GROUPED_W;
    lone_op o;
    lone_init(&o, kind, "product", experts ? grouped : dense, experts ? 4 : 3);
    o.o.flags = flags;
    return op_flops(&o.o) / seconds_of(x, &o) * 1e-12;
}

static double narrow_rate(const costing *x, op_kind kind, unsigned flags)
{
    const int64_t dense[] = {8192, 8192, 8192, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3},
                  grouped[] = {65536, 32, 4096, 4096, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3};
    lone_op o;
    const bool experts = kind >= OP_QGROUPED;
    lone_init(&o, kind, "product", experts ? grouped : dense, experts ? 7 : 6);
    o.o.flags = flags;
    /* Of the room for 127 rows more an expert half is taken. */
    const double computed = experts ? (65536 - 0.5 * 32 * 127) / 65536 : 1;
    return computed * op_flops(&o.o) / seconds_of(x, &o) * 1e-12;
}

static double norm_seconds(const costing *x, op_kind kind, double bytes)
{
    lone_op o;
    lone_init(&o, kind, "pass", NULL, 0);
    o.o.in[0] = lone_buf(&o, "x", bytes);
    return seconds_of(x, &o);
}

static double attention_rate(const costing *x, op_kind kind, int64_t d)
{
    const int64_t dim[] = {4, 4096, 32, 32, d, 128, 0};
    lone_op o;
    lone_init(&o, kind, "attention", dim, 7);
    return op_flops(&o.o) / seconds_of(x, &o) * 1e-12;
}

static void prices_of_fp8_follow_the_file(void **state)
{
    (void)state;
    folder f = folder_open();
    measured m = invented();
    costing x;
    char words[512];
    snprintf(words, sizeof words,
             "%s mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "
             "mixed_precision.fp8_param_gather=false",
             ours);
    write_as(&m, "H200", "hardware/x.yaml");
    costing_open(&x, "./hardware/x.yaml", "tiny", words);
    assert_true(near_to(narrow_rate(&x, OP_QGEMM, 0), 1200));
    assert_true(near_to(narrow_rate(&x, OP_QGEMM_D, 0), 1100));
    assert_true(near_to(narrow_rate(&x, OP_QGEMM_W, OVERWRITE), 1000));
    assert_true(near_to(narrow_rate(&x, OP_QGEMM_W, 0), 900));
    assert_true(near_to(narrow_rate(&x, OP_QGROUPED, 0), 800));
    assert_true(near_to(narrow_rate(&x, OP_QGROUPED_D, 0), 750));
    assert_true(near_to(narrow_rate(&x, OP_QGROUPED_W, OVERWRITE), 700));
    assert_true(near_to(narrow_rate(&x, OP_QGROUPED_W, 0), 650));
    costing_close(&x);
    folder_close(&f);
}

static void prices_follow_the_file(void **state)
{
    (void)state;
    folder f = folder_open();
    measured m = invented();
    costing x;
    write_as(&m, "H200", "hardware/x.yaml");
    costing_open(&x, "./hardware/x.yaml", "tiny", ours);
    assert_true(near_to(gemm_rate(&x, OP_GEMM, 0), 600));
    assert_true(near_to(gemm_rate(&x, OP_GEMM_D, 0), 500));
    assert_true(near_to(gemm_rate(&x, OP_GEMM_W, OVERWRITE), 400));
    assert_true(near_to(gemm_rate(&x, OP_GEMM_W, 0), 300));
    assert_true(near_to(gemm_rate(&x, OP_GROUPED, 0), 300));
    assert_true(near_to(gemm_rate(&x, OP_GROUPED_D, 0), 250));
    assert_true(near_to(gemm_rate(&x, OP_GROUPED_W, OVERWRITE), 200));
    assert_true(near_to(gemm_rate(&x, OP_GROUPED_W, 0), 150));
    assert_true(near_to(norm_seconds(&x, OP_ADD, 3e9), 1e-3)); /* as the mix */
    assert_true(near_to(norm_seconds(&x, OP_NORM, 3e9), 2e-3));
    assert_true(near_to(attention_rate(&x, OP_ATTN, 128), 500));
    assert_true(near_to(attention_rate(&x, OP_ATTN, 192), 250));
    assert_true(near_to(attention_rate(&x, OP_ATTN_D, 192), 100));
    costing_close(&x);
    folder_close(&f);
}

/* The gradient norm is a pass over all gradients, optimizer or not; zeros are for what no GEMM
 * writes. */
static void the_update_is_priced_by_its_operations(void **state)
{
    (void)state;
    folder f = folder_open();
    measured m = invented();
    costing x;
    m.kind[OP_SQUARES] = 3e12;
    m.kind_bytes[OP_SQUARES] = 1 << 30;
    write_as(&m, "H200", "hardware/x.yaml");
    costing_open(&x, "./hardware/x.yaml", "qwen3-30b-a3b",
                 "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold model.num_layers=4 "
                 "optimizer.optimizer=none train.global_batch_size=1");
    program *p = ARENA_NEW(x.a, program);
    program_build(p, &x.s, 0, x.a);
    double seconds = cost_of_optimizer(&x.c, p), squares = 4.0 * (double)p->weights.owned / 3e12;
    assert_true(seconds > squares && seconds < squares + 1e-3);
    costing_close(&x);
    folder_close(&f);
}

/* ---- which file */

static hardware machine_of(const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    hardware h = {0};
    error err = {{0}};
    setup_of_words(s, a, "tiny", words);
    if (machine_of_setup(&h, s, a, &err)) fail_msg("%s", err.text);
    assert_int_equal(answer_estimates_times(&s->j, &h),
                     recipe_is(&s->r, K_TARGET, "moefold") && !h.measured);
    return h;
}

static void our_own_program_takes_the_measured_file(void **state)
{
    (void)state;
    arena *a = arena_create();
    folder f = folder_open();
    measured m = invented();
    m.gpu_total = (int64_t)1 << 36;
    write_as(&m, "H200", "hardware/h200-measured.yaml");
    hardware own = machine_of(ours, a);
    hardware theirs = machine_of("cluster.gpu=H200 cluster.n_gpus=1", a);
    hardware sibling = machine_of("cluster.gpu=H100 cluster.n_gpus=1 moefold.target=moefold", a);
    hardware h100 = machine_of("cluster.gpu=H100 cluster.n_gpus=1", a);
    assert_string_equal(own.path, "./hardware/h200-measured.yaml");
    assert_non_null(own.measured);
    assert_true(own.memory == m.gpu_total && own.usable < own.memory);
    assert_null(theirs.measured);
    assert_true(theirs.framework == 1);
    /* an estimate: the kernels of the measured one, peaks and memory of the other */
    assert_null(sibling.measured);
    assert_string_equal(sibling.name, "H100");
    assert_true(sibling.framework == 0 && sibling.n_kinds == 2);
    assert_true(sibling.memory_bandwidth == h100.memory_bandwidth);
    assert_true(sibling.usable == h100.usable);
    folder_close(&f);
    arena_destroy(a);
}

static void a_kind_that_is_none_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    folder f = folder_open();
    measured m = invented();
    setup s;
    hardware h;
    error err = {{0}};
    write_as(&m, "H200", "hardware/h200-measured.yaml");
    assert_int_equal(system("sed -i 's/^  NORM:/  NORMS:/' hardware/h200-measured.yaml"), 0);
    setup_of_words(&s, a, "tiny", ours);
    assert_int_equal(machine_of_setup(&h, &s, a, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "NORMS"));
    assert_non_null(strstr(err.text, "h200-measured.yaml"));
    assert_int_equal(system("sed -i 's/^  NORMS: .*/  NORM: 9/' hardware/h200-measured.yaml"), 0);
    assert_int_equal(machine_of_setup(&h, &s, a, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "kinds"));
    folder_close(&f);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_read_back),
        cmocka_unit_test(links_are_the_ranks_and_the_rest_is_one_ranks),
        cmocka_unit_test(graphs_are_priced_as_they_were_measured),
        cmocka_unit_test(noise_that_grows_faster_than_sizes_is_cut),
        cmocka_unit_test(prices_follow_the_file),
        cmocka_unit_test(prices_of_fp8_follow_the_file),
        cmocka_unit_test(the_update_is_priced_by_its_operations),
        cmocka_unit_test(our_own_program_takes_the_measured_file),
        cmocka_unit_test(a_kind_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
