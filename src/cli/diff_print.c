/* diff_print.c - two recipes side by side, for people and for programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "answer/answer.h"
#include "cli/diff_runs.h"
#include "cli/screen.h"
#include "cli/screen_price.h"
#include "cli/verdict.h"
#include "config/target.h"

enum { KINDS_SHOWN = 4 };

/* ---- for people */

static void print_head(const diff_end *e, const char *side, arena *a)
{
    const setup *s = e->s;
    cli_print(side, "%s: %s on %lld x %s", s->r.name, s->m.name,
              (long long)recipe_int(&s->r, K_N_GPUS), e->hw->name);
    if (e->why_not)
        printf("; no program can be built: %s\n", e->why_not);
    else
        printf("; %s a step, %.1f tokens/s/GPU, %s%s\n", text_seconds(a, e->p.step_s),
               e->p.tokens_per_s_per_gpu, text_bytes(a, e->p.peak_bytes),
               e->p.fits ? "" : ", DOES NOT FIT");
    if (answer_estimates_times(&s->j, e->hw))
        printf("         its times are estimates: our %skernels were not measured on %s\n",
               target_by_reference(&s->j) ? "reference " : "", e->hw->name);
    for (int i = 0; i < e->found.n; i++)
        if (e->found.list[i].rule->severity == ERROR)
            printf("         breaks a rule: %s: %s\n", e->found.list[i].rule->id,
                   e->found.list[i].message);
}

static void print_knobs(const differences *d, arena *a)
{
    if (!d->n_knobs) {
        cli_print("\nKnobs", "no knob differs\n");
        return;
    }
    cli_print("\nKnobs", "that differ; * follows from others\n\n");
    for (int i = 0; i < d->n_knobs; i++) {
        const diff_knob *k = &d->knobs[i];
        printf("       %s %-50s %s -> %s\n", k->made ? " " : "*", knobs[k->k].key,
               value_text(a, k->from), value_text(a, k->to));
    }
}

static void print_change(double was, double is, double whole)
{
    printf(" %+10.4g s %+7.1f %%\n", is - was, 100 * (is - was) / whole);
}

static void print_time(const differences *d)
{
    step_part x[STEP_PARTS], y[STEP_PARTS];
    const price *p = &d->a.p, *q = &d->b.p;
    price_parts(x, p);
    price_parts(y, q);
    cli_print("\nTime",
              "of a step, predicted, by kind; the last column is relative to A's step\n\n"
              "         %-36s %12s %12s %12s\n",
              "", "A", "B", "B - A");
    double least = (p->step_s + q->step_s) * 2.5e-5, small[2] = {0};
    for (int i = 0; i < STEP_PARTS; i++) {
        if (x[i].seconds < least && y[i].seconds < least) {
            small[0] += x[i].seconds;
            small[1] += y[i].seconds;
            continue;
        }
        bool message = i >= COST_TP && i <= COST_COPY;
        char title[80];
        snprintf(title, sizeof title, "%s%s", x[i].title, message ? ", exposed" : "");
        printf("         %-36s %10.4g s %10.4g s", title, x[i].seconds, y[i].seconds);
        print_change(x[i].seconds, y[i].seconds, p->step_s);
    }
    printf("         %-36s %10.4g s %10.4g s", "rest", small[0], small[1]);
    print_change(small[0], small[1], p->step_s);
    printf("         %-36s %10.4g s %10.4g s", "step", p->step_s, q->step_s);
    print_change(p->step_s, q->step_s, p->step_s);
}

static const char *signed_bytes(arena *a, int64_t bytes)
{
    return arena_text(a, "%s%s", bytes < 0 ? "-" : "+", text_bytes(a, bytes < 0 ? -bytes : bytes));
}

static void print_bytes(const char *title, int64_t x, int64_t y, arena *a)
{
    if (!x && !y) return;
    printf("         %-36s %12s %12s %12s\n", title, text_bytes(a, x), text_bytes(a, y),
           signed_bytes(a, y - x));
}

/* What adds up to either peak, in one list. */
typedef struct diff_part {
    const char *name, *title;
    int64_t a, b;
} diff_part;

static int peak_of(peak_part *out, const price *p, arena *a)
{
    return peak_parts(out, &p->memory, p->megatron ? NULL : p->bytes, a);
}

static int peak_of_both(diff_part *out, const differences *d, arena *a)
{
    peak_part x[PEAK_PARTS], y[PEAK_PARTS];
    int n_x = peak_of(x, &d->a.p, a), n_y = peak_of(y, &d->b.p, a), n = 0;
    for (int i = 0; i < n_x; i++) out[n++] = (diff_part){x[i].name, x[i].title, x[i].bytes, 0};
    for (int i = 0; i < n_y; i++) {
        int k = 0;
        while (k < n && !text_equal(out[k].name, y[i].name)) k++;
        if (k == n) out[n++] = (diff_part){y[i].name, y[i].title, 0, 0};
        out[k].b = y[i].bytes;
    }
    return n;
}

static void print_memory(const differences *d, arena *a)
{
    const price *p = &d->a.p, *q = &d->b.p;
    diff_part parts[2 * PEAK_PARTS];
    int n = peak_of_both(parts, d, a);
    cli_print("\nMemory",
              "of the fullest rank, by what it holds\n\n         %-36s %12s %12s %12s\n", "", "A",
              "B", "B - A");
    for (int i = 0; i < n; i++) print_bytes(parts[i].title, parts[i].a, parts[i].b, a);
    print_bytes("peak", p->peak_bytes, q->peak_bytes, a);
    print_bytes("usable", p->usable, q->usable, a);
    print_bytes("activations on the host", p->host_bytes, q->host_bytes, a);
}

static void print_changes(const differences *d, arena *a)
{
    if (!d->n_changes) return;
    double alone = 0;
    bool known = true;
    cli_print("\nChanges",
              "from A to B, one after another: what each adds to the step and to the peak.\n"
              "         Alone: the same on top of A; where the two differ, the change interacts "
              "with others.\n\n");
    printf("         %12s %12s %12s %12s\n", "step", "peak", "alone: step", "peak");
    for (int i = 0; i < d->n_changes; i++) {
        const diff_change *c = &d->changes[i];
        printf("         %+10.4g s %12s", c->seconds, signed_bytes(a, c->bytes));
        if (c->alone)
            printf(" %+10.4g s %12s", c->alone_seconds, signed_bytes(a, c->alone_bytes));
        else
            printf(" %25s", "not possible alone");
        printf("  %s: %s\n", c->names, c->words);
        known = known && c->alone;
        alone += c->alone_seconds;
        if (!c->n_kinds) continue;
        printf("                       ");
        for (int k = 0; k < c->n_kinds && k < KINDS_SHOWN; k++)
            printf("%s%s %+.3g s", k ? ", " : "", c->kinds[k].title, c->kinds[k].seconds);
        printf("\n");
    }
    double all = d->b.p.step_s - d->a.p.step_s;
    if (known && d->n_changes > 1)
        printf("\n         Alone they add up to %+.4g s, together to %+.4g s: %+.4g s are "
               "interactions.\n",
               alone, all, all - alone);
}

static void print_verdict(const diff_verdict *v)
{
    cli_print("\nVerdict",
              "B's step is %.1f %% %s than A's%s, its %s %.1f %% %s; tolerance %.3g %%: %s\n",
              100 * fabs(v->time), v->time < 0 ? "shorter" : "longer", v->noise ? " (noise)" : "",
              v->measured ? "planned memory" : "peak", 100 * fabs(v->memory),
              v->memory < 0 ? "smaller" : "larger", 100 * v->tolerance,
              diff_is_beyond(v) ? "they differ" : "they do not differ");
}

/* ---- for people: the screen */

static void put_end(const diff_end *e, const char *side, arena *a)
{
    const setup *s = e->s;
    screen_line(
        side, "%s: %s on %s", s->r.name, s->m.name,
        screen_devices(e->hw->arch == ARCH_CPU, recipe_int(&s->r, K_N_GPUS), e->hw->name, a));
    if (e->why_not) screen_line("", "no program can be built: %s", e->why_not);
    if (answer_estimates_times(&s->j, e->hw))
        screen_line("", "its times are estimates: our %skernels were not measured on %s",
                    target_by_reference(&s->j) ? "reference " : "", e->hw->name);
    for (int i = 0; i < e->found.n; i++)
        if (e->found.list[i].rule->severity == ERROR)
            screen_line("", "breaks a rule: %s: %s", e->found.list[i].rule->id,
                        e->found.list[i].message);
}

static void put_knobs(const differences *d, arena *a)
{
    enum { SHOWN = 6 };
    int shown = 0, made = 0;
    for (int i = 0; i < d->n_knobs; i++) made += d->knobs[i].made;
    for (int i = 0; i < d->n_knobs && shown < SHOWN; i++) {
        const diff_knob *k = &d->knobs[i];
        if (k->made)
            screen_line(shown++ ? "" : "KNOBS", "%s  %s -> %s", knobs[k->k].key,
                        value_text(a, k->from), value_text(a, k->to));
    }
    if (!d->n_knobs)
        screen_line("KNOBS", "no knob differs");
    else if (d->n_knobs > shown)
        screen_line(shown ? "" : "KNOBS", "%d more%s (--why)", d->n_knobs - shown,
                    made == shown ? ", which follow from these" : "");
}

/* What moved most, of parts that moved by a thousandth of A's step. */
static void put_moved(const step_part *x, const step_part *y, double step_s, arena *a)
{
    enum { SHOWN = 5 };
    bool used[STEP_PARTS] = {false};
    textbuf line = text_init(a);
    for (int n = 0; n < SHOWN; n++) {
        int most = -1;
        for (int i = 0; i < STEP_PARTS; i++) {
            double by = fabs(y[i].seconds - x[i].seconds);
            if (used[i] || by < 1e-3 * step_s) continue;
            if (most < 0 || by > fabs(y[most].seconds - x[most].seconds)) most = i;
        }
        if (most < 0) break;
        double by = y[most].seconds - x[most].seconds;
        used[most] = true;
        text_add(&line, "%s%s%s %s%s", n ? ",  " : "", x[most].title,
                 most >= COST_TP && most <= COST_COPY ? ", exposed" : "", by < 0 ? "-" : "+",
                 screen_seconds(a, fabs(by)));
    }
    if (line.n) screen_line("MOVED", "%s", line.s);
}

static void put_changes(const differences *d, arena *a)
{
    static const screen_column columns[] = {{"step", false, 0},
                                            {"peak", false, 0},
                                            {"alone", false, 1},
                                            {"change from A to B, one after another", true, 0}};
    enum { N = sizeof columns / sizeof columns[0] };
    const char **cells = ARENA_ARRAY(a, const char *, N *(d->n_changes + 1));
    if (!d->n_changes) return;
    for (int i = 0; i < d->n_changes; i++) {
        const diff_change *c = &d->changes[i];
        const char **to = cells + N * i;
        to[0] =
            arena_text(a, "%s%s", c->seconds < 0 ? "-" : "+", screen_seconds(a, fabs(c->seconds)));
        to[1] = c->bytes ? signed_bytes(a, c->bytes) : "0";
        to[2] = c->alone ? arena_text(a, "%s%s", c->alone_seconds < 0 ? "-" : "+",
                                      screen_seconds(a, fabs(c->alone_seconds)))
                         : "-";
        to[3] = arena_text(a, "%s: %s", c->names, c->words);
    }
    printf("\n");
    screen_table(columns, N, cells, d->n_changes);
}

static void put_verdict(const differences *d, const diff_verdict *v, const diff_runs *r, arena *a)
{
    bool differ = diff_is_beyond(v);
    screen_line("VERDICT",
                "B's step is %.1f %% %s than A's%s, its %s %.1f %% %s; tolerance %.3g %%: "
                "%s",
                100 * fabs(v->time), v->time < 0 ? "shorter" : "longer", v->noise ? " (noise)" : "",
                v->measured ? "planned memory" : "peak", 100 * fabs(v->memory),
                v->memory < 0 ? "smaller" : "larger", 100 * v->tolerance,
                screen_coloured(a, differ ? COLOUR_WARNING : COLOUR_OK,
                                differ ? "they differ" : "they do not differ"));
    if (v->measured)
        screen_line("STEP", "measured %s in A, %s in B, %lld and %lld steps",
                    screen_band(a, r->c.steps[0].median, r->c.steps[0].low, r->c.steps[0].high),
                    screen_band(a, r->c.steps[1].median, r->c.steps[1].low, r->c.steps[1].high),
                    (long long)r->side[0].m.n, (long long)r->side[1].m.n);
    else
        screen_line("STEP", "predicted %s in A, %s in B", screen_seconds(a, d->a.p.step_s),
                    screen_seconds(a, d->b.p.step_s));
    if (v->priced && !v->measured)
        screen_line("MEMORY", "A %s;  B %s", screen_fits(a, d->a.p.peak_bytes, d->a.p.usable),
                    screen_fits(a, d->b.p.peak_bytes, d->b.p.usable));
}

static void put_screen(const differences *d, const diff_verdict *v, const diff_runs *r, bool more,
                       arena *a)
{
    put_end(&d->a, "A", a);
    put_end(&d->b, "B", a);
    if (v->priced || v->measured) put_verdict(d, v, r, a);
    put_knobs(d, a);
    if (v->measured && r->c.has_parts)
        put_moved(r->c.parts[0], r->c.parts[1], r->c.step_s[0], a);
    else if (v->priced && !v->measured) {
        step_part x[STEP_PARTS], y[STEP_PARTS];
        price_parts(x, &d->a.p);
        price_parts(y, &d->b.p);
        put_moved(x, y, d->a.p.step_s, a);
    }
    if (r && !r->both) diff_runs_screen_one(r, d, a);
    if (r && r->both) diff_runs_screen_noise(r, a);
    if (more)
        screen_line("NEXT", "--why: knobs that follow, and which parts each change moved  "
                            "--everything: all figures");
    if (v->priced && (!v->measured || d->n_knobs)) put_changes(d, a);
}

void diff_print(const differences *d, const diff_verdict *v, const diff_runs *r, diff_more more,
                arena *a)
{
    put_screen(d, v, r, !more.why && !more.everything, a);
    if (!more.why && !more.everything) return;
    bool priced = v->priced && (!v->measured || d->n_knobs);
    screen_hold();
    if (more.everything) {
        printf("\n");
        print_head(&d->a, "A", a);
        print_head(&d->b, "B", a);
    }
    print_knobs(d, a);
    if (priced && more.everything) {
        print_time(d);
        print_memory(d, a);
    }
    if (priced) print_changes(d, a);
    if (r) diff_runs_print(r, d, a);
    if (more.everything && (v->priced || v->measured)) print_verdict(v);
    screen_release();
}

/* ---- for programs */

static const end_answer *end_of(const diff_end *e, arena *a)
{
    end_answer *x = ARENA_NEW(a, end_answer);
    *x = (end_answer){
        .recipe = e->s->r.name, .gpu = e->hw->name, .gpus = e->s->lay.world, .why_not = e->why_not};
    x->violations = answer_violations(&x->n_violations, &e->found, a);
    if (e->why_not) return x;
    priced_end_answer *priced = ARENA_NEW(a, priced_end_answer);
    *priced = (priced_end_answer){.step_s = e->p.step_s,
                                  .tokens_per_s_per_gpu = e->p.tokens_per_s_per_gpu,
                                  .peak_bytes = e->p.peak_bytes,
                                  .usable_bytes = e->p.usable,
                                  .fits = e->p.fits,
                                  .times = answer_times(&e->s->j, e->hw, a),
                                  .wall = wall_name(e->p.wall)};
    x->priced = priced;
    return x;
}

static const diff_change_answer *changes_of(const differences *d, arena *a)
{
    diff_change_answer *list = ARENA_ARRAY(a, diff_change_answer, d->n_changes);
    for (int i = 0; i < d->n_changes; i++) {
        const diff_change *c = &d->changes[i];
        seconds_answer *kinds = ARENA_ARRAY(a, seconds_answer, c->n_kinds);
        for (int k = 0; k < c->n_kinds; k++)
            kinds[k] = (seconds_answer){c->kinds[k].name, c->kinds[k].seconds};
        list[i] = (diff_change_answer){.names = c->names,
                                       .change = c->words,
                                       .seconds = c->seconds,
                                       .bytes = c->bytes,
                                       .step_s = c->p.step_s,
                                       .peak_bytes = c->p.peak_bytes,
                                       .moved = kinds,
                                       .n_moved = c->n_kinds,
                                       .alone_seconds = c->alone ? c->alone_seconds : NAN,
                                       .alone_bytes = c->alone ? c->alone_bytes : FIELD_NONE};
    }
    return list;
}

static const priced_difference_answer *priced_of(const differences *d, arena *a)
{
    priced_difference_answer *out = ARENA_NEW(a, priced_difference_answer);
    two_seconds_answer *parts = ARENA_ARRAY(a, two_seconds_answer, STEP_PARTS);
    two_bytes_answer *regions = ARENA_ARRAY(a, two_bytes_answer, 2 * PEAK_PARTS);
    step_part x[STEP_PARTS], y[STEP_PARTS];
    diff_part peak[2 * PEAK_PARTS];
    price_parts(x, &d->a.p);
    price_parts(y, &d->b.p);
    *out = (priced_difference_answer){.parts = parts,
                                      .n_parts = STEP_PARTS,
                                      .regions = regions,
                                      .n_regions = peak_of_both(peak, d, a),
                                      .changes = changes_of(d, a),
                                      .n_changes = d->n_changes};
    for (int i = 0; i < STEP_PARTS; i++)
        parts[i] = (two_seconds_answer){x[i].name, x[i].seconds, y[i].seconds};
    for (int i = 0; i < out->n_regions; i++)
        regions[i] = (two_bytes_answer){peak[i].name, peak[i].a, peak[i].b};
    return out;
}

json_t *diff_json(const differences *d, const diff_verdict *v, const diff_runs *r, arena *a)
{
    differing_knob_answer *list = ARENA_ARRAY(a, differing_knob_answer, d->n_knobs);
    for (int i = 0; i < d->n_knobs; i++) {
        const diff_knob *k = &d->knobs[i];
        list[i] = (differing_knob_answer){knobs[k->k].key, answer_value(k->from),
                                          answer_value(k->to), !k->made};
    }
    const difference_answer difference = {v->time, v->memory};
    const diff_answer x = {.a = end_of(&d->a, a),
                           .b = end_of(&d->b, a),
                           .knobs = list,
                           .n_knobs = d->n_knobs,
                           .tolerance = v->tolerance,
                           .differ = diff_is_beyond(v),
                           .measured = r ? diff_runs_answer(r, a) : NULL,
                           .difference = v->priced || v->measured ? &difference : NULL,
                           .priced = v->priced ? priced_of(d, a) : NULL};
    return answer_json(diff_answer, &x);
}
