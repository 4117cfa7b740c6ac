/* tensor_file.c - safetensors written in one pass, boxes of our checkpoints read back, checksums.
 *
 * I1  The header has the same length before and after the checksums are known, so the data can be
 *     written once and the header again over itself.
 * I2  A tensor's bytes are those between its begin and end, in the order of the specs.
 * I3  A box lies inside its weight, and no product of its sizes leaves 64 bits.
 * I4  What is copied has been added to the checksum; a box whose checksum differs is refused by the
 *     name of its weight. */
#define XXH_INLINE_ALL
#include "train/checkpoint/tensor_file.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/maths.h"
#include "train/checkpoint/disk.h"

/* ---- checksums: xxHash64 */

_Static_assert(sizeof(XXH64_state_t) <= sizeof(sum64), "room for the library's state");

/* Copies in and out keep to the rules of aliasing; a state is 88 bytes. */
void sum_init(sum64 *s)
{
    XXH64_state_t state;
    memset(s, 0, sizeof *s);
    (void)XXH64_reset(&state, 0);
    memcpy(s, &state, sizeof state);
}

void sum_add(sum64 *s, const void *bytes, size_t n)
{
    XXH64_state_t state;
    memcpy(&state, s, sizeof state);
    (void)XXH64_update(&state, bytes, n);
    memcpy(s, &state, sizeof state);
}

uint64_t sum_value(const sum64 *s)
{
    XXH64_state_t state;
    memcpy(&state, s, sizeof state);
    return XXH64_digest(&state);
}

uint64_t sum_of(const void *bytes, size_t n)
{
    return XXH64(bytes, n, 0);
}

void sum_text(char out[SUM_TEXT_MAX], uint64_t sum)
{
    snprintf(out, SUM_TEXT_MAX, "%016" PRIx64, sum);
}

bool sum_parse(const char *text, uint64_t *sum)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t v = 0;
    for (int i = 0; i < SUM_TEXT_MAX - 1; i++) {
        const char *d = text[i] ? strchr(digits, text[i]) : NULL;
        if (!d) return false;
        v = v << 4 | (uint64_t)(d - digits);
    }
    *sum = v;
    return text[SUM_TEXT_MAX - 1] == 0;
}

/* ---- writing */

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
        TRY(disk_write(w->fd, w->path, from, now, err));
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

/* ---- reading */

enum { CHUNK_ELEMENTS = 1 << 18, FLOAT_BYTES = 4 };

static status damaged(error *err, const char *path, const char *tensor, const char *what)
{
    return error_set(err, ERR_INPUT,
                     "%s: tensor '%.200s' %s; the file is damaged or not a checkpoint of moefold",
                     path, tensor, what);
}

/* ---- notes */

/* "1,2,3" into n numbers; returns what follows, or NULL. */
static const char *read_list(const char *s, int n, int64_t *out)
{
    for (int i = 0; i < n; i++) {
        char *end;
        if (i && *s++ != ',') return NULL;
        if (!isdigit((unsigned char)*s)) return NULL;
        errno = 0;
        out[i] = strtoll(s, &end, 10);
        if (errno) return NULL;
        s = end;
    }
    return s;
}

static const char *after(const char *s, const char *word)
{
    return s && text_starts(s, word) ? s + strlen(word) : NULL;
}

static bool read_note(const char *note, tensor_box *b)
{
    const char *s = after(note, "of ");
    if (s) s = read_list(s, b->n_dims, b->of);
    s = after(s, " at ");
    if (s) s = read_list(s, b->n_dims, b->at);
    s = after(s, " xxh64 ");
    return s && sum_parse(s, &b->sum);
}

static bool is_inside(const tensor_box *b) /* I3 */
{
    int64_t whole = 1;
    for (int i = 0; i < b->n_dims; i++) {
        if (b->dim[i] > b->of[i] || b->at[i] > b->of[i] - b->dim[i]) return false;
        whole = mul_sat(whole, b->of[i]);
    }
    return whole < SIZE_HUGE;
}

/* ---- the index */

static status read_box(tensor_box *b, arena *a, const char *path, const safetensor *t, error *err)
{
    if (strcmp(t->dtype, "F32") != 0 || t->n_dims < 1 || t->n_dims > PARAM_DIMS_MAX)
        return damaged(err, path, t->name, "has another type or shape than a weight has");
    b->weight = arena_copy(a, t->name, strcspn(t->name, "["));
    b->path = path;
    b->n_dims = t->n_dims;
    for (int i = 0; i < t->n_dims; i++) b->dim[i] = t->dim[i];
    b->n = safetensor_elements(t);
    if (!t->note || !read_note(t->note, b))
        return damaged(err, path, t->name, "has no record of its offset and checksum");
    return is_inside(b) ? OK : damaged(err, path, t->name, "lies outside its weight");
}

static status read_exactly(int fd, void *out, size_t n, int64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)out + done, n - done, at + (int64_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return ERR_INPUT;
        done += (size_t)got;
    }
    return OK;
}

/* The bytes before the data: eight with a length, and so many more. -1: that cannot be. */
static int64_t header_bytes(int fd, int64_t file_bytes)
{
    uint64_t length;
    if (file_bytes < 8 || read_exactly(fd, &length, sizeof length, 0)) return -1;
    return length <= (uint64_t)file_bytes - 8 ? (int64_t)length + 8 : -1;
}

static status sum_header(int fd, int64_t *file_bytes, uint64_t *sum)
{
    struct stat info;
    if (fstat(fd, &info)) return ERR_INPUT;
    *file_bytes = (int64_t)info.st_size;
    int64_t n = header_bytes(fd, *file_bytes);
    char *bytes = n > 0 ? malloc((size_t)n) : NULL;
    status s = bytes ? read_exactly(fd, bytes, (size_t)n, 0) : ERR_INPUT;
    if (!s) *sum = sum_of(bytes, (size_t)n);
    free(bytes);
    return s;
}

status tensor_file_header(const char *path, int64_t *bytes, uint64_t *sum, error *err)
{
    int fd;
    status s = file_open(path, &fd, err);
    if (s) return s;
    s = sum_header(fd, bytes, sum);
    close(fd);
    return s ? error_set(err, s, "%s: its header cannot be read", path) : OK;
}

status tensor_boxes_read(tensor_boxes *b, arena *a, const char *path, error *err)
{
    safetensors f;
    TRY(safetensors_open(&f, a, path, err));
    tensor_boxes made = {.list = ARENA_ARRAY(a, tensor_box, f.n_tensors), .n = f.n_tensors};
    for (int i = 0; i < f.n_tensors; i++) {
        TRY(read_box(&made.list[i], a, path, &f.tensors[i], err));
        made.list[i].place = f.data + f.tensors[i].begin;
    }
    TRY(tensor_file_header(path, &made.file_bytes, &made.header_sum, err));
    *b = made;
    return OK;
}

bool tensor_boxes_overlap(const tensor_box *a, const tensor_box *b)
{
    for (int i = 0; i < a->n_dims; i++)
        if (a->at[i] + a->dim[i] <= b->at[i] || b->at[i] + b->dim[i] <= a->at[i]) return false;
    return a->n > 0 && b->n > 0;
}

/* ---- data */

bool tensor_box_meets(const tensor_box *b, const tensor_target *t)
{
    for (int i = 0; i < b->n_dims; i++)
        if (b->at[i] + b->dim[i] <= t->at[i] || t->at[i] + t->dim[i] <= b->at[i]) return false;
    return b->n > 0;
}

/* A run of elements along the last dimension: the first's place in the weight, and how many. */
typedef struct row_run {
    int64_t at[PARAM_DIMS_MAX];
    int64_t n;
} row_run;

static row_run row_at(const tensor_box *b, int64_t i)
{
    int last = b->n_dims - 1;
    row_run r = {.n = b->dim[last] - i % b->dim[last]};
    for (int k = last; k >= 0; k--) {
        r.at[k] = b->at[k] + i % b->dim[k];
        i /= b->dim[k];
    }
    return r;
}

/* Copies what the target wants of a run. */
static void place_row(const tensor_target *t, int n_dims, const row_run *r, const float *from)
{
    int last = n_dims - 1;
    int64_t place = 0;
    for (int k = 0; k < last; k++) {
        if (r->at[k] < t->at[k] || r->at[k] >= t->at[k] + t->dim[k]) return;
        place = (place + t->to[k] + r->at[k] - t->at[k]) * t->span[k + 1];
    }
    int64_t lo = r->at[last], hi = lo + r->n, end = t->at[last] + t->dim[last];
    if (lo < t->at[last]) lo = t->at[last];
    if (hi > end) hi = end;
    if (lo >= hi) return;
    place += t->to[last] + lo - t->at[last];
    memcpy(t->values + t->base + place, from + (lo - r->at[last]), (size_t)(hi - lo) * FLOAT_BYTES);
}

typedef struct reading {
    const tensor_box *b;
    const tensor_target *targets;
    int n_targets, fd;
    float *chunk; /* [CHUNK_ELEMENTS] */
} reading;

/* Copies the box's elements [first, first + n). */
static void place_chunk(const reading *g, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        row_run r = row_at(g->b, first + i);
        if (r.n > n - i) r.n = n - i;
        for (int k = 0; k < g->n_targets; k++)
            place_row(&g->targets[k], g->b->n_dims, &r, g->chunk + i);
        i += r.n;
    }
}

static status stream(const reading *g, error *err)
{
    const tensor_box *b = g->b;
    sum64 sum;
    sum_init(&sum);
    for (int64_t i = 0; i < b->n; i += CHUNK_ELEMENTS) {
        int64_t n = b->n - i < CHUNK_ELEMENTS ? b->n - i : CHUNK_ELEMENTS;
        size_t bytes = (size_t)n * FLOAT_BYTES;
        if (read_exactly(g->fd, g->chunk, bytes, b->place + i * FLOAT_BYTES))
            return damaged(err, b->path, b->weight, "cannot be read to its end");
        sum_add(&sum, g->chunk, bytes);
        place_chunk(g, i, n);
    }
    if (sum_value(&sum) == b->sum) return OK; /* I4 */
    return damaged(err, b->path, b->weight, "has a wrong checksum");
}

status tensor_box_load(const tensor_box *b, const tensor_target *targets, int n, error *err)
{
    reading g = {.b = b, .targets = targets, .n_targets = n};
    status s = file_open(b->path, &g.fd, err);
    if (s) return s;
    int64_t room = b->n < CHUNK_ELEMENTS ? b->n : CHUNK_ELEMENTS;
    g.chunk = malloc((size_t)(room ? room : 1) * FLOAT_BYTES);
    s = g.chunk ? stream(&g, err)
                : error_set(err, ERR_MACHINE, "%s: no memory to read it", b->path);
    free(g.chunk);
    close(g.fd);
    return s;
}
