/* widen.c - copies of narrow operands, there and back.
 *
 * I1  Every copy is filled before the row runs, outputs too: what a row does not write comes back as
 *     it was, bit by bit. */
#include "kernels/cpu/widen.h"

enum { BLOCK = 1 << 14 };

bool widen_plan(widened *w, const target_row *t, const segment *seg, const op *o)
{
    workspace_part parts[WORKSPACE_PARTS];
    int n = workspace_parts(parts, t, seg, o);
    w->n = 0;
    for (int i = 0; i < n; i++) {
        if (parts[i].in < 0 && parts[i].out < 0) continue;
        int64_t elements = dtype_elements(DTYPE_F32, parts[i].bytes);
        w->list[w->n++] = (struct widened_part){parts[i].in, parts[i].out, elements, parts[i].at};
    }
    return w->n > 0;
}

static void widen(float *to, const uint16_t *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > BLOCK)
    for (int64_t i = 0; i < n; i += BLOCK)
        bf16_to_floats(to + i, from + i, n - i < BLOCK ? n - i : BLOCK);
}

static void narrow(uint16_t *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > BLOCK)
    for (int64_t i = 0; i < n; i += BLOCK)
        bf16_of_floats(to + i, from + i, n - i < BLOCK ? n - i : BLOCK);
}

void widen_run(const widened *w, kernel_run run, const op *o, void **in, void **out,
               unsigned char *workspace)
{
    void *results[OP_OUT_MAX];
    for (int i = 0; i < w->n; i++) {
        const struct widened_part *p = &w->list[i];
        float *copy = (float *)(void *)(workspace + p->at);
        widen(copy, p->in >= 0 ? in[p->in] : out[p->out], p->elements); /* I1 */
        if (p->in >= 0) in[p->in] = copy;
        if (p->out < 0) continue;
        results[p->out] = out[p->out];
        out[p->out] = copy;
    }
    run(o, in, out);
    for (int i = 0; i < w->n; i++) {
        const struct widened_part *p = &w->list[i];
        if (p->out >= 0) narrow(results[p->out], out[p->out], p->elements);
    }
}
