/* test_decay.c - which weights decay, and at which rate they learn. */
#include "model/safetensors.h"
#include "train/optimizer_testing.h"

/* ---- groups */

static bool decays(const made *d, decay_rule rule, bool qk, const char *name)
{
    for (int i = 0; i < d->s.params.n_rows; i++)
        if (strcmp(d->s.params.rows[i].name, name) == 0)
            return optimizer_decays(&d->s.params.rows[i], rule, qk);
    fail_msg("no weight %s", name);
    return false;
}

static void decay_groups_are_megatrons(void **state)
{
    (void)state;
    static const struct {
        const char *model, *name;
        bool megatron, with_qk, in_file;
    } rows[] = {
        {GOLDEN "qwen3-moe-tiny", "embedding.word_embeddings.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "output_layer.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "mlp.router.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "mlp.experts.linear_fc1.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "pre_mlp_layernorm.weight", false, false, false},
        {GOLDEN "qwen3-moe-tiny", "self_attention.q_layernorm.weight", false, true, false},
        {GOLDEN "qwen3-moe-tiny", "self_attention.k_layernorm.weight", false, true, false},
        {GOLDEN "deepseek-v3-tiny", "mlp.router.expert_bias", false, false, false},
        {GOLDEN "deepseek-v3-tiny", "self_attention.linear_q_up_proj.layer_norm_weight", false,
         false, false},
        {GOLDEN "qwen3-next-tiny", "mlp.shared_experts.gate_weight", true, true, true},
        {GOLDEN "qwen3-next-tiny", "self_attention.conv1d.weight", true, true, true},
        {GOLDEN "qwen3-next-tiny", "self_attention.dt_bias", false, false, false},
        {GOLDEN "qwen3-next-tiny", "self_attention.A_log", false, false, false},
        {GOLDEN "gpt-oss-tiny", "self_attention.core_attention.softmax_offset", false, false,
         false},
        {GOLDEN "gpt-oss-tiny", "self_attention.linear_qkv.bias", false, false, false},
        {GOLDEN "gpt-oss-tiny", "mlp.router.bias", false, false, false},
        {GOLDEN "gpt-oss-tiny", "mlp.experts.linear_fc1.bias", false, false, true},
        {GOLDEN "gpt-oss-tiny", "mlp.experts.linear_fc2.bias", false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made d = make(rows[i].model, DECAY_MEGATRON);
        assert_int_equal(decays(&d, DECAY_MEGATRON, false, rows[i].name), rows[i].megatron);
        assert_int_equal(decays(&d, DECAY_MEGATRON, true, rows[i].name), rows[i].with_qk);
        assert_int_equal(decays(&d, DECAY_FILE, false, rows[i].name), rows[i].in_file);
        assert_int_equal(decays(&d, DECAY_FILE, true, rows[i].name), rows[i].in_file);
    }
}

/* The rule of the reference cases, read off the files themselves. */
static void file_rule_counts_the_files_dimensions(void **state)
{
    (void)state;
    static const char *const cases[] = {"qwen3-moe-tiny", "deepseek-v3-tiny", "qwen3-next-tiny",
                                        "mixtral-tiny",   "gpt-oss-tiny",     "mtp-tiny"};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        made d = make(arena_text(scratch, GOLDEN "%s", cases[c]), DECAY_FILE);
        safetensors file;
        error err = {""};
        const char *path = arena_text(scratch, "tests/data/golden/%s/model.safetensors", cases[c]);
        if (safetensors_open(&file, scratch, path, &err)) fail_msg("%s", err.text);
        for (int i = 0; i < d.list.n; i++) {
            const weight *w = &d.list.list[i];
            for (int part = 0; part < param_hf_parts(w->row); part++) {
                const char *name = param_hf_name(scratch, &d.s.m, w->row, w->layer, part, 0);
                const safetensor *t = safetensors_find(&file, name);
                if (!t) fail_msg("%s", name);
                assert_int_equal(optimizer_decays(w->row, DECAY_FILE, false),
                                 w->row->trained && t->n_dims >= 2);
            }
        }
    }
}

/* An expert's bias that a file keeps by itself is a vector there, a stacked one is not. */
static void stacked_biases_are_matrices(void **state)
{
    (void)state;
    param bias = {.name = "bias", .n_dims = 2, .kind = PARAM_EXPERT, .trained = true};
    bias.hf = HF_EXPERT_ROWS;
    assert_false(optimizer_decays(&bias, DECAY_FILE, false));
    bias.hf = HF_EXPERT_FUSED_T;
    assert_true(optimizer_decays(&bias, DECAY_FILE, false));
}

/* Without a gradient a weight that decays shrinks, and one that does not stays. */
static void only_what_decays_shrinks(void **state)
{
    (void)state;
    for (int rule = 0; rule < 2; rule++) {
        made d = make(GOLDEN "gpt-oss-tiny", (decay_rule)rule);
        memset(d.g, 0, sizeof *d.g * (size_t)d.n);
        const float *start = copied(d.w, d.n);
        optimizer_step(&d.o, ARRAYS(d), (step_rates){0.1, 0.1, 0.5, 1});
        for (int i = 0; i < d.list.n; i++) {
            const weight *w = &d.list.list[i];
            double factor = optimizer_decays(w->row, (decay_rule)rule, false) ? 0.95 : 1;
            for (int64_t j = w->offset; j < w->offset + w->n; j++)
                assert_true(fabs((double)d.w[j] - factor * (double)start[j]) < 1e-8);
        }
    }
}

static void learned_positions_have_the_common_rate(void **state)
{
    (void)state;
    made d = make(SMALL " model.position_embedding_type=learned_absolute", DECAY_MEGATRON);
    int table = 0, positions = 0;
    for (int64_t i = 0; i < d.o.table.n; i++) {
        const update_row *row = &d.o.table.rows[i];
        for (int j = 0; j < d.list.n; j++) {
            const weight *w = &d.list.list[j];
            if (row->offset != w->offset || !w->row->trained) continue;
            assert_int_equal(row->embedding, is_table_or_head(w->row));
            table += (int)row->embedding;
            positions += strstr(w->row->name, "position_embeddings") != NULL;
        }
    }
    assert_true(table > 0 && positions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decay_groups_are_megatrons),
        cmocka_unit_test(file_rule_counts_the_files_dimensions),
        cmocka_unit_test(stacked_biases_are_matrices),
        cmocka_unit_test(only_what_decays_shrinks),
        cmocka_unit_test(learned_positions_have_the_common_rate),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
