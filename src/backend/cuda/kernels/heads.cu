/* heads.cu - what stands between GEMMs and attention: cutting projections into sections and
 * heads, rotation, the keys and values of latent attention. */
#include "backend/cuda/kernels/device.cuh"

/* ---- rows of several sections, apart or together */

enum { SECTIONS = 4 };

/* Row i of the whole is row i of each section, one after another; a missing section is empty. */
struct sections {
    numbers whole, part[SECTIONS];
    int64_t width[SECTIONS], all;
};

static sections sections_of(numbers whole, const numbers *part, const int64_t *width, int n)
{
    sections s = {whole, {}, {}, 0};
    for (int i = 0; i < n; i++) {
        s.part[i] = part[i];
        s.width[i] = part[i].p ? width[i] : 0;
        s.all += s.width[i];
    }
    return s;
}

/* `split`: from the whole to the sections. */
static void run_sections(const kernel_call *c, const sections &s, int64_t rows, bool split)
{
    int64_t first = 0;
    for (int i = 0; i < SECTIONS; i++) {
        const numbers here = from(s.whole, first);
        const int64_t width = s.width[i];
        if (width > 0 && split) copy_rows(c, rows, {s.part[i], here, width, s.all, width});
        if (width > 0 && !split) copy_rows(c, rows, {here, s.part[i], s.all, width, width});
        first += width;
    }
}

/* A group's queries, gates where there are any, key, value. */
static void qkv(const kernel_call *c, bool split)
{
    const int64_t n_t = c->o->dim[DIM_QKV_SPLIT_T], n = c->o->dim[DIM_QKV_SPLIT_N],
                  g = c->o->dim[DIM_QKV_SPLIT_G], d = c->o->dim[DIM_QKV_SPLIT_D];
    numbers x[4]; /* q k v gate */
    for (int i = 0; i < 4; i++) x[i] = split ? out_of(c, i) : in_of(c, i);
    const numbers parts[] = {x[0], x[3], x[1], x[2]};
    const int64_t widths[] = {n / g * d, n / g * d, d, d};
    run_sections(c,
                 sections_of(split ? in_of(c, IN_QKV_SPLIT_qkv) : out_of(c, OUT_QKV_JOIN_dqkv),
                             parts, widths, 4),
                 n_t * g, split);
}

static void qkv_split(const kernel_call *c)
{
    qkv(c, true);
}

static void qkv_join(const kernel_call *c)
{
    qkv(c, false);
}

static void latent(const kernel_call *c, bool split)
{
    numbers parts[2];
    for (int i = 0; i < 2; i++) parts[i] = split ? out_of(c, i) : in_of(c, i);
    run_sections(c,
                 sections_of(split ? in_of(c, IN_MLA_KV_SPLIT_c) : out_of(c, OUT_MLA_KV_MERGE_dc),
                             parts, c->o->dim + 1, 2),
                 c->o->dim[DIM_MLA_KV_SPLIT_T], split);
}

static void mla_kv_split(const kernel_call *c)
{
    latent(c, true);
}

static void mla_kv_merge(const kernel_call *c)
{
    latent(c, false);
}

static void gdn_sections(const kernel_call *c, bool split)
{
    const int64_t widths[] = {c->o->dim[DIM_GDN_SPLIT_C], c->o->dim[DIM_GDN_SPLIT_Z],
                              c->o->dim[DIM_GDN_SPLIT_NV], c->o->dim[DIM_GDN_SPLIT_NV]};
    numbers parts[4];
    for (int i = 0; i < 4; i++) parts[i] = split ? out_of(c, i) : in_of(c, i);
    run_sections(c,
                 sections_of(split ? in_of(c, IN_GDN_SPLIT_in) : out_of(c, OUT_GDN_JOIN_din), parts,
                             widths, 4),
                 c->o->dim[DIM_GDN_SPLIT_T], split);
}

static void gdn_split(const kernel_call *c)
{
    gdn_sections(c, true);
}

static void gdn_join(const kernel_call *c)
{
    gdn_sections(c, false);
}

/* ---- rotation, in place; `sign` -1 turns back */

struct rotation {
    const float *table; /* [S][ROT/2 cosines, ROT/2 sines] */
    numbers x;          /* [T][N][D] */
    int64_t s, n, d, offset, half;
    bool pairs;
    float sign;
    template <int THREADS, int W> __device__ void row(int64_t head, int thread) const
    {
        const int64_t first = head * d + offset;
        const float *at = table + head / n % s * 2 * half;
        for (int64_t j = thread; j < half; j += THREADS) {
            const int64_t a = pairs ? first + 2 * j : first + j, b = pairs ? a + 1 : a + half;
            const float u = get(x, a), v = get(x, b), cosine = at[j], sine = sign * at[half + j];
            put(x, a, u * cosine - v * sine);
            put(x, b, v * cosine + u * sine);
        }
    }
};

static void rotate(const kernel_call *c, float sign)
{
    const int64_t *d = c->o->dim, half = d[DIM_ROPE_ROT] / 2;
    for_narrow_rows(c, d[DIM_ROPE_T] * d[DIM_ROPE_N], half,
                    rotation{floats_in(c, IN_ROPE_table), out_of(c, OUT_ROPE_x), d[DIM_ROPE_S],
                             d[DIM_ROPE_N], d[DIM_ROPE_D], d[DIM_ROPE_OFFSET], half,
                             (c->o->flags & INTERLEAVED) != 0, sign});
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
    const op *o = c->o;
    const int64_t n_t = o->dim[DIM_MLA_KV_JOIN_T], n = o->dim[DIM_MLA_KV_JOIN_N],
                  dn = o->dim[DIM_MLA_KV_JOIN_Dn], dr = o->dim[DIM_MLA_KV_JOIN_Dr],
                  dv = o->dim[DIM_MLA_KV_JOIN_Dv];
    const numbers kv = in_of(c, IN_MLA_KV_JOIN_kv), kpe = in_of(c, IN_MLA_KV_JOIN_kpe),
                  k = out_of(c, OUT_MLA_KV_JOIN_k), v = out_of(c, OUT_MLA_KV_JOIN_v);
    const int64_t width = dn + dr + dv;
    for_each(c, n_t * n * width, [=] __device__(int64_t i) {
        const int64_t head = i / width, j = i % width;
        if (j < dn)
            put(k, head * (dn + dr) + j, get(kv, head * (dn + dv) + j));
        else if (j < dn + dr)
            put(k, head * (dn + dr) + j, get(kpe, head / n * dr + j - dn));
        else
            put(v, head * dv + j - dn - dr, get(kv, head * (dn + dv) + j - dr));
    });
}

static void mla_kv_join_d(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t n_t = o->dim[DIM_MLA_KV_JOIN_D_T], n = o->dim[DIM_MLA_KV_JOIN_D_N],
                  dn = o->dim[DIM_MLA_KV_JOIN_D_Dn], dr = o->dim[DIM_MLA_KV_JOIN_D_Dr],
                  dv = o->dim[DIM_MLA_KV_JOIN_D_Dv];
    const numbers dk = in_of(c, IN_MLA_KV_JOIN_D_dk), d_v = in_of(c, IN_MLA_KV_JOIN_D_dv),
                  dkv = out_of(c, OUT_MLA_KV_JOIN_D_dkv), dkpe = out_of(c, OUT_MLA_KV_JOIN_D_dkpe);
    const int64_t width = dn + dv;
    for_each(c, n_t * n * width, [=] __device__(int64_t i) {
        const int64_t head = i / width, j = i % width;
        put(dkv, i, j < dn ? get(dk, head * (dn + dr) + j) : get(d_v, head * dv + j - dn));
    });
    for_each(c, n_t * dr, [=] __device__(int64_t i) {
        float sum = 0;
        for (int64_t head = i / dr * n; head < (i / dr + 1) * n; head++)
            sum += get(dk, head * (dn + dr) + dn + i % dr);
        put(dkpe, i, sum);
    });
}

extern "C" cuda_part cuda_heads(void)
{
    static const kernel rows[] = {
        {OP_QKV_SPLIT, "plain", NULL, NULL, NULL, NULL, qkv_split},
        {OP_QKV_JOIN, "plain", NULL, NULL, NULL, NULL, qkv_join},
        {OP_MLA_KV_SPLIT, "plain", NULL, NULL, NULL, NULL, mla_kv_split},
        {OP_MLA_KV_MERGE, "plain", NULL, NULL, NULL, NULL, mla_kv_merge},
        {OP_GDN_SPLIT, "plain", NULL, NULL, NULL, NULL, gdn_split},
        {OP_GDN_JOIN, "plain", NULL, NULL, NULL, NULL, gdn_join},
        {OP_ROPE, "plain", NULL, NULL, NULL, NULL, rope},
        {OP_ROPE_D, "plain", NULL, NULL, NULL, NULL, rope_d},
        {OP_MLA_KV_JOIN, "plain", NULL, NULL, NULL, NULL, mla_kv_join},
        {OP_MLA_KV_JOIN_D, "plain", NULL, NULL, NULL, NULL, mla_kv_join_d},
    };
    return PART(rows);
}
