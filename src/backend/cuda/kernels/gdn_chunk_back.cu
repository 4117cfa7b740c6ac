/* gdn_chunk_back.cu - what goes from chunk to chunk in the gradient of the gated delta rule
 * (gdn_chunk_back.cuh). A block carries GROUP columns of dS, as the forward carries the state's. */
#include "backend/cuda/kernels/gdn_chunk_back.cuh"
#include "backend/cuda/kernels/gdn_chunk_stage.cuh"

struct back_memory {
    chunk_stage in[2];
    bf16 ds[HEAD * GROUP_STRIDE];
    bf16 ddelta[CHUNK * GROUP_STRIDE];
    bf16 by_k[CHUNK * GROUP_STRIDE]; /* -beta e^G Y, times the factor of k */
    bf16 by_q[CHUNK * GROUP_STRIDE]; /* e^G do, times the factor of q */
};

static __device__ __forceinline__ stage_columns outputs_of(const back_chunks &w,
                                                           const chunk_place &c)
{
    const rule &r = w.w.r;
    return {w.d_o + (c.first * r.nv + c.h) * r.dv, r.nv * r.dv};
}

static __device__ void scale_rows(const gates &g, int row, float (&x)[2][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half;
        const float by = to_end(g, t) * g.by_k[t];
#pragma unroll
        for (int i = 0; i < 2; i++) x[i][2 * half] *= by, x[i][2 * half + 1] *= by;
    }
}

static __device__ void put_rows(bf16 *to, int row, int column, const float (&x)[2][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            put_pair(to + (row + tile_row() + 8 * half) * GROUP_STRIDE + column + tile_column(i),
                     x[i][2 * half], x[i][2 * half + 1]);
}

static __device__ void put_queries(const chunk_stage &in, bf16 *to)
{
    for (int e = (int)threadIdx.x * 2; e < CHUNK * GROUP; e += 2 * BLOCK) {
        const int t = e / GROUP, at = t * GROUP_STRIDE + e % GROUP;
        const float by = from_start(in.g, t) * in.g.by_q[t];
        const float2 x = get_pair(in.x + at);
        put_pair(to + at, by * x.x, by * x.y);
    }
}

/* Y to memory, dv = beta Y, and what dS before the chunk gets of it. */
static __device__ void put_y(const back_chunks &w, const chunk_place &c, const gates &g, int row,
                             int column, int64_t first, const float (&y)[2][4], bf16 *by_k)
{
    const rule &r = w.w.r;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half;
        const float beta = g.beta[t], by = -beta * from_start(g, t) * g.by_k[t];
        bf16 *to_y = w.y + ((c.first + t) * r.nv + c.h) * r.dv,
             *to_v = w.dqkv + value_offset(r, c) + t * r.row;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int here = column + tile_column(i);
            const float a = y[i][2 * half], b = y[i][2 * half + 1];
            put_pair(by_k + t * GROUP_STRIDE + here, by * a, by * b);
            if (t >= c.n || first + here >= r.dv) continue;
            put_pair(to_y + first + here, a, b);
            put_pair(to_v + first + here, beta * a, beta * b);
        }
    }
}

static __device__ void work(const back_chunks &w, const chunk_place &c, const chunk_stage &in,
                            int64_t first, back_memory &m, float (&ds)[4][4])
{
    const int warp = (int)threadIdx.x / WARP, row = warp % 4 * 16, column = warp / 4 * 16;
    const matrix q = {in.q, KEY_STRIDE}, k = {in.k, KEY_STRIDE}, t = {in.t, SQUARE_STRIDE},
                 p = {in.p, SQUARE_STRIDE};
    float x[2][4];
    clear_tiles(x);
    multiply<false, false>(x, k, row, matrix{m.ds, GROUP_STRIDE}, column, HEAD);
    scale_rows(in.g, row, x);
    multiply<true, false>(x, p, row, matrix{in.x, GROUP_STRIDE}, column, CHUNK);
    put_rows(m.ddelta, row, column, x);
    put_queries(in, m.by_q);
    __syncthreads();
    clear_tiles(x);
    multiply<true, false>(x, t, row, matrix{m.ddelta, GROUP_STRIDE}, column, CHUNK);
    put_y(w, c, in.g, row, column, first, x, m.by_k);
    __syncthreads();
    fade_state(in.g, ds);
    multiply<true, false>(ds, q, warp * 16, matrix{m.by_q, GROUP_STRIDE}, 0, CHUNK);
    multiply<true, false>(ds, k, warp * 16, matrix{m.by_k, GROUP_STRIDE}, 0, CHUNK);
    keep_state(m.ds, ds);
}

static __global__ void __launch_bounds__(BLOCK) back_kernel(back_chunks w)
{
    extern __shared__ __align__(16) char memory[];
    back_memory &m = *(back_memory *)memory;
    const rule &r = w.w.r;
    const int64_t first = (int64_t)blockIdx.x * GROUP, h = blockIdx.y, b = blockIdx.z;
    float ds[4][4];
    clear_tiles(ds);
    keep_state(m.ds, ds);
    chunk_place next = place_of(r, b, r.n_chunks - 1, h);
    read_stage(w.w, next, outputs_of(w, next), first, m.in[(r.n_chunks - 1) % 2]);
    for (int64_t i = r.n_chunks - 1; i >= 0; i--) {
        const chunk_place c = next;
        copies_wait();
        __syncthreads();
        if (i > 0) {
            next = place_of(r, b, i - 1, h);
            read_stage(w.w, next, outputs_of(w, next), first, m.in[(i - 1) % 2]);
        }
        write_state(r, w.ds + c.at * r.dk * r.dv, first, ds);
        work(w, c, m.in[i % 2], first, m, ds);
    }
}

/* ---- the row */

static bool takes(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_GDN_RULE_D_qkv + 1, OUT_GDN_RULE_D_dqkv + 1) && chunks_fit(o, t);
}

/* Workspace: what prepare leaves, dS, Y. */
static int64_t ds_bytes(const rule &r)
{
    return room_of(chunk_count(r) * r.dk * r.dv * (int64_t)sizeof(bf16));
}

static int64_t bytes(const op *o, const op_types *)
{
    const rule r = rule_of(op_gdn_rule_d_of(o));
    return chunks_bytes(r) + ds_bytes(r) + room_of(r.b * r.s * r.nv * r.dv * (int64_t)sizeof(bf16));
}

static void launch(const kernel_call *c)
{
    const op_gdn_rule_d o = op_gdn_rule_d_of(c);
    const rule r = rule_of(o);
    char *p = (char *)c->workspace;
    back_chunks w = {};
    w.w = chunks_at(r, p);
    w.ds = (bf16 *)(p + chunks_bytes(r));
    w.y = (bf16 *)(p + chunks_bytes(r) + ds_bytes(r));
    w.d_o = (const bf16 *)o.do_.p;
    w.dqkv = (bf16 *)o.dqkv.p;
    w.dbeta = o.dbeta, w.dg = o.dg;
    const dim3 grid((unsigned)ceil_of(r.dv, GROUP), (unsigned)r.nv, (unsigned)r.b);
    gdn_prepare_chunks(c, w.w);
    cudaFuncSetAttribute(back_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)sizeof(back_memory));
    back_kernel<<<grid, BLOCK, sizeof(back_memory), stream_of(c)>>>(w);
    gdn_chunks_rest(c, w);
}

extern "C" cuda_part cuda_gdn_chunk_back(void)
{
    static const kernel rows[] = {
        {.kind = OP_GDN_RULE_D,
         .name = "chunks",
         .accepts = takes,
         .workspace = bytes,
         .launch = launch},
    };
    return PART(rows);
}
