/* save.c - writing a Hugging Face folder.
 *
 * I1  Tensors stand in the order that Hugging Face's own library gives them: wide types first, then
 *     by name. A file of ours and one of theirs with the same weights are the same bytes.
 * I2  Nothing of the model is copied but one window at a time. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/status.h"
#include "train/checkpoint/owner.h"
#include "train/checkpoint/tensor_file.h"
#include "train/checkpoint/disk.h"
#include "train/hf/weights.h"

enum { WINDOW = 1 << 16 };
#define SHARD_BYTES INT64_C(5000000000)

typedef struct saving {
    hf_flat flat;
    const hf_options *o;
    arena *a;
    const char *folder; /* where it is written, before it has its name */
    hf_part *parts;     /* [n_parts], by I1 */
    int n_parts;
    int *first; /* [n_shards + 1] parts of each file */
    int n_shards;
    float *window;    /* [WINDOW] */
    uint16_t *narrow; /* [WINDOW] the same in BF16 */
    arena *names;     /* of the caller, for what it is told */
    const char *const *carried;
    int n_carried;
    error *err;
} saving;

static bool is_wide(const saving *v, const hf_part *p)
{
    return !v->o->bf16 || !p->w->row->trained;
}

static int64_t part_bytes(const saving *v, const hf_part *p)
{
    return p->elements * (is_wide(v, p) ? 4 : 2);
}

/* ---- what goes where */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hf_part *)a)->name, ((const hf_part *)b)->name);
}

/* Wide ones first where there are two widths: those not trained come first already. */
static int by_width_and_name(const void *a, const void *b)
{
    bool x = ((const hf_part *)a)->w->row->trained, y = ((const hf_part *)b)->w->row->trained;
    return x != y ? x - y : by_name(a, b);
}

static void list_parts(saving *v)
{
    int64_t n = 0;
    for (int i = 0; i < v->flat.w->n; i++) n += hf_parts(&v->flat.w->list[i], HF_PUBLIC);
    v->parts = ARENA_ARRAY(v->a, hf_part, n);
    hf_walk walk = {.s = v->flat.s, .w = v->flat.w};
    while (v->n_parts < n && hf_walk_next(&walk, &v->parts[v->n_parts], v->a)) v->n_parts++;
    if (n) qsort(v->parts, (size_t)n, sizeof *v->parts, v->o->bf16 ? by_width_and_name : by_name);
}

static status check_twice(const saving *v)
{
    for (int i = 1; i < v->n_parts; i++)
        if (strcmp(v->parts[i].name, v->parts[i - 1].name) == 0)
            return error_set(v->err, ERR_INPUT,
                             "tensor '%s' would be written twice; files of this family hold one "
                             "prediction module: set %s=1",
                             v->parts[i].name, knobs[K_MTP].key);
    return OK;
}

static void cut_shards(saving *v)
{
    int64_t limit = v->o->shard_bytes > 0 ? v->o->shard_bytes : SHARD_BYTES, bytes = 0;
    v->first = ARENA_ARRAY(v->a, int, v->n_parts + 2);
    v->n_shards = 1;
    for (int i = 0; i < v->n_parts; i++) {
        int64_t here = part_bytes(v, &v->parts[i]);
        if (bytes > 0 && here > limit - bytes) {
            v->first[v->n_shards++] = i;
            bytes = 0;
        }
        bytes += here;
    }
    v->first[v->n_shards] = v->n_parts;
}

static const char *shard_name(const saving *v, int shard)
{
    if (v->n_shards == 1) return "model.safetensors";
    return arena_text(v->a, "model-%05d-of-%05d.safetensors", shard + 1, v->n_shards);
}

/* ---- files that go with a model and say nothing of its weights: the tokenizer's, the
 * generation's, chat templates, Python code that config.json or the tokenizer names */

enum { FILE_BYTES_MAX = 1 << 29, FILES_MAX = 64 };

static const char *const patterns[] = {
    "tokenizer*",
    "tokenization_*.py",
    "tekken.json",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "*.tiktoken",
    "*.model",
    "added_tokens.json",
    "chat_template*",
    "spiece.*",
    "configuration_*.py",
    "generation_config.json",
    "modeling_*.py",
};

/* Plain files only: nothing else ends. */
static bool is_carried(const char *path, const char *name)
{
    struct stat info;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return stat(path, &info) == 0 && S_ISREG(info.st_mode);
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static status list_files(arena *a, const char *from, const char **list, int *n, error *err)
{
    DIR *d = opendir(from);
    if (!d)
        return error_set(err, ERR_INPUT,
                         "%s: cannot be read: %s; it is where tokenizer files are "
                         "copied from",
                         from, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) && *n < FILES_MAX;)
        if (is_carried(arena_text(a, "%s/%s", from, e->d_name), e->d_name))
            list[(*n)++] = arena_copy(a, e->d_name, strlen(e->d_name));
    closedir(d);
    if (*n) qsort(list, (size_t)*n, sizeof *list, by_text);
    return OK;
}

/* Copies those of folder `from` into folder `to`, which has none of them yet; links are followed.
 * *names is what was copied, by name, from `a`. */
static status carry_files(arena *a, const char *from, const char *to, const char *const **names,
                          int *n, error *err)
{
    const char **list = ARENA_ARRAY(a, const char *, FILES_MAX);
    int n_files = 0;
    status s = list_files(a, from, list, &n_files, err);
    for (int i = 0; i < n_files && !s; i++) {
        arena *copy = arena_create();
        char *data;
        size_t size;
        s = file_read(copy, arena_text(a, "%s/%s", from, list[i]), FILE_BYTES_MAX, &data, &size,
                      err);
        if (!s) s = disk_create(arena_text(a, "%s/%s", to, list[i]), data, size, err);
        arena_destroy(copy);
    }
    *names = list;
    *n = n_files;
    return s;
}

/* ---- writing */

static status put_window(const saving *v, tensor_writer *out, int64_t n, bool wide)
{
    if (wide) return tensor_writer_put(out, v->window, (size_t)n * 4, v->err);
    bf16_of_floats(v->narrow, v->window, n);
    return tensor_writer_put(out, v->narrow, (size_t)n * 2, v->err);
}

static status put_part(const saving *v, tensor_writer *out, const hf_part *p) /* I2 */
{
    status s = OK;
    for (int64_t lo = 0; lo < p->elements && !s; lo += WINDOW) {
        int64_t hi = p->elements - lo < WINDOW ? p->elements : lo + WINDOW;
        hf_gather(&v->flat, p, lo, hi, v->window);
        s = put_window(v, out, hi - lo, is_wide(v, p));
    }
    return s;
}

static status write_shard(const saving *v, int shard)
{
    int first = v->first[shard], n = v->first[shard + 1] - first;
    tensor_writer out = {.format = "pt", .n_specs = n, .fd = -1};
    out.path = arena_text(v->a, "%s/%s", v->folder, shard_name(v, shard));
    out.specs = ARENA_ARRAY(v->a, tensor_spec, n);
    for (int i = 0; i < n; i++) {
        const hf_part *p = &v->parts[first + i];
        tensor_spec *t = &out.specs[i];
        t->name = p->name;
        t->dtype = is_wide(v, p) ? "F32" : "BF16";
        t->n_dims = p->n_dims;
        memcpy(t->dim, p->dim, sizeof *p->dim * (size_t)p->n_dims);
    }
    status s = tensor_writer_open(&out, v->a, v->err);
    for (int i = 0; i < n && !s; i++) s = put_part(v, &out, &v->parts[first + i]);
    if (!s) s = tensor_writer_close(&out, v->a, v->err);
    tensor_writer_abandon(&out);
    return s;
}

static status write_index(const saving *v)
{
    int64_t bytes = 0;
    for (int i = 0; i < v->n_parts; i++) bytes += part_bytes(v, &v->parts[i]);
    textbuf t = text_init(v->a);
    text_add(&t, "{\n  \"metadata\": {\n    \"total_size\": %" PRId64 "\n  },\n", bytes);
    text_add(&t, "  \"weight_map\": {\n");
    for (int k = 0; k < v->n_shards; k++) {
        const char *file = shard_name(v, k);
        for (int i = v->first[k]; i < v->first[k + 1]; i++)
            text_add(&t, "    \"%s\": \"%s\"%s\n", v->parts[i].name, file,
                     i + 1 < v->n_parts ? "," : "");
    }
    text_add(&t, "  }\n}\n");
    const char *path = arena_text(v->a, "%s/model.safetensors.index.json", v->folder);
    return disk_create(path, t.s, t.n, v->err);
}

/* What stands beside the weights. */
static status write_others(saving *v)
{
    const char *path = arena_text(v->a, "%s/config.json", v->folder), *text = v->o->config;
    if (text) TRY(disk_create(path, text, strlen(text), v->err));
    if (!v->o->beside) return OK;
    return carry_files(v->names, v->o->beside, v->folder, &v->carried, &v->n_carried, v->err);
}

static status write_all(saving *v)
{
    for (int k = 0; k < v->n_shards; k++) TRY(write_shard(v, k));
    if (v->n_shards > 1) TRY(write_index(v));
    TRY(write_others(v));
    return disk_sync_folder(v->folder, v->err);
}

/* ---- the folder */

static bool is_free(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d) return !file_exists(folder);
    int n = 0;
    while (n < 3 && readdir(d)) n++;
    closedir(d);
    return n < 3; /* "." and ".." */
}

static status write_beside(saving *v, const char *folder)
{
    const char *bare = owner_beside(v->a, folder, "tmp", HELD_ALONE);
    const char *above = file_folder(v->a, bare);
    v->folder = bare;
    if (*above) TRY(disk_make_folders(above, v->err));
    TRY(disk_make_new_folder(v->folder, v->err));
    status s = write_all(v);
    if (!s) s = disk_rename(v->folder, folder, v->err);
    if (s) disk_remove(v->folder);
    return s;
}

static void tell(const saving *v)
{
    hf_saved *out = v->o->saved;
    if (!out) return;
    *out = (hf_saved){.n_files = v->n_shards,
                      .n_tensors = v->n_parts,
                      .carried = v->carried,
                      .n_carried = v->n_carried};
    for (int i = 0; i < v->n_parts; i++) {
        out->elements += v->parts[i].elements;
        out->bytes += part_bytes(v, &v->parts[i]);
    }
}

status hf_save(const setup *s, const weight_list *w, const float *weights, const char *folder,
               const hf_options *o, error *err)
{
    status st = hf_check(s, w, err);
    if (st) return st;
    if (!is_free(folder))
        return error_set(err, ERR_INPUT, "%s: is there already; name a new folder or remove it",
                         folder);
    arena *a = arena_create();
    saving v = {.flat = {s, w, weights, false}, .o = o, .a = a, .names = s->r.a, .err = err};
    v.window = ARENA_ARRAY(a, float, WINDOW);
    v.narrow = ARENA_ARRAY(a, uint16_t, WINDOW);
    list_parts(&v);
    cut_shards(&v);
    st = check_twice(&v);
    if (!st) st = write_beside(&v, folder);
    if (!st) tell(&v);
    arena_destroy(a);
    return st;
}
