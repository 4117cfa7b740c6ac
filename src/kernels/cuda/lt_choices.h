/* lt_choices.h - which algorithm of cuBLASLt a product got, kept with a run.
 *
 * Another driver or another day may make the library's heuristic choose otherwise, and another
 * algorithm adds in another order. So what was chosen is written to a file of the run, a line a
 * product, and whoever goes on with the run uses it.
 *
 * C1  Choices hold for one version of the library, which the file's first line names. Those of
 *     another version are set aside with a message, chosen anew and written over.
 * C2  Lines are appended as choices are made, each by one write: a run that is killed leaves whole
 *     lines. What cannot be read is chosen anew, too. */
#ifndef KERNELS_CUDA_LT_CHOICES_H
#define KERNELS_CUDA_LT_CHOICES_H

#include "kernels/cuda/lt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LT_ALGO_WORDS = 8 };

typedef struct lt_choice {
    lt_shape shape;
    uint64_t algo[LT_ALGO_WORDS]; /* as cuBLASLt keeps it */
} lt_choice;

/* Choices of file `path` from now on, those that it has first, or else those of `from`, the run
 * that this one goes on from. NULL or "": none. The folder of `path` is made where it is missing;
 * if it cannot be written to, stderr says so once: the run needs it for nothing else. */
void lt_choices_use(const char *path, const char *from, size_t version);

bool lt_choices_find(lt_choice *c); /* by c->shape; fills algo */
void lt_choices_keep(const lt_choice *c);

#ifdef __cplusplus
}
#endif

#endif
