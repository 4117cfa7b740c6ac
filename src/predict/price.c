/* price.c - memory, time and the wall of one recipe. */
#include "predict/price.h"

#include <math.h>
#include <string.h>

#include "predict/fit.h"
#include "predict/muon.h"
#include "predict/stages.h"

const char *wall_name(wall w)
{
    static const char *const names[WALL_COUNT] = {"memory", "communication", "compute", "host",
                                                  "pipeline bubble"};
    return names[w];
}

/* ---- memory */

static void take_fit(price *out, const fit *f)
{
    out->peak_bytes = f->peak_bytes;
    out->graph_pools = f->graph_pools;
    out->memory = f->memory;
    out->megatron = f->megatron;
    out->arena_bytes = f->arena_bytes;
    out->fullest = f->fullest;
    out->saved_live = f->saved_live;
    out->host_bytes = f->host_bytes;
    out->on_host = f->on_host;
    out->fits = f->peak_bytes <= out->usable;
    memcpy(out->bytes, f->bytes, sizeof out->bytes);
}

/* ---- time */

static double total(const double *by_kind, int first, int last)
{
    double sum = 0;
    for (int k = first; k <= last; k++) sum += by_kind[k];
    return sum;
}

static double compute_of(const stage_time *t)
{
    return total(t->busy, 0, COST_TP - 1) + t->busy[COST_OTHER];
}

void price_parts(step_part out[STEP_PARTS], const price *p)
{
    for (int k = 0; k < COST_KINDS; k++) {
        bool message = k >= COST_TP && k <= COST_COPY;
        double seconds = message ? p->exposed[k] : p->time[k];
        out[k] = (step_part){cost_kind_name((cost_kind)k), cost_kind_title((cost_kind)k), seconds,
                             message && p->time[k] > seconds ? p->time[k] - seconds : 0};
    }
    out[COST_COPY].seconds += p->update.exposed;
    out[COST_COPY].hidden += fmax(0, p->update.seconds - p->update.exposed);
    const step_part others[STEP_PARTS - COST_KINDS] = {
        {"host", "waiting for kernel launches", p->host, 0},
        {"bubble", "pipeline bubble", p->bubble, 0},
        {"optimizer", "optimizer", p->optimizer - p->update.exposed, 0},
        {"slowed", "compute slowed by hidden transfers", p->slowed, 0},
        {"rest", "rest", p->rest, 0},
    };
    memcpy(out + COST_KINDS, others, sizeof others);
}

static const double ROUNDING = 1e-12; /* of sums, over the step */

static void see_time(price *out, const setup *s, const stage_time *t, double optimizer)
{
    double end = 0, gather = 0;
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        double own = t[i].end + t[i].finish;
        if (own > end) end = own;
        if (t[i].gather > gather) gather = t[i].gather;
        if (compute_of(&t[i]) > compute_of(&t[out->slowest])) out->slowest = i;
    }
    const stage_time *slow = &t[out->slowest];
    out->step_s = end + optimizer + gather;
    out->optimizer = optimizer;
    memcpy(out->time, slow->busy, sizeof out->time);
    memcpy(out->exposed, slow->exposed, sizeof out->exposed);
    out->host = slow->host;
    out->bubble = slow->bubble + (end - slow->end - slow->finish);
    out->slowed = slow->slowed;
    out->rest = 0;
    step_part parts[STEP_PARTS];
    price_parts(parts, out);
    double sum = 0;
    for (int i = 0; i < STEP_PARTS; i++) sum += parts[i].seconds;
    double rest = out->step_s - sum;
    out->rest = fabs(rest) < out->step_s * ROUNDING ? 0 : rest;
}

static void see_rates(price *out, const setup *s, const cost_model *c)
{
    const job_lengths lengths = job_lengths_of(&s->j);
    double tokens = 0, flops = 0;
    for (int i = 0; i < lengths.n; i++) {
        const job_length *l = &lengths.item[i];
        tokens += (double)l->count * (double)l->length;
        flops += l->share * model_flops_per_token(&s->m, l->length);
    }
    out->tokens_per_s_per_gpu = tokens / out->step_s / (double)s->lay.world;
    out->tflops_per_gpu = out->tokens_per_s_per_gpu * flops / 1e12;
    out->mfu_bf16 = out->tflops_per_gpu * 1e12 / c->hw->peak[NUMBER_BF16];
    out->mfu_precision = out->tflops_per_gpu * 1e12 / c->hw->peak[c->gemms];
}

/* ---- the wall */

enum { TIGHT_PERCENT = 4, LARGE_PERCENT = 15 };

/* The optimizer's copies are copies, too. */
static double exposed_of(const price *p, int k)
{
    return p->exposed[k] + (k == COST_COPY ? p->update.exposed : 0);
}

static const char *largest_message(const price *p, double *seconds)
{
    int most = COST_TP;
    for (int k = COST_TP; k <= COST_COPY; k++)
        if (exposed_of(p, k) > exposed_of(p, most)) most = k;
    *seconds = exposed_of(p, most);
    static const char *const words[COST_KINDS] = {
        [COST_TP] = "TP", [COST_CP] = "CP", [COST_EP] = "EP",
        [COST_PP] = "PP", [COST_DP] = "DP", [COST_COPY] = "offload copies"};
    return words[most];
}

void price_see_wall(price *p, arena *a)
{
    double exposed = total(p->exposed, COST_TP, COST_COPY) + p->update.exposed, seconds;
    double step = p->step_s;
    const char *message = largest_message(p, &seconds);
    double room = 100.0 * (double)(p->usable - p->peak_bytes) / (double)p->usable;
    double e = 100 * exposed / step, h = 100 * p->host / step, b = 100 * p->bubble / step;
    if (!p->fits) {
        p->wall = WALL_MEMORY;
        p->evidence = arena_text(a, "rank %lld needs %s of the %s usable", (long long)p->fullest,
                                 text_bytes(a, p->peak_bytes), text_bytes(a, p->usable));
    } else if (b >= LARGE_PERCENT && b > e && b > h) {
        p->wall = WALL_BUBBLE;
        p->evidence = arena_text(a,
                                 "%.1f %% of the step stages wait for one another; exposed "
                                 "communication %.0f %%, kernel launches %.0f %%",
                                 b, e, h);
    } else if (h >= LARGE_PERCENT && h >= e) {
        p->wall = WALL_HOST;
        p->evidence = arena_text(a, "%.0f %% of the step the device waits for kernel launches", h);
    } else if (e >= LARGE_PERCENT) {
        p->wall = WALL_COMMUNICATION;
        p->evidence =
            arena_text(a, "%.0f %% exposed communication (%s %s), pipeline bubble %.1f %%", e,
                       message, text_seconds(a, seconds), b);
    } else if (room < TIGHT_PERCENT) {
        p->wall = WALL_MEMORY;
        p->evidence = arena_text(a,
                                 "it fits with %.1f %% to spare: no room for a larger microbatch "
                                 "or less recompute",
                                 room);
    } else {
        p->wall = WALL_COMPUTE;
        p->evidence = arena_text(a,
                                 "%.0f %% of the step is compute; exposed communication %.0f %%, "
                                 "kernel launches %.0f %%, pipeline bubble %.1f %%",
                                 100 - e - h - b, e, h, b);
    }
}

/* ---- routing */

void price_skew(cost_model *c, const price_options *o)
{
    if (o && o->routing)
        cost_set_skew(c, routing_skew(o->routing, c->s->lay.ep));
    else if (o && o->skew > 0)
        cost_set_skew(c, o->skew);
}

/* Every layer with its own loads. */
static void set_layers(cost_model *c, const routing *r, arena *a)
{
    int64_t n = c->s->m.n_layers + c->s->m.n_mtp;
    expert_loads *list = ARENA_ARRAY(a, expert_loads, n + 1);
    for (int64_t i = 0; i < n; i++) list[i] = routing_of_layer(r, i, c->s->lay.ep, a);
    c->by_layer = list;
    c->n_by_layer = n;
}

static void see_routing(price *out, const setup *s, const cost_model *c)
{
    if (!s->m.moe->experts || s->lay.ep < 2) return;
    out->skew = out->worst_skew = c->skew;
    out->room = s->j.buffer_factor;
    out->room_is_planned = !fit_by_megatron(s);
    out->worst_layer = -1;
    for (int64_t i = 0; i < c->n_by_layer; i++) {
        if (out->worst_layer >= 0 && c->by_layer[i].skew <= out->worst_skew) continue;
        out->worst_layer = i;
        out->worst_skew = c->by_layer[i].skew;
    }
}

static void see_step(price_step *step, const setup *s, const stage_time *t, const price *p)
{
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        step->end[i] = t[i].end + t[i].finish;
        if (step->end[i] > step->all_end) step->all_end = step->end[i];
    }
    step->optimizer = p->optimizer;
    step->step_s = p->step_s;
}

void price_watched(price *out, price_step *step, const price_job *j, const watcher *w, arena *a)
{
    const setup *s = j->s;
    const price_options *o = j->o;
    *out = (price){.usable = j->hw->usable};
    cost_model c;
    cost_init(&c, j->hw, s, o ? o->stack : NULL);
    price_skew(&c, o);
    if (o && o->routing) set_layers(&c, o->routing, a);
    see_routing(out, s, &c);
    *step = (price_step){.programs = ARENA_ARRAY(a, program *, s->pipe.pp),
                         .end = ARENA_ARRAY(a, double, s->pipe.pp)};
    double optimizer = 0;
    fit memory = {0};
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        program *p = step->programs[i] = ARENA_NEW(a, program);
        program_build(p, s, layout_stage_rank(&s->lay, i), a);
        program_size size = program_size_of(p);
        fit_see(&memory, s, &size);
        state_bytes state;
        state_of_stage(&state, s, i);
        double seconds = cost_of_optimizer(&c, p) + cost_of_muon(&c, &state);
        if (seconds > optimizer) out->update = cost_update_copies(&c, p);
        if (seconds > optimizer) optimizer = seconds;
    }
    take_fit(out, &memory);
    out->on_host.memory = (int64_t)j->hw->host_memory;
    stage_time *t = ARENA_ARRAY(a, stage_time, s->pipe.pp);
    simulate_stages(t, &(stage_simulation){&c, step->programs, w}, a);
    see_time(out, s, t, optimizer);
    see_step(step, s, t, out);
    see_rates(out, s, &c);
    price_see_wall(out, a);
}

void price_setup(price *out, const setup *s, const hardware *hw, const price_options *o, arena *a)
{
    price_step step;
    price_watched(out, &step, &(price_job){s, hw, o}, NULL, a);
}
