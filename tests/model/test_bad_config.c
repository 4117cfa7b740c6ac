/* test_bad_config.c - every kind of wrong config.json is refused with a message that names it. */
#include "config/models/models.h"
#include "testing.h"

typedef struct mutation {
    const char *name, *patch; /* a reference case and what is changed in it */
    const char *says[3];      /* what the message holds, besides the file */
} mutation;

#define FULL    "'full_attention'"
#define SLIDING "'sliding_attention'"

static const mutation mutations[] = {
    /* which family */
    {"qwen3-moe-tiny", "{'model_type':'REMOVED'}", {"model_type is missing", "qwen3_next"}},
    {"qwen3-moe-tiny",
     "{'model_type':'qwen3_mo'}",
     {"model_type", "nearest known one is qwen3_moe"}},
    {"qwen3-moe-tiny", "{'model_type':7}", {"model_type is 7"}},
    {"qwen3-moe-tiny", "{'model_type':null}", {"model_type is null"}},
    {"qwen3-moe-tiny", "{'model_type':'llamas'}", {"model_type is \"llamas\"", "known are"}},
    {"qwen3-moe-tiny", "{'model_type':'mixtral'}", {"architectures", "Mixtral", "mixtral"}},
    {"qwen3-moe-tiny", "{'architectures':['LlamaForCausalLM']}", {"architectures", "Llama"}},
    {"qwen3-moe-tiny", "{'architectures':'Qwen3MoeForCausalLM'}", {"architectures", "list"}},

    /* missing */
    {"qwen3-moe-tiny", "{'num_hidden_layers':'REMOVED'}", {"num_hidden_layers is missing"}},
    {"qwen3-moe-tiny", "{'hidden_size':'REMOVED'}", {"hidden_size is missing"}},
    {"qwen3-moe-tiny", "{'num_attention_heads':'REMOVED'}", {"num_attention_heads is missing"}},
    {"qwen3-moe-tiny", "{'num_key_value_heads':'REMOVED'}", {"num_key_value_heads is missing"}},
    {"qwen3-moe-tiny", "{'vocab_size':'REMOVED'}", {"vocab_size is missing"}},
    {"qwen3-moe-tiny", "{'num_local_experts':'REMOVED'}", {"num_experts is missing"}},
    {"qwen3-moe-tiny", "{'num_experts_per_tok':'REMOVED'}", {"num_experts_per_tok is missing"}},
    {"qwen3-moe-tiny", "{'moe_intermediate_size':'REMOVED'}", {"moe_intermediate_size is missing"}},
    {"qwen3-moe-tiny", "{'norm_topk_prob':'REMOVED'}", {"norm_topk_prob is missing"}},
    {"qwen3-moe-tiny", "{'rms_norm_eps':'REMOVED'}", {"rms_norm_eps is missing"}},
    {"qwen3-moe-tiny", "{'rope_parameters':'REMOVED'}", {"rope_theta is missing"}},
    {"qwen3-next-tiny", "{'layer_types':'REMOVED'}", {"layer_types is missing"}},
    {"qwen3-next-tiny", "{'linear_num_key_heads':'REMOVED'}", {"linear_num_key_heads is missing"}},
    {"qwen3-next-tiny", "{'head_dim':null}", {"head_dim is null"}},
    {"qwen3-next-tiny",
     "{'partial_rotary_factor':'REMOVED','rope_parameters':{'rope_theta':1e4}}",
     {"partial_rotary_factor is missing"}},
    {"gpt-oss-tiny", "{'layer_types':'REMOVED'}", {"layer_types is missing"}},
    {"gpt-oss-tiny", "{'sliding_window':'REMOVED'}", {"sliding_window is missing"}},
    {"deepseek-v3-tiny", "{'q_lora_rank':'REMOVED'}", {"q_lora_rank is missing"}},
    {"deepseek-v3-tiny",
     "{'first_k_dense_replace':'REMOVED'}",
     {"first_k_dense_replace is missing"}},
    {"deepseek-v3-tiny", "{'topk_group':'REMOVED'}", {"topk_group is missing"}},
    {"deepseek-v3-tiny", "{'n_group':'REMOVED','topk_group':'REMOVED'}", {"n_group is missing"}},
    {"deepseek-v3-tiny", "{'n_shared_experts':'REMOVED'}", {"n_shared_experts is missing"}},
    {"mixtral-tiny", "{'hidden_size':null}", {"hidden_size is null"}},

    /* of the wrong type or size */
    {"qwen3-moe-tiny", "{'hidden_size':'64'}", {"hidden_size is \"64\"", "whole number"}},
    {"qwen3-moe-tiny", "{'hidden_size':64.0}", {"hidden_size is 64.0", "whole number"}},
    {"qwen3-moe-tiny", "{'hidden_size':-64}", {"hidden_size is -64", "1..1048576"}},
    {"qwen3-moe-tiny", "{'hidden_size':0}", {"hidden_size is 0", "1..1048576"}},
    {"qwen3-moe-tiny", "{'hidden_size':1000000000000}", {"hidden_size", "1..1048576"}},
    {"qwen3-moe-tiny", "{'hidden_size':true}", {"hidden_size is true", "whole number"}},
    {"qwen3-moe-tiny", "{'hidden_size':[64]}", {"hidden_size is [64]", "whole number"}},
    {"qwen3-moe-tiny", "{'hidden_size':{}}", {"hidden_size is {}", "whole number"}},
    {"qwen3-moe-tiny", "{'num_hidden_layers':5000}", {"num_hidden_layers", "1..4096"}},
    {"qwen3-moe-tiny", "{'num_attention_heads':0}", {"num_attention_heads is 0"}},
    {"qwen3-moe-tiny", "{'num_key_value_heads':0}", {"num_key_value_heads is 0"}},
    {"qwen3-moe-tiny", "{'num_experts_per_tok':0}", {"num_experts_per_tok is 0"}},
    {"qwen3-moe-tiny", "{'rms_norm_eps':'tiny'}", {"rms_norm_eps is \"tiny\"", "a number"}},
    {"qwen3-moe-tiny", "{'rms_norm_eps':-1}", {"rms_norm_eps is -1"}},
    {"qwen3-moe-tiny", "{'tie_word_embeddings':'no'}", {"tie_word_embeddings", "true or false"}},
    {"qwen3-moe-tiny", "{'norm_topk_prob':1}", {"norm_topk_prob is 1", "true or false"}},
    {"qwen3-moe-tiny", "{'hidden_act':'relu'}", {"hidden_act is \"relu\"", "silu, gelu"}},
    {"qwen3-next-tiny", "{'hidden_act':'gelu'}", {"hidden_act is \"gelu\"", "\"silu\""}},
    {"qwen3-moe-tiny", "{'decoder_sparse_step':0}", {"decoder_sparse_step is 0"}},
    {"qwen3-moe-tiny", "{'mlp_only_layers':2}", {"mlp_only_layers is 2", "list"}},
    {"qwen3-moe-tiny", "{'use_sliding_window':1}", {"use_sliding_window is 1"}},
    {"mixtral-tiny", "{'sliding_window':0}", {"sliding_window is 0"}},
    {"mixtral-tiny", "{'sliding_window':'all'}", {"sliding_window is \"all\""}},
    {"deepseek-v3-tiny", "{'scoring_func':'softmax'}", {"scoring_func is \"softmax\""}},
    {"deepseek-v3-tiny", "{'topk_method':'greedy'}", {"topk_method is \"greedy\""}},
    {"deepseek-v3-tiny", "{'moe_layer_freq':2}", {"moe_layer_freq is 2"}},
    {"deepseek-v3-tiny", "{'seq_aux':1}", {"seq_aux is 1"}},
    {"deepseek-v3-tiny", "{'n_shared_experts':-1}", {"n_shared_experts is -1"}},
    {"deepseek-v3-tiny",
     "{'n_shared_experts':65536,'moe_intermediate_size':4194304}",
     {"n_shared_experts x moe_intermediate_size"}},
    {"deepseek-v3-tiny", "{'n_group':0}", {"n_group is 0"}},
    {"deepseek-v3-tiny", "{'topk_group':'two'}", {"topk_group is \"two\""}},
    {"deepseek-v3-tiny", "{'first_k_dense_replace':-1}", {"first_k_dense_replace is -1"}},
    {"deepseek-v3-tiny", "{'num_nextn_predict_layers':'one'}", {"num_nextn_predict_layers"}},
    {"deepseek-v3-tiny", "{'num_nextn_predict_layers':1000}", {"num_nextn_predict_layers is 1000"}},

    /* contradictions */
    {"qwen3-moe-tiny",
     "{'num_key_value_heads':3}",
     {"num_attention_heads is 4", "num_key_value_heads is 3"}},
    {"qwen3-moe-tiny",
     "{'num_experts_per_tok':9}",
     {"num_local_experts is 8", "num_experts_per_tok is 9"}},
    {"qwen3-moe-tiny", "{'num_experts':16}", {"num_experts is 16", "num_local_experts is 8"}},
    {"qwen3-moe-tiny", "{'mlp_only_layers':[4]}", {"mlp_only_layers is [4]", "0 to 3"}},
    {"qwen3-moe-tiny", "{'layer_types':[" FULL "]}", {"layer_types", "1 entries", "is 4"}},
    {"mixtral-tiny",
     "{'num_attention_heads':6}",
     {"hidden_size is 64", "num_attention_heads is 6"}},
    {"mixtral-tiny",
     "{'layer_types':[" FULL "," SLIDING "," FULL "," SLIDING "]}",
     {"sliding_window is missing"}},
    {"mixtral-tiny", "{'head_dim':15}", {"head_dim", "15"}},
    /* read otherwise by transformers than by us, until they were refused */
    {"mistral-tiny",
     "{'layer_types':[" FULL "," FULL "]}",
     {"layer_types", "to all layers or to none"}},
    {"mistral-tiny", "{'layer_types':[" FULL "," SLIDING "]}", {"layer_types", "or to none"}},
    {"qwen2-moe-tiny",
     "{'use_sliding_window':true,'sliding_window':8,'layer_types':'REMOVED'}",
     {"layer_types is missing", "which layers"}},
    {"gpt-oss-tiny", "{'rope_parameters':{'rope_theta':1e4}}", {"rope_scaling.type is missing"}},
    {"gpt-oss-tiny", "{'swiglu_alpha':1.0}", {"swiglu_alpha is 1.0", "1.702 is needed"}},
    {"minimax-m2-tiny", "{'use_qk_norm':false}", {"use_qk_norm is false", "always has"}},
    {"deepseek-v3-tiny", "{'head_dim':16}", {"head_dim is 16", "qk_rope_head_dim is 8"}},
    {"deepseek-v2-tiny", "{'rope_interleave':false}", {"rope_interleave is false", "pairs"}},
    {"gpt-oss-tiny",
     "{'layer_types':[" FULL "," SLIDING "," FULL "]}",
     {"layer_types", "3 entries"}},
    {"gpt-oss-tiny",
     "{'layer_types':[" FULL "," SLIDING "," FULL ",'linear_attention']}",
     {"layer_types", "layer 3", "sliding_attention"}},
    {"gpt-oss-tiny", "{'layer_types':'all'}", {"layer_types is \"all\"", "list"}},
    {"qwen3-next-tiny",
     "{'layer_types':[" FULL "," SLIDING "," FULL "," FULL "]}",
     {"layer_types", "layer 1", "linear_attention"}},
    {"qwen3-next-tiny",
     "{'full_attention_interval':2}",
     {"full_attention_interval is 2", "layer_types"}},
    {"qwen3-next-tiny",
     "{'linear_num_value_heads':3}",
     {"linear_num_value_heads is 3", "linear_num_key_heads is 2"}},
    {"deepseek-v3-tiny",
     "{'num_key_value_heads':2}",
     {"num_attention_heads is 4", "num_key_value_heads is 2"}},
    {"deepseek-v3-tiny", "{'qk_head_dim':25}", {"qk_head_dim is 25", "24"}},
    {"deepseek-v3-tiny",
     "{'qk_rope_head_dim':7,'qk_head_dim':23,'head_dim':7}",
     {"qk_rope_head_dim is 7", "even"}},
    {"deepseek-v3-tiny", "{'n_group':3}", {"n_routed_experts is 16", "n_group is 3"}},
    {"deepseek-v3-tiny", "{'topk_group':5}", {"n_group is 4", "topk_group is 5"}},
    {"deepseek-v3-tiny", "{'n_group':16}", {"n_group is 16"}},
    {"deepseek-v3-tiny", "{'topk_group':1,'num_experts_per_tok':5}", {"topk_group is 1", "5"}},
    {"deepseek-v3-tiny", "{'first_k_dense_replace':5}", {"first_k_dense_replace is 5"}},
    {"deepseek-v3-tiny",
     "{'layer_types':[" FULL "," SLIDING "," FULL "," FULL "]}",
     {"layer_types", "layer 1"}},

    /* the rotary embedding */
    {"qwen3-moe-tiny",
     "{'rope_theta':5000}",
     {"rope_theta is 5000", "rope_parameters.rope_theta is 1000000.0"}},
    {"qwen3-moe-tiny", "{'rope_parameters':7}", {"rope_parameters is 7"}},
    {"qwen3-moe-tiny", "{'rope_scaling':'yarn'}", {"rope_scaling is \"yarn\""}},
    {"qwen3-moe-tiny",
     "{'rope_scaling':{'factor':4}}",
     {"rope_scaling.factor is 4", "\"default\""}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6},'rope_scaling':{'factor':4}}",
     {"rope_scaling.type is missing"}},
    {"qwen3-moe-tiny",
     "{'rope_scaling':{'type':'yarn'}}",
     {"rope_scaling.type is \"yarn\"", "rope_parameters.rope_type is \"default\""}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'longrope'}}",
     {"rope_parameters.rope_type is \"longrope\"", "yarn"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':3}}",
     {"rope_parameters.rope_type is 3"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':'1e6'}}",
     {"rope_parameters.rope_theta is \"1e6\""}},
    {"qwen3-moe-tiny", "{'rope_parameters':{'rope_theta':-5}}", {"rope_theta is -5"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'yarn'}}",
     {"factor is missing"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'yarn','factor':4}}",
     {"original_max_position_embeddings is missing"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'yarn','factor':0.5,"
     "'original_max_position_embeddings':64}}",
     {"factor is 0.5"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'yarn','factor':4,'mscale':'one',"
     "'original_max_position_embeddings':64}}",
     {"mscale is \"one\"", "a number"}},
    {"qwen3-moe-tiny",
     "{'rope_parameters':{'rope_theta':1e6,'rope_type':'yarn','factor':1,'attention_factor':2,"
     "'original_max_position_embeddings':64}}",
     {"attention_factor is 2", "remove it"}},
    {"deepseek-v3-tiny",
     "{'num_experts_per_tok':1}",
     {"num_experts_per_tok is 1", "norm_topk_prob to false"}},
    {"qwen3-next-tiny",
     "{'partial_rotary_factor':0.5}",
     {"partial_rotary_factor is 0.5", "rope_parameters.partial_rotary_factor is 0.25"}},
    {"qwen3-next-tiny",
     "{'partial_rotary_factor':0.01,'rope_parameters':{'rope_theta':1e4,"
     "'partial_rotary_factor':0.01}}",
     {"partial_rotary_factor", "even"}},
};

static status parse_text(const char *text, size_t n, error *err)
{
    arena *a = arena_create();
    recipe r, before;
    recipe_init(&r, a, "test");
    before = r;
    status s = model_parse_config(&r, "config.json", text, n, err);
    if (s) assert_memory_equal(&r, &before, sizeof r); /* failure leaves the recipe alone */
    arena_destroy(a);
    return s;
}

static void each_mutation_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof mutations[0]; i++) {
        const mutation *m = &mutations[i];
        arena *a = arena_create();
        error err = {{0}};
        const char *text = patched(a, m->name, m->patch);
        if (parse_text(text, strlen(text), &err) != ERR_INPUT)
            fail_msg("%s: %s is accepted", m->name, m->patch);
        assert_has(err.text, "config.json: ");
        for (int k = 0; k < 3 && m->says[k]; k++) assert_has(err.text, m->says[k]);
        arena_destroy(a);
    }
}

static void what_is_no_json_object_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "config.json:1:"},
        {"{", "config.json:1:"},
        {"{\n  \"a\": 1,\n  \"b\" 2\n}", "config.json:3:"},
        {"[]", "not a JSON object"},
        {"{\"model_type\":\"mixtral\",\"model_type\":\"mixtral\"}", "config.json:1:"},
        {"{\"vocab_size\": 99999999999999999999999999}", "config.json:1:"},
        {"{\"rope_theta\": 1e999}", "config.json:1:"},
        {"{\"a\": NaN}", "config.json:1:"},
        {"\xff\xfe", "config.json:1:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error err = {{0}};
        assert_int_equal(parse_text(rows[i].text, strlen(rows[i].text), &err), ERR_INPUT);
        assert_has(err.text, rows[i].says);
    }
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    memset(text, '[', DEEP);
    error err;
    assert_int_equal(parse_text(text, DEEP, &err), ERR_INPUT);
    free(text);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Every field in turn becomes something else; whatever is accepted must give a usable model. */
static void no_value_of_any_field_crashes(void **state)
{
    (void)state;
    static const char *const values[] = {"null",
                                         "true",
                                         "0",
                                         "-1",
                                         "1",
                                         "3",
                                         "1048576",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "1e308",
                                         "-1e308",
                                         "0.5",
                                         "\"\"",
                                         "\"x\"",
                                         "[]",
                                         "{}",
                                         "[1,2]",
                                         "[-1]",
                                         "{\"rope_type\":\"yarn\"}"};
    for (int c = 0; c < N_GOLDEN; c++) {
        char path[128];
        const char *field;
        json_t *v;
        void *next;
        snprintf(path, sizeof path, GOLDEN "%s/config.json", golden_cases[c]);
        json_t *root = json_load_file(path, 0, NULL), *all = json_deep_copy(root);
        json_object_foreach_safe(all, next, field, v)
        {
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                arena *a = arena_create();
                recipe r;
                model m;
                param_table t;
                error err;
                json_object_set_new(root, field, json_loads(values[i], JSON_DECODE_ANY, NULL));
                char *text = json_dumps(root, 0);
                recipe_init(&r, a, "test");
                if (!model_parse_config(&r, "config.json", text, strlen(text), &err)) {
                    job j;
                    model_resolve(&r, &j);
                    assert_int_equal(model_init(&m, &j, a, &err), OK);
                    param_table_init(&t, &m, a);
                    assert_true(param_count(&t).total > 0);
                    assert_true(model_flops_per_token(&m, 64) > 0);
                }
                free(text);
                arena_destroy(a);
            }
            json_object_set(root, field, v);
        }
        json_decref(root);
        json_decref(all);
    }
}

static void changed_bytes_never_crash(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int c = 0; c < N_GOLDEN; c++) {
        arena *a = arena_create();
        char *text = patched(a, golden_cases[c], "{}");
        size_t n = strlen(text);
        for (int round = 0; round < 500; round++) {
            error err;
            size_t at = next_random(&seed) % n;
            char old = text[at];
            text[at] =
                (char)(next_random(&seed) % 3 ? "0123456789-\"[]{},:e."[next_random(&seed) % 20]
                                              : (char)next_random(&seed));
            (void)parse_text(text, n, &err);
            text[at] = old;
        }
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mutation_is_refused_by_name),
        cmocka_unit_test(what_is_no_json_object_is_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(no_value_of_any_field_crashes),
        cmocka_unit_test(changed_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
