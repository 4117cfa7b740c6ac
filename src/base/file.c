/* file.c - reading and writing whole files. */
#define _GNU_SOURCE
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/caller.h"
#include "base/text.h"
#include "base/unique.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A file that is read, and what messages call it. */
typedef struct opened {
    FILE *f;
    const char *path;
    size_t limit;
} opened;

static status read_all(arena *a, const opened *o, char **data, size_t *n, error *err)
{
    FILE *f = o->f;
    size_t limit = o->limit;
    const char *path = o->path;
    size_t room = 4096, used = 0;
    char *buffer = arena_take(a, room + 1);
    for (;;) {
        used += fread(buffer + used, 1, room - used, f);
        if (used < room) break;
        if (used > limit) break;
        char *larger = arena_take(a, room * 2 + 1);
        memcpy(larger, buffer, used);
        buffer = larger;
        room *= 2;
    }
    if (ferror(f)) return error_set(err, ERR_INPUT, "%s: cannot be read", path);
    if (used > limit)
        return error_set(err, ERR_INPUT, "%s: larger than the %zu bytes that such a file may have",
                         path, limit);
    buffer[used] = 0;
    *data = buffer;
    *n = used;
    return OK;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static bool is_of_the_shell(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || text_starts(path, "/dev/fd/") ||
           text_starts(path, "/proc/self/fd/");
}

/* Without O_NONBLOCK, opening a pipe waits for its writer. A socket cannot be opened at all. */
static status open_kind(const char *path, bool stream, int *fd, error *err)
{
    struct stat info;
    bool shell = stream && is_of_the_shell(path), there = stat(path, &info) == 0;
    *fd = -1;
    if (!there || S_ISREG(info.st_mode) || shell)
        *fd = open(path, O_RDONLY | O_CLOEXEC | (shell ? 0 : O_NONBLOCK | O_NOCTTY));
    if (*fd < 0 && (!there || S_ISREG(info.st_mode) || shell)) {
        int why = errno;
        arena *a = arena_create();
        const char *near = why == ENOENT ? file_nearest(a, path) : NULL;
        error_set(err, ERR_INPUT, "%s: %s%s%s", path, strerror(why),
                  near ? "; the nearest name there is " : "", near ? near : "");
        arena_destroy(a);
        return ERR_INPUT;
    }
    bool fine = *fd >= 0 && fstat(*fd, &info) == 0 && /* it may have changed */
                (S_ISREG(info.st_mode) || (shell && !S_ISDIR(info.st_mode)));
    if (fine) return OK;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return error_set(err, ERR_INPUT, "%s: is %s; a file is needed", path, kind_of(info.st_mode));
}

status file_open(const char *path, int *fd, error *err)
{
    return open_kind(path, false, fd, err);
}

status file_open_stream(const char *path, FILE **f, error *err)
{
    int fd;
    status s = open_kind(path, true, &fd, err);
    *f = s ? NULL : fdopen(fd, "rb");
    if (s || *f) return s;
    close(fd);
    return error_set(err, ERR_MACHINE, "%s: %s", path, strerror(errno));
}

static void close_file(void *f)
{
    fclose(f);
}

status file_read(arena *a, const char *path, size_t limit, char **data, size_t *n, error *err)
{
    FILE *f;
    status s = file_open_stream(path, &f, err);
    if (s) return s;
    caller_held held;
    caller_holds(&held, close_file, f);
    s = read_all(a, &(opened){f, path, limit}, data, n, err);
    caller_drops(&held);
    fclose(f);
    return s;
}

status file_read_input(arena *a, size_t limit, char **data, size_t *n, error *err)
{
    return read_all(a, &(opened){stdin, "standard input", limit}, data, n, err);
}

enum { NAMES_MAX = 4096 };

static void close_folder(void *dir)
{
    closedir(dir);
}

const char *file_nearest(arena *a, const char *path)
{
    const char *folder = file_folder(a, path), *names[NAMES_MAX];
    int n = 0;
    caller_held held;
    DIR *dir = opendir(*folder ? folder : ".");
    if (!dir) return NULL;
    caller_holds(&held, close_folder, dir);
    for (struct dirent *e; (e = readdir(dir)) && n < NAMES_MAX;)
        if (e->d_name[0] != '.' && text_is_plain(e->d_name))
            names[n++] = arena_copy(a, e->d_name, strlen(e->d_name));
    caller_drops(&held);
    closedir(dir);
    if (n) qsort(names, (size_t)n, sizeof names[0], by_name); /* folders have no order */
    const char *near = text_nearest(path + strlen(folder), names, n);
    return near ? arena_text(a, "%s%s", folder, near) : NULL;
}

const char *file_why(void)
{
    return errno == EFBIG ? "File too large: the shell's limit on files (ulimit -f) or the file "
                            "system's is reached; raise it"
                          : strerror(errno);
}

static status unwritten(const char *path, error *err)
{
    return error_set(err, ERR_MACHINE, "%s: cannot be written: %s; repair: name another folder",
                     path, file_why());
}

/* `mode` is fopen's: with x the file is new, and no link that someone has put there is followed. */
static bool put(const char *path, const char *mode, const char *data, size_t n)
{
    FILE *f = fopen(path, mode);
    if (!f) return false;
    bool ok = fwrite(data, 1, n, f) == n && fflush(f) == 0;
    if (ok && fsync(fileno(f)) != 0) ok = errno == EINVAL || errno == EROFS; /* of a pipe */
    int why = errno;
    ok = fclose(f) == 0 && ok;
    if (!ok && why) errno = why;
    return ok;
}

status file_write(const char *path, const char *data, size_t n, error *err)
{
    struct stat s;
    char real[PATH_MAX], beside[PATH_MAX];
    bool there = stat(path, &s) == 0;
    if (there && !S_ISREG(s.st_mode)) return put(path, "wb", data, n) ? OK : unwritten(path, err);
    const char *to = there && realpath(path, real) ? real : path; /* a link stays one */
    char token[UNIQUE_TEXT];
    unique_text(token);
    int length = snprintf(beside, sizeof beside, "%s.tmp-%s", to, token);
    if (length < 0 || (size_t)length >= sizeof beside) {
        errno = ENAMETOOLONG;
        return unwritten(path, err);
    }
    if (put(beside, "wbxe", data, n) && rename(beside, to) == 0) return OK;
    int why = errno;
    if (why != EEXIST) unlink(beside); /* then it is not ours */
    errno = why;
    return unwritten(path, err);
}

status file_look(const char *path, file_kind *kind, error *err)
{
    struct stat s;
    bool there = stat(path, &s) == 0;
    *kind = !there ? FILE_NONE : S_ISDIR(s.st_mode) ? FILE_FOLDER : FILE_OTHER;
    if (there || errno == ENOENT || errno == ENOTDIR) return OK;
    return error_set(err, ERR_MACHINE, "%s: cannot be looked at: %s", path, strerror(errno));
}

bool file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

status file_make_folder(const char *path, error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (!n || n >= sizeof part - 1)
        return error_set(err, ERR_INPUT,
                         "'%s' is not a name for a folder; repair: name another one", path);
    for (size_t i = 0; i <= n; i++) {
        bool ends = i > 0 && (path[i] == '/' || !path[i]);
        part[i] = 0;
        if (ends && mkdir(part, 0777) != 0 && errno != EEXIST)
            return error_set(err, ERR_INPUT,
                             "cannot create the folder %s: %s; repair: name another one", part,
                             file_why());
        part[i] = path[i];
    }
    if (file_is_folder(path)) return OK;
    return error_set(err, ERR_INPUT, "%s: is a file; repair: name a folder", path);
}

const char *file_folder(arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_copy(a, path, (size_t)(slash - path) + 1) : "";
}
