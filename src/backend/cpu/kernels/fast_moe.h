/* fast_moe.h - the tables of the threaded MoE kernels, by file. */
#ifndef BACKEND_CPU_KERNELS_FAST_MOE_H
#define BACKEND_CPU_KERNELS_FAST_MOE_H

#include "backend/cpu/kernels/rows.h"

kernel_rows fast_moe_router(void);
kernel_rows fast_moe_dispatch(void);
kernel_rows fast_moe_grouped(void);
kernel_rows fast_moe_bias(void);

#endif
