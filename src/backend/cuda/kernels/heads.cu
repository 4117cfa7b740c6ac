/* heads.cu - what stands between GEMMs and attention: cutting projections into sections and
 * heads, rotation, the keys and values of latent attention. */
#include "backend/cuda/kernels/device.cuh"

/* ---- rows of several sections, apart or together */

struct section {
    numbers x; /* missing: it is empty */
    int64_t width;
};

/* Row i of the whole is row i of each section, one after another. `split`: from the whole to the
 * sections. */
template <int N>
static void run_sections(const kernel_call *c, int64_t rows, numbers whole,
                         const section (&parts)[N], bool split)
{
    int64_t all = 0, first = 0;
    for (const section &s : parts) all += s.x.p ? s.width : 0;
    for (const section &s : parts) {
        const numbers here = from(whole, first);
        const int64_t width = s.x.p ? s.width : 0;
        if (width > 0 && split) copy_rows(c, rows, {s.x, here, width, all, width});
        if (width > 0 && !split) copy_rows(c, rows, {here, s.x, all, width, width});
        first += width;
    }
}

/* A group's queries, gates where there are any, key, value. */
static void qkv_split(const kernel_call *c)
{
    const op_qkv_split o = op_qkv_split_of(c);
    const int64_t n = o.N / o.G * o.D;
    run_sections(c, o.T * o.G, o.qkv, {{o.q, n}, {o.gate, n}, {o.k, o.D}, {o.v, o.D}}, true);
}

static void qkv_join(const kernel_call *c)
{
    const op_qkv_join o = op_qkv_join_of(c);
    const int64_t n = o.N / o.G * o.D;
    run_sections(c, o.T * o.G, o.dqkv, {{o.dq, n}, {o.dgate, n}, {o.dk, o.D}, {o.dv, o.D}}, false);
}

static void mla_kv_split(const kernel_call *c)
{
    const op_mla_kv_split o = op_mla_kv_split_of(c);
    run_sections(c, o.T, o.c, {{o.latent, o.R}, {o.kpe, o.Dr}}, true);
}

static void mla_kv_merge(const kernel_call *c)
{
    const op_mla_kv_merge o = op_mla_kv_merge_of(c);
    run_sections(c, o.T, o.dc, {{o.dlatent, o.R}, {o.dkpe, o.Dr}}, false);
}

static void gdn_split(const kernel_call *c)
{
    const op_gdn_split o = op_gdn_split_of(c);
    run_sections(c, o.T, o.in, {{o.qkv, o.C}, {o.z, o.Z}, {o.b, o.NV}, {o.a, o.NV}}, true);
}

static void gdn_join(const kernel_call *c)
{
    const op_gdn_join o = op_gdn_join_of(c);
    run_sections(c, o.T, o.din, {{o.dqkv, o.C}, {o.dz, o.Z}, {o.db, o.NV}, {o.da, o.NV}}, false);
}

/* ---- rotation of the numbers of x[T][N][D], in place; `sign` -1 turns back */

struct rotation : op_rope {
    float sign;
    template <int THREADS, int W> __device__ void row(int64_t head, int thread) const
    {
        const int64_t first = head * D + OFFSET, half = ROT / 2;
        const bool pairs = flags & INTERLEAVED;
        const float *at = table + head / N % S * 2 * half;
        for (int64_t j = thread; j < half; j += THREADS) {
            const int64_t a = pairs ? first + 2 * j : first + j, b = pairs ? a + 1 : a + half;
            const float u = get(x, a), v = get(x, b), cosine = at[j], sine = sign * at[half + j];
            put(x, a, u * cosine - v * sine);
            put(x, b, v * cosine + u * sine);
        }
    }
};

/* ROPE_D's operands stand as ROPE's. */
static void rotate(const kernel_call *c, float sign)
{
    const op_rope o = op_rope_of(c);
    for_narrow_rows(c, o.T * o.N, o.ROT / 2, rotation{o, sign});
}

static void rope(const kernel_call *c)
{
    rotate(c, 1);
}

static void rope_d(const kernel_call *c)
{
    rotate(c, -1);
}

/* ---- latent attention: the rotated part of a key is the same for all heads */

static void mla_kv_join(const kernel_call *c)
{
    const op_mla_kv_join o = op_mla_kv_join_of(c);
    const int64_t width = o.Dn + o.Dr + o.Dv;
    for_each(c, o.T * o.N * width, [=] __device__(int64_t i) {
        const int64_t head = i / width, j = i % width, key = head * (o.Dn + o.Dr) + j,
                      from = head * (o.Dn + o.Dv) + j;
        if (j < o.Dn)
            put(o.k, key, get(o.kv, from));
        else if (j < o.Dn + o.Dr)
            put(o.k, key, get(o.kpe, head / o.N * o.Dr + j - o.Dn));
        else
            put(o.v, head * o.Dv + j - o.Dn - o.Dr, get(o.kv, from - o.Dr));
    });
}

static void mla_kv_join_d(const kernel_call *c)
{
    const op_mla_kv_join_d o = op_mla_kv_join_d_of(c);
    const int64_t width = o.Dn + o.Dv, key = o.Dn + o.Dr;
    for_each(c, o.T * o.N * width, [=] __device__(int64_t i) {
        const int64_t head = i / width, j = i % width;
        put(o.dkv, i, j < o.Dn ? get(o.dk, head * key + j) : get(o.dv, head * o.Dv + j - o.Dn));
    });
    for_each(c, o.T * o.Dr, [=] __device__(int64_t i) {
        float sum = 0;
        for (int64_t head = i / o.Dr * o.N; head < (i / o.Dr + 1) * o.N; head++)
            sum += get(o.dk, head * key + o.Dn + i % o.Dr);
        put(o.dkpe, i, sum);
    });
}

extern "C" cuda_part cuda_heads(void)
{
    static const kernel rows[] = {
        {.kind = OP_QKV_SPLIT, .name = "plain", .launch = qkv_split},
        {.kind = OP_QKV_JOIN, .name = "plain", .launch = qkv_join},
        {.kind = OP_MLA_KV_SPLIT, .name = "plain", .launch = mla_kv_split},
        {.kind = OP_MLA_KV_MERGE, .name = "plain", .launch = mla_kv_merge},
        {.kind = OP_GDN_SPLIT, .name = "plain", .launch = gdn_split},
        {.kind = OP_GDN_JOIN, .name = "plain", .launch = gdn_join},
        {.kind = OP_ROPE, .name = "plain", .launch = rope},
        {.kind = OP_ROPE_D, .name = "plain", .launch = rope_d},
        {.kind = OP_MLA_KV_JOIN, .name = "plain", .launch = mla_kv_join},
        {.kind = OP_MLA_KV_JOIN_D, .name = "plain", .launch = mla_kv_join_d},
    };
    return PART(rows);
}
