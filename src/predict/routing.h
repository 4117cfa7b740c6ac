/* routing.h - recorded loads of experts: `train --save-routing` writes them, prices read them.
 *
 * A JSON file has one row for each MoE layer: how many tokens each of its experts got, over all
 * steps, ranks and microbatches. Layers are numbered from 0; a prediction module's follows those of
 * the decoder. Experts lie on EP ranks in blocks, the first ones on the first rank, so one file
 * says for every EP how full the fullest rank is. */
#ifndef PREDICT_ROUTING_H
#define PREDICT_ROUTING_H

#include "model/model.h"

/* Experts of one rank, the fullest of its layer. */
typedef struct expert_loads {
    double skew;         /* load of the rank over the mean of all ranks */
    const double *loads; /* [n] of each of its experts over the mean of all; NULL: all alike */
    int64_t n;
} expert_loads;

typedef struct routing_layer {
    int64_t layer;
    const double *loads; /* [experts] tokens */
} routing_layer;

typedef struct routing {
    const char *path;            /* for messages */
    const char *model;           /* NULL: not said */
    int64_t experts;             /* from 1 on */
    int64_t topk, steps, tokens; /* tokens: of a layer; 0: not said */
    const routing_layer *layers; /* [n], in their order */
    int64_t n;
    const double *mean; /* [experts + 1] by EP: mean over layers of `skew`; 0: no such EP */
} routing;

/* Memory comes from `a`. ERR_INPUT: no such file, or not one of these (what, where, and the
 * repair). */
status routing_read(routing *r, const char *path, arena *a, error *err);
status routing_parse(routing *r, const char *path, const char *data, size_t n, arena *a,
                     error *err);

/* ERR_INPUT: recorded with other experts, or other MoE layers. */
status routing_fits(const routing *r, const model *m, error *err);

/* The MoE layers of a model that have loads: those of the decoder, then the prediction module's.
 * Returns how many; `list` NULL only counts. */
int64_t routing_layers(const model *m, int64_t *list);

/* The mean layer's skew for an EP that divides the experts; 1 for any other. */
double routing_skew(const routing *r, int64_t ep);

/* The same for one layer, with the loads of its fullest rank's experts; {1} for layers that are not
 * in the file. */
expert_loads routing_of_layer(const routing *r, int64_t layer, int64_t ep, arena *a);

/* Writes it, whole or not at all. */
status routing_write(const routing *r, const char *path, error *err);

#endif
