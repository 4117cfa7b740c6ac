/* fast_blocks.cu - blocks of attention that is cut over ranks, in BF16 by cuDNN (sdpa.h).
 *
 * F1  A rank has two stretches of a sequence, so that all have the same work, and a block is one of
 *     these: its own keys, causal by rows; keys of an earlier rank, whose first half every query
 *     sees and whose second half none; keys of a later rank, which the second half of the queries
 *     sees whole and the first not at all; or keys that all are seen. Windows and any other
 *     positions are the plain row's.
 * F2  cuDNN knows nothing of what is there already. Where a block is to be merged or added, or the
 *     result is FP32, or some rows have no part in it, it writes BF16 to the workspace, as long as
 *     the result, and one kernel of ours brings that home.
 * F3  Gradients of a block come out of o and lse of all blocks together. */
#include "backend/cpu/kernels/attention_stretch.h"
#include "backend/cuda/kernels/attention_room.h"
#include "backend/cuda/kernels/device.cuh"

static const int64_t SCORES_MOST = (int64_t)16 << 30;

/* ---- which block it is */

/* Rows of a sample that take part. */
struct share {
    int64_t first, n, all;
};

struct block_form {
    bool known, causal;
    share q, k;
};

enum relation { NONE_SEEN, ALL_SEEN, SAME_PLACES, OTHERWISE };

static relation relation_of(const stretch &q, const stretch &k)
{
    if (k.position > q.position + q.n - 1) return NONE_SEEN;
    if (k.position + k.n - 1 <= q.position) return ALL_SEEN;
    return k.position == q.position && k.n == q.n ? SAME_PLACES : OTHERWISE;
}

/* Does the window leave out any key that is seen? */
static bool window_cuts(int64_t window, const stretch *q, const stretch *k)
{
    const int64_t last = q[1].position > q[0].position ? q[1].position : q[0].position;
    const int64_t first = k[1].position < k[0].position ? k[1].position : k[0].position;
    return window > 0 && last + q[0].n - 1 - first >= window;
}

static block_form form_of(const op *o) /* F1 */
{
    static const struct {
        relation r[2][2]; /* of halves of queries to halves of keys */
        bool causal;
        int64_t q_first, q_halves, k_halves;
    } forms[] = {
        {{{SAME_PLACES, NONE_SEEN}, {ALL_SEEN, SAME_PLACES}}, true, 0, 2, 2},
        {{{ALL_SEEN, NONE_SEEN}, {ALL_SEEN, NONE_SEEN}}, false, 0, 2, 1},
        {{{NONE_SEEN, NONE_SEEN}, {ALL_SEEN, ALL_SEEN}}, false, 1, 1, 2},
        {{{ALL_SEEN, ALL_SEEN}, {ALL_SEEN, ALL_SEEN}}, false, 0, 2, 2},
    };
    const int64_t *d = o->dim, sq = d[DIM_ATTN_BLOCK_SQ], sk = d[DIM_ATTN_BLOCK_SK];
    stretch q[STRETCHES_MAX], k[STRETCHES_MAX];
    attention_stretches(o, q, k);
    if (sq % 2 || sk % 2 || window_cuts(d[DIM_ATTN_BLOCK_WINDOW], q, k)) return {};
    for (const auto &f : forms) {
        bool fits = true;
        for (int i = 0; i < 4; i++)
            fits = fits && f.r[i / 2][i % 2] == relation_of(q[i / 2], k[i % 2]);
        if (fits)
            return {true,
                    f.causal,
                    {f.q_first * sq / 2, f.q_halves * sq / 2, sq},
                    {0, f.k_halves * sk / 2, sk}};
    }
    return {};
}

static sdpa_shape shape_of(const op *o, const block_form &f)
{
    const op_attn_block a = op_attn_block_of(o); /* its gradient has the same sizes */
    sdpa_shape z = {};
    z.b = a.B, z.h = a.N, z.h_kv = a.G, z.d = a.D, z.d_v = a.DV;
    z.s = f.q.n, z.q_rows = f.q.all, z.s_kv = f.k.n, z.kv_rows = f.k.all;
    z.full = !f.causal;
    return z;
}

static sdpa_pass pass_of(const op *o)
{
    return o->kind == OP_ATTN_BLOCK ? SDPA_FORWARD
           : o->flags & FIXED_ORDER ? SDPA_DETERMINISTIC
                                    : SDPA_BACKWARD;
}

static bool takes(const op *o, const op_types *t, int n_narrow)
{
    const block_form f = form_of(o);
    if (!f.known || !all_bf16(o, t, n_narrow, 0)) return false;
    const sdpa_shape z = shape_of(o, f);
    return sdpa_takes(&z);
}

static bool takes_forward(const op *o, const op_types *t)
{
    return takes(o, t, IN_ATTN_BLOCK_v + 1);
}

static bool takes_fast(const op *o, const op_types *t)
{
    return takes(o, t, IN_ATTN_BLOCK_D_lse) && pass_of(o) == SDPA_BACKWARD;
}

static bool takes_deterministic(const op *o, const op_types *t)
{
    if (!takes(o, t, IN_ATTN_BLOCK_D_lse) || pass_of(o) != SDPA_DETERMINISTIC) return false;
    const sdpa_shape z = shape_of(o, form_of(o));
    return sdpa_scores_bytes(&z) <= SCORES_MOST;
}

static status prepare(const op *o, const op_types *, void **state, error *err)
{
    const sdpa_shape z = shape_of(o, form_of(o));
    return sdpa_plan_within((sdpa_plan **)state, &z, pass_of(o),
                            o->name ? o->name : op_infos[o->kind].name, err);
}

static void release(void *state)
{
    sdpa_plan_free((sdpa_plan *)state);
}

/* ---- what cuDNN writes, brought home */

/* Does a result go by the workspace (F2)? */
static bool is_aside(numbers to, bool add, const share &s)
{
    return add || !to.bf16 || s.n != s.all;
}

static __device__ bool is_inside(const share &s, int64_t row)
{
    return row >= s.first && row < s.first + s.n;
}

/* A row is one head of a token. */
struct merge_rows {
    numbers o, part;       /* [B*SQ][N][DV] */
    float *lse;            /* [B*SQ][N] */
    const float *part_lse; /* the same */
    share q;
    int64_t n, dv;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const bool inside = is_inside(q, i / n % q.all);
        if (!inside && add) return;
        const float old = add ? lse[i] : -CUDART_INF_F, here = inside ? part_lse[i] : -CUDART_INF_F;
        const float most = fmaxf(old, here);
        const float all = inside ? most + log1pf(expf(fminf(old, here) - most)) : most;
        const float keep = add ? expf(old - all) : 0, take = inside ? expf(here - all) : 0;
        for (int64_t j = thread * W; j < dv; j += THREADS * W) {
            lanes<W> x = {}, y = {};
            if (add) x = load<W>(o, i * dv + j);
            if (inside) y = load<W>(part, i * dv + j);
#pragma unroll
            for (int k = 0; k < W; k++) x.v[k] = keep * x.v[k] + take * y.v[k];
            store(o, i * dv + j, x);
        }
        __syncwarp(); /* all of the warp have read lse: rows are a warp's here */
        if (thread == 0) lse[i] = all;
    }
};

/* A row is a token with all of its heads. */
struct home_rows {
    numbers to, part; /* [B*S][width] */
    share s;
    int64_t width;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const bool inside = is_inside(s, i % s.all);
        if (!inside && add) return;
        for (int64_t j = thread * W; j < width; j += THREADS * W) {
            lanes<W> x = {};
            if (inside) x = load<W>(part, i * width + j);
            store_or_add(to, i * width + j, x, add);
        }
    }
};

/* Places in the workspace, one after another. */
struct shelf {
    char *p;
    int64_t bytes;
    void *take(int64_t n)
    {
        void *here = p ? p + bytes : NULL;
        bytes += room_of(n);
        return here;
    }
};

/* One result: where cuDNN writes it, the first row that takes part. */
struct result {
    numbers to;
    bool aside; /* else at `to` itself */
    void *part;
    share s;
    int64_t width; /* of a row, all heads */
    bool add;
    void *place() const
    {
        return (char *)(aside ? part : to.p) + 2 * s.first * width;
    }
};

static result result_of(shelf *w, numbers to, const share &s, int64_t b, int64_t width, bool add)
{
    result r = {to, is_aside(to, add, s), NULL, s, width, add};
    if (r.aside) r.part = w->take(2 * b * s.all * width);
    return r;
}

static void bring_home(const kernel_call *c, const result &r, int64_t b)
{
    if (r.aside)
        for_rows(c, b * r.s.all, r.width, home_rows{r.to, {r.part, true}, r.s, r.width, r.add});
}

static void *rows_of(numbers x, const share &s, int64_t width)
{
    return (char *)x.p + 2 * s.first * width;
}

/* ---- forward */

struct forward_parts {
    block_form f;
    sdpa_shape z;
    result o;
    float *lse; /* of this block alone */
    void *rest;
};

static forward_parts forward_parts_of(const op *o, numbers to, float *lse, shelf *w)
{
    forward_parts p = {};
    p.f = form_of(o);
    p.z = shape_of(o, p.f);
    const bool add = o->flags & ACCUMULATE;
    p.o = result_of(w, to, p.f.q, p.z.b, p.z.h * p.z.d_v, add);
    p.lse = p.o.aside ? (float *)w->take(4 * p.z.b * p.f.q.all * p.z.h) : lse;
    p.rest = w->take(sdpa_library_bytes(&p.z, SDPA_FORWARD));
    return p;
}

static int64_t forward_bytes(const op *o, const op_types *t)
{
    shelf w = {};
    forward_parts_of(o, {NULL, t->out[OUT_ATTN_BLOCK_o] == DTYPE_BF16}, NULL, &w);
    return w.bytes;
}

static void forward(const kernel_call *c)
{
    shelf w = {(char *)c->workspace, 0};
    const op_attn_block o = op_attn_block_of(c);
    const forward_parts p = forward_parts_of(c->o, o.o, o.lse, &w);
    const sdpa_shape &z = p.z;
    void *at[SDPA_IDS] = {};
    at[SDPA_Q] = rows_of(o.q, p.f.q, z.h * z.d);
    at[SDPA_K] = rows_of(o.k, p.f.k, z.h_kv * z.d);
    at[SDPA_V] = rows_of(o.v, p.f.k, z.h_kv * z.d_v);
    at[SDPA_O] = p.o.place();
    at[SDPA_STATS] = p.lse + p.f.q.first * z.h;
    if (!sdpa_run((const sdpa_plan *)c->state, at, o.scale, p.rest, c->stream))
        launch_failed(c);
    else if (p.o.aside)
        for_rows(c, z.b * p.f.q.all * z.h, z.d_v,
                 merge_rows{p.o.to, {p.o.part, true}, o.lse, p.lse, p.f.q, z.h, z.d_v, p.o.add});
}

/* ---- gradients */

struct backward_parts {
    block_form f;
    sdpa_shape z;
    result dq, dk, dv;
    void *dots, *sum, *rest;
};

static backward_parts backward_parts_of(const op *o, numbers dq, numbers dk, numbers dv, shelf *w)
{
    backward_parts p = {};
    p.f = form_of(o);
    p.z = shape_of(o, p.f);
    const sdpa_shape &z = p.z;
    const bool add = o->flags & ACCUMULATE, add_kv = o->flags & ADD_KV;
    const sdpa_pass pass = pass_of(o);
    p.dots = w->take(4 * z.b * z.h * z.s);
    p.sum = pass == SDPA_BACKWARD ? w->take(4 * z.b * z.h * z.s * z.d) : NULL;
    p.dq = result_of(w, dq, p.f.q, z.b, z.h * z.d, add);
    p.dk = result_of(w, dk, p.f.k, z.b, z.h_kv * z.d, add_kv);
    p.dv = result_of(w, dv, p.f.k, z.b, z.h_kv * z.d_v, add_kv);
    p.rest = w->take(sdpa_library_bytes(&z, pass));
    return p;
}

static int64_t backward_bytes(const op *o, const op_types *t)
{
    shelf w = {};
    backward_parts_of(o, {NULL, t->out[OUT_ATTN_BLOCK_D_dq] == DTYPE_BF16},
                      {NULL, t->out[OUT_ATTN_BLOCK_D_dk] == DTYPE_BF16},
                      {NULL, t->out[OUT_ATTN_BLOCK_D_dv] == DTYPE_BF16}, &w);
    return w.bytes;
}

static void backward(const kernel_call *c)
{
    shelf w = {(char *)c->workspace, 0};
    const op_attn_block_d o = op_attn_block_d_of(c);
    const backward_parts p = backward_parts_of(c->o, o.dq, o.dk, o.dv, &w);
    const sdpa_shape &z = p.z;
    void *at[SDPA_IDS] = {};
    at[SDPA_Q] = rows_of(o.q, p.f.q, z.h * z.d);
    at[SDPA_K] = rows_of(o.k, p.f.k, z.h_kv * z.d);
    at[SDPA_V] = rows_of(o.v, p.f.k, z.h_kv * z.d_v);
    at[SDPA_O] = rows_of(o.o, p.f.q, z.h * z.d_v);
    at[SDPA_DO] = rows_of(o.do_, p.f.q, z.h * z.d_v);
    at[SDPA_STATS] = (void *)(o.lse + p.f.q.first * z.h);
    at[SDPA_DQ] = p.dq.place();
    at[SDPA_DK] = p.dk.place();
    at[SDPA_DV] = p.dv.place();
    at[SDPA_DO_O] = p.dots;
    at[SDPA_DQ_SUM] = p.sum;
    if (!sdpa_run((const sdpa_plan *)c->state, at, o.scale, p.rest, c->stream)) {
        launch_failed(c);
        return;
    }
    bring_home(c, p.dq, z.b);
    bring_home(c, p.dk, z.b);
    bring_home(c, p.dv, z.b);
}

extern "C" cuda_part cuda_fast_blocks(void)
{
    static const kernel rows[] = {
        {.kind = OP_ATTN_BLOCK,
         .name = "cudnn",
         .accepts = takes_forward,
         .prepare = prepare,
         .release = release,
         .workspace = forward_bytes,
         .launch = forward},
        {.kind = OP_ATTN_BLOCK_D,
         .name = "cudnn, atomics",
         .accepts = takes_fast,
         .prepare = prepare,
         .release = release,
         .workspace = backward_bytes,
         .launch = backward},
        {.kind = OP_ATTN_BLOCK_D,
         .name = "cudnn, deterministic",
         .accepts = takes_deterministic,
         .prepare = prepare,
         .release = release,
         .workspace = backward_bytes,
         .launch = backward},
    };
    return PART(rows);
}
