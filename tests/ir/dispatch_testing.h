/* dispatch_testing.h - a layer of experts on all ranks of a layout, in lockstep (lockstep.h), with
 * messages whose sizes are data.
 *
 * The tokens are the same for every layout: a fixed number of samples, dealt out to DP ranks. Rows
 * of messages are counted by how far they go. */
#ifndef TESTS_IR_DISPATCH_TESTING_H
#define TESTS_IR_DISPATCH_TESTING_H

#include "lockstep.h"

enum { SAMPLES = 8, SEQ = 16 };

#define GOLDEN "tests/data/golden/"
#define SIZES  "model.seq_length=16 train.global_batch_size=8 train.micro_batch_size="
#define ONE    SIZES "8 cluster.n_gpus=1 "

/* A layout: ranks of each kind, ranks in all, samples of a microbatch. */
typedef struct lay {
    int tp, cp, ep, etp, n;
} lay;

static inline const char *words_of(arena *a, lay l, const char *more)
{
    return arena_text(a,
                      SIZES "%d cluster.n_gpus=%d model.tensor_model_parallel_size=%d "
                            "model.context_parallel_size=%d model.expert_model_parallel_size=%d "
                            "model.expert_tensor_parallel_size=%d %s",
                      SAMPLES * l.tp * l.cp / l.n, l.n, l.tp, l.cp, l.ep, l.etp, more);
}

#define AMPLE     "moefold.moe_buffer_factor=8 "
#define ALLGATHER "model.moe_token_dispatcher_type=allgather "
#define ALLTOALL  "model.moe_token_dispatcher_type=alltoall "
#define NODES(n)  "cluster.gpus_per_node=" #n " cluster.nvlink_domain=" #n " "
#define FLEX(k)   "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=" #k " "

typedef struct traffic {
    double inside, across; /* floats between ranks of one node, of two nodes */
} traffic;

typedef struct layer_case {
    const char *model_name, *words;
    int64_t layer;
    unsigned drop;
} layer_case;

typedef struct layer_run {
    lockstep l;
    traffic rows;      /* messages of hidden states in forward */
    double aux, z;     /* sums over ranks, mean over DP */
    double most[2];    /* the fullest routed buffer: rows wanted, room */
    double load[1024]; /* of each expert, all ranks */
    const layer_case *c;
} layer_run;

static inline float *row_at(const lockstep *l, const builder *b, float *whole, int64_t t)
{
    int64_t S = b->S, sample = b->at.dp * b->B + t / S;
    return whole + (sample * b->seq + position_of(b, t % S)) * l->H;
}

/* Copies between this rank's [T][H] and the whole. */
static inline void deal(const lockstep *l, const builder *b, float *part, float *whole, bool back)
{
    size_t bytes = sizeof(float) * (size_t)l->H;
    for (int64_t t = 0; t < b->T; t++) {
        float *row = row_at(l, b, whole, b->at.tp * b->T + t), *mine = part + t * l->H;
        memcpy(back ? row : mine, back ? mine : row, bytes);
    }
}

static int64_t layer_of_experts; /* which layer experts_alone builds */

static inline void experts_alone(builder *b, segment *seg)
{
    int64_t size = b->T * b->s->m.hidden;
    const model_block *k = layer_block(model_layer(&b->s->m, layer_of_experts), BLOCK_MOE);
    block_bufs t;
    segment_init(seg, b, SEGMENT_LAYER, b->s, b->a);
    b->layer = layer_of_experts;
    b->module = MODULE_LAYER;
    int x = seg_saved(b, "x", size, 0), y = seg_other(b, "y", LIFE_OUTPUT, size);
    block_forward(b, &t, k, x, y);
    block_backward(b, &t, k, seg_other(b, "dh", LIFE_DHIDDEN, size));
    assert_int_equal(b->node, NODE_ATTN);
}

/* ---- messages */

static inline void all_reduce(lockstep *l, int phase, int i)
{
    float **sums = ARENA_ARRAY(l->a, float *, l->n);
    for (int64_t r = 0; r < l->n; r++) {
        const op *o = &l->ranks[r].seg.ops[phase][i];
        members g = members_of(&l->s, o->group, r, l->a);
        sums[r] = ARENA_ARRAY(l->a, float, o->dim[0]);
        for (int64_t p = 0; p < g.n; p++)
            for (int64_t k = 0; k < o->dim[0]; k++)
                sums[r][k] += l->ranks[g.ranks[p]].mem[o->out[0]][k];
    }
    for (int64_t r = 0; r < l->n; r++) {
        const op *o = &l->ranks[r].seg.ops[phase][i];
        memcpy(l->ranks[r].mem[o->out[0]], sums[r], sizeof(float) * (size_t)o->dim[0]);
    }
}

/* Rows from member `p` of the group to rank r. */
static inline void exchange_one(layer_run *x, const op *o, const members *g, int64_t p)
{
    lockstep *l = &x->l;
    int64_t r = g->ranks[g->place], from = g->ranks[p], P = g->n, W = o->dim[1];
    const lock_rank *source = &l->ranks[from];
    const int32_t *mine = (const int32_t *)l->ranks[r].mem[o->in[1]];
    const int32_t *theirs = (const int32_t *)source->mem[o->in[1]];
    int64_t at = theirs[g->place], n = theirs[P + g->place], to = mine[2 * P + p];
    if (n != mine[3 * P + p])
        fail_msg("%s: %d rows sent, %d taken", o->name, (int)n, mine[3 * P + p]);
    if (n == 0) return;
    assert_true(at >= 0 && (at + n) * W * 4 <= source->seg.bufs[o->in[0]].bytes);
    assert_true(to >= 0 && to + n <= o->dim[0]);
    assert_true(o->dim[0] * W * 4 <= l->ranks[r].seg.bufs[o->out[0]].bytes);
    memcpy(l->ranks[r].mem[o->out[0]] + to * W, source->mem[o->in[0]] + at * W,
           sizeof(float) * (size_t)(n * W));
    bool counts = o->phase == PHASE_FORWARD && W == l->H && strcmp(o->name, "dispatch.x") == 0;
    int64_t node = l->s.lay.gpus_per_node;
    if (counts && from / node != r / node) x->rows.across += (double)(n * W);
    if (counts && from / node == r / node && from != r) x->rows.inside += (double)(n * W);
}

static inline void exchange_all(layer_run *x, int phase, int i)
{
    lockstep *l = &x->l;
    for (int64_t r = 0; r < l->n; r++) {
        const op *o = &l->ranks[r].seg.ops[phase][i];
        members g = members_of(&l->s, o->group, r, l->a);
        if (g.n < 2 || o->in[0] == o->out[0]) fail_msg("%s goes to nobody", o->name);
        for (int64_t p = 0; p < g.n; p++) exchange_one(x, o, &g, p);
    }
}

static inline void run_layer_list(layer_run *x, int phase)
{
    lockstep *l = &x->l;
    for (int i = 0; i < l->ranks[0].seg.n_ops[phase]; i++) {
        op_kind kind = l->ranks[0].seg.ops[phase][i].kind;
        for (int64_t r = 0; r < l->n; r++)
            assert_int_equal(l->ranks[r].seg.ops[phase][i].kind, kind);
        if (kind == OP_EXCHANGE)
            exchange_all(x, phase, i);
        else if (kind == OP_ALL_REDUCE)
            all_reduce(l, phase, i);
        else if (op_is_comm(kind))
            run_message(l, phase, i);
        else
            for (int64_t r = 0; r < l->n; r++)
                run_kernel(&l->ranks[r], &l->ranks[r].seg.ops[phase][i]);
    }
}

/* ---- the whole of it */

static inline void prepare_rank(layer_run *x, lock_rank *k)
{
    for (int id = 0; id < k->seg.n_bufs; id++) {
        const buf *p = &k->seg.bufs[id];
        if (p->life == LIFE_STEP) memset(k->mem[id], 0, (size_t)p->bytes);
        if (p->life == LIFE_DHIDDEN) deal(&x->l, &k->b, k->mem[id], x->l.dy, false);
    }
    deal(&x->l, &k->b, k->mem[0], x->l.x, false);
}

static inline void collect_step(layer_run *x, const lock_rank *k, const buf *p, const float *mem)
{
    double dp = (double)x->l.s.lay.dp;
    if (p->step == STEP_AUX) x->aux += (double)mem[0] / dp;
    if (p->step == STEP_Z) x->z += (double)mem[0] / dp;
    for (int64_t e = 0; p->step == STEP_LOAD && e < k->b.s->m.moe->experts; e++)
        x->load[e] += (double)mem[e];
    if (p->step == STEP_OVERFLOW && (double)mem[0] * x->most[1] >= x->most[0] * (double)mem[1]) {
        x->most[0] = (double)mem[0];
        x->most[1] = (double)mem[1];
    }
}

static inline void collect_rank(layer_run *x, lock_rank *k)
{
    lockstep *l = &x->l;
    for (int id = 0; id < k->seg.n_bufs; id++) {
        const buf *p = &k->seg.bufs[id];
        float *mem = k->mem[id];
        if (p->life == LIFE_OUTPUT) deal(l, &k->b, mem, l->y, true);
        if (p->life == LIFE_DHIDDEN) deal(l, &k->b, mem, l->dx, true);
        if (p->life == LIFE_STEP) collect_step(x, k, p, mem);
        if (p->life != LIFE_GRADIENT) continue;
        bool whole_on_etp = strcmp(p->row->name, "mlp.experts.linear_fc2.bias") == 0;
        if (whole_on_etp && k->b.at.etp > 0) continue;
        weight_rows(l, &k->b, p->row, mem, l->gradients[p->row - l->s.params.rows], true);
    }
}

static inline void prepare_whole(layer_run *x, arena *a)
{
    lockstep *l = &x->l;
    int rows = l->s.params.n_rows;
    l->weights = ARENA_ARRAY(a, float *, rows);
    l->gradients = ARENA_ARRAY(a, float *, rows);
    for (int i = 0; i < rows; i++) {
        l->weights[i] = whole_weight(l, &l->s.params.rows[i]);
        l->gradients[i] = ARENA_ARRAY(a, float, param_elements(&l->s.params.rows[i]));
    }
    int64_t n = SAMPLES * SEQ * l->H;
    l->x = numbers(a, "x", n, 1);
    l->dy = numbers(a, "dy", n, 1);
    l->y = ARENA_ARRAY(a, float, n);
    l->dx = ARENA_ARRAY(a, float, n);
}

static inline layer_run *layer_run_of(arena *a, const layer_case *c)
{
    layer_run *x = ARENA_NEW(a, layer_run);
    lockstep *l = &x->l;
    *l = (lockstep){.a = a, .seq = SEQ, .in_parts = 1, .out_parts = 1};
    setup_of_words(&l->s, a, c->model_name, c->words);
    assert_true(l->s.possible);
    x->c = c;
    l->B = SAMPLES / l->s.lay.dp;
    l->H = l->s.m.hidden;
    l->n = l->s.lay.world;
    layer_of_experts = c->layer;
    prepare_whole(x, a);
    l->ranks = ARENA_ARRAY(a, lock_rank, l->n);
    for (int64_t r = 0; r < l->n; r++) {
        lock_rank *k = &l->ranks[r];
        k->b = builder_of(l, r);
        k->b.aux_gradient = 1.0 / (double)l->s.lay.dp;
        experts_alone(&k->b, &k->seg);
        segment_recompute(&k->seg, c->drop, a);
        for (int phase = 0; phase < 2; phase++)
            assert_int_equal(k->seg.n_ops[phase], l->ranks[0].seg.n_ops[phase]);
        make_memory(l, k);
        prepare_rank(x, k);
    }
    run_layer_list(x, SEG_FORWARD);
    for (int64_t r = 0; r < l->n; r++) forget_temporaries(&l->ranks[r]);
    run_layer_list(x, SEG_BACKWARD);
    for (int64_t r = 0; r < l->n; r++) collect_rank(x, &l->ranks[r]);
    return x;
}

#endif
