/* test_params.c - the parameter table: totals, cuts, and its places in real checkpoints. */
#include "config/models/models.h"
#include "testing.h"

#include "model/safetensors.h"

static const totals known[] = {
    {"deepseek-v3", "671.03", "37.55"},   {"qwen3-235b-a22b", "235.09", "22.19"},
    {"qwen3-30b-a3b", "30.53", "3.35"},   {"mixtral-8x7b", "46.70", "12.88"},
    {"kimi-k2", "1026.41", "32.86"},      {"moonlight-16b", "15.96", "2.91"},
    {"gpt-oss-20b", "20.91", "4.19"},     {"gpt-oss-120b", "116.83", "5.71"},
    {"mixtral-8x22b", "140.63", "39.16"}, {"qwen3-next-80b-a3b", "79.67", "3.87"},
};

static void totals_are_the_published_ones(void **state)
{
    (void)state;
    assert_totals(known, sizeof known / sizeof known[0]);
}

/* megatron-training.md 4.5 counts the router's 256 correction biases in the whole, not in the
 * active part. */
static void prediction_module_has_its_exact_size(void **state)
{
    (void)state;
    made with, without;
    made_good(&with, "deepseek-v3", "model.mtp_num_layers=1");
    made_good(&without, "deepseek-v3", NULL);
    param_totals a = param_count(&with.t), b = param_count(&without.t);
    assert_int_equal(a.buffers - b.buffers, 256);
    assert_int_equal(a.total + a.buffers - b.total - b.buffers, INT64_C(11610068224));
    assert_int_equal(a.active - b.active, INT64_C(688100352));
    made_release(&with);
    made_release(&without);
}

static void repeated_module_exists_once(void **state)
{
    (void)state;
    made once, twice, repeated;
    made_good(&once, "deepseek-v3", "model.mtp_num_layers=1");
    made_good(&twice, "deepseek-v3", "model.mtp_num_layers=2");
    made_good(&repeated, "deepseek-v3", "model.mtp_num_layers=2 model.mtp_use_repeated_layer=true");
    int64_t n = param_count(&once.t).total;
    assert_int_equal(param_count(&repeated.t).total, n);
    assert_true(param_count(&twice.t).total > n);
    assert_true(model_flops_per_token(&twice.m, 64) == model_flops_per_token(&repeated.m, 64));
    made_release(&once);
    made_release(&twice);
    made_release(&repeated);
}

static const param *find(const made *x, const char *name, block_kind block)
{
    for (int i = 0; i < x->t.n_rows; i++)
        if (x->t.rows[i].block->kind == block && strcmp(x->t.rows[i].name, name) == 0)
            return &x->t.rows[i];
    fail_msg("%s has no %s", x->m.name, name);
    return NULL;
}

static void cuts_follow_megatron(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        block_kind block;
        const char *name;
        int64_t local; /* with TP 2, ETP 2, EP 4 */
    } rows[] = {
        {"deepseek-v3", BLOCK_EMBEDDING, "embedding.word_embeddings.weight", 129280 / 2 * 7168},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_q_down_proj.weight", 1536 * 7168},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_q_up_proj.weight", 12288 * 1536},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_q_up_proj.layer_norm_weight", 1536},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_kv_down_proj.weight", 576 * 7168},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_kv_up_proj.weight", 16384 * 512},
        {"deepseek-v3", BLOCK_ATTENTION, "self_attention.linear_proj.weight", 7168 * 8192},
        {"deepseek-v3", BLOCK_MLP, "mlp.linear_fc1.weight", 18432 * 7168},
        {"deepseek-v3", BLOCK_MLP, "mlp.linear_fc2.weight", 7168 * 9216},
        {"deepseek-v3", BLOCK_MOE, "mlp.router.weight", 256 * 7168},
        {"deepseek-v3", BLOCK_MOE, "mlp.experts.linear_fc1.weight", 64 * 2048 * 7168},
        {"deepseek-v3", BLOCK_MOE, "mlp.experts.linear_fc2.weight", 64 * 7168 * 1024},
        {"deepseek-v3", BLOCK_MOE, "mlp.shared_experts.linear_fc1.weight", 2048 * 7168},
        {"deepseek-v3", BLOCK_HEAD, "output_layer.weight", 129280 / 2 * 7168},
        {"deepseek-v3", BLOCK_HEAD, "decoder.final_layernorm.weight", 7168},
        {"gpt-oss-20b", BLOCK_ATTENTION, "self_attention.core_attention.softmax_offset", 32},
        {"gpt-oss-20b", BLOCK_ATTENTION, "self_attention.linear_qkv.bias", 2560},
        {"gpt-oss-20b", BLOCK_ATTENTION, "self_attention.linear_proj.bias", 2880},
        {"gpt-oss-20b", BLOCK_MOE, "mlp.router.bias", 32},
        {"gpt-oss-20b", BLOCK_MOE, "mlp.experts.linear_fc1.bias", 8 * 2880},
        {"gpt-oss-20b", BLOCK_MOE, "mlp.experts.linear_fc2.bias", 8 * 2880},
        {"qwen3-next-80b-a3b", BLOCK_ATTENTION, "self_attention.linear_qkv.weight", 4608 * 2048},
        {"qwen3-next-80b-a3b", BLOCK_GDN, "self_attention.in_proj.weight", 6176 * 2048},
        {"qwen3-next-80b-a3b", BLOCK_GDN, "self_attention.conv1d.weight", 4096 * 4},
        {"qwen3-next-80b-a3b", BLOCK_GDN, "self_attention.A_log", 16},
        {"qwen3-next-80b-a3b", BLOCK_GDN, "self_attention.out_norm.weight", 128},
        {"qwen3-next-80b-a3b", BLOCK_MOE, "mlp.shared_experts.gate_weight", 2048},
        {"qwen3-30b-a3b", BLOCK_ATTENTION, "self_attention.q_layernorm.weight", 128},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        made_good(&x, rows[i].model, NULL);
        const param *p = find(&x, rows[i].name, rows[i].block);
        if (param_local(p, 2, 2, 4) != rows[i].local) fail_msg("%s", rows[i].name);
        made_release(&x);
    }
}

static void sections_add_up_to_their_axis(void **state)
{
    (void)state;
    int n_presets, n_cut = 0;
    const char *const *presets = model_presets(&n_presets);
    for (int i = 0; i < n_presets; i++) {
        made x;
        made_good(&x, presets[i], NULL);
        for (int k = 0; k < x.t.n_rows; k++) {
            const param *p = &x.t.rows[k];
            int64_t sum = 0;
            for (int j = 0; j < p->n_sections; j++) sum += p->section[j];
            if (p->n_sections) assert_int_equal(sum, p->dim[p->axis]);
            n_cut += p->n_sections > 0;
        }
        made_release(&x);
    }
    assert_true(n_cut > 20);
}

static void only_matrices_decay(void **state)
{
    (void)state;
    made x;
    made_good(&x, "gpt-oss-20b", "model.normalization=LayerNorm");
    assert_false(find(&x, "mlp.experts.linear_fc1.bias", BLOCK_MOE)->decay);
    assert_false(find(&x, "decoder.final_layernorm.bias", BLOCK_HEAD)->decay);
    assert_true(find(&x, "mlp.experts.linear_fc1.weight", BLOCK_MOE)->decay);
    assert_true(find(&x, "mlp.router.weight", BLOCK_MOE)->decay);
    made_release(&x);
    made_good(&x, "qwen3-next-80b-a3b", NULL);
    assert_true(find(&x, "self_attention.conv1d.weight", BLOCK_GDN)->decay);
    assert_false(find(&x, "self_attention.dt_bias", BLOCK_GDN)->decay);
    assert_int_equal(find(&x, "self_attention.out_norm.weight", BLOCK_GDN)->init, INIT_ZERO);
    assert_int_equal(find(&x, "self_attention.dt_bias", BLOCK_GDN)->init, INIT_ONE);
    made_release(&x);
    made_good(&x, "deepseek-v3", NULL);
    assert_false(find(&x, "mlp.router.expert_bias", BLOCK_MOE)->trained);
    made_release(&x);
}

static void options_of_megatron_add_their_weights(void **state)
{
    (void)state;
    static const struct {
        const char *overrides;
        int64_t more; /* than the tiny preset */
    } rows[] = {
        {"model.share_embeddings_and_output_weights=true", -1024 * 128},
        {"model.position_embedding_type=learned_absolute", 4096 * 128},
        {"model.qk_layernorm=false", -4 * 2 * 32},
        {"model.add_qkv_bias=true", 4 * 256},
        {"model.gated_linear_unit=false", -4 * 8 * 64 * 128},
        {"model.moe_shared_expert_intermediate_size=64", 4 * 3 * 64 * 128},
        {"model.moe_layer_freq=2", 2 * (3 * 384 * 128 - 8 * 3 * 64 * 128 - 8 * 128)},
        {"model.moe_latent_size=32", 4 * (2 * 32 * 128 - 8 * 3 * 64 * (128 - 32))},
        {"model.normalization=LayerNorm", 4 * (2 * 128 + 2 * 32) + 128},
    };
    made tiny;
    made_good(&tiny, "tiny", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        made_good(&x, "tiny", rows[i].overrides);
        int64_t more = param_count(&x.t).total - param_count(&tiny.t).total;
        if (more != rows[i].more)
            fail_msg("%s: %lld, not %lld", rows[i].overrides, (long long)more,
                     (long long)rows[i].more);
        made_release(&x);
    }
    made_release(&tiny);
}

/* ---- real checkpoints */

typedef struct visit {
    const made *x;
    const safetensors *f;
    int n_found;
} visit;

/* Elements of all tensors that the weight of layer i is made of; each must be in the file. */
static int64_t elements_in_file(visit *v, const param *p, int64_t i)
{
    int64_t n_experts = p->hf == HF_EXPERT_ROWS ? p->dim[0] : 1, sum = 0;
    for (int64_t e = 0; e < n_experts; e++)
        for (int part = 0; part < param_hf_parts(p); part++) {
            const char *name = param_hf_name(v->x->a, &v->x->m, p, i, part, e);
            const safetensor *t = safetensors_find(v->f, name);
            if (!t) fail_msg("%s: the file has no %s", p->name, name);
            sum += safetensor_elements(t);
            v->n_found++;
        }
    return sum;
}

static void visit_block(visit *v, block_kind b, int64_t i)
{
    for (int k = 0; k < v->x->t.n_rows; k++) {
        const param *p = &v->x->t.rows[k];
        if (p->block->kind != b) continue;
        assert_true(param_hf_parts(p) > 0);
        if (elements_in_file(v, p, i) != param_elements(p)) fail_msg("%s: other size", p->name);
    }
}

static void every_tensor_of_a_checkpoint_has_its_place(void **state)
{
    (void)state;
    for (int c = 0; c < N_GOLDEN; c++) {
        made x;
        safetensors f;
        char path[256];
        snprintf(path, sizeof path, GOLDEN "%s", golden_cases[c]);
        made_good(&x, path, NULL);
        snprintf(path, sizeof path, GOLDEN "%s/model.safetensors", golden_cases[c]);
        if (safetensors_open(&f, x.a, path, &x.err)) fail_msg("%s", x.err.text);
        visit v = {&x, &f, 0};
        visit_block(&v, BLOCK_EMBEDDING, 0);
        for (int64_t i = 0; i < x.m.n_layers + x.m.n_mtp; i++) {
            const layer_kind *l = model_layer(&x.m, i);
            for (int k = 0; k < l->n_blocks; k++) visit_block(&v, l->block[k]->kind, i);
        }
        visit_block(&v, BLOCK_HEAD, 0);
        assert_int_equal(v.n_found, f.n_tensors); /* names differ, so each was found once */
        int64_t in_file = 0;
        for (int i = 0; i < f.n_tensors; i++) in_file += safetensor_elements(&f.tensors[i]);
        param_totals n = param_count(&x.t);
        assert_int_equal(n.total + n.buffers, in_file);
        made_release(&x);
    }
}

static void qwen3_next_keeps_its_module_under_mtp(void **state)
{
    (void)state;
    made x;
    made_good(&x, GOLDEN "qwen3-next-tiny", "model.mtp_num_layers=1");
    const param *fc = find(&x, "eh_proj.weight", BLOCK_MTP);
    const param *norm = find(&x, "pre_mlp_layernorm.weight", BLOCK_MOE);
    assert_string_equal(param_hf_name(x.a, &x.m, fc, 4, 0, 0), "mtp.fc.weight");
    assert_string_equal(param_hf_name(x.a, &x.m, norm, 4, 0, 0),
                        "mtp.layers.0.post_attention_layernorm.weight");
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_the_published_ones),
        cmocka_unit_test(prediction_module_has_its_exact_size),
        cmocka_unit_test(repeated_module_exists_once),
        cmocka_unit_test(cuts_follow_megatron),
        cmocka_unit_test(sections_add_up_to_their_axis),
        cmocka_unit_test(only_matrices_decay),
        cmocka_unit_test(options_of_megatron_add_their_weights),
        cmocka_unit_test(every_tensor_of_a_checkpoint_has_its_place),
        cmocka_unit_test(qwen3_next_keeps_its_module_under_mtp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
