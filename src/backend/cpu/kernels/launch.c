/* launch.c - copies of narrow operands, there and back, around a row's function.
 *
 * I1  Every copy is filled before the function runs, outputs too: what it does not write comes back
 *     as it was, bit by bit.
 * I2  The workspace is the function's own, then a copy of each narrow operand in order, inputs
 *     first; an output that is also an input has one. Each begins on a cache line. */
#include "backend/cpu/kernels/launch.h"

#include <stdlib.h>

#include "base/maths.h"
#include "backend/cpu/kernels/fused.h"

enum { BLOCK = 1 << 14, LINE = 64 };

/* The state of a row: where its copies lie. */
typedef struct widened {
    int n;
    int64_t end;
    struct widened_part {
        int in, out;          /* the operand, or -1; of an input that is an output, both */
        int64_t elements, at; /* bytes into the workspace */
    } list[OP_IN_MAX + OP_OUT_MAX];
} widened;

/* ---- where copies lie */

static bool is_narrow(dtype t)
{
    return t == DTYPE_BF16;
}

static int same_in(const int *list, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (list[i] == id) return i;
    return -1;
}

static void add(widened *w, int in, int out, int64_t elements)
{
    int64_t at = round_up(w->end, LINE);
    w->list[w->n++] = (struct widened_part){in, out, elements, at};
    w->end = at + dtype_bytes(DTYPE_F32, elements);
}

static widened plan(const op *o, const op_types *t) /* I2 */
{
    widened w = {.end = (int64_t)kernel_workspace_bytes(o)};
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] >= 0 && is_narrow(t->in[i]))
            add(&w, i, same_in(o->out, OP_OUT_MAX, o->in[i]), t->in_elements[i]);
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] >= 0 && is_narrow(t->out[i]) && same_in(o->in, OP_IN_MAX, o->out[i]) < 0)
            add(&w, -1, i, t->out_elements[i]);
    return w;
}

static status is_run(const op *o, int id, dtype t, error *err)
{
    if (id < 0 || t == DTYPE_F64 || t == DTYPE_F32 || t == DTYPE_BF16 || t == DTYPE_I32) return OK;
    if (op_is_quantised(o->kind) || op_makes_codes(o->kind)) return OK;
    return error_set(
        err, ERR_MACHINE,
        "operation %s (%s): CPUs do not support %s; repair: mixed_precision=bf16_mixed", o->name,
        op_infos[o->kind].name, dtype_name(t));
}

status cpu_prepare(const op *o, const op_types *t, void **state, error *err)
{
    widened w = plan(o, t);
    status s = OK;
    *state = NULL;
    for (int i = 0; i < OP_IN_MAX && !s; i++) s = is_run(o, o->in[i], t->in[i], err);
    for (int i = 0; i < OP_OUT_MAX && !s; i++) s = is_run(o, o->out[i], t->out[i], err);
    if (s || !w.n) return s;
    widened *kept = malloc(sizeof *kept);
    if (!kept)
        return error_set(err, ERR_MACHINE, "operation %s: out of host memory for its kernel",
                         o->name);
    *kept = w;
    *state = kept;
    return OK;
}

void cpu_release(void *state)
{
    free(state);
}

int64_t cpu_workspace(const op *o, const op_types *t)
{
    return plan(o, t).end;
}

/* ---- copies */

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

/* What is between the parts of a fused operation has a format, too. */
static void run(const kernel_call *c, void *const *in, void *const *out)
{
    if (op_is_fused(c->o->kind))
        fused_run(c->row, c->o, c->types, in, out);
    else
        c->row->run(c->o, in, out);
}

static void launch_widened(const kernel_call *c, const widened *w)
{
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
    for (int i = 0; i < OP_IN_MAX; i++) in[i] = c->in[i];
    for (int i = 0; i < OP_OUT_MAX; i++) out[i] = c->out[i];
    for (int i = 0; i < w->n; i++) {
        const struct widened_part *p = &w->list[i];
        float *copy = (float *)(void *)((unsigned char *)c->workspace + p->at);
        widen(copy, p->in >= 0 ? in[p->in] : out[p->out], p->elements); /* I1 */
        if (p->in >= 0) in[p->in] = copy;
        if (p->out >= 0) out[p->out] = copy;
    }
    run(c, in, out);
    for (int i = 0; i < w->n; i++) {
        const struct widened_part *p = &w->list[i];
        if (p->out >= 0) narrow(c->out[p->out], out[p->out], p->elements);
    }
}

void cpu_launch(const kernel_call *c)
{
    size_t own = kernel_workspace_bytes(c->o);
    if (own) kernels_workspace(c->workspace, own);
    if (c->state)
        launch_widened(c, c->state);
    else
        run(c, c->in, c->out);
}
