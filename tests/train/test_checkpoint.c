/* test_checkpoint.c - checkpoints come back bit for bit, from any number of files; what is damaged
 * or of another model is refused by name. */
#include "checkpoint_testing.h"

#include "train/checkpoint/meta.h"
#include "train/checkpoint/tensor_file.h"

/* ---- there and back */

static void checkpoints_come_back_bit_for_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        char name[128];
        snprintf(name, sizeof name, GOLDEN "%s", golden_cases[i]);
        run a, b;
        run_init(&a, name, NULL);
        run_init(&b, name, NULL);
        fill(&a, 1);
        a.c.state = (checkpoint_state){0, 2, 3, 4, INT64_C(1) << 53, 6, -7, 2.5, 1, 4.5};
        save(&a, 1234567, 0);
        int64_t latest;
        assert_int_equal(checkpoint_latest(a.folder, &latest, &a.x.err), OK);
        assert_int_equal(latest, 1234567);
        if (checkpoint_load(&b.c, a.folder, latest, &b.x.err)) fail_msg("%s", b.x.err.text);
        same_runs(&a, &b);
        assert_true(checkpoint_weights_sum(&a.x.w, a.c.weights) ==
                    checkpoint_weights_sum(&b.x.w, b.c.weights));
        run_release(&a);
        run_release(&b);
    }
}

static void tensor_files_are_safetensors_in_megatrons_words(void **state)
{
    (void)state;
    run a;
    run_init(&a, GOLDEN "deepseek-v3-tiny", NULL);
    fill(&a, 2);
    save(&a, 10, 0);
    opened f = open_file(a.x.a, inside(&a, 10, WEIGHTS));
    assert_int_equal(f.f.n_tensors, a.x.w.n);
    const safetensor *t = safetensors_find(&f.f, "decoder.layers.2.mlp.router.expert_bias");
    assert_non_null(t);
    assert_has(t->note, "of 16 at 0 xxh64 ");
    opened m = open_file(a.x.a, inside(&a, 10, "exp_avg-00000-of-00001.safetensors"));
    assert_null(safetensors_find(&m.f, "decoder.layers.2.mlp.router.expert_bias"));
    size_t n;
    assert_string_equal(
        get_file(a.x.a, arena_text(a.x.a, "%s/latest_checkpointed_iteration.txt", a.folder), &n),
        "10");
    run_release(&a);
}

static void the_recipe_inside_rebuilds_the_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        char name[128];
        snprintf(name, sizeof name, GOLDEN "%s", golden_cases[i]);
        run a;
        run_init(&a, name, "optimizer.lr=0.00123 train.global_batch_size=24");
        save(&a, 1, 0);
        checkpoint_info info;
        if (checkpoint_read_info(&info, a.x.a, a.folder, 1, &a.x.err)) fail_msg("%s", a.x.err.text);
        recipe *r = ARENA_NEW(a.x.a, recipe);
        setup *s = ARENA_NEW(a.x.a, setup);
        recipe_init(r, a.x.a, "again");
        if (recipe_parse_yaml(r, "recipe", info.recipe, strlen(info.recipe), &a.x.err))
            fail_msg("%s", a.x.err.text);
        if (setup_init(s, r, a.x.a, &a.x.err)) fail_msg("%s", a.x.err.text);
        for (int k = 0; k < K_COUNT; k++)
            if (!value_equal(s->r.knob[k].v, a.x.s->r.knob[k].v))
                fail_msg("%s: %s is %s, was %s", name, knobs[k].key,
                         value_text(a.x.a, s->r.knob[k].v), value_text(a.x.a, a.x.s->r.knob[k].v));
        weight_list w;
        weight_list_init(&w, s, a.x.a);
        assert_true(checkpoint_fingerprint(s, &w) == info.fingerprint);
        run_release(&a);
    }
}

static void weights_alone_start_with_zero_moments(void **state)
{
    (void)state;
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 3);
    fill(&b, 4);
    checkpoint only = a.c;
    only.exp_avg = only.exp_avg_sq = NULL;
    assert_int_equal(checkpoint_save(&only, a.folder, 0, &a.x.err), OK);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 0, &b.x.err), OK);
    for (int64_t i = 0; i < b.x.w.trained; i++) assert_true(b.c.exp_avg_sq[i] == 0);
    only.state.optimizer_steps = only.state.iteration = 5;
    assert_int_equal(checkpoint_save(&only, a.folder, 0, &a.x.err), OK);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 5, &b.x.err), ERR_INPUT);
    assert_has(b.x.err.text, "checkpoint.load_optim=false");
    b.c.exp_avg[0] = 9;
    checkpoint weights_only = b.c;
    weights_only.exp_avg = weights_only.exp_avg_sq = NULL;
    assert_int_equal(checkpoint_load(&weights_only, a.folder, 5, &b.x.err), OK);
    assert_true(b.c.exp_avg[0] == 9);
    same_weights(&a, a.c.weights, b.c.weights, false);
    run_release(&a);
    run_release(&b);
}

static void padding_of_the_vocabulary_may_change(void **state)
{
    (void)state;
#define PAD " model.should_pad_vocab=true model.make_vocab_size_divisible_by="
    static const char *const pads[] = {"", (PAD "128"), (PAD "7")};
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            run a, b;
            char x[1024], y[1024];
            snprintf(x, sizeof x, "%s%s", tiny, pads[from]);
            snprintf(y, sizeof y, "%s%s", tiny, pads[to]);
            run_init(&a, NULL, x);
            run_init(&b, NULL, y);
            fill(&a, 5);
            save(&a, 1, 0);
            if (checkpoint_load(&b.c, a.folder, 1, &b.x.err)) fail_msg("%s", b.x.err.text);
            for (int i = 0; i < a.x.w.n; i++) {
                const weight *u = &a.x.w.list[i], *v = &b.x.w.list[i];
                int64_t n = u->n < v->n ? u->n : v->n;
                assert_memory_equal(a.c.weights + u->offset, b.c.weights + v->offset,
                                    (size_t)n * sizeof(float));
            }
            assert_true(checkpoint_fingerprint(a.x.s, &a.x.w) ==
                        checkpoint_fingerprint(b.x.s, &b.x.w));
            run_release(&a);
            run_release(&b);
        }
}

/* ---- many files */

/* A box of a weight: elements of `values` whose place in the first dimension is in [lo, hi), or in
 * the last dimension where `last`. */
static void put_box(tensor_writer *out, const weight *w, const float *values, bool last, error *err)
{
    const tensor_spec *t = &out->specs[out->at];
    const param *p = w->row;
    int cut = last ? p->n_dims - 1 : 0;
    int64_t inner = last ? 1 : w->n / p->dim[0], size = p->dim[cut];
    float *box = malloc((size_t)w->n * sizeof *box);
    int64_t n = 0;
    for (int64_t i = 0; i < w->n; i++) {
        int64_t place = i / inner % size;
        if (place >= t->at[cut] && place < t->at[cut] + t->dim[cut])
            box[n++] = values[w->offset + i];
    }
    if (tensor_writer_put(out, box, (size_t)n * sizeof *box, err)) fail_msg("%s", err->text);
    free(box);
}

/* Writes part `part` of 3 of every weight, cut along its first dimension, or along its last in
 * every other weight; `skew` shifts the boxes of the last part. */
static void write_part(run *r, const char *path, int part, int64_t skew, checkpoint_file *f)
{
    arena *a = r->x.a;
    tensor_spec *specs = ARENA_ARRAY(a, tensor_spec, r->x.w.n);
    const weight **whose = ARENA_ARRAY(a, const weight *, r->x.w.n);
    tensor_writer out = {.format = "moefold", .specs = specs, .fd = -1};
    for (int i = 0; i < r->x.w.n; i++) {
        const param *p = r->x.w.list[i].row;
        int cut = i % 2 ? p->n_dims - 1 : 0;
        int64_t *at = ARENA_ARRAY(a, int64_t, PARAM_DIMS_MAX), third = (p->dim[cut] + 2) / 3;
        int64_t lo = part * third, hi = part == 2 ? p->dim[cut] : lo + third;
        if (hi > p->dim[cut]) hi = p->dim[cut];
        if (part == 2) lo += skew;
        if (lo >= hi) continue;
        tensor_spec *t = &specs[out.n_specs];
        at[cut] = lo;
        *t = (tensor_spec){
            .name = arena_text(a, "%s[%d]", weight_name(a, r->x.s, &r->x.w.list[i]), part),
            .dtype = "F32",
            .n_dims = p->n_dims,
            .of = p->dim,
            .at = at};
        memcpy(t->dim, p->dim, sizeof *p->dim * (size_t)p->n_dims);
        t->dim[cut] = hi - lo;
        whose[out.n_specs++] = &r->x.w.list[i];
    }
    f->name = arena_text(a, "weights-%05d-of-00003.safetensors", part);
    out.path = arena_text(a, "%s/%s", path, f->name);
    if (tensor_writer_open(&out, a, &r->x.err)) fail_msg("%s", r->x.err.text);
    for (int i = 0; i < out.n_specs; i++)
        put_box(&out, whose[i], r->c.weights, (whose[i] - r->x.w.list) % 2, &r->x.err);
    if (tensor_writer_close(&out, a, &r->x.err)) fail_msg("%s", r->x.err.text);
    f->kind = "weights";
    f->bytes = (int64_t)out.header_bytes + out.written;
    f->header_sum = out.header_sum;
}

/* Replaces the weights of iteration 1 by three files, of which `n_files` are named. */
static void split(run *r, int n_files, int64_t skew)
{
    const char *path = arena_text(r->x.a, "%s/iter_0000001", r->folder);
    checkpoint_info info;
    if (checkpoint_read_info(&info, r->x.a, r->folder, 1, &r->x.err)) fail_msg("%s", r->x.err.text);
    checkpoint_file files[3];
    for (int part = 0; part < 3; part++) write_part(r, path, part, skew, &files[part]);
    info.files = files;
    info.n_files = n_files;
    json_t *root = checkpoint_meta_make(&info);
    checkpoint_meta_seal(root);
    (void)remove(inside(r, 1, CHECKPOINT_META));
    if (checkpoint_meta_write(root, path, &r->x.err)) fail_msg("%s", r->x.err.text);
    json_decref(root);
}

static void try_split(const char *name, const char *overrides, int n_files, int64_t skew,
                      const char *says)
{
    run a, b;
    run_init(&a, name, overrides);
    run_init(&b, name, overrides);
    fill(&a, 6);
    save(&a, 1, 0);
    split(&a, n_files, skew);
    status s = checkpoint_load(&b.c, a.folder, 1, &b.x.err);
    if (s != (says ? ERR_INPUT : OK)) fail_msg("%s", b.x.err.text);
    if (says)
        assert_has(b.x.err.text, says);
    else
        same_weights(&a, a.c.weights, b.c.weights, false);
    run_release(&a);
    run_release(&b);
}

static void boxes_of_many_files_make_the_same_weights(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        char name[128];
        snprintf(name, sizeof name, GOLDEN "%s", golden_cases[i]);
        try_split(name, NULL, 3, 0, NULL);
    }
    try_split(NULL, tiny, 2, 0, "of its");
    try_split(NULL, tiny, 3, -1, "overlap");
    try_split(NULL, tiny, 3, 1, "of its");
}

/* ---- another model */

static void another_model_is_refused_by_its_first_weight(void **state)
{
    (void)state;
    static const struct {
        const char *overrides, *says;
    } rows[] = {
        {" model.num_layers=3", "no weight decoder.layers.2."},
        {" model.num_layers=1", "this has no weight decoder.layers.1."},
        {" model.hidden_size=16",
         "embedding.word_embeddings.weight has the shape [12, 8] there, [12, 16]"},
        {" model.vocab_size=13", "embedding.word_embeddings.weight has the shape"},
        {" model.moe_ffn_hidden_size=6", "decoder.layers.0.mlp.experts.linear_fc1.weight"},
        {" model.moe_router_enable_expert_bias=false",
         "this has no weight decoder.layers.0.mlp.router.expert_bias"},
        {" model.qk_layernorm=true",
         "it has no weight decoder.layers.0.self_attention.q_layernorm"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run a, b;
        char other[1024];
        snprintf(other, sizeof other, "%s%s", tiny, rows[i].overrides);
        run_init(&a, NULL, tiny);
        run_init(&b, NULL, other);
        save(&a, 1, 0);
        assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), ERR_INPUT);
        assert_has(b.x.err.text, rows[i].says);
        assert_has(b.x.err.text, "another model");
        assert_true(checkpoint_fingerprint(a.x.s, &a.x.w) != checkpoint_fingerprint(b.x.s, &b.x.w));
        run_release(&a);
        run_release(&b);
    }
}

/* ---- damage */

static void a_damaged_tensor_is_named(void **state)
{
    (void)state;
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 7);
    save(&a, 1, 0);
    const char *path = inside(&a, 1, WEIGHTS);
    opened f = open_file(a.x.a, path);
    size_t n;
    char *good = get_file(a.x.a, path, &n), *bytes = malloc(n);
    for (int i = 0; i < f.f.n_tensors; i++) {
        const safetensor *t = &f.f.tensors[i];
        memcpy(bytes, good, n);
        bytes[f.f.data + t->begin + (t->end - t->begin) / 2] ^= 4;
        put_file(path, bytes, n);
        assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), ERR_INPUT);
        assert_has(b.x.err.text, arena_text(a.x.a, "'%s'", t->name));
        assert_has(b.x.err.text, WEIGHTS);
    }
    put_file(path, good, n - 4); /* the last tensor is cut */
    assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), ERR_INPUT);
    assert_has(b.x.err.text, "tensor '");
    remove(path);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), ERR_INPUT);
    assert_has(b.x.err.text, WEIGHTS);
    put_file(path, good, n);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), OK);
    free(bytes);
    run_release(&a);
    run_release(&b);
}

static size_t damage(char *bytes, size_t n, uint64_t *seed)
{
    uint32_t kind = draw_below(seed, 4);
    for (uint32_t i = kind == 0 ? 0 : 1 + draw_below(seed, 4); i > 0; i--) {
        size_t at = draw_below(seed, draw_below(seed, 2) && n > 400 ? 400 : n);
        bytes[at] = draw_below(seed, 2) ? (char)draw_bits(seed) : (char)(bytes[at] ^ 1);
    }
    return kind < 2 ? draw_below(seed, n) : n;
}

static void ten_thousand_damaged_checkpoints_end_in_an_answer(void **state)
{
    (void)state;
    static const char *const names[] = {WEIGHTS, "exp_avg-00000-of-00001.safetensors",
                                        "exp_avg_sq-00000-of-00001.safetensors", "metadata.json"};
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 8);
    save(&a, 1, 0);
    uint64_t seed = 9;
    int refused = 0;
    for (int k = 0; k < 4; k++) {
        const char *path = inside(&a, 1, names[k]);
        size_t n;
        char *good = get_file(a.x.a, path, &n), *bytes = malloc(n);
        for (int round = 0; round < 2500; round++) {
            memcpy(bytes, good, n);
            put_file(path, bytes, damage(bytes, n, &seed));
            error err = {{0}};
            status s = checkpoint_load(&b.c, a.folder, 1, &err);
            assert_true(s == OK || s == ERR_INPUT);
            if (s)
                assert_has(err.text, "iter_0000001");
            else
                same_runs(&a, &b); /* what is not found did not matter */
            refused += s != OK;
        }
        put_file(path, good, n);
        free(bytes);
    }
    assert_true(refused > 9500);
    run_release(&a);
    run_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_come_back_bit_for_bit),
        cmocka_unit_test(tensor_files_are_safetensors_in_megatrons_words),
        cmocka_unit_test(the_recipe_inside_rebuilds_the_model),
        cmocka_unit_test(weights_alone_start_with_zero_moments),
        cmocka_unit_test(padding_of_the_vocabulary_may_change),
        cmocka_unit_test(boxes_of_many_files_make_the_same_weights),
        cmocka_unit_test(another_model_is_refused_by_its_first_weight),
        cmocka_unit_test(a_damaged_tensor_is_named),
        cmocka_unit_test(ten_thousand_damaged_checkpoints_end_in_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
