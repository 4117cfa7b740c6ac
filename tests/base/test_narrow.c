/* test_narrow.c - numbers of eight bits and fewer, against tables of another library
 * (tests/data/narrow/tables.txt) and against their own neighbours, every code and every BF16
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/narrow.h"

#define TABLES "tests/data/narrow/tables.txt"

static const struct {
    const char *name;
    dtype type;
    int codes;
} formats[] = {{"e4m3", DTYPE_E4M3, 256}, {"e5m2", DTYPE_E5M2, 256}, {"e2m1", DTYPE_FP4, 16}};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

/* The words behind a name. */
static int words_of(const char *name, char out[256][20])
{
    FILE *f = fopen(TABLES, "r");
    char line[4096], word[20];
    int n = 0, used;
    if (!f) fail_msg("no %s", TABLES);
    while (fgets(line, sizeof line, f)) {
        const char *at = line;
        if (line[0] == '#' || sscanf(at, "%19s%n", word, &used) != 1 || strcmp(word, name) != 0)
            continue;
        for (at += used; n < 256 && sscanf(at, "%19s%n", out[n], &used) == 1; at += used) n++;
    }
    fclose(f);
    return n;
}

static void every_code_is_what_others_read(void **state)
{
    (void)state;
    char words[256][20];
    for (int i = 0; i < N_FORMATS; i++) {
        assert_int_equal(words_of(formats[i].name, words), formats[i].codes);
        for (int c = 0; c < formats[i].codes; c++) {
            float want = float_of_bits((uint32_t)strtoul(words[c], NULL, 16));
            float got = narrow_to_float(narrow_format_of(formats[i].type), (uint8_t)c);
            if (isnan(want))
                assert_true(isnan(got));
            else if (float_bits(got) != float_bits(want))
                fail_msg("%s %d: %a, not %a", formats[i].name, c, (double)got, (double)want);
        }
    }
    assert_int_equal(words_of("e8m0", words), 256);
    for (int c = 0; c < 255; c++)
        assert_int_equal(float_bits(e8m0_to_float((uint8_t)c)), strtoul(words[c], NULL, 16));
    assert_true(isnan(e8m0_to_float(255)));
}

static void every_bf16_number_is_coded_as_others_do(void **state)
{
    (void)state;
    char words[256][20];
    for (int i = 0; i < N_FORMATS; i++) {
        char name[32];
        narrow_format f = narrow_format_of(formats[i].type);
        uint64_t sum = 0xcbf29ce484222325u;
        long n = 0;
        for (uint32_t b = 0; b < 65536; b++) {
            float v = bf16_to_float((uint16_t)b);
            if (!isfinite(v) || fabsf(v) > f.largest) continue;
            sum = (sum ^ narrow_of_float(f, v)) * 0x100000001b3u;
            n++;
        }
        snprintf(name, sizeof name, "%s-codes", formats[i].name);
        assert_int_equal(words_of(name, words), 2);
        assert_int_equal(n, strtol(words[0], NULL, 10));
        assert_true(sum == strtoull(words[1], NULL, 16));
    }
}

/* Numbers between two neighbours, and a hair beside their middle. */
static void the_nearer_neighbour_of_equal_ones_the_even(void **state)
{
    (void)state;
    for (int i = 0; i < N_FORMATS; i++) {
        narrow_format f = narrow_format_of(formats[i].type);
        for (int c = 0; c < f.most; c++) {
            float low = narrow_to_float(f, (uint8_t)c), high = narrow_to_float(f, (uint8_t)(c + 1));
            float middle = low + (high - low) / 2;
            int even = c % 2 ? c + 1 : c;
            assert_int_equal(narrow_of_float(f, middle), even);
            assert_int_equal(narrow_of_float(f, nextafterf(middle, 0)), c);
            assert_int_equal(narrow_of_float(f, nextafterf(middle, high)), c + 1);
            assert_int_equal(narrow_of_float(f, -middle), even | (f.most < 8 ? 8 : 128));
        }
        assert_int_equal(narrow_of_float(f, f.largest * 2), f.most); /* and saturates */
        assert_int_equal(narrow_of_float(f, -INFINITY), f.most | (f.most < 8 ? 8 : 128));
        assert_int_equal(narrow_of_float(f, nextafterf(f.largest, INFINITY)), f.most);
        assert_int_equal(narrow_of_float(f, NAN) & 0x7f, f.nan);
    }
}

static void a_scale_is_the_smallest_power_that_fits(void **state)
{
    (void)state;
    for (int i = 0; i < N_FORMATS; i++) {
        float largest = narrow_format_of(formats[i].type).largest;
        for (uint32_t b = 1; b < 0x7f80; b++) {
            float amax = bf16_to_float((uint16_t)b), s = scale_of_amax(amax, largest);
            assert_int_equal(float_bits(s) & 0x7fffff, 0);
            assert_true((double)amax / (double)s <= (double)largest);
            assert_true(s == 0x1p-126f || 2 * (double)amax / (double)s > (double)largest);
        }
        assert_true(scale_of_amax(0, largest) == 1);
        assert_true(isfinite(scale_of_amax(INFINITY, largest)));
        assert_true(factor_of_amax(largest, largest) == 1 && factor_of_amax(0, largest) == 1);
        assert_true(factor_of_amax(1e-45f, largest) == 0x1.fffffep127f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_what_others_read),
        cmocka_unit_test(every_bf16_number_is_coded_as_others_do),
        cmocka_unit_test(the_nearer_neighbour_of_equal_ones_the_even),
        cmocka_unit_test(a_scale_is_the_smallest_power_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
