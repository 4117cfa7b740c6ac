/* checkpoint_save.c - writing a checkpoint.
 *
 * I1  metadata.json is written last: it describes files that are complete. */
#include <inttypes.h>
#include <string.h>

#include "recipe/export.h"
#include "run/checkpoint.h"
#include "run/checkpoint_folder.h"
#include "run/checkpoint_kinds.h"
#include "run/checkpoint_meta.h"
#include "run/tensor_file.h"
#include "run/tensor_file_disk.h"

typedef struct saving {
    const checkpoint *c;
    arena *a;
    const char *path; /* of the folder on its way */
    error *err;
} saving;

/* ---- tensors */

static int list_specs(const saving *v, const checkpoint_kind *k, tensor_spec *specs)
{
    static const int64_t start[PARAM_DIMS_MAX];
    int n = 0;
    for (int i = 0; i < v->c->w->n; i++) {
        const weight *w = &v->c->w->list[i];
        if (!checkpoint_kind_has(k, w)) continue;
        tensor_spec *t = &specs[n++];
        t->name = weight_name(v->a, v->c->s, w);
        t->dtype = "F32";
        t->n_dims = w->row->n_dims;
        memcpy(t->dim, w->row->dim, sizeof *t->dim * (size_t)t->n_dims);
        t->of = w->row->dim;
        t->at = start;
    }
    return n;
}

static status put_weights(const saving *v, const checkpoint_kind *k, tensor_writer *out)
{
    status s = OK;
    for (int i = 0; i < v->c->w->n && !s; i++) {
        const weight *w = &v->c->w->list[i];
        if (!checkpoint_kind_has(k, w)) continue;
        s = tensor_writer_put(out, k->values + w->offset, (size_t)w->n * sizeof *k->values, v->err);
    }
    return s;
}

static status write_file(const saving *v, const checkpoint_kind *k, checkpoint_file *f)
{
    tensor_spec *specs = ARENA_ARRAY(v->a, tensor_spec, v->c->w->n);
    tensor_writer out = {.format = "moefold", .specs = specs, .fd = -1};
    *f = (checkpoint_file){.name = arena_text(v->a, "%s-00000-of-00001.safetensors", k->name),
                           .kind = k->name};
    out.path = arena_text(v->a, "%s/%s", v->path, f->name);
    out.n_specs = list_specs(v, k, specs);
    status s = tensor_writer_open(&out, v->a, v->err);
    if (!s) s = put_weights(v, k, &out);
    if (!s) s = tensor_writer_close(&out, v->a, v->err);
    tensor_writer_abandon(&out);
    f->bytes = (int64_t)out.header_bytes + out.written;
    f->header_sum = out.header_sum;
    return s;
}

/* ---- metadata */

static const char *recipe_text(const saving *v)
{
    textbuf t = text_init(v->a);
    export_yaml(&v->c->s->r, true, &t);
    return t.s;
}

static status write_meta(const saving *v, const checkpoint_file *files, int n_files)
{
    checkpoint_info info = {.state = v->c->state,
                            .recipe = recipe_text(v),
                            .model = v->c->s->m.name,
                            .fingerprint = checkpoint_fingerprint(v->c->s, v->c->w),
                            .config = v->c->config,
                            .files = files,
                            .n_files = n_files};
    json_t *root = checkpoint_meta_make(&info);
    checkpoint_meta_seal(root);
    status s = checkpoint_meta_write(root, v->path, v->err);
    json_decref(root);
    return s;
}

/* ---- all */

static status write_all(const saving *v)
{
    checkpoint_file files[CHECKPOINT_KINDS];
    int n = 0;
    status s = disk_make_folders(v->path, v->err);
    for (int i = 0; i < CHECKPOINT_KINDS && !s; i++) {
        checkpoint_kind k = checkpoint_kind_of(v->c, i);
        if (k.values) s = write_file(v, &k, &files[n++]);
    }
    if (!s) s = write_meta(v, files, n); /* I1 */
    return s ? s : disk_sync_folder(v->path, v->err);
}

status checkpoint_save(const checkpoint *c, const char *folder, int keep, error *err)
{
    status s = disk_make_folders(folder, err);
    if (s) return s;
    checkpoint_clean(folder);
    arena *a = arena_create();
    int64_t iteration = c->state.iteration;
    saving v = {c, a, disk_beside(a, checkpoint_path(a, folder, iteration), "tmp"), err};
    disk_remove(v.path);
    s = write_all(&v);
    if (!s) s = checkpoint_publish(v.path, folder, iteration, err);
    if (s)
        disk_remove(v.path);
    else
        checkpoint_prune(folder, iteration, keep);
    arena_destroy(a);
    return s;
}
