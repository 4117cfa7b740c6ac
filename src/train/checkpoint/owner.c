/* owner.c - names of processes that other machines can read, too. */
#define _GNU_SOURCE
#include "train/checkpoint/owner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/unique.h"
#include "train/checkpoint/tensor_file.h"

const char *const owner_held_words[HELD_COUNT] = {"alone", "file", "lock"};

static const char unknown[] = "unknown";

/* ---- this process */

static size_t read_some(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, room);
    if (fd >= 0) close(fd);
    return n > 0 ? (size_t)n : 0;
}

static void name_machine(char out[OWNER_MACHINE])
{
    char text[256];
    size_t n = read_some("/proc/sys/kernel/random/boot_id", text, sizeof text / 2);
    ssize_t m = readlink("/proc/self/ns/pid", text + n, sizeof text - n);
    snprintf(out, OWNER_MACHINE, "%s", unknown);
    if (n > 0 && m > 0)
        snprintf(out, OWNER_MACHINE, "%08" PRIx32, (uint32_t)sum_of(text, n + (size_t)m));
}

static void name_host(char out[OWNER_HOST])
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    snprintf(out, OWNER_HOST, "%.*s", OWNER_HOST - 1, *host ? host : unknown);
    for (char *p = out; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p)) *p = '_';
}

owner owner_self(owner_held held)
{
    owner o = {.pid = (int64_t)getpid(), .held = held};
    name_host(o.host);
    name_machine(o.machine);
    return o;
}

/* ---- of others */

bool owner_same_machine(const owner *a, const owner *b)
{
    return strcmp(a->machine, unknown) != 0 && strcmp(a->machine, b->machine) == 0 &&
           strcmp(a->host, b->host) == 0;
}

bool owner_is_gone(const owner *o)
{
    owner self = owner_self(HELD_ALONE);
    return owner_same_machine(o, &self) && kill((pid_t)o->pid, 0) != 0 && errno == ESRCH;
}

/* ---- names */

const char *owner_beside(arena *a, const char *path, const char *kind, owner_held held)
{
    owner o = owner_self(held);
    char token[UNIQUE_TEXT];
    unique_text(token);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return arena_text(a, "%.*s.%s-%s-%" PRId64 "-%s-%s-%s", (int)n, path, kind, o.host, o.pid,
                      o.machine, owner_held_words[held], token);
}

/* Cuts the last word off `text`; NULL: there is no dash. */
static const char *last_word(char *text)
{
    char *dash = strrchr(text, '-');
    if (!dash) return NULL;
    *dash = 0;
    return dash + 1;
}

static bool read_held(owner *o, const char *word)
{
    for (int i = 0; i < HELD_COUNT; i++)
        if (text_equal(word, owner_held_words[i])) {
            o->held = (owner_held)i;
            return true;
        }
    return false;
}

bool owner_parse(owner *o, const char *tail) /* from the right: a host's name may have dashes */
{
    char text[256], *end;
    uint64_t token;
    *o = (owner){.pid = 0};
    if (strlen(tail) >= sizeof text) return false;
    strcpy(text, tail);
    const char *word = last_word(text);
    if (!word || !sum_parse(word, &token) || !read_held(o, last_word(text))) return false;
    word = last_word(text);
    if (!word || strlen(word) >= OWNER_MACHINE) return false;
    strcpy(o->machine, word);
    word = last_word(text);
    if (!word || !isdigit((unsigned char)*word) || strlen(text) >= OWNER_HOST) return false;
    o->pid = strtoll(word, &end, 10);
    strcpy(o->host, text);
    return !*end && o->pid > 0 && o->pid <= INT32_MAX && *text;
}
