/* save.c - writing a checkpoint, with all ranks and beside training: which boxes a rank writes, its
 * files, the folder's name; and whether the folder can take checkpoints, before the first step.
 *
 * I1  metadata.json is written last, by rank 0, when all ranks say that their files are complete.
 * I2  What fails on one rank between start and finish is kept until finish, where all learn it.
 * I3  The thread touches its own plan and files, and no communicator.
 * I4  Values pass box after box, each row-major: copy, file and specs have one order.
 * I5  Every rank that will write tries to beforehand: ranks on other machines may see another
 *     disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/comm/agree.h"
#include "base/status.h"
#include "base/text.h"
#include "config/export.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/kinds.h"
#include "train/checkpoint/meta.h"
#include "train/checkpoint/tensor_file.h"
#include "train/checkpoint/disk.h"

/* ---- one rank's tensor files: planned first, then, if asked, copied, so that the arrays may
 * change, then written, by any thread */

typedef struct written_box {
    const weight *w;
    weight_box box;
    int64_t base;
} written_box;

typedef struct written_file {
    checkpoint_kind kind;
    written_box *boxes; /* [n] */
    tensor_spec *specs; /* [n] */
    int n;
    int64_t elements;
    float *copy; /* [elements], box after box; NULL: they are taken from the array */

    /* once written: */
    int64_t bytes;
    uint64_t header_sum;
} written_file;

enum { CHUNK_ELEMENTS = 1 << 18 };

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

/* Of one kind; memory comes from `a`. */
static void plan_file(written_file *f, const checkpoint *c, checkpoint_kind k, arena *a)
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

/* Copies the values to f->copy, which the caller frees. */
static status copy_file(written_file *f, error *err)
{
    f->copy = malloc((size_t)(f->elements ? f->elements : 1) * sizeof *f->copy);
    if (!f->copy)
        return error_set(err, ERR_MACHINE,
                         "no memory for a copy of %" PRId64
                         " elements of %s; repair: %s=false saves without a copy",
                         f->elements, f->kind.name, knobs[K_ASYNC_SAVE].key);
    float *to = f->copy;
    for (int i = 0; i < f->n; i++) { /* I4 */
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

/* Writes PATH/kind-RANK-of-WORLD.safetensors and syncs it. A file without boxes is not written. */
static const char *file_name(arena *a, const char *kind, int64_t rank, int64_t world)
{
    return arena_text(a, "%s-%05" PRId64 "-of-%05" PRId64 ".safetensors", kind, rank, world);
}

static status write_file(written_file *f, const char *path, arena *a, error *err)
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

/* ---- a last look
 *
 * Sizes and headers of the files on disk are checked instead of trusting what ranks report. This
 * finds a disk that loses files, another job, or a person with rm, while the previous checkpoint
 * still exists. */

static status look_at(const checkpoint_info *info, const checkpoint_file *f, arena *a, error *err)
{
    const char *path = arena_text(a, "%s/%s", info->path, f->name);
    int64_t bytes;
    uint64_t sum;
    TRY(tensor_file_header(path, &bytes, &sum, err));
    if (bytes != f->bytes)
        return error_set(err, ERR_INPUT, "%s: has %lld bytes; %lld were written", path,
                         (long long)bytes, (long long)f->bytes);
    if (sum != f->header_sum)
        return error_set(err, ERR_INPUT, "%s: its header is not the one that was written", path);
    return OK;
}

/* Looks at the folder of a checkpoint, whatever its name: metadata.json has its checksum and
 * counters that can be, and every file that it lists is there with its size and the checksum of its
 * header, which holds those of the data. The data are not read again: they were synced.
 * ERR_MACHINE: the first that is not. */
static status look_again(const char *path, error *err)
{
    arena *a = arena_create();
    checkpoint_info info = {.path = path};
    status s = checkpoint_meta_read(&info, a, err);
    arena_place mark = arena_mark(a);
    for (int i = 0; i < info.n_files && !s; i++, arena_release(a, mark))
        s = look_at(&info, &info.files[i], a, err);
    arena_destroy(a);
    if (!s) return OK;
    return error_prefix(err, ERR_MACHINE,
                        "the checkpoint differs from what was written; the one before it is kept");
}

/* ---- all ranks together */

struct checkpoint_saving {
    arena *a;
    checkpoint c;
    const char *folder, *path; /* path: of the folder on its way */
    checkpoint_lock *lock;     /* rank 0's: the caller's, or */
    bool own_lock;             /* one for this save */
    int keep;
    written_file files[CHECKPOINT_KINDS];
    int n_files;
    pthread_t thread;
    bool has_thread;
    atomic_bool done;
    status failed; /* I2 */
    error err;
};

static int64_t rank_of(const checkpoint *c)
{
    return c->c ? comm_rank(c->c) : 0;
}

static int64_t world_of(const checkpoint *c)
{
    return c->c ? comm_size(c->c) : 1;
}

/* ---- the folder on its way */

static status hold(checkpoint_saving *v, error *err)
{
    v->lock = v->c.lock;
    if (v->lock) return checkpoint_lock_check(v->lock, err);
    v->own_lock = true;
    return checkpoint_lock_take(&v->lock, v->folder, NULL, err);
}

static void let_go(checkpoint_saving *v)
{
    if (v->own_lock) checkpoint_lock_release(v->lock);
    v->lock = NULL;
}

static status make_folder(checkpoint_saving *v, error *err)
{
    TRY(disk_make_folders(v->folder, err));
    TRY(hold(v, err));
    owner_held held = checkpoint_lock_held(v->lock);
    checkpoint_clean(v->folder, held, NULL);
    v->path =
        owner_beside(v->a, checkpoint_path(v->a, v->folder, v->c.state.iteration), "tmp", held);
    status s = disk_make_new_folder(v->path, err);
    if (s) let_go(v);
    return s;
}

/* One name for all, rank 0's. */
static status agree_on_folder(checkpoint_saving *v, error *err)
{
    comm *c = v->c.c;
    TRY(ranks_follow(c, rank_of(&v->c) == 0 ? make_folder(v, err) : OK, err));
    if (!c) return OK;
    int64_t n = v->path ? (int64_t)strlen(v->path) + 1 : 0;
    comm_broadcast(c, GROUP_WORLD, 0, &n, sizeof n);
    char *path = ARENA_ARRAY(v->a, char, n);
    if (v->path) memcpy(path, v->path, (size_t)n);
    comm_broadcast(c, GROUP_WORLD, 0, path, (size_t)n);
    v->path = path;
    return OK;
}

/* ---- this rank's files */

static void plan_files(checkpoint_saving *v)
{
    for (int i = 0; i < CHECKPOINT_KINDS; i++) {
        checkpoint_kind k = checkpoint_kind_of(&v->c, i);
        if (k.values) plan_file(&v->files[v->n_files++], &v->c, k, v->a);
    }
}

static void copy_files(checkpoint_saving *v)
{
    for (int i = 0; i < v->n_files && !v->failed; i++) v->failed = copy_file(&v->files[i], &v->err);
}

static const char *name_of(const checkpoint_saving *v, arena *a, int i, int64_t rank)
{
    return file_name(a, v->files[i].kind.name, rank, world_of(&v->c));
}

static void *write_files(void *with) /* I3 */
{
    checkpoint_saving *v = with;
    arena *a = arena_create();
    for (int i = 0; i < v->n_files && !v->failed; i++) {
        const char *name = name_of(v, a, i, rank_of(&v->c));
        v->failed = write_file(&v->files[i], arena_text(a, "%s/%s", v->path, name), a, &v->err);
    }
    arena_destroy(a);
    atomic_store(&v->done, true);
    return NULL;
}

/* ---- what rank 0 does when all have written */

/* What a rank tells of its files; bytes 0: it has none of this kind. */
typedef struct told {
    int64_t bytes[CHECKPOINT_KINDS];
    uint64_t header_sum[CHECKPOINT_KINDS];
} told;

static checkpoint_file *list_files(checkpoint_saving *v, const told *all, int *n)
{
    int64_t world = world_of(&v->c);
    checkpoint_file *list = ARENA_ARRAY(v->a, checkpoint_file, world * CHECKPOINT_KINDS);
    *n = 0;
    for (int i = 0; i < v->n_files; i++)
        for (int64_t r = 0; r < world; r++)
            if (all[r].bytes[i] > 0)
                list[(*n)++] = (checkpoint_file){name_of(v, v->a, i, r), v->files[i].kind.name,
                                                 all[r].bytes[i], all[r].header_sum[i]};
    return list;
}

static status write_meta(checkpoint_saving *v, const told *all, error *err)
{
    weight_list whole;
    textbuf text = text_init(v->a);
    weight_list_init(&whole, v->c.s, v->a);
    export_yaml(&v->c.s->r, true, &text);
    checkpoint_info info = {.state = v->c.state,
                            .recipe = text.s,
                            .model = v->c.s->m.name,
                            .fingerprint = checkpoint_fingerprint(v->c.s, &whole),
                            .config = v->c.config};
    info.files = list_files(v, all, &info.n_files);
    json_t *root = checkpoint_meta_make(&info);
    checkpoint_meta_seal(root);
    status s = checkpoint_meta_write(root, v->path, err);
    json_decref(root);
    return s;
}

static status publish(checkpoint_saving *v, const told *all, error *err)
{
    const checkpoint_state *at = &v->c.state;
    TRY(write_meta(v, all, err)); /* I1 */
    TRY(disk_sync_folder(v->path, err));
    TRY(look_again(v->path, err));
    TRY(checkpoint_publish(v->path, v->folder, at->iteration, v->lock, err));
    owner_held held = checkpoint_lock_held(v->lock);
    if (at->best == at->iteration && at->best > 0)
        TRY(checkpoint_name_best(v->folder, at->best, held, err));
    checkpoint_prune(v->folder, at->iteration, v->keep, at->best, held);
    return OK;
}

static status publish_all(checkpoint_saving *v, error *err)
{
    told mine = {{0}, {0}}, *all = &mine;
    comm *c = v->c.c;
    for (int i = 0; i < v->n_files; i++) {
        mine.bytes[i] = v->files[i].bytes;
        mine.header_sum[i] = v->files[i].header_sum;
    }
    if (c) {
        all = ARENA_ARRAY(v->a, told, world_of(&v->c));
        comm_collect(c, GROUP_WORLD, &mine, sizeof mine, all);
    }
    return ranks_follow(c, rank_of(&v->c) == 0 ? publish(v, all, err) : OK, err);
}

/* ---- start, finish */

static status begin(checkpoint_saving **out, const checkpoint *c, const char *folder, int keep,
                    error *err)
{
    arena *a = arena_create();
    checkpoint_saving *v = ARENA_NEW(a, checkpoint_saving);
    v->a = a;
    v->c = *c;
    v->folder = arena_copy(a, folder, strlen(folder));
    v->keep = keep;
    status s = agree_on_folder(v, err);
    if (s) {
        arena_destroy(a);
        return s;
    }
    plan_files(v);
    *out = v;
    return OK;
}

status checkpoint_save_start(checkpoint_saving **out, const checkpoint *c, const char *folder,
                             int keep, error *err)
{
    TRY(begin(out, c, folder, keep, err));
    checkpoint_saving *v = *out;
    copy_files(v);
    v->has_thread = pthread_create(&v->thread, NULL, write_files, v) == 0;
    if (!v->has_thread) write_files(v);
    return OK;
}

bool checkpoint_save_done(const checkpoint_saving *v)
{
    return atomic_load(&v->done);
}

status checkpoint_save_finish(checkpoint_saving *v, error *err)
{
    if (v->has_thread) pthread_join(v->thread, NULL);
    if (v->failed) *err = v->err;
    status s = ranks_agree(v->c.c, v->failed, err);
    if (!s) s = publish_all(v, err);
    if (s && rank_of(&v->c) == 0) disk_remove(v->path);
    let_go(v);
    for (int i = 0; i < v->n_files; i++) free(v->files[i].copy);
    arena_destroy(v->a);
    return s;
}

status checkpoint_save(const checkpoint *c, const char *folder, int keep, error *err)
{
    checkpoint_saving *v;
    TRY(begin(&v, c, folder, keep, err));
    write_files(v);
    return checkpoint_save_finish(v, err);
}

/* ---- before the first step
 *
 * A wrong folder does not cost the steps up to the first save. */

static const char probe_text[] = "moefold wrote this file to test the folder; it may be removed\n";

/* What this rank writes in one checkpoint, headers left out. */
static int64_t own_bytes(const checkpoint *c, arena *a)
{
    int64_t bytes = 0;
    for (int i = 0; i < CHECKPOINT_KINDS; i++) {
        written_file f;
        checkpoint_kind k = checkpoint_kind_of(c, i);
        if (!k.values) continue;
        plan_file(&f, c, k, a);
        bytes += f.elements * (int64_t)sizeof(float);
    }
    return bytes;
}

static status try_to_write(const char *folder, int64_t rank, arena *a, error *err) /* I5 */
{
    const char *name = arena_text(a, "%s/" CHECKPOINT_PROBE "%" PRId64, folder, rank);
    const char *path = owner_beside(a, name, "tmp", HELD_ALONE);
    status s = disk_create(path, probe_text, sizeof probe_text - 1, err);
    (void)unlink(path);
    return s;
}

/* File systems that count otherwise (quotas) are found out by the save itself. */
static status look_for_space(const char *folder, double needed, arena *a, error *err)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0 || disk.f_blocks == 0) return OK;
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (free_bytes >= needed) return OK;
    return error_set(err, ERR_MACHINE, "%s: %s are free, but a checkpoint needs %s", folder,
                     text_bytes(a, (int64_t)free_bytes), text_bytes(a, (int64_t)needed));
}

static status take_folder(const char *folder, const lock_options *o, checkpoint_lock **lock,
                          error *err)
{
    int kept = 0;
    TRY(checkpoint_refuse_foreign(folder, err));
    TRY(disk_make_folders(folder, err));
    TRY(checkpoint_lock_take(lock, folder, o, err));
    checkpoint_clean(folder, checkpoint_lock_held(*lock), &kept);
    if (kept == 0 || !o || !o->say) return OK;
    arena *a = arena_create();
    o->say(o->with, arena_text(a,
                               "%s: keeping %d unfinished checkpoint%s of jobs on other machines "
                               "(*.tmp-*, *.old-*), because this machine cannot tell whether those "
                               "jobs have ended; remove what is left of jobs that have",
                               folder, kept, kept == 1 ? "" : "s"));
    arena_destroy(a);
    return OK;
}

static status try_all(const checkpoint *c, const char *folder, error *err)
{
    arena *a = arena_create();
    int64_t mine = own_bytes(c, a);
    double needed = (double)mine;
    status s = OK;
    if (c->c) comm_sum(c->c, GROUP_WORLD, &needed, 1);
    if (mine > 0) s = try_to_write(folder, c->c ? comm_rank(c->c) : 0, a, err);
    if (!s) s = look_for_space(folder, needed, a, err);
    arena_destroy(a);
    return ranks_agree(c->c, s, err);
}

status checkpoint_save_open(const checkpoint *c, const char *folder, const lock_options *o,
                            checkpoint_lock **lock, error *err)
{
    bool first = !c->c || comm_rank(c->c) == 0;
    *lock = NULL;
    status s = ranks_follow(c->c, first ? take_folder(folder, o, lock, err) : OK, err);
    if (s) return s;
    s = try_all(c, folder, err);
    if (s) checkpoint_lock_release(*lock);
    if (s) *lock = NULL;
    return s;
}
