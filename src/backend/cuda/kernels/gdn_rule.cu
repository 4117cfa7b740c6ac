/* gdn_rule.cu - the gated delta rule forward: the recurrence as it is written. */
#include "backend/cuda/kernels/gdn_rule.cuh"

enum { COLUMNS = BLOCK / PARTS };

static int64_t rule_floats(const rule &r)
{
    return COLUMNS * column_stride(r.dk) + 4 * r.dk;
}

/* Two sets of q and k: a token's may be loaded while the last one's are still read. */
static __global__ void rule_kernel(rule r, numbers o)
{
    extern __shared__ float memory[];
    const int part = (int)threadIdx.x % PARTS, column = (int)threadIdx.x / PARTS;
    const rule_place at = {(int64_t)blockIdx.z, (int64_t)blockIdx.y,
                           (int64_t)blockIdx.y / (r.nv / r.nk), (int64_t)blockIdx.x * COLUMNS};
    const int64_t c = at.first + column;
    float *s = memory + column * column_stride(r.dk);
    float *vectors = memory + COLUMNS * column_stride(r.dk);
    for (int64_t i = part; i < r.dk; i += PARTS) s[i] = 0;
    for (int64_t t = 0; t < r.s; t++) {
        float *q = vectors + t % 2 * 2 * r.dk, *k = q + r.dk;
        load_token(r, at, t, q, k);
        __syncthreads();
        if (r.states && t % r.chunk == 0 && c < r.dv)
            for (int64_t i = part; i < r.dk; i += PARTS)
                r.states[state_at(r, at, t / r.chunk) + i * r.dv + c] = s[i];
        const int64_t head = (at.b * r.s + t) * r.nv + at.h;
        advance(s, k, r.dk, part, expf(get(r.g, head)), get(r.beta, head), value_at(r, at, t, c));
        float dot = 0;
        for (int64_t i = part; i < r.dk; i += PARTS) dot += s[i] * q[i];
        dot = sum_parts(dot);
        if (part == 0 && c < r.dv) put(o, head * r.dv + c, dot);
    }
}

static int64_t forward_bytes(const op *o, const op_types *)
{
    return factors_bytes(rule_of(op_gdn_rule_of(o)));
}

static void forward(const kernel_call *c)
{
    const op_gdn_rule o = op_gdn_rule_of(c);
    rule r = rule_of(o);
    r.factors = (float *)c->workspace;
    if (r.b * r.s * r.nv * r.dv == 0) return;
    make_factors(c, r, (float *)c->workspace);
    const size_t bytes = sizeof(float) * (size_t)rule_floats(r);
    cudaFuncSetAttribute(rule_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const dim3 grid((unsigned)ceil_of(r.dv, COLUMNS), (unsigned)r.nv, (unsigned)r.b);
    rule_kernel<<<grid, BLOCK, bytes, stream_of(c)>>>(r, o.o);
}

static bool forward_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_GDN_RULE_Dk] <= KEY_MOST;
}

extern "C" cuda_part cuda_gdn_rule(void)
{
    static const kernel rows[] = {
        {.kind = OP_GDN_RULE,
         .name = "plain",
         .accepts = forward_fits,
         .workspace = forward_bytes,
         .launch = forward},
    };
    return PART(rows);
}
