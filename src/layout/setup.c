/* setup.c - resolving a recipe: the order of the derivations, and those that need more than one
 * folder.
 *
 * I1  A derivation reads only knobs that the user, the model or an earlier derivation has
 *     settled; where it needs a plain default, that is filled first. */
#include "layout/setup.h"

#include <string.h>

#include "config/job_of.h"
#include "config/loads.h"
#include "layout/stage_parts.h"

static const value NO_VALUE = {.kind = V_NULL};

/* ---- overlap of messages between stages */

static void derive_p2p(resolving *d)
{
    const job *j = d->j;
    int64_t pp = j->pp, vpp = j->vpp;
    bool interleaved = pp > 1 && vpp > 1;
    resolve_fill(d, K_OVERLAP_P2P, value_of_bool(interleaved), FROM_DERIVED,
                 interleaved ? "virtual stages leave compute to overlap with"
                             : "no virtual stages");
    bool overlap = j->overlap_p2p;
    bool batch = !overlap && (pp > 1 || job_is_lm(j));
    resolve_fill(d, K_BATCH_P2P, value_of_bool(batch), FROM_DERIVED,
                 overlap ? "overlap_p2p_comm sends one tensor at a time"
                 : batch ? "without overlap_p2p_comm"
                         : "PP 1 sends nothing");
    resolve_fill(d, K_ALIGN_GATHER, value_of_bool(interleaved), FROM_DERIVED,
                 interleaved ? "virtual stages: all stages gather at once" : "no virtual stages");
    if (interleaved) resolve_fill(d, K_GROUP_SIZE, value_of_int(pp), FROM_DERIVED, "unset: PP");
}

/* ---- what follows the sizes */

static value follow_sp(const job *j, const char **why)
{
    *why = j->tp > 1 ? "TP > 1: norms and residuals are split, too" : "TP 1 splits nothing";
    return job_is_lm(j) ? NO_VALUE : value_of_bool(j->tp > 1);
}

static bool is_reduced(const job *j)
{
    return layout_dp(j) > 1 || j->cp > 1 || layout_edp(j) > 1;
}

static value follow_reduction(const job *j, const char **why)
{
    bool reduced = is_reduced(j);
    *why = !reduced      ? "one replica: nothing is reduced"
           : j->dist_opt ? "gradient reduction overlaps with backward"
                         : "the optimizer is not sharded";
    return job_is_lm(j) ? NO_VALUE : value_of_bool(j->dist_opt && reduced);
}

static value follow_gather(const job *j, const char **why)
{
    bool reduced = is_reduced(j);
    *why = !reduced          ? "one replica: nothing is gathered"
           : !j->dist_opt    ? "the optimizer is not sharded"
           : j->grad_overlap ? "the parameter gather overlaps with forward"
                             : "needs overlap_grad_reduce";
    return job_is_lm(j) ? NO_VALUE : value_of_bool(j->dist_opt && reduced && j->grad_overlap);
}

static value follow_offload(const job *j, const char **why)
{
    *why = j->opt_offload ? "unset: all of it" : "optimizer_cpu_offload is off";
    return job_is_lm(j) ? NO_VALUE : value_of_float(j->opt_offload ? 1 : 0);
}

static value follow_skew(const job *j, const char **why)
{
    return value_of_float(loads_skew(j, why));
}

static value follow_room(const job *j, const char **why)
{
    return value_of_float(loads_room(j, why));
}

static value follow_graphs(const job *j, const char **why)
{
    bool graphs = j->graphs != J_GRAPHS_NONE;
    *why = graphs ? "CUDA graphs need a random state that can be replayed" : "no CUDA graphs";
    return job_is_lm(j) ? NO_VALUE : value_of_bool(graphs);
}

/* Before Blackwell Megatron stops with TP or CP unless there is one queue; EP overlap wants many;
 * else it is left to the driver. */
static value follow_queues(const job *j, const char **why)
{
    const gpu *g = j->machine;
    bool many = j->ep_overlap || j->fsdp || j->torch_fsdp;
    *why = many ? "EP overlap and FSDP need concurrent streams"
                : "TP or CP before Blackwell: Megatron requires 1";
    bool asked =
        g && (g->arch == ARCH_HOPPER || g->arch == ARCH_AMPERE) && (j->tp > 1 || j->cp > 1);
    return asked ? value_of_int(many ? 32 : 1) : NO_VALUE;
}

/* Each reads the rows above it. */
static const follower followers[] = {{K_SP, follow_sp},
                                     {K_GRAD_OVERLAP, follow_reduction},
                                     {K_PARAM_OVERLAP, follow_gather},
                                     {K_OPT_OFFLOAD_FRACTION, follow_offload},
                                     {K_ROUTING_SKEW, follow_skew},
                                     {K_BUFFER_FACTOR, follow_room},
                                     {K_TE_RNG, follow_graphs},
                                     {K_CONNECTIONS, follow_queues}};

const follower *setup_followers(int *n)
{
    *n = sizeof followers / sizeof followers[0];
    return followers;
}

static void derive_followers(resolving *d)
{
    resolve_default(d, K_DIST_OPT);
    resolve_default(d, K_GRAPHS);
    for (size_t i = 0; i < sizeof followers / sizeof followers[0]; i++) {
        const char *why;
        value v = followers[i].of(d->j, &why);
        if (v.kind != V_NULL) resolve_fill(d, followers[i].k, v, FROM_DERIVED, "%s", why);
    }
}

/* ---- packed steps */

/* Seen on one GPU. A search of several sums up cards, which have no such places. */
static void derive_packing(resolving *d)
{
    const job *j = d->j;
    if (!job_is_ours(j) || job_on_cpu(j)) return;
    bool alone = j->n_gpus == 1, moves = j->offload;
    resolve_fill(d, K_PACK_STEP, value_of_bool(alone && !moves && !j->ep_overlap), FROM_DERIVED,
                 "%s",
                 !alone  ? "several GPUs: only on request"
                 : moves ? "activations move to the host"
                         : "one GPU: saves memory at no cost");
}

static status resolve(recipe *r, job *j, error *err)
{
    resolving d = {r, j};
    recipe_derive(r);
    job_of(j, r);
    cluster_derive(&d);
    model_derive(&d);
    TRY(pipeline_derive(&d, err));
    derive_p2p(&d);
    derive_followers(&d);
    derive_packing(&d);
    resolve_defaults(&d);
    return OK;
}

status setup_init(setup *s, const recipe *given, arena *a, error *err)
{
    memset(s, 0, sizeof *s);
    s->r = *given;
    s->r.a = a;
    TRY(recipe_read_machine(&s->r, err));
    TRY(resolve(&s->r, &s->j, err));
    TRY(model_init(&s->m, &s->j, a, err));
    param_table_init(&s->params, &s->m, a);
    s->gpu = s->j.machine;
    if (!s->gpu) s->gpu = gpu_find(knobs[K_GPU].dflt); /* a rule names the word that is wrong */
    s->possible = layout_possible(&s->j);
    if (s->possible) layout_init(&s->lay, &s->j);
    return pipeline_init(&s->pipe, &s->j, a, err);
}

void setup_set(setup *s, knob_id k, value v, const char *why)
{
    recipe_set(&s->r, k, v, why);
    job_take(&s->j, &s->r, k);
}

/* ---- the fullest rank */

bool setup_stage_repeats(const setup *s, int64_t q)
{
    if (q == 0) return false;
    const pipeline *p = &s->pipe;
    for (int64_t v = 0; v < p->vpp; v++) {
        const stage *b = &p->stages[v * p->pp + q];
        if (!stages_alike(&s->m, b - 1, b)) return false;
    }
    return true;
}

void setup_states(setup *s, arena *a)
{
    if (!s->possible || s->pipe.why_not) return;
    state_bytes *states = ARENA_ARRAY(a, state_bytes, s->pipe.pp);
    for (int64_t q = 0; q < s->pipe.pp; q++)
        if (setup_stage_repeats(s, q))
            states[q] = states[q - 1];
        else
            state_of_stage(&states[q], s, q);
    s->states = states;
}

int64_t setup_fullest(const setup *s, state_bytes *bytes)
{
    int64_t fullest = 0, most = -1;
    for (int64_t q = 0; q < s->pipe.pp; q++) {
        if (setup_stage_repeats(s, q)) continue;
        state_bytes here;
        state_of_stage(&here, s, q);
        if (state_total(&here) <= most) continue;
        most = state_total(&here);
        fullest = q;
        *bytes = here;
    }
    return fullest;
}
