/* parts.h - where the GPU's rows come from: each .cu file gives a table of its own. */
#ifndef BACKEND_CUDA_KERNELS_PARTS_H
#define BACKEND_CUDA_KERNELS_PARTS_H

#include "backend/cuda/kernels/cuda_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_part {
    const kernel *rows;
    int n;
} cuda_part;

cuda_part cuda_dense(void);
cuda_part cuda_norm(void);
cuda_part cuda_layer_norm(void);
cuda_part cuda_maps(void);
cuda_part cuda_act(void);
cuda_part cuda_move(void);
cuda_part cuda_heads(void);
cuda_part cuda_loss(void);
cuda_part cuda_attention(void);
cuda_part cuda_attention_back(void);
cuda_part cuda_gdn(void);
cuda_part cuda_gdn_rule(void);
cuda_part cuda_gdn_rule_back(void);
cuda_part cuda_router(void);
cuda_part cuda_router_loss(void);
cuda_part cuda_order(void);
cuda_part cuda_permute(void);
cuda_part cuda_grouped(void);
cuda_part cuda_route(void);
cuda_part cuda_flex(void);
cuda_part cuda_update(void);
cuda_part cuda_quant(void);
cuda_part cuda_host_update(void);
cuda_part cuda_fused(void);

/* Fast rows, behind all plain ones. */
cuda_part cuda_fast_grouped(void);
cuda_part cuda_fast_gemm(void);
cuda_part cuda_fast_head(void);
cuda_part cuda_fast_head_part(void);
cuda_part cuda_fast_attention(void);
cuda_part cuda_fast_blocks(void);
cuda_part cuda_fast_wgmma(void);
cuda_part cuda_gdn_chunk(void);
cuda_part cuda_gdn_chunk_back(void);
cuda_part cuda_fast_order(void);
cuda_part cuda_fast_router(void);
cuda_part cuda_fast_router_loss(void);
cuda_part cuda_fast_norm(void);
cuda_part cuda_fast_conv(void);
cuda_part cuda_fast_thin(void);
cuda_part cuda_fast_rope(void);
cuda_part cuda_fast_quant(void);
cuda_part cuda_fast_quantise(void);
cuda_part cuda_fast_quantise_fused(void);
cuda_part cuda_fast_fp8(void);
cuda_part cuda_fast_fp8_weight(void);
cuda_part cuda_lt_fp8(void);
cuda_part cuda_fast_fused(void);
cuda_part cuda_fast_heads(void);

#ifdef __cplusplus
}
#endif

#endif
