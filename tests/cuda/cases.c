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

static void tensor_init(trial *t, tensor *x, int64_t n, char letter, const char *name)
{
    const bool words = strncmp(name, "labels", 6) == 0 || !shape_of(t->o.kind)->fill;
    if (n < 0 || (letter == 'i' && !words)) return; /* the filler's */
    if (letter == 'i') {
        tensor_ints(x, n);
        for (int64_t i = 0; i < n; i++)
            x->i[i] = (int32_t)next_below(t, t->o.dim[DIM_EMBED_V] + 10) - 1;
    } else if (letter == 'd') {
        tensor_doubles(t, x, n);
    } else {
        tensor_reals(t, x, n);
        for (int64_t i = 0; i < n && strncmp(name, "mask", 4) == 0; i++)
            x->f[i] = i % 5 == 2 ? 0 : i % 5 == 3 ? 0.5F : 1;
    }
}

static void tensors_init(trial *t, const char *names, const char *types, int first, tensor *x)
{
    for (int i = 0; *names; i++) {
        tensor_init(t, &x[i], op_elements(&t->o, first + i), types[i], names);
        names += strcspn(names, " ");
        names += *names == ' ';
    }
}

/* A joint projection is shorter without its gate. */
static void mark_missing(op *o, const char *without)
{
    for (const char *p = without; p && *p; p += p[2] == ' ' ? 3 : 2)
        *(*p == 'i' ? &o->in[p[1] - '0'] : &o->out[p[1] - '0']) = -1;
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
    const op_info *kind = &op_infos[s->kind];
    mark_missing(&t->o, s->without);
    tensors_init(t, kind->in, kind->types, 0, t->in);
    tensors_init(t, kind->out, strchr(kind->types, '>') + 1, OP_IN_MAX, t->out);
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
