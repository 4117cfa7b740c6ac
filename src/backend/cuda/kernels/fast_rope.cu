/* fast_rope.cu - rotation in place in BF16, 8 neighbouring pairs a thread.
 *
 * The table's cosines and sines of a token serve all of its heads, out of the cache. Places are
 * counted in 32 bits where they fit: a division of 64 takes as long as its thread's loads. */
#include "backend/cuda/kernels/device.cuh"

enum { WIDE = 8 };

struct wide_rotation {
    const float *table; /* [S][ROT/2 cosines, ROT/2 sines] */
    numbers x;          /* [T][N][D] */
    int64_t s;
    int n, d, offset, half, chunks; /* chunks of 8 pairs of a head */
    bool pairs;
    float sign;

    template <class I> __device__ __forceinline__ void at(I head, int chunk) const
    {
        const int j = chunk * WIDE;
        const float *angle = table + (int64_t)(head / (I)n % (I)s) * 2 * half + j;
        const int64_t first = (int64_t)head * d + offset, a = pairs ? first + 2 * j : first + j;
        const int64_t b = pairs ? a + WIDE : a + half;
        lanes<WIDE> u = load<WIDE>(x, a), v = load<WIDE>(x, b);
        lanes<WIDE> cosine = load<WIDE>(as_numbers(angle), 0),
                    sine = load<WIDE>(as_numbers(angle + half), 0);
        if (pairs) {
#pragma unroll
            for (int k = 0; k < WIDE; k += 2) {
                turn(u.v[k], u.v[k + 1], cosine.v[k / 2], sine.v[k / 2]);
                turn(v.v[k], v.v[k + 1], cosine.v[WIDE / 2 + k / 2], sine.v[WIDE / 2 + k / 2]);
            }
        } else {
#pragma unroll
            for (int k = 0; k < WIDE; k++) turn(u.v[k], v.v[k], cosine.v[k], sine.v[k]);
        }
        store(x, a, u);
        store(x, b, v);
    }

    __device__ __forceinline__ void turn(float &u, float &v, float cosine, float sine) const
    {
        const float a = u, b = v, by = sign * sine;
        u = a * cosine - b * by;
        v = b * cosine + a * by;
    }
};

template <class I> static __global__ void rotation_kernel(wide_rotation r, int64_t heads)
{
    const I n = (I)(heads * r.chunks), step = (I)gridDim.x * BLOCK;
    for (I i = (I)blockIdx.x * BLOCK + threadIdx.x; i < n; i += step)
        r.at<I>(i / (I)r.chunks, (int)(i % (I)r.chunks));
}

static bool takes(const op *o, const op_types *t)
{
    const op_rope z = op_rope_of(o);
    return cuda_types_fit(o, t) && t->out[OUT_ROPE_x] == DTYPE_BF16 && z.T > 0 && z.ROT / 2 > 0 &&
           z.ROT % (2 * WIDE) == 0 && z.OFFSET % WIDE == 0 && z.D % WIDE == 0 && z.D <= INT32_MAX &&
           z.N <= INT32_MAX;
}

static void rotate(const kernel_call *c, float sign)
{
    const op_rope o = op_rope_of(c); /* a ROPE_D's operands stand alike */
    const int64_t heads = o.T * o.N, half = o.ROT / 2;
    const wide_rotation r = {o.table,
                             o.x,
                             o.S,
                             (int)o.N,
                             (int)o.D,
                             (int)o.OFFSET,
                             (int)half,
                             (int)(half / WIDE),
                             (o.flags & INTERLEAVED) != 0,
                             sign};
    const unsigned blocks = blocks_of(ceil_of(heads * r.chunks, BLOCK));
    if (heads * r.chunks < INT32_MAX) /* the last step goes beyond them */
        rotation_kernel<uint32_t><<<blocks, BLOCK, 0, stream_of(c)>>>(r, heads);
    else
        rotation_kernel<int64_t><<<blocks, BLOCK, 0, stream_of(c)>>>(r, heads);
}

static void there(const kernel_call *c)
{
    rotate(c, 1);
}

static void back(const kernel_call *c)
{
    rotate(c, -1);
}

extern "C" cuda_part cuda_fast_rope(void)
{
    static const kernel rows[] = {
        {.kind = OP_ROPE, .name = "wide", .accepts = takes, .launch = there},
        {.kind = OP_ROPE_D, .name = "wide", .accepts = takes, .launch = back},
    };
    return PART(rows);
}
