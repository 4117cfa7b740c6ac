/* numpy_sum.h - sums as numpy rounds them.
 *
 * A blend's weights are divided by their sum, and one bit there can move a sample. numpy adds eight
 * neighbours side by side and halves what is longer than 128. */
#ifndef TRAIN_DATA_NUMPY_SUM_H
#define TRAIN_DATA_NUMPY_SUM_H

#include <stdint.h>

double numpy_sum(const double *v, int64_t n);

/* Divides all by their sum. */
void numpy_normalize(double *v, int64_t n);

#endif
