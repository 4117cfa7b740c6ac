/* read.c - values of a tensor, window by window. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/hf/source.h"

static unsigned char *room(hf_source *src)
{
    if (!src->raw) src->raw = arena_take(src->a, (size_t)HF_WINDOW * 4);
    return src->raw;
}

static status use_file(hf_source *src, const char *path, error *err)
{
    if (src->open_path && strcmp(src->open_path, path) == 0) return OK;
    hf_source_close(src);
    status s = file_open(path, &src->fd, err);
    if (!s) src->open_path = path;
    return s;
}

/* n bytes from byte `at` of the tensor. */
static status read_bytes(hf_source *src, const hf_entry *e, int64_t at, void *out, int64_t n,
                         error *err)
{
    status s = use_file(src, e->path, err);
    int64_t place = e->data + e->t->begin + at, done = 0;
    while (!s && done < n) {
        ssize_t got = pread(src->fd, (char *)out + done, (size_t)(n - done), place + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            s = error_set(err, ERR_INPUT, "%s: tensor '%.200s' cannot be read: %s", e->path,
                          e->t->name, strerror(errno));
        else if (got == 0)
            s = error_set(err, ERR_INPUT,
                          "%s: ends inside tensor '%.200s': it was shortened while it was read",
                          e->path, e->t->name);
        else
            done += got;
    }
    return s;
}

/* ---- FP8 */

static status read_factors(hf_source *src, hf_match *m, error *err)
{
    const hf_dtype *type = hf_dtype_find(m->scales->t->dtype);
    int64_t n = safetensor_elements(m->scales->t);
    m->factors = malloc((size_t)(n ? n : 1) * sizeof(float));
    if (!m->factors)
        return error_set(err, ERR_MACHINE, "%s: no memory for the scales of tensor '%.200s'",
                         m->values->path, m->values->t->name);
    status s = OK;
    for (int64_t lo = 0; lo < n && !s; lo += HF_WINDOW) {
        int64_t count = n - lo < HF_WINDOW ? n - lo : HF_WINDOW;
        s = read_bytes(src, m->scales, lo * type->bytes, room(src), count * type->bytes, err);
        if (!s) type->decode(src->raw, m->factors + lo, count);
    }
    return s;
}

/* Multiplies the elements [lo, hi) of a matrix, or of a stack of them, by their blocks' factors. */
static void apply_factors(const hf_match *m, int64_t lo, int64_t hi, float *v)
{
    const int64_t *dim = m->values->t->dim + m->values->t->n_dims - 2;
    const int64_t *blocks = m->scales->t->dim + m->scales->t->n_dims - 2;
    for (int64_t i = lo; i < hi;) {
        int64_t col = i % dim[1], row = i / dim[1] % dim[0], matrix = i / (dim[0] * dim[1]);
        int64_t block = (matrix * blocks[0] + row / HF_FP8_BLOCK) * blocks[1] + col / HF_FP8_BLOCK;
        int64_t end = i + HF_FP8_BLOCK - col % HF_FP8_BLOCK, row_end = i + dim[1] - col;
        if (end > row_end) end = row_end;
        if (end > hi) end = hi;
        for (; i < end; i++) v[i - lo] *= m->factors[block];
    }
}

/* ---- windows */

status hf_source_begin(hf_source *src, hf_match *m, error *err)
{
    return m->type && m->type->scaled ? read_factors(src, m, err) : OK;
}

void hf_source_end(hf_match *m)
{
    free(m->factors);
    m->factors = NULL;
}

static status read_packed(hf_source *src, const hf_match *m, int64_t lo, int64_t hi, float *out,
                          error *err)
{
    uint8_t *blocks = room(src), *scales = blocks + (hi - lo) / 2;
    status s = read_bytes(src, m->values, lo / 2, blocks, (hi - lo) / 2, err);
    if (!s)
        s = read_bytes(src, m->scales, lo / HF_PACKED_BLOCK, scales, (hi - lo) / HF_PACKED_BLOCK,
                       err);
    if (!s) hf_decode_mxfp4(blocks, scales, out, hi - lo);
    return s;
}

status hf_source_read(hf_source *src, const hf_match *m, int64_t lo, int64_t hi, float *out,
                      error *err)
{
    if (!m->type) return read_packed(src, m, lo, hi, out, err);
    int64_t size = m->type->bytes;
    status s = read_bytes(src, m->values, lo * size, room(src), (hi - lo) * size, err);
    if (s) return s;
    m->type->decode(src->raw, out, hi - lo);
    if (m->factors) apply_factors(m, lo, hi, out);
    return OK;
}

status hf_source_same(hf_source *src, const hf_entry *a, const hf_entry *b, bool *same, error *err)
{
    const int64_t half = (int64_t)HF_WINDOW * 2;
    int64_t bytes = a->t->end - a->t->begin;
    unsigned char *x = room(src), *y = x + half;
    *same = strcmp(a->t->dtype, b->t->dtype) == 0 && bytes == b->t->end - b->t->begin;
    for (int64_t at = 0; at < bytes && *same; at += half) {
        int64_t n = bytes - at < half ? bytes - at : half;
        TRY(read_bytes(src, a, at, x, n, err));
        TRY(read_bytes(src, b, at, y, n, err));
        *same = memcmp(x, y, (size_t)n) == 0;
    }
    return OK;
}
