/* layout_rig.h - a few steps of a model on one rank and on many (as threads), compared.
 *
 * The batch is the same for all: SAMPLES sequences of random tokens. The first step's gradients,
 * the loads of experts and the losses of STEPS steps on that batch are kept of the one rank, and
 * every layout must give them again. */
#ifndef TESTS_TRAIN_LAYOUT_RIG_H
#define TESTS_TRAIN_LAYOUT_RIG_H

#include "backend/comm/comm.h"
#include "ir/testing.h"
#include "train/hf/weights.h"
#include "train/executor/optimizer.h"

enum { RIG_STEPS = 5, RIG_SAMPLES = 8, RIG_RANKS_MAX = 16, RIG_SEQ = 64 };

typedef struct rig_tensor {
    const char *name;
    float *gradient;
    int64_t n;
} rig_tensor;

typedef struct rig_reference {
    arena *a;
    const char *folder;
    const char *words;
    rig_tensor *list;
    int n;
    double loss[RIG_STEPS];
    double *loads; /* [layers][E] */
    int64_t n_loads;
    double spread; /* of gradients, from the case's golden.json */
} rig_reference;

typedef struct rig_result {
    char text[sizeof(error) + 64]; /* empty: nothing went wrong */
    double gradient;               /* worst relative error of a tensor, by norm */
    const char *worst;
    double loss;       /* worst relative error of the curve */
    int64_t overflows; /* rows that found no room */
    bool loads_differ;
    double bytes[LEVEL_COUNT];       /* sent in the first step, all ranks */
    double exposed;                  /* seconds in the first step, the slowest rank */
    int64_t planned, used;           /* bytes of the arena, all ranks; used: 0 unless asked for */
    int64_t host_planned, host_used; /* the same of activations on the host */
} rig_result;

/* Does no rule stand against the layout of `words`? */
bool rig_is_legal(const char *folder, const char *words, arena *a);

/* `words`: overrides of the model that hold for one rank and many. */
rig_reference *rig_reference_of(const char *folder, const char *words);
void rig_reference_free(rig_reference *r);

/* Runs the layout of `words` (cluster.n_gpus ranks) and compares. */
void rig_compare(rig_result *out, const rig_reference *r, const char *words);

/* One step on an arena that is filled with a pattern: what is used of what is planned. */
void rig_touch(rig_result *out, const char *folder, const char *words);

#endif
