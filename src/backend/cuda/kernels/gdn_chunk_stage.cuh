/* gdn_chunk_stage.cuh - what goes from chunk to chunk, forward and back: the stages of chunks in
 * shared memory, and GROUP columns of a state (or of its gradient) that a block carries along.
 *
 * G1  Two stages: the next chunk is on its way while one is worked on.
 * G2  A state stands in registers in FP32, warp w having rows 16 w to 16 w + 15 as four tiles of
 *     mma.cuh, and in shared memory in BF16 as an operand. */
#ifndef BACKEND_CUDA_KERNELS_GDN_CHUNK_STAGE_CUH
#define BACKEND_CUDA_KERNELS_GDN_CHUNK_STAGE_CUH

#include "backend/cuda/kernels/gdn_chunk.cuh"

struct chunk_stage {
    bf16 q[CHUNK * KEY_STRIDE], k[CHUNK * KEY_STRIDE];
    bf16 t[CHUNK * SQUARE_STRIDE], p[CHUNK * SQUARE_STRIDE];
    bf16 x[CHUNK * GROUP_STRIDE]; /* the block's columns of v, or of do */
    gates g;
};

/* Columns of a chunk's first token, and the distance to those of the next. */
struct stage_columns {
    const bf16 *p;
    int64_t step;
};

/* Starts the copies; `first` is the block's first column. */
static __device__ __forceinline__ void read_stage(const chunks &w, const chunk_place &c,
                                                  stage_columns x, int64_t first, chunk_stage &in)
{
    const rule &r = w.r;
    const int64_t square = c.at * CHUNK * CHUNK;
    copy_tile<CHUNK, HEAD>(in.q, KEY_STRIDE, query_at(r, c), r.row, c.n, r.dk);
    copy_tile<CHUNK, HEAD>(in.k, KEY_STRIDE, key_at(r, c), r.row, c.n, r.dk);
    copy_tile<CHUNK, CHUNK>(in.t, SQUARE_STRIDE, w.t + square, CHUNK, CHUNK, CHUNK);
    copy_tile<CHUNK, CHUNK>(in.p, SQUARE_STRIDE, w.p + square, CHUNK, CHUNK, CHUNK);
    copy_tile<CHUNK, GROUP>(in.x, GROUP_STRIDE, x.p + first, x.step, c.n, r.dv - first);
    copy_gates(&in.g, w.g + c.at);
}

static __device__ __forceinline__ void put_numbers(float *p, float x, float y)
{
    *(float2 *)p = {x, y};
}

static __device__ __forceinline__ void put_numbers(bf16 *p, float x, float y)
{
    put_pair(p, x, y);
}

/* to[Dk][Dv], of all its columns those from `first` on that a block has. */
template <typename T>
static __device__ __forceinline__ void write_state(const rule &r, T *to, int64_t first,
                                                   const float (&s)[4][4])
{
    const int columns = (int)(r.dv - first);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = (int)threadIdx.x / WARP * 16 + tile_row() + 8 * half;
        T *line = to + first + row * r.dv;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (row < (int)r.dk && tile_column(i) < columns)
                put_numbers(line + tile_column(i), s[i][2 * half], s[i][2 * half + 1]);
    }
}

/* As an operand: to[HEAD][GROUP_STRIDE]. */
static __device__ __forceinline__ void keep_state(bf16 *to, const float (&s)[4][4])
{
    const int row = (int)threadIdx.x / WARP * 16 + tile_row();
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            put_pair(to + (row + 8 * half) * GROUP_STRIDE + tile_column(i), s[i][2 * half],
                     s[i][2 * half + 1]);
}

/* By a whole chunk. */
static __device__ __forceinline__ void fade_state(const gates &g, float (&s)[4][4])
{
    const float fade = from_start(g, CHUNK - 1);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) s[i][j] *= fade;
}

#endif
