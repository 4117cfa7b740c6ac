/* test_dtype.c - sizes of number formats, and rounding to BF16. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/dtype.h"

static void sizes(void **state)
{
    (void)state;
    static const int bits[DTYPE_COUNT] = {
        [DTYPE_F32] = 32, [DTYPE_F64] = 64, [DTYPE_BF16] = 16, [DTYPE_F16] = 16,
        [DTYPE_E4M3] = 8, [DTYPE_E5M2] = 8, [DTYPE_E8M0] = 8,  [DTYPE_FP4] = 4,
        [DTYPE_I32] = 32, [DTYPE_I16] = 16, [DTYPE_U8] = 8};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        assert_int_equal(dtype_bits((dtype)t), bits[t]);
        assert_true(dtype_name((dtype)t)[0] != 0);
        assert_int_equal(dtype_bytes((dtype)t, 0), 0);
        assert_int_equal(dtype_bytes((dtype)t, 6), 6 * bits[t] / 8);
        assert_int_equal(dtype_elements((dtype)t, dtype_bytes((dtype)t, 6)), 6);
        assert_true(dtype_bytes((dtype)t, INT64_MAX) > 0); /* no overflow */
    }
    assert_int_equal(dtype_bytes(DTYPE_FP4, 7), 4);
}

/* Of the two neighbours the nearer, of equally near ones the even; against arithmetic in double. */
static void rounding(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v;
        memcpy(&v, &seed, sizeof v);
        if (isnan(v)) {
            assert_true(isnan(bf16_to_float(bf16_of_float(v))));
            continue;
        }
        uint16_t got = bf16_of_float(v), low = (uint16_t)(seed >> 16);
        float a = bf16_to_float(low), b = bf16_to_float((uint16_t)(low + 1));
        if (isinf(b)) continue;
        double to_a = fabs((double)v - (double)a), to_b = fabs((double)b - (double)v);
        uint16_t want = to_a < to_b || (to_a == to_b && !(low & 1)) ? low : (uint16_t)(low + 1);
        assert_int_equal(got, want);
    }
    assert_true(isinf(bf16_to_float(bf16_of_float(3.4e38f))));
    float row[3] = {1, -2.5f, 1e-30f}, back[3];
    uint16_t narrow[3];
    bf16_of_floats(narrow, row, 3);
    bf16_to_floats(back, narrow, 3);
    for (int i = 0; i < 3; i++) assert_true(fabsf(back[i] - row[i]) <= fabsf(row[i]) / 256);
}

/* Every number of FP16 comes back, and so does what lies between two of them: the nearer, of
 * equally near ones the even. */
static void half_precision(void **state)
{
    (void)state;
    assert_true(f16_to_float(0x3c00) == 1 && f16_to_float(0xc000) == -2);
    assert_true(f16_to_float(1) == 0x1p-24f && f16_to_float(0x7bff) == 65504);
    assert_true(f16_of_float(65519.9f) == 0x7bff && f16_of_float(65520) == 0x7c00);
    for (uint16_t low = 0; low < 0x7c00; low++) {
        float a = f16_to_float(low), b = low == 0x7bff ? 65536 : f16_to_float((uint16_t)(low + 1));
        float middle = (a + b) / 2;
        uint16_t high = (uint16_t)(low + 1), sign = 0x8000;
        assert_int_equal(f16_of_float(a), low);
        assert_int_equal(f16_of_float(-a), low | sign);
        assert_int_equal(f16_of_float(nextafterf(middle, 0)), low);
        assert_int_equal(f16_of_float(middle), low & 1 ? high : low);
        assert_int_equal(f16_of_float(-nextafterf(middle, 1e6f)), high | sign);
    }
    assert_true(isinf(f16_to_float(0x7c00)) && isnan(f16_to_float(0x7c01)));
    assert_true(f16_of_float(-INFINITY) == 0xfc00 && isnan(f16_to_float(f16_of_float(NAN))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(rounding),
                                       cmocka_unit_test(half_precision)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
