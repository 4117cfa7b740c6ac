/* cluster.h - derives sizes of the cluster and of the batch that the recipe does not set. */
#ifndef LAYOUT_CLUSTER_H
#define LAYOUT_CLUSTER_H

#include "config/job_of.h"

/* Fills cluster.gpus_per_node, nvlink_domain, n_gpus, ETP, sequence parallel, microbatch and
 * batch. */
void cluster_derive(resolving *d);

#endif
