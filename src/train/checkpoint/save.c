/* save.c - writing a checkpoint, with all ranks and beside training.
 *
 * I1  metadata.json is written last, by rank 0, when all ranks say that their files are complete.
 * I2  What fails on one rank between start and finish is kept until finish, where all learn it.
 * I3  The thread touches its own plan and files, and no communicator. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/export.h"
#include "backend/comm/agree.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/meta.h"
#include "train/checkpoint/look.h"
#include "train/checkpoint/write.h"
#include "train/checkpoint/tensor_file_disk.h"

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
    status s = ranks_follow(c, rank_of(&v->c) == 0 ? make_folder(v, err) : OK, err);
    if (s || !c) return s;
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
        if (k.values) checkpoint_file_plan(&v->files[v->n_files++], &v->c, k, v->a);
    }
}

static void copy_files(checkpoint_saving *v)
{
    for (int i = 0; i < v->n_files && !v->failed; i++)
        v->failed = checkpoint_file_copy(&v->files[i], &v->err);
}

static const char *name_of(const checkpoint_saving *v, arena *a, int i, int64_t rank)
{
    return checkpoint_file_name(a, v->files[i].kind.name, rank, world_of(&v->c));
}

static void *write_files(void *with) /* I3 */
{
    checkpoint_saving *v = with;
    arena *a = arena_create();
    for (int i = 0; i < v->n_files && !v->failed; i++) {
        const char *name = name_of(v, a, i, rank_of(&v->c));
        v->failed =
            checkpoint_file_write(&v->files[i], arena_text(a, "%s/%s", v->path, name), a, &v->err);
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
    TRY(checkpoint_look(v->path, err));
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
    status s = begin(out, c, folder, keep, err);
    if (s) return s;
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
    status s = begin(&v, c, folder, keep, err);
    if (s) return s;
    write_files(v);
    return checkpoint_save_finish(v, err);
}
