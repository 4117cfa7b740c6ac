/* peers.c - ranks that reach each other's memory: threads of one process, or processes of one node
 * through CUDA IPC.
 *
 * I1  STATE and WORK of a rank are one allocation each, so one handle exports each of them. They
 *     are opened once, at join; when one is to be taken anew all ranks close what they have opened
 *     before any gives it back (leave).
 * I2  A rank waits for a point of another that the other's host has recorded already (meeting.c).
 *     Events between processes are made for that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/gpu.h"
#include "device/cuda/share.h"

const device_calls *gpu_calls;

/* What a rank tells all others. */
typedef struct card {
    char host[64];
    int64_t process;
    gpu_peer here; /* as the rank itself sees it: of use to threads of its process */
    cudaIpcMemHandle_t memory[SPACE_COUNT];
    cudaIpcEventHandle_t points[STREAM_COUNT][POINT_COUNT];
    cudaError_t exported; /* of the handles */
} card;

static bool between_processes(const device *d)
{
    return d->c && !gpu_calls->shares_process(d->c);
}

/* ---- points */

cudaError_t gpu_open_points(device *d)
{
    gpu_state *g = gpu_of(d);
    unsigned flags = cudaEventDisableTiming;
    void *tables = NULL;
    cudaError_t e = cudaSuccess;
    if (between_processes(d)) flags |= cudaEventInterprocess;
    for (int s = 0; s < STREAM_COUNT && !e; s++) {
        e = cudaEventCreateWithFlags(&g->marks[s], cudaEventDisableTiming);
        for (int p = 0; p < POINT_COUNT && !e; p++)
            e = cudaEventCreateWithFlags(&g->points[s][p], flags);
    }
    if (!e)
        e = cudaHostAlloc(&tables, sizeof *g->tables * STREAM_COUNT * 4 * PEERS_MAX,
                          cudaHostAllocDefault);
    if (!e) g->tables = tables;
    return e;
}

static void close_peers(gpu_state *g)
{
    for (int64_t r = 0; r < g->n_peers; r++) {
        gpu_peer *p = &g->peers[r];
        if (!p->opened) continue;
        for (int s = 0; s < SPACE_COUNT; s++)
            if (p->memory[s]) cudaIpcCloseMemHandle(p->memory[s]);
        for (int s = 0; s < STREAM_COUNT; s++)
            for (int i = 0; i < POINT_COUNT; i++)
                if (p->points[s][i]) cudaEventDestroy(p->points[s][i]);
    }
    free(g->peers);
    g->peers = NULL;
    g->n_peers = 0;
}

void gpu_close_points(device *d)
{
    gpu_state *g = gpu_of(d);
    close_peers(g);
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (g->marks[s]) cudaEventDestroy(g->marks[s]);
        for (int p = 0; p < POINT_COUNT; p++)
            if (g->points[s][p]) cudaEventDestroy(g->points[s][p]);
    }
    cudaFreeHost(g->tables);
}

/* ---- joining */

static void fill_card(const device *d, card *c)
{
    const gpu_state *g = gpu_of(d);
    memset(c, 0, sizeof *c);
    gethostname(c->host, sizeof c->host - 1);
    c->process = (int64_t)getpid();
    memcpy(c->here.memory, g->memory, sizeof c->here.memory);
    memcpy(c->here.points, g->points, sizeof c->here.points);
    if (!between_processes(d)) return;
    for (int s = 0; s < SPACE_COUNT && !c->exported; s++)
        if (s != SPACE_HOST && g->memory[s])
            c->exported = cudaIpcGetMemHandle(&c->memory[s], g->memory[s]);
    for (int s = 0; s < STREAM_COUNT && !c->exported; s++)
        for (int p = 0; p < POINT_COUNT && !c->exported; p++)
            c->exported = cudaIpcGetEventHandle(&c->points[s][p], g->points[s][p]);
}

static cudaError_t open_peer(gpu_peer *p, const card *c)
{
    cudaError_t e = c->exported;
    p->opened = true;
    for (int s = 0; s < SPACE_COUNT && !e; s++) {
        void *at = NULL;
        if (s == SPACE_HOST || !c->here.memory[s]) continue;
        e = cudaIpcOpenMemHandle(&at, c->memory[s], cudaIpcMemLazyEnablePeerAccess);
        p->memory[s] = at;
    }
    for (int s = 0; s < STREAM_COUNT && !e; s++)
        for (int i = 0; i < POINT_COUNT && !e; i++)
            e = cudaIpcOpenEventHandle(&p->points[s][i], c->points[s][i]);
    return e;
}

static status meet_peer(const device *d, int64_t rank, const card *mine, const card *c, error *err)
{
    gpu_peer *p = &gpu_of(d)->peers[rank];
    if (strcmp(c->host, mine->host) != 0)
        return error_set(err, ERR_MACHINE,
                         "rank %lld is on %s, this one on %s: GPUs of one node exchange messages; "
                         "repair: all ranks on one node, or moefold.device=cpu",
                         (long long)rank, c->host, mine->host);
    if (c->process == mine->process) {
        *p = c->here;
        return OK;
    }
    cudaError_t e = open_peer(p, c);
    if (!e) return OK;
    cudaGetLastError();
    return error_set(err, ERR_MACHINE, "CUDA IPC with rank %lld (process %lld): %s",
                     (long long)rank, (long long)c->process, cudaGetErrorString(e));
}

status gpu_join(device *d, error *err)
{
    gpu_state *g = gpu_of(d);
    const int64_t n = gpu_calls->size(d->c);
    card mine, *all = calloc((size_t)n, sizeof *all);
    close_peers(g);
    g->peers = calloc((size_t)n, sizeof *g->peers);
    if (!all || !g->peers) {
        free(all);
        return error_set(err, ERR_MACHINE, "no host memory for %lld ranks", (long long)n);
    }
    g->n_peers = n;
    fill_card(d, &mine);
    gpu_calls->collect(d->c, GROUP_WORLD, &mine, sizeof mine, all);
    status st = OK;
    for (int64_t r = 0; r < n && !st; r++) st = meet_peer(d, r, &mine, &all[r], err);
    g->transport = n == 1                 ? "one rank"
                   : between_processes(d) ? "CUDA IPC"
                                          : "threads of one process";
    free(all);
    return st;
}

void gpu_leave(device *d)
{
    close_peers(gpu_of(d));
    gpu_calls->barrier(d->c, GROUP_WORLD);
}

const char *gpu_transport(const device *d)
{
    return gpu_of(d)->transport;
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
    gpu_calls->fail(d->c, "a message lies outside of the device's memory");
    abort();
}

void *gpu_peer_pointer(const device *d, int64_t rank, device_address at)
{
    const gpu_state *g = gpu_of(d);
    const bool own = rank == gpu_calls->rank(d->c);
    unsigned char *base = own ? g->memory[at.space] : g->peers[rank].memory[at.space];
    if (!base) gpu_calls->fail(d->c, "a message lies in memory that other processes cannot open");
    return base + at.offset;
}

/* ---- on streams */

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
    cudaError_t e = cudaEventQuery(gpu_of(d)->marks[s]);
    if (e == cudaErrorNotReady) return false;
    gpu_check(d, e, "waiting for a stream");
    return true;
}

void gpu_point(device *d, op_stream s, issue_point p)
{
    gpu_state *g = gpu_of(d);
    gpu_check(d, cudaEventRecord(g->points[s][p], g->streams[s]), "a message's event");
}

void gpu_await(device *d, op_stream s, int64_t rank, op_stream theirs, issue_point p)
{
    gpu_state *g = gpu_of(d);
    gpu_check(d, cudaStreamWaitEvent(g->streams[s], g->peers[rank].points[theirs][p], 0),
              "waiting for another rank");
}

void gpu_move(device *d, op_stream s, const issue_copy *list, int n)
{
    share_move(gpu_of(d)->streams[s], list, n);
}

void gpu_sum(device *d, op_stream s, const issue_sum *x)
{
    share_sum(gpu_of(d)->streams[s], x);
}
