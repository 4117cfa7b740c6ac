/* gdn_chunk_back.cuh - the gradient of the gated delta rule in chunks: its two passes.
 *
 * With dS the gradient by the state after a chunk and the names of gdn_chunk.cuh:
 *     ddelta = P^T do + e^(G_last - G) K dS         Y = T^T ddelta
 *     dS before = e^(G_last) dS + (e^G Q)^T do - (beta e^G K)^T Y
 * is what goes from chunk to chunk, last one first; it leaves dS and Y of every chunk, and dv =
 * beta Y. All else comes of those, for all chunks at once (gdn_chunk_rest.cu). */
#ifndef BACKEND_CUDA_KERNELS_GDN_CHUNK_BACK_CUH
#define BACKEND_CUDA_KERNELS_GDN_CHUNK_BACK_CUH

#include "backend/cuda/kernels/gdn_chunk.cuh"

struct back_chunks {
    chunks w;
    bf16 *ds;          /* [B][n_chunks][Nv][Dk][Dv] */
    bf16 *y;           /* [B*S][Nv][Dv] */
    const bf16 *d_o;   /* [B*S][Nv][Dv] */
    bf16 *dqkv;        /* as qkv */
    float *dbeta, *dg; /* [B*S][Nv] */
};

/* dq, dk, dbeta and dg. */
void gdn_chunks_rest(const kernel_call *c, const back_chunks &t);

#endif
