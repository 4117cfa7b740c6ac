/* tensor_file.c - writing safetensors in one pass.
 *
 * I1  The header has the same length before and after the checksums are known, so the data can be
 *     written once and the header again over itself.
 * I2  A tensor's bytes are those between its begin and end, in the order of the specs. */
#include "train/checkpoint/tensor_file.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint/tensor_file_disk.h"

static void put_list(textbuf *t, int n, const int64_t *v)
{
    for (int i = 0; i < n; i++) text_add(t, i ? ",%" PRId64 : "%" PRId64, v[i]);
}

static void put_note(textbuf *t, const tensor_spec *s)
{
    char sum[SUM_TEXT_MAX];
    sum_text(sum, s->sum);
    text_add(t, ",\"%s\":\"of ", s->name);
    put_list(t, s->n_dims, s->of);
    text_add(t, " at ");
    put_list(t, s->n_dims, s->at);
    text_add(t, " xxh64 %s\"", sum);
}

/* As Hugging Face's own library writes it, down to the padding: our exports are their files. Names
 * are ours or of the parameter table, and need no escapes. */
static textbuf header_text(const tensor_writer *w, arena *a)
{
    textbuf t = text_init(a);
    text_put(&t, "\0\0\0\0\0\0\0", 8); /* length */
    text_add(&t, "{\"__metadata__\":{\"format\":\"%s\"", w->format);
    for (int i = 0; i < w->n_specs; i++)
        if (w->specs[i].of) put_note(&t, &w->specs[i]);
    text_add(&t, "}");
    for (int i = 0; i < w->n_specs; i++) {
        const tensor_spec *s = &w->specs[i];
        text_add(&t, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", s->name, s->dtype);
        put_list(&t, s->n_dims, s->dim);
        text_add(&t, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", s->begin, s->end);
    }
    text_add(&t, "}");
    while (t.n % 8) text_add(&t, " ");
    uint64_t length = t.n - 8;
    memcpy(t.s, &length, sizeof length);
    return t;
}

static void place_tensors(tensor_writer *w)
{
    int64_t at = 0;
    for (int i = 0; i < w->n_specs; i++) {
        tensor_spec *s = &w->specs[i];
        int64_t bytes = strcmp(s->dtype, "BF16") == 0 ? 2 : 4;
        for (int k = 0; k < s->n_dims; k++) bytes *= s->dim[k];
        s->begin = at;
        s->end = at += bytes;
        s->sum = 0;
    }
}

static void finish_tensors(tensor_writer *w)
{
    while (w->at < w->n_specs && w->written == w->specs[w->at].end) {
        w->specs[w->at++].sum = sum_value(&w->sum);
        sum_init(&w->sum);
    }
}

status tensor_writer_open(tensor_writer *w, arena *a, error *err)
{
    w->at = 0;
    w->written = 0;
    sum_init(&w->sum);
    place_tensors(w);
    textbuf header = header_text(w, a);
    w->header_bytes = header.n;
    w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return error_set(err, ERR_MACHINE, "%s: cannot be created: %s", w->path, file_why());
    finish_tensors(w); /* a tensor without elements is complete */
    return disk_write(w->fd, w->path, header.s, header.n, err);
}

status tensor_writer_put(tensor_writer *w, const void *bytes, size_t n, error *err)
{
    const char *from = bytes;
    while (n > 0) {
        assert(w->at < w->n_specs); /* I2 */
        int64_t left = w->specs[w->at].end - w->written;
        size_t now = n < (size_t)left ? n : (size_t)left;
        status s = disk_write(w->fd, w->path, from, now, err);
        if (s) return s;
        sum_add(&w->sum, from, now);
        w->written += (int64_t)now;
        from += now;
        n -= now;
        finish_tensors(w);
    }
    return OK;
}

static status rewrite_header(tensor_writer *w, arena *a, error *err)
{
    textbuf header = header_text(w, a);
    assert(header.n == w->header_bytes); /* I1 */
    w->header_sum = sum_of(header.s, header.n);
    if (lseek(w->fd, 0, SEEK_SET) != 0)
        return error_set(err, ERR_MACHINE, "%s: cannot be written: %s", w->path, file_why());
    return disk_write(w->fd, w->path, header.s, header.n, err);
}

status tensor_writer_close(tensor_writer *w, arena *a, error *err)
{
    assert(w->at == w->n_specs); /* I2 */
    status s = rewrite_header(w, a, err);
    if (!s && fsync(w->fd))
        s = error_set(err, ERR_MACHINE, "%s: cannot be synced: %s", w->path, file_why());
    if (close(w->fd) && !s)
        s = error_set(err, ERR_MACHINE, "%s: cannot be written: %s", w->path, file_why());
    w->fd = -1;
    return s;
}

void tensor_writer_abandon(tensor_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
}
