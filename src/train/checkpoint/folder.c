/* folder.c - names, the text file, and what happens in which order.
 *
 * I1  A name iter_N without a tail stands for a complete checkpoint.
 * I2  The text file changes only after the folder that it will name has its name.
 * I3  What has a tail is removed only when it is certain that its owner will never complete it: its
 *     process was one of this machine and is gone; or it held the folder by the system's lock, and
 *     we hold that lock now. Were such a one still running, after all (stopped for a minute, on a
 *     file system whose locks hold on one machine only), it would look at the lock and refuse to
 *     publish.
 * I4  A folder iter_N that is not ours (other programs use the name) is neither replaced nor
 *     removed, and a text file that names one is not changed.
 * I5  What is removed is renamed first. So nothing that is half removed gets the name iter_N,
 *     whoever renames at the same moment. */
#include "train/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/meta.h"
#include "train/checkpoint/disk.h"

#define LATEST  "latest_checkpointed_iteration.txt"
#define BEST    "best_checkpointed_iteration.txt"
#define ITER    "iter_"
#define RELEASE "release" /* a folder of Megatron's */
#define REMOVED "removed" /* what is being removed, until it is */

enum { TEXT_BYTES_MAX = 4096, DIGITS_MIN = 7, DIGITS_MAX = 18 };

/* ---- names */

const char *checkpoint_path(arena *a, const char *folder, int64_t iteration)
{
    return arena_text(a, "%s/" ITER "%07" PRId64, folder, iteration);
}

/* Digits at `s`; *tail is what follows. -1: none, or too many. */
static int64_t read_number(const char *s, const char **tail)
{
    size_t n = strspn(s, "0123456789");
    *tail = s + n;
    return n == 0 || n > DIGITS_MAX ? -1 : strtoll(s, NULL, 10);
}

/* N of "iter_N" and the tail behind it; -1: another name. */
static int64_t iteration_of(const char *name, const char **tail)
{
    *tail = "";
    if (!text_starts(name, ITER)) return -1;
    int64_t n = read_number(name + strlen(ITER), tail);
    return *tail - name < (ptrdiff_t)strlen(ITER) + DIGITS_MIN ? -1 : n;
}

typedef struct entries {
    char **names;
    int n;
} entries;

/* A folder that is not there is empty; one that cannot be read is not. */
static status list_folder(entries *list, arena *a, const char *folder, error *err)
{
    entries e = {0};
    int room = 0;
    DIR *d = opendir(folder);
    bool none = !d && (errno == ENOENT || errno == ENOTDIR);
    *list = e;
    if (!d && !none)
        return error_set(err, ERR_MACHINE, "%s: cannot be listed: %s", folder, strerror(errno));
    for (const struct dirent *at; d && (at = readdir(d));) {
        if (e.n == room) {
            room = room ? 2 * room : 64;
            char **larger = ARENA_ARRAY(a, char *, room);
            if (e.n) memcpy(larger, e.names, sizeof *larger * (size_t)e.n);
            e.names = larger;
        }
        e.names[e.n++] = arena_copy(a, at->d_name, strlen(at->d_name));
    }
    if (d) closedir(d);
    *list = e;
    return OK;
}

static bool is_ours(arena *a, const char *folder, int64_t iteration)
{
    return checkpoint_meta_is_ours(checkpoint_path(a, folder, iteration));
}

/* The largest N below `below` of complete checkpoints, of ours or of all; -1: none. */
static status newest_below(const char *folder, int64_t below, bool ours, int64_t *found, error *err)
{
    arena *a = arena_create();
    entries e;
    status s = list_folder(&e, a, folder, err);
    int64_t newest = -1;
    for (int i = 0; i < e.n; i++) {
        const char *tail;
        int64_t n = iteration_of(e.names[i], &tail);
        if (n <= newest || n >= below || *tail) continue; /* I1 */
        if (!ours || is_ours(a, folder, n)) newest = n;
    }
    *found = newest;
    arena_destroy(a);
    return s;
}

const char *checkpoint_find(arena *a, const char *folder, int64_t iteration)
{
    const char *path = checkpoint_path(a, folder, iteration);
    entries e;
    error ignored;
    if (file_is_folder(path) || list_folder(&e, a, folder, &ignored)) return path;
    for (int i = 0; i < e.n; i++) {
        const char *tail;
        if (iteration_of(e.names[i], &tail) == iteration && text_starts(tail, ".old-"))
            return arena_text(a, "%s/%s", folder, e.names[i]);
    }
    return NULL;
}

/* ---- the text file */

static status read_latest(const char *path, const char *data, int64_t *iteration, error *err)
{
    const char *tail;
    int64_t n = read_number(data, &tail);
    if (n < 0 || tail[strspn(tail, " \t\r\n")])
        return error_set(err, ERR_INPUT, "%s: holds '%.40s'; the number of an iteration is needed",
                         path, data);
    *iteration = n;
    return OK;
}

status checkpoint_latest(const char *folder, int64_t *iteration, error *err)
{
    arena *a = arena_create();
    const char *path = arena_text(a, "%s/" LATEST, folder);
    file_kind kind;
    status s = file_look(path, &kind, err);
    char *data;
    size_t n;
    if (!s && kind == FILE_NONE) {
        s = newest_below(folder, INT64_MAX, false, iteration, err);
    } else if (!s) {
        s = file_read(a, path, TEXT_BYTES_MAX, &data, &n, err);
        if (!s) s = read_latest(path, data, iteration, err);
    }
    arena_destroy(a);
    return s;
}

status checkpoint_previous(const char *folder, int64_t iteration, int64_t *previous, error *err)
{
    if (!file_is_folder(folder)) return error_set(err, ERR_INPUT, "%s: is not a folder", folder);
    return newest_below(folder, iteration, true, previous, err);
}

static status write_number(arena *a, const char *path, int64_t iteration, owner_held held,
                           error *err)
{
    const char *beside = owner_beside(a, path, "tmp", held);
    const char *text = arena_text(a, "%" PRId64, iteration);
    status s = disk_create(beside, text, strlen(text), err);
    if (!s) s = disk_rename(beside, path, err);
    if (s) disk_remove(beside);
    return s;
}

status checkpoint_name_best(const char *folder, int64_t iteration, owner_held held, error *err)
{
    arena *a = arena_create();
    status s = write_number(a, arena_text(a, "%s/" BEST, folder), iteration, held, err);
    arena_destroy(a);
    return s;
}

/* ---- checkpoints of other programs */

static status foreign(const char *path, error *err)
{
    return error_set(err, ERR_INPUT,
                     "%s: is not a checkpoint of moefold, and moefold does not save into a folder "
                     "with other checkpoints; repair: set %s to a folder without them",
                     path, knobs[K_SAVE].key);
}

status checkpoint_refuse_foreign(const char *folder, error *err)
{
    arena *a = arena_create();
    entries e;
    status s = list_folder(&e, a, folder, err);
    for (int i = 0; i < e.n && !s; i++) {
        const char *tail, *path = arena_text(a, "%s/%s", folder, e.names[i]);
        bool named = iteration_of(e.names[i], &tail) >= 0 && !*tail;
        if (!named && !text_equal(e.names[i], RELEASE)) continue;
        if (file_is_folder(path) && !checkpoint_meta_is_ours(path)) s = foreign(path, err);
    }
    arena_destroy(a);
    return s;
}

/* The place of iter_N, and what the text file names: both ours, or not there. */
static status refuse_place(arena *a, const char *folder, int64_t iteration, error *err)
{
    int64_t latest;
    error ignored;
    const char *places[] = {checkpoint_path(a, folder, iteration), NULL};
    if (!checkpoint_latest(folder, &latest, &ignored) && latest >= 0)
        places[1] = checkpoint_path(a, folder, latest);
    for (int i = 0; i < 2; i++)
        if (places[i] && file_exists(places[i]) && !checkpoint_meta_is_ours(places[i]))
            return foreign(places[i], err); /* I4 */
    return OK;
}

/* ---- taking a place, and leaving it */

static status replace(arena *a, const char *from, const char *folder, int64_t iteration,
                      checkpoint_lock *lock, error *err)
{
    owner_held held = checkpoint_lock_held(lock);
    const char *path = checkpoint_path(a, folder, iteration);
    const char *aside = owner_beside(a, path, "old", held);
    const char *latest = arena_text(a, "%s/" LATEST, folder);
    bool there = file_exists(path);
    error ignored;
    status s = there ? disk_rename(path, aside, err) : OK;
    if (s) return s;
    s = disk_rename(from, path, err);
    if (s && there) (void)disk_rename(aside, path, &ignored);
    if (!s) s = checkpoint_lock_check(lock, err);
    if (!s) s = write_number(a, latest, iteration, held, err); /* I2 */
    if (!s && there) disk_remove(aside);
    return s;
}

status checkpoint_publish(const char *from, const char *folder, int64_t iteration,
                          checkpoint_lock *lock, error *err)
{
    arena *a = arena_create();
    status s = checkpoint_lock_check(lock, err);
    if (!s) s = refuse_place(a, folder, iteration, err);
    if (!s) s = replace(a, from, folder, iteration, lock, err);
    arena_destroy(a);
    return s;
}

/* Renamed before it is removed (I5). What fails here costs disk space, nothing else. */
static void remove_renamed(arena *a, const char *folder, const char *path, owner_held held)
{
    error ignored;
    const char *beside = owner_beside(a, arena_text(a, "%s/" REMOVED, folder), "tmp", held);
    if (!disk_rename(path, beside, &ignored)) disk_remove(beside);
}

/* ---- leftovers */

static bool is_left(const owner *who, owner_held held) /* I3 */
{
    return owner_is_gone(who) || (who->held == HELD_LOCK && held == HELD_LOCK);
}

/* The tail of a temporary name (behind ".tmp-" or ".old-"), or NULL. */
static const char *tail_of(const char *name, bool *aside)
{
    static const char *const starts[] = {ITER, LATEST, BEST, REMOVED, CHECKPOINT_PROBE};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const char *old = strstr(name, ".old-"), *tail = old ? old : strstr(name, ".tmp-");
        if (!text_starts(name, starts[i]) || !tail) continue;
        *aside = old != NULL;
        return tail + strlen(".tmp-");
    }
    return NULL;
}

static bool clean_one(arena *a, const char *folder, const char *name, owner_held held)
{
    bool aside;
    const char *rest, *tail = tail_of(name, &aside), *path = arena_text(a, "%s/%s", folder, name);
    owner who;
    if (!tail) return true;
    if (!owner_parse(&who, tail) || !is_left(&who, held)) return false;
    error ignored;
    int64_t n = iteration_of(name, &rest);
    const char *place = checkpoint_path(a, folder, n);
    if (aside && n >= 0 && !file_exists(place))
        (void)disk_rename(path, place, &ignored);
    else
        remove_renamed(a, folder, path, held);
    return true;
}

void checkpoint_clean(const char *folder, owner_held held, int *kept)
{
    arena *a = arena_create();
    entries e;
    error ignored;
    (void)list_folder(&e, a, folder, &ignored); /* then nothing is cleaned */
    int n = 0;
    for (int i = 0; i < e.n; i++) n += !clean_one(a, folder, e.names[i], held);
    if (kept) *kept = n;
    arena_destroy(a);
}

void checkpoint_prune(const char *folder, int64_t iteration, int keep, int64_t best,
                      owner_held held)
{
    arena *a = arena_create();
    int kept = 1;
    error ignored;
    for (int64_t n = iteration; keep > 0;) {
        if (newest_below(folder, n, true, &n, &ignored) || n < 0) break; /* I4 */
        if (n != best && ++kept > keep)
            remove_renamed(a, folder, checkpoint_path(a, folder, n), held);
    }
    arena_destroy(a);
}
