/* test_quantise_places.c - a tile of codes that a GPU turns through shared memory arrives turned,
 * and no two threads that go at once meet in a bank. The GPU's threads are run here one after
 * another, with the kernel's own places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/kernels/quantise_places.h"

enum { THREADS = 256, BANKS = 32 };

static uint8_t code_of(int row, int col)
{
    return (uint8_t)(row * 37 + col * 101 + row * col);
}

static void a_tile_arrives_turned(void **state)
{
    static uint8_t shared[TURN_SIDE * TURN_SIDE], turned[TURN_SIDE][TURN_SIDE];
    (void)state;
    memset(shared, 0, sizeof shared);
    for (int t = 0; t < THREADS; t++)
        for (int j = 0; j < TURN_UNIT; j++)
            for (int i = 0; i < TURN_UNIT; i++) {
                const int col = t % TURN_UNITS * TURN_UNIT + j, unit = t / TURN_UNITS;
                shared[turned_store_at(col, unit) + i] = code_of(unit * TURN_UNIT + i, col);
            }
    for (int t = 0; t < THREADS; t++)
        for (int col = t / 8; col < TURN_SIDE; col += THREADS / 8) {
            const uint8_t *from = shared + turned_load_at(col, t % 8);
            const int first = turned_is_exchanged(col) ? TURN_UNIT : 0;
            memcpy(&turned[col][t % 8 * 16], from + first, TURN_UNIT);
            memcpy(&turned[col][t % 8 * 16 + TURN_UNIT], from + TURN_UNIT - first, TURN_UNIT);
        }
    for (int col = 0; col < TURN_SIDE; col++)
        for (int row = 0; row < TURN_SIDE; row++)
            assert_int_equal(turned[col][row], code_of(row, col));
}

/* Stores of eight bytes go for half a warp at once, loads of sixteen for a quarter. */
static void no_two_threads_meet_in_a_bank(void **state)
{
    (void)state;
    for (int half = 0; half < THREADS / 16; half++)
        for (int j = 0; j < TURN_UNIT; j++) {
            int used[BANKS] = {0};
            for (int t = half * 16; t < half * 16 + 16; t++) {
                const int col = t % TURN_UNITS * TURN_UNIT + j;
                const int at = turned_store_at(col, t / TURN_UNITS) / 4;
                assert_int_equal(used[at % BANKS]++ + used[(at + 1) % BANKS]++, 0);
            }
        }
    for (int quarter = 0; quarter < THREADS / 8; quarter++)
        for (int col = quarter; col < TURN_SIDE; col += THREADS / 8) {
            int used[BANKS] = {0};
            for (int t = 0; t < 8; t++)
                for (int w = 0; w < 4; w++)
                    assert_int_equal(used[(turned_load_at(col, t) / 4 + w) % BANKS]++, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_arrives_turned),
        cmocka_unit_test(no_two_threads_meet_in_a_bank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
