/* test_launch.c - how rows are chosen and launched: formats decide, workspace comes with the call
 * and has the size that the planner's formula gives. */
#include <stdlib.h>

#include "ir/testing.h"

#include "backend/kernels/kernels.h"
#include "ir/target.h"

#define M "model."

static const char *const layouts[] = {
    "cluster.n_gpus=1",
    M "tensor_model_parallel_size=2 " M "expert_model_parallel_size=2 " M
      "expert_tensor_parallel_size=1 cluster.n_gpus=4",
    M "context_parallel_size=2 " M "recompute_granularity=selective " M
      "recompute_modules=[core_attn,layernorm,moe_act] cluster.n_gpus=2",
    M "fine_grained_activation_offloading=true " M "offload_modules=[core_attn,moe_act] " M
      "min_offloaded_tensor_size=1 cluster.n_gpus=1",
};

static const char *const precisions[] = {
    "cluster.gpu=cpu mixed_precision=fp32",
    "cluster.gpu=cpu mixed_precision=bf16_mixed",
    "cluster.gpu=cpu mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
    "cluster.gpu=H100 mixed_precision=bf16_mixed moefold.target=moefold",
};

#define COUNT(list) (int)(sizeof list / sizeof list[0])

typedef struct seen {
    int64_t rows, with_workspace;
} seen;

static void check_op(const segment *seg, const op *o, seen *n)
{
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    op_types t = seg_op_types(seg, o);
    int64_t formula = workspace_bytes(target_row_cpu(), seg, o);
    for (int i = 0; i < n_rows; i++) {
        if (rows[i].kind != o->kind) continue;
        if (rows[i].accepts && !rows[i].accepts(o, &t)) continue;
        int64_t own = kernel_workspace_of(&rows[i], o, &t);
        if (rows[i].run ? own != formula : own > formula)
            fail_msg("%s (%s, row %s) wants %lld bytes, the formula gives %lld", o->name,
                     op_infos[o->kind].name, rows[i].name, (long long)own, (long long)formula);
        n->rows++;
        n->with_workspace += own > 0;
    }
}

static void every_row_wants_the_workspace_of_the_formula(void **state)
{
    (void)state;
    seen n = {0, 0};
    for (int i = 0; i < N_FAMILY_CASES * COUNT(layouts) * COUNT(precisions); i++) {
        const char *folder = family_cases[i % N_FAMILY_CASES];
        const char *words = layouts[i / N_FAMILY_CASES % COUNT(layouts)];
        const char *precision = precisions[i / N_FAMILY_CASES / COUNT(layouts)];
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        program *p = ARENA_NEW(a, program);
        program_of(p, s, a, folder, arena_text(a, "%s %s", words, precision));
        for (int k = 0; k < p->n_segments; k++)
            for (int phase = 0; phase < 2; phase++)
                for (int o = 0; o < p->segments[k]->n_ops[phase]; o++)
                    check_op(p->segments[k], &p->segments[k]->ops[phase][o], &n);
        arena_destroy(a);
    }
    print_message("%lld rows, %lld with a workspace\n", (long long)n.rows,
                  (long long)n.with_workspace);
    assert_true(n.rows > 5000 && n.with_workspace > 1000);
}

/* ---- choice */

static bool fp32_only(const op *o, const op_types *t)
{
    (void)o;
    return t->in[0] == DTYPE_F32;
}

static void formats_choose_the_row(void **state)
{
    (void)state;
    const kernel table[] = {{.kind = OP_ADD, .name = "any"},
                            {.kind = OP_ADD, .name = "fp32", .accepts = fp32_only}};
    op o = {.kind = OP_ADD};
    op_types narrow = {.in = {DTYPE_BF16}};
    assert_string_equal(kernel_pick(table, 2, &o, NULL, false)->name, "fp32");
    assert_string_equal(kernel_pick(table, 2, &o, &narrow, false)->name, "any");
}

/* ---- narrow operands */

enum { N = 40000, WRITTEN = 30000, NUMBERS = 0x7f80 };

/* Writes a part of its output only. */
static void halves(const op *o, void *const *in, void *const *out)
{
    const float *x = in[0];
    float *y = out[0];
    for (int64_t i = 0; i < o->dim[0]; i++) y[i] = x[i] / 3;
}

static void narrow_operands_are_widened_and_results_rounded_once(void **state)
{
    (void)state;
    int n;
    kernel k = *kernels_cpu(&n);
    op o = {.kind = OP_ADD, .name = "halves", .dim = {WRITTEN}};
    for (int i = 1; i < OP_IN_MAX; i++) o.in[i] = -1;
    for (int i = 1; i < OP_OUT_MAX; i++) o.out[i] = -1;
    o.out[0] = 1;
    op_types t = {.in = {DTYPE_BF16}, .out = {DTYPE_BF16}, .in_elements = {N}, .out_elements = {N}};
    uint16_t *x = malloc(sizeof *x * N), *y = malloc(sizeof *y * N);
    for (int i = 0; i < N; i++)
        x[i] = bf16_of_float((float)(i - 1000)), y[i] = (uint16_t)(i % NUMBERS);
    k.run = halves;
    void *kept = NULL, *in[OP_IN_MAX] = {x}, *out[OP_OUT_MAX] = {y};
    error err;
    assert_int_equal(k.prepare(&o, &t, &kept, &err), OK);
    void *workspace = aligned_alloc(64, (size_t)kernel_workspace_of(&k, &o, &t) / 64 * 64 + 64);
    k.launch(&(kernel_call){.row = &k,
                            .o = &o,
                            .types = &t,
                            .in = in,
                            .out = out,
                            .workspace = workspace,
                            .state = kept});
    for (int i = 0; i < WRITTEN; i++)
        assert_int_equal(y[i], bf16_of_float(bf16_to_float(x[i]) / 3));
    for (int i = WRITTEN; i < N; i++) assert_int_equal(y[i], i % NUMBERS);
    k.release(kept);
    free(workspace);
    free(x);
    free(y);
}

static void a_format_that_is_not_computed_is_refused_by_name(void **state)
{
    (void)state;
    int n;
    const kernel *k = kernels_cpu(&n);
    op o = {.kind = OP_GEMM, .name = "fc1"};
    for (int i = 0; i < OP_IN_MAX; i++) o.in[i] = i < 2 ? i : -1;
    for (int i = 0; i < OP_OUT_MAX; i++) o.out[i] = i < 1 ? 2 : -1;
    op_types t = {.in = {DTYPE_BF16, DTYPE_E4M3}, .in_elements = {8, 8}};
    void *kept = NULL;
    error err = {{0}};
    assert_int_equal(k->prepare(&o, &t, &kept, &err), ERR_MACHINE);
    assert_null(kept);
    assert_non_null(strstr(err.text, "operation fc1 (GEMM): CPUs do not support FP8 E4M3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_wants_the_workspace_of_the_formula),
        cmocka_unit_test(formats_choose_the_row),
        cmocka_unit_test(narrow_operands_are_widened_and_results_rounded_once),
        cmocka_unit_test(a_format_that_is_not_computed_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
