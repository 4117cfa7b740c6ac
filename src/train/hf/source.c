/* source.c - opening the files of a folder and finding tensors.
 *
 * I1  A name stands for one tensor: a name in two files is refused.
 * I2  What an index promises is where it says. */
#include "train/hf/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

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
        status s = safetensors_open(&heads[i], src->a, paths[i], err);
        if (s) return s;
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
    status s = safetensors_open_index(&index, src->a, path, err);
    if (s) return s;
    const char **names = ARENA_ARRAY(src->a, const char *, index.n_tensors);
    int n;
    s = list_files(&index, path, names, &n, err);
    if (s) return s;
    for (int i = 0; i < n; i++) names[i] = arena_text(src->a, "%s/%s", folder, names[i]);
    s = open_files(src, names, n, err);
    return s ? s : check_index(src, &index, folder, err);
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
