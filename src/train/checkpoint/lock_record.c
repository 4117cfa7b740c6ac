/* lock_record.c - the line in moefold.lock.
 *
 * I1  A file is opened for each read and write and closed again: that is when network file systems
 *     look at what others have written, and send what we have. */
#define _GNU_SOURCE
#include "train/checkpoint/lock_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

static const char not_held[] = "not held";

/* ---- text */

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

/* ---- files */

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

int record_read(lock_record *r, const char *path) /* I1 */
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

int record_write(const char *path, const char text[RECORD_BYTES]) /* I1 */
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
