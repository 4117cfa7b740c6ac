/* search_attempt.c - one layout of which all is known: its memory from below and to the byte, its
 * step, and whether it is among the best. */
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "predict/fit.h"
#include "ir/memory/plan.h"
#include "ir/memory/step_packing.h"
#include "plan/search_best.h"
#include "plan/search_parts.h"

void attempt_sum_chunks(search *s, const choice *c, const attempt *t)
{
    for (int64_t i = 0; i < c->pp * c->vpp; i++)
        s->chunks[i] = chunk_sum_of(&t->sums, &t->f->mix[i]);
}

/* Of our own arena: the regions that change. */
static int64_t arena_most(search *s, const slots_of *slots, const int64_t *sizes, peak_level level)
{
    bool pairs = slots->c->overlap >= OVERLAP_EP;
    int64_t saved = -1;
    if (level == PEAK_EXACT) saved = saved_packed(slots, s->scratch);
    if (level == PEAK_ALIVE) saved = saved_alive(slots, s->scratch);
    if (saved < 0) saved = saved_least(slots, sizes);
    int64_t temp = level == PEAK_EXACT ? temp_bytes(slots, s->scratch) : 0;
    if (level == PEAK_ALIVE || (level == PEAK_LEAST && !pairs))
        temp = temp_least(slots, s->scratch);
    return round_up(saved, PLAN_ALIGN) + round_up(temp, PLAN_ALIGN);
}

/* Of Megatron's: activations. */
static live_level live_of(search *s, const slots_of *slots, const int64_t *sizes, peak_level level)
{
    if (level == PEAK_EXACT) return live_exact(slots, s->scratch);
    if (level == PEAK_LEAST) return (live_level){.saved = live_least(slots, sizes)};
    return live_light(slots, sizes, s->scratch);
}

/* Lives of a packed step are those of its operations, which cards do not have: the program. It is
 * that of one rank, so layouts are few; it has no bound but its state. */
static int64_t packed_peak(search *s, const attempt *t, peak_level level)
{
    fit f = {.peak_bytes = 0};
    program_size size;
    if (level != PEAK_EXACT) return 0;
    arena_place mark = arena_mark(s->scratch);
    program_sizes(&size, &t->s, s->scratch);
    fit_see(&f, &t->s, &size);
    arena_release(s->scratch, mark);
    return f.peak_bytes;
}

int64_t attempt_peak(search *s, const choice *c, const attempt *t, peak_level level)
{
    if (step_packs(&t->s)) return packed_peak(s, t, level);
    int64_t most = 0, *sizes = s->of_chunk;
    for (int64_t q = 0; q < c->pp; q++) {
        if (level != PEAK_EXACT && t->f->ranks[q].as_before) continue; /* not fuller, or no bound */
        for (int64_t v = 0; v < c->vpp; v++) sizes[v] = s->chunks[v * c->pp + q].saved;
        slots_of slots = {c, &t->z, t->f, s->k, &t->sums, q};
        bool parts = c->graphs && c->graphs != SCOPE_STEP && level == PEAK_EXACT;
        live_level live = {.temp = 0};
        if (s->megatron)
            live = live_of(s, &slots, sizes, level);
        else
            live.temp = arena_most(s, &slots, sizes, level);
        reported_level x = {.state = t->fixed[q], .step = t->step[q], .live = live};
        x.graphs = parts ? temp_bytes(&slots, s->scratch) : 0;
        int64_t peak = reported_peak(&t->frame, &x);
        if (peak > most) most = peak;
    }
    return most;
}

/* What stays through a step of Megatron's. */
static void fix_state(search *s, const choice *c, attempt *t, int64_t q, const int64_t *bytes)
{
    const rank_facts *own = &t->f->ranks[q];
    slots_of slots = {c, &t->z, t->f, s->k, &t->sums, q};
    program_size size = {.owned = own->owned};
    memcpy(size.bytes, bytes, sizeof size.bytes);
    if (c->graphs && c->graphs != SCOPE_STEP) size.layers = layers_exact(&slots, s->scratch);
    allocated_state state;
    allocated_state_of(&state, &t->s, q, &own->all, &size);
    t->fixed[q] = allocated_state_sum(&state);
    t->step[q] = state.step;
}

static void fix_regions(search *s, const choice *c, attempt *t)
{
    t->fixed = s->fixed;
    t->step = s->step;
    t->frame = reported_frame_of(&t->s);
    bool parts = c->graphs && c->graphs != SCOPE_STEP; /* counts what is in flight */
    for (int64_t q = 0; q < c->pp; q++) {
        if (t->f->ranks[q].as_before && !parts) {
            t->fixed[q] = t->fixed[q - 1];
            t->step[q] = t->step[q - 1];
            continue;
        }
        int64_t bytes[REGION_COUNT];
        rank_regions(bytes, &t->s, &t->z, t->f, q);
        t->fixed[q] = t->step[q] = 0;
        if (s->megatron)
            fix_state(s, c, t, q, bytes);
        else
            for (int i = 0; i < REGION_COUNT; i++) t->fixed[q] += round_up(bytes[i], PLAN_ALIGN);
    }
}

step_simulation attempt_simulation(search *s, const choice *c, const attempt *t)
{
    return (step_simulation){
        .c = c, .z = &t->z, .f = t->f, .k = s->k, .chunks = s->chunks, .message = t->message};
}

bool attempt_patch(search *s, const choice *c, attempt *t)
{
    t->f = ranks_facts(s->r, c);
    if (!t->f->ok || !choice_repatch(&t->s, &t->log, s->sp.m, c, t->f->split)) return false;
    t->z = step_shape_of(&t->s);
    fix_regions(s, c, t);
    return true;
}

void search_see_miss(search *s, const choice *c, int64_t peak)
{
    search_result *r = s->out;
    if (r->has_miss && r->miss.peak_bytes <= peak) return;
    int64_t dp = s->sp.world / (c->tp * c->cp * c->pp);
    r->has_miss = true;
    r->miss = (found){.c = *c, .dp = dp, .edp = s->sp.world / (c->ep * c->etp * c->pp)};
    r->miss.micros = search_micros(s, c);
    r->miss.peak_bytes = peak;
}

double search_message(search *s, const choice *c)
{
    int64_t key[6] = {c->precision, c->tp, c->cp, c->mbs, c->pp, 0};
    double *known = memo_get(&s->messages, key);
    if (known) return *known;
    setup *patched = &s->patched;
    choice x = {.precision = c->precision, .tp = c->tp, .cp = c->cp, .mbs = c->mbs, .pp = c->pp};
    x.ep = x.etp = x.vpp = 1;
    x.to = TO_ALLTOALL;
    x.kind = c->kind;
    known = ARENA_NEW(s->a, double);
    const pipe_split *split = choice_split(s->sp.m, c);
    x.vpp = c->vpp;
    if (choice_repatch(patched, &s->of_patched, s->sp.m, &x, split))
        *known = card_message(s->k, patched, 1);
    memo_put(&s->messages, key, known);
    return *known;
}

/* Step played, memory summed. */
verdict attempt_judge(search *s, const choice *c, attempt *t, found *out)
{
    search_counts *n = &s->out->counts;
    bool all = s->o->judge_all;
    sums_saved(&t->sums, s->k, c);
    attempt_sum_chunks(s, c, t);
    int64_t least = 0;
    bool pairs = c->overlap >= OVERLAP_EP;
    for (int level = PEAK_LEAST; level <= (pairs || s->megatron ? PEAK_ALIVE : PEAK_LEAST);
         level++) {
        least = attempt_peak(s, c, t, (peak_level)level);
        if (least <= s->o->hw->usable) continue;
        n->saved++;
        search_see_miss(s, c, least);
        return TOO_LARGE;
    }
    sums_times(&t->sums, s->k, c);
    attempt_sum_chunks(s, c, t);
    step_simulation p = attempt_simulation(s, c, t);
    const double shortest = pairs ? step_least(&p, s->scratch) * (1 - 1e-9) : 0;
    if (!all && !best_enters(s->out, c, shortest)) {
        n->slow++;
        return TOO_SLOW;
    }
    if (!all && search_breaks_rule(s, c, &t->s)) {
        n->rules++;
        return BROKEN;
    }
    *out = (found){.c = *c, .dp = t->s.lay.dp, .edp = t->s.lay.edp, .micros = t->z.micros};
    out->step_s = step_seconds(&p, s->scratch);
    if (!all && !best_enters(s->out, c, out->step_s)) {
        n->simulated++;
        return TOO_SLOW;
    }
    out->peak_bytes = attempt_peak(s, c, t, PEAK_EXACT);
    if (all) n->broken += shortest > out->step_s * (1 + 1e-9) || least > out->peak_bytes;
    n->summed++;
    if (out->peak_bytes > s->o->hw->usable) {
        search_see_miss(s, c, out->peak_bytes);
        return TOO_LARGE;
    }
    n->fitted++;
    return GOOD;
}

void attempt_keep(search *s, const choice *c, attempt *t, const found *f)
{
    bool enters = best_enters(s->out, c, f->step_s);
    if (!enters && !front_takes(s->out, f)) return;
    if (s->o->judge_all && search_breaks_rule(s, c, &t->s)) return;
    front_put(s->out, f);
    if (!enters) return;
    best_put(s->out, f);
    if (s->o->only_fit) s->done = true;
}
