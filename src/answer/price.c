/* price.c - a predicted step. */
#include "answer/price.h"

#include <math.h>

#include "config/target.h"
#include "predict/bands.h"
#include "predict/not_priced.h"
#include "predict/routing.h"

const price_memory_answer *answer_price_memory(const price *p, const reported *held, int64_t rank,
                                               arena *a)
{
    const host_need *h = &p->on_host;
    price_memory_answer *x = ARENA_NEW(a, price_memory_answer);
    host_answer *host = ARENA_NEW(a, host_answer);
    *host = (host_answer){h->state, h->node, h->memory ? h->memory : FIELD_NONE};
    *x = (price_memory_answer){.beside = p->graph_pools,
                               .on_host = p->host_bytes,
                               .host = host,
                               .arena_bytes = p->arena_bytes,
                               .rank = rank,
                               .reported = answer_reported(held, p->megatron, a)};
    x->regions = answer_regions(&x->n_regions, p->bytes, a);
    x->peak_parts = answer_peak(&x->n_peak_parts, held, p->megatron ? NULL : p->bytes, a);
    return x;
}

static const price_time_answer *answer_time(const price *p, arena *a)
{
    price_time_answer *x = ARENA_NEW(a, price_time_answer);
    seconds_answer *kinds = ARENA_ARRAY(a, seconds_answer, 2 * COST_KINDS);
    seconds_answer *exposed = kinds + COST_KINDS;
    *x = (price_time_answer){.kinds = kinds,
                             .n_kinds = COST_KINDS,
                             .exposed = exposed,
                             .host = p->host,
                             .bubble = p->bubble,
                             .optimizer = p->optimizer};
    for (int k = 0; k < COST_KINDS; k++)
        kinds[k] = (seconds_answer){cost_kind_name((cost_kind)k), p->time[k]};
    for (int k = COST_TP; k <= COST_COPY; k++)
        exposed[x->n_exposed++] = (seconds_answer){kinds[k].name, p->exposed[k]};
    if (p->update.bytes <= 0) return x;
    state_copies_answer *copies = ARENA_NEW(a, state_copies_answer);
    *copies = (state_copies_answer){p->update.bytes, p->update.seconds, p->update.exposed};
    x->state_copies = copies;
    return x;
}

const priced_band_answer *answer_band(const price *p, const price_job *j, arena *a)
{
    if (!(j->hw->framework > 0)) return NULL;
    band_traits t = band_traits_of(j->s);
    double half = band_of_time(&t, -1), step = p->step_s;
    priced_band_answer *x = ARENA_NEW(a, priced_band_answer);
    band_answer *band = ARENA_NEW(a, band_answer);
    *band = (band_answer){step * exp(-half), step * exp(half)};
    *x = (priced_band_answer){band, band_unsupported(&t) == BAND_FEATURES};
    return x;
}

bool answer_overflows(const price *p)
{
    return p->room_is_planned && p->worst_skew > p->room * (1 + 1e-9);
}

const routing_answer *answer_routing(const price *p, const price_options *o, arena *a)
{
    if (p->skew <= 0) return NULL;
    routing_answer *x = ARENA_NEW(a, routing_answer);
    *x = (routing_answer){.skew = p->skew,
                          .worst_skew = p->worst_skew,
                          .buffer_factor = p->room,
                          .buffers_suffice = !answer_overflows(p),
                          .worst_layer = p->worst_layer >= 0 ? p->worst_layer : FIELD_NONE,
                          .file = o->routing ? o->routing->path : NULL};
    return x;
}

void answer_price(price_answer *out, const price *p, const price_job *j, arena *a)
{
    step_part parts[STEP_PARTS];
    seconds_answer *seconds = ARENA_ARRAY(a, seconds_answer, STEP_PARTS);
    not_priced *left_out = ARENA_ARRAY(a, not_priced, NOT_PRICED_MAX);
    price_parts(parts, p);
    for (int i = 0; i < STEP_PARTS; i++)
        seconds[i] = (seconds_answer){parts[i].name, parts[i].seconds};
    *out = (price_answer){.recipe = j->s->r.name,
                          .gpu = j->hw->name,
                          .step_s = p->step_s,
                          .tokens_per_s_per_gpu = p->tokens_per_s_per_gpu,
                          .tflops_per_gpu = p->tflops_per_gpu,
                          .mfu_bf16 = p->mfu_bf16,
                          .mfu_precision = p->mfu_precision,
                          .peak_bytes = p->peak_bytes,
                          .usable_bytes = p->usable,
                          .fits = p->fits,
                          .fullest_rank = p->fullest,
                          .slowest_pipeline_rank = p->slowest,
                          .wall = wall_name(p->wall),
                          .evidence = p->evidence,
                          .priced_band = answer_band(p, j, a),
                          .memory = answer_price_memory(p, &p->memory, p->fullest, a),
                          .time = answer_time(p, a),
                          .parts = seconds,
                          .n_parts = STEP_PARTS,
                          .not_priced = left_out,
                          .n_not_priced = price_leaves_out(left_out, &j->s->r, a),
                          .routing = answer_routing(p, j->o, a)};
}

bool answer_has_times(const job *j, const hardware *hw)
{
    return job_is_ours(j) && hw->arch != ARCH_CPU;
}

bool answer_estimates_times(const job *j, const hardware *hw)
{
    return answer_has_times(j, hw) && (!hw->measured || target_by_reference(j));
}

const times_answer *answer_times(const job *j, const hardware *hw, arena *a)
{
    if (!answer_has_times(j, hw)) return NULL;
    times_answer *x = ARENA_NEW(a, times_answer);
    *x = (times_answer){answer_estimates_times(j, hw), hw->measured};
    return x;
}
