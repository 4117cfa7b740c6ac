/* deferred.c - a CPU that does everything late: for tests.
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
#include "ir/target.h"

static status open_deferred(device *d, const char *words, const device_options *o, error *err)
{
    (void)o;
    static const char deaf_word[] = ",deaf=", grows_word[] = ",grows=";
    char *end;
    long deaf = -1;
    long long grows = -1;
    bool right = words[0] >= '0' && words[0] <= '9';
    unsigned long long seed = strtoull(words, &end, 10);
    if (strncmp(end, deaf_word, strlen(deaf_word)) == 0) {
        deaf = strtol(end + strlen(deaf_word), &end, 10);
        right = right && deaf >= 0 && deaf < STREAM_COUNT;
    }
    if (strncmp(end, grows_word, strlen(grows_word)) == 0) {
        grows = strtoll(end + strlen(grows_word), &end, 10);
        right = right && grows >= 0;
    }
    if (!right || *end)
        return error_set(err, ERR_MACHINE,
                         "device deferred:%s is not a seed, or a seed and a stream; repair: "
                         "deferred:1",
                         words);
    uint64_t rank = d->c ? (uint64_t)comm_rank(d->c) : 0;
    status s = host_open(d, true, (seed << 20) + rank, (int)deaf, err);
    host_device *h = s ? NULL : d->state;
    if (h && grows >= 0) {
        h->grows = grows;
        h->outside_arena = 512 << 20;
    }
    return s;
}

const device_table device_deferred = {.name = "deferred", .open = open_deferred, HOST_DEVICE};
