/* move.cu - MOVE: copies between two orders of the same numbers.
 *
 * Every number of y has one writer where strides let none meet; then all go at once. Where they
 * meet (a sum) or may, one thread goes through them in order, as the oracle does. */
#include "backend/cuda/kernels/device.cuh"

struct orders {
    numbers x, y;
    int64_t n[4], xs[4], ys[4]; /* strides of the outer three, then where to begin */
    bool add;
    __device__ void one(int64_t at) const
    {
        const int64_t l = at % n[3], k = at / n[3] % n[2], j = at / n[3] / n[2] % n[1];
        const int64_t i = at / n[3] / n[2] / n[1];
        put_or_add(y, ys[3] + i * ys[0] + j * ys[1] + k * ys[2] + l,
                   get(x, xs[3] + i * xs[0] + j * xs[1] + k * xs[2] + l), add);
    }
};

static int64_t size_of(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Does each loop, the nearest first, step over all that the nearer ones reach? */
static bool apart(const int64_t *n, const int64_t *ys)
{
    int64_t reach = n[3];
    bool used[3] = {false, false, false};
    for (int step = 0; step < 3; step++) {
        int near = -1;
        for (int i = 0; i < 3; i++)
            if (!used[i] && (near < 0 || size_of(ys[i]) < size_of(ys[near]))) near = i;
        used[near] = true;
        if (n[near] <= 1) continue;
        if (size_of(ys[near]) < reach) return false;
        reach += (n[near] - 1) * size_of(ys[near]);
    }
    return true;
}

static __global__ void in_order_kernel(orders m, int64_t n)
{
    for (int64_t i = 0; i < n; i++) m.one(i);
}

static void move(const kernel_call *c)
{
    const op_move o = op_move_of(c);
    const int64_t n = o.N0 * o.N1 * o.N2 * o.N3;
    const orders m = {o.x,
                      o.y,
                      {o.N0, o.N1, o.N2, o.N3},
                      {o.X0, o.X1, o.X2, o.XO},
                      {o.Y0, o.Y1, o.Y2, o.YO},
                      (o.flags & ACCUMULATE) != 0};
    if (apart(m.n, m.ys))
        for_each(c, n, [=] __device__(int64_t i) { m.one(i); });
    else if (n > 0)
        in_order_kernel<<<1, 1, 0, stream_of(c)>>>(m, n);
}

extern "C" cuda_part cuda_move(void)
{
    static const kernel rows[] = {{.kind = OP_MOVE, .name = "plain", .launch = move}};
    return PART(rows);
}
