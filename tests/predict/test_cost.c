/* Prices of operations: every kind, and rates against what was measured and published. */
#include "predict/costing.h"
#include "predict/draw.h"

#include <math.h>

/* ---- every kind */

static int words_in(const char *s)
{
    int n = 0;
    for (s += strspn(s, " "); *s; s += strspn(s, " ")) {
        s += strcspn(s, " ");
        n++;
    }
    return n;
}

/* Sizes that say where or in which form something is instead of how much there is. */
static bool is_place(const char *word, size_t n)
{
    static const char *const places[] = {"WINDOW", "FIRST", "VFIRST", "QA",    "QB",    "KA",
                                         "KB",     "STEP",  "TAG",    "PLACE", "SHIFT", "FORM"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strlen(places[i]) == n && strncmp(places[i], word, n) == 0) return true;
    return false;
}

/* Every size is `size`, every buffer size^2 numbers. */
static void lone_of_size(lone_op *x, op_kind kind, int64_t size)
{
    const op_info *info = &op_infos[kind];
    lone_init(x, kind, "test", NULL, 0);
    int n = 0;
    for (const char *s = info->dims; *s && n < OP_DIM_MAX; s += strspn(s, " ")) {
        size_t length = strcspn(s, " ");
        x->o.dim[n++] = is_place(s, length) ? 0 : size;
        s += length;
    }
    double bytes = 2.0 * (double)size * (double)size;
    for (int i = 0; i < words_in(info->in); i++) x->o.in[i] = lone_buf(x, "dispatch.ep", bytes);
    for (int i = 0; i < words_in(info->out); i++) x->o.out[i] = lone_buf(x, "y", bytes);
    x->o.group = kind == OP_EXCHANGE ? GROUP_EP : GROUP_DP_CP;
}

static void every_kind_has_a_price_that_grows(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "h100", "deepseek-v3",
                 "cluster.gpu=H100 cluster.n_gpus=64 model.expert_model_parallel_size=16");
    for (int k = 0; k < OP_COUNT; k++) {
        double before = 0;
        for (int64_t size = 16; size <= 4096; size *= 2) {
            lone_op x;
            lone_of_size(&x, (op_kind)k, size);
            op_cost got = lone_cost(&c, &x);
            if (k == OP_WAIT) {
                assert_true(got.seconds == 0 && got.host == 0);
                continue;
            }
            bool ours = k == OP_DEMAND; /* Megatron has none */
            if (!(got.seconds > 0 && isfinite(got.seconds) && (ours || got.host > 0)))
                fail_msg("%s of %d costs %g s, %g on the host", op_infos[k].name, (int)size,
                         got.seconds, got.host);
            if (got.seconds < before)
                fail_msg("%s of %d costs %g s, less than the half of it", op_infos[k].name,
                         (int)size, got.seconds);
            before = got.seconds;
        }
    }
    costing_close(&c);
}

/* ---- one H200, as measured */

static double tflops(const costing *c, lone_op *x)
{
    double seconds = lone_cost(c, x).seconds / c->c.device;
    return op_flops(&x->o) / seconds * 1e-12;
}

static double gemm_rate(const costing *c, op_kind kind, int64_t m, int64_t n, int64_t k)
{
    lone_op x;
    lone_init(&x, kind, "qkv", (const int64_t[]){m, n, k}, 3);
    x.o.in[0] = lone_buf(&x, "x", 2.0 * (double)(m * k));
    x.o.in[1] = lone_buf(&x, "w", 2.0 * (double)(n * k));
    x.o.out[0] = lone_buf(&x, "y", 2.0 * (double)(m * n));
    return tflops(c, &x);
}

/* Experts of what was measured had 2,048 rows, whole tiles; drawn ones begin half a tile more. */
static double grouped_rate(const costing *c, op_kind kind, int64_t n, int64_t k)
{
    lone_op x;
    int64_t rows = 262144, experts = 128;
    lone_init(&x, kind, "experts.fc1", (const int64_t[]){rows, experts, n, k}, 4);
    x.o.role = ROLE_EXPERTS_FC1;
    x.o.in[0] = lone_buf(&x, "x", 2.0 * (double)(rows * k));
    x.o.in[1] = lone_buf(&x, "w", 2.0 * (double)(experts * n * k));
    x.o.out[0] = lone_buf(&x, "y", 2.0 * (double)(rows * n));
    double each = (double)(rows / experts);
    return tflops(c, &x) * draw_padded(each, c->hw.tile) / each;
}

static double attention_rate(const costing *c, op_kind kind, int64_t b, int64_t s)
{
    lone_op x;
    lone_init(&x, kind, "core", (const int64_t[]){b, s, 32, 4, 128, 128, 0}, 7);
    x.o.in[0] = lone_buf(&x, "q", 2.0 * (double)(b * s) * 32 * 128);
    return tflops(c, &x);
}

static double wide_rate(const costing *c, op_kind kind, int64_t size, int64_t values)
{
    lone_op x;
    lone_init(&x, kind, "core", (const int64_t[]){1, 16384, 16, 2, size, values, 0}, 7);
    x.o.in[0] = lone_buf(&x, "q", 2.0 * 16384 * 16 * (double)size);
    return tflops(c, &x);
}

/* No gradient by cuDNN: FlashAttention-2, which B200 runs no faster than Hopper does. */
static void heads_of_256_are_slow_on_blackwell(void **state)
{
    (void)state;
    costing c, hopper;
    costing_open(&c, "gb200", "tiny", "cluster.gpu=GB200");
    costing_open(&hopper, "h100", "tiny", "cluster.gpu=H100");
    near("forward", wide_rate(&c, OP_ATTN, 256, 256), 350, 0.1);
    near("backward", wide_rate(&c, OP_ATTN_D, 256, 256), 330, 0.1);
    assert_true(wide_rate(&c, OP_ATTN_D, 128, 128) > 1000);
    assert_true(wide_rate(&c, OP_ATTN_D, 192, 128) > 1000); /* cuDNN has it */
    assert_true(wide_rate(&hopper, OP_ATTN_D, 256, 256) > 400);
    costing_close(&c);
    costing_close(&hopper);
}

static void h200_has_the_rates_that_were_measured(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "h200", "tiny", "cluster.gpu=H200");
    const double part = 0.1;
    near("8192 cubed", gemm_rate(&c, OP_GEMM, 8192, 8192, 8192), 794, part);
    near("qkv", gemm_rate(&c, OP_GEMM, 32768, 5120, 2048), 811, part);
    near("proj", gemm_rate(&c, OP_GEMM, 32768, 2048, 4096), 808, part);
    const double loop = 0.12; /* a call for each expert, as Megatron has it */
    near("fc1", grouped_rate(&c, OP_GROUPED, 1536, 2048), 632, loop);
    near("fc1 data", grouped_rate(&c, OP_GROUPED_D, 1536, 2048), 603, loop);
    near("fc1 weight", grouped_rate(&c, OP_GROUPED_W, 1536, 2048), 606, loop);
    near("fc2", grouped_rate(&c, OP_GROUPED, 2048, 768), 476, loop);
    near("fc2 data", grouped_rate(&c, OP_GROUPED_D, 2048, 768), 496, loop);
    near("fc2 weight", grouped_rate(&c, OP_GROUPED_W, 2048, 768), 498, loop);
    near("attention 4K", attention_rate(&c, OP_ATTN, 8, 4096), 620, part);
    near("attention 32K", attention_rate(&c, OP_ATTN, 1, 32768), 602, part);
    near("attention 128K", attention_rate(&c, OP_ATTN, 1, 131072), 571, part);
    near("attention 4K, backward", attention_rate(&c, OP_ATTN_D, 8, 4096), 476, part);
    near("attention 32K, backward", attention_rate(&c, OP_ATTN_D, 1, 32768), 540, part);
    near("attention 128K, backward", attention_rate(&c, OP_ATTN_D, 1, 131072), 541, part);
    lone_op copy;
    lone_init(&copy, OP_COPY, "copy", NULL, 0);
    copy.o.in[0] = lone_buf(&copy, "a", 1e9);
    copy.o.out[0] = lone_buf(&copy, "y", 1e9);
    near("copy", 2 * c.hw.fusion / lone_cost(&c, &copy).seconds * c.c.device, 4244, part);
    costing_close(&c);
}

/* GEMMs without the passes that make their inputs. */
static double narrow_rate(const costing *c, int64_t n, int64_t k)
{
    lone_op x;
    lone_init(&x, OP_GEMM, "qkv", (const int64_t[]){32768, n, k}, 3);
    x.o.in[0] = lone_buf(&x, "x", 2.0 * 32768 * (double)k);
    x.o.in[1] = lone_buf(&x, "w", 2.0 * (double)(n * k));
    x.o.out[0] = lone_buf(&x, "y", 2.0 * 32768 * (double)n);
    op_cost cost = lone_cost(c, &x);
    assert_true(cost.quantise > 0);
    return op_flops(&x.o) / (cost.seconds - cost.quantise) * c->c.device * 1e-12;
}

static void h200_has_the_narrow_rates_that_were_measured(void **state)
{
    (void)state;
    static const int64_t n[] = {5120, 2048, 8192}, k[] = {2048, 4096, 8192};
    static const double blocks[] = {1091, 1078, 1133}, tensor[] = {1262, 1244, 1297};
    costing by_blocks, by_tensor;
    costing_open(&by_blocks, "h200", "tiny", "cluster.gpu=H200 mixed_precision=fp8_sc");
    costing_open(&by_tensor, "h200", "tiny", "cluster.gpu=H200 mixed_precision=fp8_cs");
    for (int i = 0; i < 3; i++) {
        near("blocks", narrow_rate(&by_blocks, n[i], k[i]), blocks[i], 0.1);
        near("tensor", narrow_rate(&by_tensor, n[i], k[i]), tensor[i], 0.1);
    }
    costing_close(&by_blocks);
    costing_close(&by_tensor);
}

static void the_router_and_attention_stay_wide(void **state)
{
    (void)state;
    costing wide, narrow;
    costing_open(&wide, "h100", "tiny", "cluster.gpu=H100");
    costing_open(&narrow, "h100", "tiny", "cluster.gpu=H100 mixed_precision=fp8_sc");
    lone_op x;
    lone_init(&x, OP_GEMM, "router", (const int64_t[]){32768, 256, 7168}, 3);
    x.o.role = ROLE_ROUTER;
    x.o.in[0] = lone_buf(&x, "x", 4e8);
    assert_true(lone_cost(&narrow, &x).quantise == 0);
    assert_true(lone_cost(&narrow, &x).seconds == lone_cost(&wide, &x).seconds);
    assert_true(attention_rate(&wide, OP_ATTN, 1, 8192) ==
                attention_rate(&narrow, OP_ATTN, 1, 8192));
    costing_close(&wide);
    costing_close(&narrow);
}

/* ---- the host */

static double host_us(const char *words, op_module module, op_kind kind)
{
    costing c;
    arena *a = arena_create();
    costing_open(&c, "h100", "deepseek-v3", arena_text(a, "cluster.gpu=H100 %s", words));
    lone_op x;
    lone_of_size(&x, kind, 64);
    x.o.module = module;
    double us = lone_cost(&c, &x).host * 1e6;
    costing_close(&c);
    arena_destroy(a);
    return us;
}

static void graphs_take_launches_off_the_host(void **state)
{
    (void)state;
    const char *partial = "model.cuda_graph_impl=transformer_engine "
                          "model.cuda_graph_modules=[attn,moe_router,moe_preprocess]";
    const char *whole = "model.cuda_graph_impl=full_iteration";
    double eager = host_us("", MODULE_ATTENTION, OP_GEMM);
    assert_true(host_us(partial, MODULE_ATTENTION, OP_GEMM) < 0.2 * eager);
    assert_true(host_us(partial, MODULE_MOE, OP_ROUTER) < 0.2 * host_us("", MODULE_MOE, OP_ROUTER));
    assert_true(host_us(partial, MODULE_MOE, OP_SORT) < 0.2 * host_us("", MODULE_MOE, OP_SORT));
    assert_true(host_us(partial, MODULE_MOE, OP_GROUPED) == host_us("", MODULE_MOE, OP_GROUPED));
    assert_true(host_us(partial, MODULE_HEAD, OP_HEAD_LOSS) ==
                host_us("", MODULE_HEAD, OP_HEAD_LOSS));
    assert_true(host_us(whole, MODULE_HEAD, OP_HEAD_LOSS) <
                0.2 * host_us("", MODULE_HEAD, OP_HEAD_LOSS));
}

/* ---- once a step */

static double optimizer_s(const char *words)
{
    costing c;
    program p;
    arena *a = arena_create();
    costing_open(&c, "h100", "tiny", arena_text(a, "cluster.gpu=H100 %s", words));
    program_build(&p, &c.s, 0, a);
    double seconds = cost_of_optimizer(&c.c, &p);
    costing_close(&c);
    arena_destroy(a);
    return seconds;
}

static void an_offloaded_optimizer_costs_more(void **state)
{
    (void)state;
    const char *off = "optimizer.optimizer_cpu_offload=true "
                      "optimizer.use_precision_aware_optimizer=true";
    double here = optimizer_s(""), host = optimizer_s(off);
    double beside = optimizer_s("optimizer.optimizer_cpu_offload=true "
                                "optimizer.overlap_cpu_optimizer_d2h_h2d=true");
    assert_true(here > 0);
    assert_true(host > here);
    assert_true(beside < host && beside > here);
}

/* Both ways at once, or each half as fast where the link gives no more in all. */
static void moved_state_takes_the_link(void **state)
{
    (void)state;
    costing c;
    program p;
    arena *a = arena_create();
    costing_open(&c, "h200", "tiny",
                 "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold "
                 "optimizer.offload_optimizer_states=true");
    program_build(&p, &c.s, 0, a);
    hardware narrow = *c.c.hw;
    narrow.host_both = narrow.host_bandwidth;
    update_copies wide = cost_update_copies(&c.c, &p);
    double step = cost_of_optimizer(&c.c, &p);
    c.c.hw = &narrow;
    update_copies half = cost_update_copies(&c.c, &p);
    assert_true(wide.bytes == 24.0 * (double)p.weights.owned);
    assert_true(half.bytes == wide.bytes);
    assert_true(fabs(wide.seconds - wide.bytes / narrow.host_bandwidth) < 1e-9);
    assert_true(fabs(half.seconds - 2 * wide.seconds) < 1e-9);
    assert_true(half.exposed > 1.9 * wide.exposed && wide.exposed < wide.seconds);
    assert_true(fabs(cost_of_optimizer(&c.c, &p) - step - (half.exposed - wide.exposed)) < 1e-9);
    costing_close(&c);
    arena_destroy(a);
}

#define EP2                                                                                        \
    "cluster.gpu=H200 cluster.n_gpus=2 model.expert_model_parallel_size=2 "                        \
    "moefold.moe_buffer_factor=1.0"

/* By less than the skew: an expert's GEMM with more rows reaches more. */
static void skew_makes_experts_slower(void **state)
{
    (void)state;
    costing even, skew;
    costing_open(&even, "h200", "tiny", EP2 " moefold.routing_skew=1");
    costing_open(&skew, "h200", "tiny", EP2 " moefold.routing_skew=1.5");
    double slower =
        grouped_rate(&even, OP_GROUPED, 1536, 2048) / grouped_rate(&skew, OP_GROUPED, 1536, 2048);
    assert_true(slower > 1.25 && slower < 1.5);
    costing_close(&even);
    costing_close(&skew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_price_that_grows),
        cmocka_unit_test(h200_has_the_rates_that_were_measured),
        cmocka_unit_test(heads_of_256_are_slow_on_blackwell),
        cmocka_unit_test(h200_has_the_narrow_rates_that_were_measured),
        cmocka_unit_test(the_router_and_attention_stay_wide),
        cmocka_unit_test(moved_state_takes_the_link),
        cmocka_unit_test(graphs_take_launches_off_the_host),
        cmocka_unit_test(an_offloaded_optimizer_costs_more),
        cmocka_unit_test(skew_makes_experts_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
