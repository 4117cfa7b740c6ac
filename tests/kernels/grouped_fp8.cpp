/* grouped_fp8.cpp - the FP8 expert GEMMs of a Hopper GPU, run on the host: the kernel's own code,
 * with barriers, copies and products of hopper_host.h, beside plain loops.
 *
 * Built and run by test_grouped_fp8.sh, which gives away what only a GPU's compiler understands. */
#include "hopper_host.h"

/* ---- as much of CUDA's runtime as grouped_launch.cuh names; nothing is launched by it */
typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess, cudaErrorNotSupported, cudaErrorInvalidValue };
enum { cudaLaunchAttributeClusterDimension, cudaFuncAttributeMaxDynamicSharedMemorySize };
struct dim3 {
    unsigned x, y, z;
    dim3() : dim3(1)
    {
    }
    explicit dim3(unsigned n) : x(n), y(1), z(1)
    {
    }
};
struct cudaLaunchAttribute {
    int id;
    struct {
        dim3 clusterDim;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    int numAttrs;
};
template <class K> static cudaError_t cudaFuncSetAttribute(K, int, int)
{
    return cudaSuccess;
}
template <class K> static cudaError_t cudaOccupancyMaxActiveClusters(int *, K, cudaLaunchConfig_t *)
{
    return cudaSuccess;
}
template <class... A> static cudaError_t cudaLaunchKernelEx(A...)
{
    return cudaSuccess;
}
static bool tensor_map_encoder()
{
    return true;
}

#include "backend/cuda/kernels/grouped_fp8.cuh"
#include "backend/cuda/kernels/grouped_launch.cuh"

typedef std::vector<uint8_t> codes;
typedef std::vector<float> floats;
typedef std::vector<int> ints;
enum { CLUSTERS = 2, TURNS = 1 << 15 };

/* ---- a launch */
template <int KIND, int OUT, int SCALE, bool WIDE_A> struct launch {
    static CUtensorMap map[3];
    static gemm_args g;
    static fp8_scales x;
    static void fiber()
    {
        grouped_fp8<KIND, OUT, SCALE, WIDE_A, PAIR, 4>(map[0], map[1], map[2], g, x);
        ended[now] = true;
        let_others();
    }
    static bool cluster(unsigned which)
    {
        static std::vector<char> stacks((size_t)FIBERS * STACK);
        rendezvous_list.clear();
        barriers.clear();
        for (int t = 0; t < FIBERS; t++) {
            getcontext(&fibers[t]);
            fibers[t].uc_stack = {&stacks[(size_t)t * STACK], 0, STACK};
            fibers[t].uc_link = &scheduler;
            makecontext(&fibers[t], fiber, 0);
            ended[t] = false;
        }
        for (int turn = 0; turn < TURNS; turn++) {
            bool more = false;
            for (now = 0; now < FIBERS; now++) {
                if (ended[now]) continue;
                threadIdx.x = (unsigned)(now % THREADS);
                blockIdx.x = which * PAIR + (unsigned)(now / THREADS);
                swapcontext(&scheduler, &fibers[now]);
                more |= !ended[now];
            }
            if (!more) return true;
        }
        printf("the blocks wait for one another\n");
        return false;
    }
    static bool run(const void *a, const void *b, const gemm_args &args, const fp8_scales &scales)
    {
        static_assert(sizeof(gemm_shared<4>) <= SHARED, "a block has no more");
        g = args, x = scales;
        if (!make_maps<KIND, PAIR>({a, b, g}, map)) return false;
        gridDim.x = CLUSTERS * PAIR;
        for (unsigned c = 0; c < CLUSTERS; c++) {
            for (int i = 0; i < PAIR; i++) memset(memory[i], 0x7f, SHARED); /* no numbers */
            if (!cluster(c)) return false;
        }
        return true;
    }
};
#define STATIC template <int KIND, int OUT, int SCALE, bool WIDE_A>
STATIC CUtensorMap launch<KIND, OUT, SCALE, WIDE_A>::map[3];
STATIC gemm_args launch<KIND, OUT, SCALE, WIDE_A>::g;
STATIC fp8_scales launch<KIND, OUT, SCALE, WIDE_A>::x;

/* ---- operands and plain loops */
static int up4(int n)
{
    return (n + 3) / 4 * 4;
}

static float power()
{
    return ldexpf(1, rand() % 5 - 2);
}

/* Small numbers, whose products are exact. */
static uint8_t code(bool wide)
{
    const float v = (float)(rand() % 9 - 4);
    return narrow_of_float(narrow_format_of(wide ? DTYPE_E5M2 : DTYPE_E4M3), v);
}

static float value_of(uint8_t c, bool wide)
{
    return narrow_to_float(narrow_format_of(wide ? DTYPE_E5M2 : DTYPE_E4M3), c);
}

/* Aligned as a GPU's buffers are; `after` elements behind must stay as they are. */
template <class T> struct aligned {
    std::vector<T> room;
    T *p;
    size_t n;
    aligned(size_t count, T fill) : room(count + 512, fill), n(count)
    {
        p = (T *)(((uintptr_t)room.data() + 255) / 256 * 256);
    }
};

static int wrong(const char *what, const aligned<float> &y, const floats &want, float within)
{
    int bad = 0;
    for (size_t i = 0; i < want.size(); i++)
        bad += !(fabsf(y.p[i] - want[i]) <= within * fabsf(want[i]) + 1e-6f);
    for (size_t i = want.size(); i < want.size() + 64; i++) bad += y.p[i] != 0.5f;
    if (bad) printf("%s: %d of %zu results are wrong\n", what, bad, want.size());
    return bad;
}

/* dw[e][n][k] of a[n][room] and b[k][room]. */
template <int OUT, int SCALE, bool WIDE_A>
static int weight_gradient(int room, const ints &offsets, int n, int k)
{
    const int experts = (int)offsets.size() - 1, blocks = (room + 127) / 128;
    aligned<uint8_t> a((size_t)n * room, 0), b((size_t)k * room, 0);
    aligned<float> sa((size_t)blocks * up4(n), 1), sb((size_t)blocks * up4(k), 1);
    aligned<float> y((size_t)experts * n * k, 0.5f), fa(experts, 1), fb(experts, 1);
    for (int i = 0; i < n + k; i++) /* rows past the last expert's are zeros */
        for (int t = 0; t < std::min(offsets.back(), room); t++)
            (i < n ? a.p[(size_t)i * room + t] : b.p[(size_t)(i - n) * room + t]) =
                code(i < n && WIDE_A);
    for (size_t i = 0; i < sa.n; i++) sa.p[i] = power();
    for (size_t i = 0; i < sb.n; i++) sb.p[i] = power();
    for (int e = 0; e < experts; e++) fa.p[e] = power(), fb.p[e] = power();
    floats want(y.n);
    for (size_t i = 0; i < want.size(); i++) {
        const int e = (int)(i / (n * k)), row = (int)(i / k % n), col = (int)(i % k);
        double sum = 0;
        for (int t = std::min(offsets[e], room); t < std::min(offsets[e + 1], room); t++)
            sum += (double)value_of(a.p[(size_t)row * room + t], WIDE_A) *
                   value_of(b.p[(size_t)col * room + t], false) *
                   (SCALE ? sa.p[t / 128 * up4(n) + row] * sb.p[t / 128 * up4(k) + col]
                          : fa.p[e] * fb.p[e]);
        want[i] = (float)(OUT == OUT_FP32_ADD ? 0.5 + sum : sum);
    }
    const gemm_args g = {offsets.data(), y.p, experts, room, n, k, 0, SCALE ? sb.p : NULL, up4(k)};
    const fp8_scales x = {sa.p, NULL, up4(n), 0, n - 1, blocks, fa.p, fb.p};
    if (!launch<GEMM_WEIGHT_FP8, OUT, SCALE, WIDE_A>::run(a.p, b.p, g, x)) return 1;
    return wrong("weight gradient", y, want, 1e-6f);
}

/* y[room][n] of a[room][k] and b[e][n][k]; without offsets one expert has all rows. */
template <int SCALE, bool WIDE_A> static int forward(int room, const ints &offsets, int n, int k)
{
    const bool dense = offsets.empty();
    const int experts = dense ? 1 : (int)offsets.size() - 1;
    const int blocks = (k + 127) / 128, down = (n + 127) / 128;
    aligned<uint8_t> a((size_t)room * k, 0), b((size_t)experts * n * k, 0);
    aligned<float> sa((size_t)blocks * up4(room), 1), fa(experts, 1), fb(experts, 1);
    aligned<float> sb((size_t)experts * down * up4(blocks), 1), y((size_t)room * n, 0.5f);
    aligned<uint16_t> narrow((size_t)room * n, bf16_of(0.5f));
    for (size_t i = 0; i < a.n; i++) a.p[i] = code(WIDE_A);
    for (size_t i = 0; i < b.n; i++) b.p[i] = code(false);
    for (size_t i = 0; i < sa.n; i++) sa.p[i] = power();
    for (size_t i = 0; i < sb.n; i++) sb.p[i] = power();
    for (int e = 0; e < experts; e++) fa.p[e] = power(), fb.p[e] = power();
    floats want(y.n, 0.5f);
    for (size_t i = 0; i < want.size(); i++) {
        const int row = (int)(i / n), col = (int)(i % n);
        int e = 0;
        while (!dense && e < experts && row >= offsets[e + 1]) e++;
        if (e == experts) continue; /* cleared by a launch of its own */
        double sum = 0;
        for (int j = 0; j < k; j++)
            sum += (double)value_of(a.p[(size_t)row * k + j], WIDE_A) *
                   value_of(b.p[((size_t)e * n + col) * k + j], false) *
                   (SCALE ? sa.p[j / 128 * up4(room) + row] *
                                sb.p[(e * down + col / 128) * up4(blocks) + j / 128]
                          : fa.p[e] * fb.p[e]);
        want[i] = (float)sum;
    }
    const gemm_args g = {
        dense ? NULL : offsets.data(), narrow.p, experts, room, 0, n, k / 2, NULL, 0};
    const fp8_scales x = {sa.p, sb.p, up4(room), up4(blocks), room - 1, blocks, fa.p, fb.p};
    if (!launch<GEMM_FORWARD, OUT_BF16, SCALE, WIDE_A>::run(a.p, b.p, g, x)) return 1;
    for (size_t i = 0; i < y.n + 64; i++) {
        const uint32_t bits = (uint32_t)narrow.p[i] << 16;
        memcpy(&y.p[i], &bits, sizeof bits);
    }
    return wrong("forward", y, want, 0x1p-8f);
}

int main()
{
    const ints some = {0, 128, 128, 384, 512}, one = {0, 0, 256}, none = {0, 0, 0},
               more = {0, 256, 384, 640}; /* than there is room for */
    int bad = 0;
    for (uint8_t *&m : memory) m = (uint8_t *)aligned_alloc(1024, (SHARED + 1023) / 1024 * 1024);
    bad += weight_gradient<OUT_FP32_ADD, SCALE_ROWS, false>(640, some, 136, 264);
    bad += weight_gradient<OUT_FP32, SCALE_ROWS, false>(256, one, 264, 16);
    bad += weight_gradient<OUT_FP32, SCALE_ROWS, false>(128, none, 8, 16);
    bad +=
        weight_gradient<OUT_FP32_ADD, SCALE_ROWS, false>(1280, {0, 1280}, 8, 8); /* many stages */
    bad += weight_gradient<OUT_FP32, SCALE_NONE, true>(400, more, 64, 72);
    bad += forward<SCALE_SQUARES, false>(512, {0, 128, 128, 384}, 264, 144);
    bad += forward<SCALE_SQUARES, false>(256, {0, 0, 128}, 8, 1168); /* a ring of stages and more */
    bad += forward<SCALE_NONE, true>(400, more, 136, 48);
    bad += forward<SCALE_SQUARES, false>(130, {}, 96, 160);
    printf("%d wrong\n", bad);
    return bad != 0;
}
