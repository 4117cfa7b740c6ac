/* source.c - the files of a folder: number formats, finding tensors, values window by window.
 *
 * I1  A name stands for one tensor: a name in two files is refused.
 * I2  What an index promises is where it says. */
#include "train/hf/source.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"

/* ---- number formats */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are little-endian");

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t u16_at(const void *raw, int64_t i)
{
    uint16_t v;
    memcpy(&v, (const char *)raw + 2 * i, sizeof v);
    return v;
}

static void decode_f32(const void *raw, float *out, int64_t n)
{
    memcpy(out, raw, (size_t)n * sizeof *out);
}

static void decode_bf16(const void *raw, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_to_float(u16_at(raw, i));
}

static void decode_f16(const void *raw, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = f16_to_float(u16_at(raw, i));
}

/* Four bits of exponent, bias 7, no infinity; all ones is NaN. */
static float from_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b >> 7) << 31, e = b >> 3 & 15, m = b & 7;
    if (e == 15 && m == 7) return float_of(sign | 0x7fc00000u);
    if (e) return float_of(sign | (e + 120) << 23 | m << 20);
    float tiny = ldexpf((float)m, -9);
    return sign ? -tiny : tiny;
}

static void decode_e4m3(const void *raw, float *out, int64_t n)
{
    const uint8_t *b = raw;
    for (int64_t i = 0; i < n; i++) out[i] = from_e4m3(b[i]);
}

static const hf_dtype dtypes[] = {
    {"F32", 4, false, decode_f32},
    {"BF16", 2, false, decode_bf16},
    {"F16", 2, false, decode_f16},
    {"F8_E4M3", 1, true, decode_e4m3},
};

const hf_dtype *hf_dtype_find(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

/* The low four bits of a byte come first; a scale is a power of two, bias 127. */
void hf_decode_mxfp4(const uint8_t *blocks, const uint8_t *scales, float *out, int64_t n)
{
    static const float table[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (int64_t i = 0; i < n; i += 2) {
        int exponent = scales[i / 32] - 127;
        uint8_t pair = blocks[i / 2];
        out[i] = ldexpf(table[pair & 15], exponent);
        out[i + 1] = ldexpf(table[pair >> 4], exponent);
    }
}

/* ---- tensors by name */

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hf_entry *)a)->t->name, ((const hf_entry *)b)->t->name);
}

hf_entry *hf_source_find(const hf_source *src, const char *name)
{
    safetensor t = {.name = name};
    hf_entry key = {.t = &t};
    if (!src->n_entries) return NULL;
    return bsearch(&key, src->entries, (size_t)src->n_entries, sizeof key, by_name);
}

/* ---- opening */

static status check_names(const hf_source *src, error *err) /* I1 */
{
    for (int i = 1; i < src->n_entries; i++) {
        const hf_entry *x = &src->entries[i - 1], *y = &src->entries[i];
        if (strcmp(x->t->name, y->t->name) == 0)
            return error_set(err, ERR_INPUT, "%s: tensor '%.200s' is in %s too; remove one of them",
                             y->path, y->t->name, x->path);
    }
    return OK;
}

static status open_files(hf_source *src, const char *const *paths, int n, error *err)
{
    safetensors *heads = ARENA_ARRAY(src->a, safetensors, n);
    size_t total = 0;
    for (int i = 0; i < n; i++) {
        TRY(safetensors_open(&heads[i], src->a, paths[i], err));
        total += (size_t)heads[i].n_tensors;
    }
    src->n_files = n;
    src->entries = ARENA_ARRAY(src->a, hf_entry, total);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < heads[i].n_tensors; k++)
            src->entries[src->n_entries++] =
                (hf_entry){.t = &heads[i].tensors[k], .path = paths[i], .data = heads[i].data};
    if (src->n_entries) qsort(src->entries, (size_t)src->n_entries, sizeof *src->entries, by_name);
    return check_names(src, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the index names, each once. A name that leads out of the folder is refused. */
static status list_files(const safetensors *index, const char *path, const char **names, int *n,
                         error *err)
{
    int used = 0;
    for (int i = 0; i < index->n_tensors; i++) {
        const char *file = index->tensors[i].file;
        if (!file || !*file || strchr(file, '/') || *file == '.')
            return error_set(err, ERR_INPUT,
                             "%s: tensor '%.200s' has no usable file name; fetch the file again",
                             path, index->tensors[i].name);
        names[i] = file;
    }
    if (index->n_tensors) qsort(names, (size_t)index->n_tensors, sizeof *names, by_text);
    for (int i = 0; i < index->n_tensors; i++)
        if (i == 0 || strcmp(names[i], names[used - 1]) != 0) names[used++] = names[i];
    *n = used;
    return OK;
}

static status check_index(const hf_source *src, const safetensors *index, const char *folder,
                          error *err) /* I2 */
{
    for (int i = 0; i < index->n_tensors; i++) {
        const safetensor *t = &index->tensors[i];
        const hf_entry *e = hf_source_find(src, t->name);
        if (!e || strcmp(e->path, arena_text(src->a, "%s/%s", folder, t->file)) != 0)
            return error_set(err, ERR_INPUT,
                             "%s/%s: tensor '%.200s' is not in it, though " INDEX
                             " says so; fetch both again",
                             folder, t->file, t->name);
    }
    return OK;
}

static status open_index(hf_source *src, const char *folder, const char *path, error *err)
{
    safetensors index;
    TRY(safetensors_open_index(&index, src->a, path, err));
    const char **names = ARENA_ARRAY(src->a, const char *, index.n_tensors);
    int n;
    TRY(list_files(&index, path, names, &n, err));
    for (int i = 0; i < n; i++) names[i] = arena_text(src->a, "%s/%s", folder, names[i]);
    TRY(open_files(src, names, n, err));
    return check_index(src, &index, folder, err);
}

bool hf_source_is(arena *a, const char *folder)
{
    return file_exists(arena_text(a, "%s/" INDEX, folder)) ||
           file_exists(arena_text(a, "%s/" SINGLE, folder));
}

status hf_source_open(hf_source *src, arena *a, const char *folder, error *err)
{
    *src = (hf_source){.a = a, .fd = -1};
    const char *index = arena_text(a, "%s/" INDEX, folder);
    const char *single = arena_text(a, "%s/" SINGLE, folder);
    if (file_exists(index)) return open_index(src, folder, index, err);
    if (file_exists(single)) return open_files(src, &single, 1, err);
    return error_set(err, ERR_INPUT, "%s: has neither " SINGLE " nor " INDEX, folder);
}

void hf_source_close(hf_source *src)
{
    if (src->fd >= 0) close(src->fd);
    src->fd = -1;
    src->open_path = NULL;
}

/* ---- matching */

static const char *shape_text(arena *a, int n, const int64_t *dim)
{
    textbuf t = text_init(a);
    for (int i = 0; i < n; i++) text_add(&t, i ? ", %lld" : "%lld", (long long)dim[i]);
    return t.s;
}

static status check_shape(const hf_source *src, const hf_entry *e, int n, const int64_t *dim,
                          error *err)
{
    const safetensor *t = e->t;
    if (t->n_dims == n && memcmp(t->dim, dim, sizeof *dim * (size_t)n) == 0) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: tensor '%.200s' has the shape [%s]; this model needs [%s]", e->path,
                     t->name, shape_text(src->a, t->n_dims, t->dim), shape_text(src->a, n, dim));
}

static status check_type(const hf_entry *e, const char *wanted, error *err)
{
    if (strcmp(e->t->dtype, wanted) == 0) return OK;
    return error_set(err, ERR_INPUT, "%s: tensor '%.200s' has the type %s; %s is needed", e->path,
                     e->t->name, e->t->dtype, wanted);
}

static status missing(const hf_source *src, const char *name, const char *path, error *err)
{
    if (!path) path = src->n_entries ? src->entries[0].path : "the folder";
    return error_set(err, ERR_INPUT, "%s: tensor '%.200s' is missing%s", path, name,
                     src->n_files > 1 ? " there and in the other files" : "");
}

/* MXFP4: one scale for each block of 32. */
static status match_packed(const hf_source *src, const hf_part *p, hf_match *m, error *err)
{
    const char *name =
        arena_text(src->a, "%.*s_scales", (int)(strlen(p->name) - strlen("_blocks")), p->name);
    m->scales = hf_source_find(src, name);
    if (!m->scales) return missing(src, name, m->values->path, err);
    TRY(check_type(m->values, "U8", err));
    TRY(check_type(m->scales, "U8", err));
    return check_shape(src, m->scales, p->n_dims - 1, p->dim, err);
}

/* FP8: one scale for each 128 x 128 of a matrix, those at its edges smaller. */
static status match_scaled(const hf_source *src, const hf_part *p, hf_match *m, error *err)
{
    const char *name = arena_text(src->a, "%s_scale_inv", p->name);
    m->scales = hf_source_find(src, name);
    if (!m->scales) return missing(src, name, m->values->path, err);
    if (p->n_dims < 2) return check_type(m->values, "F32, BF16 or F16", err);
    const hf_dtype *type = hf_dtype_find(m->scales->t->dtype);
    if (!type || type->scaled) return check_type(m->scales, "F32, BF16 or F16", err);
    int64_t dim[HF_DIMS_MAX];
    for (int i = 0; i < p->n_dims; i++)
        dim[i] = i < p->n_dims - 2 ? p->dim[i] : (p->dim[i] + HF_FP8_BLOCK - 1) / HF_FP8_BLOCK;
    return check_shape(src, m->scales, p->n_dims, dim, err);
}

status hf_source_match(const hf_source *src, const hf_part *p, hf_match *m, error *err)
{
    *m = (hf_match){.values = hf_source_find(src, p->name)};
    if (!m->values) return missing(src, p->name, NULL, err);
    status s = check_shape(src, m->values, p->n_dims, p->dim, err);
    if (s || p->spelling == HF_PACKED) return s ? s : match_packed(src, p, m, err);
    m->type = hf_dtype_find(m->values->t->dtype);
    if (!m->type) return check_type(m->values, "F32, BF16, F16 or F8_E4M3", err);
    return m->type->scaled ? match_scaled(src, p, m, err) : OK;
}

/* ---- bytes of a file */

static unsigned char *room(hf_source *src)
{
    if (!src->raw) src->raw = arena_take(src->a, (size_t)HF_WINDOW * 4);
    return src->raw;
}

static status use_file(hf_source *src, const char *path, error *err)
{
    if (src->open_path && strcmp(src->open_path, path) == 0) return OK;
    hf_source_close(src);
    TRY(file_open(path, &src->fd, err));
    src->open_path = path;
    return OK;
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
    TRY(read_bytes(src, m->values, lo * size, room(src), (hi - lo) * size, err));
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
