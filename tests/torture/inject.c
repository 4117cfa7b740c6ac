/* inject.c - a library for LD_PRELOAD that makes file-system calls fail, or ends the process there.
 *
 * It counts the calls that touch TORTURE_UNDER, an absolute folder, and acts at some of them:
 *
 *     TORTURE_LOG=FILE     every counted call: "N name path"
 *     TORTURE_AT=N         the first call to act at, counted from 1
 *     TORTURE_TIMES=M      how many calls from there on (1)
 *     TORTURE_ACT=WORD     kill, power, short, or the name of an error: EIO, ENOSPC, ...
 *     TORTURE_RANK=R       only in rank R of a job of Open MPI
 *
 * kill ends the process by SIGKILL instead of the call. power does the same, and leaves what a
 * machine without power may leave: files that were written to and not synced are empty, names that
 * were made in a folder that was not synced since are gone, and the oldest such rename has not been
 * (later ones have: file systems keep no order between folders). short reads or writes half of what
 * was asked for.
 *
 * I1  Our own calls go to the system by number, so that none of them is counted.
 * I2  Whether a descriptor lies under the folder is asked of /proc each time: nothing is kept that
 *     could become wrong by dup, fork or rename.
 * I3  close closes even where it fails, as on Linux. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, DIRTY_MAX = 256, NAMES_MAX = 64 };

typedef enum act { ACT_NONE, ACT_FAIL, ACT_SHORT, ACT_KILL, ACT_POWER } act;

static struct {
    bool on;
    const char *under;
    size_t under_length;
    int log;
    long at, times;
    act what;
    int error;
    atomic_long calls;
} I = {.log = -1};

static const struct {
    const char *name;
    int number;
} errors[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EINTR", EINTR},   {"EDQUOT", EDQUOT},
              {"EROFS", EROFS}, {"EACCES", EACCES}, {"ESTALE", ESTALE}, {"EMFILE", EMFILE}};

static void read_act(const char *word)
{
    if (!word) return;
    I.what = strcmp(word, "kill") == 0    ? ACT_KILL
             : strcmp(word, "power") == 0 ? ACT_POWER
             : strcmp(word, "short") == 0 ? ACT_SHORT
                                          : ACT_FAIL;
    I.error = EIO;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(word, errors[i].name) == 0) I.error = errors[i].number;
}

__attribute__((constructor)) static void start(void)
{
    const char *rank = getenv("TORTURE_RANK"), *own = getenv("OMPI_COMM_WORLD_RANK");
    const char *log = getenv("TORTURE_LOG"), *at = getenv("TORTURE_AT");
    const char *times = getenv("TORTURE_TIMES");
    I.under = getenv("TORTURE_UNDER");
    if (!I.under || (rank && (!own || strcmp(rank, own) != 0))) return;
    I.under_length = strlen(I.under);
    I.at = at ? atol(at) : 0;
    I.times = times ? atol(times) : 1;
    read_act(getenv("TORTURE_ACT"));
    if (log)
        I.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                             0666);
    I.on = true;
}

static bool is_under(const char *path)
{
    return strncmp(path, I.under, I.under_length) == 0 &&
           (path[I.under_length] == 0 || path[I.under_length] == '/');
}

/* ---- files that were written to and not synced; each is kept open by a descriptor of ours */

static struct {
    pthread_mutex_t lock;
    struct {
        dev_t device;
        ino_t number;
        int fd;
    } file[DIRTY_MAX];
    int n;
} D = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void mark(int fd, bool dirty)
{
    struct stat s;
    if (I.what != ACT_POWER || syscall(SYS_fstat, fd, &s) != 0 || !S_ISREG(s.st_mode)) return;
    pthread_mutex_lock(&D.lock);
    int i = 0;
    while (i < D.n && (D.file[i].device != s.st_dev || D.file[i].number != s.st_ino)) i++;
    if (dirty && i == D.n && D.n < DIRTY_MAX) {
        D.file[D.n].device = s.st_dev;
        D.file[D.n].number = s.st_ino;
        D.file[D.n++].fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 500);
    } else if (!dirty && i < D.n) {
        (void)syscall(SYS_close, D.file[i].fd);
        D.file[i] = D.file[--D.n];
    }
    pthread_mutex_unlock(&D.lock);
}

/* ---- names in folders that were not synced since; folders are kept open, for they move, too */

typedef struct entry {
    int folder, from_folder; /* from_folder -1: the name was made, not renamed */
    char name[256], from[256];
    char kept[PATH_BYTES]; /* a second name of the file that the rename replaced; "": none */
} entry;

static struct {
    entry list[NAMES_MAX];
    int n, kept;
} N;

/* Splits a path: its folder, opened, and its last part. */
static int open_above(const char *path, char *last)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash) return -1;
    snprintf(last, 256, "%s", slash + 1);
    *slash = 0;
    return (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

/* Before the call, as long as what it replaces is there. */
static entry note_name(const char *from, const char *to)
{
    entry e = {.folder = -1, .from_folder = -1};
    struct stat s;
    if (I.what != ACT_POWER || !is_under(to)) return e;
    e.folder = open_above(to, e.name);
    if (!from) return e;
    e.from_folder = open_above(from, e.from);
    if (syscall(SYS_newfstatat, AT_FDCWD, to, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode)) {
        snprintf(e.kept, sizeof e.kept, "%.3000s.kept-%d", I.under, N.kept++);
        (void)syscall(SYS_linkat, AT_FDCWD, to, AT_FDCWD, e.kept, 0);
    }
    return e;
}

static void add_name(const entry *e)
{
    pthread_mutex_lock(&D.lock);
    if (e->folder >= 0 && N.n < NAMES_MAX) N.list[N.n++] = *e;
    pthread_mutex_unlock(&D.lock);
}

static bool same_folder(int a, int b)
{
    struct stat s, t;
    return syscall(SYS_fstat, a, &s) == 0 && syscall(SYS_fstat, b, &t) == 0 &&
           s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

static void names_synced(int fd)
{
    pthread_mutex_lock(&D.lock);
    int left = 0;
    for (int i = 0; i < N.n; i++)
        if (!same_folder(N.list[i].folder, fd)) N.list[left++] = N.list[i];
    N.n = left;
    pthread_mutex_unlock(&D.lock);
}

static void lose_names(void)
{
    bool renamed = false;
    for (int i = 0; i < N.n; i++) {
        const entry *e = &N.list[i];
        if (e->from_folder < 0) {
            (void)syscall(SYS_unlinkat, e->folder, e->name, 0);
        } else if (!renamed) {
            renamed = true;
            (void)syscall(SYS_renameat2, e->folder, e->name, e->from_folder, e->from, 0);
            if (*e->kept) (void)syscall(SYS_renameat2, AT_FDCWD, e->kept, e->folder, e->name, 0);
        }
    }
}

_Noreturn static void end_here(void)
{
    if (I.what == ACT_POWER) {
        for (int i = 0; i < D.n; i++) (void)syscall(SYS_ftruncate, D.file[i].fd, 0);
        lose_names();
    }
    for (;;) (void)syscall(SYS_kill, getpid(), SIGKILL);
}

/* ---- counting */

/* Counts a call; what is to be done with it. */
static act meet(const char *name, const char *path)
{
    char line[PATH_BYTES + 64];
    if (!I.on || !path || !is_under(path)) return ACT_NONE;
    long n = atomic_fetch_add(&I.calls, 1) + 1;
    if (I.log >= 0) {
        int bytes = snprintf(line, sizeof line, "%ld %s %s\n", n, name, path);
        if (bytes > 0) (void)syscall(SYS_write, I.log, line, (size_t)bytes);
    }
    if (I.at == 0 || n < I.at || n >= I.at + I.times) return ACT_NONE;
    if (I.what == ACT_KILL || I.what == ACT_POWER) end_here();
    errno = I.error;
    return I.what;
}

static act meet_fd(const char *name, int fd)
{
    char link[64], path[PATH_BYTES];
    if (!I.on) return ACT_NONE;
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    errno = saved;
    path[n > 0 ? n : 0] = 0;
    return meet(name, path); /* I2 */
}

static act meet_at(const char *name, int folder, const char *path)
{
    return *path == '/' || folder == AT_FDCWD ? meet(name, path) : meet_fd(name, folder);
}

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

/* ---- calls that fail or do not */

#define FAILS(type, bad, name, met, parameters, ...)                                               \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                      \
        return met == ACT_FAIL ? (bad) : real(__VA_ARGS__);                                        \
    }

#define PATH(name) meet(name, path)
FAILS(int, -1, mkdir, PATH("mkdir"), (const char *path, mode_t mode), path, mode)
FAILS(int, -1, mkdirat, meet_at("mkdirat", d, path), (int d, const char *path, mode_t mode), d,
      path, mode)
FAILS(int, -1, rmdir, PATH("rmdir"), (const char *path), path)
FAILS(int, -1, unlink, PATH("unlink"), (const char *path), path)
FAILS(int, -1, unlinkat, meet_at("unlinkat", d, path), (int d, const char *path, int flags), d,
      path, flags)
FAILS(int, -1, remove, PATH("remove"), (const char *path), path)
FAILS(int, -1, renameat, meet_at("renameat", e, to),
      (int d, const char *from, int e, const char *to), d, from, e, to)
FAILS(int, -1, renameat2, meet_at("renameat2", e, to),
      (int d, const char *from, int e, const char *to, unsigned flags), d, from, e, to, flags)
FAILS(int, -1, link, meet("link", to), (const char *from, const char *to), from, to)
FAILS(int, -1, linkat, meet_at("linkat", e, to),
      (int d, const char *from, int e, const char *to, int flags), d, from, e, to, flags)
FAILS(int, -1, symlink, meet("symlink", path), (const char *to, const char *path), to, path)
FAILS(int, -1, truncate, PATH("truncate"), (const char *path, off_t n), path, n)
FAILS(int, -1, ftruncate, meet_fd("ftruncate", fd), (int fd, off_t n), fd, n)
FAILS(int, EIO, posix_fallocate, meet_fd("fallocate", fd), (int fd, off_t at, off_t n), fd, at, n)
FAILS(int, -1, stat, PATH("stat"), (const char *path, struct stat *s), path, s)
FAILS(int, -1, lstat, PATH("lstat"), (const char *path, struct stat *s), path, s)
FAILS(int, -1, fstat, meet_fd("fstat", fd), (int fd, struct stat *s), fd, s)
FAILS(int, -1, fstatat, meet_at("fstatat", d, path),
      (int d, const char *path, struct stat *s, int flags), d, path, s, flags)
FAILS(int, -1, access, PATH("access"), (const char *path, int how), path, how)
FAILS(int, -1, statvfs, PATH("statvfs"), (const char *path, struct statvfs *s), path, s)
FAILS(DIR *, NULL, opendir, PATH("opendir"), (const char *path), path)
FAILS(FILE *, NULL, fopen, PATH("fopen"), (const char *path, const char *how), path, how)
FAILS(int, -1, flock, meet_fd("flock", fd), (int fd, int how), fd, how)

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *);
    if (meet("rename", to) == ACT_FAIL) return -1;
    entry e = note_name(from, to);
    int done = real(from, to);
    if (done == 0) add_name(&e);
    return done;
}

/* ---- calls with an optional argument */

#define OPENS(name)                                                                                \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        REAL(int, name, const char *, int, ...);                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        if (PATH("open") == ACT_FAIL) return -1;                                                   \
        bool makes = flags & O_CREAT && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;         \
        int fd = real(path, flags, mode);                                                          \
        if (fd >= 0 && makes) {                                                                    \
            entry e = note_name(NULL, path);                                                       \
            add_name(&e);                                                                          \
        }                                                                                          \
        return fd;                                                                                 \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                             \
    int name(int d, const char *path, int flags, ...)                                              \
    {                                                                                              \
        REAL(int, name, int, const char *, int, ...);                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        return meet_at("openat", d, path) == ACT_FAIL ? -1 : real(d, path, flags, mode);           \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

int fcntl(int fd, int what, ...)
{
    REAL(int, fcntl, int, int, ...);
    va_list more;
    va_start(more, what);
    void *argument = va_arg(more, void *);
    va_end(more);
    bool locks = what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK;
    return locks && meet_fd("lock", fd) == ACT_FAIL ? -1 : real(fd, what, argument);
}

/* ---- calls that move bytes */

#define MOVES(name, dirties, parameters, whole, half)                                              \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        static ssize_t(*real) parameters;                                                          \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                      \
        act met = meet_fd(#name, fd);                                                              \
        if (met == ACT_FAIL) return -1;                                                            \
        if (dirties) mark(fd, true);                                                               \
        return met == ACT_SHORT && n > 1 ? real half : real whole;                                 \
    }
MOVES(write, true, (int fd, const void *bytes, size_t n), (fd, bytes, n), (fd, bytes, n / 2))
MOVES(pwrite, true, (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at),
      (fd, bytes, n / 2, at))
MOVES(read, false, (int fd, void *bytes, size_t n), (fd, bytes, n), (fd, bytes, n / 2))
MOVES(pread, false, (int fd, void *bytes, size_t n, off_t at), (fd, bytes, n, at),
      (fd, bytes, n / 2, at))

/* ---- syncing, closing, waiting */

#define SYNCS(name)                                                                                \
    int name(int fd)                                                                               \
    {                                                                                              \
        REAL(int, name, int);                                                                      \
        if (meet_fd(#name, fd) == ACT_FAIL) return -1;                                             \
        mark(fd, false);                                                                           \
        names_synced(fd);                                                                          \
        return real(fd);                                                                           \
    }
SYNCS(fsync)
SYNCS(fdatasync)

int close(int fd)
{
    REAL(int, close, int);
    bool failed = meet_fd("close", fd) == ACT_FAIL; /* I3 */
    int saved = errno, closed = real(fd);
    if (failed) errno = saved;
    return failed ? -1 : closed;
}

/* A run waits before it tries a failed save again; here that is a hundredth of it. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    REAL(int, nanosleep, const struct timespec *, struct timespec *);
    long long n = ((long long)wanted->tv_sec * 1000000000 + wanted->tv_nsec) / 100;
    struct timespec less = {(time_t)(n / 1000000000), (long)(n % 1000000000)};
    return real(I.on ? &less : wanted, left);
}
