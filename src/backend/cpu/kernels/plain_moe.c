/* plain_moe.c - row 0 of every kind that routes tokens or works for experts. */
#include "backend/cpu/kernels/plain_moe.h"
kernel_rows plain_moe(void)
{
    enum { ROOM = 64 };
    static kernel rows[ROOM];
    const kernel_rows parts[] = {
        plain_moe_router(), plain_moe_loss(), plain_moe_dispatch(), plain_moe_grouped(),
        plain_moe_route(),  plain_moe_flex(), plain_moe_meta(),
    };
    return kernel_rows_joined(rows, ROOM, parts, sizeof parts / sizeof parts[0]);
}
