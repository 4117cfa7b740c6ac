/* sdpa.h - for probes of attention by cuDNN: our graphs (sdpa_graph.h) as plans whose
 * parts a probe can look at, where the rows only run them.
 *
 * With `props` and without a handle nothing touches a device. */
#ifndef BENCH_CUDA_SDPA_H
#define BENCH_CUDA_SDPA_H

#include <math.h>
#include "common.h"
#include "backend/cuda/kernels/sdpa_graph.h"

#define CHECK_DNN(call)                                                                            \
    do {                                                                                           \
        cudnnStatus_t status_ = (call);                                                            \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                                     \
            char text_[512] = "";                                                                  \
            cudnnGetLastErrorString(text_, sizeof text_);                                          \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,                      \
                    cudnnGetErrorString(status_), text_);                                          \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

/* Probes link with cuDNN. */
static const cudnn_library linked = {
#define X(name) name,
    CUDNN_FUNCTIONS(X)
#undef X
};

typedef struct {
    node plan;
    int64_t workspace_bytes;
    int n_configs, used; /* proposed by the heuristic; the first that could be built */
    double seconds;
} probe_plan;

static inline sdpa_shape shape_of(int64_t b, int64_t h, int64_t h_kv, int64_t s, int64_t d,
                                  int64_t d_v)
{
    sdpa_shape z = {};
    z.b = b, z.h = h, z.h_kv = h_kv, z.s = s, z.d = d, z.d_v = d_v;
    return z;
}

/* Nodes live as long as the process. */
static inline void graph_init(sdpa_graph *g, sdpa_shape z, sdpa_pass pass)
{
    sdpa_graph_init(g, &linked, &z, pass);
    CHECK_DNN(g->failed);
}

static inline void set(node n, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t,
                       int64_t count, const void *value)
{
    CHECK_DNN(cudnnBackendSetAttribute(n, a, t, count, value));
}

static inline node make(cudnnBackendDescriptorType_t type)
{
    node n;
    CHECK_DNN(cudnnBackendCreateDescriptor(type, &n));
    return n;
}

static inline void set_node(node n, cudnnBackendAttributeName_t a, node value)
{
    set(n, a, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* ---- plans ---- */

static inline node device_properties_of(int device)
{
    node n = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    int32_t id = device;
    set(n, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id);
    CHECK_DNN(cudnnBackendFinalize(n));
    return n;
}

/* The plan of the first configuration that can be built; false where there is none. */
static inline bool probe_plan_make(sdpa_graph *g, cudnnHandle_t handle, node props, probe_plan *out)
{
    enum { MOST = 16 };
    double t = seconds_now();
    node graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    node heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    node config[MOST];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    memset(out, 0, sizeof *out);
    if (handle) set(graph, (cudnnBackendAttributeName_t)800, CUDNN_TYPE_HANDLE, 1, &handle);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    CHECK_DNN(cudnnBackendFinalize(graph));
    set_node(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (props) set_node(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, props);
    CHECK_DNN(cudnnBackendFinalize(heuristic));
    for (int i = 0; i < MOST; i++) config[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CHECK_DNN(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &n, config));
    out->n_configs = (int)n;
    for (int i = 0; i < n && i < MOST; i++) {
        node plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_node(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i]);
        if (handle) set(plan, (cudnnBackendAttributeName_t)400, CUDNN_TYPE_HANDLE, 1, &handle);
        if (props) set_node(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, props);
        cudnnStatus_t status = cudnnBackendFinalize(plan);
        if (status != CUDNN_STATUS_SUCCESS) {
            char text[512] = "";
            cudnnGetLastErrorString(text, sizeof text);
            fprintf(stderr, "configuration %d: %s: %s\n", i, cudnnGetErrorString(status), text);
            continue;
        }
        CHECK_DNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, NULL, &out->workspace_bytes));
        out->plan = plan;
        out->used = i;
        out->seconds = seconds_now() - t;
        return true;
    }
    return false;
}

/* Pointers by id; NULL where the graph has no such tensor. The three values are filled in. */
typedef struct {
    void *at[SDPA_IDS];
    float scale, masked, one;
} sdpa_memory;

static inline node sdpa_bind(sdpa_memory *m, int64_t d, bool backward, void *workspace)
{
    node pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t ids[SDPA_IDS], n = 0;
    void *at[SDPA_IDS];
    m->scale = 1.0f / sqrtf((float)d);
    m->masked = -INFINITY;
    m->one = 1;
    m->at[SDPA_SCALE] = &m->scale;
    m->at[SDPA_MASKED] = &m->masked;
    m->at[SDPA_ONE] = backward ? &m->one : NULL;
    m->at[SDPA_WINDOW] = NULL;
    for (int i = 1; i < SDPA_IDS; i++) {
        if (!m->at[i]) continue;
        ids[n] = i;
        at[n++] = m->at[i];
    }
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    CHECK_DNN(cudnnBackendFinalize(pack));
    return pack;
}

#endif
