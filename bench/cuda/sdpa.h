/* sdpa.h - causal attention by cuDNN's backend API: the graphs of forward and backward, and plans.
 *
 * Before cuDNN 9.21 a causal mask cannot be said with the one-node form, so the graph is written
 * out: two products, scale, mask, softmax (and their derivatives), which cuDNN recognises as a
 * whole. Tensors are [B][S][H][D] in memory; key and value heads may be fewer than query heads.
 *
 * I1  Real tensors have the ids below; ids of what lies between are counted from 100.
 * I2  Hopper's backward sums the query gradient with atomics into FP32 (ID_DQ_SUM). A graph without
 *     that buffer asks for the deterministic form; cuDNN then wants B*H*S*S*2 bytes of workspace.
 * I3  With `props` and without a handle nothing touches a device. */
#ifndef BENCH_CUDA_SDPA_H
#define BENCH_CUDA_SDPA_H

#include <math.h>
#include <cudnn.h>
#include "common.h"

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

typedef cudnnBackendDescriptor_t node;

typedef struct {
    int64_t b, h, h_kv, s;
    int64_t d, d_v; /* of queries and keys; of values */
} sdpa_shape;

enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_STATS, /* FP32 [B][H][S]: log of the softmax's denominator */
    ID_DO,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_SCALE, /* by value, FP32, as the next two */
    ID_MASKED,
    ID_ONE,
    ID_DQ_SUM, /* FP32 [B][H][S][D] */
    ID_DO_O,   /* FP32 [B][H][S] */
    N_IDS
};

typedef struct {
    sdpa_shape shape;
    node ops[64];
    int n_ops;
    int64_t next_id;
} sdpa_graph;

typedef struct {
    node plan;
    int64_t workspace_bytes;
    int n_configs, used; /* proposed by the heuristic; the first that could be built */
    double seconds;
} sdpa_plan;

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

/* ---- tensors ---- */

typedef struct {
    int64_t x[4];
} four;

static inline node tensor(int64_t id, cudnnDataType_t type, four size, four stride, bool inside,
                          bool by_value)
{
    node n = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t align = 16;
    set(n, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(n, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size.x);
    set(n, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride.x);
    set(n, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(n, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(n, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    set(n, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    CHECK_DNN(cudnnBackendFinalize(n));
    return n;
}

static inline node inside(sdpa_graph *g, cudnnDataType_t type, four size, four stride)
{
    return tensor(g->next_id++, type, size, stride, true, false);
}

static inline four packed(int64_t a, int64_t b, int64_t c, int64_t d)
{
    four f = {{b * c * d, c * d, d, 1}};
    (void)a;
    return f;
}

/* [B][S][H][D], seen as (b, h, s, d) or, turned, as (b, h, d, s). */
static inline node activation(int64_t id, sdpa_shape z, int64_t heads, int64_t d, bool turned)
{
    four size = {{z.b, heads, z.s, d}}, stride = {{z.s * heads * d, d, heads * d, 1}};
    if (turned) {
        four t = {{z.b, heads, d, z.s}}, u = {{z.s * heads * d, d, 1, heads * d}};
        size = t;
        stride = u;
    }
    return tensor(id, CUDNN_DATA_BFLOAT16, size, stride, false, false);
}

static inline node scalar(int64_t id)
{
    four one = {{1, 1, 1, 1}};
    return tensor(id, CUDNN_DATA_FLOAT, one, one, false, true);
}

static inline node scores(sdpa_graph *g, cudnnDataType_t type)
{
    sdpa_shape z = g->shape;
    four size = {{z.b, z.h, z.s, z.s}};
    return inside(g, type, size, packed(z.b, z.h, z.s, z.s));
}

static inline node per_row(sdpa_graph *g, int64_t id)
{
    sdpa_shape z = g->shape;
    four size = {{z.b, z.h, z.s, 1}}, stride = packed(z.b, z.h, z.s, 1);
    return id ? tensor(id, CUDNN_DATA_FLOAT, size, stride, false, false)
              : inside(g, CUDNN_DATA_FLOAT, size, stride);
}

/* ---- operations ---- */

static inline void add(sdpa_graph *g, node op)
{
    CHECK_DNN(cudnnBackendFinalize(op));
    g->ops[g->n_ops++] = op;
}

static inline node pointwise_typed(sdpa_graph *g, cudnnPointwiseMode_t mode, node x, node b, node t,
                                   node y, cudnnDataType_t math, int64_t axis)
{
    node d = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    node op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    if (axis >= 0) set(d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    CHECK_DNN(cudnnBackendFinalize(d));
    set_node(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    set_node(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_node(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t) set_node(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_node(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(g, op);
    return y;
}

static inline node pointwise(sdpa_graph *g, cudnnPointwiseMode_t mode, node x, node b, node y)
{
    return pointwise_typed(g, mode, x, b, NULL, y, CUDNN_DATA_FLOAT, -1);
}

static inline node reduce(sdpa_graph *g, cudnnReduceTensorOp_t mode, node x, node y)
{
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
    node d = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    node op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    set(d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    CHECK_DNN(cudnnBackendFinalize(d));
    set_node(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
    set_node(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_node(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(g, op);
    return y;
}

static inline node matmul(sdpa_graph *g, node a, node b, node c)
{
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
    node d = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    node op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    CHECK_DNN(cudnnBackendFinalize(d));
    set_node(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
    set_node(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_node(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_node(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    add(g, op);
    return c;
}

static inline node reshape(sdpa_graph *g, node x, node y)
{
    node op = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_node(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_node(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(g, op);
    return y;
}

/* ---- the two graphs ---- */

static inline node causal(sdpa_graph *g, node x)
{
    node row = pointwise_typed(g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL,
                               scores(g, CUDNN_DATA_INT32), CUDNN_DATA_FLOAT, 2);
    node column = pointwise_typed(g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL,
                                  scores(g, CUDNN_DATA_INT32), CUDNN_DATA_FLOAT, 3);
    node seen = pointwise_typed(g, CUDNN_POINTWISE_CMP_GE, row, column, NULL,
                                scores(g, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN, -1);
    return pointwise_typed(g, CUDNN_POINTWISE_BINARY_SELECT, x, scalar(ID_MASKED), seen,
                           scores(g, CUDNN_DATA_FLOAT), CUDNN_DATA_FLOAT, -1);
}

static inline void sdpa_forward(sdpa_graph *g, sdpa_shape z)
{
    memset(g, 0, sizeof *g);
    g->shape = z;
    g->next_id = 100;
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    node s = matmul(g, activation(ID_Q, z, z.h, z.d, false), activation(ID_K, z, z.h_kv, z.d, true),
                    scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_MUL, s, scalar(ID_SCALE), scores(g, f));
    s = causal(g, s);
    node most = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, per_row(g, 0));
    s = pointwise(g, CUDNN_POINTWISE_SUB, s, most, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_EXP, s, NULL, scores(g, f));
    node sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, s, per_row(g, 0));
    node log_sum = pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, per_row(g, 0));
    pointwise(g, CUDNN_POINTWISE_ADD, most, log_sum, per_row(g, ID_STATS));
    node p = pointwise(g, CUDNN_POINTWISE_DIV, s, sum, scores(g, CUDNN_DATA_BFLOAT16));
    matmul(g, p, activation(ID_V, z, z.h_kv, z.d_v, false), activation(ID_O, z, z.h, z.d_v, false));
}

/* (b, h, kv, q) of what is stored as (b, h, q, kv). */
static inline node turn(sdpa_graph *g, node x)
{
    sdpa_shape z = g->shape;
    four size = {{z.b, z.h, z.s, z.s}}, stride = {{z.h * z.s * z.s, z.s * z.s, 1, z.s}};
    return reshape(g, x, inside(g, CUDNN_DATA_BFLOAT16, size, stride));
}

/* Gradient of keys or values: of every query head, summed over those that share one. */
static inline void shared_heads(sdpa_graph *g, node a, node b, int64_t id, int64_t d)
{
    sdpa_shape z = g->shape;
    node out = activation(id, z, z.h_kv, d, false);
    if (z.h == z.h_kv) {
        matmul(g, a, b, out);
        return;
    }
    four size = {{z.b, z.h, z.s, d}};
    node all = inside(g, CUDNN_DATA_BFLOAT16, size, packed(z.b, z.h, z.s, d));
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, matmul(g, a, b, all), out);
}

static inline void sdpa_backward(sdpa_graph *g, sdpa_shape z, bool deterministic)
{
    memset(g, 0, sizeof *g);
    g->shape = z;
    g->next_id = 100;
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    node q = activation(ID_Q, z, z.h, z.d, false), k = activation(ID_K, z, z.h_kv, z.d, true);
    node v = activation(ID_V, z, z.h_kv, z.d_v, true),
         d_o = activation(ID_DO, z, z.h, z.d_v, false);
    node scale = scalar(ID_SCALE);
    four whole = {{z.b, z.h, z.s, z.d}}, of_o = {{z.b, z.h, z.s, z.d_v}};
    four as_o = {{z.h * z.s * z.d_v, z.s * z.d_v, z.h * z.d_v, 1}};

    node x = pointwise(g, CUDNN_POINTWISE_MUL, d_o, activation(ID_O, z, z.h, z.d_v, false),
                       inside(g, f, of_o, as_o));
    x = reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, per_row(g, 0));
    node d_o_o = pointwise(g, CUDNN_POINTWISE_MUL, x, scalar(ID_ONE), per_row(g, ID_DO_O));

    node s = matmul(g, q, k, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_MUL, s, scale, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_SUB, s, per_row(g, ID_STATS), scores(g, f));
    s = causal(g, s);
    node p = pointwise(g, CUDNN_POINTWISE_EXP, s, NULL, scores(g, f));
    shared_heads(g, turn(g, p), d_o, ID_DV, z.d_v);

    node ds = matmul(g, d_o, v, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_SUB, ds, d_o_o, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, p, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, scale, scores(g, CUDNN_DATA_BFLOAT16));
    shared_heads(g, turn(g, ds), q, ID_DK, z.d);

    four k_size = {{z.b, z.h_kv, z.s, z.d}};
    four k_stride = {{z.s * z.h_kv * z.d, z.d, z.h_kv * z.d, 1}};
    node k_rows = reshape(g, k, inside(g, CUDNN_DATA_BFLOAT16, k_size, k_stride));
    node dq = activation(ID_DQ, z, z.h, z.d, false);
    if (deterministic) {
        matmul(g, ds, k_rows, dq);
    } else { /* I2 */
        node sum = tensor(ID_DQ_SUM, f, whole, packed(z.b, z.h, z.s, z.d), false, false);
        matmul(g, ds, k_rows, sum);
        pointwise(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
    }
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
static inline bool sdpa_plan_make(sdpa_graph *g, cudnnHandle_t handle, node props, sdpa_plan *out)
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
    void *at[N_IDS];
    float scale, masked, one;
} sdpa_memory;

static inline node sdpa_bind(sdpa_memory *m, int64_t d, bool backward, void *workspace)
{
    node pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t ids[N_IDS], n = 0;
    void *at[N_IDS];
    m->scale = 1.0f / sqrtf((float)d);
    m->masked = -INFINITY;
    m->one = 1;
    m->at[ID_SCALE] = &m->scale;
    m->at[ID_MASKED] = &m->masked;
    m->at[ID_ONE] = backward ? &m->one : NULL;
    for (int i = 1; i < N_IDS; i++) {
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
