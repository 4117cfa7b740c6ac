/* harness.c - see harness.h. */
#include "cuda/harness.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/fused.h"
#include "ir/target.h"

enum { GUARD = 256, GUARD_BYTE = 0xA5, TENSORS = OP_IN_MAX + OP_OUT_MAX };

const char *const format_names[N_FORMATS] = {"FP32", "BF16", "mixed", "BF16 to FP32"};

/* ---- tensors */

double next_random(trial *t)
{
    t->random = t->random * 6364136223846793005U + 1442695040888963407U;
    return (double)(t->random >> 11) * 0x1p-52 - 1;
}

int64_t next_below(trial *t, int64_t n)
{
    int64_t i = (int64_t)((next_random(t) + 1) / 2 * (double)n);
    return i < n ? i : n - 1;
}

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

void tensor_reals(trial *t, tensor *x, int64_t n)
{
    tensor_release(x);
    *x = (tensor){.n = n, .start = take(sizeof(float) * (size_t)n)};
    for (int64_t i = 0; i < n; i++) x->f[i] = (float)next_random(t);
}

void tensor_ints(tensor *x, int64_t n)
{
    tensor_release(x);
    *x = (tensor){.n = n, .ints = true, .start = take(sizeof(int32_t) * (size_t)n)};
}

void tensor_doubles(trial *t, tensor *x, int64_t n)
{
    tensor_release(x);
    *x = (tensor){.n = n, .doubles = true, .start = take(sizeof(double) * (size_t)n)};
    for (int64_t i = 0; i < n; i++) x->d[i] = next_random(t);
}

void tensor_release(tensor *x)
{
    free(x->start);
    *x = (tensor){0};
}

void tensor_scale(tensor *x, double by, double plus)
{
    for (int64_t i = 0; i < x->n; i++) x->f[i] = (float)((double)x->f[i] * by + plus);
}

void oracle(const op *o, void *const *in, void *const *out)
{
    int n;
    const kernel *table = kernels_cpu(&n);
    const kernel *k = kernel_pick(table, n, o, NULL, true);
    if (!k) {
        fprintf(stderr, "%s has no row 0\n", op_infos[o->kind].name);
        exit(1);
    }
    static const op_types fp32;
    if (k->run)
        k->run(o, in, out);
    else
        k->launch(&(kernel_call){.row = k, .o = o, .types = &fp32, .in = in, .out = out});
}

/* ---- the CPU's side */

/* All tensors of a trial in the order inputs, outputs. */
typedef struct side {
    op_types types;
    void *data[TENSORS]; /* the CPU's: float or int32 */
} side;

static tensor *tensor_at(trial *t, int i)
{
    return i < OP_IN_MAX ? &t->in[i] : &t->out[i - OP_IN_MAX];
}

static dtype type_at(const side *s, int i)
{
    return i < OP_IN_MAX ? s->types.in[i] : s->types.out[i - OP_IN_MAX];
}

static size_t bytes_each(const tensor *x, dtype type)
{
    return x->doubles ? 8 : type == DTYPE_BF16 ? 2 : 4;
}

static bool borrows(const trial *t, int i)
{
    return t->in_place && i == OP_IN_MAX;
}

/* Of tensor i in the order of the letters; mixed: every second one. */
static dtype type_for(char letter, int i, bool is_result, formats f)
{
    if (letter == 'i') return DTYPE_I32;
    if (letter == 'd') return DTYPE_F64;
    if (letter != '.' || f == ALL_FP32) return DTYPE_F32;
    if (f == WIDE_RESULTS) return is_result ? DTYPE_F32 : DTYPE_BF16;
    return f == ALL_BF16 || i % 2 ? DTYPE_BF16 : DTYPE_F32;
}

/* Copies to and from the host go by bytes: both sides are alike. */
static bool is_host_copy(const op *o)
{
    return o->kind == OP_COPY_OUT || o->kind == OP_COPY_IN;
}

static void types_init(const trial *t, side *s, formats f)
{
    const char *in = op_infos[t->o.kind].types, *out = strchr(in, '>') + 1;
    const int n_in = (int)(out - 1 - in), n_out = (int)strlen(out);
    if (is_host_copy(&t->o) && f != ALL_FP32) f = ALL_BF16;
    for (int i = 0; i < OP_IN_MAX; i++)
        s->types.in[i] = type_for(i < n_in ? in[i] : 'f', i, false, f);
    for (int i = 0; i < OP_OUT_MAX; i++)
        s->types.out[i] = type_for(i < n_out ? out[i] : 'f', i + 1, true, f);
    if (t->in_place) s->types.out[0] = s->types.in[t->in_place - 1];
    /* Results that a row wants in FP32 are so: the first set of them that it accepts. */
    const op_types asked = s->types;
    for (int wide = 1; wide < 1 << n_out && !t->row->accepts(&t->o, &s->types); wide++) {
        s->types = asked;
        for (int i = t->in_place ? 1 : 0; i < n_out; i++)
            if (out[i] == '.' && wide >> i & 1) s->types.out[i] = DTYPE_F32;
    }
}

bool trial_is_taken(trial *t, formats f)
{
    side s;
    types_init(t, &s, f);
    return t->row->accepts(&t->o, &s.types);
}

bool trial_is_planned(trial *t, formats f)
{
    side s;
    types_init(t, &s, f);
    if (!t->row->accepts(&t->o, &s.types)) return true;
    const int64_t wanted = kernel_workspace_of(t->row, &t->o, &s.types),
                  planned = target_cuda_room(&t->o, &s.types);
    if (wanted <= planned) return true;
    printf("%s, %s, %s: wants %lld bytes of workspace, planned are %lld\n",
           op_infos[t->o.kind].name, t->row->name, format_names[f], (long long)wanted,
           (long long)planned);
    return false;
}

static float rounded(float v, dtype type)
{
    return type == DTYPE_BF16 ? bf16_to_float(bf16_of_float(v)) : v;
}

/* What the parts of a fused kind write is rounded to its format. */
static void oracle_of_parts(trial *t, side *s)
{
    int n;
    const kernel *table = kernels_cpu(&n), *k = kernel_pick(table, n, &t->o, NULL, true);
    const size_t bytes = kernel_workspace_bytes(&t->o);
    void *room = take(bytes);
    for (int i = 0; i < OP_IN_MAX; i++) s->types.in_elements[i] = t->in[i].n;
    for (int i = 0; i < OP_OUT_MAX; i++) s->types.out_elements[i] = t->out[i].n;
    kernels_workspace(room, bytes);
    fused_run(k, &t->o, &s->types, s->data, s->data + OP_IN_MAX);
    kernels_workspace(NULL, 0);
    free(room);
}

static void run_cpu(trial *t, side *s)
{
    for (int i = 0; i < TENSORS; i++) {
        const tensor *x = tensor_at(t, i);
        s->data[i] = NULL;
        if (!x->start) continue;
        if (borrows(t, i)) {
            s->data[i] = s->data[t->in_place - 1];
            continue;
        }
        const size_t bytes = bytes_each(x, DTYPE_F32) * (size_t)x->n;
        s->data[i] = take(bytes);
        memcpy(s->data[i], x->start, bytes);
        for (int64_t k = 0; !x->ints && !x->doubles && k < x->n; k++)
            ((float *)s->data[i])[k] = rounded(x->f[k], type_at(s, i));
    }
    if (op_is_fused(t->o.kind))
        oracle_of_parts(t, s);
    else
        oracle(&t->o, s->data, s->data + OP_IN_MAX);
}

/* ---- the GPU's side */

typedef struct card {
    void *data[TENSORS], *workspace, *state;
    size_t bytes[TENSORS], workspace_bytes;
    size_t guard; /* behind each */
    bool pinned;
    cudaStream_t stream;
} card;

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(3);
}

/* Pinned memory, which both can address, for what the host computes. */
static void *device_take(const card *g, size_t bytes)
{
    void *p = NULL;
    const size_t all = bytes + g->guard ? bytes + g->guard : 1;
    must(g->pinned ? cudaMallocHost(&p, all) : cudaMalloc(&p, all), "cudaMalloc");
    if (bytes + g->guard) must(cudaMemset(p, GUARD_BYTE, bytes + g->guard), "cudaMemset");
    return p;
}

static void gpu_init(trial *t, const side *s, card *g, bool exact)
{
    *g = (card){.guard = exact ? 0 : GUARD, .pinned = t->o.kind == OP_HOST_ADAMW};
    must(cudaStreamCreate(&g->stream), "cudaStreamCreate");
    for (int i = 0; i < TENSORS; i++) {
        const tensor *x = tensor_at(t, i);
        if (!x->start) continue;
        g->bytes[i] = bytes_each(x, type_at(s, i)) * (size_t)x->n;
        g->data[i] = borrows(t, i) ? g->data[t->in_place - 1] : device_take(g, g->bytes[i]);
    }
    g->workspace_bytes = (size_t)kernel_workspace_of(t->row, &t->o, &s->types);
    g->workspace = device_take(g, g->workspace_bytes);
    error err = {""};
    if (t->row->prepare && t->row->prepare(&t->o, &s->types, &g->state, &err) != OK) {
        fprintf(stderr, "%s, %s: %s\n", op_infos[t->o.kind].name, t->row->name, err.text);
        exit(3);
    }
}

static void gpu_release(const trial *t, card *g)
{
    cudaError_t (*const give)(void *) = g->pinned ? cudaFreeHost : cudaFree;
    for (int i = 0; i < TENSORS; i++)
        if (!borrows(t, i)) give(g->data[i]);
    give(g->workspace);
    if (t->row->release && g->state) t->row->release(g->state);
    cudaStreamDestroy(g->stream);
}

/* The tensor's start in its format. */
static void *encode(trial *t, const side *s, int i, size_t bytes)
{
    const tensor *x = tensor_at(t, i);
    void *p = take(bytes);
    if (type_at(s, i) == DTYPE_BF16)
        bf16_of_floats(p, x->f, x->n);
    else
        memcpy(p, x->start, bytes);
    return p;
}

/* Everything to its start, and a workspace of what is no number. */
static void upload(trial *t, const side *s, const card *g)
{
    for (int i = 0; i < TENSORS; i++) {
        if (!g->data[i] || borrows(t, i)) continue;
        void *p = encode(t, s, i, g->bytes[i]);
        must(cudaMemcpy(g->data[i], p, g->bytes[i], cudaMemcpyHostToDevice), "copy to the GPU");
        free(p);
    }
    if (g->workspace_bytes) must(cudaMemset(g->workspace, 0xFF, g->workspace_bytes), "cudaMemset");
    must(cudaDeviceSynchronize(), "upload");
}

static void launch(const trial *t, const side *s, const card *g)
{
    const kernel_call c = {.row = t->row,
                           .o = &t->o,
                           .types = &s->types,
                           .in = g->data,
                           .out = g->data + OP_IN_MAX,
                           .workspace = g->workspace,
                           .stream = (void *)g->stream,
                           .state = g->state};
    t->row->launch(&c);
    must(cudaPeekAtLastError(), op_infos[t->o.kind].name);
}

/* The same through a graph: nothing of a row may refuse to be captured. */
static void launch_captured(const trial *t, const side *s, const card *g)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    launch(t, s, g);
    must(cudaStreamEndCapture(g->stream, &graph), "end capture");
    must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    must(cudaGraphLaunch(exec, g->stream), "graph");
    must(cudaStreamSynchronize(g->stream), op_infos[t->o.kind].name);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

static void download(const card *g, void **to)
{
    must(cudaStreamSynchronize(g->stream), "synchronize");
    for (int i = 0; i < TENSORS; i++) {
        if (!g->data[i]) continue;
        to[i] = take(g->bytes[i]);
        must(cudaMemcpy(to[i], g->data[i], g->bytes[i], cudaMemcpyDeviceToHost), "copy back");
    }
}

static bool guard_is_whole(const void *p, size_t bytes)
{
    unsigned char behind[GUARD];
    must(cudaMemcpy(behind, (const char *)p + bytes, GUARD, cudaMemcpyDeviceToHost), "guard");
    for (int i = 0; i < GUARD; i++)
        if (behind[i] != GUARD_BYTE) return false;
    return true;
}

/* ---- comparing */

static float decode(const void *p, dtype type, int64_t i)
{
    return type == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* |got - want| / |want| by norm, one rounding to the result's format apart; equal numbers,
 * infinities too, are no error. Operands are about one: where they cancel, what FP32 loses of them
 * is no error either, so a fiftieth for each number is added to |want|. */
static double error_of(const void *got, const float *want, dtype type, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)decode(got, type, i), w = (double)want[i];
        if (g == w || (isnan(g) && isnan(w))) {
            size += isfinite(w) ? w * w : 0;
            continue;
        }
        double e = fabs(g - w) - (type == DTYPE_BF16 ? 0x1p-8 * fabs(w) : 0);
        if (e < 0) e = 0; /* what is no number stays so */
        apart += e * e;
        size += w * w;
    }
    return n > 0 ? sqrt(apart) / (sqrt(size) + 0.02 * sqrt((double)n)) : 0;
}

typedef struct say {
    char *text;
    int room;
    bool bad;
} say;

static void complain(say *y, const char *how, double x)
{
    if (!y->bad) snprintf(y->text, (size_t)y->room, how, x);
    y->bad = true;
}

/* Of a head whose logits are BF16 all else comes out of those. */
static bool has_narrow_logits(const kernel *row, const op_types *types)
{
    if (row->kind == OP_HEAD_LOSS) return strncmp(row->name, "cublaslt", 8) == 0;
    return (row->kind == OP_HEAD_PART || row->kind == OP_HEAD_PART_D) &&
           types->out[0] == DTYPE_BF16;
}

/* Beside one rounding of the result. Libraries round in between: attention its weights, the fast
 * head its logits, the delta rule in chunks its states, cuBLASLt what it adds to a BF16 result, all
 * to BF16; and sums in tensor cores are not quite FP32. */
static double bound_of(const kernel *row, const op_types *types, dtype result)
{
    if (has_narrow_logits(row, types)) /* sums beside a largest logit that is rounded */
        return row->kind == OP_HEAD_PART ? 3e-2 : 1e-2;
    if (strncmp(row->name, "cudnn", 5) == 0 || strcmp(row->name, "chunks") == 0) return 4e-3;
    if (strncmp(row->name, "cublaslt", 8) == 0) return result == DTYPE_BF16 ? 1e-3 : 2e-5;
    /* A number that is rounded between two parts may be rounded the other way. */
    if (op_is_fused(row->kind) && (types->in[0] == DTYPE_BF16 || result == DTYPE_BF16)) return 1e-3;
    if (row->kind == OP_MOVE && result == DTYPE_BF16) return 1e-3; /* two may be added to one */
    return strcmp(row->name, "plain") == 0 ? 1e-5 : 2e-5;
}

static void compare_output(trial *t, const side *s, void *const *got, int i, say *y)
{
    const tensor *x = tensor_at(t, i);
    char what[64];
    if (x->doubles) {
        const double *a = got[i], *b = s->data[i];
        for (int64_t k = 0; k < x->n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-12 * fabs(b[k])) && !(isnan(a[k]) && isnan(b[k])))
                complain(y, "a number in double precision is %g off", a[k] - b[k]);
        return;
    }
    if (x->ints) {
        for (int64_t k = 0; k < x->n; k++)
            if (((int32_t *)got[i])[k] != ((int32_t *)s->data[i])[k]) {
                snprintf(what, sizeof what, "output %d, element %d is %d, not %%g", i - OP_IN_MAX,
                         (int)k, (int)((int32_t *)got[i])[k]);
                complain(y, what, ((int32_t *)s->data[i])[k]);
                return;
            }
        return;
    }
    const double e = error_of(got[i], s->data[i], type_at(s, i), x->n);
    snprintf(what, sizeof what, "output %d is %%g off", i - OP_IN_MAX);
    if (!(e <= bound_of(t->row, &s->types, type_at(s, i)))) complain(y, what, e);
}

static void compare_all(trial *t, const side *s, const card *g, void *const *got, say *y)
{
    for (int i = 0; i < TENSORS; i++) {
        char what[64];
        if (!g->data[i]) continue;
        if (i >= OP_IN_MAX) {
            compare_output(t, s, got, i, y);
        } else if (t->in_place != i + 1) {
            void *was = encode(t, s, i, g->bytes[i]);
            snprintf(what, sizeof what, "input %d was written", i);
            if (memcmp(was, got[i], g->bytes[i])) complain(y, what, 0);
            free(was);
        }
        snprintf(what, sizeof what, "bytes behind tensor %d are written", i);
        if (g->guard && !guard_is_whole(g->data[i], g->bytes[i])) complain(y, what, 0);
    }
    if (g->guard && !guard_is_whole(g->workspace, g->workspace_bytes))
        complain(y, "bytes behind the workspace are written", 0);
}

/* The one sum with atomics is that of the first output. */
static void compare_bits(const trial *t, const card *g, void *const *a, void *const *b, say *y)
{
    const char *what = "another run, or a graph, gives other bits";
    const int first = strstr(t->row->name, "atomics") ? OP_IN_MAX + 1 : OP_IN_MAX;
    for (int i = first; i < TENSORS; i++)
        if (g->data[i] && memcmp(a[i], b[i], g->bytes[i])) complain(y, what, 0);
}

static void print_bits(const trial *t, formats f, const card *g, void *const *got)
{
    printf("%s, %s, %s, flags %u, way %d:", op_infos[t->o.kind].name, t->row->name, format_names[f],
           t->o.flags, t->way);
    for (int i = 0; i < OP_DIM_MAX; i++) printf(" %lld", (long long)t->o.dim[i]);
    for (int i = OP_IN_MAX; i < TENSORS; i++) {
        uint64_t hash = 14695981039346656037U;
        for (size_t k = 0; g->data[i] && k < g->bytes[i]; k++)
            hash = (hash ^ ((const unsigned char *)got[i])[k]) * 1099511628211U;
        if (g->data[i]) printf(" %016llx", (unsigned long long)hash);
    }
    printf("\n");
}

bool trial_check(trial *t, formats f, const manner *how, char *text, int room)
{
    side s;
    card g;
    void *got[3][TENSORS] = {{NULL}};
    say y = {text, room, false};
    types_init(t, &s, f);
    run_cpu(t, &s);
    gpu_init(t, &s, &g, how->exact);
    const int runs = how->once ? 1 : 3;
    for (int run = 0; run < runs; run++) {
        upload(t, &s, &g);
        (run == 2 ? launch_captured : launch)(t, &s, &g);
        download(&g, got[run]);
        if (run == 0) compare_all(t, &s, &g, got[0], &y);
        if (run == 0 && how->bits) print_bits(t, f, &g, got[0]);
    }
    if (runs == 3) {
        compare_bits(t, &g, got[0], got[1], &y);
        compare_bits(t, &g, got[0], got[2], &y);
    }
    for (int i = 0; i < TENSORS; i++) {
        if (!borrows(t, i)) free(s.data[i]);
        for (int run = 0; run < runs; run++) free(got[run][i]);
    }
    gpu_release(t, &g);
    return !y.bad;
}
