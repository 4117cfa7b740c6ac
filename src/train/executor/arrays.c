/* arrays.c - lending FP32 arrays.
 *
 * I1  Elements of the weights are trained ones first, then untrained buffers, which are FP32. */
#include "train/executor/arrays.h"

#include <stdlib.h>

static int64_t elements_of(const program *p, array_kind k)
{
    const weight_list *w = &p->weights;
    return k == ARRAY_WEIGHTS ? w->elements : k == ARRAY_GRADIENTS ? w->trained : w->owned;
}

/* ---- bytes of the device */

static array_bytes bytes_of(const program *p, array_kind k)
{
    const number_types *t = &p->types;
    int64_t moments = p->offset[REGION_OPTIMIZER], kept = program_kept(p);
    switch (k) {
    case ARRAY_WEIGHTS:
        return (array_bytes){.as = {t->weight, NULL},
                             .place = p->offset[REGION_WEIGHTS],
                             .n = p->bytes[REGION_WEIGHTS]};
    case ARRAY_GRADIENTS:
        return (array_bytes){.as = {t->gradient, NULL},
                             .place = p->offset[REGION_GRADIENTS],
                             .n = dtype_bytes(t->gradient, p->weights.trained)};
    case ARRAY_FIRST:
        return (array_bytes){.as = {t->first, NULL},
                             .place = moments + p->first_offset,
                             .n = dtype_bytes(t->first, p->updated),
                             .kept = kept + p->kept.first,
                             .kept_n = dtype_bytes(t->first, p->kept.n)};
    case ARRAY_SECOND:
        break;
    }
    return (array_bytes){.as = {t->second, NULL},
                         .place = moments + p->second_offset,
                         .n = dtype_bytes(t->second, p->updated),
                         .kept = kept + p->kept.second,
                         .kept_n = dtype_bytes(t->second, p->kept.n)};
}

static array_bytes masters_of(const program *p)
{
    const number_types *t = &p->types;
    if (!t->masters) return (array_bytes){.n = 0};
    return (array_bytes){.as = {t->master, NULL},
                         .place = p->offset[REGION_OPTIMIZER],
                         .n = dtype_bytes(t->master, p->updated),
                         .kept = program_kept(p),
                         .kept_n = dtype_bytes(t->master, p->kept.n)};
}

static status take_bytes(executor *e, array_bytes *b, error *err)
{
    if (!b->kept_n) b->as.at = executor_map(e, b->place);
    if (!b->n) b->as.at = executor_map(e, b->kept);
    if (b->as.at) return OK;
    unsigned char *at = malloc((size_t)(b->n + b->kept_n) + 1);
    b->as.at = at;
    if (!at)
        return error_set(err, ERR_MACHINE, "no host memory for a copy of %lld bytes of the device",
                         (long long)(b->n + b->kept_n));
    b->copied = true;
    executor_read(e, at, b->place, b->n);
    executor_read(e, at + b->n, b->kept, b->kept_n);
    return OK;
}

static void give_bytes(executor *e, array_bytes *b, bool written)
{
    if (!b->copied) return;
    const unsigned char *at = b->as.at;
    if (written) executor_write(e, b->place, at, b->n);
    if (written) executor_write(e, b->kept, at + b->n, b->kept_n);
    free(b->as.at);
    *b = (array_bytes){.n = 0};
}

/* ---- weights: their formats are mixed */

static typed buffers_of(const array_loan *l)
{
    unsigned char *first = l->own.as.at;
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
    typed_read(l->values + at, l->masters.as, own, n);
}

static void give_masters(const array_loan *l, int64_t at, int64_t own, int64_t n)
{
    typed_write(l->masters.as, own, l->values + at, n);
}

static void read_weights(const array_loan *l)
{
    const weight_list *w = &l->p->weights;
    typed_read(l->values, l->own.as, 0, w->trained);
    typed_read(l->values + w->trained, buffers_of(l), 0, w->elements - w->trained); /* I1 */
    if (l->masters.as.at) each_slice(l, take_masters);
}

static void write_weights(const array_loan *l, bool rounded)
{
    const weight_list *w = &l->p->weights;
    typed_write(l->own.as, 0, l->values, w->trained);
    typed_write(buffers_of(l), 0, l->values + w->trained, w->elements - w->trained);
    if (rounded) typed_read(l->values, l->own.as, 0, w->trained);
    if (l->masters.as.at) each_slice(l, give_masters);
}

/* ---- a range of the weights */

/* In blocks, by all threads. `rounds`: the values become what was written. */
static void write_all(typed to, float *values, int64_t n, bool rounds)
{
    enum { BLOCK = 1 << 14 };
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t some = n - i < BLOCK ? n - i : BLOCK;
        typed_write(to, i, values + i, some);
        if (rounds) typed_read(values + i, to, i, some);
    }
}

/* Straight into memory that the host can address; else by way of a copy in the format. */
static void put_values(executor *e, int64_t place, dtype type, float *values, int64_t n,
                       float *room)
{
    void *there = executor_map(e, place);
    if (!there && type == DTYPE_F32) {
        executor_write(e, place, values, dtype_bytes(type, n));
        return;
    }
    write_all((typed){type, there ? there : room}, values, n, type != DTYPE_F32);
    if (!there) executor_write(e, place, room, dtype_bytes(type, n));
}

/* Elements from `own` on of the masters: some on the device, the rest on the host. */
static void put_own(executor *e, const program *p, float *values, int64_t own, int64_t n,
                    float *room)
{
    dtype type = p->types.master;
    int64_t here = own < p->updated ? p->updated - own : 0;
    if (here > n) here = n;
    if (here)
        put_values(e, p->offset[REGION_OPTIMIZER] + dtype_bytes(type, own), type, values, here,
                   room);
    if (n > here)
        put_values(e, program_kept(p) + dtype_bytes(type, own + here - p->updated), type,
                   values + here, n - here, room);
}

/* Of every bucket what this rank owns of those elements. */
static void put_masters(executor *e, const program *p, int64_t first, int64_t n, float *values,
                        float *room)
{
    for (int i = 0; i < p->weights.n_buckets; i++) {
        const bucket *k = &p->weights.buckets[i];
        int64_t start = bucket_slice_start(k), end = start + bucket_slice(k);
        int64_t from = first > start ? first : start, to = first + n < end ? first + n : end;
        if (from < to)
            put_own(e, p, values + from - first, k->moments + from - start, to - from, room);
    }
}

void array_put_weights(executor *e, const program *p, int64_t first, int64_t n, float *values,
                       float *room)
{
    bool trained = first < p->weights.trained;
    put_values(e, p->offset[REGION_WEIGHTS] + program_weight_bytes(p, first),
               trained ? p->types.weight : DTYPE_F32, values, n, room);
    if (trained && p->types.masters) put_masters(e, p, first, n, values, room);
}

/* ---- loans */

static status take_values(array_loan *l, error *err)
{
    int64_t n = elements_of(l->p, l->kind);
    l->values = malloc(sizeof(float) * (size_t)(n > 0 ? n : 1));
    if (!l->values)
        return error_set(err, ERR_MACHINE, "no memory for an FP32 copy of %lld elements",
                         (long long)n);
    l->copied = true;
    if (l->kind == ARRAY_WEIGHTS)
        read_weights(l);
    else
        typed_read(l->values, l->own.as, 0, n);
    return OK;
}

status array_borrow(array_loan *l, executor *e, const program *p, array_kind k, error *err)
{
    *l = (array_loan){.e = e, .p = p, .kind = k, .own = bytes_of(p, k)};
    if (k == ARRAY_WEIGHTS) l->masters = masters_of(p);
    status s = take_bytes(e, &l->own, err);
    if (!s && p->types.masters && k == ARRAY_WEIGHTS) s = take_bytes(e, &l->masters, err);
    if (!s && l->own.as.type == DTYPE_F32 && !l->masters.as.at)
        l->values = l->own.as.at;
    else if (!s)
        s = take_values(l, err);
    if (s) array_return(l, ARRAY_READ);
    return s;
}

void array_return(array_loan *l, array_end how)
{
    bool written = how != ARRAY_READ;
    if (l->copied && written) {
        if (l->kind == ARRAY_WEIGHTS)
            write_weights(l, how == ARRAY_ROUNDED);
        else
            typed_write(l->own.as, 0, l->values, elements_of(l->p, l->kind));
    }
    if (l->copied) free(l->values);
    if (l->e) give_bytes(l->e, &l->own, written);
    if (l->e) give_bytes(l->e, &l->masters, written);
    *l = (array_loan){0};
}
