/* parity.h - our numbers beside a reference case: loss, logits, every gradient, the curve of a few
 * steps; on one rank or on many.
 *
 * A case is a folder with config.json, model.safetensors, golden.safetensors (input_ids, labels,
 * logits, grad.NAME) and golden.json (loss, losses, hyper-parameters, tolerances). Computed in FP32
 * on this machine. Samples are dealt to data-parallel ranks and microbatches as in training. */
#ifndef TRAIN_PARITY_PARITY_H
#define TRAIN_PARITY_PARITY_H

#include "backend/comm/comm.h"

typedef struct parity_result {
    double loss, loss_golden, loss_rel_err;
    double logits_rel_err;
    double grad_rel_err_max;
    const char *grad_worst;
    double curve_rel_err_max;
    int curve_worst;     /* step, from 0 */
    const double *curve; /* our losses, step by step */
    int n_curve;
    double tolerance[4]; /* loss, logits, grad, curve */
    int n_gradients;
    int64_t arena_bytes; /* of the fullest rank */
    bool ok;
} parity_result;

typedef struct parity_options {
    const char *folder; /* of the case */
    bool plain;         /* oracle kernels only */
    int max_steps;      /* of the curve; 0: all */
} parity_options;

/* What the case fixes beside its model, which is `folder`: overrides, key=value, of CPU, batch, no
 * auxiliary losses. Those of the user come after. */
enum { PARITY_FIXED_MAX = 9 };
typedef struct parity_fixed {
    const char *list[PARITY_FIXED_MAX];
    int n;
} parity_fixed;
status parity_fixes(parity_fixed *out, const char *folder, arena *a, error *err);

/* Runs the case. Collective over `c`, which is as it was opened (its groups are made here, and `a`
 * lives until comm_close); NULL: one rank. The result, or the error, is the same on all ranks.
 * Every rank brings an arena of its own, where texts live. Routed buffers that are too small are
 * made larger, and the case begins again. */
status parity_run(parity_result *out, const setup *given, arena *a, const parity_options *o,
                  comm *c, error *err);

#endif
