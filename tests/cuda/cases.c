/* cases.c - from a kind and sizes (shapes.c, sizes_*.c) to an operation with its tensors. */
#include "cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MOST = 2000 };

const sizes *all_sizes(int *n)
{
    static sizes all[TRIES_MOST];
    static int n_all;
    sizes_part (*const parts[])(void) = {sizes_dense, sizes_attention, sizes_moe, sizes_update,
                                         sizes_fused};
    const bool first = n_all == 0;
    for (size_t i = 0; first && i < sizeof parts / sizeof parts[0]; i++) {
        const sizes_part part = parts[i]();
        if (n_all + part.n > TRIES_MOST) abort();
        memcpy(all + n_all, part.list, sizeof *all * (size_t)part.n);
        n_all += part.n;
    }
    *n = n_all;
    return all;
}

/* ---- from a row of `tries` to a trial */

/* Reads one factor of a shape and moves past it. */
static int64_t factor(const op *o, const char **s)
{
    if (**s != '(') return o->dim[*(*s)++ - '0'];
    int64_t sum = 0;
    while (*(*s)++ != ')') sum += o->dim[*(*s)++ - '0'];
    return sum;
}

static int64_t count_of(const op *o, const char *s)
{
    int64_t n = 1;
    while (*s && *s != ' ') n *= factor(o, &s);
    return n;
}

static void tensors_init(trial *t, const char *s, tensor *x)
{
    const op *o = &t->o;
    for (; *s; x++) {
        if (*s == 'i') {
            tensor_ints(x, count_of(o, s + 1));
            for (int64_t i = 0; i < x->n; i++) x->i[i] = (int32_t)next_below(t, o->dim[2] + 10) - 1;
        } else if (*s == 'm') {
            tensor_reals(t, x, count_of(o, s + 1));
            for (int64_t i = 0; i < x->n; i++) x->f[i] = i % 5 == 2 ? 0 : i % 5 == 3 ? 0.5F : 1;
        } else if (*s == '=') {
            tensor_reals(t, x, s[1] - '0');
        } else if (*s == 'd') {
            tensor_doubles(t, x, s[1] == '=' ? s[2] - '0' : count_of(o, s + 1));
        } else if (*s != '?') {
            tensor_reals(t, x, count_of(o, s));
        }
        s += strcspn(s, " ");
        s += *s == ' ';
    }
}

/* Without gates the groups of a joint projection are shorter. */
static const char *shape_text(const sizes *s, const char *text, const char *gate)
{
    const bool joint = s->kind == OP_QKV_SPLIT || s->kind == OP_QKV_JOIN;
    const bool no_gate = s->without && strstr(s->without, gate);
    return joint && no_gate && strchr(text, '(') ? "0(1+2+2)3" : text;
}

static void release_missing(trial *t, const char *without)
{
    for (const char *p = without; p && *p; p += p[2] == ' ' ? 3 : 2)
        tensor_release((*p == 'i' ? t->in : t->out) + (p[1] - '0'));
}

/* Kinds keep their numbers when others are added before them. */
static uint64_t seed_of(op_kind kind)
{
    uint64_t seed = 12345;
    for (const char *p = op_infos[kind].name; *p; p++) seed = seed * 31 + (uint64_t)*p;
    return seed;
}

void trial_init(trial *t, const sizes *s)
{
    const shape *form = shape_of(s->kind);
    *t = (trial){.random = seed_of(s->kind), .way = s->way, .in_place = s->in_place};
    t->o.kind = s->kind;
    t->o.flags = s->flags;
    memcpy(t->o.dim, s->dim, sizeof s->dim);
    memcpy(t->o.real, form->real, sizeof form->real);
    tensors_init(t, shape_text(s, form->in, "o3"), t->in);
    tensors_init(t, shape_text(s, form->out, "i3"), t->out);
    if (s->kind == OP_MOVE) {
        tensor_reals(t, &t->in[0], s->way / 1000000);
        tensor_reals(t, &t->out[0], s->way % 1000000);
    }
    if (form->fill) form->fill(t);
    release_missing(t, s->without);
    for (int i = 0; i < OP_IN_MAX; i++) t->o.in[i] = t->in[i].start ? i : -1;
    for (int i = 0; i < OP_OUT_MAX; i++) t->o.out[i] = t->out[i].start ? OP_IN_MAX + i : -1;
}

void trial_release(trial *t)
{
    for (int i = 0; i < OP_IN_MAX; i++) tensor_release(&t->in[i]);
    for (int i = 0; i < OP_OUT_MAX; i++) tensor_release(&t->out[i]);
}
