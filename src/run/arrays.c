/* arrays.c - lending FP32 arrays.
 *
 * I1  Elements of the weights are trained ones first, then untrained buffers, which are FP32. */
#include "run/arrays.h"

#include <stdlib.h>

update_arrays arrays_of(const executor *e, const program *p)
{
    const number_types *t = &p->types;
    unsigned char *moments = executor_region(e, REGION_OPTIMIZER);
    return (update_arrays){
        .weights = {t->weight, executor_region(e, REGION_WEIGHTS)},
        .gradients = {t->gradient, executor_region(e, REGION_GRADIENTS)},
        .masters = {t->master, t->masters ? moments : NULL},
        .first = {t->first, moments + p->first_offset},
        .second = {t->second, moments + p->second_offset},
    };
}

static typed array_at(const update_arrays *x, array_kind k)
{
    const typed list[] = {x->weights, x->gradients, x->first, x->second};
    return list[k];
}

static int64_t elements_of(const program *p, array_kind k)
{
    const weight_list *w = &p->weights;
    return k == ARRAY_WEIGHTS ? w->elements : k == ARRAY_GRADIENTS ? w->trained : w->owned;
}

float *array_buffer(const executor *e, const program *p, const weight *w)
{
    unsigned char *first = executor_region(e, REGION_WEIGHTS);
    return (float *)(void *)(first + program_weight_bytes(p, w->offset));
}

/* ---- weights: their formats are mixed */

static typed buffers_of(const array_loan *l)
{
    unsigned char *first = l->of.weights.at;
    return (typed){DTYPE_F32, first + program_weight_bytes(l->p, l->p->weights.trained)};
}

static void each_slice(const array_loan *l,
                       void (*copy)(const array_loan *l, int64_t at, int64_t own, int64_t n))
{
    for (int i = 0; i < l->p->weights.n_buckets; i++) {
        const bucket *k = &l->p->weights.buckets[i];
        copy(l, bucket_slice_start(k), k->moments, bucket_slice(k));
    }
}

static void take_masters(const array_loan *l, int64_t at, int64_t own, int64_t n)
{
    typed_read(l->values + at, l->of.masters, own, n);
}

static void give_masters(const array_loan *l, int64_t at, int64_t own, int64_t n)
{
    typed_write(l->of.masters, own, l->values + at, n);
}

static void read_weights(const array_loan *l)
{
    const weight_list *w = &l->p->weights;
    typed_read(l->values, l->of.weights, 0, w->trained);
    typed_read(l->values + w->trained, buffers_of(l), 0, w->elements - w->trained); /* I1 */
    if (l->of.masters.at) each_slice(l, take_masters);
}

static void write_weights(const array_loan *l, bool rounded)
{
    const weight_list *w = &l->p->weights;
    typed_write(l->of.weights, 0, l->values, w->trained);
    typed_write(buffers_of(l), 0, l->values + w->trained, w->elements - w->trained);
    if (rounded) typed_read(l->values, l->of.weights, 0, w->trained);
    if (l->of.masters.at) each_slice(l, give_masters);
}

/* ---- loans */

status array_borrow(array_loan *l, const executor *e, const program *p, array_kind k, error *err)
{
    *l = (array_loan){.p = p, .of = arrays_of(e, p), .kind = k};
    typed from = array_at(&l->of, k);
    bool masters = k == ARRAY_WEIGHTS && l->of.masters.at;
    l->values = from.at;
    if (from.type == DTYPE_F32 && !masters) return OK;
    int64_t n = elements_of(p, k);
    l->copied = true;
    l->values = malloc(sizeof(float) * (size_t)(n > 0 ? n : 1));
    if (!l->values)
        return error_set(err, ERR_MACHINE, "no memory for an FP32 copy of %lld elements",
                         (long long)n);
    if (k == ARRAY_WEIGHTS)
        read_weights(l);
    else
        typed_read(l->values, from, 0, n);
    return OK;
}

void array_return(array_loan *l, array_end how)
{
    if (l->copied && l->values && how != ARRAY_READ) {
        if (l->kind == ARRAY_WEIGHTS)
            write_weights(l, how == ARRAY_ROUNDED);
        else
            typed_write(array_at(&l->of, l->kind), 0, l->values, elements_of(l->p, l->kind));
    }
    if (l->copied) free(l->values);
    *l = (array_loan){0};
}
