/* algorithms.h - the GEMMs of a recipe whose algorithm a library chooses. */
#ifndef MEASURE_BENCH_ALGORITHMS_H
#define MEASURE_BENCH_ALGORITHMS_H

#include "backend/device/device.h"
#include "layout/setup.h"

/* Has the rows of all such GEMMs of the program prepared, of one rank a pipeline stage: a device
 * that tunes (cuda:...tune) times each once. No memory of the program is taken and nothing of it is
 * run. *others: GEMMs that kernels of our own compute. */
status measure_algorithms(const setup *s, device *d, int *others, error *err);

#endif
