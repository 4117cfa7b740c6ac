/* fused.c - forms of fused kinds: the table, and a fused operation as its parts. */
#include "op/fused.h"

#include <assert.h>
#include <string.h>

#include "base/maths.h"
#include "op/op_forms.h"

enum { PLACE_ALIGN = 256 };

const fused_form *fused_forms(int *n)
{
    *n = sizeof forms / sizeof forms[0];
    return forms;
}

int64_t fused_size_of(const fused_size *z, const int64_t *dim)
{
    int64_t n = z->number;
    for (int i = 0; i < z->n; i++) n = mul_sat(n, dim[z->dim[i]]);
    return n;
}

static bool is_there(const op *o, int operand)
{
    return operand < OP_IN_MAX ? o->in[operand] >= 0 : o->out[operand - OP_IN_MAX] >= 0;
}

/* The operand with its format and elements, where it is there. */
static int operand_of(const fused_steps *f, const op *o, const op_types *t, int operand,
                      dtype *type, int64_t *elements)
{
    if (operand < 0) return -1;
    if (operand >= FUSED_BETWEEN) {
        *type = f->type[operand - FUSED_BETWEEN];
        *elements = f->elements[operand - FUSED_BETWEEN];
        return *elements >= 0 ? operand : -1;
    }
    if (!is_there(o, operand)) return -1;
    bool in = operand < OP_IN_MAX;
    int i = in ? operand : operand - OP_IN_MAX;
    *type = in ? t->in[i] : t->out[i];
    *elements = in ? t->in_elements[i] : t->out_elements[i];
    return operand;
}

void fused_expand(fused_steps *out, const op *o, const op_types *t)
{
    static const op_types fp32;
    const fused_form *form = forms, *end = forms + sizeof forms / sizeof forms[0];
    while (form < end &&
           !(form->kind == o->kind && form->runs && (form->with < 0 || is_there(o, form->with))))
        form++;
    assert(form < end);
    if (!t) t = &fp32;
    out->n = form->n_parts;
    out->n_between = form->n_between;
    for (int i = 0; i < form->n_between; i++) {
        const fused_between *b = &form->between[i];
        bool there = b->with < 0 || is_there(o, b->with);
        out->elements[i] = there ? fused_size_of(&b->elements, o->dim) : -1;
        out->type[i] = b->like < OP_IN_MAX ? t->in[b->like] : t->out[b->like - OP_IN_MAX];
    }
    for (int i = 0; i < form->n_parts; i++) {
        const fused_part *p = &form->parts[i];
        op *made = &out->ops[i];
        op_types *of = &out->types[i];
        *made = *o;
        *of = (op_types){.in = {0}};
        made->kind = p->kind;
        made->flags = o->flags & (op_infos[p->kind].flags | REPLAY);
        memset(made->dim, 0, sizeof made->dim);
        for (int k = 0; k < p->n_sizes; k++) made->dim[k] = fused_size_of(&p->size[k], o->dim);
        for (int k = 0; k < OP_IN_MAX; k++)
            made->in[k] = operand_of(out, o, t, p->in[k], &of->in[k], &of->in_elements[k]);
        for (int k = 0; k < OP_OUT_MAX; k++)
            made->out[k] = operand_of(out, o, t, p->out[k], &of->out[k], &of->out_elements[k]);
    }
}

int64_t fused_places(const fused_steps *f, int64_t at[FUSED_BETWEEN_MAX])
{
    int64_t end = 0;
    for (int i = 0; i < f->n_between; i++) {
        at[i] = end;
        if (f->elements[i] > 0)
            end = round_up(end + dtype_bytes(f->type[i], f->elements[i]), PLACE_ALIGN);
    }
    return end;
}
