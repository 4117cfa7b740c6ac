/* test_write_config.c - a recipe as a config.json: what is written reads as the same model, for
 * every family and every field, with random values; and what is no field of a family is refused by
 * the knob's name. Whether transformers reads the same is asked in tests/cli/test_export.c. */
#include "config/models/models.h"
#include "testing.h"

#include "base/json.h"
#include "config/models/family.h"
#include "config/models/hf_config.h"

static uint64_t seed = 11;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* ---- knobs with random values: %d from low to high in steps, %g anything between */

typedef struct field {
    const char *words;
    double low, high;
    int64_t step;
} field;

static const field fields[] = {
    {"model.num_layers=%d model.moe_layer_freq=1", 1, 9, 1},
    {"model.hidden_size=%d", 64, 512, 64},
    {"model.ffn_hidden_size=%d", 8, 99, 1},
    {"model.num_attention_heads=%d model.num_query_groups=%d", 4, 4, 1},
    {"model.num_query_groups=%d", 1, 4, 1},
    {"model.kv_channels=%d", 8, 64, 8},
    {"model.vocab_size=%d", 10, 500, 1},
    {"model.max_position_embeddings=%d", 10, 5000, 1},
    {"model.share_embeddings_and_output_weights=true", 0, 0, 1},
    {"model.share_embeddings_and_output_weights=false", 0, 0, 1},
    {"model.layernorm_epsilon=%g", 1e-7, 1e-2, 0},
    {"moefold.latent_norm_epsilon=1e-6 model.layernorm_epsilon=%g", 1e-7, 1e-2, 0},
    {"model.activation_func=silu", 0, 0, 1},
    {"model.activation_func=gelu", 0, 0, 1},
    {"model.activation_func=fast_gelu", 0, 0, 1},
    {"model.activation_func=quick_gelu", 0, 0, 1},
    {"model.activation_func=squared_relu", 0, 0, 1},
    {"model.activation_func_clamp_value=%g", 0.5, 20, 0},
    {"model.add_bias_linear=true", 0, 0, 1},
    {"model.add_bias_linear=false", 0, 0, 1},
    {"model.add_bias_linear=true moefold.mlp_bias_alone=true", 0, 0, 1},
    {"model.add_qkv_bias=true", 0, 0, 1},
    {"model.add_qkv_bias=false", 0, 0, 1},
    {"moefold.attention_bias=true", 0, 0, 1},
    {"model.qk_layernorm=true", 0, 0, 1},
    {"model.qk_layernorm=false", 0, 0, 1},
    {"model.rotary_base=%g", 10, 1e7, 0},
    {"model.rotary_percent=0.5", 0, 0, 1},
    {"moefold.mla_rotate_halves=true", 0, 0, 1},
    {"model.rotary_interleaved=true", 0, 0, 1},
    {"model.seq_len_interpolation_factor=%g", 1, 64, 0},
    {"moefold.rope_dynamic_factor=%g moefold.rope_trained_length=96", 1, 64, 0},
    {"model.rope_scaling=true model.rope_scaling_factor=%g moefold.rope_low_freq_factor=0.5 "
     "moefold.rope_high_freq_factor=3.5 moefold.rope_trained_length=777",
     1, 64, 0},
    {"model.rope_type=yarn model.position_embedding_type=yarn model.rotary_scaling_factor=%g "
     "model.original_max_position_embeddings=99 model.beta_fast=30 model.beta_slow=1.5",
     1, 64, 0},
    {"model.rope_type=yarn model.rotary_scaling_factor=%g model.mscale=0.7 "
     "model.mscale_all_dim=1.2",
     1, 64, 0},
    {"model.rope_type=yarn model.rotary_scaling_factor=8 model.mscale=%g", 0.1, 3, 0},
    {"model.rope_type=yarn model.rotary_scaling_factor=8 model.mscale=0 model.mscale_all_dim=%g",
     0.1, 3, 0},
    {"model.rope_type=yarn model.rotary_scaling_factor=%g "
     "model.yarn_correction_range_round_to_int=false",
     1, 64, 0},
    {"model.window_size=[%d,0]", 0, 40, 1},
    {"model.window_size=[%d,0] model.window_attn_skip_freq=2", 0, 40, 1},
    {"model.window_size=%d", 1, 40, 1},
    {"model.window_size=null", 0, 0, 1},
    {"model.softmax_type=vanilla", 0, 0, 1},
    {"model.q_lora_rank=%d", 4, 40, 1},
    {"model.q_lora_rank=null", 0, 0, 1},
    {"model.kv_lora_rank=%d", 4, 40, 1},
    {"model.qk_head_dim=%d", 4, 40, 1},
    {"model.qk_pos_emb_head_dim=%d", 4, 40, 2},
    {"model.v_head_dim=%d", 4, 40, 1},
    {"model.linear_attention_freq=%d", 1, 4, 1},
    {"model.linear_conv_kernel_dim=%d", 2, 6, 1},
    {"model.linear_key_head_dim=%d", 4, 40, 1},
    {"model.linear_value_head_dim=%d", 4, 40, 1},
    {"model.linear_num_key_heads=1 model.linear_num_value_heads=%d", 1, 9, 1},
    {"model.mtp_num_layers=%d", 0, 1, 1},
    {"model.attention_dropout=%g", 0, 1, 0},
    {"model.hidden_dropout=%g", 0, 1, 0},
    {"model.init_method_std=%g", 0.001, 0.5, 0},
    {"model.num_moe_experts=%d", 8, 64, 8},
    {"model.moe_router_topk=%d", 2, 4, 1},
    {"model.moe_ffn_hidden_size=%d", 8, 99, 1},
    {"model.moe_ffn_hidden_size=%d model.moe_shared_expert_intermediate_size=198", 9, 99, 90},
    {"model.moe_layer_freq=%d", 1, 3, 1},
    {"model.num_layers=4 model.moe_layer_freq=[0,0,1,1]", 0, 0, 1},
    {"model.num_layers=4 model.moe_layer_freq=[1,0,0,1]", 0, 0, 1},
    {"model.moe_shared_expert_intermediate_size=%d", 16, 160, 16},
    {"model.moe_shared_expert_intermediate_size=null", 0, 0, 1},
    {"model.moe_router_load_balancing_type=seq_aux_loss", 0, 0, 1},
    {"model.moe_router_load_balancing_type=aux_loss model.moe_aux_loss_coeff=%g", 0, 1, 0},
    {"model.moe_router_score_function=sigmoid", 0, 0, 1},
    {"model.moe_router_pre_softmax=true", 0, 0, 1},
    {"model.moe_router_pre_softmax=false", 0, 0, 1},
    {"moefold.moe_router_renormalize=false", 0, 0, 1},
    {"model.moe_router_topk_scaling_factor=%g", 0.5, 9, 0},
    {"model.moe_router_topk_scaling_factor=null", 0, 0, 1},
    {"model.moe_router_num_groups=4 model.moe_router_group_topk=2 model.moe_router_topk=4 "
     "moefold.moe_router_group_score=best_two",
     0, 0, 1},
    {"model.moe_router_num_groups=2 model.moe_router_group_topk=1 model.moe_router_topk=1 "
     "moefold.moe_router_group_score=best",
     0, 0, 1},
    {"model.moe_router_num_groups=null model.moe_router_group_topk=null", 0, 0, 1},
    {"model.moe_input_jitter_eps=%g", 0, 0.5, 0},
    {"model.moe_apply_probs_on_input=true", 0, 0, 1},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static void add_words(textbuf *t, const field *f)
{
    double part = (double)below(1000003) / 1000003.0, real = f->low + part * (f->high - f->low);
    int64_t n_steps = f->step ? (int64_t)(f->high - f->low) / f->step + 1 : 1;
    long long whole = (long long)((int64_t)f->low + below(n_steps) * f->step);
    if (t->n) text_add(t, " ");
    for (const char *p = f->words; *p; p++) {
        if (*p != '%')
            text_put(t, p, 1);
        else if (*++p == 'd')
            text_add(t, "%lld", whole);
        else
            text_add(t, "%.12g", real);
    }
}

/* ---- there and back */

static status write_of(made *x, const char *source, config_made *out)
{
    config_source from = {
        .config = source, .model = recipe_word(&x->r, K_MODEL), .dtype = "bfloat16"};
    recipe_set(&x->r, K_TARGET, value_of_text("moefold"),
               "test"); /* Megatron scores V2 otherwise */
    recipe_derive(&x->r);
    return model_write_config(&x->r, &from, out, &x->err);
}

/* Nothing but the text; modules are in weights, so their number is given. */
static void read_back(made *y, const char *text, int64_t modules)
{
    memset(y, 0, sizeof *y);
    y->a = arena_create();
    recipe_init(&y->r, y->a, "test");
    recipe_set(&y->r, K_MTP, value_of_int(modules), "test");
    if (model_parse_config(&y->r, "config.json", text, strlen(text), &y->err))
        fail_msg("%s in\n%s", y->err.text, text);
    job j;
    model_resolve(&y->r, &j);
    if (model_init(&y->m, &j, y->a, &y->err)) fail_msg("%s in\n%s", y->err.text, text);
    param_table_init(&y->t, &y->m, y->a);
}

static void same_shapes(const made *x, const made *y)
{
    assert_int_equal(x->t.n_rows, y->t.n_rows);
    for (int i = 0; i < x->t.n_rows; i++) {
        const param *p = &x->t.rows[i], *q = &y->t.rows[i];
        assert_string_equal(p->name, q->name);
        assert_string_equal(p->hf_names, q->hf_names);
        for (int d = 0; d < p->n_dims; d++) assert_int_equal(p->dim[d], q->dim[d]);
    }
}

/* Fields that no weight computes with, where the family has them. */
static void same_besides(const made *x, const made *y, const char *text)
{
    static const struct {
        const char *name;
        knob_id knob;
    } rows[] = {{"initializer_range", K_INIT_STD},
                {"attention_dropout", K_ATTENTION_DROPOUT},
                {"residual_dropout", K_HIDDEN_DROPOUT},
                {"router_jitter_noise", K_JITTER},
                {"aux_loss_alpha", K_AUX_COEFF}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        value v = x->r.knob[rows[i].knob].v, w = y->r.knob[rows[i].knob].v;
        bool idle = v.kind == V_NULL || (w.kind == V_NULL && v.kind == V_FLOAT && v.real == 0);
        if (strstr(text, rows[i].name) && !idle && !value_equal(v, w))
            fail_msg("%s: %s, not %s", rows[i].name, value_text(x->a, w), value_text(x->a, v));
    }
    bool dynamic = recipe_given(&x->r, K_ROPE_DYNAMIC);
    assert_int_equal(recipe_int(&y->r, K_MAX_POSITIONS),
                     recipe_int(&x->r, dynamic ? K_ROPE_TRAINED : K_MAX_POSITIONS));
}

static void is_the_same_model(made *x, const config_made *c, const char *words)
{
    made y;
    knob_id named[4];
    config_made again;
    read_back(&y, c->text, x->m.n_mtp);
    facts_side trained = {&x->r, &x->m}, written = {&y.r, &y.m};
    if (facts_differ(trained, written, named, 4))
        fail_msg("%s: %s differs in\n%s", words, knobs[named[0]].key, c->text);
    same_shapes(x, &y);
    same_besides(x, &y, c->text);
    if (write_of(&y, c->text, &again)) fail_msg("%s: %s", words, y.err.text);
    assert_string_equal(again.changed, "");
    assert_string_equal(again.text, c->text);
    made_release(&y);
}

/* The message has one of the knobs that were set, or one that follows from them. */
static bool names_a_knob(const char *text, const char *words)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " "), key = strcspn(p, "=");
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(key < n ? key : n), p);
        if (*name && strstr(text, name)) return true;
        p += n + strspn(p + n, " ");
    }
    return strstr(text, "model.") || strstr(text, "moefold.") || strstr(text, "config.json: ");
}

typedef struct tally {
    int written, refused;
} tally;

static void try_words(const char *model_name, const char *source, const char *words, tally *t)
{
    made x;
    config_made c;
    if (!made_init(&x, model_name, words)) {
        if (write_of(&x, source, &c)) {
            t->refused++;
            if (!names_a_knob(x.err.text, words)) fail_msg("%s: %s", words, x.err.text);
            assert_has(x.err.text, "repair");
        } else {
            t->written++;
            is_the_same_model(&x, &c, arena_text(x.a, "%s %s", model_name, words));
        }
    }
    made_release(&x);
}

/* One field alone, then two or three together. */
static void round_trips(const char *model_name, const char *source, int n_random)
{
    tally alone = {0}, mixed = {0};
    arena *a = arena_create();
    for (int i = 0; i < N_FIELDS; i++) {
        textbuf t = text_init(a);
        add_words(&t, &fields[i]);
        try_words(model_name, source, t.s, &alone);
    }
    for (int i = 0; i < n_random; i++) {
        textbuf t = text_init(a);
        for (int64_t k = 2 + below(2); k > 0; k--) add_words(&t, &fields[below(N_FIELDS)]);
        try_words(model_name, source, t.s, &mixed);
    }
    if (alone.written < 30 || mixed.written < n_random / 6)
        fail_msg("%s: of %d fields %d are written, of %d mixtures %d", model_name, N_FIELDS,
                 alone.written, n_random, mixed.written);
    arena_destroy(a);
}

static int n_random(void)
{
    return getenv("TEST_ALL") ? 2000 : 60;
}

static void every_file_reads_as_what_was_written(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        arena *a = arena_create();
        char *source = patched(a, golden_cases[i], "{}");
        round_trips(arena_text(a, GOLDEN "%s", golden_cases[i]), source, n_random());
        arena_destroy(a);
    }
}

/* How many weights transformers makes of the file that the preset gets, at its full size. */
static int64_t weights_in_transformers(const char *name)
{
    json_t *root = json_load_file("tests/data/export/presets.json", 0, NULL);
    assert_non_null(root);
    int64_t n = json_integer_value(json_object_get(root, name));
    json_decref(root);
    return n;
}

static void presets_get_files_of_their_own(void **state)
{
    (void)state;
    int n;
    const char *const *names = model_presets(&n);
    for (int i = 0; i < n; i++) {
        made x;
        config_made c;
        made_good(&x, names[i], NULL);
        bool none = preset_family(names[i]) == GPT; /* transformers has no such format here */
        status s = write_of(&x, NULL, &c);
        if (none != (s != OK)) fail_msg("%s: %s", names[i], x.err.text);
        if (!none) {
            assert_true(c.anew);
            assert_has(families[preset_family(names[i])].model_types, c.model_type);
            is_the_same_model(&x, &c, names[i]);
            assert_int_equal(param_count(&x.t).total, weights_in_transformers(names[i]));
        }
        made_release(&x);
        if (!none && i % 7 == 0) round_trips(names[i], NULL, n_random() / 4);
    }
}

/* ---- a file that can be read can be written */

static json_t *other_value(int i)
{
    static const double numbers[] = {0, 1, 2, 3, 5, 8, 64, 0.5, 1e-3, 1e9};
    static const char *const words[] = {"silu", "gelu", "yarn", "default", "linear", "greedy"};
    enum { N_NUMBERS = sizeof numbers / sizeof *numbers, N_WORDS = sizeof words / sizeof *words };
    if (i < N_NUMBERS) return json_integer((json_int_t)numbers[i]);
    if (i < 2 * N_NUMBERS) return json_real(numbers[i - N_NUMBERS]);
    if (i < 2 * N_NUMBERS + N_WORDS) return json_string(words[i - 2 * N_NUMBERS]);
    i -= 2 * N_NUMBERS + N_WORDS;
    return i == 0 ? json_true() : i == 1 ? json_false() : i == 2 ? json_null() : NULL;
}

/* What it says is what the recipe is: nothing of it changes. Returns whether it could be read. */
static int is_kept(const char *name, const char *text)
{
    made x;
    config_made c;
    error err;
    json_t *root;
    memset(&x, 0, sizeof x);
    x.a = arena_create();
    recipe_init(&x.r, x.a, "test");
    if (json_parse("config.json", text, strlen(text), &root, &err)) fail_msg("%s", err.text);
    recipe_set(&x.r, K_MTP, value_of_int(config_modules_named(root)), "test");
    json_decref(root);
    bool read = !model_parse_config(&x.r, "config.json", text, strlen(text), &err);
    if (read) {
        job j;
        model_resolve(&x.r, &j);
        read = !model_init(&x.m, &j, x.a, &err);
    }
    if (read) {
        if (!write_of(&x, text, &c)) {
            if (*c.changed) fail_msg("%s: %s changes in %s", name, c.changed, text);
        } else if (!strstr(x.err.text, "transformers loads none")) { /* it loads no such source */
            fail_msg("%s: %s\nof %s", name, x.err.text, text);
        }
    }
    made_release(&x);
    return read;
}

/* Each field of the object in turn has each of the values, or is gone. */
static void change_fields(const char *name, json_t *root, json_t *object, int counts[2])
{
    const char *key;
    json_t *v;
    json_t *whole = json_deep_copy(object);
    json_object_foreach(whole, key, v)
    {
        if (json_is_object(v)) change_fields(name, root, json_object_get(object, key), counts);
        for (int i = 0; i < 30; i++) {
            json_t *other = other_value(i);
            bool skip = !getenv("TEST_ALL") && below(8) != 0;
            if (skip && other) json_decref(other);
            if (skip) continue;
            if (other)
                json_object_set_new(object, key, other);
            else
                json_object_del(object, key);
            char *text = json_dumps(root, 0);
            counts[is_kept(name, text)]++;
            free(text);
            json_object_set(object, key, v);
        }
    }
    json_decref(whole);
}

static void every_file_that_is_read_is_written_as_it_is(void **state)
{
    (void)state;
    int counts[2] = {0, 0};
    for (int i = 0; i < N_GOLDEN; i++) {
        char path[128];
        snprintf(path, sizeof path, GOLDEN "%s/config.json", golden_cases[i]);
        json_t *root = json_load_file(path, 0, NULL);
        change_fields(golden_cases[i], root, root, counts);
        json_decref(root);
    }
    assert_true(counts[1] > 500 && counts[0] > 500);
}

static void a_new_file_has_the_token_that_ends_a_document(void **state)
{
    (void)state;
    made x;
    config_made c;
    made_good(&x, "qwen3-30b-a3b", "moefold.eod_token=151643");
    if (write_of(&x, NULL, &c)) fail_msg("%s", x.err.text);
    assert_has(c.text, "\"eos_token_id\": 151643");
    made_release(&x);
    made_good(&x, "qwen3-30b-a3b", NULL);
    if (write_of(&x, NULL, &c)) fail_msg("%s", x.err.text);
    assert_has(c.text, "\"eos_token_id\": null");
    made_release(&x);
}

/* ---- what is kept of a source */

static const char *written_over(made *x, const char *name, const char *patch, const char *words,
                                config_made *c)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    made_good(x, path, words);
    if (write_of(x, patched(x->a, name, patch), c)) fail_msg("%s: %s", name, x->err.text);
    return c->text;
}

static void a_source_that_says_the_same_is_kept(void **state)
{
    (void)state;
    made x;
    config_made c;
    written_over(&x, "qwen3-moe-tiny", "{'dtype':'bfloat16','eos_token_id':[1,2]}", "", &c);
    assert_string_equal(
        c.text, patched(x.a, "qwen3-moe-tiny", "{'dtype':'bfloat16','eos_token_id':[1,2]}"));
    made_release(&x);
}

static void what_a_source_has_besides_is_kept(void **state)
{
    (void)state;
    made x;
    config_made c;
    const char *text = written_over(&x, "qwen3-moe-tiny",
                                    "{'torch_dtype':'float16','eos_token_id':[1,2],'mine':{'a':[]},"
                                    "'quantization_config':{'a':1}}",
                                    "model.moe_router_topk=4 model.rotary_base=5e5", &c);
    assert_has(text, "\"num_experts_per_tok\": 4");
    assert_has(text, "\"rope_theta\": 500000.0");
    assert_has(text, "\"dtype\": \"bfloat16\"");
    assert_has(text, "\"torch_dtype\": \"bfloat16\"");
    assert_has(text, "\"mine\": {\n    \"a\": []\n  }");
    assert_null(strstr(text, "quantization_config"));
    assert_string_equal(c.changed, "num_experts_per_tok, rope_parameters");
    assert_false(c.anew);
    made_release(&x);
}

/* gpt-oss files have two names for one number. */
static void every_spelling_of_a_field_is_corrected(void **state)
{
    (void)state;
    made x;
    config_made c;
    const char *text =
        written_over(&x, "gpt-oss-tiny", "{'experts_per_token':2,'rope_theta':150000.0}",
                     "model.moe_router_topk=3 model.rotary_base=3000", &c);
    assert_has(text, "\"experts_per_token\": 3");
    assert_has(text, "\"num_experts_per_tok\": 3");
    assert_null(strstr(text, "150000"));
    made_release(&x);
}

static void a_recipe_of_another_family_gets_its_file(void **state)
{
    (void)state;
    made x;
    config_made c;
    const char *text = written_over(&x, "llama-tiny", "{'eos_token_id':7}",
                                    "model.qk_layernorm=true model.rope_scaling=false", &c);
    assert_string_equal(c.model_type, "qwen3");
    assert_has(text, "Qwen3ForCausalLM");
    assert_has(text, "\"eos_token_id\": 7");
    assert_true(c.anew);
    made_release(&x);
}

static void what_no_file_says_is_refused_by_name(void **state)
{
    (void)state;
    made x;
    config_made c;
    made_good(&x, GOLDEN "qwen3-moe-tiny",
              "model.rotary_percent=0.5 model.softmax_type=off-by-one");
    assert_int_equal(write_of(&x, patched(x.a, "qwen3-moe-tiny", "{}"), &c), ERR_INPUT);
    assert_has(x.err.text, "a config.json of qwen3_moe");
    assert_has(x.err.text, "model.rotary_percent=1.0 instead of 0.5");
    assert_has(x.err.text, "model.softmax_type=vanilla instead of off-by-one");
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_reads_as_what_was_written),
        cmocka_unit_test(presets_get_files_of_their_own),
        cmocka_unit_test(every_file_that_is_read_is_written_as_it_is),
        cmocka_unit_test(a_new_file_has_the_token_that_ends_a_document),
        cmocka_unit_test(a_source_that_says_the_same_is_kept),
        cmocka_unit_test(what_a_source_has_besides_is_kept),
        cmocka_unit_test(every_spelling_of_a_field_is_corrected),
        cmocka_unit_test(a_recipe_of_another_family_gets_its_file),
        cmocka_unit_test(what_no_file_says_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
