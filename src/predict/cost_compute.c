/* cost_compute.c - times of GEMMs, attention and LM head: FLOPs over the reached fraction of the
 * peak, or bytes over the reached memory bandwidth.
 *
 * The fraction that a GEMM reaches has two factors: how well its result fills the chip (a curve
 * over the geometric mean of M and N, or over the rows of an expert), and the length of its sums
 * (half is reached at K = `depth`). FP8 and FP4 GEMMs need casts, which are passes over memory:
 * forward casts the input once, for itself and for the weight gradient; backward casts the output
 * gradient once for both of its GEMMs. Weights are cast once a step, which is part of the
 * optimizer's cost. */
#include <math.h>

#include "predict/cost_parts.h"
#include "predict/draw.h"
#include "op/quant.h"

double cost_memory(const cost_model *c, double bytes)
{
    const hardware *h = c->hw;
    return bytes / (h->memory_bandwidth * curve_at(&h->memory_efficiency, bytes));
}

double cost_memory_of(const cost_model *c, op_kind k, double bytes)
{
    return cost_memory(c, bytes) / c->kind_part[k];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A program that quantises by itself says which GEMMs are narrow. Of Megatron's the router
 * stays wide, and so does what is too small to be scaled in blocks. */
bool cost_is_narrow(const cost_model *c, const op *o)
{
    enum { BLOCK = 16 };
    if (c->gemms == c->plain || o->role == ROLE_ROUTER) return false;
    if (c->quantises) return op_is_quantised(o->kind);
    const op_info *kind = &op_infos[o->kind];
    if (kind->gradient == GRADIENT_OF_WEIGHTS && !c->narrow_weight_gradients) return false;
    int n = kind->cost == COST_CLASS_GEMM ? DIM_GEMM_N : DIM_GROUPED_N;
    return o->dim[n] % BLOCK == 0 && o->dim[n + 1] % BLOCK == 0;
}

static double peak_of(const cost_model *c, bool narrow)
{
    const hardware *h = c->hw;
    double clock = h->clock > 0 ? h->clock : 1;
    if (!narrow) return clock * h->peak[c->plain];
    return clock * h->peak[c->gemms] * h->narrow_rate[c->scaling];
}

/* FLOP/s of reference kernels (quant.cu), a thread a number, whatever the shape:
 * an estimate that nobody measured. A GEMM takes some 200 instructions, four divisions among
 * them, of which 132 multiprocessors start 2e13 a second. */
static const double REFERENCE = 2e11;

static double depth_part(const cost_model *c, bool narrow, double sum)
{
    return sum / (sum + c->hw->depth[narrow ? c->gemms : c->plain]);
}

/* The curve of an operation's form: that of the forward GEMM where no other was measured. */
static const curve *form_of(const curve *forward, const curve *gradients, const op *o)
{
    const op_gradient of = op_infos[o->kind].gradient;
    if (of == GRADIENT_NONE) return forward;
    const curve *own = &gradients[of == GRADIENT_OF_INPUTS ? GRADIENT_DATA
                                  : o->flags & OVERWRITE   ? GRADIENT_WEIGHT
                                                           : GRADIENT_ADDED];
    return own->n ? own : forward;
}

/* Sizes of a GEMM's result and the length of its sums. */
typedef struct gemm_shape {
    double rows, columns, sum;
} gemm_shape;

static gemm_shape shape_of(const op *o, double m, double n, double k)
{
    const op_gradient of = op_infos[o->kind].gradient;
    if (of == GRADIENT_NONE) return (gemm_shape){m, n, k};
    return of == GRADIENT_OF_INPUTS ? (gemm_shape){m, k, n} : (gemm_shape){n, k, m};
}

/* Bytes of both inputs and of the result: narrow inputs are read as such, however wide they lie. */
static double gemm_bytes(const cost_model *c, const segment *seg, const op *o, bool narrow)
{
    double bytes = (double)seg_op_bytes(seg, o), each = c->gemms == NUMBER_FP4 ? 0.5 : 1;
    for (int i = 0; narrow && !c->quantises && i < 2; i++) {
        if (o->in[i] < 0) continue;
        const buf *x = &seg->bufs[o->in[i]];
        double word = (double)dtype_bits(x->type) / 8;
        if (word > each) bytes -= (double)x->bytes * (1 - each / word);
    }
    return bytes;
}

/* The part of a GEMM's first input that this rank makes narrow: TP ranks cast their own tokens
 * and gather what they have cast. */
static double own_part(const cost_model *c, const segment *seg, const op *o)
{
    bool back = o->phase != PHASE_FORWARD && o->phase != PHASE_RECOMPUTE;
    int x = op_first_buf(o);
    for (int i = 0; i < seg->n_ops[back]; i++) {
        const op *m = &seg->ops[back][i];
        if (m->group != GROUP_TP || m->out[OUT_MESSAGE_y] != x) continue;
        if (op_is(m->kind, STEPPED)) return 0;
        if (op_is(m->kind, GATHERS) && !op_is(m->kind, SUMS))
            return 1 / c->groups[GROUP_TP].members;
    }
    return 1;
}

/* Passes that make inputs narrow: of the input forward, of the output's gradient backward. Hopper's
 * GEMMs by weight want it by columns, too, which is made of what was gathered. */
static double quantised(const cost_model *c, const op *o, double forward, double backward,
                        double own)
{
    const double turn = own < 1 && c->s->gpu && c->s->gpu->arch == ARCH_HOPPER ? 2 : 0;
    const op_gradient of = op_infos[o->kind].gradient;
    double elements = of == GRADIENT_NONE ? forward : of == GRADIENT_OF_INPUTS ? backward : 0;
    double bytes = elements * (own * c->hw->narrow_bytes[c->scaling] + turn);
    return bytes > 0 ? cost_memory(c, bytes) : 0;
}

/* Numbers of the results that fill the chip at once: GEMMs that fill less than half of it run
 * beside those of other streams. */
static double beside_others(double size)
{
    enum { STREAMS = 4, HALF = 1 << 21 };
    return size < HALF ? fmin(STREAMS * size, HALF) : size;
}

/* The result's numbers by which its part of the peak is read; Transformer Engine puts blocks beside
 * TP communication on several streams, too. */
static double size_of(const cost_model *c, const op *o, const gemm_shape *z)
{
    double size = z->rows * z->columns;
    if (o->blocks < 2 || !(c->hw->framework > 0)) return size;
    return fmin(beside_others(size), size * o->blocks);
}

double cost_gemm(const cost_model *c, const segment *seg, const op *o, double *quantise)
{
    double m = (double)o->dim[DIM_GEMM_M], n = (double)o->dim[DIM_GEMM_N];
    double k = (double)o->dim[DIM_GEMM_K];
    bool narrow = cost_is_narrow(c, o);
    gemm_shape z = shape_of(o, m, n, k);
    number_kind numbers = narrow ? c->gemms : c->plain;
    const curve *reached = form_of(&c->hw->gemm[numbers], c->hw->gemm_gradient[numbers], o);
    double rate = peak_of(c, narrow) * curve_at(reached, sqrt(size_of(c, o, &z))) *
                  depth_part(c, narrow, z.sum);
    double memory = cost_memory(c, gemm_bytes(c, seg, o, narrow));
    if (narrow && c->by_reference) rate = REFERENCE;
    *quantise = narrow && !c->quantises ? quantised(c, o, m * k, m * n, own_part(c, seg, o)) : 0;
    return *quantise + (rate > 0 ? larger(op_flops(o) / rate, memory) : memory);
}

/* Rows of the fullest rank, each expert's padded to whole tiles. */
static double padded_rows(const cost_model *c, double rows, double experts)
{
    double tile = c->hw->tile;
    if (c->hw->framework > 0) return experts * draw_padded(rows / experts, fmax(tile, c->aligned));
    return experts * tile * ceil(rows / experts / tile * (1 - 1e-9));
}

/* Is what this GEMM takes already narrow, because the GEMM before it wrote it so? */
static bool comes_narrow(const cost_model *c, const op *o)
{
    if (!c->fused_experts) return false;
    return o->role ==
           (op_infos[o->kind].gradient == GRADIENT_NONE ? ROLE_EXPERTS_FC2 : ROLE_EXPERTS_FC1);
}

/* Of experts' GEMMs, whose few tiles hide less of their beginning and end. */
static double grouped_deep(const cost_model *c, bool narrow, double sum)
{
    double own = narrow ? c->hw->grouped_narrow_depth : c->hw->grouped_depth;
    return own > 0 ? sum / (sum + own) : depth_part(c, narrow, sum);
}

/* What one of the GEMMs that are called for each expert reaches: that of a dense GEMM of its
 * size, beside those of other streams. On one H200 a loop of 128 calls with 2,048 rows reached 632,
 * 603, 606 TFLOP/s (N 1536 K 2048: forward, data and weight gradient) and 476, 496, 498 (N 2048 K
 * 768), Megatron's four streams 539 in all; this gives 577, 607, 577, 530, 500, 500. */
static double one_reaches(const cost_model *c, const op *o, bool narrow, const gemm_shape *z)
{
    number_kind numbers = narrow ? c->gemms : c->plain;
    const curve *reached = form_of(&c->hw->gemm[numbers], c->hw->gemm_gradient[numbers], o);
    return curve_at(reached, sqrt(beside_others(z->rows * z->columns))) *
           grouped_deep(c, narrow, z->sum);
}

static double grouped_reaches(const cost_model *c, const op *o, bool narrow, const gemm_shape *z,
                              double rows)
{
    const number_kind numbers = narrow ? c->gemms : c->plain;
    const curve *forward = &c->hw->grouped[numbers], *reached = forward;
    if (numbers == NUMBER_BF16) reached = form_of(forward, c->hw->grouped_gradient, o);
    if (numbers == NUMBER_FP8) reached = form_of(forward, c->hw->grouped_narrow, o);
    return curve_at(reached, rows) * grouped_deep(c, narrow, z->sum);
}

/* GEMMs of `experts` experts that share `rows` evenly. */
static double even_seconds(const cost_model *c, const op *o, double rows, double experts)
{
    double n = (double)o->dim[DIM_GROUPED_N], k = (double)o->dim[DIM_GROUPED_K];
    bool narrow = cost_is_narrow(c, o);
    double padded = padded_rows(c, rows, experts);
    double each = padded / experts;
    gemm_shape z = shape_of(o, each, n, k);
    double part =
        c->one_by_one ? one_reaches(c, o, narrow, &z) : grouped_reaches(c, o, narrow, &z, each);
    double rate = narrow && c->by_reference ? REFERENCE : peak_of(c, narrow) * part;
    return 2 * padded * n * k / rate;
}

/* Each expert with its own rows: few rows take longer each. `even`: rows of the mean expert. */
static double uneven_seconds(const cost_model *c, const op *o, const expert_loads *l, double even)
{
    double seconds = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (l->loads[i] > 0) seconds += even_seconds(c, o, even * l->loads[i], 1);
    return seconds;
}

/* Rows of all experts that are computed: of a quantised program's room, in which each expert may
 * begin at a multiple of the form's alignment, half of what that may take. */
static double computed_rows(const cost_model *c, const op *o)
{
    double room = (double)o->dim[DIM_GROUPED_ROOM];
    if (op_is_quantised(o->kind)) {
        const quant_form form = (quant_form)o->dim[DIM_QGROUPED_FORM];
        double aligning = (double)(o->dim[DIM_GROUPED_E] * (quant_info_of(form).align - 1));
        room -= 0.5 * fmin(aligning, room);
    }
    return floor(room * c->fill * (1 + 1e-12)); /* whole rows */
}

double cost_grouped(const cost_model *c, const segment *seg, const op *o, double *quantise)
{
    expert_loads l = cost_loads(c, seg, o);
    int64_t n_experts = o->dim[DIM_GROUPED_E];
    double even = computed_rows(c, o);
    double experts = (double)n_experts;
    double n = (double)o->dim[DIM_GROUPED_N], k = (double)o->dim[DIM_GROUPED_K];
    double rows = even * fmax(l.skew, c->fullest);
    bool narrow = cost_is_narrow(c, o);
    *quantise = 0;
    if (!(rows > 0 && experts > 0)) return 0;
    double seconds = l.loads && l.n == n_experts ? uneven_seconds(c, o, &l, even / experts)
                                                 : even_seconds(c, o, rows, experts);
    double memory = cost_memory(c, gemm_bytes(c, seg, o, narrow));
    double parts = c->one_by_one ? experts : 1; /* a kernel for each expert */
    if (narrow && !c->quantises && !comes_narrow(c, o))
        *quantise = parts * quantised(c, o, rows * c->padding * k / parts,
                                      rows * c->padding * n / parts, 1);
    if (*quantise > 0) *quantise += (parts - 1) * c->hw->least;
    return *quantise + larger(seconds, memory);
}

/* ---- attention */

static bool is_backward(op_kind k)
{
    return op_infos[k].gradient == GRADIENT_OF_INPUTS;
}

static bool has_sinks(const op *o)
{
    return (o->kind == OP_ATTN && o->in[IN_ATTN_sinks] >= 0) ||
           (o->kind == OP_ATTN_D && o->in[IN_ATTN_D_sinks] >= 0);
}

/* Every score in BF16, those that a mask or window hides, too: written; read by the softmax, the
 * lower half of them, and written again; read by the second GEMM. Backward read for the values'
 * gradient, its own gradient written, the lower half of both read and one written by the softmax's,
 * that one read twice. */
static double unfused_scores(const cost_model *c, const op *o)
{
    double length = (double)o->dim[DIM_ATTN_S];
    double scores = (double)o->dim[DIM_ATTN_B] * (double)o->dim[DIM_ATTN_N] * length * length;
    return cost_memory(c, scores * 2 * (is_backward(o->kind) ? 6 : 3.5));
}

/* Of the peak, by tokens that a token can see and size of a head. */
static double attention_part(const hardware *h, bool backward, double seen, double size)
{
    enum { WIDE = 128 };
    double wide = size > WIDE ? h->attention_wide[backward] : 0;
    if (wide > 0) return wide;
    return curve_at(&h->attention[backward], seen) * curve_at(&h->attention_head, size);
}

double cost_attention(const cost_model *c, const segment *seg, const op *o)
{
    const hardware *h = c->hw;
    double peak = h->peak[c->plain], memory = cost_memory(c, (double)seg_op_bytes(seg, o));
    bool block = o->kind == OP_ATTN_BLOCK || o->kind == OP_ATTN_BLOCK_D;
    int64_t seen = o->dim[block ? DIM_ATTN_BLOCK_SK : DIM_ATTN_S];
    int64_t window = o->dim[block ? DIM_ATTN_BLOCK_WINDOW : DIM_ATTN_WINDOW];
    int64_t size = o->dim[block ? DIM_ATTN_BLOCK_DV : DIM_ATTN_DV];
    bool windowed = window > 0 && window < seen;
    if (windowed) seen = window;
    double rate = peak * attention_part(h, is_backward(o->kind), (double)seen, (double)size);
    double unequal = h->attention_unequal[is_backward(o->kind)];
    if (unequal > 0 && o->dim[block ? DIM_ATTN_BLOCK_D : DIM_ATTN_D] != size) rate *= unequal;
    if (has_sinks(o)) rate *= h->attention_sinks;
    if (has_sinks(o) && c->unfused_sinks > (windowed ? 0 : 0.5)) memory = unfused_scores(c, o);
    return larger(op_flops(o) / rate, memory);
}

/* ---- delta rule */

/* A rank has whole sequences of some heads (CP exchanges tokens for heads), so that more ranks
 * shorten what all chunks share, but not the way from the first chunk to the last. Every head's
 * kernels are as many as there are blocks of its values. */
static double rule_chunks(const rule_rates *z, const op *o)
{
    const double usual = 128;
    double sequences = (double)o->dim[DIM_GDN_RULE_B], heads = (double)o->dim[DIM_GDN_RULE_Nv];
    double keys = (double)o->dim[DIM_GDN_RULE_Dk], values = (double)o->dim[DIM_GDN_RULE_Dv];
    double chunks = ceil((double)o->dim[DIM_GDN_RULE_S] / (double)o->dim[DIM_GDN_RULE_CHUNK]);
    double beside = z->heads > 0 ? sequences * heads * values / usual / z->heads : 1;
    return chunks * z->chunk[is_backward(o->kind)] * keys / usual * fmax(1, beside);
}

double cost_rule(const cost_model *c, const segment *seg, const op *o)
{
    const hardware *h = c->hw;
    const rule_rates *z = &h->rule;
    double own = z->part[is_backward(o->kind)],
           memory = cost_memory(c, (double)seg_op_bytes(seg, o));
    bool framework = h->framework > 0 && own > 0;
    double rate = h->peak[c->plain] * (framework ? own : h->linear_attention);
    return larger(op_flops(o) / rate, memory) + (framework ? rule_chunks(z, o) : 0);
}

/* ---- head: GEMMs with the vocabulary, and passes over logits that are kept nowhere */

double cost_chunk(const cost_model *c, const op *o)
{
    if (!(c->hw->framework > 0)) return 1;
    bool parts = o->kind == OP_HEAD_PART || o->kind == OP_HEAD_PART_D;
    if (parts) return (double)o->dim[DIM_HEAD_PART_ROWS] / (double)o->dim[DIM_HEAD_PART_T];
    if (o->role != ROLE_LOGIT_SUMS) return 1;
    const setup *s = c->s;
    double tokens = (double)s->j.seq * (double)s->j.mbs;
    return (double)o->dim[DIM_MESSAGE_N] / 3 / (tokens / (double)s->lay.cp);
}

double cost_head(const cost_model *c, const segment *seg, const op *o)
{
    const hardware *h = c->hw;
    bool whole = o->kind == OP_HEAD_LOSS || o->kind == OP_HEAD_LOGITS;
    double rows = (double)o->dim[whole ? DIM_HEAD_LOSS_T : DIM_HEAD_PART_ROWS];
    double width = (double)o->dim[DIM_HEAD_LOSS_V];
    double part = o->kind == OP_HEAD_LOSS ? 1 : 0.5; /* of loss and gradient */
    double loss = cost_memory(c, rows * width * h->logit_bytes * part);
    double one = cost_chunk(c, o);
    double memory = one * cost_memory(c, (double)seg_op_bytes(seg, o));
    return loss + larger(op_flops(o) / (peak_of(c, false) * h->head), memory);
}
