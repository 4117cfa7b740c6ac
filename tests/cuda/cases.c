/* cases.c - shapes of every kind, and the sizes that are tried: the CPU's, mostly. */
#include "cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const shape shapes[] = {
    {OP_GEMM, "02 12", "01", {0}, NULL},
    {OP_GEMM_D, "01 12", "02", {0}, NULL},
    {OP_GEMM_W, "01 02", "12", {0}, NULL},
    {OP_BIAS, "1", "01", {0}, NULL},
    {OP_BIAS_W, "01", "1", {0}, NULL},
    {OP_EMBED, "21 i0", "01", {0}, NULL},
    {OP_EMBED_W, "01 i0", "21", {0}, NULL},
    {OP_POSITIONS, "(4+5+2)1", "01", {0}, NULL},
    {OP_POSITIONS_W, "01", "(4+5+2)1", {0}, NULL},
    {OP_NORM, "01 1", "01 0", {1e-5}, NULL},
    {OP_NORM_D, "01 01 1 0", "01", {0}, NULL},
    {OP_NORM_W, "01 01 0", "1", {0}, NULL},
    {OP_ROW_DOTS, "01 01 1", "0", {0}, NULL},
    {OP_NORM_PART, "01 1 20", "01 0", {3}, NULL}, /* so that no sum of squares is below zero */
    {OP_NORM_PART_D, "01 01 1 0 20", "01", {0}, NULL},
    {OP_LAYER_NORM, "01 1 1", "01 (0+0)", {1e-5}, NULL},
    {OP_LAYER_NORM_D, "01 01 1 (0+0)", "01", {0}, NULL},
    {OP_LAYER_NORM_W, "01 01 (0+0)", "1 1", {0}, NULL},
    {OP_ADD, "0 0", "0", {0}, NULL},
    {OP_COPY, "0", "0", {0}, NULL},
    {OP_CAST, "0", "0", {0}, NULL},
    {OP_COPY_OUT, "0", "0", {0}, NULL},
    {OP_COPY_IN, "0", "0", {0}, NULL},
    {OP_ZERO, "", "0", {0}, NULL},
    {OP_GATE, "01 02", "01", {0}, NULL},
    {OP_GATE_D, "01 01 02", "01 02", {0}, NULL},
    {OP_ACT, "0(1+1) 0", "01", {0}, fill_wide},
    {OP_ACT_D, "01 0(1+1) 0", "0(1+1) 0", {0}, fill_wide},
    {OP_ACT_AS, "? 0", "01", {1, 5}, fill_wide},
    {OP_ACT_AS_D, "01 ? 0", "? 0", {1, 5}, fill_wide},
    {OP_QKV_SPLIT, "0(1+1+2+2)3", "013 023 023 013", {0}, NULL},
    {OP_QKV_JOIN, "013 023 023 013", "0(1+1+2+2)3", {0}, NULL},
    {OP_ROPE, "15", "023", {0}, NULL},
    {OP_ROPE_D, "15", "023", {0}, NULL},
    {OP_MLA_KV_SPLIT, "0(1+2)", "01 02", {0}, NULL},
    {OP_MLA_KV_MERGE, "01 02", "0(1+2)", {0}, NULL},
    {OP_MLA_KV_JOIN, "01(2+4) 03", "01(2+3) 014", {0}, NULL},
    {OP_MLA_KV_JOIN_D, "01(2+3) 014", "01(2+4) 03", {0}, NULL},
    {OP_HEAD_LOSS, "01 21 i0 m0", "=2 01 21", {0.37}, NULL},
    {OP_HEAD_PART, "01 21 i0", "32 (3+3+3)", {0}, NULL},
    {OP_HEAD_PART_D, "6(3+3+3) 01 21 i0 m0", "32 =2 01 21", {0.37}, fill_head_stats},
    {OP_HEAD_LOGITS, "01 21", "02", {0}, NULL},
    {OP_ATTN, "0124 0134 0135 2", "0125 012", {0.5}, NULL},
    {OP_ATTN_D, "0125 0124 0134 0135 0125 012 2", "0124 0134 0135 2", {0.5}, fill_attention_d},
    {OP_ATTN_BLOCK, "0135 0245 0246", "0136 013", {0.5}, fill_block},
    {OP_ATTN_BLOCK_D, "0136 0135 0245 0246 0136 013", "0135 0245 0246", {0.5}, fill_block_d},
    {OP_GDN_SPLIT, "0(1+2+3+3)", "01 02 03 03", {0}, NULL},
    {OP_GDN_JOIN, "01 02 03 03", "0(1+2+3+3)", {0}, NULL},
    {OP_CONV, "012 23", "012", {0}, NULL},
    {OP_CONV_D, "012 012 23", "012", {0}, NULL},
    {OP_CONV_W, "012 012 23", "23", {0}, NULL},
    {OP_GDN_GATES, "01 01 1 1", "01 01", {0}, NULL},
    {OP_GDN_GATES_D, "01 01 01 01 1 1", "01 01", {0}, NULL},
    {OP_GDN_GATES_W, "01 01 1 1", "1 1", {0}, NULL},
    {OP_GDN_RULE, "? 013 013", "0135 ?", {0}, fill_rule},
    {OP_GDN_RULE_D, "0135 ? 013 013 ?", "? 013 013", {0}, fill_rule_d},
    {OP_GATED_NORM, "01 01 1", "01 0", {1e-5}, NULL},
    {OP_GATED_NORM_D, "01 01 01 1 0", "01 01", {0}, NULL},
    {OP_GATED_NORM_W, "01 01 01 0", "1", {0}, NULL},
    {OP_ROUTER, "01 1", "02 ?", {2.5}, fill_router},
    {OP_ROUTER_D, "02 01 ?", "01", {2.5}, fill_router_d},
    {OP_DROP, "02 ?", "02", {0}, fill_choice},
    {OP_LOAD, "? 02", "1", {0}, fill_choice},
    {OP_SORT, "? 02", "? ? ?", {0}, fill_choice},
    {OP_AUX_LOSS, "02 ?", "=1 02", {0.7, 1.3}, fill_counts},
    {OP_AUX_GLOBAL, "01 ?", "=1 01", {0.7, 1.3}, fill_counts},
    {OP_AUX_COUNT, "01", "?", {0}, fill_counts},
    {OP_Z_LOSS, "01", "=1 01", {0.7, 1.3}, NULL},
    {OP_PERMUTE, "02 01 ?", "32 3", {0}, fill_permute},
    {OP_PERMUTE_D, "32 3 ?", "02 01", {0}, fill_permute},
    {OP_UNPERMUTE, "32 ?", "02", {0}, fill_permute},
    {OP_UNPERMUTE_D, "02 ?", "32", {0}, fill_permute},
    {OP_GROUPED, "03 123 ?", "02", {0}, fill_grouped},
    {OP_GROUPED_D, "02 123 ?", "03", {0}, fill_grouped},
    {OP_GROUPED_W, "02 03 ?", "123", {0}, fill_grouped},
    {OP_GROUPED_BIAS, "12 0 ?", "02", {0.7}, fill_grouped},
    {OP_GROUPED_BIAS_W, "02 0 ?", "12", {0}, fill_grouped},
    {OP_GROUPED_BIAS_P, "02 12 ?", "0", {0.7}, fill_grouped},
    {OP_ROUTE, "? ?", "? ? ? ? ? ? ?", {0}, fill_route},
    {OP_FLEX_COUNT, "? 67", "? ?", {0}, fill_flex},
    {OP_FLEX_PLAN, "? ?", "? ? ? ? ?", {0}, fill_flex},
    {OP_FLEX_FAN, "? ? ?", "?", {0}, fill_flex},
    {OP_FLEX_PACK, "01 ? 01", "0(1+1)", {0}, fill_flex},
    {OP_FLEX_UNPACK, "? ?", "01 ?", {0}, fill_flex},
    {OP_FLEX_PLACE, "02 ? ?", "32 3 ? ? ?", {0}, fill_flex},
    {OP_DEMAND, "?", "=2", {0}, fill_demand},
    {OP_MOVE, "=0", "=0", {0}, NULL},
    {OP_SQUARES, "? ?", "d=1", {0}, fill_update},
    {OP_TALLY, "? ? 1 1 (1+1) ? ? d=1", "?", {0}, fill_tally},
    {OP_SUM, "d01", "d1", {0}, NULL},
    {OP_VERDICT, "? ?", "?", {0}, fill_verdict},
    {OP_ADAMW, "? ? ?", "? ? ? ?", {0}, fill_update},
    {OP_BIAS_UPDATE, "0 ?", "0", {0.25}, fill_verdict},
};

static const sizes tries[] = {
    {OP_GEMM, {1, 1, 1}, 0, NULL, 0, 0},
    {OP_GEMM, {3, 5, 7}, ADD_TO, NULL, 0, 0},
    {OP_GEMM, {129, 65, 33}, 0, NULL, 0, 0},
    {OP_GEMM, {300, 270, 513}, ADD_TO, NULL, 0, 0},
    {OP_GEMM, {1030, 17, 96}, 0, NULL, 0, 0},
    {OP_GEMM, {0, 5, 7}, 0, NULL, 0, 0},
    {OP_GEMM, {64, 128, 64}, 0, NULL, 0, 0},
    {OP_GEMM, {200, 136, 72}, ADD_TO, NULL, 0, 0}, /* sizes that libraries take, too */
    {OP_GEMM, {1, 8, 8}, 0, NULL, 0, 0},
    {OP_GEMM, {515, 640, 1032}, 0, NULL, 0, 0},
    {OP_GEMM_D, {200, 136, 72}, ADD_TO, NULL, 0, 0},
    {OP_GEMM_D, {515, 128, 264}, 0, NULL, 0, 0},
    {OP_GEMM_W, {200, 136, 72}, 0, NULL, 0, 0},
    {OP_GEMM_D, {300, 136, 128}, 0, NULL, 0, 0},
    {OP_GEMM_D, {129, 8, 320}, 0, NULL, 0, 0},
    {OP_GEMM_W, {200, 192, 320}, 0, NULL, 0, 0},
    {OP_GEMM_W, {200, 192, 320}, OVERWRITE, NULL, 0, 0},
    {OP_GEMM_W, {0, 64, 64}, OVERWRITE, NULL, 0, 0},
    {OP_GEMM_W, {1, 64, 64}, 0, NULL, 0, 0},
    {OP_GEMM_W, {1023, 320, 64}, 0, NULL, 0, 0},
    {OP_GEMM_W, {2055, 128, 264}, 0, NULL, 0, 0},
    {OP_GEMM_D, {1, 1, 1}, 0, NULL, 0, 0},
    {OP_GEMM_D, {131, 67, 35}, ADD_TO, NULL, 0, 0},
    {OP_GEMM_D, {290, 513, 301}, 0, NULL, 0, 0},
    {OP_GEMM_D, {0, 5, 7}, 0, NULL, 0, 0},
    {OP_GEMM_W, {1, 1, 1}, 0, NULL, 0, 0},
    {OP_GEMM_W, {131, 67, 35}, 0, NULL, 0, 0},
    {OP_GEMM_W, {513, 301, 290}, 0, NULL, 0, 0},
    {OP_GEMM_W, {0, 3, 4}, 0, NULL, 0, 0},
    {OP_GEMM_W, {200, 136, 72}, OVERWRITE, NULL, 0, 0},
    {OP_GEMM_W, {131, 67, 35}, OVERWRITE, NULL, 0, 0},
    {OP_BIAS, {7, 33}, 0, NULL, 0, 0},
    {OP_BIAS, {501, 129}, 0, NULL, 0, 0},
    {OP_BIAS_W, {1, 1}, 0, NULL, 0, 0},
    {OP_BIAS_W, {67, 1031}, 0, NULL, 0, 0},
    {OP_BIAS_W, {30001, 13}, 0, NULL, 0, 0},
    {OP_BIAS_W, {0, 13}, 0, NULL, 0, 0},
    {OP_EMBED, {37, 19, 11}, 0, NULL, 0, 0},
    {OP_EMBED, {257, 130, 20, 7}, 0, NULL, 0, 0},
    {OP_EMBED, {0, 130, 20, 7}, 0, NULL, 0, 0},
    {OP_EMBED_W, {37, 19, 11}, 0, NULL, 0, 0},
    {OP_EMBED_W, {257, 130, 30}, 0, NULL, 0, 0},
    {OP_EMBED_W, {1257, 330, 3, 7}, 0, NULL, 0, 0},
    {OP_EMBED_W, {0, 130, 30}, 0, NULL, 0, 0},
    {OP_POSITIONS, {6, 5, 6, 6, 3, 6}, 0, NULL, 0, 0},
    {OP_POSITIONS, {48, 33, 16, 8, 4, 24}, 0, NULL, 0, 0},
    {OP_POSITIONS_W, {6, 5, 6, 6, 3, 6}, 0, NULL, 0, 0},
    {OP_POSITIONS_W, {48, 33, 16, 8, 4, 24}, 0, NULL, 0, 0},
    {OP_POSITIONS_W, {0, 33, 16, 8, 4, 24}, 0, NULL, 0, 0},
    {OP_NORM, {1, 1}, 0, NULL, 0, 0},
    {OP_NORM, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM, {130, 515}, 0, "o1", 0, 0},
    {OP_NORM, {19, 2051}, 0, NULL, 0, 0},
    {OP_NORM, {37, 128}, 0, NULL, 0, 0}, /* rows that are read several numbers at a time */
    {OP_NORM, {37, 2048}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM, {19, 7168}, 0, NULL, 0, 0},
    {OP_NORM, {0, 33}, 0, NULL, 0, 0},
    {OP_NORM_D, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_D, {130, 515}, ADD_TO, NULL, 0, 0},
    {OP_NORM_D, {19, 2051}, ADD_TO | ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_D, {37, 132}, ADD_TO, NULL, 0, 0},
    {OP_NORM_D, {37, 2048}, 0, NULL, 0, 0},
    {OP_NORM_D, {9, 7168}, ADD_TO | ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_D, {37, 128}, ADD_TO | ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_W, {67, 33}, 0, NULL, 0, 0},
    {OP_NORM_W, {1000, 128}, 0, NULL, 0, 0},
    {OP_NORM_W, {333, 7168}, 0, NULL, 0, 0},
    {OP_NORM_W, {70, 2048}, 0, NULL, 0, 0},
    {OP_NORM_W, {20500, 64}, 0, NULL, 0, 0},
    {OP_NORM_W, {67, 1031}, 0, NULL, 0, 0},
    {OP_NORM_W, {0, 33}, 0, NULL, 0, 0},
    {OP_ROW_DOTS, {67, 33}, 0, "i2", 0, 0},
    {OP_ROW_DOTS, {19, 2051}, ZERO_CENTRED, NULL, 0, 0},
    {OP_ROW_DOTS, {19, 512}, ZERO_CENTRED, NULL, 0, 0},
    {OP_ROW_DOTS, {19, 512}, 0, "i2", 0, 0},
    {OP_NORM_PART, {67, 33, 3}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_PART, {19, 2051, 2}, 0, NULL, 0, 0},
    {OP_NORM_PART, {19, 1024, 2}, 0, NULL, 0, 0},
    {OP_NORM_PART_D, {67, 33, 3}, ADD_TO, NULL, 0, 0},
    {OP_NORM_PART_D, {19, 2051, 1}, ZERO_CENTRED, NULL, 0, 0},
    {OP_NORM_PART_D, {19, 1024, 2}, ADD_TO, NULL, 0, 0},
    {OP_LAYER_NORM, {67, 33}, ZERO_CENTRED, NULL, 0, 0},
    {OP_LAYER_NORM, {19, 2051}, 0, "i2 o1", 0, 0},
    {OP_LAYER_NORM_D, {67, 33}, ADD_TO, NULL, 0, 0},
    {OP_LAYER_NORM_D, {19, 2051}, ZERO_CENTRED, NULL, 0, 0},
    {OP_LAYER_NORM_W, {67, 33}, 0, NULL, 0, 0},
    {OP_LAYER_NORM_W, {2050, 129}, 0, "o1", 0, 0},
    {OP_ADD, {1}, 0, NULL, 0, 0},
    {OP_ADD, {70001}, 0, NULL, 0, 0},
    {OP_ADD, {70001}, 0, NULL, 1, 0},
    {OP_ADD, {70001}, 0, NULL, 2, 0},
    {OP_ADD, {70000}, 0, NULL, 0, 0},
    {OP_ADD, {70000}, 0, NULL, 1, 0},
    {OP_ADD, {0}, 0, NULL, 0, 0},
    {OP_COPY, {70001}, 0, NULL, 0, 0},
    {OP_COPY, {4096}, 0, NULL, 0, 0},
    {OP_CAST, {70001}, 0, NULL, 0, 0},
    {OP_CAST, {4096}, 0, NULL, 0, 0},
    {OP_COPY_OUT, {70001}, 0, NULL, 0, 0},
    {OP_COPY_IN, {513}, 0, NULL, 0, 0},
    {OP_COPY_IN, {0}, 0, NULL, 0, 0},
    {OP_ZERO, {70001}, 0, NULL, 0, 0},
    {OP_GATE, {67, 33, 33}, 0, NULL, 0, 0},
    {OP_GATE, {67, 515, 1}, 0, NULL, 0, 0},
    {OP_GATE_D, {67, 33, 33}, 0, NULL, 0, 0},
    {OP_GATE_D, {671, 33, 33}, 0, NULL, 1, 0},
    {OP_GATE_D, {67, 515, 1}, 0, NULL, 1, 0},
    {OP_GATE_D, {9, 2515, 1}, 0, NULL, 0, 0},
    {OP_GATE_D, {67, 515, 1}, 0, "o1", 0, 0},
    {OP_GATE_D, {67, 33, 33}, 0, "o0", 0, 0},
    {OP_ACT, {67, 33}, 0, NULL, 0, 0},
    {OP_ACT, {67, 768}, 0, NULL, 0, 0},
    {OP_ACT, {130, 257}, CLAMPED, "i1", 0, 0},
    {OP_ACT, {0, 257}, CLAMPED, NULL, 0, 0},
    {OP_ACT_D, {67, 33}, 0, NULL, 0, 0},
    {OP_ACT_D, {67, 33}, 0, "i2 o1", 0, 0},
    {OP_ACT_D, {130, 257}, CLAMPED, NULL, 0, 0},
    {OP_ACT_D, {13, 1257}, 0, NULL, 0, 0},
    {OP_ACT_D, {67, 768}, 0, NULL, 0, 0},
    {OP_ACT_D, {9, 132}, CLAMPED, "i2 o1", 0, 0},
    {OP_ACT_D, {5, 6144}, CLAMPED, NULL, 0, 0},
    {OP_ACT_AS, {33, 65, 0, ACT_GELU}, 0, NULL, 0, 0},
    {OP_ACT_AS, {33, 65, 1, ACT_FAST_GELU}, 0, NULL, 0, 0},
    {OP_ACT_AS, {33, 65, 1, ACT_QUICK_GELU}, 0, "i1", 0, 0},
    {OP_ACT_AS, {33, 65, 0, ACT_SQUARED_RELU}, 0, NULL, 0, 0},
    {OP_ACT_AS, {33, 65, 1, ACT_SILU}, 0, NULL, 0, 0},
    {OP_ACT_AS, {33, 256, 0, ACT_GELU}, 0, NULL, 0, 0},
    {OP_ACT_AS_D, {33, 65, 0, ACT_GELU}, 0, NULL, 0, 0},
    {OP_ACT_AS_D, {33, 65, 1, ACT_FAST_GELU}, 0, NULL, 0, 0},
    {OP_ACT_AS_D, {33, 65, 1, ACT_QUICK_GELU}, 0, "i2 o1", 0, 0},
    {OP_ACT_AS_D, {33, 65, 0, ACT_SQUARED_RELU}, 0, NULL, 0, 0},
    {OP_ACT_AS_D, {9, 1065, 1, ACT_SILU}, 0, NULL, 0, 0},
    {OP_ACT_AS_D, {33, 256, 0, ACT_GELU}, 0, NULL, 0, 0},
    {OP_QKV_SPLIT, {37, 6, 2, 5}, 0, NULL, 0, 0},
    {OP_QKV_SPLIT, {301, 8, 4, 64}, 0, "o3", 0, 0},
    {OP_QKV_JOIN, {37, 6, 2, 5}, 0, NULL, 0, 0},
    {OP_QKV_JOIN, {301, 8, 4, 64}, 0, "i3", 0, 0},
    {OP_ROPE, {34, 17, 3, 10, 0, 10}, 0, NULL, 0, 0},
    {OP_ROPE, {37, 8, 3, 24, 8, 16}, 0, NULL, 0, 0}, /* pairs that are read 8 at a time */
    {OP_ROPE, {40, 10, 5, 192, 128, 64}, INTERLEAVED, NULL, 0, 0},
    {OP_ROPE_D, {37, 8, 3, 24, 8, 16}, INTERLEAVED, NULL, 0, 0},
    {OP_ROPE_D, {40, 10, 5, 128, 0, 128}, 0, NULL, 0, 0},
    {OP_ROPE, {300, 100, 4, 64, 16, 34}, INTERLEAVED, NULL, 0, 0},
    {OP_ROPE_D, {34, 17, 3, 10, 2, 6}, INTERLEAVED, NULL, 0, 0},
    {OP_ROPE_D, {300, 100, 4, 64, 16, 34}, 0, NULL, 0, 0},
    {OP_MLA_KV_SPLIT, {301, 33, 9}, 0, NULL, 0, 0},
    {OP_MLA_KV_SPLIT, {301, 512, 64}, 0, NULL, 0, 0},
    {OP_MLA_KV_MERGE, {301, 33, 9}, 0, NULL, 0, 0},
    {OP_MLA_KV_JOIN, {301, 3, 16, 7, 9}, 0, NULL, 0, 0},
    {OP_MLA_KV_JOIN_D, {301, 3, 16, 7, 9}, 0, NULL, 0, 0},
    {OP_HEAD_LOSS, {1, 3, 2, 1}, 0, NULL, 0, 0},
    {OP_HEAD_LOSS, {37, 19, 71, 8}, 0, NULL, 0, 0},
    {OP_HEAD_LOSS, {37, 19, 71, 100}, 0, "i3", 0, 0},
    {OP_HEAD_LOSS, {131, 65, 3001, 50}, 0, NULL, 0, 0},
    {OP_HEAD_LOSS, {131, 65, 301, 50}, 0, "o1 o2", 0, 0},
    {OP_HEAD_LOSS, {31, 65, 301, 50}, 0, "o2", 0, 0},
    {OP_HEAD_LOSS, {31, 65, 301, 50}, 0, "o1", 0, 0},
    {OP_HEAD_LOSS, {37, 64, 264, 16}, 0, NULL, 0, 0}, /* sizes that libraries take */
    {OP_HEAD_LOSS, {130, 128, 9000, 64}, 0, NULL, 0, 0},
    {OP_HEAD_LOSS, {130, 128, 1000, 500}, 0, "i3", 0, 0},
    {OP_HEAD_LOSS, {31, 64, 304, 50}, 0, "o1 o2", 0, 0},
    {OP_HEAD_LOSS, {31, 64, 304, 50}, 0, "o1", 0, 0},
    {OP_HEAD_PART, {1, 3, 2, 1, 0, 0}, 0, NULL, 0, 0},
    {OP_HEAD_PART, {131, 65, 3001, 50, 50, 0}, 0, NULL, 0, 0},
    {OP_HEAD_PART, {131, 65, 301, 50, 100, 20}, 0, NULL, 0, 0},
    {OP_HEAD_PART, {31, 65, 301, 50, 50, 20}, 0, NULL, 0, 0},
    {OP_HEAD_PART_D, {1, 3, 2, 1, 0, 0, 1}, 0, NULL, 0, 0},
    {OP_HEAD_PART_D, {131, 65, 3001, 50, 50, 0, 2}, 0, NULL, 0, 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 100, 20, 3}, 0, NULL, 0, 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 100, 20, 1}, 0, "i4 o2", 0, 0},
    {OP_HEAD_PART_D, {131, 65, 301, 50, 0, 20, 2}, 0, "o3", 0, 0},
    {OP_HEAD_PART_D, {31, 65, 301, 50, 50, 20, 2}, 0, NULL, 0, 0},
    {OP_HEAD_LOGITS, {37, 19, 301}, 0, NULL, 0, 0},
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
        {OP_ATTN_BLOCK, {__VA_ARGS__}, ADD_TO, NULL, 0, 0},                                        \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, 0, NULL, 0, 0},                                           \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, ADD_TO, NULL, 0, 0},                                      \
        {OP_ATTN_BLOCK_D, {__VA_ARGS__}, ADD_KV, NULL, 0, 0},                                      \
    {                                                                                              \
        OP_ATTN_BLOCK_D, {__VA_ARGS__}, ADD_TO | ADD_KV, NULL, 0, 0                                \
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
    {OP_GDN_SPLIT, {5, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_GDN_SPLIT, {1, 1, 1, 1}, 0, NULL, 0, 0},
    {OP_GDN_JOIN, {501, 12, 6, 2}, 0, NULL, 0, 0},
    {OP_CONV, {1, 1, 1, 4}, 0, NULL, 0, 0},
    {OP_CONV, {2, 3, 5, 4}, 0, NULL, 0, 0},
    {OP_CONV, {2, 130, 70, 4}, 0, NULL, 0, 0},
    {OP_CONV, {3, 9, 64, 1}, 0, NULL, 0, 0},
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
    {OP_GATED_NORM_W, {667, 33}, 0, NULL, 0, 0},
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
    {OP_GDN_RULE, {1, 70, 2, 4, 8, 8, 64}, 0, "o1", 0, 1},
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
        {OP_PERMUTE_D, {__VA_ARGS__}, ADD_TO, "i1 o1", 0, way},                                    \
        {OP_UNPERMUTE, {__VA_ARGS__}, 0, NULL, 0, way},                                            \
        {OP_UNPERMUTE, {__VA_ARGS__}, ADD_TO, NULL, 0, way},                                       \
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
    {OP_GROUPED_W, {159, 7, 33, 19}, OVERWRITE, NULL, 0, 2},
    {OP_GROUPED_W, {3000, 17, 192, 320}, OVERWRITE, NULL, 0, 2},
    {OP_GROUPED_W, {200, 7, 64, 128}, OVERWRITE, NULL, 0, 4},
#define BIASES(way, ...)                                                                           \
    {OP_GROUPED_BIAS, {__VA_ARGS__}, 0, NULL, 0, way},                                             \
        {OP_GROUPED_BIAS, {__VA_ARGS__}, 0, "i1", 0, way},                                         \
        {OP_GROUPED_BIAS_W, {__VA_ARGS__}, 0, NULL, 0, way},                                       \
        {OP_GROUPED_BIAS_W, {__VA_ARGS__}, 0, "i1", 0, way},                                       \
    {                                                                                              \
        OP_GROUPED_BIAS_P, {__VA_ARGS__}, 0, NULL, 0, way                                          \
    }
    BIASES(0, 159, 7, 33),
    BIASES(1, 159, 7, 129),
    BIASES(2, 900, 40, 65),
    BIASES(4, 20, 7, 65),
    BIASES(5, 300, 3, 1100),
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
#define MOVES(x, y, ...)                                                                           \
    {OP_MOVE, {__VA_ARGS__}, 0, NULL, 0, (x)*1000000 + (y)},                                       \
    {                                                                                              \
        OP_MOVE, {__VA_ARGS__}, ADD_TO, NULL, 0, (x)*1000000 + (y)                                 \
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
    {OP_ADAMW, {1, 1}, 0, NULL, 0, 0},
    {OP_ADAMW, {70001, 5}, 0, NULL, 0, 0},
    {OP_ADAMW, {70001, 5}, DECAY_L2, "o1", 0, 0},
    {OP_ADAMW, {300000, 700}, 0, NULL, 0, 0},
    {OP_ADAMW, {3000, 7}, 0, NULL, 0, 1}, /* not taken */
    {OP_BIAS_UPDATE, {300}, 0, NULL, 0, 0},
    {OP_BIAS_UPDATE, {8}, 0, NULL, 0, 1},
};

const shape *shape_of(op_kind kind)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].kind == kind) return &shapes[i];
    return NULL;
}

const sizes *all_sizes(int *n)
{
    *n = (int)(sizeof tries / sizeof tries[0]);
    return tries;
}

/* ---- from a row of `tries` to a trial */

/* Reads one factor of a shape and moves past it. */
static int64_t factor(const op *o, const char **s)
{
    if (**s != '(') return o->dim[*(*s)++ - '0'];
    int64_t sum = 0;
    while (*(*s)++ != ')') sum += o->dim[*(*s)++ - '0'];
    return sum;
}

static int64_t count_of(const op *o, const char *s)
{
    int64_t n = 1;
    while (*s && *s != ' ') n *= factor(o, &s);
    return n;
}

static void tensors_init(trial *t, const char *s, tensor *x)
{
    const op *o = &t->o;
    for (; *s; x++) {
        if (*s == 'i') {
            tensor_ints(x, count_of(o, s + 1));
            for (int64_t i = 0; i < x->n; i++) x->i[i] = (int32_t)next_below(t, o->dim[2] + 10) - 1;
        } else if (*s == 'm') {
            tensor_reals(t, x, count_of(o, s + 1));
            for (int64_t i = 0; i < x->n; i++) x->f[i] = i % 5 == 2 ? 0 : i % 5 == 3 ? 0.5F : 1;
        } else if (*s == '=') {
            tensor_reals(t, x, s[1] - '0');
        } else if (*s == 'd') {
            tensor_doubles(t, x, s[1] == '=' ? s[2] - '0' : count_of(o, s + 1));
        } else if (*s != '?') {
            tensor_reals(t, x, count_of(o, s));
        }
        s += strcspn(s, " ");
        s += *s == ' ';
    }
}

/* Without gates the groups of a joint projection are shorter. */
static const char *shape_text(const sizes *s, const char *text, const char *gate)
{
    const bool joint = s->kind == OP_QKV_SPLIT || s->kind == OP_QKV_JOIN;
    const bool no_gate = s->without && strstr(s->without, gate);
    return joint && no_gate && strchr(text, '(') ? "0(1+2+2)3" : text;
}

static void release_missing(trial *t, const char *without)
{
    for (const char *p = without; p && *p; p += p[2] == ' ' ? 3 : 2)
        tensor_release((*p == 'i' ? t->in : t->out) + (p[1] - '0'));
}

/* Kinds keep their numbers when others are added before them. */
static uint64_t seed_of(op_kind kind)
{
    uint64_t seed = 12345;
    for (const char *p = op_infos[kind].name; *p; p++) seed = seed * 31 + (uint64_t)*p;
    return seed;
}

void trial_init(trial *t, const sizes *s)
{
    const shape *form = shape_of(s->kind);
    *t = (trial){.random = seed_of(s->kind), .way = s->way, .in_place = s->in_place};
    t->o.kind = s->kind;
    t->o.flags = s->flags;
    memcpy(t->o.dim, s->dim, sizeof s->dim);
    memcpy(t->o.real, form->real, sizeof form->real);
    tensors_init(t, shape_text(s, form->in, "o3"), t->in);
    tensors_init(t, shape_text(s, form->out, "i3"), t->out);
    if (s->kind == OP_MOVE) {
        tensor_reals(t, &t->in[0], s->way / 1000000);
        tensor_reals(t, &t->out[0], s->way % 1000000);
    }
    if (form->fill) form->fill(t);
    release_missing(t, s->without);
    for (int i = 0; i < OP_IN_MAX; i++) t->o.in[i] = t->in[i].start ? i : -1;
    for (int i = 0; i < OP_OUT_MAX; i++) t->o.out[i] = t->out[i].start ? OP_IN_MAX + i : -1;
}

void trial_release(trial *t)
{
    for (int i = 0; i < OP_IN_MAX; i++) tensor_release(&t->in[i]);
    for (int i = 0; i < OP_OUT_MAX; i++) tensor_release(&t->out[i]);
}
