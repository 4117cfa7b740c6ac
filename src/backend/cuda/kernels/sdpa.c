/* sdpa.c - running plans of attention, and from a graph to a plan; the graphs are in
 * sdpa_graph.c. */
#include "backend/cuda/kernels/sdpa.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/kernels/sdpa_graph.h"

struct sdpa_plan {
    sdpa_shape shape;
    sdpa_pass pass;
    sdpa_graph graph; /* owns what the plan refers to */
    node plan;
    int64_t workspace_bytes;
};

/* One handle for all ranks of the process; whoever calls the library is behind the lock. */
static struct {
    pthread_mutex_t lock;
    const cudnn_library *lib;
    cudnnHandle_t handle;
} dnn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* `runs`: with a handle, which needs a GPU. */
static status open_handle(bool runs, error *err)
{
    pthread_mutex_lock(&dnn.lock);
    status s = dnn.lib ? OK : cudnn_open(&dnn.lib, err);
    if (s == OK && runs && !dnn.handle) {
        cudnnStatus_t e = dnn.lib->cudnnCreate(&dnn.handle);
        if (e)
            s = error_set(err, ERR_MACHINE, "%s: cudnnCreate: %s", cudnn_found(),
                          dnn.lib->cudnnGetErrorString(e));
    }
    pthread_mutex_unlock(&dnn.lock);
    return s;
}

static node properties_of(sdpa_graph *g, const char *device)
{
    node n = sdpa_make(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    sdpa_set(g, n, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             (int64_t)strlen(device), device);
    return sdpa_finish(g, n);
}

static void set_handle(sdpa_graph *g, node n, int attribute)
{
    sdpa_set(g, n, (cudnnBackendAttributeName_t)attribute, CUDNN_TYPE_HANDLE, 1, &dnn.handle);
}

/* What the heuristic proposes, best first. */
enum { CONFIGS = 16 };

static int64_t configurations(sdpa_graph *g, node properties, node config[CONFIGS])
{
    node graph = sdpa_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    node heuristic = sdpa_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    if (!properties) set_handle(g, graph, 800); /* CUDNN_ATTR_OPERATIONGRAPH_HANDLE, deprecated */
    sdpa_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops,
             g->ops);
    sdpa_finish(g, graph);
    sdpa_set_node(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    sdpa_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (properties) sdpa_set_node(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
    sdpa_finish(g, heuristic);
    for (int i = 0; i < CONFIGS; i++) config[i] = sdpa_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!g->failed)
        g->failed =
            g->lib->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n, config);
    return n < CONFIGS ? n : CONFIGS;
}

/* The first that can be built becomes the plan. */
static bool build_first(sdpa_plan *p, node properties)
{
    sdpa_graph *g = &p->graph;
    node config[CONFIGS];
    const int64_t n = configurations(g, properties, config);
    for (int i = 0; !g->failed && i < n; i++) {
        node plan = sdpa_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        sdpa_set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i]);
        if (properties)
            sdpa_set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
        else
            set_handle(g, plan, 400); /* CUDNN_ATTR_EXECUTION_PLAN_HANDLE, deprecated */
        if (g->failed || g->lib->cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS) continue;
        p->plan = plan;
        g->failed =
            g->lib->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, NULL, &p->workspace_bytes);
        return !g->failed;
    }
    return false;
}

status sdpa_plan_make(sdpa_plan **plan, const sdpa_shape *z, sdpa_pass pass, const char *device,
                      error *err)
{
    static const char *const names[] = {"forward", "backward", "deterministic backward"};
    status s = open_handle(!device, err);
    if (s != OK) return s;
    sdpa_plan *p = calloc(1, sizeof *p);
    if (!p) return error_set(err, ERR_MACHINE, "attention: out of memory");
    p->shape = *z;
    p->pass = pass;
    pthread_mutex_lock(&dnn.lock);
    sdpa_graph_init(&p->graph, dnn.lib, z, pass);
    const bool built = build_first(p, device ? properties_of(&p->graph, device) : NULL);
    pthread_mutex_unlock(&dnn.lock);
    if (!built) {
        char text[512] = "";
        dnn.lib->cudnnGetLastErrorString(text, sizeof text);
        s = error_set(err, ERR_MACHINE,
                      "%s has no %s of attention for %lld x %lld tokens, %lld and %lld heads of "
                      "%lld and %lld, window %lld: %s",
                      cudnn_found(), names[pass], (long long)z->b, (long long)z->s, (long long)z->h,
                      (long long)z->h_kv, (long long)z->d, (long long)z->d_v, (long long)z->window,
                      text);
        sdpa_plan_free(p);
        return s;
    }
    *plan = p;
    return OK;
}

void sdpa_plan_free(sdpa_plan *p)
{
    if (!p) return;
    pthread_mutex_lock(&dnn.lock);
    sdpa_graph_release(&p->graph);
    pthread_mutex_unlock(&dnn.lock);
    free(p);
}

int64_t sdpa_plan_workspace(const sdpa_plan *p)
{
    return p->workspace_bytes;
}

/* Which tensors a graph has. */
static bool is_used(const sdpa_plan *p, int id)
{
    const bool backward = p->pass != SDPA_FORWARD;
    if (id == SDPA_MASKED) return !p->shape.full;
    if (id == SDPA_WINDOW) return p->shape.window > 0;
    if (id == SDPA_DQ_SUM) return p->pass == SDPA_BACKWARD;
    if (id == SDPA_ONE || id >= SDPA_DO_O) return backward;
    return id < SDPA_DO || id == SDPA_SCALE || backward;
}

bool sdpa_run(const sdpa_plan *p, void *const at[SDPA_IDS], float scale, void *workspace,
              void *stream)
{
    float masked = -INFINITY, one = 1;
    int32_t window = (int32_t)p->shape.window;
    void *const values[SDPA_IDS] = {
        [SDPA_SCALE] = &scale, [SDPA_MASKED] = &masked, [SDPA_ONE] = &one, [SDPA_WINDOW] = &window};
    int64_t ids[SDPA_IDS], n = 0;
    void *places[SDPA_IDS];
    sdpa_graph pack; /* of one descriptor */
    pthread_mutex_lock(&dnn.lock);
    sdpa_graph_open(&pack, dnn.lib);
    for (int i = 1; i < SDPA_IDS; i++) {
        if (!is_used(p, i)) continue;
        ids[n] = i;
        places[n++] = values[i] ? values[i] : at[i];
    }
    node d = sdpa_make(&pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    sdpa_set(&pack, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    sdpa_set(&pack, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, places);
    sdpa_set(&pack, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    sdpa_finish(&pack, d);
    if (!pack.failed) pack.failed = dnn.lib->cudnnSetStream(dnn.handle, (cudaStream_t)stream);
    if (!pack.failed) pack.failed = dnn.lib->cudnnBackendExecute(dnn.handle, p->plan, d);
    const bool fine = !pack.failed;
    if (!fine) {
        char text[512] = "";
        dnn.lib->cudnnGetLastErrorString(text, sizeof text);
        fprintf(stderr, "cuDNN: %s\n", text);
    }
    sdpa_graph_release(&pack);
    pthread_mutex_unlock(&dnn.lock);
    return fine;
}
