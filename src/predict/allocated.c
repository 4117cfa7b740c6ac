/* allocated.c - the parts of Megatron's memory.
 *
 * I1  Weights and gradients lie in Megatron's buffers and are reduced there, in place: there is no
 *     copy of the reduced slice. Only where gradients are kept in 16 bits and the optimizer is not
 *     precision-aware, its step makes an FP32 copy of the slices, beside no activation.
 * I2  If the GEMM itself accumulates weight gradients into the buffer, autograd still needs a
 *     tensor of the weight's shape. Transformer Engine caches one for each shape, in the weight's
 *     format, and never frees it.
 * I3  FP8 and FP4 without narrow parameters: each weight is cast once a step, by rows and by
 *     columns, and both casts stay.
 * I4  Graphs of parts of layers read and write tensors of their own, which stay: for each layer and
 *     microbatch in flight its input and its output.
 * I5  Moments of fewer than 32 bits: before release 2.14 Transformer Engine's Adam makes FP32
 *     copies of all that one optimizer updates. Newer ones read BF16 moments as they are; they are
 *     counted all the same, since a recipe does not say which release runs it. */
#include "predict/allocated.h"

#include <math.h>

#include "base/maths.h"
#include "layout/state.h"
#include "ir/memory/live.h"
#include "ir/shape.h"
#include "config/target.h"
#include "predict/dispatch.h"

#define CONTEXT_BYTES (600LL << 20)

typedef struct part_name {
    const char *name, *title;
} part_name;

static const part_name names[ALLOCATED_PARTS] = {
    [ALLOCATED_WEIGHTS] = {"weights", "weights"},
    [ALLOCATED_COPIES] = {"weight_copies", "FP8 copies of weights"},
    [ALLOCATED_GRADIENTS] = {"gradients", "gradients"},
    [ALLOCATED_OPTIMIZER] = {"optimizer", "optimizer"},
    [ALLOCATED_DUMMIES] = {"dummy_wgrads", "dummy weight gradients"},
    [ALLOCATED_WORKSPACES] = {"workspaces", "workspaces"},
    [ALLOCATED_GRAPHS] = {"graphs", "inputs and outputs of CUDA graphs"},
    [ALLOCATED_BATCH] = {"batch", "batch and rotary tables"},
    [ALLOCATED_PIPELINE] = {"pipeline", "pipeline buffers"},
    [ALLOCATED_ACTIVATIONS] = {"activations", "activations"},
    [ALLOCATED_LOGITS] = {"logits", "logits and their gradient"},
    [ALLOCATED_TEMPORARIES] = {"temporaries", "temporaries"},
    [ALLOCATED_STEP] = {"optimizer_step", "FP32 copies in the optimizer's step"},
};

static const part_name outside_names[OUTSIDE_PARTS] = {
    [OUTSIDE_CONTEXT] = {"context", "CUDA context and libraries"},
    [OUTSIDE_NCCL] = {"nccl", "NCCL buffers"},
    [OUTSIDE_DISPATCHER] = {"dispatcher", "dispatcher buffers"},
    [OUTSIDE_GRAPHS] = {"graphs", "CUDA graph pools"},
};

const char *allocated_name(allocated_part p)
{
    return names[p].name;
}

const char *allocated_title(allocated_part p)
{
    return names[p].title;
}

const char *outside_name(outside_part p)
{
    return outside_names[p].name;
}

const char *outside_title(outside_part p)
{
    return outside_names[p].title;
}

static int add_part(peak_part *out, int n, peak_part x)
{
    if (x.bytes) out[n++] = x;
    return n;
}

int peak_parts(peak_part out[PEAK_PARTS], const reported *r, const int64_t *arena_parts, arena *a)
{
    int n = 0;
    for (int i = 0; arena_parts && i < REGION_COUNT; i++) {
        bool moves = i == REGION_SAVED || i == REGION_TEMP;
        n = add_part(out, n,
                     (peak_part){region_name((region)i), region_title((region)i), arena_parts[i],
                                 false, moves});
    }
    for (int i = 0; !arena_parts && i < ALLOCATED_PARTS; i++)
        n = add_part(out, n,
                     (peak_part){names[i].name, names[i].title, r->part[i], false,
                                 i >= ALLOCATED_ACTIVATIONS});
    if (!arena_parts)
        n = add_part(out, n,
                     (peak_part){"unused", "held unused by the allocator",
                                 r->reserved - r->allocated, false, false});
    for (int i = 0; i < OUTSIDE_PARTS; i++)
        n = add_part(out, n,
                     (peak_part){arena_text(a, "outside_%s", outside_names[i].name),
                                 arena_text(a, "outside: %s", outside_names[i].title),
                                 r->outside_part[i], true, false});
    return n;
}

/* ---- state */

/* Bytes of an element that Transformer Engine caches beside a BF16 weight (I3). Blackwell's
 * GEMMs of tensors with one scale take either order, so that one copy is enough there. */
static double copy_bytes(const setup *s)
{
    const job *j = &s->j;
    bool fp8 = job_has(j, K_FP8), fp4 = job_has(j, K_FP4);
    if (fp4) return j->fp4_params ? 0 : 2 * (0.5 + 1.0 / 16);
    if (!fp8 || j->fp8_params) return 0;
    if (j->fp8_recipe == J_FP8_RECIPE_MXFP8) return 2 * (1 + 1.0 / 32);
    if (j->fp8_recipe == J_FP8_RECIPE_BLOCKWISE) return 2 * (1 + 4.0 / 16384);
    return s->gpu && s->gpu->arch >= ARCH_BLACKWELL ? 1 : 2;
}

/* cuBLAS's: of Transformer Engine's GEMMs 32 MiB from Hopper on and 4 MiB before it, as many for
 * each of the four streams of grouped ones (its get_cublas_workspace); torch's own has 32 and 8
 * MiB. Under sequence parallelism the head's input is gathered into one buffer that stays. */
static int64_t workspaces(const setup *s)
{
    bool old = s->gpu && s->gpu->arch < ARCH_HOPPER;
    bool grouped = s->m.moe->experts > 0 && s->j.grouped_gemm;
    return (1 + (grouped ? 4 : 0)) * ((old ? 4LL : 32LL) << 20) + ((old ? 8LL : 32LL) << 20);
}

static int64_t gathered(const setup *s, const step_shape *z)
{
    if (s->lay.tp == 1 || !s->j.sp) return 0;
    return dtype_bytes(z->types.activation, mul_sat(z->Tc, s->m.hidden));
}

/* I2; a tied head's weight is the table. */
static int64_t dummies(const setup *s, const number_types *t, bool head, const state_bytes *state)
{
    if (!s->j.grad_fusion) return 0;
    int64_t table = head && s->m.tied ? mul_sat(s->m.padded_vocab / s->lay.tp, s->m.hidden) : 0;
    return add_sat(dtype_bytes(t->weight, state->shapes), dtype_bytes(t->weight, table));
}

static int64_t copies(const setup *s, const state_bytes *state)
{
    return (int64_t)ceil((double)state->narrow * copy_bytes(s)); /* I3 */
}

static bool copies_gradients(const setup *s, const number_types *t)
{
    bool aware =
        s->j.precision_aware &&
        (!job_has(&s->j, K_FP8) || s->j.fp8_recipe == J_FP8_RECIPE_DELAYED || s->j.opt_offload);
    return t->masters && t->gradient != DTYPE_F32 && !aware;
}

/* Bytes of one element that Adam makes FP32 copies of (I5). */
static int64_t moment_copies(const number_types *t)
{
    if (!t->moments) return 0;
    return 4 * (int64_t)((t->first != DTYPE_F32) + (t->second != DTYPE_F32));
}

/* The larger of the dense weights' and the experts' slices: each has an optimizer of its own. */
static int64_t largest_slice(const setup *s, const state_bytes *b)
{
    int64_t n[2] = {0, 0}, most = 0;
    for (int c = 0; c < 3; c++) n[buffer_of(&s->lay, (param_class)c)] += b->elements[c];
    for (int i = 0; i < 2; i++) {
        int64_t slice = n[i] / optimizer_shards(&s->j, &s->lay, i);
        if (slice > most) most = slice;
    }
    return most;
}

static bool has_head(const setup *s, int64_t pp_rank)
{
    for (int64_t v = 0; v < s->pipe.vpp; v++)
        if (s->pipe.stages[v * s->pipe.pp + pp_rank].loss) return true;
    return false;
}

/* I4 */
static bool captures_parts(const setup *s)
{
    return s->j.graphs == J_GRAPHS_LOCAL || s->j.graphs == J_GRAPHS_TRANSFORMER_ENGINE;
}

int64_t allocated_state_sum(const allocated_state *s)
{
    int64_t sum = 0;
    for (int i = 0; i < ALLOCATED_PARTS; i++) sum = add_sat(sum, s->part[i]);
    return sum;
}

void allocated_state_of(allocated_state *out, const setup *s, int64_t pp_rank,
                        const state_bytes *state, const program_size *p)
{
    const step_shape z = step_shape_of(s);
    *out = (allocated_state){0};
    bool head = has_head(s, pp_rank);
    int64_t hidden = dtype_bytes(z.types.activation, mul_sat(z.T, s->m.hidden));
    const int64_t *bytes = p->bytes;
    int64_t *part = out->part;
    part[ALLOCATED_WEIGHTS] = bytes[REGION_WEIGHTS];
    part[ALLOCATED_GRADIENTS] = bytes[REGION_GRADIENTS];
    part[ALLOCATED_OPTIMIZER] = bytes[REGION_OPTIMIZER];
    part[ALLOCATED_COPIES] = copies(s, state);
    part[ALLOCATED_DUMMIES] = dummies(s, &z.types, head, state);
    part[ALLOCATED_WORKSPACES] = add_sat(workspaces(s), head ? gathered(s, &z) : 0);
    if (captures_parts(s)) part[ALLOCATED_GRAPHS] = mul_sat(p->layers, 2 * hidden);
    part[ALLOCATED_BATCH] = bytes[REGION_STEP];
    if (s->pipe.pp > 1) part[ALLOCATED_PIPELINE] = mul_sat(hidden, z.posts_early ? 2 : 1);
    if (copies_gradients(s, &z.types)) out->step = mul_sat(p->owned, 4); /* I1 */
    out->step = add_sat(out->step, mul_sat(largest_slice(s, state), moment_copies(&z.types)));
    if (!state_waits_on_host(&s->j)) return;
    out->waited = part[ALLOCATED_OPTIMIZER];
    out->step = add_sat(out->step, out->waited);
    part[ALLOCATED_OPTIMIZER] = 0;
}

int64_t allocated_state_least(const setup *s, int64_t pp_rank, const state_bytes *state)
{
    number_types t = number_types_of(&s->j);
    int64_t bytes = dummies(s, &t, has_head(s, pp_rank), state);
    return add_sat(add_sat(copies(s, state), workspaces(s)), bytes);
}

/* ---- reserved */

reserved_ratio reserved_ratio_of(const job *j)
{
    const char *conf = j->alloc_conf;
    bool narrow = job_has(j, K_FP8) || job_has(j, K_FP4);
    /* Published: 1.03 to 1.08. Pages are mapped where a block needs them; what was freed on another
     * stream, and graphs' pools, stay apart. */
    if (conf && text_contains(conf, "expandable_segments:true"))
        return (reserved_ratio){1.01, 1.03, 1.08, 0.1, 0.4};
    /* One H200 without them: 1.04 to 1.08 of BF16 that is kept; of what a layer makes again about
     * all (six runs of three and four layers); FP8 1.07 to 1.13 (one run of five: 1.26). */
    reserved_ratio x = {1.03, 1.065, 1.085, 1.0, 1.8};
    if (narrow) {
        x.middle += 0.03;
        x.high += 0.18;
    }
    return x;
}

static int64_t times(int64_t bytes, double ratio)
{
    return (int64_t)ceil((double)bytes * ratio);
}

/* ---- outside */

/* Communicators with more than one member; each keeps queues of 4 MiB for 16 to 32 channels, of
 * which about 192 MiB are seen. */
static int64_t nccl_bytes(const setup *s)
{
    static const comm_group groups[] = {GROUP_TP, GROUP_CP, GROUP_EP, GROUP_DP_CP, GROUP_EDP};
    int64_t n = s->pipe.pp > 1;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        n += group_width(s, groups[i]) > 1;
    return n * (192LL << 20);
}

static void see_outside(reported *out, const setup *s, int64_t graphs)
{
    if (job_on_cpu(&s->j)) return;
    out->outside_part[OUTSIDE_CONTEXT] = CONTEXT_BYTES; /* as nvidia-smi shows before any tensor */
    out->outside_part[OUTSIDE_NCCL] = nccl_bytes(s);
    bool megatron = !job_is_ours(&s->j); /* our dispatch has no library */
    out->outside_part[OUTSIDE_DISPATCHER] = megatron ? dispatch_library(s) : 0;
    out->outside_part[OUTSIDE_GRAPHS] = graphs;
    out->outside = 0;
    for (int i = 0; i < OUTSIDE_PARTS; i++)
        out->outside = add_sat(out->outside, out->outside_part[i]);
}

/* ---- all of it */

reported_frame reported_frame_least(const job *j)
{
    if (job_on_cpu(j)) return (reported_frame){0, 1, 0};
    if (job_is_ours(j)) return (reported_frame){CONTEXT_BYTES, 1, 0};
    reserved_ratio ratio = reserved_ratio_of(j);
    return (reported_frame){CONTEXT_BYTES, ratio.middle, ratio.again};
}

reported_frame reported_frame_of(const setup *s)
{
    reported r = {0};
    reported_frame f = reported_frame_least(&s->j);
    see_outside(&r, s, 0);
    f.outside = r.outside;
    return f;
}

int64_t reported_room(const reported_frame *f, int64_t usable)
{
    double room = (double)(usable - f->outside) / f->ratio;
    return room > 0 ? (int64_t)ceil(room) : 0;
}

int64_t reported_least(const reported_frame *f, int64_t bytes)
{
    return add_sat(times(bytes, f->ratio), f->outside);
}

int64_t reported_peak(const reported_frame *f, const reported_level *x)
{
    bool step = x->step > live_sum(x->live);
    int64_t allocated = add_sat(x->state, step ? x->step : live_sum(x->live));
    int64_t again = step ? 0 : times(x->live.again, f->again);
    return add_sat(add_sat(times(allocated, f->ratio), again), add_sat(f->outside, x->graphs));
}

void reported_of(reported *out, const setup *s, const allocated_state *state, live_level level,
                 int64_t graphs)
{
    *out = (reported){0};
    int64_t *part = out->part;
    for (int i = 0; i < ALLOCATED_PARTS; i++) part[i] = state->part[i];
    if (state->step > live_sum(level)) {
        part[ALLOCATED_STEP] = state->step - state->waited;
        part[ALLOCATED_OPTIMIZER] += state->waited;
    } else {
        part[ALLOCATED_ACTIVATIONS] = level.saved;
        part[ALLOCATED_LOGITS] = level.logits;
        part[ALLOCATED_TEMPORARIES] = level.temp;
    }
    for (int i = 0; i < ALLOCATED_PARTS; i++) out->allocated = add_sat(out->allocated, part[i]);
    reserved_ratio ratio = reserved_ratio_of(&s->j);
    int64_t again = state->step > live_sum(level) ? 0 : level.again;
    out->reserved = add_sat(times(out->allocated, ratio.middle), times(again, ratio.again));
    out->reserved_low = times(out->allocated, ratio.low);
    out->reserved_high = add_sat(times(out->allocated, ratio.high), times(again, ratio.again_high));
    see_outside(out, s, graphs);
    out->peak = add_sat(out->reserved, out->outside);
}

void reported_of_rank(reported *out, const setup *s, const program_size *p, int64_t graphs)
{
    allocated_state state;
    state_bytes bytes;
    int64_t pp_rank = rank_coordinates(&s->lay, p->rank).pp;
    state_of_stage(&bytes, s, pp_rank);
    allocated_state_of(&state, s, pp_rank, &bytes, p);
    reported_of(out, s, &state, p->level, graphs);
}

void reported_of_arena(reported *out, const setup *s, int64_t arena_bytes, int64_t graphs)
{
    *out = (reported){0};
    see_outside(out, s, graphs);
    out->peak = add_sat(arena_bytes, out->outside);
}
