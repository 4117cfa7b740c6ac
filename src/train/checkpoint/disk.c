/* disk.c - writing, syncing, renaming. */
#include "train/checkpoint/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static status failed(error *err, const char *path, const char *what)
{
    return error_set(err, ERR_MACHINE, "%s: %s: %s", path, what, file_why());
}

status disk_write(int fd, const char *path, const void *bytes, size_t n, error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)bytes + done, n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return failed(err, path, "cannot be written");
        done += (size_t)put;
    }
    return OK;
}

status disk_create(const char *path, const void *bytes, size_t n, error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return failed(err, path, "cannot be created");
    status s = disk_write(fd, path, bytes, n, err);
    if (!s && fsync(fd)) s = failed(err, path, "cannot be synced");
    if (close(fd) && !s) s = failed(err, path, "cannot be written");
    return s;
}

status disk_sync_folder(const char *path, error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed(err, path, "cannot be opened");
    status s = fsync(fd) && errno != EINVAL ? failed(err, path, "cannot be synced") : OK;
    close(fd); /* EINVAL: a file system that cannot sync folders */
    return s;
}

static const char *folder_above(arena *a, const char *path)
{
    const char *above = file_folder(a, path);
    return *above ? above : ".";
}

static status sync_above(const char *path, error *err)
{
    arena *a = arena_create();
    status s = disk_sync_folder(folder_above(a, path), err);
    arena_destroy(a);
    return s;
}

static status make_one(const char *path, error *err)
{
    if (file_is_folder(path)) return OK;
    if (mkdir(path, 0777) && errno != EEXIST) return failed(err, path, "cannot be created");
    if (!file_is_folder(path))
        return error_set(err, ERR_MACHINE, "%s: is a file; a folder is needed", path);
    return sync_above(path, err);
}

status disk_make_folders(const char *path, error *err)
{
    arena *a = arena_create();
    char *copy = arena_copy(a, path, strlen(path));
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = 0;
    status s = OK;
    for (size_t i = 1; i < n && !s; i++) {
        if (copy[i] != '/') continue;
        copy[i] = 0;
        s = make_one(copy, err);
        copy[i] = '/';
    }
    if (!s) s = make_one(copy, err);
    arena_destroy(a);
    return s;
}

status disk_make_new_folder(const char *path, error *err)
{
    if (mkdir(path, 0777)) return failed(err, path, "cannot be created");
    return sync_above(path, err);
}

status disk_rename(const char *from, const char *to, error *err)
{
    if (rename(from, to)) return failed(err, to, "cannot be renamed into place");
    return sync_above(to, err);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0;
}

void disk_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
