/* test_hf.c - weights from and to Hugging Face files: maps are what they should be, lose nothing
 * and are undone exactly; every spelling reads alike. */
#include "hf_testing.h"

/* ---- there and back */

static void golden_files_come_back_byte_for_byte(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        loaded x;
        loaded_golden(&x, golden_cases[i], NULL);
        const char *folder = scratch_make(x.a);
        hf_saved saved;
        hf_options o = {.saved = &saved};
        if (hf_save(x.s, &x.w, x.flat, folder, &o, &x.err)) fail_msg("%s", x.err.text);
        const char *source = arena_text(x.a, GOLDEN "%s/model.safetensors", golden_cases[i]);
        opened a = open_file(x.a, source), b = open_file(x.a, weights_path(x.a, folder));
        assert_int_equal(a.f.n_tensors, b.f.n_tensors);
        assert_int_equal(saved.n_tensors, b.f.n_tensors);
        for (int k = 0; k < a.f.n_tensors; k++) {
            const safetensor *t = &a.f.tensors[k], *u = &b.f.tensors[k];
            assert_string_equal(t->name, u->name);
            assert_string_equal(shape_of(x.a, t), shape_of(x.a, u));
            assert_memory_equal(tensor_bytes(&a, t), tensor_bytes(&b, u),
                                (size_t)(t->end - t->begin));
        }
        /* Even the header is the one that their library writes (mtp-tiny has no metadata). */
        if (strcmp(golden_cases[i], "mtp-tiny") != 0)
            same_files(x.a, source, weights_path(x.a, folder));
        scratch_remove(folder);
        loaded_release(&x);
    }
}

static void reports_account_for_everything(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        loaded x;
        hf_report r;
        loaded_golden(&x, golden_cases[i], NULL);
        loaded_from(&x, arena_text(x.a, GOLDEN "%s", golden_cases[i]), &r);
        assert_int_equal(r.n_files, 1);
        assert_int_equal(r.used.tensors, r.found.tensors);
        assert_int_equal(r.used.elements, r.found.elements);
        assert_int_equal(r.written, r.found.elements);
        assert_int_equal(r.written, loaded_elements(&x));
        assert_int_equal(r.applied.tensors + r.ignored.tensors, 0);
        loaded_release(&x);
    }
}

/* Marks what each part of each weight touches, on both sides, window by window. */
static void mark_weight(const loaded *x, const weight *w, hf_spelling spelling, int64_t window)
{
    unsigned char *ours = calloc((size_t)w->n, 1);
    for (int64_t i = 0; i < hf_parts(w, spelling); i++) {
        hf_part p;
        hf_part_init(&p, &x->s->m, w, spelling, i, x->a);
        unsigned char *hf = calloc((size_t)p.elements, 1);
        for (int64_t lo = 0; lo < p.elements; lo += window) {
            int64_t hi = lo + window < p.elements ? lo + window : p.elements;
            hf_runs runs = hf_runs_of(&p, lo, hi);
            for (hf_run r; hf_runs_next(&runs, &r);) {
                for (int64_t k = 0; k < r.n; k++) {
                    int64_t at = r.hf + k * r.hf_step, to = r.ours + k * r.our_step;
                    assert_true(at >= lo && at < hi && to >= 0 && to < w->n);
                    hf[at]++;
                    ours[to]++;
                }
            }
        }
        for (int64_t k = 0; k < p.elements; k++) assert_int_equal(hf[k], 1);
        free(hf);
    }
    int64_t padding = hf_padding(&x->s->m, w);
    for (int64_t k = 0; k < w->n; k++) assert_int_equal(ours[k], k < w->n - padding);
    free(ours);
}

static void every_element_is_mapped_once(void **state)
{
    (void)state;
    static const int64_t windows[] = {INT64_C(1) << 40, 4096, 37};
    for (int i = 0; i < N_GOLDEN; i++) {
        loaded x;
        loaded_golden(&x, golden_cases[i],
                      "model.should_pad_vocab=true model.make_vocab_size_divisible_by=100");
        for (int k = 0; k < x.w.n; k++)
            for (int sp = 0; sp < HF_SPELLINGS; sp++)
                for (size_t n = 0; n < sizeof windows / sizeof *windows; n++)
                    if (hf_parts(&x.w.list[k], (hf_spelling)sp))
                        mark_weight(&x, &x.w.list[k], (hf_spelling)sp, windows[n]);
        loaded_release(&x);
    }
}

/* ---- what the maps mean, by the formulas of params.h */

static opened golden_file(arena *a, const char *name)
{
    return open_file(a, arena_text(a, GOLDEN "%s/model.safetensors", name));
}

static void groups_hold_their_queries_key_and_value(void **state)
{
    (void)state;
    loaded x;
    loaded_golden(&x, "qwen3-moe-tiny", NULL);
    opened f = golden_file(x.a, "qwen3-moe-tiny");
    const model *m = &x.s->m;
    const float *w = ours(&x, 1, "self_attention.linear_qkv.weight");
    const float *q = tensor_named(&f, "model.layers.1.self_attn.q_proj.weight");
    const float *k = tensor_named(&f, "model.layers.1.self_attn.k_proj.weight");
    const float *v = tensor_named(&f, "model.layers.1.self_attn.v_proj.weight");
    int64_t each = m->attention->heads / m->attention->kv_heads,
            head = m->attention->head_dim * m->hidden;
    for (int64_t g = 0; g < m->attention->kv_heads; g++) {
        for (int64_t j = 0; j < each; j++, w += head) same_rows(w, q + (g * each + j) * head, head);
        same_rows(w, k + g * head, head);
        same_rows(w + head, v + g * head, head);
        w += 2 * head;
    }
    loaded_release(&x);
}

static void gates_follow_the_queries_of_their_group(void **state)
{
    (void)state;
    loaded x;
    loaded_golden(&x, "qwen3-next-tiny", NULL);
    opened f = golden_file(x.a, "qwen3-next-tiny");
    const model *m = &x.s->m;
    const float *w = ours(&x, 3, "self_attention.linear_qkv.weight");
    const float *q = tensor_named(&f, "model.layers.3.self_attn.q_proj.weight");
    const float *k = tensor_named(&f, "model.layers.3.self_attn.k_proj.weight");
    int64_t each = m->attention->heads / m->attention->kv_heads,
            head = m->attention->head_dim * m->hidden;
    for (int64_t g = 0; g < m->attention->kv_heads; g++) {
        for (int gate = 0; gate < 2; gate++)
            for (int64_t j = 0; j < each; j++, w += head)
                same_rows(w, q + (2 * (g * each + j) + gate) * head, head);
        same_rows(w, k + g * head, head);
        w += 2 * head;
    }
    loaded_release(&x);
}

static void delta_net_sections_run_over_all_heads(void **state)
{
    (void)state;
    loaded x;
    loaded_golden(&x, "qwen3-next-tiny", NULL);
    opened f = golden_file(x.a, "qwen3-next-tiny");
    const model *m = &x.s->m;
    const float *w = ours(&x, 0, "self_attention.in_proj.weight");
    const float *qkvz = tensor_named(&f, "model.layers.0.linear_attn.in_proj_qkvz.weight");
    const float *ba = tensor_named(&f, "model.layers.0.linear_attn.in_proj_ba.weight");
    int64_t h = m->hidden, heads = m->gdn->k_heads, r = m->gdn->v_heads / heads;
    int64_t width[6] = {m->gdn->k_dim, m->gdn->k_dim, r * m->gdn->v_dim, r * m->gdn->v_dim, r, r};
    int64_t before = 0;
    for (int part = 0; part < 6; part++) {
        const float *from = part < 4 ? qkvz : ba;
        int64_t period = part < 4 ? 2 * width[0] + 2 * width[2] : 2 * r;
        if (part == 4) before = 0;
        for (int64_t k = 0; k < heads; k++, w += width[part] * h)
            same_rows(w, from + (k * period + before) * h, width[part] * h);
        before += width[part];
    }
    loaded_release(&x);
}

static void fused_outputs_alternate_between_gate_and_up(void **state)
{
    (void)state;
    loaded x;
    loaded_golden(&x, "gpt-oss-tiny", NULL);
    opened f = golden_file(x.a, "gpt-oss-tiny");
    const model *m = &x.s->m;
    const float *fc1 = ours(&x, 2, "mlp.experts.linear_fc1.weight");
    const float *bias = ours(&x, 2, "mlp.experts.linear_fc1.bias");
    const float *fc2 = ours(&x, 2, "mlp.experts.linear_fc2.weight");
    const float *up = tensor_named(&f, "model.layers.2.mlp.experts.gate_up_proj");
    const float *up_bias = tensor_named(&f, "model.layers.2.mlp.experts.gate_up_proj_bias");
    const float *down = tensor_named(&f, "model.layers.2.mlp.experts.down_proj");
    int64_t E = m->moe->experts, F = m->moe->ffn, H = m->hidden;
    for (int64_t e = 0; e < E; e++)
        for (int64_t half = 0; half < 2; half++)
            for (int64_t j = 0; j < F; j++) {
                int64_t row = e * 2 * F + half * F + j;
                assert_true(bias[row] == up_bias[e * 2 * F + 2 * j + half]);
                for (int64_t i = 0; i < H; i++)
                    assert_true(fc1[row * H + i] == up[(e * H + i) * 2 * F + 2 * j + half]);
            }
    for (int64_t e = 0; e < E; e++)
        for (int64_t i = 0; i < H; i++)
            for (int64_t j = 0; j < F; j++)
                assert_true(fc2[(e * H + i) * F + j] == down[(e * F + j) * H + i]);
    loaded_release(&x);
}

static void only_weights_are_shifted(void **state)
{
    (void)state;
    loaded x;
    loaded_golden(&x, "qwen3-next-tiny", NULL);
    opened f = golden_file(x.a, "qwen3-next-tiny");
    const char *name = "model.layers.1.linear_attn.norm.weight";
    const float *stored = tensor_named(&f, name),
                *w = ours(&x, 1, "self_attention.out_norm.weight");
    float out[16];
    hf_flat flat = {x.s, &x.w, x.flat, false}, gradient = {x.s, &x.w, x.flat, true};
    assert_int_equal(hf_tensor(&flat, name, out, 16, &x.err), OK);
    same_rows(out, stored, 16);
    for (int i = 0; i < 16; i++) assert_true(w[i] == stored[i] - 1.0f);
    assert_int_equal(hf_tensor(&gradient, name, out, 16, &x.err), OK);
    same_rows(out, w, 16);
    assert_int_equal(hf_tensor(&flat, name, out, 15, &x.err), ERR_INPUT);
    assert_has(x.err.text, name);
    assert_int_equal(hf_tensor(&flat, "model.layers.9.x", out, 16, &x.err), ERR_INPUT);
    assert_has(x.err.text, "model.layers.9.x");
    loaded_release(&x);
}

static void single_tensors_are_those_of_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        loaded x;
        loaded_golden(&x, golden_cases[i], NULL);
        opened f = golden_file(x.a, golden_cases[i]);
        hf_flat flat = {x.s, &x.w, x.flat, false}, gradient = {x.s, &x.w, x.flat, true};
        int n = 0;
        hf_walk walk = {.s = x.s, .w = &x.w};
        for (hf_part p; hf_walk_next(&walk, &p, x.a); n++) {
            float *out = malloc((size_t)p.elements * sizeof *out);
            assert_int_equal(hf_tensor(&flat, p.name, out, p.elements, &x.err), OK);
            same_rows(out, tensor_named(&f, p.name), p.elements);
            status s = hf_tensor(&gradient, p.name, out, p.elements, &x.err);
            assert_int_equal(s, p.w->row->trained ? OK : ERR_INPUT);
            free(out);
        }
        assert_int_equal(n, f.f.n_tensors);
        loaded_release(&x);
    }
}

static void rows_that_pad_the_vocabulary_are_left_alone(void **state)
{
    (void)state;
    loaded x, y;
    hf_report r;
    loaded_golden(&x, "mixtral-tiny", NULL);
    loaded_init(&y, GOLDEN "mixtral-tiny",
                "model.should_pad_vocab=true model.make_vocab_size_divisible_by=100");
    for (int64_t i = 0; i < y.w.elements; i++) y.flat[i] = 7.0f;
    loaded_from(&y, GOLDEN "mixtral-tiny", &r);
    const float *a = ours(&x, 0, "output_layer.weight"), *b = ours(&y, 0, "output_layer.weight");
    same_rows(a, b, 128 * 64);
    for (int64_t i = 128 * 64; i < 200 * 64; i++) assert_true(b[i] == 7.0f);
    assert_int_equal(r.padded, 2 * 72 * 64);
    assert_int_equal(r.written, loaded_elements(&x));
    loaded_release(&x);
    loaded_release(&y);
}

/* ---- spellings */

static void shards_read_like_one_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        loaded x, y;
        hf_report r;
        hf_saved saved;
        loaded_golden(&x, golden_cases[i], NULL);
        const char *folder = scratch_make(x.a);
        hf_options o = {.shard_bytes = 16000, .saved = &saved};
        o.config = patched(x.a, golden_cases[i], "{}");
        if (hf_save(x.s, &x.w, x.flat, folder, &o, &x.err)) fail_msg("%s", x.err.text);
        assert_true(saved.n_files > 5);
        assert_false(file_exists(weights_path(x.a, folder)));
        loaded_init(&y, folder, NULL);
        loaded_from(&y, folder, &r);
        assert_int_equal(r.n_files, saved.n_files);
        assert_int_equal(r.written, loaded_elements(&x));
        same_flats(&x, &y);
        scratch_remove(folder);
        loaded_release(&x);
        loaded_release(&y);
    }
}

/* The experts of one layer in one tensor, made of their bytes one after the other. */
static void fuse_layer(made_file *f, const opened *o, const char *layer, const char *format,
                       const char *const parts[3], int experts)
{
    textbuf up = text_init(f->a), down = text_init(f->a);
    const safetensor *t = NULL, *first = NULL;
    for (int e = 0; e < experts; e++)
        for (int k = 0; k < 3; k++) {
            const char *inside = arena_text(f->a, "%d.%s", e, parts[k]);
            t = safetensors_find(&o->f, arena_text(f->a, "%s%s%s", layer, format, inside));
            assert_non_null(t);
            if (k == 0) first = t;
            text_put(k < 2 ? &up : &down, tensor_bytes(o, t), (size_t)(t->end - t->begin));
        }
    made_add(f, arena_text(f->a, "%smlp.experts.gate_up_proj", layer), "F32",
             arena_text(f->a, "%d,%d,%d", experts, (int)first->dim[0] * 2, (int)first->dim[1]),
             up.s, up.n);
    made_add(f, arena_text(f->a, "%smlp.experts.down_proj", layer), "F32",
             arena_text(f->a, "%d,%d,%d", experts, (int)t->dim[0], (int)t->dim[1]), down.s, down.n);
}

static const char *unfused_name(arena *a, const char *name)
{
    static const char block[] = "block_sparse_moe.";
    const char *at = strstr(name, block);
    return at ? arena_text(a, "%.*smlp.%s", (int)(at - name), name, at + sizeof block - 1) : name;
}

static void fused_experts_read_like_single_ones(void **state)
{
    (void)state;
    static const char *const usual[] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
    static const char *const mixtral[] = {"w1.weight", "w3.weight", "w2.weight"};
    for (int i = 0; i < N_GOLDEN; i++) {
        const char *name = golden_cases[i];
        bool is_mixtral = strcmp(name, "mixtral-tiny") == 0 || strcmp(name, "minimax-m2-tiny") == 0;
        if (strcmp(name, "gpt-oss-tiny") == 0) continue; /* has no other spelling */
        loaded x, y;
        loaded_golden(&x, name, NULL);
        opened o = golden_file(x.a, name);
        made_file f = made_file_init(x.a);
        const char *format = is_mixtral ? "block_sparse_moe.experts." : "mlp.experts.";
        for (int k = 0; k < o.f.n_tensors; k++)
            if (!strstr(o.f.tensors[k].name, ".experts."))
                made_copy(&f, &o, &o.f.tensors[k], unfused_name(x.a, o.f.tensors[k].name));
        for (int64_t l = 0; l < x.s->m.n_layers + x.s->m.n_mtp; l++)
            if (model_layer_has(&x.s->m, l, BLOCK_MOE))
                fuse_layer(&f, &o, arena_text(x.a, "model.layers.%" PRId64 ".", l), format,
                           is_mixtral ? mixtral : usual, (int)x.s->m.moe->experts);
        const char *folder = folder_with_config(x.a, name, "{}");
        made_write(&f, weights_path(x.a, folder));
        loaded_init(&y, folder, NULL);
        loaded_from(&y, folder, NULL);
        same_flats(&x, &y);
        scratch_remove(folder);
        loaded_release(&x);
        loaded_release(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_come_back_byte_for_byte),
        cmocka_unit_test(reports_account_for_everything),
        cmocka_unit_test(every_element_is_mapped_once),
        cmocka_unit_test(groups_hold_their_queries_key_and_value),
        cmocka_unit_test(gates_follow_the_queries_of_their_group),
        cmocka_unit_test(delta_net_sections_run_over_all_heads),
        cmocka_unit_test(fused_outputs_alternate_between_gate_and_up),
        cmocka_unit_test(only_weights_are_shifted),
        cmocka_unit_test(single_tensors_are_those_of_the_file),
        cmocka_unit_test(rows_that_pad_the_vocabulary_are_left_alone),
        cmocka_unit_test(shards_read_like_one_file),
        cmocka_unit_test(fused_experts_read_like_single_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
