/* optimizer.c - the table of an update, and its steps on arrays. */
#include "train/executor/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "train/executor/owned.h"

/* ---- which weights */

/* Experts that a file keeps one by one have a dimension less there than here. */
static int dimensions_in_file(const param *row)
{
    return row->n_dims - (row->kind == PARAM_EXPERT && row->hf == HF_EXPERT_ROWS);
}

bool optimizer_decays(const param *row, decay_rule rule, bool qk_norms)
{
    if (!row->trained) return false;
    if (rule == DECAY_FILE) return dimensions_in_file(row) >= 2;
    return row->decay || (qk_norms && row->role == WEIGHT_QK_NORM);
}

/* Megatron's decoupled rate is for the word table and the head, not for learned positions. */
static bool has_embedding_rate(const param *row)
{
    return row->kind == PARAM_EMBEDDING && row->role != WEIGHT_POSITIONS;
}

static update_table owned_table(const program *p, decay_rule rule, arena *a)
{
    bool qk_norms = p->s->j.wd_qk_norm;
    int64_t n = program_trained_weights(p), next = 0, piece = 0;
    update_row *rows = ARENA_ARRAY(a, update_row, n);
    for (int i = 0; i < p->weights.n; i++) {
        const weight *w = &p->weights.list[i];
        if (w->bucket < 0) continue;
        int64_t first, own = owned_range(&p->weights, w, &first);
        rows[next++] = (update_row){
            .piece = piece,
            .offset = w->offset + first,
            .n = own,
            .moments = own > 0 ? owned_moments(&p->weights, w, first) : 0,
            .decays = optimizer_decays(w->row, rule, qk_norms),
            .embedding = has_embedding_rate(w->row),
            .answers = rank_answers(p->s, &p->at, w),
        };
        piece += ceil_div(own, UPDATE_PIECE);
    }
    return (update_table){rows, n};
}

void optimizer_init(optimizer *o, const program *p, decay_rule rule, arena *a)
{
    const job *j = &p->s->j;
    bool skips = job_has(j, K_SKIP_NORM);
    *o = (optimizer){.beta1 = j->beta1,
                     .beta2 = j->beta2,
                     .eps = j->adam_eps,
                     .clip = j->clip,
                     .skip_norm = skips ? j->skip_norm : (double)INFINITY,
                     .l2 = !j->decoupled_wd,
                     .table = owned_table(p, rule, a)};
}

/* ---- on arrays */

double optimizer_squares(const optimizer *o, typed x)
{
    return update_squares(o->table, x);
}

int64_t optimizer_zeros(const optimizer *o, typed x)
{
    return (int64_t)update_zeros(o->table, x);
}

step_result step_result_of(const double *verdict)
{
    return (step_result){(step_outcome)verdict[VERDICT_OUTCOME], verdict[VERDICT_NORM],
                         verdict[VERDICT_CLIP]};
}

void optimizer_give(const optimizer *o, step_rates rates, double given[GIVEN_COUNT])
{
    memset(given, 0, sizeof *given * GIVEN_COUNT);
    given[GIVEN_LR] = rates.lr;
    given[GIVEN_EMBEDDING_LR] = rates.embedding_lr;
    given[GIVEN_DECAY] = rates.decay;
    given[GIVEN_SCALE] = rates.scale;
    given[GIVEN_STEPS] = (double)o->steps;
}

static step_result step_with(optimizer *o, const update_arrays *x, step_rates rates, double squares)
{
    double given[GIVEN_COUNT], sums[SUM_COUNT] = {[SUM_SQUARES] = squares}, verdict[VERDICT_COUNT];
    optimizer_give(o, rates, given);
    verdict_limits limits = {o->clip, o->skip_norm, o->beta1, o->beta2};
    update_verdict(verdict, sums, given, &limits);
    step_result r = step_result_of(verdict);
    adam_numbers k = adam_of(o->beta1, o->beta2, o->eps, o->l2);
    update_adamw(&k, verdict, o->table, x, NULL);
    o->steps += r.outcome == STEP_TAKEN;
    return r;
}

void optimizer_update(optimizer *o, const update_arrays *x, step_rates rates)
{
    step_with(o, x, rates, 0);
}

step_result optimizer_step(optimizer *o, const update_arrays *x, step_rates rates)
{
    return step_with(o, x, rates, optimizer_squares(o, x->gradients));
}
