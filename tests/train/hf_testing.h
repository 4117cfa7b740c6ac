/* hf_testing.h - a model with its weights in memory, folders that go away again, and safetensors
 * files made by hand: nothing of what is tested makes them. */
#ifndef TESTS_TRAIN_HF_TESTING_H
#define TESTS_TRAIN_HF_TESTING_H

#include "config/models/models.h"
#include "model/testing.h"

#include <ftw.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/safetensors.h"
#include "train/hf/weights.h"

/* ---- folders and files */

static inline int scratch_remove_one(const char *path, const struct stat *info, int kind,
                                     struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline void scratch_remove(const char *path)
{
    (void)nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* In memory where there is such a place: thousands of small files, and what is synced. */
static inline const char *scratch_make(arena *a)
{
    const char *above = getenv("TMPDIR");
    if (!above) above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char *path = arena_text(a, "%s/moefold-test-XXXXXX", above);
    assert_non_null(mkdtemp(path));
    return path;
}

/* Removed first: a file that is cut to nothing and written again makes some file systems sync. */
static inline void put_file(const char *path, const void *data, size_t n)
{
    (void)remove(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline char *get_file(arena *a, const char *path, size_t *n)
{
    char *data;
    error err;
    if (file_read(a, path, (size_t)1 << 28, &data, n, &err)) fail_msg("%s", err.text);
    return data;
}

static inline void same_files(arena *a, const char *x, const char *y)
{
    size_t nx, ny;
    const char *dx = get_file(a, x, &nx), *dy = get_file(a, y, &ny);
    assert_int_equal(nx, ny);
    if (memcmp(dx, dy, nx) != 0) fail_msg("%s and %s differ", x, y);
}

/* ---- random numbers */

static inline uint32_t draw_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

static inline uint32_t draw_below(uint64_t *seed, size_t n)
{
    return (uint32_t)(draw_bits(seed) % n);
}

/* Between -1 and 1. */
static inline float draw_real(uint64_t *seed)
{
    return (float)draw_bits(seed) / 2147483648.0f - 1.0f;
}

/* ---- a model and an array of its weights */

typedef struct loaded {
    arena *a;
    recipe *r;
    setup *s;
    weight_list w;
    float *flat; /* [w.elements], zero */
    error err;
} loaded;

/* `name`: a folder or a preset. Overrides are separated by spaces. */
static inline void loaded_init(loaded *x, const char *name, const char *overrides)
{
    *x = (loaded){.a = arena_create()};
    x->r = ARENA_NEW(x->a, recipe);
    x->s = ARENA_NEW(x->a, setup);
    recipe_init(x->r, x->a, "test");
    if (name) recipe_set(x->r, K_MODEL, value_of_text(name), "test");
    for (const char *p = overrides; p && *p;) {
        size_t n = strcspn(p, " ");
        if (recipe_override(x->r, arena_copy(x->a, p, n), "test", &x->err))
            fail_msg("%s", x->err.text);
        p += n + strspn(p + n, " ");
    }
    if (model_fill(x->r, &x->err) || setup_init(x->s, x->r, x->a, &x->err))
        fail_msg("%s: %s", name ? name : "custom", x->err.text);
    weight_list_init(&x->w, x->s, x->a);
    x->flat = calloc((size_t)x->w.elements, sizeof *x->flat);
    assert_non_null(x->flat);
}

static inline void loaded_release(loaded *x)
{
    free(x->flat);
    arena_destroy(x->a);
}

static inline void loaded_from(loaded *x, const char *folder, hf_report *report)
{
    hf_report own;
    if (hf_load(&(hf_rank){x->s, NULL, &x->w, x->flat}, folder, report ? report : &own, &x->err))
        fail_msg("%s: %s", folder, x->err.text);
}

static inline void loaded_golden(loaded *x, const char *name, const char *overrides)
{
    char folder[128];
    snprintf(folder, sizeof folder, GOLDEN "%s", name);
    loaded_init(x, folder, overrides);
    loaded_from(x, folder, NULL);
}

static inline void same_flats(const loaded *x, const loaded *y)
{
    assert_int_equal(x->w.elements, y->w.elements);
    assert_memory_equal(x->flat, y->flat, (size_t)x->w.elements * sizeof *x->flat);
}

/* A weight by Megatron's name. */
static inline const float *ours(const loaded *x, int64_t layer, const char *name)
{
    for (int i = 0; i < x->w.n; i++) {
        const weight *w = &x->w.list[i];
        if (w->layer == layer && strcmp(w->row->name, name) == 0) return x->flat + w->offset;
    }
    fail_msg("no weight %s", name);
    return NULL;
}

static inline void same_rows(const float *x, const float *y, int64_t n)
{
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
}

/* Elements that files have. */
static inline int64_t loaded_elements(const loaded *x)
{
    int64_t n = 0;
    for (int i = 0; i < x->w.n; i++) n += x->w.list[i].n - hf_padding(&x->s->m, &x->w.list[i]);
    return n;
}

/* ---- safetensors by hand */

typedef struct made_file {
    arena *a;
    textbuf header, data;
} made_file;

static inline made_file made_file_init(arena *a)
{
    made_file f = {a, text_init(a), text_init(a)};
    return f;
}

static inline void made_add(made_file *f, const char *name, const char *type, const char *shape,
                            const void *bytes, size_t n)
{
    text_add(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
             f->header.n ? "," : "{", name, type, shape, f->data.n, f->data.n + n);
    text_put(&f->data, bytes, n);
}

static inline void made_write(made_file *f, const char *path)
{
    textbuf out = text_init(f->a);
    uint64_t length = f->header.n + 1;
    text_put(&out, (const char *)&length, sizeof length);
    text_put(&out, f->header.s, f->header.n);
    text_add(&out, "}");
    text_put(&out, f->data.s, f->data.n);
    put_file(path, out.s, out.n);
}

/* ---- files that are there */

typedef struct opened {
    safetensors f;
    char *bytes;
} opened;

static inline opened open_file(arena *a, const char *path)
{
    opened o;
    size_t n;
    error err;
    if (safetensors_open(&o.f, a, path, &err)) fail_msg("%s", err.text);
    o.bytes = get_file(a, path, &n);
    return o;
}

static inline const char *shape_of(arena *a, const safetensor *t)
{
    textbuf s = text_init(a);
    for (int i = 0; i < t->n_dims; i++) text_add(&s, i ? ",%" PRId64 : "%" PRId64, t->dim[i]);
    return s.s;
}

static inline const void *tensor_bytes(const opened *o, const safetensor *t)
{
    return o->bytes + o->f.data + t->begin;
}

static inline const float *tensor_named(const opened *o, const char *name)
{
    const safetensor *t = safetensors_find(&o->f, name);
    if (!t) fail_msg("no tensor %s", name);
    return (const float *)tensor_bytes(o, t);
}

/* Copies a tensor of another file. */
static inline void made_copy(made_file *f, const opened *o, const safetensor *t, const char *name)
{
    made_add(f, name, t->dtype, shape_of(f->a, t), tensor_bytes(o, t), (size_t)(t->end - t->begin));
}

/* A folder with this case's config.json, some fields replaced, and no weights yet. */
static inline const char *folder_with_config(arena *a, const char *name, const char *patch)
{
    const char *folder = scratch_make(a), *text = patched(a, name, patch);
    put_file(arena_text(a, "%s/config.json", folder), text, strlen(text));
    return folder;
}

static inline const char *weights_path(arena *a, const char *folder)
{
    return arena_text(a, "%s/model.safetensors", folder);
}

#endif
