/* write.c - boxes of a rank's arrays into its tensor files.
 *
 * I1  Values pass box after box, each row-major: copy, file and specs have one order. */
#include "train/checkpoint/write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ELEMENTS = 1 << 18 };

/* ---- planning */

/* The weight's name, followed by the place where the box is not all of it. */
static const char *box_name(arena *a, const setup *s, const weight *w, const weight_box *b)
{
    const param *row = w->row;
    const char *name = weight_name(a, s, w);
    if (memcmp(b->dim, row->dim, sizeof *b->dim * (size_t)row->n_dims) == 0) return name;
    textbuf t = text_init(a);
    text_add(&t, "%s[", name);
    for (int i = 0; i < row->n_dims; i++) text_add(&t, i ? ",%" PRId64 : "%" PRId64, b->at[i]);
    text_add(&t, "]");
    return t.s;
}

static void add_box(written_file *f, const checkpoint *c, const written_box *from, arena *a)
{
    written_box *b = &f->boxes[f->n];
    *b = *from;
    const param *row = b->w->row;
    tensor_spec *t = &f->specs[f->n++];
    *t = (tensor_spec){.name = box_name(a, c->s, b->w, &b->box),
                       .dtype = "F32",
                       .n_dims = row->n_dims,
                       .of = row->dim,
                       .at = b->box.at};
    memcpy(t->dim, b->box.dim, sizeof *t->dim * (size_t)row->n_dims);
    f->elements += box_elements(b->w, &b->box);
}

void checkpoint_file_plan(written_file *f, const checkpoint *c, checkpoint_kind k, arena *a)
{
    checkpoint_pieces p;
    int n = 0;
    *f = (written_file){.kind = k};
    for (int i = 0; i < c->w->n; i++) {
        checkpoint_pieces_written(&p, c, &k, &c->w->list[i]);
        n += p.n;
    }
    f->boxes = ARENA_ARRAY(a, written_box, n);
    f->specs = ARENA_ARRAY(a, tensor_spec, n);
    for (int i = 0; i < c->w->n; i++) {
        checkpoint_pieces_written(&p, c, &k, &c->w->list[i]);
        for (int j = 0; j < p.n; j++)
            add_box(f, c, &(written_box){&c->w->list[i], p.box[j], p.base}, a);
    }
}

/* ---- values */

/* Elements [first, first + n) of a box, in its order, from the array. */
static void take(const written_box *b, const float *values, int64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n;) {
        box_run r = box_run_at(b->w, &b->box, first + i);
        int64_t count = r.n < n - i ? r.n : n - i;
        memcpy(out + i, values + b->base + r.part, (size_t)count * sizeof *out);
        i += count;
    }
}

status checkpoint_file_copy(written_file *f, error *err)
{
    f->copy = malloc((size_t)(f->elements ? f->elements : 1) * sizeof *f->copy);
    if (!f->copy)
        return error_set(err, ERR_MACHINE,
                         "no memory for a copy of %" PRId64
                         " elements of %s; repair: %s=false saves without a copy",
                         f->elements, f->kind.name, knobs[K_ASYNC_SAVE].key);
    float *to = f->copy;
    for (int i = 0; i < f->n; i++) { /* I1 */
        int64_t n = box_elements(f->boxes[i].w, &f->boxes[i].box);
        take(&f->boxes[i], f->kind.values, 0, n, to);
        to += n;
    }
    return OK;
}

static status put_box(const written_file *f, const written_box *b, tensor_writer *out, float *chunk,
                      error *err)
{
    int64_t n = box_elements(b->w, &b->box);
    status s = OK;
    for (int64_t i = 0; i < n && !s; i += CHUNK_ELEMENTS) {
        int64_t count = n - i < CHUNK_ELEMENTS ? n - i : CHUNK_ELEMENTS;
        take(b, f->kind.values, i, count, chunk);
        s = tensor_writer_put(out, chunk, (size_t)count * sizeof *chunk, err);
    }
    return s;
}

static status put_values(const written_file *f, tensor_writer *out, error *err)
{
    if (f->copy) return tensor_writer_put(out, f->copy, (size_t)f->elements * sizeof *f->copy, err);
    float *chunk = malloc(CHUNK_ELEMENTS * sizeof *chunk);
    status s = chunk ? OK : error_set(err, ERR_MACHINE, "%s: no memory to write it", out->path);
    for (int i = 0; i < f->n && !s; i++) s = put_box(f, &f->boxes[i], out, chunk, err);
    free(chunk);
    return s;
}

const char *checkpoint_file_name(arena *a, const char *kind, int64_t rank, int64_t world)
{
    return arena_text(a, "%s-%05" PRId64 "-of-%05" PRId64 ".safetensors", kind, rank, world);
}

status checkpoint_file_write(written_file *f, const char *path, arena *a, error *err)
{
    tensor_writer out = {
        .format = "moefold", .path = path, .specs = f->specs, .n_specs = f->n, .fd = -1};
    if (f->n == 0) return OK;
    status s = tensor_writer_open(&out, a, err);
    if (!s) s = put_values(f, &out, err);
    if (!s) s = tensor_writer_close(&out, a, err);
    tensor_writer_abandon(&out);
    f->bytes = (int64_t)out.header_bytes + out.written;
    f->header_sum = out.header_sum;
    return s;
}
