/* gzip.c - gzip's format through zlib. */
#include "base/gzip.h"

#include <limits.h>
#include <string.h>
#define ZLIB_CONST /* what is read is const */
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16, LEVEL = 6 }; /* 16: gzip's header instead of zlib's */

bool gzip_is(const char *data, size_t n)
{
    return n >= 2 && (unsigned char)data[0] == 0x1f && (unsigned char)data[1] == 0x8b;
}

status gzip_pack(arena *a, const char *data, size_t n, char **out, size_t *out_n, error *err)
{
    z_stream z = {0};
    if (n > UINT_MAX || deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY))
        return error_set(err, ERR_MACHINE,
                         "%zu bytes cannot be compressed by gzip; repair: use a name without .gz",
                         n);
    size_t room = deflateBound(&z, (uLong)n);
    char *to = arena_take_raw(a, room + 1);
    z.next_in = (const Bytef *)data;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)to;
    z.avail_out = (uInt)room;
    int code = deflate(&z, Z_FINISH);
    *out_n = room - z.avail_out;
    deflateEnd(&z);
    if (code != Z_STREAM_END) return error_set(err, ERR_MACHINE, "gzip failed (%d)", code);
    to[*out_n] = 0;
    *out = to;
    return OK;
}

/* Room grows by doubling, up to the limit and a byte: that byte tells that there is more. */
static char *more_room(arena *a, const char *old, size_t used, size_t *room, size_t limit)
{
    size_t next = *room ? *room * 2 : 1 << 16;
    if (next > limit + 1) next = limit + 1;
    char *to = arena_take_raw(a, next + 1);
    if (used) memcpy(to, old, used);
    *room = next;
    return to;
}

static status damaged(const gzip_text *in, const z_stream *z, int code, error *err)
{
    if (code == Z_BUF_ERROR || code == Z_OK)
        return error_set(err, ERR_INPUT, "%s: the gzip file is cut short; repair: write it again",
                         in->name);
    return error_set(err, ERR_INPUT, "%s: damaged gzip file (%s); repair: write it again", in->name,
                     z->msg ? z->msg : "no reason given");
}

status gzip_unpack(arena *a, const gzip_text *in, char **out, size_t *out_n, error *err)
{
    z_stream z = {0};
    if (in->n > UINT_MAX || inflateInit2(&z, GZIP_WINDOW))
        return error_set(err, ERR_INPUT, "%s: too large to unpack", in->name);
    z.next_in = (const Bytef *)in->data;
    z.avail_in = (uInt)in->n;
    char *to = NULL;
    size_t used = 0, room = 0;
    int code = Z_OK;
    while (code == Z_OK && used <= in->limit) {
        if (used == room) to = more_room(a, to, used, &room, in->limit);
        size_t left = room - used;
        if (left > UINT_MAX) left = UINT_MAX;
        z.next_out = (Bytef *)(to + used);
        z.avail_out = (uInt)left;
        code = inflate(&z, Z_NO_FLUSH);
        used += left - z.avail_out;
        if (code == Z_BUF_ERROR && used == room && z.avail_in) code = Z_OK; /* only room lacked */
    }
    status s = OK;
    if (used > in->limit)
        s = error_set(err, ERR_INPUT,
                      "%s: unpacks to more than the %zu bytes that such a file may have", in->name,
                      in->limit);
    else if (code != Z_STREAM_END)
        s = damaged(in, &z, code, err);
    inflateEnd(&z);
    if (s) return s;
    to[used] = 0;
    *out = to;
    *out_n = used;
    return OK;
}
