/* sizes_attention.c - sizes of attention, its blocks, and the gated delta net. */
#include "cuda/cases.h"

static const sizes tries[] = {
#define ATTENTION(...)                                                                             \
    {OP_ATTN, {__VA_ARGS__}, 0, "i3", 0, 0},                                                       \
    {                                                                                              \
        OP_ATTN_D, {__VA_ARGS__}, 0, "i6 o3", 0, 0                                                 \
    }
#define WITH_SINKS(...)                                                                            \
    {OP_ATTN, {__VA_ARGS__}, 0, NULL, 0, 0},                                                       \
    {                                                                                              \
        OP_ATTN_D, {__VA_ARGS__}, 0, NULL, 0, 0                                                    \
    }
    ATTENTION(1, 1, 1, 1, 1, 1, 0),
    WITH_SINKS(3, 1, 2, 1, 5, 3, 0),
    ATTENTION(2, 63, 4, 4, 24, 16, 0),
    ATTENTION(2, 64, 4, 2, 64, 64, 0),
    WITH_SINKS(1, 65, 4, 2, 64, 64, 0),
    WITH_SINKS(2, 70, 7, 1, 8, 8, 0),
    ATTENTION(1, 130, 14, 2, 33, 17, 0),
    ATTENTION(1, 200, 2, 1, 192, 128, 0),
    ATTENTION(1, 90, 2, 2, 256, 256, 0),
    WITH_SINKS(1, 100, 2, 1, 16, 16, 1),
    ATTENTION(2, 150, 4, 2, 20, 12, 2),
    WITH_SINKS(1, 300, 2, 2, 16, 24, 64),
    ATTENTION(1, 140, 2, 1, 16, 16, 140),
    WITH_SINKS(1, 140, 2, 1, 16, 16, 900),
    WITH_SINKS(1, 700, 2, 1, 8, 8, 0),
    ATTENTION(1, 700, 2, 1, 8, 4, 300),
    WITH_SINKS(2, 513, 2, 2, 4, 4, 128),
    ATTENTION(2, 333, 4, 1, 128, 128, 0),
    WITH_SINKS(1, 400, 8, 2, 64, 64, 128),
    ATTENTION(1, 260, 2, 2, 192, 128, 100),
    {OP_ATTN_D, {2, 333, 4, 1, 128, 128, 0}, FIXED_ORDER, "i6 o3", 0, 0},
    {OP_ATTN_D, {1, 200, 2, 2, 192, 128, 0}, FIXED_ORDER, "i6 o3", 0, 0},
    {OP_ATTN_D, {1, 400, 8, 2, 64, 64, 128}, FIXED_ORDER, NULL, 0, 0},
#define BLOCKS(...)                                                                                \
    {OP_ATTN_BLOCK, {__VA_ARGS__}, 0, NULL, 0, 0},                                                 \
        {OP_ATTN_BLOCK, {__VA_ARGS__}, ACCUMULATE, NULL, 0, 0},                                    \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, 0, NULL, 0, 0},                                           \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, ACCUMULATE, NULL, 0, 0},                                  \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, ADD_KV, NULL, 0, 0},                                      \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, FIXED_ORDER, NULL, 0, 0},                                 \
    {                                                                                              \
        OP_ATTN_BLOCK_D, {__VA_ARGS__}, ACCUMULATE | ADD_KV, NULL, 0, 0                            \
    }
    BLOCKS(1, 2, 2, 1, 1, 1, 1, 0, 0, 1, 0, 1),
    BLOCKS(2, 6, 4, 2, 1, 3, 2, 0, 7, 20, 3, 18),
    BLOCKS(1, 6, 8, 4, 2, 4, 3, 3, 2, 9, 0, 7),
    BLOCKS(1, 4, 4, 2, 2, 3, 3, 0, 0, 10, 4, 12),
    BLOCKS(1, 4, 4, 1, 1, 2, 2, 0, 0, 2, 50, 60),
    BLOCKS(1, 4, 4, 1, 1, 2, 2, 4, 50, 60, 0, 2),
    BLOCKS(2, 140, 260, 4, 2, 33, 17, 0, 100, 700, 0, 650),
    BLOCKS(1, 300, 140, 2, 1, 8, 8, 0, 60, 900, 61, 1000),
    BLOCKS(1, 140, 500, 2, 2, 8, 8, 0, 560, 1300, 0, 1240),
    BLOCKS(1, 300, 300, 2, 1, 16, 16, 97, 900, 0, 850, 30),
    BLOCKS(1, 260, 260, 3, 1, 192, 128, 0, 130, 390, 0, 260),
    BLOCKS(1, 200, 8, 2, 2, 2, 2, 0, 0, 100, 500, 600),
    /* a ring of 4: rank 1 with its own keys, those of rank 0 and of rank 2; two samples */
    BLOCKS(2, 140, 140, 4, 2, 64, 64, 0, 70, 420, 70, 420),
    BLOCKS(2, 140, 140, 4, 2, 64, 64, 0, 70, 420, 0, 490),
    BLOCKS(2, 140, 140, 4, 2, 64, 64, 0, 70, 420, 140, 350),
    BLOCKS(1, 260, 260, 3, 3, 192, 128, 0, 130, 390, 130, 390),
    BLOCKS(1, 260, 260, 3, 1, 192, 128, 0, 260, 390, 0, 650),
    BLOCKS(1, 260, 260, 3, 3, 192, 128, 0, 0, 910, 260, 650),
    BLOCKS(2, 20, 300, 8, 1, 128, 128, 0, 500, 900, 0, 200), /* all seen */
    BLOCKS(1, 20, 20, 2, 1, 16, 16, 900, 10, 60, 0, 70),     /* a window that leaves nothing out */
    {OP_GDN_SPLIT, {5, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_GDN_SPLIT, {1, 1, 1, 1}, 0, NULL, 0, 0},
    {OP_GDN_JOIN, {501, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_CONV, {1, 1, 1, 4}, 0, NULL, 0, 0},
    {OP_CONV, {2, 3, 5, 4}, 0, NULL, 0, 0},
    {OP_CONV, {2, 130, 70, 4}, 0, NULL, 0, 0},
    {OP_CONV, {3, 9, 64, 1}, 0, NULL, 0, 0},
    {OP_CONV, {2, 3, 8, 4}, 0, NULL, 0, 0}, /* a run is shorter than the taps */
    {OP_CONV, {2, 133, 264, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {2, 3, 8, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {3, 1, 16, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {2, 133, 264, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {2, 64, 520, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {2, 3, 8, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {3, 1, 16, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {2, 133, 264, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {5, 4097, 520, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {2, 3, 5, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {2, 130, 70, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {1, 257, 33, 8}, 0, NULL, 0, 0},
    {OP_CONV_W, {2, 3, 5, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {2, 130, 70, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {1, 257, 33, 8}, 0, NULL, 0, 0},
    {OP_GDN_GATES, {67, 5}, 0, NULL, 0, 0},
    {OP_GDN_GATES_D, {67, 5}, 0, NULL, 0, 0},
    {OP_GDN_GATES_W, {670, 5}, 0, NULL, 0, 0},
    {OP_GATED_NORM, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_GATED_NORM, {13, 1100}, 0, NULL, 0, 0},
    {OP_GATED_NORM, {37, 128}, 0, NULL, 0, 0},
    {OP_GATED_NORM, {37, 512}, 0, NULL, 0, 0},
    {OP_GATED_NORM_D, {67, 33}, 0, NULL, 0, 0},
    {OP_GATED_NORM_D, {13, 1100}, ZERO_CENTRED, NULL, 0, 0},
    {OP_GATED_NORM_D, {37, 512}, 0, NULL, 0, 0},
    {OP_GATED_NORM_D, {37, 128}, ZERO_CENTRED, NULL, 0, 0},
    {OP_GATED_NORM_D, {19, 2880}, 0, NULL, 0, 0},
    {OP_GATED_NORM, {19, 2880}, ZERO_CENTRED, NULL, 0, 0},
    {OP_GATED_NORM_W, {667, 33}, 0, NULL, 0, 0},
    {OP_GATED_NORM_W, {5001, 128}, 0, NULL, 0, 0},
#define RULES(way, ...)                                                                            \
    {OP_GDN_RULE, {__VA_ARGS__}, 0, NULL, 0, way},                                                 \
    {                                                                                              \
        OP_GDN_RULE_D, {__VA_ARGS__}, 0, NULL, 0, way                                              \
    }
    RULES(1, 1, 1, 1, 1, 1, 1, 64),
    RULES(1, 2, 5, 1, 2, 3, 2, 64),
    RULES(0, 1, 9, 1, 1, 2, 3, 4),
    RULES(1, 1, 70, 2, 4, 8, 8, 64),
    RULES(2, 2, 130, 1, 2, 33, 17, 32),
    RULES(1, 1, 40, 1, 2, 128, 128, 64),
    RULES(0, 1, 37, 1, 1, 256, 200, 16),
    RULES(1, 1, 100, 2, 2, 16, 24, 64),
    RULES(0, 1, 64, 1, 1, 128, 128, 64), /* sizes that tensor cores take: one chunk, several */
    RULES(1, 2, 200, 2, 4, 128, 128, 64),
    RULES(0, 1, 333, 1, 2, 64, 96, 64),
    RULES(1, 3, 129, 1, 3, 8, 40, 50),
    RULES(2, 1, 150, 2, 2, 120, 24, 64),
    RULES(1, 1, 0, 2, 2, 16, 24, 64),
    {OP_GDN_RULE, {1, 70, 2, 4, 8, 8, 64}, 0, "o1", 0, 1},
    /* no tokens */
    WITH_SINKS(0, 65, 4, 2, 64, 64, 0),
    BLOCKS(0, 140, 140, 4, 2, 64, 64, 0, 70, 420, 70, 420),
    {OP_GDN_SPLIT, {0, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_GDN_JOIN, {0, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_CONV, {0, 9, 64, 4}, 0, NULL, 0, 0},
    {OP_CONV_D, {0, 9, 64, 4}, 0, NULL, 0, 0},
    {OP_CONV_W, {0, 9, 64, 4}, 0, NULL, 0, 0},
    {OP_GDN_GATES, {0, 5}, 0, NULL, 0, 0},
    {OP_GDN_GATES_D, {0, 5}, 0, NULL, 0, 0},
    {OP_GDN_GATES_W, {0, 5}, 0, NULL, 0, 0},
    RULES(1, 0, 70, 2, 4, 128, 128, 64),
    {OP_GATED_NORM, {0, 128}, 0, NULL, 0, 0},
    {OP_GATED_NORM_D, {0, 128}, 0, NULL, 0, 0},
    {OP_GATED_NORM_W, {0, 128}, 0, NULL, 0, 0},
};

sizes_part sizes_attention(void)
{
    return (sizes_part){tries, (int)(sizeof tries / sizeof tries[0])};
}
