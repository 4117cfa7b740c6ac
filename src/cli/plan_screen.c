/* plan_screen.c - a plan's first screen: what to take, how fast, does it fit, why this one, how
 * sure, what next. Everything else that is known of it comes with --why and --everything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan.h"
#include "cli/screen.h"
#include "cli/screen_price.h"
#include "cli/verdict.h"
#include "config/export.h"
#include "config/job_of.h"

static const char *bytes_text(arena *a, int64_t bytes)
{
    return screen_bytes(a, (double)bytes);
}

static const char *free_text(const plan_answer *p, int64_t peak, arena *a)
{
    return arena_text(a, "%s free", bytes_text(a, p->hw->usable - peak));
}

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

/* ---- a layout in words */

static const char *sizes_text(const plan_answer *p, const choice *c, const char *gap, arena *a)
{
    textbuf t = text_init(a);
    bool experts = recipe_int(p->given, K_EXPERTS) > 0;
    text_add(&t, "TP %lld%sCP %lld", (long long)c->tp, gap, (long long)c->cp);
    if (c->cp > 1) text_add(&t, " (%s)", cp_kinds[c->kind].name);
    if (experts) text_add(&t, "%sEP %lld", gap, (long long)c->ep);
    if (c->etp > 1) text_add(&t, "%sETP %lld", gap, (long long)c->etp);
    text_add(&t, "%sPP %lld", gap, (long long)c->pp);
    if (c->pp > 1) text_add(&t, "%sVPP %lld", gap, (long long)c->vpp);
    return t.s;
}

static const char *knobs_of(const plan_answer *p, const choice *c, arena *a)
{
    const char *text = plan_knobs_text(p, c, a);
    if (recipe_int(p->given, K_EXPERTS) > 0) return text;
    const char *behind = strstr(text, ", "); /* without experts nothing is dispatched */
    return behind ? behind + 2 : "no recompute";
}

/* A layout of the list, told from others by its sizes. */
static const char *row_text(const plan_answer *p, const found *f, arena *a)
{
    return arena_text(a, "%s: %s, %s", sizes_text(p, &f->c, " ", a),
                      screen_seconds(a, seconds_of(f)),
                      free_text(p, f->priced ? f->exact.peak_bytes : f->peak_bytes, a));
}

/* ---- why number 1 is first */

static void say_why_first(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const found *f = &r->best[0];
    int ties = 0;
    for (int i = 1; i < r->n_best; i++) ties += r->best[i].tie;
    if (f->before) {
        const found *y = &r->best[f->behind];
        screen_line(
            "WHY",
            "number %d (%s) is %.1f %% faster, less than anybody would tell, and would leave "
            "%s instead of %s; first because %s",
            f->behind + 1, sizes_text(p, &y->c, " ", a),
            100 * (f->exact.step_s / seconds_of(y) - 1),
            bytes_text(a, p->hw->usable - y->exact.peak_bytes),
            bytes_text(a, p->hw->usable - f->exact.peak_bytes), f->before);
    } else if (r->n_best == 1) {
        screen_line("WHY", "no other parallel sizes fit%s",
                    p->complete ? "" : " among those that were reached");
    } else {
        screen_line("WHY", "no layout that fits is faster%s",
                    ties ? "; of ties the fastest is first" : "");
    }
}

typedef struct other_text {
    double gain; /* of time: below 0 is faster */
    const char *text;
} other_text;

static int fastest_first(const void *x, const void *y)
{
    double a = ((const other_text *)x)->gain, b = ((const other_text *)y)->gain;
    return (a > b) - (a < b);
}

static const char *named(const plan_other *o, arena *a)
{
    static const char *const before[][2] = {{"dispatcher", "dispatcher "},
                                            {"overlap", "overlap: "},
                                            {"graphs", "CUDA graphs: "},
                                            {"precision", ""}};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        if (text_equal(o->topic, before[i][0])) return arena_text(a, "%s%s", before[i][1], o->name);
    return o->name;
}

enum { OTHERS_SHOWN = 3 };

static void say_list(const char *label, const char *what, other_text *list, int n, arena *a)
{
    textbuf t = text_init(a);
    qsort(list, (size_t)n, sizeof *list, fastest_first);
    for (int i = 0; i < n && i < OTHERS_SHOWN; i++)
        text_add(&t, "%s%s", i ? "; " : "", list[i].text);
    if (n) screen_line(label, "%s: %s", what, t.s);
}

/* The lightest rung of less recompute that is faster and does not fit. */
static const found *less_recompute(const plan_answer *p)
{
    const search_result *r = p->result;
    const found *best = NULL;
    for (int i = 0; i < r->n_ladder; i++) {
        const found *f = &r->ladder[i];
        if (f->peak_bytes <= p->hw->usable || f->step_s >= r->best[0].exact.step_s) continue;
        if (!best || f->peak_bytes < best->peak_bytes) best = f;
    }
    return best;
}

static void say_alternatives(const plan_answer *p, arena *a)
{
    static const double LEAST = 0.005; /* less is no difference */
    other_text large[INSTEAD_MAX + 1], slow[INSTEAD_MAX];
    int n_large = 0, n_slow = 0;
    double step = p->result->best[0].exact.step_s;
    const found *rung = less_recompute(p);
    if (rung)
        large[n_large++] =
            (other_text){rung->step_s / step - 1,
                         arena_text(a, "less recompute %s, %s", screen_seconds(a, rung->step_s),
                                    bytes_text(a, rung->peak_bytes))};
    for (int i = 0; i < p->reasons.n; i++) {
        const plan_other *o = &p->reasons.list[i];
        double gain = o->priced ? o->p.step_s / step - 1 : 0;
        if (fabs(gain) < LEAST) continue;
        if (gain < 0 && !o->p.fits)
            large[n_large++] = (other_text){gain, arena_text(a, "%s %s, %s", named(o, a),
                                                             screen_seconds(a, o->p.step_s),
                                                             bytes_text(a, o->p.peak_bytes))};
        if (gain > 0 && o->p.fits)
            slow[n_slow++] =
                (other_text){gain, arena_text(a, "%s %s", named(o, a), screen_percent(a, gain))};
    }
    say_list("", "faster but too big", large, n_large, a);
    say_list("", "fits but slower", slow, n_slow, a);
}

/* What is faster and fits, and is not taken all the same. */
static void say_try(const plan_answer *p, arena *a)
{
    double step = p->result->best[0].exact.step_s;
    const plan_other *best = NULL;
    for (int i = 0; i < p->reasons.n; i++) {
        const plan_other *o = &p->reasons.list[i];
        if (o->priced && o->left && o->p.fits && (!best || o->p.step_s < best->p.step_s)) best = o;
    }
    if (best)
        screen_line(
            "TRY", "%s: %s, %s; %s", named(best, a),
            screen_coloured(a, COLOUR_WARNING, screen_percent(a, best->p.step_s / step - 1)),
            screen_fits(a, best->p.peak_bytes, p->hw->usable), best->left);
    const activation_offload *x = &p->offload;
    if (x->helps)
        screen_line(best ? "" : "TRY",
                    "activations on the host: %s, %s, %s on each GPU's host; --pin "
                    "model.fine_grained_activation_offloading=true --pin "
                    "model.offload_modules=[%s] searches with it",
                    screen_coloured(a, COLOUR_WARNING, screen_percent(a, x->p.step_s / step - 1)),
                    screen_fits(a, x->p.peak_bytes, p->hw->usable), bytes_text(a, x->p.host_bytes),
                    x->modules);
    const plan_rounder *f = &p->rounder;
    if (f->gpus)
        screen_line("FEWER",
                    "%lld %s take %s for this batch, %lld take %s: parallel sizes divide "
                    "%lld better (--gpus %lldx%s)",
                    (long long)f->gpus, p->hw->name, screen_seconds(a, f->step_s),
                    (long long)p->world, screen_seconds(a, f->before_s), (long long)f->gpus,
                    (long long)f->gpus, recipe_word(p->given, K_GPU));
}

static void say_ties(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    double step = r->best[0].exact.step_s, least = INFINITY, most = -INFINITY;
    int n = 0, fastest = 0, roomiest = 0;
    for (int i = 1; i < r->n_best; i++) {
        const found *f = &r->best[i];
        if (!f->tie) continue;
        double gain = seconds_of(f) / step - 1;
        n++;
        least = fmin(least, gain);
        most = fmax(most, gain);
        if (!fastest || seconds_of(f) < seconds_of(&r->best[fastest])) fastest = i;
        if (!roomiest || f->exact.peak_bytes < r->best[roomiest].exact.peak_bytes) roomiest = i;
    }
    if (n)
        screen_line("TIES",
                    "%d more within what predictions can tell apart, %s to %s; fastest %s%s%s", n,
                    screen_percent(a, least), screen_percent(a, most),
                    row_text(p, &r->best[fastest], a), roomiest != fastest ? "; roomiest " : "",
                    roomiest != fastest ? row_text(p, &r->best[roomiest], a) : "");
    else if (r->n_best > 1)
        screen_line("SECOND", "%s to the next: %s",
                    screen_percent(a, seconds_of(&r->best[1]) / step - 1),
                    row_text(p, &r->best[1], a));
}

/* ---- how sure */

static void say_trust(const plan_answer *p, const price_answer *x, arena *a)
{
    claim c;
    bool like = plan_find_claim(&c, p, a); /* there are such runs */
    bool known = !like || c.run;
    job given;
    job_of(&given, p->given);
    const char *estimate = cli_estimate_text(&given, p->hw, a);
    bool doubts = estimate || (known && x->priced_band && !x->priced_band->supported);
    screen_trust(estimate, known ? x->priced_band : NULL, p->hw->name);
    const char *label = doubts ? "" : "TRUST";
    if (!like) return;
    if (!c.run) {
        screen_line(label, "no published run of this model on %s at this length is known",
                    p->hw->name);
        return;
    }
    const band_run *run = c.run;
    bool same = text_equal(c.traits.feature[BAND_PRECISION], run->precision);
    screen_line(
        label, "best published run here %s tok/s/GPU (%s%s%s, %s); this plan so routed %s, %.2fx%s",
        screen_number(a, run->tokens), run->id,
        run->n_gpus ? arena_text(a, ", %lld GPUs", (long long)run->n_gpus) : "",
        same ? "" : arena_text(a, ", %s", run->precision),
        run->natural ? "natural routing" : "balance forced",
        screen_number(a, c.ratio * run->tokens), c.ratio,
        c.row && c.ratio > c.bears
            ? arena_text(a, "; published pairs that differ as much support %.2fx: measure", c.bears)
            : "");
}

static void say_routing(const plan_answer *p, const price_answer *x, arena *a)
{
    const found *f = &p->result->best[0];
    plan_held h = plan_held_of(p);
    textbuf t = text_init(a);
    if (x->routing && x->routing->skew > 1)
        text_add(&t, "fullest EP rank at %.3g times the mean load", x->routing->skew);
    if (p->other.there)
        text_add(&t, "%s%s: %s, %s", t.n ? "; " : "",
                 p->other.natural ? "balance is forced; as it comes" : "with forced balance",
                 screen_seconds(a, p->other.step_s),
                 screen_fits(a, p->other.peak_bytes, p->hw->usable));
    if (h.known)
        text_add(&t, "; first from %s to %.2f times",
                 h.from > 0 ? arena_text(a, "%.2f", plan_skew_at(f, h.from)) : "balance",
                 plan_skew_at(f, h.to));
    if (t.n) screen_line("ROUTING", "%s", t.s);
    screen_overflow(x);
}

/* ---- the screens */

static const char *job_name(const plan_answer *p)
{
    const char *preset = recipe_word(p->given, K_MODEL);
    return preset ? preset : p->given->name;
}

static const char *searched_text(const plan_answer *p, arena *a)
{
    const search_counts *n = &p->result->counts;
    int64_t judged = n->state + n->saved + n->slow + n->simulated + n->summed + n->rules;
    return arena_text(a, "%s layouts, %.2g s", screen_count(a, (double)judged), n->seconds);
}

static void say_job(const plan_answer *p, const char *verdict, arena *a)
{
    const setting *batch = &p->given->knob[K_GBS];
    bool chosen = batch->why && text_starts(batch->why, "no --gbs");
    screen_title("%s, %s tokens, %s, global batch %s%s%s", job_name(p),
                 text_grouped(a, recipe_int(p->given, K_SEQ)),
                 screen_devices(p->hw->arch == ARCH_CPU, p->world, p->hw->name, a),
                 text_grouped(a, recipe_int(p->given, K_GBS)), chosen ? " (chosen; --gbs)" : "",
                 verdict);
    if (!p->complete)
        screen_line("LIMIT", "the time limit of %.3g s (--seconds) was reached: the best so far",
                    p->limit);
    int n[2] = {0, 0};
    for (int k = 0; k < K_COUNT; k++)
        if (plan_was_set(p, (knob_id)k)) n[plan_was_opened(p, (knob_id)k)]++;
    if (n[1])
        screen_line("RECIPE",
                    "%s sets %d knobs: %d kept, %d searched (--pin KEY=VALUE keeps one, --pin all "
                    "keeps all; --why names them)",
                    p->set->name, n[0] + n[1], n[0], n[1]);
}

static void say_left(const plan_answer *p)
{
    static const char *const said[PLAN_DEFAULTS] = {
        [PLAN_FP8_WEIGHTS] = "weights in FP8: weights in 16 bits were searched, too",
        [PLAN_PUBLISHED] = "features of published runs alone: all features were searched",
        [PLAN_PRECISION] = "the platform's number format: all formats were searched"};
    for (int i = 0; i < PLAN_DEFAULTS; i++)
        if (p->left[i]) screen_line("LEFT", "nothing fits with %s", said[i]);
}

static void say_take(const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    screen_line("TAKE", "%s",
                screen_coloured(a, COLOUR_OK,
                                arena_text(a, "%s  DP %lld  micro batch %lld",
                                           sizes_text(p, &f->c, "  ", a), (long long)f->dp,
                                           (long long)f->c.mbs)));
    screen_line("", "%s", knobs_of(p, &f->c, a));
    const char *lost = plan_lost_pins(p, a);
    if (lost) screen_line("PINS", "not kept: %s", lost);
}

/* With --more: the fastest in less memory, and the smallest cluster. */
static void say_more(const plan_answer *p, arena *a)
{
    enum { SHOWN = 3 };
    const search_result *r = p->result;
    int64_t last = r->best[0].exact.peak_bytes;
    int shown = 0;
    for (int i = 0; i < r->n_front && shown < SHOWN; i++) {
        const found *f = &r->front[i];
        if (last - f->peak_bytes < p->hw->usable / 10) continue;
        last = f->peak_bytes;
        screen_line(shown++ ? "" : "ROOM", "%s", row_text(p, f, a));
    }
    const plan_fewest *x = &p->fewest;
    if (x->gpus && x->gpus < p->world)
        screen_line("ENOUGH", "%lld %s hold this job%s: %s", (long long)x->gpus, p->hw->name,
                    x->exact ? "" : " (not every smaller count was tried)", row_text(p, &x->f, a));
    else if (x->gpus)
        screen_line("ENOUGH", x->exact ? "no smaller cluster holds this job"
                                       : "not every smaller cluster was tried");
}

static void say_next(const plan_answer *p, arena *a)
{
    const char *out = p->out ? p->out : "best.yaml";
    bool ours = p->reasons.winner && job_is_ours(&p->reasons.winner->j);
    screen_line("NEXT", "%s%s%s: moefold check %s --all-ranks  moefold %s %s%s",
                p->out ? "written to " : "add --out ", out, p->out ? "" : ", then", out,
                ours ? "train" : "show", out, ours ? "" : " --as megatron-lm");
    screen_line("", "--why: reasons, other layouts  --everything: all that was found  (%s)",
                searched_text(p, a));
}

static const price_answer *price_of_first(const plan_answer *p, arena *a)
{
    price_answer *x = ARENA_NEW(a, price_answer);
    job given;
    job_of(&given, p->given);
    answer_price(x, &p->result->best[0].exact, &(price_job){p->reasons.winner, p->hw, &p->prices},
                 a);
    x->times = answer_times(&given, p->hw, a);
    return x;
}

void plan_screen(const plan_answer *p, arena *a)
{
    bool cpu = p->hw->arch == ARCH_CPU;
    say_job(p, "", a);
    say_left(p);
    say_take(p, a);
    if (p->reasons.winner && p->result->best[0].priced) {
        const price_answer *x = price_of_first(p, a);
        const price_memory_answer *m = x->memory;
        screen_step(x, p->world, cpu, a);
        screen_memory(m->peak_parts, m->n_peak_parts, p->hw->usable, m->rank, true, a);
        screen_host(m->host, m->on_host, a);
        screen_time(x, cpu, a);
        say_why_first(p, a);
        say_alternatives(p, a);
        say_try(p, a);
        say_ties(p, a);
        say_routing(p, x, a);
        say_trust(p, x, a);
    } else {
        screen_line("STEP", "%s, %s", screen_seconds(a, seconds_of(&p->result->best[0])),
                    screen_fits(a, p->result->best[0].peak_bytes, p->hw->usable));
        say_ties(p, a);
    }
    if (p->more) say_more(p, a);
    say_next(p, a);
}

void plan_screen_miss(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const plan_fewest *x = &p->fewest;
    const activation_offload *o = &p->offload;
    say_job(p, arena_text(a, "  %s", screen_coloured(a, COLOUR_ERROR, "NOTHING FITS")), a);
    if (x->gpus) {
        screen_line("ENOUGH", "%lld %s hold it%s: %s  %s  %s", (long long)x->gpus, p->hw->name,
                    x->exact ? "" : " (not every smaller count was tried)", row_text(p, &x->f, a),
                    knobs_of(p, &x->f.c, a),
                    x->gbs == recipe_int(p->given, K_GBS)
                        ? ""
                        : arena_text(a, "batch %lld, because %lld does not divide",
                                     (long long)x->gbs, (long long)recipe_int(p->given, K_GBS)));
        const char *name = p->own ? job_name(p) : p->given->name;
        screen_command("", arena_text(a, "moefold plan %s --gpus %lldx%s --seq %lld --gbs %lld",
                                      name ? name : p->given->name, (long long)x->gpus,
                                      recipe_word(p->given, K_GPU),
                                      (long long)recipe_int(p->given, K_SEQ), (long long)x->gbs));
    } else {
        screen_line("ENOUGH", "no count up to %lld %s holds it%s", (long long)x->looked_to,
                    p->hw->name, x->exact ? "" : ", among those that were tried");
    }
    if (o->tried_any && o->helps)
        screen_line("OFFLOAD",
                    "it fits here with activations on the host: model.offload_modules=[%s]  %s  "
                    "%s on each GPU's host",
                    o->modules, screen_fits(a, o->p.peak_bytes, p->hw->usable),
                    bytes_text(a, o->p.host_bytes));
    else if (o->tried_any)
        screen_line("OFFLOAD", "activations on the host are not enough: still %s",
                    bytes_text(a, o->p.peak_bytes));
    if (r->has_miss)
        screen_line("NEAREST", "%s%s of %s, %s  %s  %s", p->miss_exact ? "" : "at least ",
                    bytes_text(a, r->miss.peak_bytes), bytes_text(a, p->hw->usable),
                    screen_coloured(a, COLOUR_ERROR,
                                    arena_text(a, "%s too much",
                                               bytes_text(a, r->miss.peak_bytes - p->hw->usable))),
                    sizes_text(p, &r->miss.c, "  ", a), knobs_of(p, &r->miss.c, a));
    else
        screen_line("NEAREST",
                    "none: weights, gradients and optimizer alone are more than any "
                    "layout of these %s holds",
                    p->hw->arch == ARCH_CPU ? "processes" : "GPUs");
    textbuf pins = text_init(a);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *s = &p->given->knob[k];
        if (s->from == FROM_USER && text_equal(s->why, PLAN_BY_WORDS) && axis_decides((knob_id)k))
            text_add(&pins, "%s%s=%s", pins.n ? ", " : "", knobs[k].key, value_text(a, s->v));
    }
    if (pins.n) screen_line("PINNED", "%s: a search without it may find more", pins.s);
    say_left(p);
    screen_line("NEXT", "--everything: what was searched (%s)", searched_text(p, a));
}

/* ---- --why: the list */

void plan_screen_rows(const plan_answer *p, arena *a)
{
    static const screen_column columns[] = {{"", false, 0},
                                            {"step", false, 0},
                                            {"vs 1", false, 0},
                                            {"memory", false, 0},
                                            {"layout", true, 0}};
    enum { N = sizeof columns / sizeof columns[0] };
    const search_result *r = p->result;
    const char *cells[BEST_MAX * N];
    for (int i = 0; i < r->n_best; i++) {
        const found *f = &r->best[i];
        const char **row = cells + i * N;
        row[0] = arena_text(a, "%d", i + 1);
        row[1] = screen_seconds(a, seconds_of(f));
        row[2] = i ? screen_percent(a, seconds_of(f) / seconds_of(&r->best[0]) - 1) : "";
        row[3] = bytes_text(a, f->priced ? f->exact.peak_bytes : f->peak_bytes);
        row[4] =
            arena_text(a, "%s  DP %lld  mbs %lld  %s%s", sizes_text(p, &f->c, "  ", a),
                       (long long)f->dp, (long long)f->c.mbs, knobs_of(p, &f->c, a),
                       f->supported || f->band <= 0 ? "" : "  (no published run has all of this)");
    }
    screen_title("The %d best, one for each set of parallel sizes:", r->n_best);
    screen_table(columns, N, cells, r->n_best);
    printf("\n");
}
