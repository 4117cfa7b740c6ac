/* lock.c - taking a folder, holding it, giving it back, and the line in moefold.lock.
 *
 * I1  No clock of another machine is read: whether a holder beats is seen by watching.
 * I2  Where there are no locks, two that take the folder at the same moment both write their names;
 *     after a pause the one whose name is still there has it.
 * I3  A file is opened for each read and write and closed again: that is when network file systems
 *     look at what others have written, and send what we have. */
#define _GNU_SOURCE
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "train/checkpoint/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/text.h"

static const char not_held[] = "not held";

/* ---- the record as text */

static void pad(char out[RECORD_BYTES])
{
    size_t n = strlen(out);
    memset(out + n, ' ', RECORD_BYTES - n);
    out[RECORD_BYTES - 1] = '\n';
}

void record_print(char out[RECORD_BYTES], const owner *who, const char *token, const char *since,
                  int64_t beat)
{
    snprintf(out, RECORD_BYTES,
             "process %" PRId64 " on %s, since %s; machine %s token %s %s beat %" PRId64, who->pid,
             who->host, since, who->machine, token, owner_held_words[who->held], beat);
    pad(out);
}

void record_print_not_held(char out[RECORD_BYTES])
{
    snprintf(out, RECORD_BYTES, "%s", not_held);
    pad(out);
}

static bool parse(lock_record *r)
{
    char held[8], machine[OWNER_MACHINE], token[UNIQUE_TEXT], host[OWNER_HOST], tail[256];
    int64_t pid;
    const char *rest = strchr(r->text, ';');
    if (sscanf(r->text, "process %" SCNd64 " on %64[^,],", &pid, host) != 2 || pid <= 0 || !rest)
        return false;
    if (sscanf(rest, "; machine %8s token %16s %7s", machine, token, held) != 3) return false;
    snprintf(tail, sizeof tail, "%s-%" PRId64 "-%s-%s-%s", host, pid, machine, held, token);
    if (!owner_parse(&r->who, tail)) return false;
    strcpy(r->token, token);
    return true;
}

/* ---- the record in its file */

int record_not_ours(int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return errno;
    return !S_ISREG(info.st_mode) ? EINVAL : info.st_nlink > 1 ? EMLINK : 0;
}

/* A pipe would hold us up; a file with two names is somebody's who did not ask us to write. */
static int open_record(const char *path, int flags, int *fd)
{
    *fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0) return errno;
    int why = record_not_ours(*fd);
    if (why) close(*fd);
    return why;
}

/* Up to the end of the file or of the room; 0, or errno. */
static int read_line(int fd, char out[RECORD_BYTES])
{
    size_t done = 0;
    for (ssize_t n = 1; n != 0 && done < RECORD_BYTES - 1;) {
        n = read(fd, out + done, RECORD_BYTES - 1 - done);
        if (n > 0) done += (size_t)n;
        if (n < 0 && errno != EINTR) return errno;
    }
    out[done] = 0;
    return 0;
}

int record_read(lock_record *r, const char *path) /* I3 */
{
    *r = (lock_record){.named = false};
    int fd, why = open_record(path, O_RDONLY, &fd);
    if (why) return why;
    why = read_line(fd, r->text);
    close(fd);
    r->text[strcspn(r->text, "\n")] = 0;
    for (size_t m = strlen(r->text); m > 0 && r->text[m - 1] == ' ';) r->text[--m] = 0;
    snprintf(r->people, sizeof r->people, "%.*s", (int)strcspn(r->text, ";"), r->text);
    r->released = text_equal(r->text, not_held);
    r->named = parse(r);
    r->foreign = *r->text && !r->released && !text_starts(r->text, "process ");
    return why;
}

int record_write(const char *path, const char text[RECORD_BYTES]) /* I3 */
{
    int fd, why = open_record(path, O_WRONLY, &fd);
    if (why) return why;
    for (size_t done = 0; done < RECORD_BYTES && !why;) {
        ssize_t n = pwrite(fd, text + done, RECORD_BYTES - done, (off_t)done);
        if (n > 0) done += (size_t)n;
        if (n < 0 && errno != EINTR) why = errno;
    }
    if (close(fd) != 0 && !why && errno != EINTR) why = errno;
    return why;
}

/* ---- holding a folder */

#define LOCK_NAME "moefold.lock"

static const lock_options usual = {.beat = 5, .silence = 60, .settle = 1};

struct checkpoint_lock {
    arena *a;
    const char *folder, *path;
    lock_options o;
    owner self;
    char token[UNIQUE_TEXT], since[32];
    int fd; /* with the system's lock; -1: there is none */
    int64_t beats;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* of the file's content, and of leave */
    pthread_cond_t changed;
    bool leave;
};

static void say(const checkpoint_lock *l, const char *text)
{
    if (l->o.say) l->o.say(l->o.with, text);
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL);
}

/* ---- messages */

/* An earlier program's record has a name for people, too. */
static const char *name_of(const lock_record *by)
{
    return text_starts(by->people, "process ") ? by->people : "it did not leave its name";
}

static status taken(const checkpoint_lock *l, const lock_record *by, error *err)
{
    return error_set(err, ERR_MACHINE,
                     "%s: another job saves there (%s); repair: use another folder, or wait until "
                     "that job has ended",
                     l->folder, name_of(by));
}

static status unwritten(const checkpoint_lock *l, const char *what, int why, error *err)
{
    if (why == EMLINK || why == EINVAL)
        return error_set(err, ERR_MACHINE,
                         "%s: is not a lock of moefold: %s; repair: remove it, or use another "
                         "folder",
                         l->path,
                         why == EMLINK ? "the file has another name, too (a hard link)"
                                       : "it is not a plain file");
    return error_set(err, ERR_MACHINE,
                     "%s: cannot be %s: %s; repair: use a folder where files can be created",
                     l->path, what, strerror(why));
}

static status not_a_lock(const checkpoint_lock *l, error *err)
{
    return error_set(err, ERR_MACHINE,
                     "%s: is not a lock of moefold: other text stands in it; repair: remove it, or "
                     "use another folder",
                     l->path);
}

/* ---- the system's lock */

static int set_lock(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int failed;
    do failed = fcntl(fd, F_OFD_SETLK, &all);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

/* Opens the file and locks it; *created: nobody had it. */
static status open_file(checkpoint_lock *l, bool *created, error *err)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(l->path, flags | O_EXCL, 0666);
    *created = fd >= 0;
    if (fd < 0 && errno == EEXIST) fd = open(l->path, flags, 0666);
    if (fd < 0) return unwritten(l, "created", errno, err);
    int why = record_not_ours(fd);
    if (why) {
        close(fd);
        return unwritten(l, "opened", why, err);
    }
    why = set_lock(fd);
    l->fd = why ? -1 : fd;
    l->self = owner_self(why ? HELD_FILE : HELD_LOCK);
    if (!why) return OK;
    close(fd);
    if (why == EAGAIN || why == EACCES) {
        lock_record by;
        (void)record_read(&by, l->path);
        return taken(l, &by, err);
    }
    say(l, arena_text(l->a,
                      "%s: cannot be locked (%s): only the record in the file protects the folder, "
                      "which is weaker than a lock (docs/CHECKPOINTS.md)",
                      l->path, strerror(why)));
    return OK;
}

/* ---- who was there before */

/* Does the name there say nothing against us, or can only its silence tell? */
static bool is_free(const checkpoint_lock *l, const lock_record *before)
{
    bool locked = l->self.held == HELD_LOCK;
    if (before->released) return true;
    if (!before->named) return locked;
    if (owner_is_gone(&before->who)) return true;
    return locked && before->who.held == HELD_LOCK && owner_same_machine(&before->who, &l->self);
}

static status watch(const checkpoint_lock *l, const lock_record *before, error *err) /* I1 */
{
    double until = clock_seconds() + l->o.silence;
    say(l, arena_text(l->a,
                      "%s: was not released by the job that held it (%s); waiting up to %.0f s to "
                      "see whether that job still runs",
                      l->folder, name_of(before), l->o.silence));
    while (clock_seconds() < until) {
        lock_record now;
        nap(l->o.beat / 10);
        if (stop_asked())
            return error_set(err, ERR_MACHINE,
                             "%s: told to stop while waiting for the folder; nothing was changed",
                             l->folder);
        if (record_read(&now, l->path) == 0 && strcmp(now.text, before->text) != 0)
            return taken(l, now.named ? &now : before, err);
    }
    say(l,
        arena_text(l->a, "%s: that job shows no sign of life; taking the folder over", l->folder));
    return OK;
}

/* ---- our name in it */

static int put_name(checkpoint_lock *l)
{
    char text[RECORD_BYTES];
    record_print(text, &l->self, l->token, l->since, l->beats++);
    return record_write(l->path, text);
}

static bool is_ours(const checkpoint_lock *l, lock_record *now, int *why)
{
    *why = record_read(now, l->path);
    return !*why && now->named && strcmp(now->token, l->token) == 0;
}

static status settle(checkpoint_lock *l, error *err) /* I2 */
{
    lock_record now;
    int why;
    nap(l->o.settle);
    return is_ours(l, &now, &why) ? OK : taken(l, &now, err);
}

static status enter(checkpoint_lock *l, error *err)
{
    bool created;
    lock_record before;
    status s = open_file(l, &created, err);
    if (s) return s;
    if (!created) {
        int why = record_read(&before, l->path);
        if (why) return unwritten(l, "read", why, err);
        if (before.foreign) return not_a_lock(l, err);
        if (!is_free(l, &before)) s = watch(l, &before, err);
        if (s) return s;
    }
    int why = put_name(l);
    if (why) return unwritten(l, "written", why, err);
    return created || l->self.held == HELD_LOCK ? OK : settle(l, err);
}

/* ---- beats */

static void *beat(void *with)
{
    checkpoint_lock *l = with;
    lock_record now;
    int why;
    pthread_mutex_lock(&l->mutex);
    while (!l->leave) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        double seconds = (double)until.tv_nsec * 1e-9 + l->o.beat;
        until.tv_sec += (time_t)seconds;
        until.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
        int woken = pthread_cond_timedwait(&l->changed, &l->mutex, &until);
        if (woken == ETIMEDOUT && is_ours(l, &now, &why)) (void)put_name(l);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* Signals are for the threads that were there before. */
static status start_beats(checkpoint_lock *l, error *err)
{
    sigset_t all, before;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(&l->thread, NULL, beat, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->has_thread = why == 0;
    return why ? error_set(err, ERR_MACHINE,
                           "%s: cannot start the thread that marks the folder as in use: %s; "
                           "repair: raise the limit of processes (ulimit -u)",
                           l->path, strerror(why))
               : OK;
}

static void stop_beats(checkpoint_lock *l)
{
    if (!l->has_thread) return;
    pthread_mutex_lock(&l->mutex);
    l->leave = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    l->has_thread = false;
}

/* ---- the interface */

static void free_lock(checkpoint_lock *l)
{
    if (l->fd >= 0) close(l->fd);
    arena_destroy(l->a);
}

static void note_time(char *out, size_t room)
{
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local) || !strftime(out, room, "%Y-%m-%d %H:%M:%S", &local))
        strcpy(out, "?");
}

status checkpoint_lock_take(checkpoint_lock **out, const char *folder, const lock_options *o,
                            error *err)
{
    arena *a = arena_create();
    checkpoint_lock *l = ARENA_NEW(a, checkpoint_lock);
    l->a = a;
    l->fd = -1;
    l->folder = arena_copy(a, folder, strlen(folder));
    l->path = arena_text(a, "%s/" LOCK_NAME, folder);
    l->o = o ? *o : usual;
    if (l->o.beat <= 0) l->o.beat = usual.beat;
    if (l->o.silence <= 0) l->o.silence = usual.silence;
    if (l->o.settle <= 0) l->o.settle = usual.settle;
    unique_text(l->token);
    note_time(l->since, sizeof l->since);
    status s = enter(l, err);
    if (!s) s = start_beats(l, err);
    if (s)
        free_lock(l);
    else
        *out = l;
    return s;
}

/* Somebody has removed it; whoever makes it anew has it. */
static status make_again(checkpoint_lock *l, error *err)
{
    lock_record now;
    int fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == EEXIST) {
        (void)record_read(&now, l->path);
        return taken(l, &now, err);
    }
    if (fd < 0) return unwritten(l, "created", errno, err);
    bool locked = l->self.held == HELD_LOCK;
    int why = locked ? set_lock(fd) : 0;
    if (!why) why = put_name(l);
    if (why || !locked) close(fd);
    if (why) return unwritten(l, "written", why, err);
    if (locked) {
        close(l->fd);
        l->fd = fd;
    }
    return OK;
}

/* The file does not have our name. Where it has nobody's (somebody has cut it), it gets ours
 * again. */
static status restore(checkpoint_lock *l, const lock_record *now, int why, error *err)
{
    if (why == ENOENT) return make_again(l, err);
    if (why) return unwritten(l, "read", why, err);
    if (now->foreign) return not_a_lock(l, err);
    if (!now->named) {
        why = put_name(l);
        return why ? unwritten(l, "written", why, err) : OK;
    }
    return error_set(
        err, ERR_MACHINE,
        "%s: was taken over by another job (%s) while this one did not respond; this one saves "
        "nothing more there; repair: end one of the two, or give it another folder",
        l->folder, name_of(now));
}

status checkpoint_lock_check(checkpoint_lock *l, error *err)
{
    lock_record now;
    int why;
    pthread_mutex_lock(&l->mutex);
    status s = is_ours(l, &now, &why) ? OK : restore(l, &now, why, err);
    pthread_mutex_unlock(&l->mutex);
    return s;
}

owner_held checkpoint_lock_held(const checkpoint_lock *l)
{
    return l ? l->self.held : HELD_ALONE;
}

void checkpoint_lock_release(checkpoint_lock *l)
{
    lock_record now;
    char text[RECORD_BYTES];
    int why;
    if (!l) return;
    stop_beats(l);
    record_print_not_held(text);
    if (is_ours(l, &now, &why)) (void)record_write(l->path, text);
    free_lock(l);
}
