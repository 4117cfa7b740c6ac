/* memory.c - memory for long lists. */
#include "train/data/memory.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/maths.h"

static int64_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? mul_sat(pages, page) : SIZE_HUGE;
}

status data_take(void **out, int64_t n, size_t item_bytes, const char *what, error *err)
{
    int64_t bytes = mul_sat(n, (int64_t)item_bytes), most = machine_bytes();
    void *memory = bytes < most ? malloc(bytes ? (size_t)bytes : 1) : NULL;
    if (!memory)
        return error_set(err, ERR_MACHINE,
                         "data: %s takes %.1f GiB, which this machine (%.1f GiB) does not have",
                         what, (double)bytes / 0x1p30, (double)most / 0x1p30);
    *out = memory;
    return OK;
}
