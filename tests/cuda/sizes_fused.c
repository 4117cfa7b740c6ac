/* sizes_fused.c - fused kinds: odd sizes, those of fast rows, no tokens, what may be missing. */
#include "cuda/cases.h"

/* Way 1: the projection has no gates. */
#define BARE   "o3 i1 i2 o4 o5"          /* neither gates nor norms */
#define BARE_D "i3 i4 i5 i6 i7 i8 o1 o2" /* the same of the gradient */

static const sizes tries[] = {
    {OP_ADD_NORM, {1, 1}, 0, NULL, 0, 0},
    {OP_ADD_NORM, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_ADD_NORM, {130, 515}, 0, "o2", 0, 0},
    {OP_ADD_NORM, {37, 128}, 0, NULL, 1, 0},
    {OP_ADD_NORM, {37, 2048}, ZERO_CENTRED, NULL, 0, 0},
    {OP_ADD_NORM, {35, 2048}, 0, "o2", 2, 0},
    {OP_ADD_NORM, {19, 7168}, 0, NULL, 0, 0},
    {OP_ADD_NORM, {19, 2880}, 0, NULL, 0, 0},
    {OP_ADD_NORM, {19, 1416}, ZERO_CENTRED, "o2", 0, 0},
    {OP_ADD_NORM, {0, 128}, 0, NULL, 0, 0},
    {OP_ADD_NORM, {0, 33}, 0, NULL, 0, 0},
    {OP_NORM_BACK, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_BACK, {130, 515}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {37, 128}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {1000, 2048}, ACCUMULATE | ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_BACK, {13001, 256}, 0, NULL, 0, 0},
    {OP_NORM_BACK, {333, 7168}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {5001, 2048}, 0, NULL, 0, 0}, /* a block a row, several rows a block */
    {OP_NORM_BACK, {4300, 1536}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {40, 1280}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_BACK, {9, 8192}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {0, 128}, ACCUMULATE, NULL, 0, 0},
    {OP_NORM_BACK, {0, 33}, 0, NULL, 0, 0},
    {OP_QKV_HEADS, {37, 6, 2, 10, 17, 10}, 0, NULL, 0, 0},
    {OP_QKV_HEADS, {34, 3, 3, 10, 17, 6}, INTERLEAVED | ZERO_CENTRED, "o3", 0, 1},
    {OP_QKV_HEADS, {37, 6, 2, 10, 37, 4}, INTERLEAVED, BARE, 0, 1},
    {OP_QKV_HEADS, {37, 8, 2, 128, 19, 128}, 0, "o3", 0, 1},
    {OP_QKV_HEADS, {37, 8, 2, 128, 19, 128}, ZERO_CENTRED, NULL, 0, 0},
    {OP_QKV_HEADS, {37, 6, 3, 64, 5, 32}, 0, "o3", 0, 1},
    {OP_QKV_HEADS, {37, 6, 3, 64, 5, 48}, INTERLEAVED, "o3", 0, 1},
    {OP_QKV_HEADS, {21, 4, 1, 256, 7, 64}, ZERO_CENTRED, NULL, 0, 0},
    {OP_QKV_HEADS, {37, 8, 2, 128, 19, 128}, 0, BARE, 0, 1},
    {OP_QKV_HEADS, {0, 8, 2, 128, 19, 128}, 0, "o3", 0, 1},
    {OP_QKV_HEADS, {0, 6, 2, 10, 17, 10}, 0, NULL, 0, 0},
    {OP_QKV_HEADS_D, {37, 6, 2, 10, 17, 10}, 0, NULL, 0, 0},
    {OP_QKV_HEADS_D, {34, 3, 3, 10, 17, 6}, INTERLEAVED | ZERO_CENTRED, "i3", 0, 1},
    {OP_QKV_HEADS_D, {37, 6, 2, 10, 37, 4}, INTERLEAVED, BARE_D, 0, 1},
    {OP_QKV_HEADS_D, {37, 8, 2, 128, 19, 128}, 0, "i3", 0, 1},
    {OP_QKV_HEADS_D, {37, 8, 2, 128, 19, 128}, ZERO_CENTRED, NULL, 0, 0},
    {OP_QKV_HEADS_D, {2500, 2, 1, 128, 100, 128}, 0, "i3", 0, 1},
    {OP_QKV_HEADS_D, {37, 6, 3, 64, 5, 32}, 0, "i3", 0, 1},
    {OP_QKV_HEADS_D, {37, 6, 3, 64, 5, 48}, INTERLEAVED, "i3", 0, 1},
    {OP_QKV_HEADS_D, {21, 4, 1, 256, 7, 64}, ZERO_CENTRED, NULL, 0, 0},
    {OP_QKV_HEADS_D, {37, 8, 2, 128, 19, 128}, 0, BARE_D, 0, 1},
    {OP_QKV_HEADS_D, {0, 8, 2, 128, 19, 128}, 0, "i3", 0, 1},
    {OP_QKV_HEADS_D, {0, 6, 2, 10, 17, 10}, 0, NULL, 0, 0},
};

sizes_part sizes_fused(void)
{
    return (sizes_part){tries, (int)(sizeof tries / sizeof tries[0])};
}
