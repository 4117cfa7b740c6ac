/* peers.c - messages between ranks, on streams: points, addresses, copies and sums.
 *
 * I1  A rank waits for a point of another that the other's host has recorded already, and does not
 *     record again before (issue.h, rendezvous.c). Events between processes are made for that. */
#include <stdlib.h>

#include "backend/cuda/device/gpu.h"
#include "backend/cuda/device/share.h"

const device_calls *gpu_calls;

/* ---- points */

cudaError_t gpu_open_points(device *d)
{
    gpu_state *g = gpu_of(d);
    void *tables = NULL;
    cudaError_t e = cudaSuccess;
    for (int s = 0; s < STREAM_COUNT && !e; s++)
        e = cudaEventCreateWithFlags(&g->marks[s], cudaEventDisableTiming);
    if (!e)
        e = cudaHostAlloc(&tables, sizeof *g->tables * STREAM_COUNT * 4 * PEERS_MAX,
                          cudaHostAllocDefault);
    if (!e) g->tables = tables;
    return e;
}

cudaError_t gpu_make_points(device *d, const comm_use *use)
{
    gpu_state *g = gpu_of(d);
    const unsigned between = gpu_between_processes(d) ? cudaEventInterprocess : 0;
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int k = 0; k < GROUP_COUNT; k++)
            for (int p = 0; p < POINT_COUNT && use->on[k][s]; p++) {
                cudaEvent_t *at = &g->points[s][k][p];
                cudaError_t e =
                    *at ? cudaSuccess
                        : cudaEventCreateWithFlags(at, cudaEventDisableTiming | between);
                if (e) return e;
            }
    return cudaSuccess;
}

void gpu_close_points(device *d)
{
    gpu_state *g = gpu_of(d);
    gpu_close_peers(g);
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (g->marks[s]) cudaEventDestroy(g->marks[s]);
        for (int k = 0; k < GROUP_COUNT; k++)
            for (int p = 0; p < POINT_COUNT; p++)
                if (g->points[s][k][p]) cudaEventDestroy(g->points[s][k][p]);
    }
    cudaFreeHost(g->tables);
}

/* ---- addresses */

device_address gpu_locate(const device *d, const void *at)
{
    const gpu_state *g = gpu_of(d);
    const unsigned char *p = at;
    for (int slack = 0; slack < 2; slack++) /* what is empty may lie at an end */
        for (int s = 0; s < SPACE_COUNT; s++)
            if (g->memory[s] && p >= g->memory[s] && p < g->memory[s] + g->bytes[s] + slack)
                return (device_address){(device_space)s, p - g->memory[s]};
    gpu_calls->fail(d->c, "a message buffer lies outside the device's memory");
    abort();
}

void *gpu_peer_pointer(const device *d, int64_t rank, device_address at)
{
    const gpu_state *g = gpu_of(d);
    if (at.space == (device_space)SPACE_WINDOW) return gpu_window(&g->peers[rank], at.offset);
    const bool own = rank == gpu_calls->rank(d->c);
    unsigned char *base = own ? g->memory[at.space] : g->peers[rank].memory[at.space];
    if (!base)
        gpu_calls->fail(d->c, "a message buffer lies in memory that other processes cannot open");
    return base + at.offset;
}

bool gpu_is_staged(const device *d)
{
    return gpu_of(d)->staged;
}

/* ---- on streams */

void gpu_stage(device *d, op_stream s, const void *from, int64_t bytes)
{
    gpu_state *g = gpu_of(d);
    unsigned char *to = gpu_window(&g->peers[gpu_calls->rank(d->c)], (int64_t)s);
    gpu_check(d, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, g->streams[s]),
              "staging a message");
}

const int32_t *gpu_fetch(device *d, op_stream s, const void *from, int64_t n)
{
    gpu_state *g = gpu_of(d);
    int32_t *to = g->tables + (size_t)s * 4 * PEERS_MAX;
    gpu_check(d,
              cudaMemcpyAsync(to, from, (size_t)n * sizeof *to, cudaMemcpyDefault, g->streams[s]),
              "fetching the counts of an exchange");
    return to;
}

void gpu_mark(device *d, op_stream s)
{
    gpu_state *g = gpu_of(d);
    gpu_check(d, cudaEventRecord(g->marks[s], g->streams[s]), "marking a stream");
}

bool gpu_passed(device *d, op_stream s)
{
    return gpu_is_past(d, gpu_of(d)->marks[s], "waiting for a stream");
}

void gpu_point(device *d, issue_point p)
{
    gpu_state *g = gpu_of(d);
    cudaEvent_t at = g->points[p.stream][p.group][p.kind];
    gpu_check(d, cudaEventRecord(at, g->streams[p.stream]), "a message's event");
}

void gpu_await(device *d, op_stream s, int64_t rank, issue_point theirs)
{
    gpu_state *g = gpu_of(d);
    cudaEvent_t at = g->peers[rank].points[theirs.stream][theirs.group][theirs.kind];
    gpu_check(d, cudaStreamWaitEvent(g->streams[s], at, 0), "waiting for another rank");
}

void gpu_move(device *d, op_stream s, const issue_copy *list, int n)
{
    share_move(gpu_of(d)->streams[s], list, n);
}

void gpu_sum(device *d, op_stream s, const issue_sum *x)
{
    share_sum(gpu_of(d)->streams[s], x);
}
