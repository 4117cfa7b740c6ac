/* quantised_fused.c - kinds that end with QUANTISE on the GPU: each row of theirs against the plain
 * rows of the parts, one after another with what lies between them in memory of its own, bit for
 * bit. Permutations only move numbers: those are compared with the CPU's, too.
 *
 * Of ACT_D_QUANT's dp a row in one pass adds tiles of 128 in their order, so these sums agree
 * within rounding; behind the last expert, where nobody reads them, it has zeros. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "base/narrow.h"
#include "cuda/cases.h"
#include "op/fused.h"
#include "op/quant.h"

enum {
    OPERANDS = OP_IN_MAX + OP_OUT_MAX,
    EXPERTS = 3,
    TOKENS = 100,
    CHOSEN = 2,
    ROOM = 640,
    ROWS_USED = 512,
    NORMED = 112
};

/* An operation with its tensors: on the host, and three times on the GPU. */
typedef struct made {
    op o;
    op_types t;
    int64_t bytes[OPERANDS];
    void *host[OPERANDS], *gpu[OPERANDS]; /* inputs are shared by all runs */
} made;

static uint64_t seed = 7;

static uint32_t next_number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static void must_run(cudaError_t e)
{
    if (e == cudaSuccess) return;
    printf("quantised, fused: %s\n", cudaGetErrorString(e));
    exit(1);
}

/* ---- tensors */

static void put(made *m, bool in, int i, dtype type, int64_t elements)
{
    int at = in ? i : OP_IN_MAX + i;
    *(in ? &m->t.in[i] : &m->t.out[i]) = type;
    *(in ? &m->t.in_elements[i] : &m->t.out_elements[i]) = elements;
    *(in ? &m->o.in[i] : &m->o.out[i]) = at;
    m->bytes[at] = dtype_bytes(type, elements);
    m->host[at] = calloc(1, (size_t)m->bytes[at] + 1);
    if (!m->host[at]) exit(1);
}

static void put_numbers(made *m, int i, dtype type, int64_t n)
{
    put(m, true, i, type, n);
    for (int64_t k = 0; k < n; k++) {
        float v = ldexpf((float)next_number() / 1e9F - 1, (int)(next_number() % 9) - 5);
        if (type == DTYPE_BF16)
            ((uint16_t *)m->host[i])[k] = bf16_of_float(v);
        else
            ((float *)m->host[i])[k] = v;
    }
}

/* Experts' rows begin at multiples of 128; the second has none, some behind the last are left. */
static void put_offsets(made *m, int i)
{
    static const int32_t starts[EXPERTS + 1] = {0, 256, 256, ROWS_USED};
    put(m, true, i, DTYPE_I32, EXPERTS + 1);
    memcpy(m->host[i], starts, sizeof starts);
}

/* Every token has a row with the first expert and one with the last, but for some that are
 * dropped. */
static void put_rows(made *m, int i)
{
    put(m, true, i, DTYPE_I32, TOKENS * CHOSEN);
    for (int t = 0; t < TOKENS; t++)
        for (int k = 0; k < CHOSEN; k++)
            ((int32_t *)m->host[i])[t * CHOSEN + k] = t % 13 == 5 ? -1 : 256 * k + t;
}

static void put_codes(made *m, int first, quant_form form, int64_t rows, int64_t cols)
{
    for (int turned = 0; turned < 2; turned++) {
        quant_shape z = {form, false, turned ? cols : rows, turned ? rows : cols};
        put(m, false, first + 2 * turned, DTYPE_E4M3, rows * cols);
        put(m, false, first + 2 * turned + 1, quant_info_of(form).scale, quant_scales(z));
    }
}

static void set_dims(op *o, const int64_t *dims, int n)
{
    for (int i = 0; i < n; i++) o->dim[i] = dims[i];
}

static void make(made *m, op_kind kind, quant_form form, int64_t width, unsigned flags)
{
    *m = (made){.o = {.kind = kind, .name = "tested", .flags = flags, .real = {1e-5}}};
    for (int i = 0; i < OP_IN_MAX; i++) m->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) m->o.out[i] = -1;
    const int64_t act[] = {EXPERTS, ROOM, width, form, DTYPE_E4M3};
    const int64_t moved[] = {TOKENS, CHOSEN, width, ROOM, EXPERTS, form, DTYPE_E4M3};
    const int64_t norm[] = {NORMED, width, form, DTYPE_E4M3};
    switch (kind) {
    case OP_ACT_QUANT:
        set_dims(&m->o, act, 5);
        put_numbers(m, IN_ACT_QUANT_u, DTYPE_BF16, ROOM * 2 * width);
        put_numbers(m, IN_ACT_QUANT_p, DTYPE_F32, ROOM);
        put_offsets(m, IN_ACT_QUANT_offsets);
        put_codes(m, OUT_ACT_QUANT_q, form, ROOM, width);
        return;
    case OP_ACT_D_QUANT:
        set_dims(&m->o, act, 5);
        put_numbers(m, IN_ACT_D_QUANT_da, DTYPE_BF16, ROOM * width);
        put_numbers(m, IN_ACT_D_QUANT_u, DTYPE_BF16, ROOM * 2 * width);
        put_numbers(m, IN_ACT_D_QUANT_p, DTYPE_F32, ROOM);
        put_offsets(m, IN_ACT_D_QUANT_offsets);
        put_codes(m, OUT_ACT_D_QUANT_q, form, ROOM, 2 * width);
        put(m, false, OUT_ACT_D_QUANT_dp, DTYPE_F32, ROOM);
        return;
    case OP_PERMUTE_QUANT:
        set_dims(&m->o, moved, 7);
        put_numbers(m, IN_PERMUTE_QUANT_x, DTYPE_BF16, TOKENS * width);
        put_numbers(m, IN_PERMUTE_QUANT_probs, DTYPE_F32, TOKENS * CHOSEN);
        put_rows(m, IN_PERMUTE_QUANT_rows);
        put_offsets(m, IN_PERMUTE_QUANT_offsets);
        put_codes(m, OUT_PERMUTE_QUANT_q, form, ROOM, width);
        put(m, false, OUT_PERMUTE_QUANT_pp, DTYPE_F32, ROOM);
        return;
    case OP_UNPERMUTE_D_QUANT:
        set_dims(&m->o, moved, 7);
        put_numbers(m, IN_UNPERMUTE_D_QUANT_dy, DTYPE_BF16, TOKENS * width);
        put_rows(m, IN_UNPERMUTE_D_QUANT_rows);
        put_offsets(m, IN_UNPERMUTE_D_QUANT_offsets);
        put_codes(m, OUT_UNPERMUTE_D_QUANT_q, form, ROOM, width);
        return;
    default:
        set_dims(&m->o, norm, 4);
        put_numbers(m, IN_NORM_QUANT_x, DTYPE_BF16, NORMED * width);
        put_numbers(m, IN_NORM_QUANT_w, DTYPE_BF16, width);
        put_codes(m, OUT_NORM_QUANT_q, form, NORMED, width);
        put(m, false, OUT_NORM_QUANT_rstd, DTYPE_F32, NORMED);
    }
}

static void *device_room(int64_t bytes)
{
    void *p;
    must_run(cudaMalloc(&p, (size_t)bytes + 256));
    must_run(cudaMemset(p, 0x55, (size_t)bytes + 256));
    return p;
}

static void upload(made *m)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (!m->host[i]) continue;
        m->gpu[i] = device_room(m->bytes[i]);
        if (i < OP_IN_MAX)
            must_run(
                cudaMemcpy(m->gpu[i], m->host[i], (size_t)m->bytes[i], cudaMemcpyHostToDevice));
    }
}

static void release(made *m)
{
    for (int i = 0; i < OPERANDS; i++) {
        free(m->host[i]);
        cudaFree(m->gpu[i]);
    }
}

/* ---- running */

static void launch(const kernel *k, const op *o, const op_types *t, void *const *in,
                   void *const *out)
{
    void *work = device_room(kernel_workspace_of(k, o, t)), *state = NULL;
    error err;
    if (k->prepare && k->prepare(o, t, &state, &err)) exit(1);
    k->launch(&(kernel_call){k, o, t, in, out, work, NULL, state});
    must_run(cudaGetLastError());
    must_run(cudaDeviceSynchronize());
    if (k->release) k->release(state);
    cudaFree(work);
}

/* What the parts make, into the host's outputs. */
static void run_parts(made *m)
{
    fused_steps f;
    void *between[FUSED_BETWEEN_MAX] = {NULL}, *own[OP_OUT_MAX] = {NULL};
    int n_rows;
    const kernel *rows = kernels_cuda(&n_rows);
    fused_expand(&f, &m->o, &m->t);
    for (int i = 0; i < f.n_between; i++)
        between[i] = device_room(dtype_bytes(f.type[i], f.elements[i]));
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (m->host[OP_IN_MAX + i]) own[i] = device_room(m->bytes[OP_IN_MAX + i]);
    for (int i = 0; i < f.n; i++) {
        void *at[OPERANDS] = {NULL};
        for (int k = 0; k < OPERANDS; k++) {
            int id = k < OP_IN_MAX ? f.ops[i].in[k] : f.ops[i].out[k - OP_IN_MAX];
            if (id < 0) continue;
            at[k] = id < OP_IN_MAX       ? m->gpu[id]
                    : id < FUSED_BETWEEN ? own[id - OP_IN_MAX]
                                         : between[id - FUSED_BETWEEN];
        }
        launch(kernel_pick(rows, n_rows, &f.ops[i], &f.types[i], true), &f.ops[i], &f.types[i], at,
               at + OP_IN_MAX);
    }
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (!own[i]) continue;
        must_run(cudaMemcpy(m->host[OP_IN_MAX + i], own[i], (size_t)m->bytes[OP_IN_MAX + i],
                            cudaMemcpyDeviceToHost));
        cudaFree(own[i]);
    }
    for (int i = 0; i < f.n_between; i++) cudaFree(between[i]);
}

static void run_cpu(made *m)
{
    int n;
    const kernel *rows = kernels_cpu(&n), *k = kernel_pick(rows, n, &m->o, &m->t, true);
    void *state = NULL, *work = malloc((size_t)kernel_workspace_of(k, &m->o, &m->t) + 64);
    error err;
    if (!work || (k->prepare && k->prepare(&m->o, &m->t, &state, &err))) exit(1);
    k->launch(&(kernel_call){k, &m->o, &m->t, m->host, m->host + OP_IN_MAX, work, NULL, state});
    if (k->release) k->release(state);
    free(work);
}

/* Sums of experts' rows, in another order. */
static int64_t sums_differ(const float *got, const float *want)
{
    int64_t bad = 0;
    float most = 0;
    for (int i = 0; i < ROWS_USED; i++) most = fmaxf(most, fabsf(want[i]));
    for (int i = 0; i < ROWS_USED; i++) bad += !(fabsf(got[i] - want[i]) <= 1e-6F * most);
    for (int i = ROWS_USED; i < ROOM; i++) bad += got[i] != 0;
    return bad;
}

static int64_t differ(const made *m, const kernel *row, int out)
{
    int64_t bad = 0, n = m->bytes[OP_IN_MAX + out];
    unsigned char *got = malloc((size_t)n + 1), *want = m->host[OP_IN_MAX + out];
    if (!got) exit(1);
    must_run(cudaMemcpy(got, m->gpu[OP_IN_MAX + out], (size_t)n, cudaMemcpyDeviceToHost));
    bool sums = m->o.kind == OP_ACT_D_QUANT && out == OUT_ACT_D_QUANT_dp;
    if (sums && strcmp(row->name, "plain") != 0)
        bad = sums_differ((const float *)got, (const float *)want);
    else
        for (int64_t i = 0; i < n; i++) bad += got[i] != want[i];
    free(got);
    return bad;
}

static int compare(const made *m, const kernel *row, const char *with)
{
    int bad = 0;
    for (int i = 0; i < OP_OUT_MAX; i++) {
        int64_t n = m->host[OP_IN_MAX + i] ? differ(m, row, i) : 0;
        if (!n) continue;
        printf("%s, %s, width %lld: output %d: %lld of %lld bytes differ from %s\n",
               op_infos[m->o.kind].name, row->name, (long long)m->o.dim[2], i, (long long)n,
               (long long)m->bytes[OP_IN_MAX + i], with);
        bad = 1;
    }
    return bad;
}

/* Every row that takes the case; met[r] counts. */
static int check(made *m, int *met)
{
    int n_rows, bad = 0;
    const kernel *rows = kernels_cuda(&n_rows);
    const op_kind kind = m->o.kind;
    for (int r = 0; r < n_rows; r++) {
        if (rows[r].kind != kind || (rows[r].accepts && !rows[r].accepts(&m->o, &m->t))) continue;
        launch(&rows[r], &m->o, &m->t, m->gpu, m->gpu + OP_IN_MAX);
        run_parts(m);
        bad += compare(m, &rows[r], "its parts");
        if (kind == OP_PERMUTE_QUANT || kind == OP_UNPERMUTE_D_QUANT) {
            run_cpu(m);
            bad += compare(m, &rows[r], "the CPU's");
        }
        met[r]++;
    }
    return bad;
}

int wrong_quantised_fused(void)
{
    static const int64_t widths[] = {64, 160, 384, 2048, 16384}; /* the last: more than 264 tiles */
    static int met[4 * OP_COUNT];
    int bad = 0, done = 0, n_rows;
    const kernel *rows = kernels_cuda(&n_rows);
    for (op_kind k = OP_ACT_QUANT; k <= OP_NORM_QUANT; k++)
        for (int i = 0; i < 20; i++) {
            made m;
            bool act = k == OP_ACT_QUANT || k == OP_ACT_D_QUANT;
            unsigned flags = act ? CLAMPED : k == OP_NORM_QUANT ? ZERO_CENTRED : 0;
            make(&m, k, i & 1 ? QUANT_MX : QUANT_BLOCK, widths[i / 4], i & 2 ? flags : 0);
            upload(&m);
            bad += check(&m, met);
            release(&m);
        }
    for (int r = 0; r < n_rows; r++) {
        if (rows[r].kind < OP_ACT_QUANT || rows[r].kind > OP_NORM_QUANT) continue;
        done += met[r];
        if (!met[r])
            bad++, printf("%s, %s: no case tries it\n", op_infos[rows[r].kind].name, rows[r].name);
    }
    printf("quantised, fused: %d cases, %d wrong\n", done, bad);
    return bad;
}
