/* sdpa_graph.h - graphs of cuDNN's backend API: descriptors that live as long as their graph.
 *
 * After the first failure nothing more is done, and `failed` says what it was; so who builds a
 * graph looks once, at its end. */
#ifndef BACKEND_CUDA_KERNELS_SDPA_GRAPH_H
#define BACKEND_CUDA_KERNELS_SDPA_GRAPH_H

#include "backend/cuda/kernels/cudnn_open.h"
#include "backend/cuda/kernels/sdpa.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef cudnnBackendDescriptor_t node;

enum { SDPA_NODES = 256, SDPA_OPS = 64 };

typedef struct sdpa_graph {
    const cudnn_library *lib;
    cudnnStatus_t failed;
    sdpa_shape shape;
    node ops[SDPA_OPS], all[SDPA_NODES];
    int n_ops, n_all;
    int64_t next_id; /* of what lies between, from 100 on */
} sdpa_graph;

/* An empty one, and one of a pass. */
void sdpa_graph_open(sdpa_graph *g, const cudnn_library *lib);
void sdpa_graph_init(sdpa_graph *g, const cudnn_library *lib, const sdpa_shape *z, sdpa_pass pass);
void sdpa_graph_release(sdpa_graph *g);

node sdpa_make(sdpa_graph *g, cudnnBackendDescriptorType_t type);
void sdpa_set(sdpa_graph *g, node n, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t,
              int64_t count, const void *value);
void sdpa_set_node(sdpa_graph *g, node n, cudnnBackendAttributeName_t a, node value);
node sdpa_finish(sdpa_graph *g, node n); /* gives n back */

#ifdef __cplusplus
}
#endif

#endif
