/* bytes.h - launches that move numbers of any format as they are. */
#ifndef BACKEND_CPU_KERNELS_BYTES_H
#define BACKEND_CPU_KERNELS_BYTES_H

#include "backend/kernels/kernels.h"

void bytes_copy(const kernel_call *c); /* COPY_OUT, COPY_IN */
void bytes_zero(const kernel_call *c); /* ZERO */

#endif
