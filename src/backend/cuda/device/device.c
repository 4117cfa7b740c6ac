/* device.c - a GPU as a device: memory, streams, events, launches. Part of the CUDA object.
 *
 * I1  A failed call of the runtime inside a step ends the job: what was under way is lost, and the
 *     text names the operation that was put last and the one that each stream finished last.
 * I2  After each operation a stream writes the operation's number to pinned memory (log.h).
 * I3  Operations go through queues (issue.h): what is given to the GPU waits only for what it was
 *     given before. Ranks that share it move their messages by themselves (peers.c). */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend/device/entry.h"
#include "backend/cuda/device/gpu.h"
#include "backend/cuda/device/probe.h"
#include "backend/device/log.h"
#include "backend/cuda/kernels/cuda_rows.h"
#include "backend/cuda/kernels/cudnn_open.h"
#include "backend/cuda/kernels/lt.h"

static device_calls program;

static gpu_state *state_of(const device *d)
{
    return gpu_of(d);
}

/* ---- faults */

static const char *name_of(const op *o)
{
    return o ? o->name ? o->name : op_infos[o->kind].name : "nothing";
}

static void stop(const device *d, cudaError_t e, const char *what) /* I1 */
{
    char text[LOG_TEXT];
    int n = snprintf(text, sizeof text, "CUDA: %s: %s; ", what, cudaGetErrorString(e));
    log_text(d, text + n, sizeof text - (size_t)n);
    program.fail(d->c, text);
    abort();
}

void gpu_check(const device *d, cudaError_t e, const char *what)
{
    if (e != cudaSuccess) stop(d, e, what);
}

static void check(const device *d, cudaError_t e, const char *what)
{
    gpu_check(d, e, what);
}

/* "Not ready" is kept as the last error, which a launch would then be blamed for. */
bool gpu_is_past(const device *d, cudaEvent_t event, const char *what)
{
    cudaError_t e = cudaEventQuery(event);
    if (e == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
    }
    gpu_check(d, e, what);
    return true;
}

/* ---- which GPU */

static int wanted_gpu(int n)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                        "MPI_LOCALRANKID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i])) return atoi(getenv(names[i])) % n;
    return 0;
}

static void look(cuda_gpu *out)
{
    *out = (cuda_gpu){.count = 0};
    cudaDriverGetVersion(&out->driver);
    cudaRuntimeGetVersion(&out->runtime);
    int n = 0, at = 0;
    struct cudaDeviceProp p = {.major = 0};
    size_t left = 0, total = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (!e && n > 0) e = cudaSetDevice(at = wanted_gpu(n));
    if (!e && n > 0) e = cudaGetDeviceProperties(&p, at);
    if (!e && n > 0) e = cudaMemGetInfo(&left, &total);
    if (e) snprintf(out->why, sizeof out->why, "GPU %d: %.100s", at, cudaGetErrorString(e));
    if (e || n < 1) return;
    out->count = n;
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    memcpy(out->uuid, p.uuid.bytes, sizeof out->uuid);
    out->major = p.major;
    out->minor = p.minor;
    out->total = (int64_t)total;
    out->free = (int64_t)left;
}

static status look_for_cudnn(const char *folder, char *found, size_t room, error *err)
{
    const cudnn_library *library;
    cudnn_use(folder);
    status s = cudnn_open(&library, err);
    if (!s) snprintf(found, room, "%s", cudnn_found());
    return s;
}

/* ---- opening and closing */

static cudaError_t find_functions(gpu_state *g)
{
    void *list[2] = {NULL, NULL};
    static const char *const names[] = {"cuStreamWriteValue32", "cuStreamWaitValue32"};
    enum cudaDriverEntryPointQueryResult found;
    for (int i = 0; i < 2; i++) {
        cudaError_t e =
            cudaGetDriverEntryPointByVersion(names[i], &list[i], 12000, cudaEnableDefault, &found);
        if (e) return e;
    }
    memcpy(&g->write_value, &list[0], sizeof list[0]);
    memcpy(&g->wait_value, &list[1], sizeof list[1]);
    return cudaSuccess;
}

static cudaError_t open_streams(gpu_state *g)
{
    cudaError_t e = cudaSuccess;
    for (int s = 0; s < STREAM_COUNT && !e; s++)
        e = cudaStreamCreateWithFlags(&g->streams[s], cudaStreamNonBlocking);
    void *at = NULL, *there = NULL;
    if (!e) e = cudaHostAlloc(&at, sizeof *g->finished * STREAM_COUNT, cudaHostAllocMapped);
    if (!e) e = cudaHostGetDevicePointer(&there, at, 0);
    if (e) return e;
    memset(at, 0, sizeof *g->finished * STREAM_COUNT);
    g->finished = at;
    g->finished_at = (CUdeviceptr)(uintptr_t)there;
    return find_functions(g);
}

/* Bytes that all ranks of this process have taken, in pieces as the driver gives them. */
static atomic_llong taken_here;

static int64_t pieces(int64_t bytes)
{
    const int64_t piece = 2 << 20;
    return (bytes + piece - 1) / piece * piece;
}

static void give(gpu_state *g, device_space s)
{
    if (space_is_host(s))
        pinned_give(&g->host[s]);
    else
        cudaFree(g->memory[s]);
    if (!space_is_host(s)) atomic_fetch_sub(&taken_here, pieces(g->bytes[s]));
    g->memory[s] = NULL;
    g->bytes[s] = 0;
}

static void close_gpu(device *d)
{
    gpu_state *g = state_of(d);
    gpu_close_graphs(g);
    issue_close(d);
    gpu_close_points(d);
    for (int s = 0; s < SPACE_COUNT; s++) give(g, (device_space)s);
    for (int s = 0; s < STREAM_COUNT; s++)
        if (g->streams[s]) cudaStreamDestroy(g->streams[s]);
    for (int i = 0; i < g->n_events; i++) cudaEventDestroy(g->events[i]);
    for (int i = 0; i < g->n_stamps; i++) cudaEventDestroy(g->stamps[i]);
    free(g->stamps);
    d->log->finished = d->log->own;
    cudaFreeHost(g->finished);
    free(g->events);
    free(g);
    d->state = NULL;
}

/* ---- memory */

static const char *gibibytes(char out[32], int64_t bytes)
{
    snprintf(out, 32, "%.2f GiB", (double)bytes / (1 << 30));
    return out;
}

static status take(device *d, device_space s, int64_t bytes, error *err)
{
    gpu_state *g = state_of(d);
    void *at = NULL;
    cudaDeviceSynchronize();
    give(g, s);
    if (bytes <= 0) return OK;
    bool host = space_is_host(s);
    cudaError_t e = host ? pinned_take(&g->host[s], bytes) : cudaMalloc(&at, (size_t)bytes);
    if (!e && !host) e = cudaMemset(at, 0, (size_t)bytes);
    if (!e && !host) e = cudaDeviceSynchronize();
    if (!e) {
        if (!host) atomic_fetch_add(&taken_here, pieces(bytes));
        g->memory[s] = host ? g->host[s].at : at;
        g->bytes[s] = bytes;
        return OK;
    }
    size_t left = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&left, &total);
    char want[32], have[32], miss[32];
    if (host)
        return error_set(err, ERR_MACHINE, "cannot pin %s of host memory: %s",
                         gibibytes(want, bytes), cudaGetErrorString(e));
    return error_set(
        err, ERR_MACHINE,
        "cannot allocate %s for the planned arena on the GPU: %s are free, %s are missing (%s)",
        gibibytes(want, bytes), gibibytes(have, (int64_t)left),
        gibibytes(miss, bytes - (int64_t)left), cudaGetErrorString(e));
}

static int64_t outside_arena(device *d)
{
    size_t left = 0, total = 0;
    check(d, cudaMemGetInfo(&left, &total), "asking for the GPU's memory");
    return (int64_t)(total - left) - atomic_load(&taken_here);
}

static void *pointer(const device *d, device_address at)
{
    return state_of(d)->memory[at.space] + at.offset;
}

static void *map(const device *d, device_address at)
{
    return space_is_host(at.space) ? pointer(d, at) : NULL;
}

/* What the host itself touches comes behind the compute stream. */
static cudaStream_t compute_of(device *d)
{
    issue_until_stream(d, STREAM_COMPUTE);
    return state_of(d)->streams[STREAM_COMPUTE];
}

static void move_and_wait(device *d, void *to, const void *from, int64_t bytes, const char *what)
{
    cudaStream_t s = compute_of(d);
    check(d, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, s), what);
    check(d, cudaStreamSynchronize(s), what);
}

static void read(device *d, void *to, device_address from, int64_t bytes)
{
    move_and_wait(d, to, pointer(d, from), bytes, "reading from the GPU");
}

static void write(device *d, device_address to, const void *from, int64_t bytes)
{
    move_and_wait(d, pointer(d, to), from, bytes, "writing to the GPU");
}

static void fill(device *d, device_address to, int byte, int64_t bytes)
{
    cudaStream_t s = compute_of(d);
    check(d, cudaMemsetAsync(pointer(d, to), byte, (size_t)bytes, s), "filling the GPU's memory");
    check(d, cudaStreamSynchronize(s), "filling the GPU's memory");
}

static void join_map(unsigned char *to, const unsigned char *from, size_t n)
{
    size_t i = 0;
    for (uint64_t a, b; i + sizeof a <= n; i += sizeof a) {
        memcpy(&a, to + i, sizeof a);
        memcpy(&b, from + i, sizeof b);
        a |= b;
        memcpy(to + i, &a, sizeof a);
    }
    for (; i < n; i++) to[i] |= from[i];
}

/* In pieces: the map of one is made on the GPU and joined on the host. */
static void differ(device *d, device_address at, int byte, int64_t bytes, unsigned char *map_of)
{
    enum { PIECE = 1 << 28, WORDS = PIECE / 32 };
    static const char what[] = "comparing the GPU's memory";
    cudaStream_t s = compute_of(d);
    uint32_t *there = NULL, *here = NULL;
    check(d, cudaMalloc((void **)&there, WORDS * sizeof *there), what);
    check(d, cudaHostAlloc((void **)&here, WORDS * sizeof *here, cudaHostAllocDefault), what);
    for (int64_t n; bytes > 0; bytes -= n, at.offset += n, map_of += n / 8) {
        n = bytes < PIECE ? bytes : PIECE;
        size_t map_bytes = (size_t)(n + 7) / 8, words = (size_t)(n + 31) / 32;
        gpu_differ(s, pointer(d, at), byte, n, there);
        check(d, cudaMemcpyAsync(here, there, words * sizeof *here, cudaMemcpyDefault, s), what);
        check(d, cudaStreamSynchronize(s), what);
        join_map(map_of, (const unsigned char *)here, map_bytes);
    }
    cudaFree(there);
    cudaFreeHost(here);
}

static void copy(device *d, op_stream s, device_address to, device_address from, int64_t bytes)
{
    check(d,
          cudaMemcpyAsync(pointer(d, to), pointer(d, from), (size_t)bytes, cudaMemcpyDefault,
                          state_of(d)->streams[s]),
          "a copy");
}

/* ---- events */

static status events(device *d, int n, error *err)
{
    gpu_state *g = state_of(d);
    status st = issue_events(d, n, err);
    if (st) return st;
    n = issue_slots(n);
    for (int i = 0; i < g->n_events; i++) cudaEventDestroy(g->events[i]);
    free(g->events);
    g->n_events = 0;
    g->events = calloc((size_t)n + 1, sizeof *g->events);
    if (!g->events) return error_set(err, ERR_MACHINE, "no memory for %d events", n);
    for (; g->n_events < n; g->n_events++) {
        cudaError_t e = cudaEventCreateWithFlags(&g->events[g->n_events], cudaEventDisableTiming);
        if (e)
            return error_set(err, ERR_MACHINE, "the GPU's event %d of %d: %s", g->n_events, n,
                             cudaGetErrorString(e));
    }
    return OK;
}

static void record(device *d, op_stream s, int slot)
{
    gpu_state *g = state_of(d);
    check(d, cudaEventRecord(g->events[slot], g->streams[s]), "recording an event");
}

static void wait(device *d, op_stream s, int slot)
{
    gpu_state *g = state_of(d);
    check(d, cudaStreamWaitEvent(g->streams[s], g->events[slot], 0), "waiting for an event");
}

static void wait_here(device *d, int event)
{
    issue_until_recorded(d, event);
    check(d, cudaEventSynchronize(state_of(d)->events[issue_slot(d, event)]),
          "waiting for the GPU");
}

static bool is_complete(device *d, int event)
{
    if (!issue_recorded(d, event)) return false;
    return gpu_is_past(d, state_of(d)->events[issue_slot(d, event)], "asking for an event");
}

/* ---- stamps */

static status stamps(device *d, int n, error *err)
{
    gpu_state *g = state_of(d);
    for (int i = 0; i < g->n_stamps; i++) cudaEventDestroy(g->stamps[i]);
    free(g->stamps);
    g->n_stamps = 0;
    g->stamps = calloc((size_t)n + 1, sizeof *g->stamps);
    if (!g->stamps) return error_set(err, ERR_MACHINE, "no host memory for %d stamps", n);
    for (; g->n_stamps < n + 1; g->n_stamps++) {
        cudaError_t e = cudaEventCreate(&g->stamps[g->n_stamps]);
        if (e)
            return error_set(err, ERR_MACHINE, "the GPU's stamp %d of %d: %s", g->n_stamps, n,
                             cudaGetErrorString(e));
    }
    return OK;
}

static void stamp(device *d, op_stream s, int number)
{
    gpu_state *g = state_of(d);
    check(d, cudaEventRecord(g->stamps[number], g->streams[s]), "taking a stamp");
}

/* The event is recorded on an idle GPU: it passes as the host looks at its clock. */
static double stamp_origin(device *d)
{
    gpu_state *g = state_of(d);
    stamp(d, STREAM_COMPUTE, g->n_stamps - 1);
    check(d, cudaEventSynchronize(g->stamps[g->n_stamps - 1]), "the first stamp");
    return clock_seconds();
}

static double stamp_read(device *d, int number)
{
    gpu_state *g = state_of(d);
    float ms = 0;
    issue_all(d);
    check(d, cudaEventSynchronize(g->stamps[number]), "reading a stamp");
    check(d, cudaEventElapsedTime(&ms, g->stamps[g->n_stamps - 1], g->stamps[number]),
          "reading a stamp");
    return 1e-3 * (double)ms;
}

/* One that is still held by issue.c has passed long ago, or was never recorded: both are true. */
static bool stamp_passed(device *d, int number)
{
    return gpu_is_past(d, state_of(d)->stamps[number], "asking for a stamp");
}

/* ---- operations */

void gpu_end(device *d, op_stream s, const op *o, uint32_t number) /* I2 */
{
    gpu_state *g = state_of(d);
    CUdeviceptr at = g->finished_at + sizeof *g->finished * (size_t)s;
    check(d, cudaGetLastError(), name_of(o));
    if (g->write_value((CUstream)g->streams[s], at, number, CU_STREAM_WRITE_VALUE_DEFAULT))
        check(d, cudaErrorUnknown, name_of(o));
}

static void launch(device *d, op_stream s, kernel_call *c, uint32_t number)
{
    c->stream = state_of(d)->streams[s];
    if (state_of(d)->capturing) {
        c->row->launch(c);
        check(d, cudaGetLastError(), name_of(c->o));
        return;
    }
    log_begin(d, s, number, c->stream);
    c->row->launch(c);
    gpu_end(d, s, c->o, number);
}

static void sync(device *d)
{
    gpu_state *g = state_of(d);
    issue_all(d);
    for (int s = 0; s < STREAM_COUNT; s++)
        check(d, cudaStreamSynchronize(g->streams[s]), "waiting for the GPU");
}

static const issue_hooks hooks = {.wait = wait,
                                  .record = record,
                                  .launch = launch,
                                  .replay = gpu_replay,
                                  .copy = copy,
                                  .stamp = stamp,
                                  .staged = gpu_is_staged,
                                  .stage = gpu_stage,
                                  .by_library = gpu_by_library,
                                  .move_by = gpu_nccl_move,
                                  .fetch = gpu_fetch,
                                  .mark = gpu_mark,
                                  .passed = gpu_passed,
                                  .point = gpu_point,
                                  .await = gpu_await,
                                  .locate = gpu_locate,
                                  .peer = gpu_peer_pointer,
                                  .move = gpu_move,
                                  .sum = gpu_sum,
                                  .end = gpu_end};

static const char *path_of(const char *path)
{
    return path ? path : "";
}

static status open_gpu(device *d, const char *word, const device_options *o, error *err)
{
    cuda_gpu found;
    look(&found); /* takes it for this thread */
    cudnn_use(*word ? word : path_of(o->cudnn));
    lt_use_files(path_of(o->run_algorithms), path_of(o->earlier_algorithms),
                 path_of(o->tuned_algorithms), found.name, o->tunes);
    gpu_state *g = calloc(1, sizeof *g);
    if (!g) return error_set(err, ERR_MACHINE, "cannot open the GPU: out of host memory");
    d->state = g;
    status st = issue_open(d, &hooks, &program, err);
    cudaError_t e = st ? cudaErrorMemoryAllocation : open_streams(g);
    if (!e) e = gpu_open_points(d);
    if (!e) {
        d->log->finished = g->finished;
        d->runs_ahead = true;
        return OK;
    }
    close_gpu(d);
    if (st) return st;
    return error_set(err, ERR_MACHINE, "cannot open the GPU: %s; repair: moefold.device=cpu",
                     cudaGetErrorString(e));
}

static int gemms(const device *d, lt_use *list, int room)
{
    (void)d;
    return lt_uses(list, room);
}

status moefold_cuda_entry(int version, const device_calls *p, cuda_entry *out, error *err)
{
    if (version != CUDA_ENTRY_VERSION)
        return error_set(
            err, ERR_MACHINE,
            "moefold-cuda.so was built for another version of the program; repair: run `make`");
    program = *p;
    gpu_calls = &program;
    kernels_cuda_host(p->host_rows);
    *out = (cuda_entry){.table = {.name = "cuda",
                                  .open = open_gpu,
                                  .close = close_gpu,
                                  .rows = kernels_cuda,
                                  .take = take,
                                  .outside_arena = outside_arena,
                                  .pointer = pointer,
                                  .map = map,
                                  .read = read,
                                  .write = write,
                                  .fill = fill,
                                  .differ = differ,
                                  .copy = issue_copying,
                                  .events = events,
                                  .record = issue_record,
                                  .wait = issue_wait,
                                  .wait_here = wait_here,
                                  .is_complete = is_complete,
                                  .launch = issue_launch,
                                  .message = issue_message,
                                  .join = gpu_join,
                                  .leave = gpu_leave,
                                  .transport = gpu_transport,
                                  .graphs = gpu_graphs,
                                  .capture = gpu_capture,
                                  .captured = gpu_captured,
                                  .replay = issue_replay,
                                  .stamps = stamps,
                                  .stamp_origin = stamp_origin,
                                  .stamp = issue_stamp,
                                  .stamp_read = stamp_read,
                                  .stamp_passed = stamp_passed,
                                  .sync = sync,
                                  .settle = issue_all,
                                  .gemms = gemms},
                        .look = look,
                        .cudnn = look_for_cudnn};
    return OK;
}
