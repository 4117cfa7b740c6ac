/* gdn_chunk.cu - the gated delta rule forward, in chunks (gdn_chunk.cuh).
 *
 * A block carries GROUP columns of a head's state from chunk to chunk (gdn_chunk_stage.cuh). */
#include "backend/cuda/kernels/gdn_chunk_stage.cuh"

struct forward_memory {
    chunk_stage in[2];
    bf16 s[HEAD * GROUP_STRIDE];     /* [Dk][columns] */
    bf16 rest[CHUNK * GROUP_STRIDE]; /* beta (v - e^G K S) */
    bf16 delta[CHUNK * GROUP_STRIDE];
    bf16 faded[CHUNK * GROUP_STRIDE]; /* e^(G_last - G) delta, times the factor of k */
};

static __device__ __forceinline__ stage_columns values_of(const rule &r, const chunk_place &c)
{
    return {(const bf16 *)r.qkv.p + value_offset(r, c), r.row};
}

/* What is missing under the keys, from K S. */
static __device__ void put_rest(const chunk_stage &in, int row, const float (&had)[4][4],
                                bf16 *rest)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half;
        const float by = from_start(in.g, t) * in.g.by_k[t], beta = in.g.beta[t];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = t * GROUP_STRIDE + tile_column(i);
            const float2 v = get_pair(in.x + at);
            put_pair(rest + at, beta * (v.x - by * had[i][2 * half]),
                     beta * (v.y - by * had[i][2 * half + 1]));
        }
    }
}

static __device__ void put_delta(const chunk_stage &in, int row, const float (&d)[4][4],
                                 forward_memory &m)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half;
        const float by = to_end(in.g, t) * in.g.by_k[t];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = t * GROUP_STRIDE + tile_column(i);
            const float x = d[i][2 * half], y = d[i][2 * half + 1];
            put_pair(m.delta + at, x, y);
            put_pair(m.faded + at, by * x, by * y);
        }
    }
}

static __device__ void scale_queries(const gates &g, int row, float (&o)[4][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half;
        const float by = from_start(g, t) * g.by_q[t];
#pragma unroll
        for (int i = 0; i < 4; i++) o[i][2 * half] *= by, o[i][2 * half + 1] *= by;
    }
}

static __device__ void write_output(const rule &r, const chunk_place &c, int64_t first, int row,
                                    const float (&o)[4][4], bf16 *to)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = row + tile_row() + 8 * half, columns = (int)(r.dv - first);
        bf16 *line = to + ((c.first + t) * r.nv + c.h) * r.dv + first;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (t < (int)c.n && tile_column(i) < columns)
                put_pair(line + tile_column(i), o[i][2 * half], o[i][2 * half + 1]);
    }
}

/* The first four warps find delta, the others the output; the state is everybody's. */
static __device__ void work(const chunks &w, const chunk_place &c, const chunk_stage &in,
                            int64_t first, forward_memory &m, float (&s)[4][4], bf16 *o)
{
    const int warp = (int)threadIdx.x / WARP, row = warp % 4 * 16;
    const matrix q = {in.q, KEY_STRIDE}, k = {in.k, KEY_STRIDE}, t = {in.t, SQUARE_STRIDE},
                 p = {in.p, SQUARE_STRIDE}, state = {m.s, GROUP_STRIDE};
    float x[4][4];
    clear_tiles(x);
    if (warp < 4) {
        multiply<false, false>(x, k, row, state, 0, HEAD);
        put_rest(in, row, x, m.rest);
    } else {
        multiply<false, false>(x, q, row, state, 0, HEAD);
        scale_queries(in.g, row, x);
    }
    __syncthreads();
    if (warp < 4) {
        clear_tiles(x);
        multiply<false, false>(x, t, row, matrix{m.rest, GROUP_STRIDE}, 0, CHUNK);
        put_delta(in, row, x, m);
    }
    __syncthreads();
    if (warp >= 4) {
        multiply<false, false>(x, p, row, matrix{m.delta, GROUP_STRIDE}, 0, CHUNK);
        write_output(w.r, c, first, row, x, o);
    }
    fade_state(in.g, s);
    multiply<true, false>(s, k, warp * 16, matrix{m.faded, GROUP_STRIDE}, 0, CHUNK);
    keep_state(m.s, s);
}

static __global__ void __launch_bounds__(BLOCK) rule_kernel(chunks w, bf16 *o)
{
    extern __shared__ __align__(16) char memory[];
    forward_memory &m = *(forward_memory *)memory;
    const rule &r = w.r;
    const int64_t first = (int64_t)blockIdx.x * GROUP, h = blockIdx.y, b = blockIdx.z;
    float s[4][4];
    clear_tiles(s);
    keep_state(m.s, s);
    chunk_place next = place_of(r, b, 0, h);
    read_stage(w, next, values_of(r, next), first, m.in[0]);
    for (int64_t i = 0; i < r.n_chunks; i++) {
        const chunk_place c = next;
        copies_wait();
        __syncthreads();
        if (i + 1 < r.n_chunks) {
            next = place_of(r, b, i + 1, h);
            read_stage(w, next, values_of(r, next), first, m.in[(i + 1) % 2]);
        }
        if (r.states) write_state(r, r.states + c.at * r.dk * r.dv, first, s);
        work(w, c, m.in[i % 2], first, m, s, o);
    }
}

static bool takes(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_GDN_RULE_beta, OUT_GDN_RULE_states) && chunks_fit(o, t);
}

static int64_t bytes(const op *o, const op_types *)
{
    return chunks_bytes(rule_of(op_gdn_rule_of(o)));
}

static void launch(const kernel_call *c)
{
    const op_gdn_rule o = op_gdn_rule_of(c);
    const rule r = rule_of(o);
    const chunks w = chunks_at(r, (char *)c->workspace);
    const dim3 grid((unsigned)ceil_of(r.dv, GROUP), (unsigned)r.nv, (unsigned)r.b);
    gdn_prepare_chunks(c, w);
    cudaFuncSetAttribute(rule_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)sizeof(forward_memory));
    rule_kernel<<<grid, BLOCK, sizeof(forward_memory), stream_of(c)>>>(w, (bf16 *)o.o.p);
}

extern "C" cuda_part cuda_gdn_chunk(void)
{
    static const kernel rows[] = {
        {.kind = OP_GDN_RULE,
         .name = "chunks",
         .accepts = takes,
         .workspace = bytes,
         .launch = launch},
    };
    return PART(rows);
}
