/* file.c - reading whole files. */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
