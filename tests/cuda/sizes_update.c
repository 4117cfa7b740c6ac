/* sizes_update.c - sizes of moves, and of what a step ends with. */
#include "cuda/cases.h"

static const sizes tries[] = {
#define MOVES(x, y, ...)                                                                           \
    {OP_MOVE, {__VA_ARGS__}, 0, NULL, 0, (x)*1000000 + (y)},                                       \
    {                                                                                              \
        OP_MOVE, {__VA_ARGS__}, ACCUMULATE, NULL, 0, (x)*1000000 + (y)                             \
    }
    MOVES(1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    MOVES(60, 60, 3, 4, 5, 1, 20, 5, 1, 0, 1, 3, 12, 0),
    MOVES(120, 200, 2, 3, 4, 5, 60, 20, 5, 0, 75, 25, 6, 7),
    MOVES(120, 120, 2, 3, 4, 5, -60, 20, 5, 60, 60, 20, 5, 0),
    MOVES(120, 120, 2, 3, 4, 5, 60, 20, 5, 0, 60, -20, -5, 55),
    MOVES(80, 80, 1, 1, 4, 20, 999, 999, 20, 0, 999, 999, 20, 0),
    MOVES(20, 80, 4, 1, 1, 20, 0, 0, 0, 0, 20, 0, 0, 0),
    MOVES(80, 80, 0, 4, 4, 5, 0, 20, 5, 0, 0, 20, 5, 0),
    MOVES(6, 2, 1, 1, 3, 2, 0, 0, 2, 0, 0, 0, 0, 0), /* a sum */
    MOVES(6, 4, 1, 1, 3, 2, 0, 0, 2, 0, 0, 0, 1, 0), /* neighbours meet */
    {OP_SQUARES, {1, 1}, 0, NULL, 0, 0},
    {OP_SQUARES, {70001, 5}, 0, NULL, 0, 0},
    {OP_SQUARES, {300000, 700}, 0, NULL, 0, 0},
    {OP_SQUARES, {0, 3}, 0, NULL, 0, 0},
    {OP_TALLY, {3, 4}, 0, NULL, 0, 0},
    {OP_TALLY, {3, 4}, 0, NULL, 0, 1}, /* an overflow */
    {OP_TALLY, {1, 61}, 0, "i0 i1 i5", 0, 0},
    {OP_TALLY, {2, 1}, 0, "i1 i2 i3 i4", 0, 0},
    {OP_SUM, {1, 13}, 0, NULL, 0, 0},
    {OP_SUM, {37, 13}, 0, NULL, 0, 0},
#define VERDICTS(way)                                                                              \
    {                                                                                              \
        OP_VERDICT, {0}, 0, NULL, 0, way                                                           \
    }
    VERDICTS(0),
    VERDICTS(1),
    VERDICTS(2),
    VERDICTS(3),
    VERDICTS(4),
    VERDICTS(5),
    {OP_ADAMW, {1, 1, 0, 1}, 0, NULL, 0, 0},
    {OP_ADAMW, {70001, 5, 0, 70001}, 0, NULL, 0, 0},
    {OP_ADAMW, {70001, 5, 0, 70001}, DECAY_L2, "o1", 0, 0},
    {OP_ADAMW, {300000, 700, 0, 300000}, 0, NULL, 0, 0},
    {OP_ADAMW, {300000, 700, 0, 99968}, 0, NULL, 0, 0}, /* some of them */
    {OP_ADAMW, {70001, 5, 20001, 30000}, 0, NULL, 0, 0},
    {OP_ADAMW, {3000, 7, 0, 3000}, 0, NULL, 0, 1}, /* not taken */
    {OP_HOST_ADAMW, {70001, 1, 20000, 30001, 20000}, 0, NULL, 0, 0},
    {OP_HOST_ADAMW, {70001, 1, 0, 70001, 0}, DECAY_L2, "o1", 0, 0},
    {OP_HOST_ADAMW, {3000, 1, 0, 3000, 0}, 0, NULL, 0, 1},
    {OP_BIAS_UPDATE, {300}, 0, NULL, 0, 0},
    {OP_BIAS_UPDATE, {8}, 0, NULL, 0, 1},
};

sizes_part sizes_update(void)
{
    return (sizes_part){tries, (int)(sizeof tries / sizeof tries[0])};
}
