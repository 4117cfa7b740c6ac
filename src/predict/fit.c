/* fit.c - compares the peak memory of the fullest rank with the usable memory of its GPU. */
#include "predict/fit.h"

#include <string.h>

#include "predict/audit/audit.h"
#include "base/maths.h"
#include "config/target.h"

/* CUDA graphs keep the temporaries of what they captured in pools of their own: partial ones for
 * each scope once more, a full iteration none beside the plan. */
static int64_t graph_pool_bytes(const setup *s, const program_size *p)
{
    bool partial = s->j.graphs == J_GRAPHS_LOCAL || s->j.graphs == J_GRAPHS_TRANSFORMER_ENGINE;
    return partial && !job_on_cpu(&s->j) ? p->bytes[REGION_TEMP] : 0;
}

bool fit_by_megatron(const setup *s)
{
    return !job_on_cpu(&s->j) && !job_is_ours(&s->j);
}

/* Optimizer state of a rank that waits on the host. */
static int64_t state_of_host(const setup *s, int64_t rank)
{
    state_bytes b;
    if (job_on_cpu(&s->j)) return 0;
    state_of_stage(&b, s, rank_coordinates(&s->lay, rank).pp);
    return b.host + (state_waits_on_host(&s->j) ? state_optimizer(&b) : 0);
}

void fit_see(fit *out, const setup *s, const program_size *p)
{
    int64_t state = state_of_host(s, p->rank);
    int64_t ranks = s->lay.world < s->lay.gpus_per_node ? s->lay.world : s->lay.gpus_per_node;
    int64_t node = mul_sat(p->host_bytes + state, ranks);
    if (node > out->on_host.node) out->on_host.node = node;
    int64_t graph_pools = graph_pool_bytes(s, p);
    reported r;
    bool megatron = fit_by_megatron(s);
    if (megatron)
        reported_of_rank(&r, s, p, graph_pools);
    else
        reported_of_arena(&r, s, p->arena_bytes, graph_pools);
    if (r.peak <= out->peak_bytes) return;
    out->peak_bytes = r.peak;
    out->memory = r;
    out->megatron = megatron;
    out->arena_bytes = p->arena_bytes;
    out->graph_pools = graph_pools;
    out->fullest = p->rank;
    out->saved_live = p->saved_live;
    out->host_bytes = p->host_bytes;
    out->on_host.state = state;
    memcpy(out->bytes, p->bytes, sizeof out->bytes);
}

void fit_stages(fit *out, const setup *s)
{
    arena *scratch = arena_create();
    program_size *list = ARENA_ARRAY(scratch, program_size, s->pipe.pp);
    program_sizes(list, s, scratch);
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        out[i] = (fit){0};
        fit_see(&out[i], s, &list[i]);
    }
    arena_destroy(scratch);
}

void fit_of(fit *out, const setup *s, const violations *found, const hardware *hw, arena *a)
{
    *out = (fit){.why_not = audit_why_not_of(s, found, a)};
    if (out->why_not) return;
    arena *scratch = arena_create();
    program_size *list = ARENA_ARRAY(scratch, program_size, s->pipe.pp);
    program_sizes(list, s, scratch);
    for (int64_t i = 0; i < s->pipe.pp; i++) fit_see(out, s, &list[i]);
    arena_destroy(scratch);
    out->usable_bytes = hw->usable;
    out->on_host.memory = (int64_t)hw->host_memory;
    out->fits = out->peak_bytes <= out->usable_bytes;
}
