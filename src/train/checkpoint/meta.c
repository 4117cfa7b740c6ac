/* meta.c - metadata.json: made, sealed, written, read.
 *
 * I1  What is read has its checksum, so a field that is missing or of the wrong type means another
 *     version or another program, and is refused by name.
 * I2  So is a number that no run can have reached, though its checksum is right: steps are counted
 *     on from it, and what is negative or near the end of 64 bits would overflow there. */
#define _GNU_SOURCE /* memmem */
#include "train/checkpoint/meta.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/checkpoint/disk.h"
#include "train/checkpoint/tensor_file.h"

enum { VERSION = 1, CONFIG_BYTES_MAX = 1 << 20, FILES_MAX = 1 << 24, META_BYTES_MAX = 1 << 30 };

#define FORMAT "moefold checkpoint"

/* Samples of the longest run that is accepted (2^53), and so of everything that is counted. */
#define COUNT_MAX (INT64_C(1) << 53)

/* Of the state; not in checkpoints of runs whose routed buffers never grew. */
#define BUFFER_FACTOR "moe_buffer_factor"

/* Of the state; where the best checkpoint is kept. */
#define BEST      "best_iteration"
#define BEST_LOSS "best_validation_loss"

/* ---- making */

static json_t *sum_json(uint64_t sum)
{
    char text[SUM_TEXT_MAX];
    sum_text(text, sum);
    return json_string(text);
}

/* A path in a recipe may be no UTF-8, which JSON cannot hold: then only ASCII is kept. */
static json_t *text_json(const char *text)
{
    json_t *whole = json_string(text);
    if (whole) return whole;
    arena *a = arena_create();
    char *copy = arena_copy(a, text, strlen(text));
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p > 127) *p = '?';
    whole = json_string(copy);
    arena_destroy(a);
    return whole;
}

static json_t *state_json(const checkpoint_state *s)
{
    json_t *o = json_object();
#define PUT(name) json_object_set_new(o, #name, json_integer(s->name));
    CHECKPOINT_COUNTERS(PUT)
#undef PUT
    if (s->best > 0) {
        json_object_set_new(o, BEST, json_integer(s->best));
        json_object_set_new(o, BEST_LOSS, json_real(s->best_loss));
    }
    if (s->buffer_factor > 0) json_object_set_new(o, BUFFER_FACTOR, json_real(s->buffer_factor));
    return o;
}

static json_t *files_json(const checkpoint_info *info)
{
    json_t *list = json_array();
    for (int i = 0; i < info->n_files; i++) {
        const checkpoint_file *f = &info->files[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(f->name));
        json_object_set_new(o, "kind", json_string(f->kind));
        json_object_set_new(o, "bytes", json_integer(f->bytes));
        json_object_set_new(o, "header_xxh64", sum_json(f->header_sum));
        json_array_append_new(list, o);
    }
    return list;
}

json_t *checkpoint_meta_make(const checkpoint_info *info)
{
    json_t *o = json_object();
    json_object_set_new(o, "format", json_string(FORMAT));
    json_object_set_new(o, "version", json_integer(VERSION));
    json_object_set_new(o, "state", state_json(&info->state));
    json_object_set_new(o, "model", text_json(info->model));
    json_object_set_new(o, "fingerprint", sum_json(info->fingerprint));
    json_object_set_new(o, "recipe", text_json(info->recipe));
    json_object_set_new(o, "config", info->config ? text_json(info->config) : json_null());
    json_object_set_new(o, "files", files_json(info));
    return o;
}

/* ---- the seal */

static uint64_t content_sum(json_t *root)
{
    char *text = json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT);
    uint64_t sum = text ? sum_of(text, strlen(text)) : 0;
    free(text);
    return sum;
}

void checkpoint_meta_seal(json_t *root)
{
    json_object_del(root, "xxh64");
    json_object_set_new(root, "xxh64", sum_json(content_sum(root)));
}

static bool is_sealed(json_t *root)
{
    uint64_t sum;
    const char *text = json_string_value(json_object_get(root, "xxh64"));
    if (!text || !sum_parse(text, &sum)) return false;
    json_object_del(root, "xxh64");
    return sum == content_sum(root);
}

status checkpoint_meta_write(json_t *root, const char *path, error *err)
{
    arena *a = arena_create();
    const char *name = arena_text(a, "%s/" CHECKPOINT_META, path);
    char *text = json_dumps(root, JSON_INDENT(2));
    status s = text ? disk_create(name, text, strlen(text), err)
                    : error_set(err, ERR_MACHINE, "%s: no memory to write it", name);
    free(text);
    arena_destroy(a);
    return s;
}

/* ---- whose is it? */

/* Read without care for the rest: one of ours that is damaged is still ours. */
bool checkpoint_meta_is_ours(const char *path)
{
    arena *a = arena_create();
    char *text;
    size_t n;
    error ignored;
    bool ours = !file_read(a, arena_text(a, "%s/" CHECKPOINT_META, path), META_BYTES_MAX, &text, &n,
                           &ignored) &&
                memmem(text, n, "\"" FORMAT "\"", strlen(FORMAT) + 2) != NULL;
    arena_destroy(a);
    return ours;
}

/* ---- reading */

typedef struct meta {
    const char *name; /* of the file, for messages */
    arena *a;
    error *err;
    status failed;
} meta;

static void wrong(meta *m, const char *field)
{
    if (m->failed) return;
    m->failed = error_set(m->err, ERR_INPUT,
                          "%s: %s is missing or of the wrong type; written by another version?",
                          m->name, field);
}

static const char *text_in_meta(meta *m, const json_t *o, const char *field)
{
    const char *s = json_string_value(json_object_get(o, field));
    if (!s) wrong(m, field);
    return s ? arena_copy(m->a, s, strlen(s)) : "";
}

static int64_t int_in_meta(meta *m, const json_t *o, const char *field, int64_t least, int64_t most)
{
    const json_t *v = json_object_get(o, field);
    int64_t n = json_integer_value(v);
    if (!json_is_integer(v)) wrong(m, field);
    if (m->failed || (n >= least && n <= most)) return n;
    m->failed = error_set(m->err, ERR_INPUT, /* I2 */
                          "%s: %s=%" PRId64 " cannot be: %" PRId64 " to %" PRId64
                          " is possible. The checksum is right, so it was written this way; "
                          "repair: load another checkpoint (%s=N)",
                          m->name, field, n, least, most, knobs[K_CKPT_STEP].key);
    return n;
}

static uint64_t sum_in_meta(meta *m, const json_t *o, const char *field)
{
    uint64_t sum = 0;
    const char *s = json_string_value(json_object_get(o, field));
    if (!s || !sum_parse(s, &sum)) wrong(m, field);
    return sum;
}

/* A name that leads out of the folder is none. */
static bool is_file_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static void read_files(meta *m, checkpoint_info *info, const json_t *list)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > FILES_MAX) {
        wrong(m, "files");
        return;
    }
    checkpoint_file *files = ARENA_ARRAY(m->a, checkpoint_file, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        files[i] = (checkpoint_file){text_in_meta(m, o, "name"), text_in_meta(m, o, "kind"),
                                     int_in_meta(m, o, "bytes", 0, COUNT_MAX),
                                     sum_in_meta(m, o, "header_xxh64")};
        if (!is_file_name(files[i].name)) wrong(m, "name");
        if (text_starts(files[i].kind, "exp_avg")) info->has_moments = true;
    }
    info->files = files;
    info->n_files = (int)n;
}

/* What a counter can be: iteration is read first, and steps that were skipped or made are some of
 * those done. A seed is any number. */
static int64_t least_of(const checkpoint_state *s, const int64_t *counter)
{
    return counter == &s->seed ? INT64_MIN : 0;
}

static int64_t most_of(const checkpoint_state *s, const int64_t *counter)
{
    if (counter == &s->seed) return INT64_MAX;
    bool of_the_steps = counter == &s->skipped_iterations || counter == &s->optimizer_steps;
    return of_the_steps ? s->iteration : COUNT_MAX;
}

static void read_state(meta *m, checkpoint_state *s, const json_t *o) /* I2 */
{
#define GET(name) s->name = int_in_meta(m, o, #name, least_of(s, &s->name), most_of(s, &s->name));
    CHECKPOINT_COUNTERS(GET)
#undef GET
    const json_t *best = json_object_get(o, BEST_LOSS);
    s->best = best ? int_in_meta(m, o, BEST, 1, s->iteration) : 0;
    s->best_loss = json_number_value(best);
    if (best && !json_is_number(best)) wrong(m, BEST_LOSS);
    const json_t *factor = json_object_get(o, BUFFER_FACTOR);
    s->buffer_factor = factor ? json_number_value(factor) : 0;
    if (factor && !(s->buffer_factor >= 1 && s->buffer_factor <= 1024)) wrong(m, BUFFER_FACTOR);
}

static void read_fields(meta *m, checkpoint_info *info, const json_t *root)
{
    const json_t *config = json_object_get(root, "config");
    read_state(m, &info->state, json_object_get(root, "state"));
    info->model = text_in_meta(m, root, "model");
    info->fingerprint = sum_in_meta(m, root, "fingerprint");
    info->recipe = text_in_meta(m, root, "recipe");
    info->config = json_is_null(config) ? NULL : text_in_meta(m, root, "config");
    read_files(m, info, json_object_get(root, "files"));
}

static status check_kind(const meta *m, json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t version = json_integer_value(json_object_get(root, "version"));
    if (!text_equal(format, FORMAT))
        return error_set(m->err, ERR_INPUT, "%s: does not describe a checkpoint of moefold",
                         m->name);
    if (version != VERSION)
        return error_set(m->err, ERR_INPUT,
                         "%s: has version %" PRId64 "; this program reads version %d", m->name,
                         version, VERSION);
    if (is_sealed(root)) return OK;
    return error_set(m->err, ERR_INPUT, "%s: its checksum is wrong; the file is damaged", m->name);
}

status checkpoint_meta_read(checkpoint_info *info, arena *a, error *err)
{
    meta m = {arena_text(a, "%s/" CHECKPOINT_META, info->path), a, err, OK};
    json_t *root;
    status s = json_read(m.name, &root, err);
    if (s) return s;
    checkpoint_info made = {.path = info->path};
    s = check_kind(&m, root);
    if (!s) read_fields(&m, &made, root);
    if (!s) s = m.failed;
    json_decref(root);
    if (!s) *info = made;
    return s;
}
