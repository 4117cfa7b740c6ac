/* norm.cuh - what norms are, whether rows are read from memory (norm.cu) or stay in registers
 * (fast_norm.cu).
 *
 * row.of(x) are numbers of a row by spot, W neighbours from column spot.j on; row.each(f) calls
 * f(spot) for all that a thread has, row.sum(v) adds over the row's threads.
 *
 * With g = dy * w and r = rstd the gradient is dx = r g - x r^3 mean(g x), since r depends on each
 * x too. */
#ifndef BACKEND_CUDA_KERNELS_NORM_CUH
#define BACKEND_CUDA_KERNELS_NORM_CUH

#include "backend/cuda/kernels/registers.cuh"

/* ---- rows in memory, of any format and width */

template <int THREADS, int N> struct memory_row {
    enum { W = N };
    struct spot {
        int64_t j;
    };
    int64_t i, h;
    int thread;
    static constexpr bool there = true;

    struct operand {
        numbers x;
        int64_t first;
        __device__ __forceinline__ lanes<W> operator()(spot at) const
        {
            return load<W>(x, first + at.j);
        }
    };

    __device__ __forceinline__ operand of(numbers x) const
    {
        return {x, i * h};
    }

    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
        for (int64_t j = thread * W; j < h; j += THREADS * W) f(spot{j});
    }

    __device__ __forceinline__ float sum(float v) const
    {
        return sum_over<THREADS>(v);
    }
};

template <class F> struct memory_rows {
    F f;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        f.of(memory_row<THREADS, W>{i, f.H, thread});
    }
};

/* F(call).of(row) for its rows [M][H]. */
template <class F> static void in_memory(const kernel_call *c)
{
    F f;
    operands(c, &f);
    for_rows(c, f.M, f.H, memory_rows<F>{f});
}

/* ---- forward */

/* Weights of W columns: 1 + w where they are kept about zero; missing: all ones. */
template <int W>
static __device__ __forceinline__ lanes<W> weights(numbers w, unsigned flags, int64_t j)
{
    lanes<W> a;
    if (w.p) a = load<W>(w, j);
#pragma unroll
    for (int k = 0; k < W; k++) a.v[k] = w.p ? a.v[k] + (flags & ZERO_CENTRED ? 1.f : 0.f) : 1.f;
    return a;
}

template <class ROW, class V>
static __device__ __forceinline__ float rstd_of(const ROW &row, const V &v, float eps)
{
    float sum = 0;
    row.each([&](auto at) {
        const lanes<ROW::W> a = v(at);
#pragma unroll
        for (int k = 0; k < ROW::W; k++) sum += a.v[k] * a.v[k];
    });
    return rsqrtf(row.sum(sum) / (float)row.h + eps);
}

/* y = v r w gate(spot), and rstd = r. */
template <class O, class ROW, class V, class G>
static __device__ __forceinline__ void put_norm(const O &o, const ROW &row, const V &v, float r,
                                                const G &gate)
{
    if (!row.there) return;
    row.each([&](auto at) {
        lanes<ROW::W> a = v(at);
        const lanes<ROW::W> by = weights<ROW::W>(o.w, o.flags, at.j), g = gate(at);
#pragma unroll
        for (int k = 0; k < ROW::W; k++) a.v[k] *= r * by.v[k] * g.v[k];
        store(o.y, row.i * row.h + at.j, a);
    });
    if (o.rstd && row.thread == 0) o.rstd[row.i] = r;
}

template <int W> struct no_gate {
    template <class SPOT> __device__ __forceinline__ lanes<W> operator()(SPOT) const
    {
        lanes<W> one;
#pragma unroll
        for (int k = 0; k < W; k++) one.v[k] = 1;
        return one;
    }
};

struct norm_rows : op_norm {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const auto v = row.of(x);
        put_norm(*this, row, v, rstd_of(row, v, eps), no_gate<ROW::W>());
    }
};

/* Times silu(z). */
struct gated_rows : op_gated_norm {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const auto v = row.of(x), g = row.of(z);
        put_norm(*this, row, v, rstd_of(row, v, eps), [&](auto at) {
            lanes<ROW::W> s = g(at);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) s.v[k] = silu(s.v[k]);
            return s;
        });
    }
};

/* ---- gradients by x, and by z */

/* dx = r dy w - x along */
template <class O, class ROW, class V>
static __device__ __forceinline__ void put_gradient(const O &o, const ROW &row, const V &dy,
                                                    const V &x, float r, float along)
{
    if (!row.there) return;
    row.each([&](auto at) {
        lanes<ROW::W> d = dy(at);
        const lanes<ROW::W> v = x(at), by = weights<ROW::W>(o.w, o.flags, at.j);
#pragma unroll
        for (int k = 0; k < ROW::W; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
        store_or_add(o.dx, row.i * row.h + at.j, d, o.flags & ACCUMULATE);
    });
}

struct norm_d_rows : op_norm_d {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const float r = row.there ? rstd[row.i] : 0;
        const auto of_x = row.of(x), of_dy = row.of(dy);
        float sum = 0;
        row.each([&](auto at) {
            const lanes<ROW::W> v = of_x(at), d = of_dy(at), by = weights<ROW::W>(w, flags, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) sum += d.v[k] * by.v[k] * v.v[k];
        });
        put_gradient(*this, row, of_dy, of_x, r, r * r * r * row.sum(sum) / (float)H);
    }
};

struct gated_d_rows : op_gated_norm_d {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const float r = row.there ? rstd[row.i] : 0;
        const auto of_x = row.of(x), of_z = row.of(z), of_dy = row.of(dy);
        float sum = 0;
        row.each([&](auto at) {
            const lanes<ROW::W> d = of_dy(at), v = of_x(at), g = of_z(at),
                                by = weights<ROW::W>(w, flags, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) sum += d.v[k] * by.v[k] * silu(g.v[k]) * v.v[k] * r;
        });
        const float along = row.sum(sum) / (float)H;
        if (!row.there) return;
        row.each([&](auto at) {
            const lanes<ROW::W> d = of_dy(at), v = of_x(at), g = of_z(at),
                                by = weights<ROW::W>(w, flags, at.j);
            lanes<ROW::W> to_x, to_z;
#pragma unroll
            for (int k = 0; k < ROW::W; k++) {
                const float weighed = d.v[k] * by.v[k], n = r * v.v[k];
                to_x.v[k] = r * (weighed * silu(g.v[k]) - n * along);
                to_z.v[k] = weighed * n * silu_slope(g.v[k]);
            }
            store(dx, row.i * H + at.j, to_x);
            store(dz, row.i * H + at.j, to_z);
        });
    }
};

/* ---- gradients by weights: what row i adds to W columns from j on */

struct norm_w_terms : op_norm_w {
    template <int W> __device__ __forceinline__ lanes<W> at(int64_t i, int64_t j) const
    {
        lanes<W> d = load<W>(dy, i * H + j);
        const lanes<W> v = load<W>(x, i * H + j);
        const float r = rstd[i];
#pragma unroll
        for (int k = 0; k < W; k++) d.v[k] *= v.v[k] * r;
        return d;
    }
};

struct gated_w_terms : op_gated_norm_w {
    template <int W> __device__ __forceinline__ lanes<W> at(int64_t i, int64_t j) const
    {
        lanes<W> d = load<W>(dy, i * H + j);
        const lanes<W> v = load<W>(x, i * H + j), g = load<W>(z, i * H + j);
        const float r = rstd[i];
#pragma unroll
        for (int k = 0; k < W; k++) d.v[k] *= v.v[k] * r * silu(g.v[k]);
        return d;
    }
};

struct layer_w_terms : op_layer_norm_w {
    template <int W> __device__ __forceinline__ lanes<W> at(int64_t i, int64_t j) const
    {
        lanes<W> d = load<W>(dy, i * H + j);
        const lanes<W> v = load<W>(x, i * H + j);
        const float mean = stats[2 * i], r = stats[2 * i + 1];
#pragma unroll
        for (int k = 0; k < W; k++) d.v[k] *= (v.v[k] - mean) * r;
        return d;
    }
};

#endif
