/* bytes.h - launches that move numbers of any format as they are. */
#ifndef KERNELS_CPU_BYTES_H
#define KERNELS_CPU_BYTES_H

#include "kernels/kernels.h"

void bytes_copy(const kernel_call *c); /* COPY_OUT, COPY_IN */
void bytes_zero(const kernel_call *c); /* ZERO */

#endif
