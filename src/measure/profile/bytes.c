/* bytes.c - reading on, through zlib where the first two bytes say so.
 *
 * I1  After a failure there are no more bytes, and bytes_failed tells why.
 * I2  A gzip file may have several members, one after another, as gzip itself takes them. */
#include "measure/profile/bytes.h"

#include "base/file.h"
#include "base/waiting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define ZLIB_CONST
#include <zlib.h>

enum { ROOM = 1 << 16, GZIP_WINDOW = 15 + 16 };

struct bytes {
    const char *name;
    FILE *file;       /* or */
    const char *data; /* [left] */
    size_t left;
    bool packed, ended, failed;
    char why[160];
    z_stream z;
    unsigned char in[ROOM], out[ROOM];
    size_t at, n; /* of out */
    int64_t before;
};

static void fail(bytes *b, const char *why)
{
    b->failed = b->ended = true;
    snprintf(b->why, sizeof b->why, "%s", why);
}

/* Up to ROOM bytes as they lie in the file. */
static size_t take(bytes *b, unsigned char *to)
{
    if (!b->file) {
        size_t n = b->left < ROOM ? b->left : ROOM;
        if (n) memcpy(to, b->data, n);
        b->data += n;
        b->left -= n;
        return n;
    }
    size_t n = fread(to, 1, ROOM, b->file);
    struct stat all;
    if (fstat(fileno(b->file), &all) == 0 && all.st_size > 0)
        waiting_part((double)ftello(b->file) / (double)all.st_size);
    if (ferror(b->file)) fail(b, strerror(errno));
    return n;
}

static bool more_packed(bytes *b)
{
    if (b->z.avail_in) return true;
    b->z.next_in = b->in;
    b->z.avail_in = (uInt)take(b, b->in);
    return b->z.avail_in > 0;
}

static void unpack(bytes *b)
{
    b->z.next_out = b->out;
    b->z.avail_out = ROOM;
    while (!b->ended && b->z.avail_out == ROOM) {
        if (!more_packed(b)) {
            fail(b, "the gzip file is cut short");
            return;
        }
        int code = inflate(&b->z, Z_NO_FLUSH);
        if (code == Z_STREAM_END) { /* I2 */
            if (!more_packed(b))
                b->ended = true;
            else if (inflateReset(&b->z) != Z_OK)
                fail(b, "damaged gzip file");
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            fail(b, b->z.msg ? b->z.msg : "damaged gzip file");
        }
    }
    b->n = ROOM - b->z.avail_out;
}

static bool refill(bytes *b)
{
    b->before += (int64_t)b->n;
    b->at = b->n = 0;
    if (b->ended) return false;
    if (b->packed) {
        unpack(b);
    } else {
        b->n = take(b, b->out);
        if (!b->n) b->ended = true;
    }
    return b->n > 0;
}

int bytes_peek(bytes *b)
{
    return b->at < b->n || refill(b) ? b->out[b->at] : -1;
}

int bytes_peek_behind(const bytes *b)
{
    return b->at + 1 < b->n ? b->out[b->at + 1] : -1;
}

int bytes_next(bytes *b)
{
    return b->at < b->n || refill(b) ? b->out[b->at++] : -1;
}

int64_t bytes_at(const bytes *b)
{
    return b->before + (int64_t)b->at;
}

status bytes_failed(const bytes *b, error *err)
{
    if (!b->failed) return OK;
    return error_set(err, ERR_INPUT, "%s: %s; repair: copy or write the file again", b->name,
                     b->why);
}

/* The first bytes, and whether they are packed. */
static status begin(bytes *b, error *err)
{
    b->n = take(b, b->out);
    if (b->n >= 2 && b->out[0] == 0x1f && b->out[1] == 0x8b) {
        if (inflateInit2(&b->z, GZIP_WINDOW) != Z_OK)
            return error_set(err, ERR_MACHINE, "%s: zlib cannot be started", b->name);
        b->packed = true;
        memcpy(b->in, b->out, b->n);
        b->z.next_in = b->in;
        b->z.avail_in = (uInt)b->n;
        b->n = 0;
    }
    return OK;
}

static bytes *make(const char *name, error *err)
{
    bytes *b = calloc(1, sizeof *b);
    if (!b)
        error_set(err, ERR_MACHINE, "%s: no memory to read it", name);
    else
        b->name = name;
    return b;
}

status bytes_open_text(bytes **out, const char *name, const char *data, size_t n, error *err)
{
    bytes *b = make(name, err);
    if (!b) return ERR_MACHINE;
    b->data = data;
    b->left = n;
    status s = begin(b, err);
    if (s)
        bytes_close(b);
    else
        *out = b;
    return s;
}

status bytes_open(bytes **out, const char *path, error *err)
{
    FILE *f;
    status st = file_open_stream(path, &f, err);
    if (st) return st;
    bytes *b = make(path, err);
    if (!b) {
        fclose(f);
        return ERR_MACHINE;
    }
    b->file = f;
    status s = begin(b, err);
    if (s)
        bytes_close(b);
    else
        *out = b;
    return s;
}

void bytes_close(bytes *b)
{
    if (!b) return;
    if (b->packed) inflateEnd(&b->z);
    if (b->file) fclose(b->file);
    free(b);
}
