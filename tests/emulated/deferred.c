/* deferred.c - a CPU that does everything late.
 *
 * Every stream is a queue, the compute stream, too. What is in them runs when the host reads,
 * writes, settles or finds a queue full, and now and then between calls, in a random order that the
 * waits allow. A program whose order rests on anything but its waits computes something else here.
 * Chosen by "deferred:SEED"; every rank draws its own order. With "deferred:SEED,deaf=STREAM" it
 * ignores the waits of a stream (its number in op_stream): with it a test sees that faults show.
 * With "deferred:SEED,grows=BYTES" it has bytes beside its spaces, as a GPU has, and so many more
 * with each question. */
#include <stdlib.h>
#include <string.h>

#include "backend/device/host.h"
#include "emulated/emulated.h"
#include "ir/target.h"

typedef struct deferred {
    uint64_t random;              /* the state of the generator, */
    int turn[STREAM_COUNT];       /* and which streams go first */
    int deaf;                     /* -1: to none */
    int64_t grows, outside_arena; /* -1: not known */
} deferred;

static deferred *deferred_of(const device *d)
{
    return ((host_device *)d->state)->owner;
}

/* ---- order */

static uint64_t draw(deferred *f)
{
    uint64_t x = f->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* One stream may run far ahead of another, or stay far behind: who goes first changes now and then,
 * not with every step. */
static bool step(device *d)
{
    enum { SAME_FOR = 16 };
    deferred *f = deferred_of(d);
    if (draw(f) % SAME_FOR == 0) {
        uint64_t one = draw(f) % STREAM_COUNT, other = draw(f) % STREAM_COUNT;
        int kept = f->turn[one];
        f->turn[one] = f->turn[other];
        f->turn[other] = kept;
    }
    for (int i = 0; i < STREAM_COUNT; i++)
        if (queue_step(d, (op_stream)f->turn[i])) return true;
    return false;
}

/* Some of what is there runs at times that have nothing to do with what is put. */
static void put(device *d)
{
    enum { SELDOM = 8, MOST = 64 };
    deferred *f = deferred_of(d);
    if (draw(f) % SELDOM == 0)
        for (uint64_t n = draw(f) % MOST; n && step(d); n--) continue;
}

/* ---- the table's */

static void wait_deferred(device *d, op_stream s, int event)
{
    if ((int)s != deferred_of(d)->deaf) host_wait(d, s, event);
}

static int64_t outside_arena(device *d)
{
    deferred *f = deferred_of(d);
    if (f->outside_arena >= 0) f->outside_arena += f->grows;
    return f->outside_arena;
}

static bool read_words(deferred *f, const char *words)
{
    static const char deaf_word[] = ",deaf=", grows_word[] = ",grows=";
    char *end;
    bool right = words[0] >= '0' && words[0] <= '9';
    f->random = strtoull(words, &end, 10) << 20;
    f->deaf = -1;
    f->outside_arena = -1;
    if (strncmp(end, deaf_word, strlen(deaf_word)) == 0) {
        long deaf = strtol(end + strlen(deaf_word), &end, 10);
        right = right && deaf >= 0 && deaf < STREAM_COUNT;
        f->deaf = (int)deaf;
    }
    if (strncmp(end, grows_word, strlen(grows_word)) == 0) {
        f->grows = strtoll(end + strlen(grows_word), &end, 10);
        f->outside_arena = 512 << 20;
        right = right && f->grows >= 0;
    }
    return right && !*end;
}

static void close_deferred(device *d)
{
    deferred *f = deferred_of(d);
    host_close(d);
    free(f);
}

static status open_deferred(device *d, const char *words, const device_options *o, error *err)
{
    (void)o;
    static const host_order order = {step, put};
    deferred *f = calloc(1, sizeof *f);
    if (!f) return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    status s = OK;
    if (!read_words(f, words))
        s = error_set(
            err, ERR_MACHINE,
            "device deferred:%s is not a seed, or a seed and a stream; repair: deferred:1", words);
    f->random += d->c ? (uint64_t)comm_rank(d->c) : 0;
    for (int i = 0; i < STREAM_COUNT; i++) f->turn[i] = i;
    if (!s) s = host_open(d, &order, err);
    if (s)
        free(f);
    else
        ((host_device *)d->state)->owner = f;
    return s;
}

const device_table device_deferred = {.name = "deferred",
                                      .open = open_deferred,
                                      .close = close_deferred,
                                      .outside_arena = outside_arena,
                                      .wait = wait_deferred,
                                      HOST_DEVICE};
