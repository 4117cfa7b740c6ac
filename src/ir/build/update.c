/* update.c - what a step begins and ends with.
 *
 * I1  Every operation names all the memory that it touches: a device may run them late, in any
 *     order that their addresses allow. So the arrays that the optimizer works on in pieces are
 *     named as wholes.
 * I2  What the verdict guards are the last operations of a step: they read it from memory. Nothing
 *     here depends on what the host has seen of a step.
 * I3  What the host keeps is updated in pieces, each a range of one bucket's slice: gradients are
 *     copied down, its processors update masters and moments where they lie, weights are copied
 *     back, whether the step is taken or not. Or, moved, masters and moments are copied up, updated
 *     by the device and copied back. Pieces take turns in as many places as there are. */
#include "ir/build/update.h"

#include <math.h>
#include <stdlib.h>

#include "op/update.h"

static void begin(builder *b, segment *seg, segment_kind kind)
{
    segment_init(seg, b, kind, b->s, b->a);
    b->module = MODULE_OPTIMIZER;
    b->role = ROLE_NONE;
    b->node = NODE_ATTN;
    b->layer_step = 0;
}

/* ---- buffers */

static int64_t elements_of(const program *p, step_buffer which)
{
    int64_t times = step_by_micro(which) ? p->micros : 1;
    return dtype_elements(step_type(which), times * p->step_bytes[which]);
}

/* A buffer of the step, of all microbatches; NONE: the model has none. */
static int of_step(builder *b, const program *p, step_buffer which)
{
    int64_t n = elements_of(p, which);
    if (!n) return NONE;
    return seg_fixed(b, step_names[which], REGION_STEP, p->step_offset[which], n, step_type(which));
}

/* Its copy on the host. */
static int staged(builder *b, const program *p, step_buffer which)
{
    return seg_fixed(b, step_names[which], REGION_STAGING, p->staging_offset[which],
                     elements_of(p, which), step_type(which));
}

static int gradients(builder *b, const program *p)
{
    return seg_fixed(b, "gradients", REGION_GRADIENTS, 0, p->weights.trained, p->types.gradient);
}

/* ---- begin */

static void copy(builder *b, const program *p, step_buffer which, bool up)
{
    if (!elements_of(p, which)) return;
    int host = staged(b, p, which), here = of_step(b, p, which);
    op *o = seg_op(b, SEG_FORWARD, up ? OP_COPY_IN : OP_COPY_OUT, step_names[which],
                   up ? IN(host) : IN(here), up ? OUT(here) : OUT(host),
                   DIM(elements_of(p, which), which));
    o->stream = up ? STREAM_COPY_BACK : STREAM_COPY;
    o->type = step_type(which);
}

static void zero(builder *b, const char *name, int buf_id)
{
    if (buf_id == NONE) return;
    const buf *y = &b->seg->bufs[buf_id];
    seg_op(b, SEG_FORWARD, OP_ZERO, name, NULL, OUT(buf_id),
           DIM(dtype_elements(y->type, y->bytes)));
}

/* ---- gradients that nobody writes whole */

/* Less than this between two ranges of zeros is made zero with them: a launch costs more. */
enum { GAP_LEAST = 4096 };

typedef struct span {
    int64_t start, end; /* elements */
} span;

static int by_start(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int written_spans(const program *p, span *out)
{
    int n = 0;
    for (int i = 0; i < p->weights.n && p->written; i++) {
        const weight *w = &p->weights.list[i];
        if (p->written[i] && w->n >= GAP_LEAST) out[n++] = (span){w->offset, w->offset + w->n};
    }
    qsort(out, (size_t)n, sizeof *out, by_start);
    return n;
}

static void zero_span(builder *b, const program *p, span s)
{
    dtype type = p->types.gradient;
    if (s.end > s.start)
        zero(b, "gradients",
             seg_fixed(b, "gradients", REGION_GRADIENTS, dtype_bytes(type, s.start),
                       s.end - s.start, type));
}

/* All but what is written: the padding between weights, too. */
static void zero_gradients(builder *b, const program *p)
{
    span *written = ARENA_ARRAY(b->a, span, p->weights.n + 1);
    int n = written_spans(p, written);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        zero_span(b, p, (span){at, written[i].start});
        at = written[i].end;
    }
    zero_span(b, p, (span){at, p->weights.trained});
}

void build_begin(builder *b, segment *seg, const program *p)
{
    static const step_buffer counters[] = {STEP_LOSS, STEP_MTP_LOSS, STEP_AUX,     STEP_Z,
                                           STEP_LOAD, STEP_GLOBAL,   STEP_OVERFLOW};
    begin(b, seg, SEGMENT_BEGIN);
    for (int i = 0; i < STEP_COUNT; i++)
        if (step_is_staged((step_buffer)i) == STAGED_UP && i != STEP_GIVEN)
            copy(b, p, (step_buffer)i, true);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        zero(b, step_names[counters[i]], of_step(b, p, counters[i]));
    zero_gradients(b, p);
}

/* ---- report */

/* Ranks of one TP group have the same losses: the first counts. */
static bool counts_tokens(const program *p)
{
    return program_head(p) && p->at.tp == 0;
}

/* Everybody's tallies, one after another; this rank's where it is alone. */
static int gathered(builder *b, const program *p, int tally)
{
    if (p->s->lay.world == 1) return tally;
    int all = of_step(b, p, STEP_TALLIES);
    op *o = seg_comm(b, SEG_FORWARD, OP_ALL_GATHER, "tallies", GROUP_WORLD, IN(tally), OUT(all),
                     DIM(SUM_COUNT));
    o->stream = STREAM_DP;
    return all;
}

static void judge(builder *b, const program *p, int sums, int given)
{
    const job *j = &p->s->j;
    bool skips = job_has(j, K_SKIP_NORM);
    op *o = seg_op(b, SEG_FORWARD, OP_VERDICT, "verdict", IN(sums, given),
                   OUT(of_step(b, p, STEP_VERDICT)), NULL);
    o->real[REAL_VERDICT_clip] = j->clip;
    o->real[REAL_VERDICT_skip] = skips ? j->skip_norm : (double)INFINITY;
    o->real[REAL_VERDICT_beta1] = j->beta1;
    o->real[REAL_VERDICT_beta2] = j->beta2;
}

/* Without an update nothing but clipping, were it on, would use the gradient's norm; it takes a
 * pass over all gradients. */
static bool asks_norm(const program *p)
{
    const job *j = &p->s->j;
    return p->types.moments || j->clip > 0 || job_has(j, K_SKIP_NORM);
}

void build_report(builder *b, segment *seg, const program *p)
{
    begin(b, seg, SEGMENT_REPORT);
    copy(b, p, STEP_GIVEN, true);
    bool counts = counts_tokens(p);
    int64_t world = p->s->lay.world, layers = p->s->m.n_layers + p->s->m.n_mtp;
    int squares = of_step(b, p, STEP_SQUARES), tally = of_step(b, p, STEP_TALLY);
    int given = of_step(b, p, STEP_GIVEN), sums = of_step(b, p, STEP_SUMS);
    if (!asks_norm(p))
        zero(b, "gradient norm", squares);
    else
        seg_op(b, SEG_FORWARD, OP_SQUARES, "gradient norm",
               IN(gradients(b, p), of_step(b, p, STEP_TABLE)), OUT(squares),
               DIM(p->weights.owned, program_trained_weights(p)));
    seg_op(b, SEG_FORWARD, OP_TALLY, "tally",
           IN(counts ? of_step(b, p, STEP_LOSS) : NONE,
              counts ? of_step(b, p, STEP_MTP_LOSS) : NONE, of_step(b, p, STEP_AUX),
              of_step(b, p, STEP_Z), of_step(b, p, STEP_OVERFLOW),
              counts ? of_step(b, p, STEP_COUNTS) : NONE, given, squares),
           OUT(tally), DIM(p->micros, layers));
    int all = gathered(b, p, tally);
    seg_op(b, SEG_FORWARD, OP_SUM, "sums", IN(all), OUT(sums), DIM(world, SUM_COUNT));
    judge(b, p, sums, given);
    for (int i = 0; i < STEP_COUNT; i++)
        if (step_is_staged((step_buffer)i) == STAGED_DOWN) copy(b, p, (step_buffer)i, false);
}

/* ---- update */

static void update_biases(builder *b, const program *p, int verdict)
{
    const model *m = &p->s->m;
    double rate = p->s->j.bias_rate;
    int64_t each = dtype_bytes(DTYPE_F32, m->moe->experts);
    if (!m->moe->expert_bias || rate == 0) return;
    if (group_width(p->s, GROUP_TP_DP_CP) > 1) {
        op *o = seg_comm(b, SEG_FORWARD, OP_ALL_REDUCE, "expert loads", GROUP_TP_DP_CP, NULL,
                         OUT(of_step(b, p, STEP_LOAD)), DIM(elements_of(p, STEP_LOAD)));
        o->stream = STREAM_DP;
    }
    for (int i = 0; i < p->weights.n; i++) {
        const weight *w = &p->weights.list[i];
        if (w->row->trained) continue;
        int load =
            seg_fixed(b, "expert loads", REGION_STEP, p->step_offset[STEP_LOAD] + w->layer * each,
                      m->moe->experts, DTYPE_F32);
        int bias = seg_fixed(b, w->row->name, REGION_WEIGHTS, program_weight_bytes(p, w->offset),
                             w->n, DTYPE_F32);
        op *o = seg_op(b, SEG_FORWARD, OP_BIAS_UPDATE, "expert bias", IN(load, verdict), OUT(bias),
                       DIM(w->n));
        o->real[REAL_BIAS_UPDATE_rate] = rate;
    }
}

/* Both kinds have the same numbers in the same places. */
static void set_numbers(op *o, const job *j)
{
    o->real[REAL_ADAMW_beta1] = j->beta1;
    o->real[REAL_ADAMW_beta2] = j->beta2;
    o->real[REAL_ADAMW_eps] = j->adam_eps;
    if (!j->decoupled_wd) o->flags |= DECAY_L2;
}

static int of_optimizer(builder *b, const program *p, const char *name, int64_t at, dtype type)
{
    return seg_fixed(b, name, REGION_OPTIMIZER, at, p->updated, type);
}

static void update_weights(builder *b, const program *p, int verdict)
{
    const number_types *t = &p->types;
    int weights = seg_fixed(b, "weights", REGION_WEIGHTS, 0, p->weights.trained, t->weight);
    int masters = t->masters ? of_optimizer(b, p, "masters", 0, t->master) : NONE;
    int first = of_optimizer(b, p, "first moments", p->first_offset, t->first);
    int second = of_optimizer(b, p, "second moments", p->second_offset, t->second);
    op *o = seg_op(b, SEG_FORWARD, OP_ADAMW, "AdamW",
                   IN(gradients(b, p), of_step(b, p, STEP_TABLE), verdict),
                   OUT(weights, masters, first, second),
                   DIM(p->weights.owned, program_trained_weights(p), (int64_t)0, p->updated));
    set_numbers(o, &p->s->j);
}

/* ---- what the host updates (I3) */

typedef struct kept_piece {
    int64_t own, at, n; /* elements: in masters and moments, in weights and gradients; how many */
    int64_t turn;
} kept_piece;

/* Between two buffers of one size and format. */
static void copy_part(builder *b, bool up, int from, int to)
{
    const buf x = b->seg->bufs[to];
    op *o = seg_op(b, SEG_FORWARD, up ? OP_COPY_IN : OP_COPY_OUT, x.name, IN(from), OUT(to),
                   DIM(dtype_elements(x.type, x.bytes), (int64_t)0));
    o->stream = up ? STREAM_COPY_BACK : STREAM_COPY;
    o->type = x.type;
}

static int kept_array(builder *b, const program *p, const char *name, int64_t start, dtype type,
                      const kept_piece *x)
{
    int64_t at = dtype_bytes(type, x->own - p->updated);
    return seg_fixed(b, name, REGION_KEPT, start + at, x->n, type);
}

/* Its place on the device while it is updated there: arrays follow each other, each with all
 * turns. */
static int moved_place(builder *b, const program *p, const char *name, int64_t bits, dtype type,
                       const kept_piece *x)
{
    int64_t all = p->kept.ring_depth * p->kept.piece;
    int64_t at = all / 8 * bits + x->turn * dtype_bytes(type, p->kept.piece);
    return seg_fixed(b, name, REGION_OPTIMIZER, at, x->n, type);
}

static int kept_stage(builder *b, const program *p, const char *name, int64_t start, dtype type,
                      const kept_piece *x)
{
    int64_t at = x->turn * dtype_bytes(type, p->kept.piece);
    return seg_fixed(b, name, REGION_KEPT, start + at, x->n, type);
}

static void update_piece(builder *b, const program *p, int table, const kept_piece *x)
{
    const number_types *t = &p->types;
    const kept_state *k = &p->kept;
    int down = kept_stage(b, p, "gradients", k->gradients, t->gradient, x);
    int up = kept_stage(b, p, "weights", k->weights, t->weight, x);
    int of_gradients = seg_fixed(b, "gradients", REGION_GRADIENTS, dtype_bytes(t->gradient, x->at),
                                 x->n, t->gradient);
    int of_weights =
        seg_fixed(b, "weights", REGION_WEIGHTS, program_weight_bytes(p, x->at), x->n, t->weight);
    int masters = t->masters ? kept_array(b, p, "masters", 0, t->master, x) : NONE;
    copy_part(b, false, of_gradients, down);
    if (!t->masters) copy_part(b, false, of_weights, up);
    op *o = seg_op(
        b, SEG_FORWARD, OP_HOST_ADAMW, "AdamW on the host",
        IN(down, table, staged(b, p, STEP_VERDICT)),
        OUT(up, masters, kept_array(b, p, "first moments", k->first, t->first, x),
            kept_array(b, p, "second moments", k->second, t->second, x)),
        DIM(p->weights.owned, elements_of(p, STEP_TABLE) / TABLE_COLUMNS, x->own, x->n, x->at));
    o->stream = STREAM_HOST;
    set_numbers(o, &p->s->j);
    copy_part(b, true, up, of_weights);
}

/* Masters and moments come, are updated where weights and gradients are, and go back (I3). */
static void move_piece(builder *b, const program *p, const kept_piece *x)
{
    const number_types *t = &p->types;
    const kept_state *k = &p->kept;
    const struct {
        const char *name;
        bool used;
        dtype type;
        int64_t kept;
    } arrays[] = {{"masters", t->masters, t->master, 0},
                  {"first moments", true, t->first, k->first},
                  {"second moments", true, t->second, k->second}};
    enum { ARRAYS = sizeof arrays / sizeof arrays[0] };
    int there[ARRAYS], here[ARRAYS];
    for (int i = 0, bits = 0; i < ARRAYS; i++) {
        there[i] = here[i] = NONE;
        if (!arrays[i].used) continue;
        there[i] = kept_array(b, p, arrays[i].name, arrays[i].kept, arrays[i].type, x);
        here[i] = moved_place(b, p, arrays[i].name, bits, arrays[i].type, x);
        bits += dtype_bits(arrays[i].type);
        copy_part(b, true, there[i], here[i]);
    }
    int weights = seg_fixed(b, "weights", REGION_WEIGHTS, 0, p->weights.trained, t->weight);
    op *o = seg_op(b, SEG_FORWARD, OP_ADAMW, "AdamW",
                   IN(gradients(b, p), of_step(b, p, STEP_TABLE), of_step(b, p, STEP_VERDICT)),
                   OUT(weights, here[0], here[1], here[2]),
                   DIM(p->weights.owned, program_trained_weights(p), x->own, x->n));
    set_numbers(o, &p->s->j);
    for (int i = 0; i < ARRAYS; i++)
        if (here[i] != NONE) copy_part(b, false, here[i], there[i]);
}

kept_at kept_start(const program *p)
{
    return (kept_at){.own = p->kept.n ? p->updated : p->weights.owned};
}

/* The host's copy of the update's table, made anew in a step's first list. */
static int kept_table(builder *b, const program *p, bool first)
{
    int table = seg_fixed(b, "table", REGION_KEPT, p->kept.table, elements_of(p, STEP_TABLE),
                          step_type(STEP_TABLE));
    if (first) copy_part(b, false, of_step(b, p, STEP_TABLE), table);
    return table;
}

void build_kept(builder *b, segment *seg, const program *p, kept_at *at)
{
    begin(b, seg, SEGMENT_UPDATE);
    int table = p->kept.moved ? NONE : kept_table(b, p, at->own == p->updated);
    for (int n = 0; n < UPDATE_PIECES && at->own < p->weights.owned; n++) {
        const bucket *k = &p->weights.buckets[at->bucket];
        while (k->moments + bucket_slice(k) <= at->own) k = &p->weights.buckets[++at->bucket];
        int64_t rest = k->moments + bucket_slice(k) - at->own;
        kept_piece x = {.own = at->own,
                        .at = bucket_slice_start(k) + at->own - k->moments,
                        .n = rest < p->kept.piece ? rest : p->kept.piece,
                        .turn = at->ring_depth++ % p->kept.ring_depth};
        if (p->kept.moved)
            move_piece(b, p, &x);
        else
            update_piece(b, p, table, &x);
        at->own += x.n;
    }
}

void build_update(builder *b, segment *seg, const program *p)
{
    begin(b, seg, SEGMENT_UPDATE);
    if (!p->types.moments) return;
    int verdict = of_step(b, p, STEP_VERDICT);
    update_biases(b, p, verdict);
    if (p->updated) update_weights(b, p, verdict);
}
