/* test_families.c - further families: public files against presets, totals, what is refused. */
#include "config/models/models.h"
#include "testing.h"

static const totals known[] = {
    {"deepseek-v2", "235.74", "21.38"},     {"deepseek-v2-lite", "15.71", "2.66"},
    {"glm-4.5", "352.80", "33.63"},         {"glm-4.5-air", "106.85", "13.42"},
    {"glm-4.6", "352.80", "33.63"},         {"qwen2-57b-a14b", "57.41", "14.25"},
    {"qwen1.5-moe-a2.7b", "14.32", "2.69"}, {"olmoe-1b-7b", "6.92", "1.28"},
    {"minimax-m2", "228.69", "11.03"},      {"qwen3-0.6b", "0.60", "0.60"},
    {"qwen3-1.7b", "1.72", "1.72"},         {"qwen3-4b", "4.02", "4.02"},
    {"qwen3-8b", "8.19", "8.19"},           {"qwen3-14b", "14.77", "14.77"},
    {"qwen3-32b", "32.76", "32.76"},        {"llama-2-7b", "6.74", "6.74"},
    {"llama-2-70b", "68.98", "68.98"},      {"llama-3-8b", "8.03", "8.03"},
    {"qwen2.5-7b", "7.62", "7.62"},         {"qwen2.5-32b", "32.76", "32.76"},
    {"qwen2.5-72b", "72.71", "72.71"},      {"mistral-7b", "7.25", "7.25"},
    {"starcoder2-7b", "7.17", "7.17"},      {"starcoder2-15b", "15.96", "15.96"},
    {"gpt3-175b", "174.62", "174.62"},      {"llama-3.1-70b", "70.55", "70.55"},
    {"llama-3.1-405b", "405.85", "405.85"},
};

/* GLM-4.5, GLM-4.5-Air and OLMoE as published; the others as counted here, which agrees with the
 * models' names. GLM-4.5 and MiniMax-M2 are without the prediction modules of their files. */
static void totals_of_presets(void **state)
{
    (void)state;
    assert_totals(known, sizeof known / sizeof known[0]);
}

/* ---- public files, shortened to what matters, against the presets */

static const struct {
    const char *preset, *config;
} public_files[] = {
    {"deepseek-v2",
     "{'architectures':['DeepseekV2ForCausalLM'],'attention_bias':false,"
     "'attention_dropout':0.0,'aux_loss_alpha':0.001,'first_k_dense_replace':1,"
     "'hidden_act':'silu','hidden_size':5120,'initializer_range':0.02,"
     "'intermediate_size':12288,'kv_lora_rank':512,'max_position_embeddings':163840,"
     "'model_type':'deepseek_v2','moe_intermediate_size':1536,'moe_layer_freq':1,'n_group':8,"
     "'n_routed_experts':160,'n_shared_experts':2,'norm_topk_prob':false,"
     "'num_attention_heads':128,'num_experts_per_tok':6,'num_hidden_layers':60,"
     "'num_key_value_heads':128,'q_lora_rank':1536,'qk_nope_head_dim':128,"
     "'qk_rope_head_dim':64,'rms_norm_eps':1e-06,'rope_scaling':{'beta_fast':32,'beta_slow':1,"
     "'factor':40,'mscale':0.707,'mscale_all_dim':0.707,"
     "'original_max_position_embeddings':4096,'type':'yarn'},'rope_theta':10000,"
     "'routed_scaling_factor':16.0,'scoring_func':'softmax','seq_aux':true,"
     "'tie_word_embeddings':false,'topk_group':3,'topk_method':'group_limited_greedy',"
     "'v_head_dim':128,'vocab_size':102400}"},
    {"deepseek-v2-lite",
     "{'architectures':['DeepseekV2ForCausalLM'],'attention_bias':false,"
     "'attention_dropout':0.0,'aux_loss_alpha':0.001,'first_k_dense_replace':1,"
     "'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':10944,'kv_lora_rank':512,'max_position_embeddings':163840,"
     "'model_type':'deepseek_v2','moe_intermediate_size':1408,'moe_layer_freq':1,'n_group':1,"
     "'n_routed_experts':64,'n_shared_experts':2,'norm_topk_prob':false,"
     "'num_attention_heads':16,'num_experts_per_tok':6,'num_hidden_layers':27,"
     "'num_key_value_heads':16,'q_lora_rank':null,'qk_nope_head_dim':128,"
     "'qk_rope_head_dim':64,'rms_norm_eps':1e-06,'rope_scaling':{'beta_fast':32,'beta_slow':1,"
     "'factor':40,'mscale':0.707,'mscale_all_dim':0.707,"
     "'original_max_position_embeddings':4096,'type':'yarn'},'rope_theta':10000,"
     "'routed_scaling_factor':1.0,'scoring_func':'softmax','seq_aux':true,"
     "'tie_word_embeddings':false,'topk_group':1,'topk_method':'greedy','v_head_dim':128,"
     "'vocab_size':102400}"},
    {"glm-4.5",
     "{'architectures':['Glm4MoeForCausalLM'],'attention_bias':true,'attention_dropout':0.0,"
     "'first_k_dense_replace':3,'head_dim':128,'hidden_act':'silu','hidden_size':5120,"
     "'initializer_range':0.02,'intermediate_size':12288,'max_position_embeddings':131072,"
     "'model_type':'glm4_moe','moe_intermediate_size':1536,'n_group':1,'n_routed_experts':160,"
     "'n_shared_experts':1,'norm_topk_prob':true,'num_attention_heads':96,"
     "'num_experts_per_tok':8,'num_hidden_layers':92,'num_key_value_heads':8,"
     "'num_nextn_predict_layers':1,'partial_rotary_factor':0.5,'rms_norm_eps':1e-05,"
     "'rope_scaling':null,'rope_theta':1000000,'routed_scaling_factor':2.5,"
     "'tie_word_embeddings':false,'topk_group':1,'use_qk_norm':true,'vocab_size':151552}"},
    {"glm-4.5-air",
     "{'architectures':['Glm4MoeForCausalLM'],'attention_bias':true,'attention_dropout':0.0,"
     "'first_k_dense_replace':1,'head_dim':128,'hidden_act':'silu','hidden_size':4096,"
     "'initializer_range':0.02,'intermediate_size':10944,'max_position_embeddings':131072,"
     "'model_type':'glm4_moe','moe_intermediate_size':1408,'n_group':1,'n_routed_experts':128,"
     "'n_shared_experts':1,'norm_topk_prob':true,'num_attention_heads':96,"
     "'num_experts_per_tok':8,'num_hidden_layers':46,'num_key_value_heads':8,"
     "'num_nextn_predict_layers':1,'partial_rotary_factor':0.5,'rms_norm_eps':1e-05,"
     "'rope_scaling':null,'rope_theta':1000000,'routed_scaling_factor':1.0,"
     "'tie_word_embeddings':false,'topk_group':1,'use_qk_norm':false,'vocab_size':151552}"},
    {"qwen2-57b-a14b",
     "{'architectures':['Qwen2MoeForCausalLM'],'attention_dropout':0.0,"
     "'decoder_sparse_step':1,'hidden_act':'silu','hidden_size':3584,'initializer_range':0.02,"
     "'intermediate_size':18944,'max_position_embeddings':131072,'max_window_layers':28,"
     "'model_type':'qwen2_moe','moe_intermediate_size':2560,'norm_topk_prob':false,"
     "'num_attention_heads':28,'num_experts':64,'num_experts_per_tok':8,"
     "'num_hidden_layers':28,'num_key_value_heads':4,'rms_norm_eps':1e-06,"
     "'rope_theta':1000000.0,'router_aux_loss_coef':0.001,"
     "'shared_expert_intermediate_size':20480,'sliding_window':65536,"
     "'tie_word_embeddings':false,'use_sliding_window':false,'vocab_size':151936}"},
    {"qwen1.5-moe-a2.7b",
     "{'architectures':['Qwen2MoeForCausalLM'],'attention_dropout':0.0,"
     "'decoder_sparse_step':1,'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':5632,'max_position_embeddings':8192,'max_window_layers':21,"
     "'model_type':'qwen2_moe','moe_intermediate_size':1408,'norm_topk_prob':false,"
     "'num_attention_heads':16,'num_experts':60,'num_experts_per_tok':4,"
     "'num_hidden_layers':24,'num_key_value_heads':16,'rms_norm_eps':1e-06,"
     "'rope_theta':1000000.0,'router_aux_loss_coef':0.001,"
     "'shared_expert_intermediate_size':5632,'sliding_window':65536,"
     "'tie_word_embeddings':false,'use_sliding_window':false,'vocab_size':151936}"},
    {"olmoe-1b-7b",
     "{'architectures':['OlmoeForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'clip_qkv':null,'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':1024,'max_position_embeddings':4096,'model_type':'olmoe',"
     "'norm_topk_prob':false,'num_attention_heads':16,'num_experts':64,"
     "'num_experts_per_tok':8,'num_hidden_layers':16,'num_key_value_heads':16,"
     "'rms_norm_eps':1e-05,'rope_scaling':null,'rope_theta':10000.0,"
     "'router_aux_loss_coef':0.01,'tie_word_embeddings':false,'vocab_size':50304}"},
    {"minimax-m2",
     "{'architectures':['MiniMaxM2ForCausalLM'],'attention_dropout':0.0,'attn_type_list':[1,"
     "1],'head_dim':128,'hidden_act':'silu','hidden_size':3072,'initializer_range':0.02,"
     "'intermediate_size':1536,'max_position_embeddings':196608,'model_type':'minimax',"
     "'mtp_transformer_layers':1,'num_attention_heads':48,'num_experts_per_tok':8,"
     "'num_hidden_layers':62,'num_key_value_heads':8,'num_local_experts':256,"
     "'num_mtp_modules':3,'qk_norm_type':'per_layer','rms_norm_eps':1e-06,"
     "'rope_theta':5000000,'rotary_dim':64,'router_aux_loss_coef':0.001,"
     "'router_jitter_noise':0.0,'scoring_func':'sigmoid','shared_intermediate_size':0,"
     "'sliding_window':null,'tie_word_embeddings':false,'use_mtp':true,'use_qk_norm':true,"
     "'use_routing_bias':true,'vocab_size':200064}"},
    {"qwen3-8b",
     "{'architectures':['Qwen3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'head_dim':128,'hidden_act':'silu','hidden_size':4096,'initializer_range':0.02,"
     "'intermediate_size':12288,'max_position_embeddings':40960,'max_window_layers':36,"
     "'model_type':'qwen3','num_attention_heads':32,'num_hidden_layers':36,"
     "'num_key_value_heads':8,'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':1000000,"
     "'sliding_window':null,'tie_word_embeddings':false,'use_sliding_window':false,"
     "'vocab_size':151936}"},
    {"qwen3-0.6b",
     "{'architectures':['Qwen3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'head_dim':128,'hidden_act':'silu','hidden_size':1024,'initializer_range':0.02,"
     "'intermediate_size':3072,'max_position_embeddings':40960,'max_window_layers':36,"
     "'model_type':'qwen3','num_attention_heads':16,'num_hidden_layers':28,"
     "'num_key_value_heads':8,'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':1000000,"
     "'sliding_window':null,'tie_word_embeddings':true,'use_sliding_window':false,"
     "'vocab_size':151936}"},
    {"qwen3-32b",
     "{'architectures':['Qwen3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'head_dim':128,'hidden_act':'silu','hidden_size':5120,'initializer_range':0.02,"
     "'intermediate_size':25600,'max_position_embeddings':40960,'max_window_layers':36,"
     "'model_type':'qwen3','num_attention_heads':64,'num_hidden_layers':64,"
     "'num_key_value_heads':8,'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':1000000,"
     "'sliding_window':null,'tie_word_embeddings':false,'use_sliding_window':false,"
     "'vocab_size':151936}"},
    {"llama-3-8b",
     "{'architectures':['LlamaForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'hidden_act':'silu','hidden_size':4096,'initializer_range':0.02,"
     "'intermediate_size':14336,'max_position_embeddings':8192,'mlp_bias':false,"
     "'model_type':'llama','num_attention_heads':32,'num_hidden_layers':32,"
     "'num_key_value_heads':8,'pretraining_tp':1,'rms_norm_eps':1e-05,'rope_scaling':null,"
     "'rope_theta':500000.0,'tie_word_embeddings':false,'vocab_size':128256}"},
    {"llama-3.1-405b",
     "{'architectures':['LlamaForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'hidden_act':'silu','hidden_size':16384,'initializer_range':0.02,"
     "'intermediate_size':53248,'max_position_embeddings':131072,'mlp_bias':false,"
     "'model_type':'llama','num_attention_heads':128,'num_hidden_layers':126,"
     "'num_key_value_heads':8,'pretraining_tp':1,'rms_norm_eps':1e-05,"
     "'rope_scaling':{'factor':8.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
     "'original_max_position_embeddings':8192,'rope_type':'llama3'},'rope_theta':500000.0,"
     "'tie_word_embeddings':false,'vocab_size':128256}"},
};

static void parse(made *x, const char *text)
{
    memset(x, 0, sizeof *x);
    x->a = arena_create();
    recipe_init(&x->r, x->a, "test");
    const char *config = with_quotes(x->a, text);
    if (model_parse_config(&x->r, "config.json", config, strlen(config), &x->err))
        fail_msg("%s", x->err.text);
    job j;
    model_resolve(&x->r, &j);
}

static void presets_are_the_public_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof public_files / sizeof public_files[0]; i++) {
        made x, y;
        parse(&x, public_files[i].config);
        made_good(&y, public_files[i].preset, NULL);
        for (int k = 0; k < K_COUNT; k++) {
            bool given = recipe_given(&x.r, (knob_id)k) || recipe_given(&y.r, (knob_id)k);
            if (!given || k == K_MODEL || value_equal(x.r.knob[k].v, y.r.knob[k].v)) continue;
            fail_msg("%s: %s is %s in the file, %s in the preset", public_files[i].preset,
                     knobs[k].key, value_text(x.a, x.r.knob[k].v), value_text(y.a, y.r.knob[k].v));
        }
        made_release(&x);
        made_release(&y);
    }
}

/* ---- fields of these families */

typedef struct patched_knob {
    const char *name, *patch;
    knob_id knob;
    const char *text;
} patched_knob;

#define ROPE_OF(type) "'rope_parameters':{'rope_theta':1e4,'rope_type':'" type "','factor':4.0}"
#define OLD_LINEAR    "'rope_scaling':{'type':'linear','factor':4.0}"
#define LLAMA3_OF(low, high, trained)                                                              \
    "{'rope_parameters':{'rope_theta':1e4,'rope_type':'llama3','factor':8.0,'low_freq_factor'"     \
    ":" low ",'high_freq_factor':" high ",'original_max_position_embeddings':" trained "}}"

static const patched_knob patches[] = {
    {"deepseek-v2-tiny", "{}", K_PRE_SOFTMAX, "true"},
    {"deepseek-v2-tiny", "{}", K_SCORE, "softmax"},
    {"deepseek-v2-tiny", "{}", K_GROUP_SCORE, "best"},
    {"deepseek-v2-tiny", "{}", K_GROUP_TOPK, "2"},
    {"deepseek-v2-tiny", "{'topk_method':'greedy'}", K_GROUPS, "null"},
    {"deepseek-v2-tiny", "{'topk_method':'greedy','n_group':0}", K_GROUPS, "null"},
    {"deepseek-v2-tiny", "{}", K_EXPERT_BIAS, "false"},
    {"deepseek-v2-lite-tiny", "{}", K_Q_LORA, "null"},
    {"glm4-moe-tiny", "{}", K_QKV_BIAS, "true"},
    {"glm4-moe-tiny", "{}", K_ATTN_BIAS, "false"},
    {"glm4-moe-tiny", "{}", K_QK_NORM_WHOLE, "false"},
    {"glm4-moe-tiny", "{'use_qk_norm':false}", K_QK_NORM, "false"},
    {"glm4-moe-tiny", "{'n_group':4,'topk_group':2}", K_GROUP_SCORE, "best_two"},
    {"glm4-moe-tiny", "{'norm_topk_prob':false}", K_ROUTER_NORM, "false"},
    {"glm4-moe-tiny", "{}", K_MOE_FREQ, "[0,1]"},
    {"qwen2-moe-tiny", "{}", K_SHARED_GATE, "true"},
    {"qwen2-moe-tiny", "{'qkv_bias':false}", K_QKV_BIAS, "false"},
    {"qwen2-moe-tiny", "{'norm_topk_prob':true}", K_PRE_SOFTMAX, "false"},
    {"qwen2-moe-tiny", "{'mlp_only_layers':[1]}", K_MOE_FREQ, "[1,0]"},
    {"olmoe-tiny", "{}", K_QK_NORM_WHOLE, "true"},
    {"olmoe-tiny", "{'attention_bias':true}", K_ATTN_BIAS, "true"},
    {"minimax-m2-tiny", "{'rotary_dim':2,'rope_parameters':{'rope_theta':1e4}}", K_ROPE_PERCENT,
     "0.25"},
    {"minimax-m2-tiny", "{}", K_SCORE, "sigmoid"},
    {"llama-tiny", "{}", K_LLAMA3_ROPE, "true"},
    {"llama-tiny", "{}", K_EXPERTS, "null"},
    {"llama-tiny", "{'num_key_value_heads':'REMOVED'}", K_KV_HEADS, "4"},
    {"llama-tiny", "{'mlp_bias':true}", K_LINEAR_BIAS, "true"},
    {"llama-tiny", "{'mlp_bias':true}", K_MLP_BIAS_ALONE, "true"},
    {"llama-tiny", "{'mlp_bias':true,'attention_bias':true}", K_MLP_BIAS_ALONE, "false"},
    {"llama-tiny", "{'hidden_act':'relu2'}", K_ACTIVATION, "squared_relu"},
    {"llama-tiny", LLAMA3_OF("2.0", "8.0", "64"), K_LLAMA3_LOW, "2.0"},
    {"llama-tiny", LLAMA3_OF("2.0", "8.0", "64"), K_LLAMA3_HIGH, "8.0"},
    {"llama-tiny", LLAMA3_OF("2.0", "8.0", "64"), K_ROPE_TRAINED, "64"},
    {"llama-tiny", "{" ROPE_OF("linear") "}", K_ROPE_LINEAR, "4.0"},
    {"llama-tiny", "{'rope_parameters':'REMOVED','rope_theta':1e4," OLD_LINEAR "}", K_ROPE_LINEAR,
     "4.0"},
    {"llama-tiny", "{" ROPE_OF("dynamic") ",'max_position_embeddings':64}", K_ROPE_DYNAMIC, "4.0"},
    {"llama-tiny", "{" ROPE_OF("dynamic") ",'max_position_embeddings':64}", K_ROPE_TRAINED, "64"},
    {"llama-tiny", "{'rope_parameters':{'rope_theta':1e4,'partial_rotary_factor':0.5}}",
     K_ROPE_PERCENT, "1.0"}, /* transformers has no use for it in this family */
    {"qwen2-tiny",
     "{'use_sliding_window':true,'sliding_window':8,'max_window_layers':1,"
     "'layer_types':'REMOVED'}",
     K_WINDOW_SKIP, "[0,1]"},
    {"deepseek-v2-tiny", "{'rms_norm_eps':1e-5}", K_LATENT_EPS, "1e-06"},
    {"deepseek-v2-tiny", "{}", K_LATENT_EPS, "null"},
    {"mistral-tiny", "{}", K_WINDOW, "[7,0]"},
    {"mistral-tiny", "{'sliding_window':null}", K_WINDOW, "null"},
    {"starcoder2-tiny", "{}", K_NORM, "LayerNorm"},
    {"starcoder2-tiny", "{}", K_GLU, "false"},
    {"starcoder2-tiny", "{}", K_ACTIVATION, "fast_gelu"},
    {"starcoder2-tiny", "{'hidden_act':'gelu'}", K_ACTIVATION, "gelu"},
    {"starcoder2-tiny", "{'use_bias':false}", K_LINEAR_BIAS, "false"},
    {"starcoder2-tiny", "{}", K_WINDOW, "[7,0]"},
    {"qwen3-tiny", "{}", K_TIED, "true"},
    {"qwen3-tiny",
     "{'use_sliding_window':true,'sliding_window':8,"
     "'layer_types':['full_attention','sliding_attention']}",
     K_WINDOW_SKIP, "[0,1]"},
};

static void fields_give_their_knobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        const patched_knob *p = &patches[i];
        arena *a = arena_create();
        made x;
        parse(&x, patched(a, p->name, p->patch));
        const char *text = value_text(x.a, x.r.knob[p->knob].v);
        if (strcmp(text, p->text) != 0)
            fail_msg("%s %s: %s is %s, not %s", p->name, p->patch, knobs[p->knob].key, text,
                     p->text);
        made_release(&x);
        arena_destroy(a);
    }
}

/* Which block is missing is said. */
static void what_is_not_built_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *patch, *field, *says;
    } rows[] = {
        {"olmoe-tiny", "{'clip_qkv':8.0}", "clip_qkv is 8.0", "clipping"},
        {"deepseek-v2-tiny", "{'mlp_bias':true}", "mlp_bias is true", "shared experts"},
        {"llama-tiny", "{'mlp_bias':1}", "mlp_bias is 1", "true or false"},
        {"minimax-m2-tiny", "{'num_experts_per_tok':1}", "num_experts_per_tok is 1", "2 or more"},
        {"glm4-moe-tiny", "{'num_experts_per_tok':1}", "num_experts_per_tok is 1",
         "norm_topk_prob to false"},
        {"qwen2-tiny",
         "{'use_sliding_window':true,'sliding_window':8,'max_window_layers':-1,"
         "'layer_types':'REMOVED'}",
         "max_window_layers is -1", "from 0"},
        {"llama-tiny", "{'rope_parameters':{'rope_theta':1e4,'rope_type':'longrope'}}",
         "rope_type is \"longrope\"", "llama3"},
        {"llama-tiny",
         "{'rope_parameters':{'rope_theta':1e4,'rope_type':'llama3','factor':8.0,"
         "'low_freq_factor':2.0,'original_max_position_embeddings':8192}}",
         "high_freq_factor is missing", "rope_type"},
        {"llama-tiny", LLAMA3_OF("4.0", "4.0", "64"), "high_freq_factor is 4", "larger"},
        {"llama-tiny", "{'rope_parameters':{'rope_theta':1e4,'rope_type':'linear'}}",
         "factor is missing", "rope_type"},
        {"deepseek-v2-tiny", "{'topk_method':'noaux_tc'}", "topk_method is \"noaux_tc\"",
         "group_limited_greedy"},
        {"deepseek-v2-tiny", "{'topk_method':'REMOVED'}", "topk_method is missing", "greedy"},
        {"deepseek-v2-tiny", "{'norm_topk_prob':true}", "norm_topk_prob is true", "false"},
        {"deepseek-v2-tiny", "{'topk_group':5}", "n_group is 4", "topk_group is 5"},
        {"minimax-m2-tiny", "{'attn_type_list':[0,1]}", "attn_type_list", "lightning"},
        {"minimax-m2-tiny", "{'model_type':'minimax','architectures':['MiniMaxForCausalLM']}",
         "model_type", "lightning"},
        {"starcoder2-tiny", "{'hidden_act':'relu'}", "hidden_act is \"relu\"", "gelu"},
        {"starcoder2-tiny", "{'mlp_type':'gated'}", "mlp_type is \"gated\"", "default"},
        {"minimax-m2-tiny", "{'use_routing_bias':false}", "use_routing_bias is false", "true"},
        {"glm4-moe-tiny", "{'first_k_dense_replace':'REMOVED'}", "first_k_dense_replace", "dense"},
        {"qwen2-moe-tiny",
         "{'use_sliding_window':true,'sliding_window':8,'layer_types':'REMOVED',"
         "'max_window_layers':'REMOVED'}",
         "layer_types", "use_sliding_window"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x = {.a = arena_create()};
        recipe_init(&x.r, x.a, "test");
        const char *text = patched(x.a, rows[i].name, rows[i].patch);
        status s = model_parse_config(&x.r, "config.json", text, strlen(text), &x.err);
        if (s != ERR_INPUT) fail_msg("%s %s is accepted", rows[i].name, rows[i].patch);
        assert_has(x.err.text, rows[i].field);
        assert_has(x.err.text, rows[i].says);
        made_release(&x);
    }
}

/* By hand: four products of attention, two of an MLP that has no gate, scores and values over half
 * the sequence, the head. */
static void gpt_counts_two_matrices_an_mlp(void **state)
{
    (void)state;
    made x;
    made_good(&x, "gpt3-175b", NULL);
    double h = 12288, s = 2048, layer = 12 * h * h + h * s;
    assert_true(model_flops_per_token(&x.m, 2048) == 6 * (96 * layer + h * 51200));
    assert_string_equal(x.m.family, "gpt");
    made_release(&x);
}

static void each_case_is_of_its_family(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"deepseek-v2-tiny", "deepseek_v2"},
        {"deepseek-v2-lite-tiny", "deepseek_v2"},
        {"glm4-moe-tiny", "glm4_moe"},
        {"qwen2-moe-tiny", "qwen2_moe"},
        {"olmoe-tiny", "olmoe"},
        {"minimax-m2-tiny", "minimax_m2"},
        {"starcoder2-tiny", "starcoder2"},
        {"qwen2-tiny", "qwen2"},
        {"qwen3-tiny", "qwen3"},
        {"llama-tiny", "llama"},
        {"deepseek-v3-tiny", "deepseek_v3"},
        {"qwen3-moe-tiny", "qwen3_moe"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        char path[128];
        snprintf(path, sizeof path, GOLDEN "%s", rows[i][0]);
        made_good(&x, path, NULL);
        assert_string_equal(x.m.family, rows[i][1]);
        made_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_of_presets),
        cmocka_unit_test(presets_are_the_public_files),
        cmocka_unit_test(fields_give_their_knobs),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
        cmocka_unit_test(gpt_counts_two_matrices_an_mlp),
        cmocka_unit_test(each_case_is_of_its_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
