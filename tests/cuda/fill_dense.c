/* fill_dense.c - inputs of dense kinds, attention and the delta rule that random numbers would not
 * make: what a forward pass leaves for its gradient, most of all. */
#include <math.h>
#include <string.h>

#include "cuda/cases.h"

void fill_wide(trial *t)
{
    const bool gradient = op_infos[t->o.kind].gradient != GRADIENT_NONE;
    tensor_scale(&t->in[gradient ? IN_ACT_D_u : IN_ACT_u], 9, 0);
}

void fill_head_stats(trial *t)
{
    for (int64_t i = 1; i < t->in[0].n; i += 3) t->in[0].f[i] += 2;
}

/* ---- attention */

void fill_attention_d(trial *t)
{
    op forward = t->o;
    forward.kind = OP_ATTN;
    forward.flags = 0;
    void *in[] = {t->in[1].f, t->in[2].f, t->in[3].f, t->in[6].f};
    void *out[] = {t->in[4].f, t->in[5].f};
    oracle(&forward, in, out);
}

/* Where it adds, some queries have seen nothing before. */
void fill_block(trial *t)
{
    const int64_t dv = t->o.dim[6];
    for (int64_t i = 0; t->o.flags & ACCUMULATE && i < t->out[1].n; i += 3) {
        t->out[1].f[i] = -INFINITY;
        for (int64_t j = i * dv; j < (i + 1) * dv; j++) t->out[0].f[j] = 0;
    }
}

/* A query that sees nothing has lse minus infinity, and no weight for any key. */
void fill_block_d(trial *t)
{
    op forward = t->o;
    forward.kind = OP_ATTN_BLOCK;
    forward.flags = 0;
    void *in[] = {t->in[1].f, t->in[2].f, t->in[3].f};
    void *out[] = {t->in[4].f, t->in[5].f};
    oracle(&forward, in, out);
}

/* ---- the delta rule: beta in 0 .. 1, g in -strength .. 0 */

static const double strengths[] = {0.05, 1, 30}; /* hardly fading, fading, gone at once */

static void tame(trial *t, int first)
{
    const double strength = strengths[t->way];
    tensor_scale(&t->in[first], 0.5, 0.5);
    tensor_scale(&t->in[first + 1], strength / 2, -strength / 2);
}

void fill_rule(trial *t)
{
    tame(t, 1);
}

void fill_rule_d(trial *t)
{
    op forward = t->o;
    tensor o = {0};
    forward.kind = OP_GDN_RULE;
    tensor_reals(t, &o, t->in[0].n);
    tame(t, 2);
    void *in[] = {t->in[1].f, t->in[2].f, t->in[3].f}, *out[] = {o.f, t->in[4].f};
    oracle(&forward, in, out);
    tensor_release(&o);
}
