/* gpu.h - a GPU as a device, from inside; for src/backend/cuda/device only. */
#ifndef BACKEND_CUDA_DEVICE_GPU_H
#define BACKEND_CUDA_DEVICE_GPU_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "backend/device/entry.h"
#include "backend/cuda/device/pinned.h"
#include "backend/device/log.h"

/* Those of (stream, group) pairs that the program has messages of; else NULL. */
typedef cudaEvent_t gpu_points[STREAM_COUNT][GROUP_COUNT][POINT_COUNT];

/* What a rank knows of another: where its memory lies for this one, and its points (issue.h). */
typedef struct gpu_peer {
    unsigned char *memory[SPACE_COUNT];
    gpu_points points;
    bool opened; /* through CUDA IPC: to be closed */
    /* Staged: its windows, one behind the other in shared memory that this rank has registered. */
    unsigned char *shared;
    int64_t shared_bytes, window_at[STREAM_COUNT];
} gpu_peer;

static inline unsigned char *gpu_window(const gpu_peer *p, int64_t stream)
{
    return p->shared + p->window_at[stream];
}

typedef struct gpu_state {
    unsigned char *memory[SPACE_COUNT];
    int64_t bytes[SPACE_COUNT];
    pinned host[SPACE_COUNT]; /* of spaces that are the host's */
    cudaStream_t streams[STREAM_COUNT];
    cudaEvent_t *events;
    int n_events;
    cudaEvent_t *stamps; /* [n_stamps + 1], with times; the last is the origin */
    int n_stamps;
    atomic_uint *finished;           /* [STREAM_COUNT], pinned (I2) */
    CUdeviceptr finished_at;         /* the same for the GPU */
    cudaEvent_t marks[STREAM_COUNT]; /* where the host waits for a stream */
    gpu_points points;
    int32_t *tables; /* [STREAM_COUNT][4 * PEERS_MAX], pinned: counts of exchanges */
    gpu_peer *peers; /* [n_peers], by rank; after join */
    int64_t n_peers;
    cudaGraphExec_t *graphs; /* [n_graphs] */
    int n_graphs;
    bool capturing;
    bool staged;           /* data goes through shared memory */
    struct gpu_nccl *nccl; /* a library moves messages; NULL: ranks do */
    char transport[160];
    char shared_name[64]; /* of this rank's windows, while it has a name */
    CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
} gpu_state;

static inline gpu_state *gpu_of(const device *d)
{
    return (gpu_state *)d->state;
}

/* Ends the job where a call of the runtime failed: names what was under way. */
void gpu_check(const device *d, cudaError_t e, const char *what);

extern const device_calls *gpu_calls;

/* Behind an operation, its number is written. */
void gpu_end(device *d, op_stream s, const op *o, uint32_t number);

/* ---- graphs (graphs.c) */

status gpu_graphs(device *d, int n, error *err);
void gpu_capture(device *d, int graph);
int gpu_captured(device *d, int graph);
void gpu_replay(device *d, int graph, const op *o, uint32_t number);
void gpu_close_graphs(gpu_state *g);

/* Has the event passed? */
bool gpu_is_past(const device *d, cudaEvent_t event, const char *what);

/* ---- how ranks reach each other (join.c) */

bool gpu_between_processes(const device *d);
status gpu_join(device *d, const device_traffic *t, error *err);
void gpu_leave(device *d);
void gpu_close_peers(gpu_state *g);
const char *gpu_transport(const device *d);

/* ---- NCCL (nccl.c): of one rank a GPU, on one node or many. Opening is collective. */

status gpu_nccl_open(device *d, const device_traffic *t, error *err);
void gpu_nccl_close(gpu_state *g);
bool gpu_by_library(const device *d);
void gpu_nccl_move(device *d, op_stream s, const op *o, const int32_t *table, void *const *in,
                   void *const *out);
const char *gpu_nccl_name(const gpu_state *g); /* "NCCL 2.28.3" */

/* ---- messages (peers.c) */

cudaError_t gpu_open_points(device *d);
cudaError_t gpu_make_points(device *d, const comm_use *use); /* those that are not there yet */
void gpu_close_points(device *d);
bool gpu_is_staged(const device *d);
void gpu_stage(device *d, op_stream s, const void *from, int64_t bytes);

const int32_t *gpu_fetch(device *d, op_stream s, const void *from, int64_t n);
void gpu_mark(device *d, op_stream s);
bool gpu_passed(device *d, op_stream s);
void gpu_point(device *d, issue_point p);
void gpu_await(device *d, op_stream s, int64_t rank, issue_point theirs);
device_address gpu_locate(const device *d, const void *at);
void *gpu_peer_pointer(const device *d, int64_t rank, device_address at);
void gpu_move(device *d, op_stream s, const issue_copy *list, int n);
void gpu_sum(device *d, op_stream s, const issue_sum *x);

#endif
