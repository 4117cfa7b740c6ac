/* setup.c - resolving a recipe: the order of the derivations, and those that need more than one
 * folder.
 *
 * I1  A derivation reads only knobs that the user, the model or an earlier derivation has
 *     settled; where it needs a plain default, that is filled first. */
#include "layout/setup.h"

#include <string.h>

#include "config/job_of.h"

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

/* ---- overlap of gradient reduction and parameter gather */

static void derive_reduction(resolving *d)
{
    const job *j = d->j;
    if (job_is_lm(j)) return; /* both off there: plain defaults */
    resolve_default(d, K_DIST_OPT);
    bool sharded = j->dist_opt;
    bool reduced = layout_dp(j) > 1 || j->cp > 1 || layout_edp(j) > 1;
    resolve_fill(d, K_GRAD_OVERLAP, value_of_bool(sharded && reduced), FROM_DERIVED,
                 !reduced  ? "one replica: nothing is reduced"
                 : sharded ? "gradient reduction overlaps with backward"
                           : "the optimizer is not sharded");
    bool overlap = j->grad_overlap;
    resolve_fill(d, K_PARAM_OVERLAP, value_of_bool(sharded && reduced && overlap), FROM_DERIVED,
                 !reduced   ? "one replica: nothing is gathered"
                 : !sharded ? "the optimizer is not sharded"
                 : overlap  ? "the parameter gather overlaps with forward"
                            : "needs overlap_grad_reduce");
}

/* ---- hardware queues */

value setup_connections(const job *j)
{
    const gpu *g = j->machine;
    bool asked =
        g && (g->arch == ARCH_HOPPER || g->arch == ARCH_AMPERE) && (j->tp > 1 || j->cp > 1);
    if (!asked) return (value){.kind = V_NULL};
    bool many = j->ep_overlap || j->fsdp || j->torch_fsdp;
    return value_of_int(many ? 32 : 1);
}

static void derive_connections(resolving *d)
{
    value v = setup_connections(d->j);
    if (v.kind == V_NULL) return;
    resolve_fill(d, K_CONNECTIONS, v, FROM_DERIVED,
                 v.whole > 1 ? "EP overlap and FSDP need concurrent streams"
                             : "TP or CP before Blackwell: Megatron requires 1");
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
    status s = pipeline_derive(&d, err);
    if (s) return s;
    derive_p2p(&d);
    derive_reduction(&d);
    derive_connections(&d);
    derive_packing(&d);
    resolve_defaults(&d);
    return OK;
}

status setup_init(setup *s, const recipe *given, arena *a, error *err)
{
    memset(s, 0, sizeof *s);
    s->r = *given;
    s->r.a = a;
    status st = recipe_read_machine(&s->r, err);
    if (!st) st = resolve(&s->r, &s->j, err);
    if (!st) st = model_init(&s->m, &s->j, a, err);
    if (st) return st;
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

/* The last layer may have the final norm behind it. */
static bool ends(const model *m, const stage *s)
{
    return s->first_layer + s->n_layers == m->n_layers;
}

static bool same_layers(const model *m, const stage *a, const stage *b)
{
    return ends(m, a) == ends(m, b) && a->n_layers == b->n_layers && a->n_mtp == b->n_mtp &&
           a->embedding == b->embedding && a->loss == b->loss &&
           memcmp(m->layer + a->first_layer, m->layer + b->first_layer, (size_t)a->n_layers) == 0;
}

/* Does rank q hold the same kinds of layers as rank q - 1? Then it holds as many bytes. */
static bool like_previous(const setup *s, int64_t q)
{
    const pipeline *p = &s->pipe;
    for (int64_t v = 0; v < p->vpp; v++) {
        const stage *b = &p->stages[v * p->pp + q];
        if (!same_layers(&s->m, b - 1, b)) return false;
    }
    return true;
}

void setup_states(setup *s, arena *a)
{
    if (!s->possible || s->pipe.why_not) return;
    state_bytes *states = ARENA_ARRAY(a, state_bytes, s->pipe.pp);
    for (int64_t q = 0; q < s->pipe.pp; q++)
        if (q > 0 && like_previous(s, q))
            states[q] = states[q - 1];
        else
            state_of_stage(&states[q], s, q);
    s->states = states;
}

int64_t setup_fullest(const setup *s, state_bytes *bytes)
{
    int64_t fullest = 0, most = -1;
    for (int64_t q = 0; q < s->pipe.pp; q++) {
        if (q > 0 && like_previous(s, q)) continue;
        state_bytes here;
        state_of_stage(&here, s, q);
        if (state_total(&here) <= most) continue;
        most = state_total(&here);
        fullest = q;
        *bytes = here;
    }
    return fullest;
}
