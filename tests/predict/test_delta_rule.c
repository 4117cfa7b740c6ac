/* The gated delta net where Megatron runs it: what flash-linear-attention's kernels were measured
 * to take, what more ranks do not shorten, and what the host does for it. */
#include "predict/costing.h"

#include <stdio.h>

#define ONE(gpu) "cluster.gpu=" gpu " cluster.n_gpus=1 model.num_layers=4"

typedef struct rule_case {
    op_kind kind;
    int64_t b, s, heads;
    double ms; /* published */
} rule_case;

static lone_op rule_of(op_kind kind, int64_t b, int64_t s, int64_t heads)
{
    lone_op x;
    lone_init(&x, kind, "linear.rule", (const int64_t[]){b, s, heads, heads, 128, 128, 64}, 7);
    x.o.module = MODULE_LINEAR;
    x.o.phase = kind == OP_GDN_RULE ? PHASE_FORWARD : PHASE_BACKWARD;
    x.o.in[0] = lone_buf(&x, "qkv", 2.0 * 3 * 128 * (double)(b * s * heads));
    x.o.out[0] = lone_buf(&x, "o", 2.0 * 128 * (double)(b * s * heads));
    return x;
}

static double ms_of(const costing *c, op_kind kind, int64_t b, int64_t s, int64_t heads)
{
    lone_op x = rule_of(kind, b, s, heads);
    return 1e3 * lone_cost(c, &x).seconds / c->c.device;
}

/* FlashQLA's tables (github.com/QwenLM/FlashQLA at c18a486) of fla 0.5.1 and 0.5.2. */
static void kernels_take_what_was_published(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *words;
        rule_case rows[12];
    } chips[] = {
        {"h200",
         ONE("H200"),
         {{OP_GDN_RULE, 1, 4096, 32, 0.263},
          {OP_GDN_RULE, 1, 32768, 32, 1.939},
          {OP_GDN_RULE, 1, 32768, 8, 0.902},
          {OP_GDN_RULE, 4, 8192, 32, 1.952},
          {OP_GDN_RULE, 8, 4096, 16, 0.945},
          {OP_GDN_RULE_D, 1, 8192, 32, 1.444},
          {OP_GDN_RULE_D, 1, 32768, 32, 5.697},
          {OP_GDN_RULE_D, 1, 32768, 8, 2.743},
          {OP_GDN_RULE_D, 1, 32768, 4, 2.311}}},
        {"gb200",
         ONE("GB200"),
         {{OP_GDN_RULE, 1, 4096, 32, 0.252},
          {OP_GDN_RULE, 1, 32768, 32, 1.848},
          {OP_GDN_RULE, 1, 32768, 8, 1.085},
          {OP_GDN_RULE, 4, 8192, 32, 1.568},
          {OP_GDN_RULE, 1, 32768, 64, 2.997},
          {OP_GDN_RULE_D, 1, 8192, 32, 1.552},
          {OP_GDN_RULE_D, 1, 32768, 32, 6.171},
          {OP_GDN_RULE_D, 1, 32768, 8, 3.191},
          {OP_GDN_RULE_D, 1, 32768, 4, 2.690}}},
    };
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        costing c;
        costing_open(&c, chips[i].gpu, "qwen3-next-80b-a3b", chips[i].words);
        for (const rule_case *r = chips[i].rows; r->ms > 0; r++) {
            char what[64];
            snprintf(what, sizeof what, "%s %s %d x %d, %d heads", chips[i].gpu,
                     op_infos[r->kind].name, (int)r->b, (int)r->s, (int)r->heads);
            near(what, ms_of(&c, r->kind, r->b, r->s, r->heads), r->ms,
                 r->kind == OP_GDN_RULE ? 0.14 : 0.05);
        }
        costing_close(&c);
    }
}

/* CP 16 leaves each rank two heads of the whole sequence: as many FLOPs as 32 heads of a sixteenth
 * of it, but sixteen times as many chunks one after another. */
static void context_parallel_does_not_shorten_the_way_through_a_sequence(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "gb200", "qwen3-next-80b-a3b", ONE("GB200"));
    double whole = ms_of(&c, OP_GDN_RULE_D, 1, 65536, 2),
           part = ms_of(&c, OP_GDN_RULE_D, 1, 4096, 32);
    assert_true(whole > 5 * part);
    near("1,024 chunks", whole - part, 1e3 * (1024 - 64) * c.hw.rule.chunk[1], 1e-6);
    near("four sequences beside one another", ms_of(&c, OP_GDN_RULE_D, 4, 4096, 2),
         ms_of(&c, OP_GDN_RULE_D, 1, 4096, 8), 1e-6);
    costing_close(&c);
}

/* Our own kernels: 0.386 ms (docs/GPU.md), whatever Megatron's take. */
static void our_own_program_keeps_the_rate_of_its_kernels(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "h200-measured", "qwen3-next-80b-a3b", ONE("H200"));
    near("our own", ms_of(&c, OP_GDN_RULE, 1, 4096, 32), 0.386, 0.1);
    costing_close(&c);
}

static double host_us(const costing *c, const lone_op *x)
{
    return 1e6 * lone_cost(c, x).host / c->c.host;
}

/* Autograd calls flash-linear-attention's backward in Python: nine kernels that Triton launches,
 * where fused attention has one call from C++. */
static void gradients_of_the_rule_are_launched_from_python(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "h100", "qwen3-next-80b-a3b", ONE("H100"));
    lone_op forward = rule_of(OP_GDN_RULE, 1, 4096, 32), back = rule_of(OP_GDN_RULE_D, 1, 4096, 32);
    lone_op core;
    lone_init(&core, OP_ATTN_D, "core", (const int64_t[]){1, 4096, 16, 2, 256, 256, 0}, 7);
    core.o.phase = PHASE_BACKWARD;
    core.o.in[0] = lone_buf(&core, "q", 33e6);
    assert_true(host_us(&c, &back) >= host_us(&c, &forward));
    assert_true(host_us(&c, &back) > 4 * host_us(&c, &core));
    costing_close(&c);
}

/* Copies before and behind the exchange of tokens for heads are many in one function of Megatron's;
 * elsewhere a copy stands for an operation. */
static void copies_of_heads_are_cheaper_than_operations(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "gb200", "qwen3-next-80b-a3b", ONE("GB200"));
    lone_op x;
    lone_init(&x, OP_MOVE, "heads", NULL, 0);
    double usual = host_us(&c, &x);
    x.o.module = MODULE_LINEAR;
    assert_true(host_us(&c, &x) < usual && host_us(&c, &x) > 0);
    costing_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_take_what_was_published),
        cmocka_unit_test(context_parallel_does_not_shorten_the_way_through_a_sequence),
        cmocka_unit_test(our_own_program_keeps_the_rate_of_its_kernels),
        cmocka_unit_test(gradients_of_the_rule_are_launched_from_python),
        cmocka_unit_test(copies_of_heads_are_cheaper_than_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
