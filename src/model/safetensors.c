/* safetensors.c - headers of weight files.
 *
 * I1  Nothing is read past the bytes given, and nothing is allocated that those bytes do not hold.
 * I2  A tensor's range has exactly the bytes that its type and shape ask for.
 * I3  The ranges cover the data without gap or overlap: a truncated file is seen here, not when its
 *     tail is missing from a weight. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/maths.h"
#include "base/text.h"

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    {"F32", 32}, {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I64", 64}, {"I32", 32},
    {"I16", 16}, {"I8", 8},      {"U8", 8},      {"U16", 16},    {"U32", 32}, {"U64", 64},
    {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},
};

typedef struct reader {
    safetensor *t; /* being read */
    arena *a;
    const char *name;
    int64_t data_bytes;
    const json_t *notes; /* __metadata__ */
    error *err;
} reader;

int64_t safetensor_elements(const safetensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n = mul_sat(n, t->dim[i]);
    return n;
}

static status broken(const reader *r, const char *what)
{
    return error_set(r->err, ERR_INPUT,
                     "%s: tensor '%.100s' %s; the file is damaged: fetch it again", r->name,
                     r->t->name, what);
}

static int bits_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) return dtypes[i].bits;
    return 0;
}

static status read_shape(const reader *r, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSOR_DIMS_MAX)
        return broken(r, "has no usable shape");
    r->t->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < r->t->n_dims; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return broken(r, "has no usable shape");
        r->t->dim[i] = json_integer_value(d);
    }
    return OK;
}

static status read_range(const reader *r, const json_t *range, int bits)
{
    const json_t *begin = json_array_get(range, 0), *end = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return broken(r, "has no data_offsets");
    r->t->begin = json_integer_value(begin);
    r->t->end = json_integer_value(end);
    if (r->t->begin < 0 || r->t->end < r->t->begin || r->t->end > r->data_bytes)
        return broken(r, "lies outside the file");
    int64_t n_bits = mul_sat(safetensor_elements(r->t), bits);
    if (n_bits != mul_sat(r->t->end - r->t->begin, 8)) /* I2 */
        return broken(r, "has another size than its shape and type ask for");
    return OK;
}

static const char *copy_text(arena *a, const json_t *text)
{
    const char *s = json_string_value(text);
    return s ? arena_copy(a, s, strlen(s)) : NULL;
}

static status read_tensor(reader *r, const char *name, const json_t *entry)
{
    r->t->name = arena_copy(r->a, name, strlen(name));
    r->t->note = copy_text(r->a, json_object_get(r->notes, name));
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    int bits = dtype ? bits_of(dtype) : 0;
    if (!bits) return broken(r, "has no known dtype");
    r->t->dtype = arena_copy(r->a, dtype, strlen(dtype));
    TRY(read_shape(r, json_object_get(entry, "shape")));
    return read_range(r, json_object_get(entry, "data_offsets"), bits);
}

static int by_place(const void *a, const void *b)
{
    const safetensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const safetensor *)a)->name, ((const safetensor *)b)->name);
}

static status check_cover(reader *r, safetensor *tensors, int n)
{
    int64_t at = 0;
    if (n) qsort(tensors, (size_t)n, sizeof *tensors, by_place);
    for (int i = 0; i < n; i++) {
        r->t = &tensors[i];
        if (tensors[i].begin != at) return broken(r, "overlaps another or leaves a gap"); /* I3 */
        at = tensors[i].end;
    }
    if (at != r->data_bytes)
        return error_set(r->err, ERR_INPUT,
                         "%s: holds %" PRId64 " bytes of data, its tensors %" PRId64
                         "; the file is damaged: fetch it again",
                         r->name, r->data_bytes, at);
    if (n) qsort(tensors, (size_t)n, sizeof *tensors, by_name);
    return OK;
}

static status read_tensors(safetensors *f, reader *r, const json_t *root)
{
    const char *name;
    const json_t *entry;
    int n = 0;
    safetensor *tensors = ARENA_ARRAY(r->a, safetensor, json_object_size(root));
    r->notes = json_object_get(root, "__metadata__");
    void *at = json_object_iter((json_t *)root);
    for (; at; at = json_object_iter_next((json_t *)root, at)) {
        name = json_object_iter_key(at);
        entry = json_object_iter_value(at);
        if (strcmp(name, "__metadata__") == 0) continue;
        r->t = &tensors[n++];
        TRY(read_tensor(r, name, entry));
    }
    TRY(check_cover(r, tensors, n));
    f->tensors = tensors;
    f->n_tensors = n;
    return OK;
}

static status read_length(const safetensors_head *head, int64_t *length, error *err)
{
    const unsigned char *b = head->bytes;
    uint64_t v = 0;
    for (int i = 7; head->n_bytes >= 8 && i >= 0; i--) v = v << 8 | b[i];
    bool fits = v <= SAFETENSORS_HEADER_MAX && (int64_t)v <= head->file_bytes - 8;
    *length = (int64_t)v;
    if (head->n_bytes >= 8 && fits) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: is not a safetensors file (%" PRId64 " bytes; a header of %" PRIu64
                     " announced); a Git LFS pointer? fetch the file itself",
                     head->name, head->file_bytes, v);
}

status safetensors_parse(safetensors *f, arena *a, const safetensors_head *head, error *err)
{
    int64_t length;
    status s = read_length(head, &length, err);
    if (s) return s;
    if (head->n_bytes - 8 < (size_t)length) /* I1 */
        return error_set(err, ERR_INPUT, "%s: ends inside its header", head->name);
    json_t *root;
    s = json_parse(head->name, (const char *)head->bytes + 8, (size_t)length, &root, err);
    if (s) return s;
    reader r = {NULL, a, head->name, head->file_bytes - 8 - length, NULL, err};
    safetensors found = {.data = 8 + length};
    s = json_is_object(root)
            ? read_tensors(&found, &r, root)
            : error_set(err, ERR_INPUT, "%s: its header is not a JSON object", head->name);
    json_decref(root);
    if (!s) *f = found;
    return s;
}

static status read_head(safetensors *f, arena *a, safetensors_head *head, FILE *file, error *err)
{
    unsigned char first[8];
    int64_t length;
    head->bytes = first;
    head->n_bytes = fread(first, 1, sizeof first, file);
    TRY(read_length(head, &length, err));
    char *bytes = arena_take(a, 8 + (size_t)length);
    memcpy(bytes, first, 8);
    head->bytes = bytes;
    head->n_bytes += fread(bytes + 8, 1, (size_t)length, file);
    return safetensors_parse(f, a, head, err);
}

status safetensors_open(safetensors *f, arena *a, const char *path, error *err)
{
    struct stat info;
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    if (!file) return error_set(err, ERR_INPUT, "%s: cannot be opened", path);
    safetensors_head head = {.name = path, .file_bytes = (int64_t)info.st_size};
    status s = read_head(f, a, &head, file, err);
    fclose(file);
    return s;
}

status safetensors_open_index(safetensors *f, arena *a, const char *path, error *err)
{
    json_t *root;
    status s = json_read(path, &root, err);
    if (s) return s;
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map))
        s = error_set(err, ERR_INPUT, "%s: has no weight_map; fetch the file again", path);
    size_t n = json_object_size(map);
    safetensor *tensors = ARENA_ARRAY(a, safetensor, n);
    int i = 0;
    for (void *at = json_object_iter(map); at; at = json_object_iter_next(map, at)) {
        const char *name = json_object_iter_key(at);
        tensors[i].file = copy_text(a, json_object_iter_value(at));
        tensors[i++].name = arena_copy(a, name, strlen(name));
    }
    json_decref(root);
    if (s) return s;
    if (n) qsort(tensors, n, sizeof *tensors, by_name);
    *f = (safetensors){.tensors = tensors, .n_tensors = i};
    return OK;
}

const safetensor *safetensors_find(const safetensors *f, const char *name)
{
    safetensor key = {.name = name};
    return f->n_tensors ? bsearch(&key, f->tensors, (size_t)f->n_tensors, sizeof key, by_name)
                        : NULL;
}

bool safetensors_any(const safetensors *f, const char *prefix)
{
    for (int i = 0; i < f->n_tensors; i++)
        if (text_starts(f->tensors[i].name, prefix)) return true;
    return false;
}
