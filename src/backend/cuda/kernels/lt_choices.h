/* lt_choices.h - which algorithm of cuBLASLt a GEMM gets: as the run has it, as `bench` tuned
 * it, or the heuristic's first.
 *
 * Another driver or another day may make the library's heuristic choose otherwise, and another
 * algorithm adds in another order. So what was chosen is written to a file of the run, a line a
 * GEMM, and whoever goes on with the run uses it. What `bench` found to be fastest on this GPU
 * stands in a file of the machine, in the same lines, and is for GEMMs that the run has not met.
 *
 * C1  Choices hold for one version of the library, which the file's first line names, and those of
 *     the machine for one GPU, which stands behind it. Those of another one are set aside with a
 *     message; the run's are chosen anew and written over.
 * C2  Lines of a run are appended as choices are made, each by one write: a run that is killed
 *     leaves whole lines. What cannot be read is chosen anew, too. The machine's file is written
 *     whole, beside itself first.
 * C3  The run's go before the machine's: a run that goes on after a tuning keeps its bits.
 * C4  Ranks share a run's file: the first makes it, the others add to it. Two that meet the same
 *     GEMM choose the same, so what is there twice does no harm. */
#ifndef BACKEND_CUDA_KERNELS_LT_CHOICES_H
#define BACKEND_CUDA_KERNELS_LT_CHOICES_H

#include "backend/cuda/kernels/lt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LT_ALGO_WORDS = 8 };

typedef struct lt_choice {
    lt_shape shape;
    uint64_t algo[LT_ALGO_WORDS]; /* as cuBLASLt keeps it */
} lt_choice;

/* Files from now on; NULL or "": none. A run's folder is made where it is missing; if it cannot be
 * written to, stderr says so once: the run needs it for nothing else. */
typedef struct lt_files {
    const char *run;   /* what it has is used, and what is chosen is added */
    const char *from;  /* the run that this one goes on from, where `run` is not there yet */
    const char *tuned; /* the machine's */
    size_t version;    /* of cuBLASLt */
    const char *gpu;   /* "NVIDIA H200" */
} lt_files;

void lt_choices_use(const lt_files *f);

/* By c->shape; fills algo, and says whose it is. LT_FIRST: nobody's. */
lt_source lt_choices_find(lt_choice *c);

/* The run has chosen. */
void lt_choices_keep(const lt_choice *c);

/* The machine's choice from now on; `note` ends its line, for people. ERR_MACHINE: the file cannot
 * be written. */
status lt_choices_tune(const lt_choice *c, const char *note, error *err);

#ifdef __cplusplus
}
#endif

#endif
