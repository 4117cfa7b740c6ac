/* nccl.c - messages by NCCL, which is opened when it is asked for: one rank a GPU, on any nodes.
 *
 * I1  Each pair of a group and a stream that is in use has a communicator of its own, as in comm.
 *     Those between pipeline stages have two members, the one that sends and the one that
 *     receives, for each of both that a stage has: on one communicator operations follow each
 *     other, and a stage that waits for a hidden state could not send one.
 * I2  Sums are in NCCL's order, those of BF16 and FP16 rounded as NCCL does.
 *
 * Two ranks on one GPU are refused by NCCL. It has run with one rank; with more it is compiled. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/device/gpu.h"

#if defined __has_include
#if __has_include(<nccl.h>)
#define HAVE_NCCL 1
#include <nccl.h>
#endif
#endif

#ifdef HAVE_NCCL

#define FUNCTIONS(X)                                                                               \
    X(ncclGetVersion)                                                                              \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRank)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclAllGather)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllReduce)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclGetErrorString)

typedef struct library {
#define X(name) __typeof__(&(name)) name;
    FUNCTIONS(X)
#undef X
} library;

typedef struct gpu_nccl {
    library f;
    char name[32];
    ncclComm_t all[GROUP_COUNT][STREAM_COUNT];                                 /* by channel */
    ncclComm_t to[GROUP_COUNT][STREAM_COUNT], from[GROUP_COUNT][STREAM_COUNT]; /* I1 */
} gpu_nccl;

/* ---- opening */

static status find(library *f, error *err)
{
    static const char *const names[] = {
#define X(name) #name,
        FUNCTIONS(X)
#undef X
    };
    void *list[sizeof names / sizeof names[0]];
    void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!file)
        return error_set(err, ERR_MACHINE,
                         "NCCL cannot be opened: %s; repair: add its folder to LD_LIBRARY_PATH, or "
                         "run all ranks on one node",
                         dlerror());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!(list[i] = dlsym(file, names[i])))
            return error_set(err, ERR_MACHINE, "libnccl.so.2 has no %s", names[i]);
    _Static_assert(sizeof list == sizeof *f, "nothing but functions");
    memcpy(f, list, sizeof list);
    return OK;
}

static status refused(const gpu_nccl *l, ncclResult_t e, const char *what, error *err)
{
    return error_set(
        err, ERR_MACHINE,
        "%s: %s: %s; repair: run one rank per GPU, or on one node unset MOEFOLD_TRANSPORT", l->name,
        what, l->f.ncclGetErrorString(e));
}

/* Place 0's identity is the group's; of sends each member's is that of the pair in which it
 * sends. */
static status open_comm(device *d, int g, int k, int64_t step, error *err)
{
    gpu_nccl *l = gpu_of(d)->nccl;
    const members *who = gpu_calls->group(d->c, (comm_group)g);
    const int64_t n = who->n, back = step ? ((who->place - step) % n + n) % n : 0;
    ncclUniqueId mine, *ids = calloc((size_t)n, sizeof *ids);
    if (!ids) return error_set(err, ERR_MACHINE, "no host memory for groups of ranks");
    ncclResult_t e = l->f.ncclGetUniqueId(&mine);
    gpu_calls->collect(d->c, (comm_group)g, &mine, sizeof mine, ids);
    if (!e && step && n > 1) {
        e = l->f.ncclGroupStart();
        if (!e) e = l->f.ncclCommInitRank(&l->to[g][k], 2, ids[who->place], 0);
        if (!e) e = l->f.ncclCommInitRank(&l->from[g][k], 2, ids[back], 1);
        ncclResult_t end = l->f.ncclGroupEnd();
        if (!e) e = end;
    } else if (!e) {
        e = l->f.ncclCommInitRank(&l->all[g][k], (int)n, ids[0], (int)who->place);
    }
    free(ids);
    return e ? refused(l, e, "a communicator", err) : OK;
}

status gpu_nccl_open(device *d, const device_traffic *t, error *err)
{
    gpu_state *g = gpu_of(d);
    int version = 0;
    g->nccl = calloc(1, sizeof *g->nccl);
    if (!g->nccl) return error_set(err, ERR_MACHINE, "no host memory for NCCL");
    status st = find(&g->nccl->f, err);
    if (st) {
        free(g->nccl);
        g->nccl = NULL;
        return st;
    }
    g->nccl->f.ncclGetVersion(&version);
    snprintf(g->nccl->name, sizeof g->nccl->name, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    for (int group = 0; group < GROUP_COUNT && !st; group++) {
        bool on[STREAM_COUNT] = {false};
        for (int k = 0; k < STREAM_COUNT; k++)
            if (t->use.on[group][k]) on[op_stream_channel((op_stream)k)] = true;
        for (int k = 0; k < STREAM_COUNT && !st; k++)
            if (on[k]) st = open_comm(d, group, k, t->step[k], err);
    }
    return st;
}

void gpu_nccl_close(gpu_state *g)
{
    gpu_nccl *l = g->nccl;
    if (!l) return;
    for (int i = 0; i < GROUP_COUNT; i++)
        for (int k = 0; k < STREAM_COUNT; k++) {
            if (l->all[i][k]) l->f.ncclCommDestroy(l->all[i][k]);
            if (l->to[i][k]) l->f.ncclCommDestroy(l->to[i][k]);
            if (l->from[i][k]) l->f.ncclCommDestroy(l->from[i][k]);
        }
    free(l);
    g->nccl = NULL;
}

const char *gpu_nccl_name(const gpu_state *g)
{
    return g->nccl->name;
}

/* ---- messages */

static ncclDataType_t type_of(dtype t)
{
    switch (t) {
    case DTYPE_F32:
        return ncclFloat32;
    case DTYPE_F64:
        return ncclFloat64;
    case DTYPE_I32:
        return ncclInt32;
    case DTYPE_BF16:
        return ncclBfloat16;
    default: /* comm_can lets no other be summed */
        return ncclFloat16;
    }
}

typedef struct posting {
    const gpu_nccl *l;
    ncclComm_t comm;
    cudaStream_t stream;
    ncclResult_t failed;
} posting;

static void post(posting *p, bool gives, const void *at, int64_t bytes, int64_t place)
{
    if (p->failed || !bytes) return;
    const size_t n = (size_t)bytes;
    p->failed = gives ? p->l->f.ncclSend(at, n, ncclUint8, (int)place, p->comm, p->stream)
                      : p->l->f.ncclRecv((void *)(uintptr_t)at, n, ncclUint8, (int)place, p->comm,
                                         p->stream);
}

static void post_blocks(posting *p, const op *o, const int32_t *t, int64_t n, const char *x,
                        const char *y)
{
    const bool counts = op_is(o->kind, BY_TABLE);
    const int64_t b = dtype_bytes(o->type, o->dim[counts ? DIM_EXCHANGE_W : DIM_MESSAGE_N]);
    for (int64_t q = 0; q < n; q++) {
        post(p, true, x + (counts ? t[q] : q) * b, counts ? t[n + q] * b : b, q);
        post(p, false, y + (counts ? t[2 * n + q] : q) * b, counts ? t[3 * n + q] * b : b, q);
    }
}

static void post_shift(posting *p, const op *o, const members *who, const char *x, const char *y)
{
    const int64_t n = who->n, step = o->dim[DIM_MESSAGE_STEP],
                  b = dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]);
    post(p, true, x, b, ((who->place + step) % n + n) % n);
    post(p, false, y, b, ((who->place - step) % n + n) % n);
}

static ncclResult_t post_all(posting *p, const op *o, const int32_t *table, const members *who,
                             void *const *in, void *const *out)
{
    const library *f = &p->l->f;
    const bool gives = op_is(o->kind, GIVES);
    p->failed = f->ncclGroupStart();
    if (gives || op_is(o->kind, TAKES))
        post(p, gives, gives ? in[IN_MESSAGE_x] : out[OUT_MESSAGE_y],
             dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]), gives ? 1 : 0);
    else if (op_is(o->kind, STEPPED))
        post_shift(p, o, who, in[IN_MESSAGE_x], out[OUT_MESSAGE_y]);
    else
        post_blocks(p, o, table, who->n, in[IN_MESSAGE_x], out[OUT_MESSAGE_y]);
    const ncclResult_t end = f->ncclGroupEnd();
    return p->failed ? p->failed : end;
}

void gpu_nccl_move(device *d, op_stream s, const op *o, const int32_t *table, void *const *in,
                   void *const *out)
{
    gpu_state *g = gpu_of(d);
    const gpu_nccl *l = g->nccl;
    const op_stream k = op_stream_channel(s);
    const size_t n = (size_t)o->dim[DIM_MESSAGE_N];
    posting p = {l, l->all[o->group][k], g->streams[s], ncclSuccess};
    if (op_is(o->kind, GIVES)) p.comm = l->to[o->group][k];
    if (op_is(o->kind, TAKES)) p.comm = l->from[o->group][k];
    const bool sums = op_is(o->kind, SUMS);
    ncclResult_t e;
    if (sums && op_is(o->kind, SCATTERS))
        e = l->f.ncclReduceScatter(in[IN_MESSAGE_x], out[OUT_MESSAGE_y], n, type_of(o->type),
                                   ncclSum, p.comm, p.stream);
    else if (sums)
        e = l->f.ncclAllReduce(out[OUT_MESSAGE_y], out[OUT_MESSAGE_y], n, type_of(o->type), ncclSum,
                               p.comm, p.stream);
    else if (op_is(o->kind, GATHERS))
        e = l->f.ncclAllGather(in[IN_MESSAGE_x], out[OUT_MESSAGE_y],
                               (size_t)dtype_bytes(o->type, (int64_t)n), ncclUint8, p.comm,
                               p.stream);
    else
        e = post_all(&p, o, table, gpu_calls->group(d->c, o->group), in, out);
    if (!e) return;
    char text[256];
    snprintf(text, sizeof text, "operation %s (%s): %s: %s", o->name ? o->name : "",
             op_infos[o->kind].name, l->name, l->f.ncclGetErrorString(e));
    gpu_calls->fail(d->c, text);
}

#else

status gpu_nccl_open(device *d, const device_traffic *t, error *err)
{
    (void)d, (void)t;
    return error_set(err, ERR_MACHINE,
                     "this program was built without NCCL (nccl.h), which ranks on several nodes "
                     "need; repair: install it and run `make`, or run all ranks on one node");
}

void gpu_nccl_close(gpu_state *g)
{
    (void)g;
}

const char *gpu_nccl_name(const gpu_state *g)
{
    (void)g;
    return "NCCL";
}

void gpu_nccl_move(device *d, op_stream s, const op *o, const int32_t *table, void *const *in,
                   void *const *out)
{
    (void)d, (void)s, (void)o, (void)table, (void)in, (void)out;
}

#endif

bool gpu_by_library(const device *d)
{
    return gpu_of(d)->nccl != NULL;
}
