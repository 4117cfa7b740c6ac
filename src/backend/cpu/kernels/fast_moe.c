/* fast_moe.c - the threaded rows of the kinds that route tokens or work for experts.
 *
 * LOAD, SORT and what makes tables for messages have row 0 alone: one pass over T * K ids, a
 * thousandth of the GEMMs that follow, and its order is its result. */
#include "backend/cpu/kernels/fast_moe.h"

kernel_rows fast_moe(void)
{
    enum { ROOM = 64 };
    static kernel rows[ROOM];
    const kernel_rows parts[] = {
        fast_moe_router(),
        fast_moe_dispatch(),
        fast_moe_grouped(),
        fast_moe_bias(),
    };
    return kernel_rows_joined(rows, ROOM, parts, sizeof parts / sizeof parts[0]);
}
