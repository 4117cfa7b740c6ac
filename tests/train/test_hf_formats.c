/* test_hf_formats.c - number formats of Hugging Face files: each pattern means its value, and
 * packed weights read like their values. */
#include "hf_testing.h"

#include <math.h>

#include "base/dtype.h"
#include "train/hf/source.h"

static void every_pattern_decodes_to_its_value(void **state)
{
    (void)state;
    const hf_dtype *f16 = hf_dtype_find("F16"), *bf16 = hf_dtype_find("BF16");
    const hf_dtype *f8 = hf_dtype_find("F8_E4M3");
    for (int b = 0; b < 65536; b++) {
        uint16_t raw = (uint16_t)b;
        float v, w;
        int e = b >> 10 & 31, m = b & 1023;
        double size = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        f16->decode(&raw, &v, 1);
        if (e == 31)
            assert_true(m ? isnan(v) : isinf(v));
        else
            assert_true((double)fabsf(v) == size && !signbit(v) == !(b >> 15));
        bf16->decode(&raw, &w, 1);
        uint32_t bits;
        memcpy(&bits, &w, sizeof bits);
        assert_int_equal(bits, (uint32_t)b << 16);
        if (!isnan(w)) assert_int_equal(bf16_of_float(w), raw);
    }
    for (int b = 0; b < 256; b++) {
        uint8_t raw = (uint8_t)b;
        float v;
        int e = b >> 3 & 15, m = b & 7;
        f8->decode(&raw, &v, 1);
        if (e == 15 && m == 7)
            assert_true(isnan(v));
        else
            assert_true((double)fabsf(v) == (e ? ldexp(8 + m, e - 10) : ldexp(m, -9)) &&
                        !signbit(v) == !(b >> 7));
    }
    assert_null(hf_dtype_find("I32"));
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t from;
        uint16_t to;
    } rows[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
                {0x3f818000, 0x3f82}, {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80},
                {0x7f800000, 0x7f80}, {0x7f800001, 0x7fc0}, {0x80000000, 0x8000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float v;
        memcpy(&v, &rows[i].from, sizeof v);
        assert_int_equal(bf16_of_float(v), rows[i].to);
    }
}

static void bf16_files_hold_rounded_weights(void **state)
{
    (void)state;
    loaded x, y;
    loaded_golden(&x, "deepseek-v3-tiny", NULL);
    const char *folder = scratch_make(x.a);
    hf_options o = {.bf16 = true};
    o.config = patched(x.a, "deepseek-v3-tiny", "{}");
    if (hf_save(x.s, &x.w, x.flat, folder, &o, &x.err)) fail_msg("%s", x.err.text);
    loaded_init(&y, folder, NULL);
    loaded_from(&y, folder, NULL);
    const float *bias = ours(&x, 2, "mlp.router.expert_bias");
    same_rows(ours(&y, 2, "mlp.router.expert_bias"), bias, x.s->m.moe->experts); /* stays FP32 */
    for (int64_t i = 0; i < x.w.trained; i++) {
        uint16_t b = bf16_of_float(x.flat[i]);
        float rounded;
        hf_dtype_find("BF16")->decode(&b, &rounded, 1);
        assert_true(rounded == y.flat[i]);
    }
    scratch_remove(folder);
    loaded_release(&x);
    loaded_release(&y);
}

static float from_e4m3(uint8_t b)
{
    float v;
    hf_dtype_find("F8_E4M3")->decode(&b, &v, 1);
    return v;
}

/* FP8 with its scales and the values that they mean, in a file of FP32. */
static void add_fp8(made_file *packed, made_file *plain, const hf_part *p, uint64_t *seed)
{
    int64_t rows = p->dim[0], cols = p->dim[1], bc = (cols + 127) / 128, br = (rows + 127) / 128;
    uint8_t *raw = arena_take(packed->a, (size_t)p->elements);
    float *scale = ARENA_ARRAY(packed->a, float, br *bc);
    float *values = ARENA_ARRAY(packed->a, float, p->elements);
    const char *shape = arena_text(packed->a, "%" PRId64 ",%" PRId64, rows, cols);
    for (int64_t i = 0; i < br * bc; i++) scale[i] = draw_real(seed);
    for (int64_t i = 0; i < p->elements; i++) {
        raw[i] = (uint8_t)(draw_bits(seed) & 0xbf); /* no NaN */
        values[i] = from_e4m3(raw[i]) * scale[i / cols / 128 * bc + i % cols / 128];
    }
    made_add(packed, p->name, "F8_E4M3", shape, raw, (size_t)p->elements);
    made_add(packed, arena_text(packed->a, "%s_scale_inv", p->name), "F32",
             arena_text(packed->a, "%" PRId64 ",%" PRId64, br, bc), scale, (size_t)(br * bc) * 4);
    made_add(plain, p->name, "F32", shape, values, (size_t)p->elements * 4);
}

static void add_random(made_file *x, made_file *y, const hf_part *p, uint64_t *seed)
{
    float *v = ARENA_ARRAY(x->a, float, p->elements);
    textbuf shape = text_init(x->a);
    for (int i = 0; i < p->n_dims; i++) text_add(&shape, i ? ",%" PRId64 : "%" PRId64, p->dim[i]);
    for (int64_t i = 0; i < p->elements; i++) v[i] = draw_real(seed);
    made_add(x, p->name, "F32", shape.s, v, (size_t)p->elements * 4);
    made_add(y, p->name, "F32", shape.s, v, (size_t)p->elements * 4);
}

static void fp8_blocks_read_like_their_values(void **state)
{
    (void)state;
    uint64_t seed = 5;
    arena *a = arena_create();
    static const char sizes[] = "{'hidden_size':200,'intermediate_size':500,"
                                "'moe_intermediate_size':136,'num_hidden_layers':2,"
                                "'quantization_config':{'quant_method':'fp8'}}";
    const char *packed = folder_with_config(a, "deepseek-v3-tiny", sizes);
    const char *plain = folder_with_config(a, "deepseek-v3-tiny", sizes);
    loaded x, y;
    hf_report r;
    loaded_init(&x, packed, NULL);
    loaded_init(&y, plain, NULL);
    made_file f = made_file_init(a), g = made_file_init(a);
    int scaled = 0;
    hf_walk walk = {.s = x.s, .w = &x.w};
    for (hf_part p; hf_walk_next(&walk, &p, a);) {
        bool quantised = p.n_dims == 2 && strstr(p.name, "proj");
        scaled += quantised;
        (quantised ? add_fp8 : add_random)(&f, &g, &p, &seed);
    }
    made_write(&f, weights_path(a, packed));
    made_write(&g, weights_path(a, plain));
    loaded_from(&x, packed, &r);
    loaded_from(&y, plain, NULL);
    same_flats(&x, &y);
    assert_true(scaled > 20);
    assert_int_equal(r.applied.tensors, scaled);
    assert_int_equal(r.used.tensors + r.applied.tensors, r.found.tensors);
    scratch_remove(packed);
    scratch_remove(plain);
    loaded_release(&x);
    loaded_release(&y);
    arena_destroy(a);
}

/* MXFP4 of [E][out][in] and the same values as FP32 in the plain spelling [E][in][out]. */
static void add_mxfp4(made_file *packed, made_file *plain, const hf_part *p, uint64_t *seed)
{
    static const float table[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    int64_t E = p->dim[0], in = p->dim[1], out = p->dim[2], n = p->elements;
    uint8_t *blocks = arena_take(packed->a, (size_t)n / 2);
    uint8_t *scales = arena_take(packed->a, (size_t)n / 32);
    float *values = ARENA_ARRAY(packed->a, float, n);
    for (int64_t i = 0; i < n / 2; i++) blocks[i] = (uint8_t)draw_bits(seed);
    for (int64_t i = 0; i < n / 32; i++) scales[i] = (uint8_t)(117 + draw_below(seed, 20));
    for (int64_t e = 0; e < E; e++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++) {
                int64_t at = (e * out + o) * in + i;
                int nibble = at % 2 ? blocks[at / 2] >> 4 : blocks[at / 2] & 15;
                float v = ldexpf(table[nibble & 7], scales[at / 32] - 127);
                values[(e * in + i) * out + o] = nibble & 8 ? -v : v;
            }
    const char *shape = arena_text(packed->a, "%d,%d,%d", (int)E, (int)out, (int)in / 32);
    made_add(packed, arena_text(packed->a, "%s_blocks", p->name), "U8",
             arena_text(packed->a, "%s,16", shape), blocks, (size_t)n / 2);
    made_add(packed, arena_text(packed->a, "%s_scales", p->name), "U8", shape, scales,
             (size_t)n / 32);
    made_add(plain, p->name, "F32", arena_text(packed->a, "%d,%d,%d", (int)E, (int)in, (int)out),
             values, (size_t)n * 4);
}

static void mxfp4_blocks_read_like_their_values(void **state)
{
    (void)state;
    uint64_t seed = 6;
    arena *a = arena_create();
    static const char sizes[] = "{'hidden_size':96,'intermediate_size':288,'num_hidden_layers':2,"
                                "'layer_types':['sliding_attention','full_attention']}";
    const char *packed = folder_with_config(a, "gpt-oss-tiny", sizes);
    const char *plain = folder_with_config(a, "gpt-oss-tiny", sizes);
    loaded x, y;
    hf_report r;
    loaded_init(&x, packed, NULL);
    loaded_init(&y, plain, NULL);
    made_file f = made_file_init(a), g = made_file_init(a);
    hf_walk walk = {.s = x.s, .w = &x.w};
    for (hf_part p; hf_walk_next(&walk, &p, a);) {
        bool quantised = p.w->row->hf == HF_EXPERT_FUSED_T && p.n_dims == 3;
        (quantised ? add_mxfp4 : add_random)(&f, &g, &p, &seed);
    }
    made_write(&f, weights_path(a, packed));
    made_write(&g, weights_path(a, plain));
    loaded_from(&x, packed, &r);
    loaded_from(&y, plain, NULL);
    same_flats(&x, &y);
    assert_int_equal(r.applied.tensors, 4);
    assert_int_equal(r.written, loaded_elements(&x));
    scratch_remove(packed);
    scratch_remove(plain);
    loaded_release(&x);
    loaded_release(&y);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_decodes_to_its_value),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_files_hold_rounded_weights),
        cmocka_unit_test(fp8_blocks_read_like_their_values),
        cmocka_unit_test(mxfp4_blocks_read_like_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
