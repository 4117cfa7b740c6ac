/* lock.c - FOLDER/moefold.lock: one job at a time saves in a folder.
 *
 * The lock is the system's (an open file description's), so it goes with the process that holds it,
 * however that ends, and over NFS it holds between machines. What stands in the file is for people:
 * who has it. The file stays: removing it would let two jobs hold two files of one name. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "run/checkpoint/folder.h"
#include "run/checkpoint/tensor_file_disk.h"

enum { NAME_MAX_BYTES = 256 };

static const char *own_name(arena *a)
{
    char host[NAME_MAX_BYTES] = "?", when[32] = "?";
    time_t now = time(NULL);
    struct tm local;
    (void)gethostname(host, sizeof host - 1);
    if (localtime_r(&now, &local)) (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    return arena_text(a, "process %" PRId64 " on %s, since %s", (int64_t)getpid(), host, when);
}

static status taken(int fd, const char *folder, error *err)
{
    char name[NAME_MAX_BYTES + 64] = "";
    ssize_t n = pread(fd, name, sizeof name - 1, 0);
    name[n > 0 ? n : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    return error_set(err, ERR_MACHINE,
                     "%s: another job saves there (%s); repair: another folder, or wait until it "
                     "has ended",
                     folder, *name ? name : "it has not given its name");
}

static status write_name(int fd, const char *path, arena *a, error *err)
{
    const char *text = arena_text(a, "%s\n", own_name(a));
    if (ftruncate(fd, 0))
        return error_set(err, ERR_MACHINE, "%s: cannot be written: %s", path, strerror(errno));
    return disk_write(fd, path, text, strlen(text), err);
}

status checkpoint_lock(const char *folder, int *held, const char **why_not, arena *a, error *err)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const char *path = arena_text(a, "%s/moefold.lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    *held = -1;
    *why_not = NULL;
    if (fd < 0)
        return error_set(err, ERR_MACHINE, "%s: cannot be created: %s", path, strerror(errno));
    status s = OK;
    if (fcntl(fd, F_OFD_SETLK, &all) == 0)
        s = write_name(fd, path, a, err);
    else if (errno == EAGAIN || errno == EACCES)
        s = taken(fd, folder, err);
    else
        *why_not = arena_text(a, "%s: cannot be locked: %s", path, strerror(errno));
    if (s || *why_not)
        close(fd);
    else
        *held = fd;
    return s;
}

void checkpoint_unlock(int held)
{
    if (held >= 0) close(held);
}
