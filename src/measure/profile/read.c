/* read.c - which program wrote a file is told by its first bytes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "measure/profile/readers.h"

static const char SQLITE[] = "SQLite format 3";

/* The first byte that is not white. */
static int first_byte(bytes *b)
{
    int x = bytes_peek(b);
    while (x == ' ' || x == '\n' || x == '\t' || x == '\r') {
        bytes_next(b);
        x = bytes_peek(b);
    }
    return x;
}

/* A trace is a list of objects; a log may begin with [default0]:, [rank3]: or a date. */
static bool opens_array(const bytes *b)
{
    int x = bytes_peek_behind(b);
    return x < 0 || strchr(" \t\r\n{[]\"", x);
}

static void finish(profile *out, profile_events *e, int64_t steps, arena *a)
{
    out->marked = e->n_steps > 0;
    out->steps = steps ? (double)steps : e->n_steps ? (double)e->n_steps : 1;
    profile_explain(out, e, a);
}

static status read_bytes(profile *out, profile_file *f, int64_t steps, arena *a, error *err)
{
    profile_events e = {.a = a};
    int first = first_byte(f->b);
    TRY(bytes_failed(f->b, err));
    if (first < 0)
        return error_set(err, ERR_INPUT, "%s: the file is empty; repair: profile again", f->name);
    if (first == '{' || (first == '[' && opens_array(f->b))) {
        TRY(torch_read(out, &e, f, err));
        finish(out, &e, steps, a);
        return OK;
    }
    TRY(log_read(out, f, a, err));
    log_explain(out);
    return OK;
}

status profile_parse(profile *out, const char *name, const char *data, size_t n, arena *a,
                     error *err)
{
    *out = (profile){0};
    profile_file f = {.name = name};
    status s = bytes_open_text(&f.b, name, data, n, err);
    if (s) return s;
    s = read_bytes(out, &f, 0, a, err);
    bytes_close(f.b);
    return s;
}

/* Only a plain file is looked into: what a pipe has given is gone. */
static bool is_sqlite(const char *path)
{
    char head[sizeof SQLITE] = "";
    int fd;
    error ignored;
    ssize_t n = file_open(path, &fd, &ignored) ? 0 : read(fd, head, sizeof head);
    if (fd >= 0) close(fd);
    return n == (ssize_t)sizeof head && memcmp(head, SQLITE, sizeof head) == 0;
}

status profile_read(profile *out, const char *path, int64_t steps, arena *a, error *err)
{
    *out = (profile){0};
    if (is_sqlite(path)) {
        profile_events e = {.a = a};
        status s = nsight_read(out, &e, path, err);
        if (!s) finish(out, &e, steps, a);
        return s;
    }
    profile_file f = {.name = path};
    status s = bytes_open(&f.b, path, err);
    if (s) return s;
    s = read_bytes(out, &f, steps, a, err);
    bytes_close(f.b);
    return s;
}
