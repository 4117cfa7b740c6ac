/* machine.h - what a recipe runs on: its description, measured or as it is sold. */
#ifndef PREDICT_MACHINE_H
#define PREDICT_MACHINE_H

#include "hardware/hardware.h"
#include "layout/setup.h"

/* The description of what a recipe runs on: of cluster.gpu, and for `cpu` what `moefold bench`
 * measured for that many ranks, or for the next fewer: local-4.yaml, ..., local-2.yaml, local.yaml
 * in ./hardware, ~/.config/moefold/hardware or beside the program; else cpu.yaml. */
status machine_of_setup(hardware *h, const setup *s, arena *a, error *err);

/* moefold.memory_limit: less is usable. machine_of_setup has done it. */
void machine_limit(hardware *h, const job *j);

/* The description of a GPU by its name or path. For our own program that is what `moefold bench`
 * measured of such a GPU, NAME-measured.yaml in the same folders; where there is none, peaks,
 * memory and links of the GPU as it is sold with what was measured of the kernels on another one of
 * its architecture: an estimate. */
status machine_gpu(hardware *h, const char *name, bool ours, arena *a, error *err);

/* The same for `ranks` of this machine; 0: sets it to the most that were measured, but not more
 * than there are cores. ERR_INPUT: nothing was measured. */
status machine_local(hardware *h, int64_t *ranks, arena *a, error *err);

/* Has `moefold bench` measured the machine that the recipe runs on? */
bool machine_measured(const setup *s, arena *a);

#endif
