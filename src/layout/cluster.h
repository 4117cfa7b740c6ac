/* cluster.h - derives sizes of the cluster and of the batch that the recipe does not set. */
#ifndef LAYOUT_CLUSTER_H
#define LAYOUT_CLUSTER_H

#include "config/recipe.h"

/* Fills cluster.gpus_per_node, nvlink_domain, n_gpus, ETP, sequence parallel, microbatch and
 * batch. */
void cluster_derive(recipe *r);

/* cluster.n_gpus, as --gpus sets it, and where racks do not divide it, equal blocks of nodes as
 * NVLink domains. */
void cluster_set_world(recipe *r, int64_t node, int64_t domain, int64_t n);

/* The same again, where --gpus set cluster.n_gpus of `before` and an override changed it. */
void cluster_follow_world(recipe *r, const recipe *before);

#endif
