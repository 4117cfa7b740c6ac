/* file.c - reading and writing whole files. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

status file_read(arena *a, const char *path, size_t limit, char **data, size_t *n, error *err)
{
    if (file_is_folder(path))
        return error_set(err, ERR_INPUT, "%s: is a folder; a file is needed", path);
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, ERR_INPUT, "%s: %s", path, strerror(errno));
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
    bool failed = ferror(f) != 0;
    fclose(f);
    if (failed) return error_set(err, ERR_INPUT, "%s: cannot be read", path);
    if (used > limit)
        return error_set(err, ERR_INPUT, "%s: larger than the %zu bytes that such a file may have",
                         path, limit);
    buffer[used] = 0;
    *data = buffer;
    *n = used;
    return OK;
}

static status unwritten(const char *path, error *err)
{
    return error_set(err, ERR_MACHINE, "%s: cannot be written: %s; repair: another folder", path,
                     strerror(errno));
}

static bool put(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "wb");
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
    if (there && !S_ISREG(s.st_mode)) return put(path, data, n) ? OK : unwritten(path, err);
    const char *to = there && realpath(path, real) ? real : path; /* a link stays one */
    int length = snprintf(beside, sizeof beside, "%s.%ld", to, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof beside) {
        errno = ENAMETOOLONG;
        return unwritten(path, err);
    }
    if (put(beside, data, n) && rename(beside, to) == 0) return OK;
    int why = errno;
    unlink(beside);
    errno = why;
    return unwritten(path, err);
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

const char *file_folder(arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_copy(a, path, (size_t)(slash - path) + 1) : "";
}
