/* sdpa_graph.c - the graphs of attention and its gradients; see sdpa.h. */
#include "backend/cuda/kernels/sdpa_graph.h"

#include <string.h>

/* ---- descriptors */

void sdpa_graph_open(sdpa_graph *g, const cudnn_library *lib)
{
    memset(g, 0, sizeof *g);
    g->lib = lib;
    g->next_id = 100;
}

void sdpa_graph_release(sdpa_graph *g)
{
    for (int i = g->n_all - 1; i >= 0; i--) g->lib->cudnnBackendDestroyDescriptor(g->all[i]);
    g->n_all = 0;
}

node sdpa_make(sdpa_graph *g, cudnnBackendDescriptorType_t type)
{
    node n = NULL;
    if (!g->failed && g->n_all == SDPA_NODES) g->failed = CUDNN_STATUS_INTERNAL_ERROR;
    if (!g->failed) g->failed = g->lib->cudnnBackendCreateDescriptor(type, &n);
    if (!g->failed) g->all[g->n_all++] = n;
    return n;
}

void sdpa_set(sdpa_graph *g, node n, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t,
              int64_t count, const void *value)
{
    if (!g->failed) g->failed = g->lib->cudnnBackendSetAttribute(n, a, t, count, value);
}

void sdpa_set_node(sdpa_graph *g, node n, cudnnBackendAttributeName_t a, node value)
{
    sdpa_set(g, n, a, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

node sdpa_finish(sdpa_graph *g, node n)
{
    if (!g->failed) g->failed = g->lib->cudnnBackendFinalize(n);
    return n;
}

/* ---- tensors */

typedef struct four {
    int64_t x[4];
} four;

typedef enum place { INSIDE, IN_MEMORY, BY_VALUE } place;

typedef struct tensor {
    int64_t id;
    cudnnDataType_t type;
    four size, stride;
    place where;
} tensor;

static node tensor_of(sdpa_graph *g, tensor t)
{
    node n = sdpa_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t align = 16;
    const bool inside = t.where == INSIDE, by_value = t.where == BY_VALUE;
    if (inside) t.id = g->next_id++;
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t.type);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.size.x);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.stride.x);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t.id);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    sdpa_set(g, n, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return sdpa_finish(g, n);
}

/* Between operations, contiguous. */
static node inside(sdpa_graph *g, cudnnDataType_t type, four z)
{
    const int64_t *x = z.x;
    const four stride = {{x[1] * x[2] * x[3], x[2] * x[3], x[3], 1}};
    return tensor_of(g, (tensor){.type = type, .size = z, .stride = stride});
}

static bool is_of_keys(int64_t id)
{
    return id == SDPA_K || id == SDPA_V || id == SDPA_DK || id == SDPA_DV;
}

/* [B][S][H][D], seen as (b, h, s, d) or, turned, as (b, h, d, s). */
static node activation(sdpa_graph *g, int64_t id, int64_t heads, int64_t d, bool turned)
{
    const sdpa_shape z = g->shape;
    const int64_t s = is_of_keys(id) ? z.s_kv : z.s;
    const int64_t sample = (is_of_keys(id) ? z.kv_rows : z.q_rows) * heads * d;
    const four straight = {{z.b, heads, s, d}}, steps = {{sample, d, heads * d, 1}};
    const four across = {{z.b, heads, d, s}}, turns = {{sample, d, 1, heads * d}};
    return tensor_of(g, (tensor){id, CUDNN_DATA_BFLOAT16, turned ? across : straight,
                                 turned ? turns : steps, IN_MEMORY});
}

static node value(sdpa_graph *g, int64_t id, cudnnDataType_t type)
{
    const four one = {{1, 1, 1, 1}};
    return tensor_of(g, (tensor){id, type, one, one, BY_VALUE});
}

static node scores(sdpa_graph *g, cudnnDataType_t type)
{
    const sdpa_shape z = g->shape;
    return inside(g, type, (four){{z.b, z.h, z.s, z.s_kv}});
}

/* A number a query, between operations. */
static node per_row(sdpa_graph *g)
{
    const sdpa_shape z = g->shape;
    return inside(g, CUDNN_DATA_FLOAT, (four){{z.b, z.h, z.s, 1}});
}

static node rows_in_memory(sdpa_graph *g, int64_t id, four stride)
{
    const sdpa_shape z = g->shape;
    const four size = {{z.b, z.h, z.s, 1}};
    return tensor_of(g, (tensor){id, CUDNN_DATA_FLOAT, size, stride, IN_MEMORY});
}

static node stats(sdpa_graph *g)
{
    const sdpa_shape z = g->shape;
    return rows_in_memory(g, SDPA_STATS, (four){{z.h * z.q_rows, 1, z.h, 1}});
}

/* ---- operations */

static void add(sdpa_graph *g, node op)
{
    sdpa_finish(g, op);
    if (!g->failed && g->n_ops == SDPA_OPS) g->failed = CUDNN_STATUS_INTERNAL_ERROR;
    if (!g->failed) g->ops[g->n_ops++] = op;
}

typedef struct point {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t math;
    int64_t axis; /* -1: none */
    node x, b, t; /* NULL: not there */
} point;

static node pointwise_of(sdpa_graph *g, point p, node y)
{
    node d = sdpa_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    node op = sdpa_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    sdpa_set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
    sdpa_set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p.math);
    if (p.axis >= 0) sdpa_set(g, d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
    sdpa_finish(g, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
    if (p.b) sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
    if (p.t) sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(g, op);
    return y;
}

static node pointwise(sdpa_graph *g, cudnnPointwiseMode_t mode, node x, node b, node y)
{
    return pointwise_of(g, (point){mode, CUDNN_DATA_FLOAT, -1, x, b, NULL}, y);
}

static node reduce(sdpa_graph *g, cudnnReduceTensorOp_t mode, node x, node y)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    node d = sdpa_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    node op = sdpa_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    sdpa_set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    sdpa_set(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    sdpa_finish(g, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(g, op);
    return y;
}

static node matmul(sdpa_graph *g, node a, node b, node c)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    node d = sdpa_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    node op = sdpa_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    sdpa_set(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    sdpa_finish(g, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    add(g, op);
    return c;
}

static node reshape(sdpa_graph *g, node x, node y)
{
    node op = sdpa_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    sdpa_set_node(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(g, op);
    return y;
}

/* ---- the mask */

static node index_of(sdpa_graph *g, node x, int64_t axis)
{
    const point p = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, x, NULL, NULL};
    return pointwise_of(g, p, scores(g, CUDNN_DATA_INT32));
}

/* x where a compares with b as `mode` says, else the masked value. */
static node keep_where(sdpa_graph *g, cudnnPointwiseMode_t mode, node a, node b, node x)
{
    const point compare = {mode, CUDNN_DATA_BOOLEAN, -1, a, b, NULL};
    node kept = pointwise_of(g, compare, scores(g, CUDNN_DATA_BOOLEAN));
    const point select = {CUDNN_POINTWISE_BINARY_SELECT,
                          CUDNN_DATA_FLOAT,
                          -1,
                          x,
                          value(g, SDPA_MASKED, CUDNN_DATA_FLOAT),
                          kept};
    return pointwise_of(g, select, scores(g, CUDNN_DATA_FLOAT));
}

static node masked(sdpa_graph *g, node x)
{
    if (g->shape.full) return x;
    x = keep_where(g, CUDNN_POINTWISE_CMP_GE, index_of(g, x, 2), index_of(g, x, 3), x);
    if (g->shape.window <= 0) return x;
    const point shift = {CUDNN_POINTWISE_ADD,
                         CUDNN_DATA_INT32,
                         -1,
                         index_of(g, x, 3),
                         value(g, SDPA_WINDOW, CUDNN_DATA_INT32),
                         NULL};
    node row = index_of(g, x, 2), end = pointwise_of(g, shift, scores(g, CUDNN_DATA_INT32));
    return keep_where(g, CUDNN_POINTWISE_CMP_GT, end, row, x);
}

/* ---- the two graphs */

static void forward(sdpa_graph *g)
{
    const sdpa_shape z = g->shape;
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    node s = matmul(g, activation(g, SDPA_Q, z.h, z.d, false),
                    activation(g, SDPA_K, z.h_kv, z.d, true), scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_MUL, s, value(g, SDPA_SCALE, f), scores(g, f));
    s = masked(g, s);
    node most = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, per_row(g));
    s = pointwise(g, CUDNN_POINTWISE_SUB, s, most, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_EXP, s, NULL, scores(g, f));
    node sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, s, per_row(g));
    node log_sum = pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, per_row(g));
    pointwise(g, CUDNN_POINTWISE_ADD, most, log_sum, stats(g));
    node p = pointwise(g, CUDNN_POINTWISE_DIV, s, sum, scores(g, CUDNN_DATA_BFLOAT16));
    matmul(g, p, activation(g, SDPA_V, z.h_kv, z.d_v, false),
           activation(g, SDPA_O, z.h, z.d_v, false));
}

/* (b, h, kv, q) of what is stored as (b, h, q, kv). */
static node turn(sdpa_graph *g, node x)
{
    const sdpa_shape z = g->shape;
    const int64_t head = z.s * z.s_kv;
    const four size = {{z.b, z.h, z.s_kv, z.s}}, stride = {{z.h * head, head, 1, z.s_kv}};
    return reshape(
        g, x, tensor_of(g, (tensor){.type = CUDNN_DATA_BFLOAT16, .size = size, .stride = stride}));
}

/* Gradient of keys or values: of every query head, summed over those that share one. */
static void shared_heads(sdpa_graph *g, node a, node b, int64_t id, int64_t d)
{
    const sdpa_shape z = g->shape;
    node out = activation(g, id, z.h_kv, d, false);
    if (z.h == z.h_kv) {
        matmul(g, a, b, out);
        return;
    }
    node all = inside(g, CUDNN_DATA_BFLOAT16, (four){{z.b, z.h, z.s_kv, d}});
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, matmul(g, a, b, all), out);
}

/* Sum over a row of dO * O. */
static node row_dots(sdpa_graph *g, node d_o)
{
    const sdpa_shape z = g->shape;
    const four size = {{z.b, z.h, z.s, z.d_v}};
    const four as_o = {{z.h * z.s * z.d_v, z.s * z.d_v, z.h * z.d_v, 1}};
    const four contiguous = {{z.h * z.s, z.s, 1, 1}};
    node x =
        pointwise(g, CUDNN_POINTWISE_MUL, d_o, activation(g, SDPA_O, z.h, z.d_v, false),
                  tensor_of(g, (tensor){.type = CUDNN_DATA_FLOAT, .size = size, .stride = as_o}));
    x = reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, per_row(g));
    return pointwise(g, CUDNN_POINTWISE_MUL, x, value(g, SDPA_ONE, CUDNN_DATA_FLOAT),
                     rows_in_memory(g, SDPA_DO_O, contiguous));
}

/* From the gradient of the scores to that of queries (S2). */
static void query_gradient(sdpa_graph *g, node ds, node k, bool deterministic)
{
    const sdpa_shape z = g->shape;
    const four size = {{z.b, z.h_kv, z.s_kv, z.d}};
    const four stride = {{z.kv_rows * z.h_kv * z.d, z.d, z.h_kv * z.d, 1}};
    const four all = {{z.b, z.h, z.s, z.d}};
    const four steps = {{z.h * z.s * z.d, z.s * z.d, z.d, 1}};
    node rows = reshape(
        g, k, tensor_of(g, (tensor){.type = CUDNN_DATA_BFLOAT16, .size = size, .stride = stride}));
    node dq = activation(g, SDPA_DQ, z.h, z.d, false);
    if (deterministic) {
        matmul(g, ds, rows, dq);
        return;
    }
    node sum = tensor_of(g, (tensor){SDPA_DQ_SUM, CUDNN_DATA_FLOAT, all, steps, IN_MEMORY});
    matmul(g, ds, rows, sum);
    pointwise(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
}

static void backward(sdpa_graph *g, bool deterministic)
{
    const sdpa_shape z = g->shape;
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    node q = activation(g, SDPA_Q, z.h, z.d, false), k = activation(g, SDPA_K, z.h_kv, z.d, true);
    node v = activation(g, SDPA_V, z.h_kv, z.d_v, true),
         d_o = activation(g, SDPA_DO, z.h, z.d_v, false);
    node scale = value(g, SDPA_SCALE, f), dots = row_dots(g, d_o);

    node s = matmul(g, q, k, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_MUL, s, scale, scores(g, f));
    s = pointwise(g, CUDNN_POINTWISE_SUB, s, stats(g), scores(g, f));
    s = masked(g, s);
    node p = pointwise(g, CUDNN_POINTWISE_EXP, s, NULL, scores(g, f));
    shared_heads(g, turn(g, p), d_o, SDPA_DV, z.d_v);

    node ds = matmul(g, d_o, v, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_SUB, ds, dots, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, p, scores(g, f));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, scale, scores(g, CUDNN_DATA_BFLOAT16));
    shared_heads(g, turn(g, ds), q, SDPA_DK, z.d);
    query_gradient(g, ds, k, deterministic);
}

void sdpa_graph_init(sdpa_graph *g, const cudnn_library *lib, const sdpa_shape *z, sdpa_pass pass)
{
    sdpa_graph_open(g, lib);
    g->shape = sdpa_filled(*z);
    if (pass == SDPA_FORWARD)
        forward(g);
    else
        backward(g, pass == SDPA_DETERMINISTIC);
}
