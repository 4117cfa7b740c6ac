/* fast_gdn_rule.c - the gated delta rule in chunks, forward.
 *
 * A task is a value head of a sequence: its state goes from chunk to chunk, in one order whatever
 * the number of threads. fast_gdn.h has the formulas. */
#include "backend/cpu/kernels/fast_gdn.h"

#include <string.h>

#include "op/op_operands.h"

typedef struct scratch {
    gdn_chunk chunk;
    float state[GDN_HEAD * GDN_HEAD]; /* [Dk][v_stride] */
} scratch;

static void save(const gdn_rule *r, const gdn_chunk *c, const float *state /* [Dk][v_stride] */)
{
    const int64_t at = (c->batch * r->n_chunks + c->index) * r->nv + c->head;
    float *to = r->states + at * r->dk * r->dv; /* [Dk][Dv] */
    for (int64_t i = 0; i < r->dk; i++)
        memcpy(to + i * r->dv, state + i * r->v_stride, sizeof *to * (size_t)r->dv);
}

/* o = e^G Q S + P delta */
static void output(const gdn_rule *r, const gdn_chunk *c, const float *state /* [Dk][v_stride] */)
{
    float *o = r->o + c->head_at * r->dv; /* [n][Nv Dv] */
    const int64_t o_row = r->nv * r->dv;
    gemm p = {.m = c->n, .n = r->dv, .k = r->dk, .c = o, .c_row = o_row};
    p.a = c->q, p.a_row = r->k_stride, p.a_col = 1;
    p.b = state, p.b_row = r->v_stride;
    r->use->gemm(&p);
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t i = 0; i < r->dv; i++) o[t * o_row + i] *= c->from_start[t];
    p.k = c->n, p.add = true;
    p.a = c->p, p.a_row = GDN_CHUNK, p.a_col = 1;
    p.b = c->delta, p.b_row = r->v_stride;
    r->use->gemm(&p);
}

/* S' = e^(G_last) S + (e^(G_last - G) K)^T delta; scales delta, which nobody needs any more. */
static void advance(const gdn_rule *r, gdn_chunk *c, float *state /* [Dk][v_stride] */)
{
    const float fade = c->from_start[c->n - 1];
    for (int64_t i = 0; i < r->dk * r->v_stride; i++) state[i] *= fade;
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t i = 0; i < r->dv; i++) c->delta[t * r->v_stride + i] *= c->to_end[t];
    gemm p = {.m = r->dk, .n = r->dv, .k = c->n, .add = true};
    p.a = c->k, p.a_row = 1, p.a_col = r->k_stride;
    p.b = c->delta, p.b_row = r->v_stride;
    p.c = state, p.c_row = r->v_stride;
    r->use->gemm(&p);
}

static void head(const gdn_rule *r, int64_t batch, int64_t value_head)
{
    scratch w;
    memset(w.state, 0, sizeof w.state);
    for (int64_t i = 0; i < r->n_chunks; i++) {
        gdn_chunk_read(r, &w.chunk, batch, value_head, i);
        if (r->states) save(r, &w.chunk, w.state);
        gdn_chunk_solve(r, &w.chunk, w.state);
        output(r, &w.chunk, w.state);
        if (i + 1 < r->n_chunks) advance(r, &w.chunk, w.state);
    }
}

void fast_gdn_rule(const op *what, void *const *in, void *const *out)
{
    const op_gdn_rule a = op_gdn_rule_of(what, in, out);
    gdn_rule r = {.qkv = a.qkv, .beta = a.beta, .g = a.g, .o = a.o, .states = a.states};
    gdn_rule_sizes(&r, what);
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < r.b * r.nv; task++) head(&r, task / r.nv, task % r.nv);
}
