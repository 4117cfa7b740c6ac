/* test_hf_bad.c - Hugging Face files that are not what they should be: what is left out is named
 * with its reason, what is wrong is refused with the file and the tensor, and nothing crashes. */
#include "hf_testing.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- files that differ from a good one in one thing */

typedef struct change {
    const char *drop;             /* a tensor to leave out */
    const char *add, *like;       /* a tensor to add, with the content of another */
    const char *dtype, *shape;    /* of what is added */
    const char *patch, *settings; /* of config.json; overrides */
    const char *says;             /* in the message; NULL: it is accepted */
    const char *reason;           /* then why `add` is ignored */
} change;

static void write_changed(arena *a, const char *name, const change *c, const char *folder)
{
    opened o = open_file(a, arena_text(a, GOLDEN "%s/model.safetensors", name));
    made_file f = made_file_init(a);
    for (int i = 0; i < o.f.n_tensors; i++)
        if (!c->drop || strcmp(o.f.tensors[i].name, c->drop) != 0)
            made_copy(&f, &o, &o.f.tensors[i], o.f.tensors[i].name);
    if (c->add) {
        const safetensor *t = safetensors_find(&o.f, c->like);
        assert_non_null(t);
        made_add(&f, c->add, c->dtype ? c->dtype : t->dtype, c->shape ? c->shape : shape_of(a, t),
                 tensor_bytes(&o, t), (size_t)(t->end - t->begin));
    }
    made_write(&f, weights_path(a, folder));
}

static void check_ignored(const hf_report *r, const change *c)
{
    assert_true(r->ignored.tensors >= 1);
    assert_int_equal(r->used.elements + r->applied.elements + r->ignored.elements,
                     r->found.elements);
    for (int i = 0; i < r->ignored.tensors; i++) {
        if (c->add && strcmp(r->list[i].name, c->add) != 0) continue;
        assert_has(r->list[i].reason, c->reason);
        return;
    }
    fail_msg("%s is not named as ignored", c->add);
}

static void try_change(const char *name, const change *c)
{
    arena *a = arena_create();
    const char *folder = folder_with_config(a, name, c->patch ? c->patch : "{}");
    write_changed(a, name, c, folder);
    loaded x;
    hf_report r;
    loaded_init(&x, folder, c->settings);
    status s = hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, folder, &r, &x.err);
    if (s != (c->says ? ERR_INPUT : OK)) fail_msg("%s %s: %s", name, c->add, x.err.text);
    if (c->says) {
        assert_has(x.err.text, c->says);
        assert_has(x.err.text, folder);
        for (int64_t i = 0; i < x.w.elements; i++) assert_true(x.flat[i] == 0); /* untouched */
    } else {
        check_ignored(&r, c);
        assert_int_equal(r.written, loaded_elements(&x));
    }
    scratch_remove(folder);
    loaded_release(&x);
    arena_destroy(a);
}

#define TABLE "model.embed_tokens.weight"
#define NORM  "model.layers.0.input_layernorm.weight"

static void what_is_left_out_has_a_reason(void **state)
{
    (void)state;
    static const change mtp[] = {
        {.add = "model.layers.3.embed_tokens.weight", .like = TABLE, .reason = "a copy of " TABLE},
        {.add = "model.layers.3.shared_head.head.weight",
         .like = "lm_head.weight",
         .reason = "a copy of lm_head.weight"},
        {.add = "model.layers.3.shared_head.head.weight",
         .like = TABLE,
         .reason = "another version of lm_head.weight"},
        {.settings = "model.mtp_num_layers=0", .reason = "prediction module"},
        {.settings = "model.mtp_num_layers=null", .reason = "prediction module"},
    };
    static const change mixtral[] = {
        {.add = "model.layers.2.self_attn.rotary_emb.inv_freq",
         .like = NORM,
         .reason = "rotary frequencies"},
        {.drop = "lm_head.weight",
         .add = "lm_head.weight",
         .like = TABLE,
         .patch = "{'tie_word_embeddings':true}",
         .reason = "tied"},
    };
    static const change next[] = {
        {.add = "mtp.fc.weight", .like = NORM, .reason = "prediction module"},
    };
    for (size_t i = 0; i < sizeof mtp / sizeof *mtp; i++) try_change("mtp-tiny", &mtp[i]);
    for (size_t i = 0; i < sizeof mixtral / sizeof *mixtral; i++)
        try_change("mixtral-tiny", &mixtral[i]);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) try_change("qwen3-next-tiny", &next[i]);
}

static void what_is_wrong_is_refused_by_name(void **state)
{
    (void)state;
    static const change rows[] = {
        {.drop = NORM, .says = "'" NORM "' is missing"},
        {.drop = "model.layers.2.block_sparse_moe.experts.7.w3.weight",
         .says = "'model.layers.2.block_sparse_moe.experts.7.w3.weight' is missing"},
        {.add = "model.layers.0.extra.weight",
         .like = NORM,
         .says = "'model.layers.0.extra.weight'"},
        {.add = "model.layers.4.input_layernorm.weight", .like = NORM, .says = "layer 4"},
        {.add = "model.layers.0.mlp.experts.gate_up_proj", .like = NORM, .says = "shape [64]"},
        {.drop = NORM,
         .add = NORM,
         .like = NORM,
         .shape = "8,8",
         .says = "'" NORM "' has the shape"},
        {.drop = NORM, .add = NORM, .like = NORM, .dtype = "I32", .says = "type I32"},
        {.drop = NORM,
         .add = NORM,
         .like = "model.layers.0.block_sparse_moe.gate.weight",
         .dtype = "F32",
         .says = "[8, 64]"},
        {.drop = "model.layers.0.self_attn.k_proj.weight",
         .add = "model.layers.0.self_attn.k_proj.weight",
         .like = "model.layers.0.block_sparse_moe.gate.weight",
         .dtype = "F8_E4M3",
         .shape = "32,64",
         .says = "'model.layers.0.self_attn.k_proj.weight_scale_inv' is missing"},
        {.patch = "{'tie_word_embeddings':true}", .says = "'lm_head.weight' differs"},
        {.patch = "{'num_hidden_layers':3}", .says = "layer 3"},
        {.patch = "{'num_hidden_layers':5}", .says = "'model.layers.4."},
        {.patch = "{'intermediate_size':48}", .says = "experts.0.w1.weight' has the shape"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_change("mixtral-tiny", &rows[i]);
}

static void weights_without_a_place_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *says;
    } rows[] = {
        {"model.gated_linear_unit=false", "linear_fc1"},
        {"model.position_embedding_type=learned_absolute", "position_embeddings"},
        {"model.num_query_groups=3", "linear_qkv"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        loaded x;
        hf_report r;
        hf_options o = {0};
        loaded_init(&x, GOLDEN "mixtral-tiny", rows[i].settings);
        status s = hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, GOLDEN "mixtral-tiny", &r, &x.err);
        if (s != ERR_INPUT) fail_msg("%s", rows[i].settings);
        assert_has(x.err.text, rows[i].says);
        s = hf_save(x.s, &x.w, x.flat, "/nowhere", &o, &x.err);
        assert_int_equal(s, ERR_INPUT);
        assert_has(x.err.text, rows[i].says);
        loaded_release(&x);
    }
}

/* LayerNorm has a bias, which files of this family do not hold. */
static void a_weight_that_files_do_not_hold_is_named(void **state)
{
    (void)state;
    loaded x;
    hf_report r;
    loaded_init(&x, GOLDEN "mixtral-tiny", "model.normalization=LayerNorm");
    status s = hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, GOLDEN "mixtral-tiny", &r, &x.err);
    assert_int_equal(s, ERR_INPUT);
    assert_has(x.err.text, "'model.layers.0.input_layernorm.bias' is missing");
    loaded_release(&x);
}

/* ---- indexes */

static void try_index(const char *index, const char *says)
{
    loaded x;
    hf_report r;
    hf_options o = {.shard_bytes = 400000};
    loaded_golden(&x, "mixtral-tiny", NULL);
    const char *folder = scratch_make(x.a);
    if (hf_save(x.s, &x.w, x.flat, folder, &o, &x.err)) fail_msg("%s", x.err.text);
    const char *path = arena_text(x.a, "%s/model.safetensors.index.json", folder);
    size_t n;
    char *text = get_file(x.a, path, &n);
    json_t *root = json_loads(text, 0, NULL), *map = json_object_get(root, "weight_map");
    json_t *changes = json_loads(with_quotes(x.a, index), 0, NULL);
    assert_non_null(changes);
    json_object_update(map, changes);
    json_dump_file(root, path, 0);
    json_decref(root);
    json_decref(changes);
    status s = hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, folder, &r, &x.err);
    if (s != (says ? ERR_INPUT : OK)) fail_msg("%s: %s", index, x.err.text);
    if (says) assert_has(x.err.text, says);
    scratch_remove(folder);
    loaded_release(&x);
}

static void indexes_that_lie_are_refused(void **state)
{
    (void)state;
    try_index("{}", NULL);
    try_index("{'a.weight':'model-00001-of-00003.safetensors'}", "'a.weight' is not in it");
    try_index("{'lm_head.weight':'model-00002-of-00003.safetensors'}",
              "'lm_head.weight' is not in it");
    try_index("{'lm_head.weight':'other.safetensors'}", "other.safetensors");
    try_index("{'lm_head.weight':'../x.safetensors'}", "'lm_head.weight' has no usable file name");
    try_index("{'lm_head.weight':1}", "'lm_head.weight' has no usable file name");
}

static void a_tensor_in_two_files_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = folder_with_config(a, "mixtral-tiny", "{}");
    change same = {0};
    write_changed(a, "mixtral-tiny", &same, folder);
    size_t n;
    char *bytes = get_file(a, weights_path(a, folder), &n);
    put_file(arena_text(a, "%s/b.safetensors", folder), bytes, n);
    const char *index = with_quotes(a, "{'weight_map':{'lm_head.weight':'model.safetensors',"
                                       "'model.norm.weight':'b.safetensors'}}");
    put_file(arena_text(a, "%s/model.safetensors.index.json", folder), index, strlen(index));
    loaded x;
    hf_report r;
    loaded_init(&x, folder, NULL);
    assert_int_equal(hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, folder, &r, &x.err), ERR_INPUT);
    assert_has(x.err.text, "'lm_head.weight' is in");
    loaded_release(&x);
    scratch_remove(folder);
    arena_destroy(a);
}

/* ---- damage */

static const char small[] = "{'hidden_size':8,'num_attention_heads':2,'num_key_value_heads':1,"
                            "'head_dim':4,'vocab_size':12,'num_hidden_layers':1,'num_experts':2,"
                            "'num_local_experts':'REMOVED','moe_intermediate_size':4,"
                            "'num_experts_per_tok':1,'intermediate_size':8}";

/* A folder with a small model's weights; returns the bytes of the file. */
static char *small_file(loaded *x, const char *folder, size_t *n)
{
    hf_options o = {0};
    uint64_t seed = 3;
    const char *beside = arena_text(x->a, "%s/out", folder);
    for (int64_t i = 0; i < x->w.elements; i++) x->flat[i] = draw_real(&seed);
    if (hf_save(x->s, &x->w, x->flat, beside, &o, &x->err)) fail_msg("%s", x->err.text);
    return get_file(x->a, weights_path(x->a, beside), n);
}

/* Bytes changed, or the end cut off, or both; half of the changes hit the header. */
static size_t damage(char *bytes, size_t n, uint64_t *seed)
{
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    uint32_t kind = draw_below(seed, 4);
    for (uint32_t i = kind == 0 ? 0 : 1 + draw_below(seed, 4); i > 0; i--) {
        size_t span = draw_below(seed, 2) ? (size_t)header + 8 : n;
        size_t at = draw_below(seed, span);
        bytes[at] = draw_below(seed, 2) ? (char)draw_bits(seed) : (char)(bytes[at] ^ 1);
    }
    return kind < 2 ? draw_below(seed, n) : n;
}

static void ten_thousand_damaged_files_end_in_an_answer(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = folder_with_config(a, "qwen3-moe-tiny", small);
    loaded x;
    loaded_init(&x, folder, NULL);
    size_t n;
    char *good = small_file(&x, folder, &n), *bytes = malloc(n);
    const char *path = weights_path(a, folder);
    uint64_t seed = 17;
    int refused = 0;
    for (int round = 0; round < 10000; round++) {
        memcpy(bytes, good, n);
        put_file(path, bytes, damage(bytes, n, &seed));
        arena_place mark = arena_mark(x.a);
        hf_report r;
        error err = {{0}};
        status s = hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, folder, &r, &err);
        assert_true(s == OK || s == ERR_INPUT);
        if (s) assert_has(err.text, "model.safetensors");
        refused += s != OK;
        arena_release(x.a, mark);
    }
    assert_true(refused > 5000); /* changed values cannot be seen in this format */
    free(bytes);
    loaded_release(&x);
    scratch_remove(folder);
    arena_destroy(a);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = folder_with_config(a, "qwen3-moe-tiny", small);
    loaded x;
    loaded_init(&x, folder, NULL);
    size_t n;
    char *good = small_file(&x, folder, &n);
    for (size_t cut = 0; cut < n; cut += 1 + cut % 7) {
        hf_report r;
        put_file(weights_path(x.a, folder), good, cut);
        assert_int_equal(hf_load(&(hf_rank){x.s, NULL, &x.w, x.flat}, folder, &r, &x.err),
                         ERR_INPUT);
        assert_has(x.err.text, "model.safetensors");
    }
    loaded_release(&x);
    scratch_remove(folder);
    arena_destroy(a);
}

/* ---- writing that fails */

static void a_folder_that_is_there_is_not_overwritten(void **state)
{
    (void)state;
    loaded x;
    hf_options o = {0};
    loaded_golden(&x, "mixtral-tiny", NULL);
    const char *folder = scratch_make(x.a);
    put_file(arena_text(x.a, "%s/mine", folder), "x", 1);
    assert_int_equal(hf_save(x.s, &x.w, x.flat, folder, &o, &x.err), ERR_INPUT);
    assert_has(x.err.text, folder);
    scratch_remove(folder);
    loaded_release(&x);
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    loaded x;
    hf_options o = {0};
    struct rlimit old, tight = {300000, RLIM_INFINITY};
    loaded_golden(&x, "mixtral-tiny", NULL);
    const char *above = scratch_make(x.a), *folder = arena_text(x.a, "%s/out", above);
    getrlimit(RLIMIT_FSIZE, &old);
    tight.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    status s = hf_save(x.s, &x.w, x.flat, folder, &o, &x.err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(s, ERR_MACHINE);
    assert_has(x.err.text, "model.safetensors");
    assert_int_equal(rmdir(above), 0); /* empty */
    loaded_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_a_reason),
        cmocka_unit_test(what_is_wrong_is_refused_by_name),
        cmocka_unit_test(weights_without_a_place_are_refused),
        cmocka_unit_test(a_weight_that_files_do_not_hold_is_named),
        cmocka_unit_test(indexes_that_lie_are_refused),
        cmocka_unit_test(a_tensor_in_two_files_is_refused),
        cmocka_unit_test(ten_thousand_damaged_files_end_in_an_answer),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_folder_that_is_there_is_not_overwritten),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
