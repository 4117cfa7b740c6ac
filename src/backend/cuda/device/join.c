/* join.c - how ranks reach each other: as threads of one process, through CUDA IPC, through shared
 * memory of the host, or by NCCL.
 *
 * I1  STATE and WORK of a rank are one allocation each, so one handle exports each of them. They
 *     are opened once, at join; when one is to be taken anew all ranks close what they have opened
 *     before any gives it back (leave).
 * I2  All ranks use the same way. Where CUDA IPC is refused to one of them, data goes through
 *     windows: a segment of shared memory for each rank, which all of them register. Its name is
 *     taken away as soon as all have opened it, so nothing is left when a job dies.
 *
 * I3  Ranks on several nodes use NCCL (nccl.c).
 *
 * MOEFOLD_TRANSPORT=ipc, shm or nccl in the environment asks for one of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cuda/device/gpu.h"

/* What a rank tells all others. */
typedef struct card {
    char host[64], shared_name[64];
    char gpu[sizeof(cudaUUID_t)];
    int64_t process;
    gpu_peer here; /* as the rank itself sees it: of use to threads of its process */
    cudaIpcMemHandle_t memory[SPACE_COUNT];
    cudaIpcEventHandle_t points[STREAM_COUNT][GROUP_COUNT][POINT_COUNT];
    cudaError_t exported; /* of the handles */
} card;

bool gpu_between_processes(const device *d)
{
    return d->c && !gpu_calls->shares_process(d->c);
}

/* ---- closing */

static void close_peer(gpu_peer *p)
{
    if (p->shared) {
        cudaHostUnregister(p->shared);
        munmap(p->shared, (size_t)p->shared_bytes);
    }
    for (int s = 0; p->opened && s < SPACE_COUNT; s++)
        if (p->memory[s]) cudaIpcCloseMemHandle(p->memory[s]);
    for (int s = 0; p->opened && s < STREAM_COUNT; s++)
        for (int k = 0; k < GROUP_COUNT; k++)
            for (int i = 0; i < POINT_COUNT; i++)
                if (p->points[s][k][i]) cudaEventDestroy(p->points[s][k][i]);
    *p = (gpu_peer){.opened = false};
}

void gpu_close_peers(gpu_state *g)
{
    for (int64_t r = 0; r < g->n_peers; r++) close_peer(&g->peers[r]);
    free(g->peers);
    g->peers = NULL;
    g->n_peers = 0;
    if (g->shared_name[0]) shm_unlink(g->shared_name);
    g->shared_name[0] = 0;
    gpu_nccl_close(g);
}

/* ---- threads, and CUDA IPC */

static void fill_card(const device *d, card *c)
{
    const gpu_state *g = gpu_of(d);
    int at = 0;
    struct cudaDeviceProp p;
    memset(c, 0, sizeof *c);
    gethostname(c->host, sizeof c->host - 1);
    if (!cudaGetDevice(&at) && !cudaGetDeviceProperties(&p, at))
        memcpy(c->gpu, p.uuid.bytes, sizeof c->gpu);
    c->process = (int64_t)getpid();
    memcpy(c->here.memory, g->memory, sizeof c->here.memory);
    memcpy(c->here.points, g->points, sizeof c->here.points);
    if (!gpu_between_processes(d)) return;
    for (int s = 0; s < SPACE_COUNT && !c->exported; s++)
        if (!space_is_host(s) && g->memory[s])
            c->exported = cudaIpcGetMemHandle(&c->memory[s], g->memory[s]);
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int k = 0; k < GROUP_COUNT; k++)
            for (int i = 0; i < POINT_COUNT && !c->exported && g->points[s][k][i]; i++)
                c->exported = cudaIpcGetEventHandle(&c->points[s][k][i], g->points[s][k][i]);
}

static cudaError_t open_peer(gpu_peer *p, const card *c)
{
    cudaError_t e = c->exported;
    p->opened = true;
    for (int s = 0; s < SPACE_COUNT && !e; s++) {
        void *at = NULL;
        if (space_is_host(s) || !c->here.memory[s]) continue;
        e = cudaIpcOpenMemHandle(&at, c->memory[s], cudaIpcMemLazyEnablePeerAccess);
        p->memory[s] = at;
    }
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int k = 0; k < GROUP_COUNT; k++)
            for (int i = 0; i < POINT_COUNT && !e && c->here.points[s][k][i]; i++)
                e = cudaIpcOpenEventHandle(&p->points[s][k][i], c->points[s][k][i]);
    return e;
}

/* ERR_MACHINE: the text says with whom CUDA IPC does not go. */
static status open_all(const device *d, const card *all, int64_t n, error *err)
{
    const int64_t own = (int64_t)getpid();
    for (int64_t r = 0; r < n; r++) {
        gpu_peer *p = &gpu_of(d)->peers[r];
        if (all[r].process == own && !all[r].exported) {
            *p = all[r].here;
            continue;
        }
        cudaError_t e = open_peer(p, &all[r]);
        if (!e) continue;
        cudaGetLastError();
        return error_set(err, ERR_MACHINE,
                         "CUDA IPC with rank %lld (process %lld): %s; repair: unset "
                         "MOEFOLD_TRANSPORT to use shared memory instead",
                         (long long)r, (long long)all[r].process, cudaGetErrorString(e));
    }
    return OK;
}

/* ---- shared memory */

static void *map_shared(const char *name, int flags, int64_t bytes, error *err)
{
    int file = shm_open(name, flags, 0600);
    int wrong = file < 0 ? errno : 0;
    if (!wrong && flags & O_CREAT) wrong = posix_fallocate(file, 0, (off_t)bytes);
    void *at =
        wrong ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!wrong && at == MAP_FAILED) wrong = errno;
    if (file >= 0) close(file);
    if (!wrong) return at;
    error_set(err, ERR_MACHINE,
              "messages through shared memory: %s of %lld bytes: %s; repair: enlarge /dev/shm",
              name, (long long)bytes, strerror(wrong));
    return NULL;
}

static status register_shared(gpu_peer *p, void *at, int64_t bytes, error *err)
{
    cudaError_t e = cudaHostRegister(at, (size_t)bytes, cudaHostRegisterPortable);
    p->shared = at;
    p->shared_bytes = bytes;
    if (!e) return OK;
    return error_set(err, ERR_MACHINE,
                     "cannot pin %lld bytes of shared memory: %s; repair: raise the limit of "
                     "locked memory (ulimit -l), or use fewer ranks",
                     (long long)bytes, cudaGetErrorString(e));
}

/* This rank's windows. */
static status make_windows(device *d, card *mine, const int64_t *sent, error *err)
{
    static atomic_int made;
    gpu_state *g = gpu_of(d);
    int64_t bytes = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        mine->here.window_at[s] = bytes;
        bytes += (sent[s] + 255) / 256 * 256;
    }
    mine->here.shared_bytes = bytes += 4096;
    snprintf(mine->shared_name, sizeof mine->shared_name, "/moefold-%lld-%lld-%d",
             (long long)getpid(), (long long)gpu_calls->rank(d->c), atomic_fetch_add(&made, 1));
    void *at = map_shared(mine->shared_name, O_CREAT | O_EXCL | O_RDWR, bytes, err);
    if (!at) return ERR_MACHINE;
    memcpy(g->shared_name, mine->shared_name, sizeof g->shared_name);
    return register_shared(&g->peers[gpu_calls->rank(d->c)], at, bytes, err);
}

static status open_windows(device *d, const card *all, int64_t n, error *err)
{
    gpu_state *g = gpu_of(d);
    for (int64_t r = 0; r < n; r++) {
        gpu_peer *p = &g->peers[r];
        memcpy(p->window_at, all[r].here.window_at, sizeof p->window_at);
        if (r == gpu_calls->rank(d->c)) continue;
        void *at = map_shared(all[r].shared_name, O_RDWR, all[r].here.shared_bytes, err);
        status st = at ? register_shared(p, at, all[r].here.shared_bytes, err) : ERR_MACHINE;
        if (st) return st;
    }
    return OK;
}

/* Collective; a rank that fails says so and ends the job. */
static status use_windows(device *d, card *mine, card *all, const int64_t *sent, error *err)
{
    gpu_state *g = gpu_of(d);
    const int64_t n = g->n_peers;
    for (int64_t r = 0; r < n; r++) close_peer(&g->peers[r]);
    status st = make_windows(d, mine, sent, err);
    if (st) return st;
    gpu_calls->collect(d->c, GROUP_WORLD, mine, sizeof *mine, all);
    st = open_windows(d, all, n, err);
    if (st) return st;
    gpu_calls->barrier(d->c, GROUP_WORLD);
    shm_unlink(g->shared_name); /* I2 */
    g->shared_name[0] = 0;
    g->staged = true;
    return OK;
}

/* ---- joining */

static bool one_node(const card *mine, const card *all, int64_t n)
{
    bool one = true;
    for (int64_t r = 0; r < n; r++) one = one && strcmp(all[r].host, mine->host) == 0;
    return one;
}

static status wanted(const char **way, error *err)
{
    const char *word = getenv("MOEFOLD_TRANSPORT");
    *way = word && *word ? word : "";
    if (!**way || strcmp(*way, "ipc") == 0 || strcmp(*way, "shm") == 0 || strcmp(*way, "nccl") == 0)
        return OK;
    return error_set(err, ERR_MACHINE,
                     "MOEFOLD_TRANSPORT=%s in the environment is not ipc, shm or nccl; unset it to "
                     "let moefold choose",
                     *way);
}

/* Does every rank say yes? Collective. */
static bool all_say(device *d, bool yes, int64_t n, char *room)
{
    char mine = yes;
    gpu_calls->collect(d->c, GROUP_WORLD, &mine, 1, room);
    for (int64_t r = 0; r < n; r++) yes = yes && room[r];
    return yes;
}

/* Processes that share a GPU run at the same time only under MPS. */
static bool take_turns(const device *d)
{
    int at = 0, mps = 0;
    cudaError_t e = cudaGetDevice(&at);
    if (!e) e = cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, at);
    return gpu_between_processes(d) && !e && !mps;
}

static void describe(gpu_state *g, const device *d, const card *mine, const card *all)
{
    int64_t sharing = 0;
    for (int64_t r = 0; r < g->n_peers; r++)
        sharing += memcmp(all[r].gpu, mine->gpu, sizeof mine->gpu) == 0;
    snprintf(g->transport, sizeof g->transport, "%s, %lld rank%s on this GPU%s",
             g->nccl                    ? gpu_nccl_name(g)
             : g->staged                ? "pinned shared memory"
             : gpu_between_processes(d) ? "CUDA IPC"
                                        : "threads of one process",
             (long long)sharing, sharing == 1 ? "" : "s",
             sharing > 1 && take_turns(d) ? ", time-sliced (MPS is not running)" : "");
}

/* On one node. */
static status connect_near(device *d, const char *way, card *mine, card *all, const int64_t *sent,
                           error *err)
{
    const int64_t n = gpu_of(d)->n_peers;
    bool shm = strcmp(way, "shm") == 0 && n > 1;
    status st = shm ? ERR_MACHINE : open_all(d, all, n, err);
    if (n == 1 || all_say(d, !st, n, (char *)all)) return st;
    if (strcmp(way, "ipc") == 0)
        return st ? st
                  : error_set(err, ERR_MACHINE,
                              "another rank may not use CUDA IPC; repair: unset MOEFOLD_TRANSPORT");
    return use_windows(d, mine, all, sent, err);
}

static status connect(device *d, card *mine, card *all, const device_traffic *t, error *err)
{
    gpu_state *g = gpu_of(d);
    const char *way;
    status st = wanted(&way, err);
    if (st) return st;
    cudaError_t e = gpu_make_points(d, &t->use);
    fill_card(d, mine);
    if (e) mine->exported = e;
    gpu_calls->collect(d->c, GROUP_WORLD, mine, sizeof *mine, all);
    bool far = !one_node(mine, all, g->n_peers) || strcmp(way, "nccl") == 0;
    st = far ? gpu_nccl_open(d, t, err) : connect_near(d, way, mine, all, t->sent, err);
    if (st) return st;
    gpu_calls->collect(d->c, GROUP_WORLD, mine, sizeof *mine, all);
    describe(g, d, mine, all);
    return OK;
}

status gpu_join(device *d, const device_traffic *t, error *err)
{
    gpu_state *g = gpu_of(d);
    const int64_t n = gpu_calls->size(d->c);
    card *mine = calloc(1, sizeof *mine), *all = calloc((size_t)n, sizeof *all);
    gpu_close_peers(g);
    g->staged = false;
    g->peers = calloc((size_t)n, sizeof *g->peers);
    status st = OK;
    if (!mine || !all || !g->peers)
        st = error_set(err, ERR_MACHINE, "no host memory for %lld ranks", (long long)n);
    else
        g->n_peers = n;
    if (!st) st = connect(d, mine, all, t, err);
    free(mine);
    free(all);
    return st;
}

void gpu_leave(device *d)
{
    gpu_close_peers(gpu_of(d));
    gpu_calls->barrier(d->c, GROUP_WORLD);
}

const char *gpu_transport(const device *d)
{
    return gpu_of(d)->transport;
}
