/* real.h - the number type of plain kernels.
 *
 * Row 0 of each kind is written in `real`. The program is built with float; a test builds the same
 * source with double (REAL_DOUBLE) and compares gradients with central differences, which float is
 * too coarse for. */
#ifndef BACKEND_CPU_KERNELS_REAL_H
#define BACKEND_CPU_KERNELS_REAL_H

#ifdef REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif
#define OPERAND real /* op/op_operands.h */

#endif
