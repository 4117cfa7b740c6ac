/* Gradient buffers against the plain loop over every weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "layout/buffer.h"

static uint64_t seed = 3;

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Megatron's loop, one weight at a time. */
static void add_one(buffer *b, int64_t size, bool alone)
{
    int64_t start = (b->end + b->align - 1) / b->align * b->align;
    if (alone && start > b->bucket_start) {
        start = (start + b->unit - 1) / b->unit * b->unit;
        b->bucket_start = start;
    }
    b->end = start + size;
    if (alone || (b->bucket_size && b->end - b->bucket_start >= b->bucket_size)) {
        b->end = (b->end + b->unit - 1) / b->unit * b->unit;
        b->bucket_start = b->end;
    }
}

static void runs_equal_the_plain_loop(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        bool sharded = draw(4) > 0;
        buffer quick = {.align = sharded ? 64 : 1,
                        .unit = sharded ? 128 * (1 + draw(9)) : 1,
                        .bucket_size = draw(3) ? draw(20000) : 0};
        buffer plain = quick;
        for (int64_t i = draw(12); i >= 0; i--) {
            int64_t n = draw(3) ? 1 : 1 + draw(60), size = draw(2) ? 64 * draw(40) : draw(3000);
            bool alone = draw(8) == 0;
            buffer_add(&quick, n, size, alone);
            for (int64_t j = 0; j < n && size; j++) add_one(&plain, size, alone);
            assert_int_equal(quick.end, plain.end);
            assert_int_equal(quick.bucket_start, plain.bucket_start);
        }
        int64_t length = buffer_close(&quick);
        assert_int_equal(length, (plain.end + plain.unit - 1) / plain.unit * plain.unit);
        assert_int_equal(length % quick.unit, 0);
    }
}

static void endless_sizes_saturate(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 63, INT64_C(1) << 40, SIZE_HUGE - 1, SIZE_HUGE};
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++) {
            for (int k = 0; k < 3; k++) {
                buffer b = {.align = 64, .unit = 128, .bucket_size = k == 0 ? 0 : sizes[2 * k]};
                for (int round = 0; round < 4; round++) buffer_add(&b, sizes[i], sizes[j], k == 2);
                int64_t length = buffer_close(&b);
                assert_true(length > 0 && length <= SIZE_HUGE);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_equal_the_plain_loop),
        cmocka_unit_test(endless_sizes_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
