/* sizes_moe.c - sizes of routing, permutation and experts: empty ones, all rows on one, none at
 * all. */
#include "cuda/cases.h"

static const sizes tries[] = {
#define ROUTERS(flags, ...)                                                                        \
    {OP_ROUTER, {__VA_ARGS__}, flags, "i1", 0, 0}, {OP_ROUTER, {__VA_ARGS__}, flags, NULL, 0, 0},  \
    {                                                                                              \
        OP_ROUTER_D, {__VA_ARGS__}, flags, NULL, 0, 0                                              \
    }
    ROUTERS(0, 37, 8, 2),
    ROUTERS(PRE_SOFTMAX, 37, 60, 4),
    ROUTERS(PRE_SOFTMAX | RENORMALISE, 601, 64, 6),
    ROUTERS(SIGMOID, 37, 33, 3),
    ROUTERS(SIGMOID | RENORMALISE, 37, 256, 8, 8, 4),
    ROUTERS(SIGMOID | RENORMALISE | BEST_TWO, 37, 256, 8, 8, 4),
    ROUTERS(SQRT_SOFTPLUS | RENORMALISE, 37, 128, 8),
    ROUTERS(SIGMOID | BEST_ONE, 37, 12, 2, 3, 2),
    ROUTERS(PRE_SOFTMAX, 37, 16, 4, 4, 3),
    ROUTERS(FORCED, 37, 16, 4, 0, 0, 1024),
    ROUTERS(FORCED | SIGMOID, 37, 7, 3, 0, 0, 5),
    ROUTERS(FORCED | SIGMOID | RENORMALISE, 37, 160, 6, 8, 3, 80),
    ROUTERS(FORCED | SIGMOID | RENORMALISE, 300, 256, 8, 8, 4, 7),
    ROUTERS(FORCED | PRE_SOFTMAX, 300, 250, 7, 10, 3, 1),
    ROUTERS(SIGMOID | RENORMALISE, 5, 7, 1),
    ROUTERS(0, 3, 4096, 22),
    ROUTERS(0, 0, 8, 2),
    ROUTERS(0, 300, 128, 8),
    ROUTERS(SIGMOID | RENORMALISE, 50, 160, 6, 5, 3),
    ROUTERS(PRE_SOFTMAX | RENORMALISE, 50, 512, 10),
    {OP_ROUTER, {8, 8, 3}, 0, "i1", 0, 1}, /* ties, infinities, what is no number */
    {OP_ROUTER, {8, 8, 3}, SIGMOID, "i1", 0, 1},
    {OP_ROUTER, {8, 8, 3, 4, 2}, SIGMOID, "i1", 0, 1},
    {OP_DROP, {100, 7, 3, 12, 0}, 0, NULL, 0, 0},
    {OP_DROP, {100, 7, 3, 12, 1}, 0, NULL, 0, 1},
    {OP_DROP, {300, 7, 3, 0, 0}, 0, NULL, 0, 2},
    {OP_DROP, {0, 7, 3, 5, 0}, 0, NULL, 0, 0},
    {OP_LOAD, {100, 7, 3}, 0, "i1", 0, 0},
    {OP_LOAD, {5000, 300, 8}, 0, NULL, 0, 0},
    {OP_LOAD, {1000, 7, 3}, 0, NULL, 0, 1},
    {OP_LOAD, {0, 7, 3}, 0, NULL, 0, 1},
    {OP_SORT, {53, 7, 3, 159, 0, 0}, 0, "i1", 0, 0},
    {OP_SORT, {53, 7, 3, 168, 0, 0}, 0, "i1", 0, 0},
    {OP_SORT, {530, 7, 3, 1590, 0, 0}, 0, "i1 o2", 0, 1},
    {OP_SORT, {53, 7, 3, 159, 0, 0}, 0, "i1", 0, 2},
    {OP_SORT, {53, 7, 3, 159, 0, 0}, 0, NULL, 0, 0},
    {OP_SORT, {53, 7, 3, 139, 0, 0}, 0, "i1", 0, 0},
    {OP_SORT, {53, 7, 3, 56, 8, 0}, 0, NULL, 0, 0},
    {OP_SORT, {53, 7, 3, 280, 40, 0}, 0, "i1", 0, 2},
    {OP_SORT, {53, 3, 3, 30, 0, 2}, 0, NULL, 0, 0},
    {OP_SORT, {4000, 300, 8, 32000, 0, 0}, 0, "i1", 0, 0},
    {OP_SORT, {53, 7, 3, 384, 0, 0, 32}, 0, "i1", 0, 0},
    {OP_SORT, {53, 7, 3, 160, 0, 0, 32}, 0, NULL, 0, 0},
    {OP_SORT, {4000, 30, 8, 35840, 0, 0, 128}, 0, "i1", 0, 0},
    {OP_SORT, {0, 7, 3, 10, 0, 0}, 0, NULL, 0, 0},
    {OP_AUX_COUNT, {37, 7, 3, 0, 0}, 0, NULL, 0, 0},
    {OP_AUX_COUNT, {37, 60, 3, 10, 4}, SIGMOID, NULL, 0, 0},
    {OP_AUX_COUNT, {370, 33, 5, 100, 30}, SQRT_SOFTPLUS, NULL, 0, 0},
    {OP_AUX_LOSS, {36, 12, 7, 3, 0}, 0, "i1", 0, 0},
    {OP_AUX_LOSS, {36, 12, 7, 3, 1}, SIGMOID, "i1", 0, 0},
    {OP_AUX_LOSS, {900, 300, 60, 3, 1}, SQRT_SOFTPLUS, "i1", 0, 0},
    {OP_AUX_LOSS, {36, 12, 7, 3, 0, 2, 144, 24}, 0, NULL, 0, 0},
    {OP_AUX_LOSS, {36, 12, 7, 3, 1, 2, 144, 24}, SIGMOID, NULL, 0, 0},
    {OP_AUX_LOSS, {36, 12, 7, 3, 1}, SIGMOID | REPLAY, "i1", 0, 0},
    {OP_AUX_LOSS, {0, 12, 7, 3, 1}, SIGMOID, "i1", 0, 0},
    {OP_AUX_LOSS, {9000, 4500, 128, 8, 0}, 0, "i1", 0, 0}, /* more tokens than blocks */
    {OP_AUX_LOSS, {9000, 1000, 256, 8, 1}, SIGMOID, "i1", 0, 0},
    {OP_AUX_LOSS, {70, 70, 500, 32, 0}, 0, "i1", 0, 0},
    {OP_AUX_LOSS, {7, 7, 600, 3, 0}, 0, "i1", 0, 0},
    {OP_AUX_COUNT, {9000, 128, 8, 0, 0}, 0, NULL, 0, 0},
    {OP_AUX_GLOBAL, {37, 7, 3, 2, 37}, 0, NULL, 0, 0},
    {OP_AUX_GLOBAL, {37, 7, 3, 0, 74}, SIGMOID, NULL, 0, 0},
    {OP_AUX_GLOBAL, {37, 7, 3, 0, 74}, SIGMOID | REPLAY, NULL, 0, 0},
    {OP_AUX_GLOBAL, {37, 7, 3, 0, 74}, 0, NULL, 0, 1}, /* nothing counted yet */
    {OP_Z_LOSS, {37, 7}, 0, NULL, 0, 0},
    {OP_Z_LOSS, {3700, 129}, REPLAY, NULL, 0, 0},
    {OP_Z_LOSS, {3700, 129}, 0, NULL, 0, 0},
    {OP_Z_LOSS, {0, 7}, 0, NULL, 0, 0},
#define PERMUTES(way, ...)                                                                         \
    {OP_PERMUTE, {__VA_ARGS__}, 0, NULL, 0, way}, {OP_PERMUTE, {__VA_ARGS__}, 0, "i1 o1", 0, way}, \
        {OP_PERMUTE_D, {__VA_ARGS__}, 0, NULL, 0, way},                                            \
        {OP_PERMUTE_D, {__VA_ARGS__}, ACCUMULATE, "i1 o1", 0, way},                                \
        {OP_UNPERMUTE, {__VA_ARGS__}, 0, NULL, 0, way},                                            \
        {OP_UNPERMUTE, {__VA_ARGS__}, ACCUMULATE, NULL, 0, way},                                   \
    {                                                                                              \
        OP_UNPERMUTE_D, {__VA_ARGS__}, 0, NULL, 0, way                                             \
    }
    PERMUTES(0, 53, 3, 33, 159),
    PERMUTES(1, 53, 3, 5, 100),
    PERMUTES(2, 53, 3, 128, 200),
    PERMUTES(1, 53, 3, 512, 100),
    PERMUTES(0, 53, 3, 4104, 159),
    PERMUTES(0, 0, 3, 5, 10),
#define GROUPS(way, ...)                                                                           \
    {OP_GROUPED, {__VA_ARGS__}, 0, NULL, 0, way}, {OP_GROUPED_D, {__VA_ARGS__}, 0, NULL, 0, way},  \
    {                                                                                              \
        OP_GROUPED_W, {__VA_ARGS__}, 0, NULL, 0, way                                               \
    }
    GROUPS(0, 159, 7, 33, 19),
    GROUPS(1, 159, 7, 65, 70), /* all to one */
    GROUPS(2, 159, 7, 64, 64), /* every second one is empty */
    GROUPS(3, 1, 1, 1, 1),
    GROUPS(4, 200, 7, 33, 19), /* none at all */
    GROUPS(0, 870, 40, 129, 141),
    GROUPS(5, 300, 3, 65, 33), /* rows at the end that nobody fills */
    GROUPS(4, 0, 7, 33, 19),
    GROUPS(0, 870, 40, 128, 192), /* sizes that tensor cores take, in the same ways */
    GROUPS(1, 700, 7, 320, 448),
    GROUPS(2, 3000, 17, 192, 320),
    GROUPS(3, 1, 1, 64, 64),
    GROUPS(4, 200, 7, 64, 128),
    GROUPS(5, 2900, 13, 512, 64),
    GROUPS(0, 1500, 250, 64, 64),
    GROUPS(0, 700, 3, 960, 256), /* tiles of 240 columns, of 256, and half a pair of row tiles */
    GROUPS(5, 500, 5, 512, 480),
    {OP_GROUPED_W, {159, 7, 33, 19}, OVERWRITE, NULL, 0, 2},
    {OP_GROUPED_W, {3000, 17, 192, 320}, OVERWRITE, NULL, 0, 2},
    {OP_GROUPED_W, {200, 7, 64, 128}, OVERWRITE, NULL, 0, 4},
    {OP_GROUPED_W, {500, 5, 448, 512}, OVERWRITE, NULL, 0, 2},
#define BIASES(way, ...)                                                                           \
    {OP_GROUPED_BIAS, {__VA_ARGS__}, 0, NULL, 0, way},                                             \
        {OP_GROUPED_BIAS, {__VA_ARGS__}, 0, "i1", 0, way},                                         \
        {OP_GROUPED_BIAS_W, {__VA_ARGS__}, 0, NULL, 0, way},                                       \
        {OP_GROUPED_BIAS_W, {__VA_ARGS__}, 0, "i1", 0, way},                                       \
    {                                                                                              \
        OP_GROUPED_BIAS_P, {__VA_ARGS__}, 0, NULL, 0, way                                          \
    }
    BIASES(0, 159, 7, 33),
    BIASES(5, 159, 7, 1160),
    BIASES(1, 159, 7, 129),
    BIASES(2, 900, 40, 65),
    BIASES(4, 20, 7, 65),
    BIASES(5, 300, 3, 1100),
    BIASES(2, 900, 40, 264),
    BIASES(5, 300, 3, 2880),
    {OP_ROUTE, {8, 4, 1, 2, 6, 2, 60}, 0, "o2 o5", 0, 0},
    {OP_ROUTE, {8, 4, 1, 1, 6, 2, 9}, 0, "o2 o5", 0, 0},
    {OP_ROUTE, {8, 2, 2, 3, 6, 2, 40}, 0, NULL, 0, 0},
    {OP_ROUTE, {8, 2, 2, 0, 6, 2, 7}, 0, NULL, 0, 0},
    {OP_ROUTE, {64, 8, 2, 5, 300, 4, 3000}, 0, NULL, 0, 0},
    {OP_ROUTE, {64, 8, 2, 5, 300, 4, 900}, 0, NULL, 0, 0},
#define FLEX(...)                                                                                  \
    {OP_FLEX_COUNT, {__VA_ARGS__, 57, 3}, 0, NULL, 0, 0},                                          \
        {OP_FLEX_COUNT, {__VA_ARGS__, 57, 3}, 0, "i1 o0", 0, 0},                                   \
        {OP_FLEX_COUNT, {__VA_ARGS__, 0, 3}, 0, NULL, 0, 0},                                       \
        {OP_FLEX_PLAN, {__VA_ARGS__, 57, 400, 400, 400}, 0, NULL, 0, 0},                           \
        {OP_FLEX_PLAN, {__VA_ARGS__, 57, 70, 90, 60}, 0, NULL, 0, 0},                              \
        {OP_FLEX_FAN, {__VA_ARGS__, 100, 3}, 0, NULL, 0, 0},                                       \
    {                                                                                              \
        OP_FLEX_FAN, {__VA_ARGS__, 100, 3}, 0, "i1", 0, 0                                          \
    }
    FLEX(10, 5, 1, 1, 1, 2),
    FLEX(10, 5, 1, 0, 1, 2),
    FLEX(16, 4, 2, 5, 0, 4),
    FLEX(128, 64, 1, 17, 0, 8),
    {OP_FLEX_PLAN, {16, 4, 1, 2, 0, 4, 57, 0, 300, 300}, 0, "i0 o0 o1", 0, 0}, /* one domain */
    {OP_FLEX_PLAN, {16, 4, 1, 2, 0, 4, 57, 0, 30, 40}, 0, "i0 o0 o1", 0, 0},
    {OP_FLEX_PACK, {57, 3}, 0, NULL, 0, 0},
    {OP_FLEX_PACK, {57, 3}, 0, "i2", 0, 0},
    {OP_FLEX_UNPACK, {57, 3, 5}, 0, NULL, 0, 0},
    {OP_FLEX_PLACE, {57, 3, 33, 200, 4, 3, 2}, 0, NULL, 0, 0},
    {OP_FLEX_PLACE, {57, 3, 33, 40, 4, 3, 2}, 0, NULL, 0, 0},
    {OP_FLEX_PLACE, {570, 8, 5, 2000, 60, 3, 2}, 0, NULL, 0, 0},
    {OP_DEMAND, {3}, 0, NULL, 0, 0},
    {OP_DEMAND, {3}, 0, NULL, 0, 1},
    {OP_DEMAND, {1}, 0, NULL, 0, 2},
};

sizes_part sizes_moe(void)
{
    return (sizes_part){tries, (int)(sizeof tries / sizeof tries[0])};
}
