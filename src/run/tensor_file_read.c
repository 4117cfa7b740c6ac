/* tensor_file_read.c - boxes of our checkpoint files, and their data.
 *
 * I1  A box lies inside its weight, and no product of its sizes leaves 64 bits.
 * I2  What is copied has been added to the checksum; a box whose checksum differs is refused by the
 *     name of its weight. */
#include "run/tensor_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/maths.h"

enum { CHUNK_ELEMENTS = 1 << 18, FLOAT_BYTES = 4 };

static status damaged(error *err, const char *path, const char *tensor, const char *what)
{
    return error_set(err, ERR_INPUT,
                     "%s: tensor '%.200s' %s; the file is damaged or not a checkpoint of ours",
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

static bool is_inside(const tensor_box *b) /* I1 */
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
        return damaged(err, path, t->name, "has no note of its place and checksum");
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

static status read_header_sum(tensor_boxes *b, const char *path, int64_t n, error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = malloc((size_t)n);
    struct stat info;
    status s =
        fd >= 0 && bytes && !fstat(fd, &info) ? read_exactly(fd, bytes, (size_t)n, 0) : ERR_INPUT;
    if (!s) {
        b->file_bytes = (int64_t)info.st_size;
        b->header_sum = sum_of(bytes, (size_t)n);
    }
    free(bytes);
    if (fd >= 0) close(fd);
    return s ? error_set(err, s, "%s: its header cannot be read", path) : OK;
}

status tensor_boxes_read(tensor_boxes *b, arena *a, const char *path, error *err)
{
    safetensors f;
    status s = safetensors_open(&f, a, path, err);
    if (s) return s;
    tensor_boxes made = {.list = ARENA_ARRAY(a, tensor_box, f.n_tensors), .n = f.n_tensors};
    for (int i = 0; i < f.n_tensors && !s; i++) {
        s = read_box(&made.list[i], a, path, &f.tensors[i], err);
        made.list[i].place = f.data + f.tensors[i].begin;
    }
    if (!s) s = read_header_sum(&made, path, f.data, err);
    if (!s) *b = made;
    return s;
}

bool tensor_boxes_overlap(const tensor_box *a, const tensor_box *b)
{
    for (int i = 0; i < a->n_dims; i++)
        if (a->at[i] + a->dim[i] <= b->at[i] || b->at[i] + b->dim[i] <= a->at[i]) return false;
    return a->n > 0 && b->n > 0;
}

/* ---- data */

/* Elements of the box that are neighbours in the weight too. */
static int64_t run_length(const tensor_box *b)
{
    int64_t n = 1;
    for (int i = b->n_dims - 1; i >= 0; i--) {
        n *= b->dim[i];
        if (b->dim[i] != b->of[i]) break;
    }
    return n;
}

/* Where element i of the box is in the weight. */
static int64_t place_in_weight(const tensor_box *b, int64_t i)
{
    int64_t place = 0, step = 1;
    for (int k = b->n_dims - 1; k >= 0; k--) {
        place += (b->at[k] + i % b->dim[k]) * step;
        i /= b->dim[k];
        step *= b->of[k];
    }
    return place;
}

/* Copies the box's elements [first, first + n). The weight may end before them. */
static void place_chunk(const tensor_box *b, const float *chunk, int64_t first, int64_t n,
                        float *target, int64_t n_target)
{
    int64_t run = run_length(b);
    for (int64_t i = first; i < first + n;) {
        int64_t count = run - i % run, to = place_in_weight(b, i);
        if (count > first + n - i) count = first + n - i;
        int64_t fits = n_target - to < count ? n_target - to : count;
        if (fits > 0) memcpy(target + to, chunk + (i - first), (size_t)fits * FLOAT_BYTES);
        i += count;
    }
}

static status stream(const tensor_box *b, int fd, float *chunk, float *target, int64_t n_target,
                     error *err)
{
    sum64 sum;
    sum_init(&sum);
    for (int64_t i = 0; i < b->n; i += CHUNK_ELEMENTS) {
        int64_t n = b->n - i < CHUNK_ELEMENTS ? b->n - i : CHUNK_ELEMENTS;
        size_t bytes = (size_t)n * FLOAT_BYTES;
        if (read_exactly(fd, chunk, bytes, b->place + i * FLOAT_BYTES))
            return damaged(err, b->path, b->weight, "cannot be read to its end");
        sum_add(&sum, chunk, bytes);
        if (target) place_chunk(b, chunk, i, n, target, n_target);
    }
    if (sum_value(&sum) == b->sum) return OK; /* I2 */
    return damaged(err, b->path, b->weight, "does not have its checksum");
}

status tensor_box_load(const tensor_box *b, float *target, int64_t n, error *err)
{
    int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(err, ERR_INPUT, "%s: %s", b->path, strerror(errno));
    int64_t room = b->n < CHUNK_ELEMENTS ? b->n : CHUNK_ELEMENTS;
    float *chunk = malloc((size_t)(room ? room : 1) * FLOAT_BYTES);
    status s = chunk ? stream(b, fd, chunk, target, n, err)
                     : error_set(err, ERR_MACHINE, "%s: no memory to read it", b->path);
    free(chunk);
    close(fd);
    return s;
}
