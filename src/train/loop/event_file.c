/* event_file.c - records, checksums and the few fields of event.proto that scalars need.
 *
 * I1  An event is written in one piece: who reads while a run goes on finds whole records and at
 *     most one cut at the end, which readers wait for. */
#define _GNU_SOURCE
#include "train/loop/event_file.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

/* ---- checksums */

static uint32_t crc32c(const unsigned char *p, size_t n)
{
    const uint32_t polynomial = 0x82f63b78u;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

uint32_t event_checksum(const void *data, size_t n)
{
    uint32_t crc = crc32c(data, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* ---- protobuf */

enum { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2, WIRE_FLOAT = 5 };
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_FLOAT = 2 };

static void put_varint(textbuf *t, uint64_t x)
{
    do {
        char byte = (char)((x & 0x7f) | (x > 0x7f ? 0x80 : 0));
        text_put(t, &byte, 1);
        x >>= 7;
    } while (x);
}

/* Low bytes first, whatever the machine. */
static void put_fixed(textbuf *t, uint64_t bits, int n)
{
    for (int i = 0; i < n; i++) {
        char byte = (char)(bits >> (8 * i) & 0xff);
        text_put(t, &byte, 1);
    }
}

static void put_key(textbuf *t, int field, int wire)
{
    put_varint(t, (uint64_t)(field << 3 | wire));
}

static void put_double(textbuf *t, int field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(t, field, WIRE_DOUBLE);
    put_fixed(t, bits, 8);
}

static void put_float(textbuf *t, int field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(t, field, WIRE_FLOAT);
    put_fixed(t, bits, 4);
}

static void put_bytes(textbuf *t, int field, const char *s, size_t n)
{
    put_key(t, field, WIRE_BYTES);
    put_varint(t, n);
    text_put(t, s, n);
}

/* ---- files */

static status refuse(const event_file *f, const char *doing, error *err)
{
    return error_set(err, ERR_MACHINE, "logger.tensorboard_dir: %s: cannot %s: %s", f->path, doing,
                     file_why());
}

static status put_record(event_file *f, const textbuf *event, arena *a, error *err)
{
    textbuf t = text_init(a);
    put_fixed(&t, event->n, 8);
    put_fixed(&t, event_checksum(t.s, 8), 4);
    text_put(&t, event->s, event->n);
    put_fixed(&t, event_checksum(event->s, event->n), 4);
    bool bad = fwrite(t.s, 1, t.n, f->file) != t.n || fflush(f->file) == EOF; /* I1 */
    return bad ? refuse(f, "write events", err) : OK;
}

/* As TensorBoard looks for them: the word tfevents and the second at which it began. */
static const char *name_of(const char *folder, int try, arena *a)
{
    char host[256] = "host";
    gethostname(host, sizeof host - 1);
    return arena_text(a, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder, (long long)time(NULL),
                      host, (long)getpid(), try);
}

status event_file_open(event_file *f, const char *folder, arena *a, error *err)
{
    enum { TRIES = 100 };
    status s = file_make_folder(folder, err);
    if (s) return error_prefix(err, s, "logger.tensorboard_dir=%s", folder);
    *f = (event_file){0};
    for (int try = 0; try < TRIES && !f->file; try++) {
        f->path = name_of(folder, try, a);
        f->file = fopen(f->path, "wxb");
        if (!f->file && errno != EEXIST) break;
    }
    if (!f->file)
        return error_set(
            err, ERR_INPUT,
            "logger.tensorboard_dir=%s: cannot write there: %s; repair: name another folder",
            folder, file_why());
    static const char version[] = "brain.Event:2";
    arena *scratch = arena_create();
    textbuf event = text_init(scratch);
    put_double(&event, EVENT_TIME, (double)time(NULL));
    put_bytes(&event, EVENT_VERSION, version, strlen(version));
    s = put_record(f, &event, scratch, err);
    arena_destroy(scratch);
    return s;
}

status event_file_add(event_file *f, int64_t step, double when, const event_scalar *list, int n,
                      error *err)
{
    arena *a = arena_create();
    textbuf summary = text_init(a), event = text_init(a);
    for (int i = 0; i < n; i++) {
        textbuf value = text_init(a);
        put_bytes(&value, VALUE_TAG, list[i].tag, strlen(list[i].tag));
        put_float(&value, VALUE_FLOAT, (float)list[i].value);
        put_bytes(&summary, SUMMARY_VALUE, value.s, value.n);
    }
    put_double(&event, EVENT_TIME, when);
    put_key(&event, EVENT_STEP, WIRE_VARINT);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, EVENT_SUMMARY, summary.s, summary.n);
    status s = put_record(f, &event, a, err);
    arena_destroy(a);
    return s;
}

status event_file_close(event_file *f, error *err)
{
    if (!f->file) return OK;
    bool bad = fclose(f->file) == EOF;
    f->file = NULL;
    return bad ? refuse(f, "write events", err) : OK;
}
