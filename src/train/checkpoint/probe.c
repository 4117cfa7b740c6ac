/* probe.c - can this folder take checkpoints, and does it take ours alone? Asked before the first
 * step, so that a wrong folder does not cost the steps up to the first save.
 *
 * I1  Every rank that will write tries to: ranks on other machines may see another disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "backend/comm/agree.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/write.h"
#include "train/checkpoint/tensor_file_disk.h"

static const char probe_text[] = "moefold wrote this file to test the folder; it may be removed\n";

/* What this rank writes in one checkpoint, headers left out. */
static int64_t own_bytes(const checkpoint *c, arena *a)
{
    int64_t bytes = 0;
    for (int i = 0; i < CHECKPOINT_KINDS; i++) {
        written_file f;
        checkpoint_kind k = checkpoint_kind_of(c, i);
        if (!k.values) continue;
        checkpoint_file_plan(&f, c, k, a);
        bytes += f.elements * (int64_t)sizeof(float);
    }
    return bytes;
}

static status try_to_write(const char *folder, int64_t rank, arena *a, error *err) /* I1 */
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

static status take(const char *folder, const lock_options *o, checkpoint_lock **lock, error *err)
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
    status s = ranks_follow(c->c, first ? take(folder, o, lock, err) : OK, err);
    if (s) return s;
    s = try_all(c, folder, err);
    if (s) checkpoint_lock_release(*lock);
    if (s) *lock = NULL;
    return s;
}
