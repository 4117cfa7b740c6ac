/* unique.c - random text of the system's. */
#define _GNU_SOURCE
#include "base/unique.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void unique_text(char out[UNIQUE_TEXT])
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        struct timespec now; /* a kernel without it, or one that has just started */
        clock_gettime(CLOCK_REALTIME, &now);
        bits = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec << 12 ^ (uint64_t)getpid() ^
               (uint64_t)(uintptr_t)out << 20;
    }
    snprintf(out, UNIQUE_TEXT, "%016" PRIx64, bits);
}
