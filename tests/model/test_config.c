/* test_config.c - config.json of every family, in both spellings, as knobs. */
#include "config/models/models.h"
#include "testing.h"

#include <unistd.h>

#include "base/file.h"

static void parse_config(made *x, const char *text, const char *overrides)
{
    memset(x, 0, sizeof *x);
    x->a = arena_create();
    recipe_init(&x->r, x->a, "test");
    made_override(x, overrides);
    if (model_parse_config(&x->r, "config.json", text, strlen(text), &x->err))
        fail_msg("%s", x->err.text);
}

static const char *knob_text(made *x, knob_id k)
{
    return x->r.knob[k].from == FROM_NOTHING ? "open" : value_text(x->a, x->r.knob[k].v);
}

typedef struct expected {
    knob_id knob;
    const char *text;
} expected;

static void assert_knobs(made *x, const expected *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(knob_text(x, e[i].knob), e[i].text) != 0)
            fail_msg("%s is %s, not %s", knobs[e[i].knob].key, knob_text(x, e[i].knob), e[i].text);
}
#define ASSERT_KNOBS(x, rows) assert_knobs(x, rows, sizeof rows / sizeof rows[0])

/* The same knobs from both; what only one has is shown with its key. */
static void assert_same_model(made *x, made *y, const knob_id *except, size_t n_except)
{
    for (int k = 0; k < K_COUNT; k++) {
        bool skip = false;
        for (size_t i = 0; i < n_except; i++) skip = skip || except[i] == (knob_id)k;
        if (skip) continue;
        bool given = recipe_given(&x->r, (knob_id)k) || recipe_given(&y->r, (knob_id)k);
        if (given && !value_equal(x->r.knob[k].v, y->r.knob[k].v))
            fail_msg("%s: %s and %s", knobs[k].key, knob_text(x, (knob_id)k),
                     knob_text(y, (knob_id)k));
    }
}

/* ---- the reference cases */

static void golden_knobs(const char *name, const expected *e, size_t n)
{
    made x;
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    made_good(&x, path, NULL);
    assert_knobs(&x, e, n);
    made_release(&x);
}

static void reference_configs_give_their_knobs(void **state)
{
    (void)state;
    static const expected qwen[] = {{K_QK_NORM, "true"},        {K_PRE_SOFTMAX, "false"},
                                    {K_HEAD_DIM, "16"},         {K_EXPERTS, "8"},
                                    {K_WINDOW, "null"},         {K_MOE_FREQ, "1"},
                                    {K_ROPE_BASE, "1000000.0"}, {K_SCORE, "softmax"}};
    static const expected deepseek[] = {{K_MLA, "true"},         {K_MOE_FREQ, "[0,1,1,1]"},
                                        {K_Q_LORA, "24"},        {K_QK_DIM, "16"},
                                        {K_QK_ROPE_DIM, "8"},    {K_GROUPS, "4"},
                                        {K_GROUP_TOPK, "2"},     {K_GROUP_SCORE, "best_two"},
                                        {K_SCALING, "2.5"},      {K_SCORE, "sigmoid"},
                                        {K_EXPERT_BIAS, "true"}, {K_SHARED_FFN, "16"},
                                        {K_AUX_COEFF, "0.0"},    {K_MTP, "null"},
                                        {K_ROPE_TYPE, "rope"}};
    static const expected next[] = {{K_VARIANT, "gdn"},       {K_LINEAR_FREQ, "4"},
                                    {K_OUTPUT_GATE, "true"},  {K_NORM_ZERO_CENTERED, "true"},
                                    {K_ROPE_PERCENT, "0.25"}, {K_SHARED_GATE, "true"},
                                    {K_SHARED_FFN, "32"},     {K_GDN_V_HEADS, "4"}};
    static const expected mixtral[] = {{K_HEAD_DIM, "16"}, {K_MOE_FFN, "32"},
                                       {K_JITTER, "null"}, {K_QK_NORM, "false"},
                                       {K_WINDOW, "null"}, {K_PRE_SOFTMAX, "false"}};
    static const expected oss[] = {
        {K_SOFTMAX, "learnable"}, {K_WINDOW, "[31,0]"},         {K_WINDOW_SKIP, "2"},
        {K_LINEAR_BIAS, "true"},  {K_ACTIVATION, "quick_gelu"}, {K_GLU_CLAMP, "7.0"},
        {K_GLU_OFFSET, "1.0"},    {K_POSITION, "yarn"},         {K_ROPE_TYPE, "yarn"},
        {K_ROPE_FACTOR, "32.0"},  {K_ROPE_TRUNCATE, "false"},   {K_BALANCING, "'none'"},
        {K_ROPE_MSCALE, "1.0"},   {K_ROPE_MSCALE_ALL, "0.0"}};
    golden_knobs("qwen3-moe-tiny", qwen, sizeof qwen / sizeof qwen[0]);
    golden_knobs("deepseek-v3-tiny", deepseek, sizeof deepseek / sizeof deepseek[0]);
    golden_knobs("qwen3-next-tiny", next, sizeof next / sizeof next[0]);
    golden_knobs("mixtral-tiny", mixtral, sizeof mixtral / sizeof mixtral[0]);
    golden_knobs("gpt-oss-tiny", oss, sizeof oss / sizeof oss[0]);
}

/* ---- spellings: the reference files have the new one; the old one is made of them */

static void to_old_spelling(json_t *root)
{
    json_t *p = json_incref(json_object_get(root, "rope_parameters"));
    json_object_del(root, "rope_parameters");
    json_object_set(root, "rope_theta", json_object_get(p, "rope_theta"));
    json_t *part = json_object_get(p, "partial_rotary_factor");
    if (part) json_object_set(root, "partial_rotary_factor", part);
    if (strcmp(json_string_value(json_object_get(p, "rope_type")), "default") != 0) {
        json_t *scaling = json_copy(p);
        json_object_del(scaling, "rope_theta");
        json_object_set(scaling, "type", json_object_get(p, "rope_type"));
        json_object_del(scaling, "rope_type");
        json_object_set_new(root, "rope_scaling", scaling);
    }
    json_decref(p);
}

static void old_and_new_rope_spellings_are_one(void **state)
{
    (void)state;
    for (int c = 0; c < N_GOLDEN; c++) {
        char path[128];
        snprintf(path, sizeof path, GOLDEN "%s/config.json", golden_cases[c]);
        json_t *root = json_load_file(path, 0, NULL);
        char *new_text = json_dumps(root, 0);
        to_old_spelling(root);
        char *old_text = json_dumps(root, 0);
        made x, y;
        parse_config(&x, new_text, NULL);
        parse_config(&y, old_text, NULL);
        assert_same_model(&x, &y, NULL, 0);
        made_release(&x);
        made_release(&y);
        free(new_text);
        free(old_text);
        json_decref(root);
    }
}

#define YARN(more)                                                                                 \
    "{'rope_parameters':{'rope_theta':1e4,'rope_type':'yarn','factor':4.0,"                        \
    "'original_max_position_embeddings':64," more "}}"
#define FULL    "'full_attention'"
#define SLIDING "'sliding_attention'"
#define LINEAR  "'linear_attention'"
#define PAIR    SLIDING "," FULL
#define PAIRS   PAIR "," PAIR "," PAIR "," PAIR

/* ---- public files, shortened to what matters, against the presets */

static const struct {
    const char *preset, *config;
} public_files[] = {
    {"deepseek-v3",
     "{'architectures':['DeepseekV3ForCausalLM'],'attention_bias':false,'aux_loss_alpha':0.0001,"
     "'ep_size':1,'first_k_dense_replace':3,'hidden_act':'silu','hidden_size':7168,"
     "'initializer_range':0.02,'intermediate_size':18432,'kv_lora_rank':512,"
     "'max_position_embeddings':163840,'model_type':'deepseek_v3','moe_intermediate_size':2048,"
     "'moe_layer_freq':1,'n_group':8,'n_routed_experts':256,'n_shared_experts':1,"
     "'norm_topk_prob':true,'num_attention_heads':128,'num_experts_per_tok':8,"
     "'num_hidden_layers':61,'num_key_value_heads':128,'num_nextn_predict_layers':1,"
     "'q_lora_rank':1536,'qk_nope_head_dim':128,'qk_rope_head_dim':64,'rms_norm_eps':1e-06,"
     "'rope_scaling':{'beta_fast':32,'beta_slow':1,'factor':40,'mscale':1.0,'mscale_all_dim':1.0,"
     "'original_max_position_embeddings':4096,'type':'yarn'},'rope_theta':10000,"
     "'routed_scaling_factor':2.5,'scoring_func':'sigmoid','seq_aux':true,"
     "'tie_word_embeddings':false,'topk_group':4,'topk_method':'noaux_tc','v_head_dim':128,"
     "'vocab_size':129280}"},
    {"kimi-k2",
     "{'architectures':['DeepseekV3ForCausalLM'],'aux_loss_alpha':0.001,"
     "'first_k_dense_replace':1,'hidden_act':'silu','hidden_size':7168,'initializer_range':0.02,"
     "'intermediate_size':18432,'kv_lora_rank':512,'max_position_embeddings':131072,"
     "'model_type':'kimi_k2','moe_intermediate_size':2048,'moe_layer_freq':1,'n_group':1,"
     "'n_routed_experts':384,'n_shared_experts':1,'norm_topk_prob':true,'num_attention_heads':64,"
     "'num_experts_per_tok':8,'num_hidden_layers':61,'num_key_value_heads':64,"
     "'num_nextn_predict_layers':0,'q_lora_rank':1536,'qk_nope_head_dim':128,"
     "'qk_rope_head_dim':64,'rms_norm_eps':1e-06,'rope_scaling':{'beta_fast':1.0,'beta_slow':1.0,"
     "'factor':32.0,'mscale':1.0,'mscale_all_dim':1.0,'original_max_position_embeddings':4096,"
     "'type':'yarn'},'rope_theta':50000.0,'routed_scaling_factor':2.827,'scoring_func':'sigmoid',"
     "'seq_aux':true,'tie_word_embeddings':false,'topk_group':1,'topk_method':'noaux_tc',"
     "'v_head_dim':128,'vocab_size':163840}"},
    {"moonlight-16b",
     "{'architectures':['DeepseekV3ForCausalLM'],'aux_loss_alpha':0.001,"
     "'first_k_dense_replace':1,'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':11264,'kv_lora_rank':512,'max_position_embeddings':8192,"
     "'model_type':'deepseek_v3','moe_intermediate_size':1408,'moe_layer_freq':1,'n_group':1,"
     "'n_routed_experts':64,'n_shared_experts':2,'norm_topk_prob':true,'num_attention_heads':16,"
     "'num_experts_per_tok':6,'num_hidden_layers':27,'num_key_value_heads':16,'q_lora_rank':null,"
     "'qk_nope_head_dim':128,'qk_rope_head_dim':64,'rms_norm_eps':1e-05,'rope_scaling':null,"
     "'rope_theta':50000.0,'routed_scaling_factor':2.446,'scoring_func':'sigmoid','seq_aux':true,"
     "'topk_group':1,'topk_method':'noaux_tc','v_head_dim':128,'vocab_size':163840}"},
    {"qwen3-30b-a3b",
     "{'architectures':['Qwen3MoeForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'decoder_sparse_step':1,'head_dim':128,'hidden_act':'silu','hidden_size':2048,"
     "'initializer_range':0.02,'intermediate_size':6144,'max_position_embeddings':40960,"
     "'max_window_layers':48,'mlp_only_layers':[],'model_type':'qwen3_moe',"
     "'moe_intermediate_size':768,'norm_topk_prob':true,'num_attention_heads':32,"
     "'num_experts':128,'num_experts_per_tok':8,'num_hidden_layers':48,'num_key_value_heads':4,"
     "'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':1000000.0,"
     "'router_aux_loss_coef':0.001,'sliding_window':null,'tie_word_embeddings':false,"
     "'use_sliding_window':false,'vocab_size':151936}"},
    {"qwen3-next-80b-a3b",
     "{'architectures':['Qwen3NextForCausalLM'],'attention_bias':false,'decoder_sparse_step':1,"
     "'full_attention_interval':4,'head_dim':256,'hidden_act':'silu','hidden_size':2048,"
     "'initializer_range':0.02,'intermediate_size':5120,'linear_conv_kernel_dim':4,"
     "'linear_key_head_dim':128,'linear_num_key_heads':16,'linear_num_value_heads':32,"
     "'linear_value_head_dim':128,'max_position_embeddings':262144,'mlp_only_layers':[],"
     "'model_type':'qwen3_next','moe_intermediate_size':512,'norm_topk_prob':true,"
     "'num_attention_heads':16,'num_experts':512,'num_experts_per_tok':10,"
     "'num_hidden_layers':48,'num_key_value_heads':2,'partial_rotary_factor':0.25,"
     "'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':10000000,"
     "'router_aux_loss_coef':0.001,'shared_expert_intermediate_size':512,'vocab_size':151936}"},
    {"gpt-oss-20b",
     "{'architectures':['GptOssForCausalLM'],'attention_bias':true,'attention_dropout':0.0,"
     "'experts_per_token':4,'head_dim':64,'hidden_act':'silu','hidden_size':2880,"
     "'initial_context_length':4096,'initializer_range':0.02,'intermediate_size':2880,"
     "'layer_types':[" PAIRS "," PAIRS "," PAIRS "],'max_position_embeddings':131072,"
     "'model_type':'gpt_oss','num_attention_heads':64,'num_experts_per_tok':4,"
     "'num_hidden_layers':24,'num_key_value_heads':8,'num_local_experts':32,"
     "'rms_norm_eps':1e-05,'rope_scaling':{'beta_fast':32.0,'beta_slow':1.0,'factor':32.0,"
     "'original_max_position_embeddings':4096,'rope_type':'yarn','truncate':false},"
     "'rope_theta':150000,'router_aux_loss_coef':0.9,'sliding_window':128,'swiglu_limit':7.0,"
     "'tie_word_embeddings':false,'vocab_size':201088}"},
    {"mixtral-8x7b",
     "{'architectures':['MixtralForCausalLM'],'attention_dropout':0.0,'hidden_act':'silu',"
     "'hidden_size':4096,'initializer_range':0.02,'intermediate_size':14336,"
     "'max_position_embeddings':32768,'model_type':'mixtral','num_attention_heads':32,"
     "'num_experts_per_tok':2,'num_hidden_layers':32,'num_key_value_heads':8,"
     "'num_local_experts':8,'rms_norm_eps':1e-05,'rope_theta':1000000.0,"
     "'router_aux_loss_coef':0.02,'sliding_window':null,'tie_word_embeddings':false,"
     "'vocab_size':32000}"},
};

static void presets_are_the_public_files(void **state)
{
    (void)state;
    static const knob_id except[] = {K_MODEL, K_VOCAB_DIVISOR, K_HEAD_DIM};
    for (size_t i = 0; i < sizeof public_files / sizeof public_files[0]; i++) {
        made x, y;
        arena *a = arena_create();
        parse_config(&x, with_quotes(a, public_files[i].config), NULL);
        memset(&y, 0, sizeof y);
        y.a = arena_create();
        recipe_init(&y.r, y.a, "test");
        recipe_set(&y.r, K_MODEL, value_of_text(public_files[i].preset), "test");
        if (model_fill(&y.r, &y.err)) fail_msg("%s", y.err.text);
        recipe_fill_defaults(&x.r); /* a preset may state what a file leaves to the default */
        recipe_fill_defaults(&y.r);
        assert_same_model(&x, &y, except, 3);
        made_release(&x);
        made_release(&y);
        arena_destroy(a);
    }
}

/* ---- kinds of layers */

static void fields_give_patterns_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *name, *patch, *overrides;
        expected e;
    } rows[] = {
        {"qwen3-moe-tiny", "{'decoder_sparse_step':2}", NULL, {K_MOE_FREQ, "[0,1,0,1]"}},
        {"qwen3-moe-tiny", "{'mlp_only_layers':[0,3]}", NULL, {K_MOE_FREQ, "[0,1,1,0]"}},
        {"qwen3-moe-tiny", "{'norm_topk_prob':false}", NULL, {K_PRE_SOFTMAX, "true"}},
        {"qwen3-moe-tiny", "{'attention_bias':true}", NULL, {K_ATTN_BIAS, "true"}},
        {"deepseek-v3-tiny", "{'norm_topk_prob':false}", NULL, {K_ROUTER_NORM, "false"}},
        {"deepseek-v3-tiny", "{'rope_interleave':false}", NULL, {K_ROPE_HALVES, "true"}},
        {"qwen3-moe-tiny", "{'sliding_window':64}", NULL, {K_WINDOW, "open"}},
        {"qwen3-moe-tiny",
         "{'sliding_window':64,'use_sliding_window':true}",
         NULL,
         {K_WINDOW, "[63,0]"}},
        {"qwen3-moe-tiny", "{'head_dim':null}", NULL, {K_HEAD_DIM, "open"}},
        {"mixtral-tiny", "{'sliding_window':64}", NULL, {K_WINDOW, "[63,0]"}},
        {"mixtral-tiny", "{'sliding_window':64}", NULL, {K_WINDOW_SKIP, "open"}},
        {"mixtral-tiny", "{'router_jitter_noise':0.01}", NULL, {K_JITTER, "0.01"}},
        {"deepseek-v3-tiny", "{'first_k_dense_replace':0}", NULL, {K_MOE_FREQ, "1"}},
        {"deepseek-v3-tiny", "{'first_k_dense_replace':3}", NULL, {K_MOE_FREQ, "[0,0,0,1]"}},
        {"deepseek-v3-tiny", "{}", "model.num_layers=2", {K_MOE_FREQ, "[0,1]"}},
        {"deepseek-v3-tiny", "{'n_group':1,'topk_group':1}", NULL, {K_GROUPS, "open"}},
        {"deepseek-v3-tiny", "{'q_lora_rank':null}", NULL, {K_Q_LORA, "open"}},
        {"deepseek-v3-tiny", "{'n_shared_experts':2}", NULL, {K_SHARED_FFN, "32"}},
        {"deepseek-v3-tiny", "{'n_shared_experts':null}", NULL, {K_SHARED_FFN, "open"}},
        {"deepseek-v3-tiny",
         "{'seq_aux':false,'aux_loss_alpha':0.5}",
         NULL,
         {K_BALANCING, "aux_loss"}},
        {"gpt-oss-tiny",
         "{'layer_types':[" FULL "," SLIDING "," SLIDING "," FULL "]}",
         NULL,
         {K_WINDOW_SKIP, "[0,1,1,0]"}},
        {"gpt-oss-tiny",
         "{'layer_types':[" FULL "," SLIDING "," SLIDING "," FULL "]}",
         "model.num_layers=2",
         {K_WINDOW_SKIP, "[0,1]"}},
        {"gpt-oss-tiny",
         "{'layer_types':[" FULL "," FULL "," FULL "," FULL "]}",
         NULL,
         {K_WINDOW, "open"}},
        {"gpt-oss-tiny", "{'swiglu_limit':5.5}", NULL, {K_GLU_CLAMP, "5.5"}},
        {"gpt-oss-tiny", "{'attention_bias':false}", NULL, {K_MLP_BIAS_ALONE, "true"}},
        {"gpt-oss-tiny", "{}", NULL, {K_MLP_BIAS_ALONE, "open"}},
        {"mixtral-tiny", "{'hidden_act':'gelu_new'}", NULL, {K_ACTIVATION, "fast_gelu"}},
        {"deepseek-v3-tiny", "{'rms_norm_eps':1e-5}", NULL, {K_LATENT_EPS, "1e-06"}},
        {"deepseek-v3-tiny",
         YARN("'mscale_all_dim':0,'mscale':0.5"),
         NULL,
         {K_ROPE_MSCALE, "open"}},
        {"deepseek-v3-tiny", YARN("'mscale_all_dim':1,'mscale':0.5"), NULL, {K_ROPE_MSCALE, "0.5"}},
        {"qwen3-moe-tiny", YARN("'attention_factor':1.0"), NULL, {K_ROPE_MSCALE, "0.0"}},
        {"qwen3-next-tiny",
         "{'layer_types':[" LINEAR "," LINEAR "," LINEAR "," LINEAR "]}",
         NULL,
         {K_LINEAR_FREQ, "[1,1,1,1]"}},
        {"qwen3-next-tiny", "{}", "model.num_layers=8", {K_LINEAR_FREQ, "4"}},
        {"qwen3-next-tiny",
         "{'layer_types':'REMOVED','full_attention_interval':2}",
         NULL,
         {K_LINEAR_FREQ, "2"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        arena *a = arena_create();
        parse_config(&x, patched(a, rows[i].name, rows[i].patch), rows[i].overrides);
        if (strcmp(knob_text(&x, rows[i].e.knob), rows[i].e.text) != 0)
            fail_msg("%s: %s is %s", rows[i].patch, knobs[rows[i].e.knob].key,
                     knob_text(&x, rows[i].e.knob));
        made_release(&x);
        arena_destroy(a);
    }
}

/* ---- the prediction module */

static bool noted(const made *x, const char *part)
{
    for (int i = 0; i < x->r.n_notes; i++)
        if (strstr(x->r.notes[i], part)) return true;
    return false;
}

static void module_is_used_when_weights_have_it_or_the_user_asks(void **state)
{
    (void)state;
    made x;
    made_good(&x, GOLDEN "mtp-tiny", NULL);
    assert_int_equal(x.m.n_mtp, 1);
    assert_int_equal(x.r.knob[K_MTP].from, FROM_MODEL);
    assert_false(noted(&x, "num_nextn_predict_layers"));
    made_release(&x);

    made_good(&x, GOLDEN "mtp-tiny", "model.mtp_num_layers=null");
    assert_int_equal(x.m.n_mtp, 0);
    made_release(&x);

    made_good(&x, GOLDEN "deepseek-v3-tiny", NULL);
    assert_int_equal(x.m.n_mtp, 0);
    assert_true(noted(&x, "num_nextn_predict_layers"));
    assert_true(noted(&x, "model.mtp_num_layers=1"));
    made_release(&x);

    made_good(&x, GOLDEN "deepseek-v3-tiny", "model.mtp_num_layers=1");
    assert_int_equal(x.m.n_mtp, 1);
    assert_false(noted(&x, "num_nextn_predict_layers"));
    made_release(&x);
}

static void put_file(made *x, const char *folder, const char *name, const char *data, size_t n)
{
    FILE *f = fopen(arena_text(x->a, "%s/%s", folder, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* Index files name the tensors of a sharded checkpoint; damaged weights are noted, not fatal. */
static void module_is_found_in_an_index_and_missed_in_damaged_weights(void **state)
{
    (void)state;
    static const struct {
        const char *name, *data;
        int64_t n_mtp;
        const char *note;
    } rows[] = {
        {"model.safetensors.index.json",
         "{\"weight_map\":{\"model.layers.3.eh_proj.weight\":\"1\"}}", 1, NULL},
        {"model.safetensors.index.json", "{\"weight_map\":{\"mtp.layers.0.x\":\"1\"}}", 1, NULL},
        {"model.safetensors.index.json", "{\"weight_map\":{\"model.layers.2.x\":\"1\"}}", 0,
         "have none"},
        {"model.safetensors.index.json", "{\"weight_map\":", 0, "index.json:1"},
        {"model.safetensors", "not a weight file", 0, "not a safetensors file"},
        {"other", "", 0, "no weights"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char folder[] = "/tmp/moefold-test-XXXXXX";
        made x, y;
        char *config;
        size_t n;
        x.a = arena_create();
        assert_non_null(mkdtemp(folder));
        assert_int_equal(
            file_read(x.a, GOLDEN "mtp-tiny/config.json", 1 << 20, &config, &n, &x.err), OK);
        put_file(&x, folder, "config.json", config, n);
        put_file(&x, folder, rows[i].name, rows[i].data, strlen(rows[i].data));
        made_good(&y, folder, NULL);
        assert_int_equal(y.m.n_mtp, rows[i].n_mtp);
        if (rows[i].note) assert_true(noted(&y, rows[i].note));
        made_release(&y);
        remove(arena_text(x.a, "%s/config.json", folder));
        remove(arena_text(x.a, "%s/%s", folder, rows[i].name));
        rmdir(folder);
        arena_destroy(x.a);
    }
}

static void users_settings_stay(void **state)
{
    (void)state;
    made x;
    made_good(&x, GOLDEN "qwen3-moe-tiny", "model.hidden_size=96 model.moe_router_topk=4");
    assert_int_equal(x.m.hidden, 96);
    assert_int_equal(x.m.moe->topk, 4);
    assert_int_equal(x.r.knob[K_HIDDEN].from, FROM_USER);
    assert_has(x.r.knob[K_LAYERS].why, "num_hidden_layers");
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_configs_give_their_knobs),
        cmocka_unit_test(old_and_new_rope_spellings_are_one),
        cmocka_unit_test(presets_are_the_public_files),
        cmocka_unit_test(fields_give_patterns_of_layers),
        cmocka_unit_test(module_is_used_when_weights_have_it_or_the_user_asks),
        cmocka_unit_test(module_is_found_in_an_index_and_missed_in_damaged_weights),
        cmocka_unit_test(users_settings_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
