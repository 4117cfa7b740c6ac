/* diff_print.c - two recipes side by side, for people and for programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/diff_runs.h"
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
    if (cli_estimates_times(&s->j, e->hw))
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

void diff_print(const differences *d, const diff_verdict *v, const diff_runs *r, arena *a)
{
    print_head(&d->a, "A", a);
    print_head(&d->b, "B", a);
    print_knobs(d, a);
    if (v->priced && (!v->measured || d->n_knobs)) {
        print_time(d);
        print_memory(d, a);
        print_changes(d, a);
    }
    if (r) diff_runs_print(r, d, a);
    if (v->priced || v->measured) print_verdict(v);
}

/* ---- for programs */

static json_t *json_end(const diff_end *e, arena *a)
{
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:o}", "recipe", e->s->r.name, "gpu", e->hw->name, "gpus",
                  (json_int_t)e->s->lay.world, "violations", cli_json_violations(&e->found, a));
    json_object_set_new(o, "why_not", e->why_not ? json_string(e->why_not) : json_null());
    if (e->why_not) return o;
    const price *p = &e->p;
    json_object_set_new(o, "step_s", json_real(p->step_s));
    json_object_set_new(o, "tokens_per_s_per_gpu", json_real(p->tokens_per_s_per_gpu));
    json_object_set_new(o, "peak_bytes", json_integer(p->peak_bytes));
    json_object_set_new(o, "usable_bytes", json_integer(p->usable));
    json_object_set_new(o, "fits", json_boolean(p->fits));
    const times_answer *times = cli_times_answer(&e->s->j, e->hw, a);
    if (times) json_object_update_new(o, answer_json(times_answer, times));
    json_object_set_new(o, "wall", json_string(wall_name(p->wall)));
    return o;
}

static json_t *json_knobs(const differences *d)
{
    json_t *list = json_array();
    for (int i = 0; i < d->n_knobs; i++) {
        const diff_knob *k = &d->knobs[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:b}", "key", knobs[k->k].key, "a",
                                              answer_value(k->from), "b", answer_value(k->to),
                                              "follows", !k->made));
    }
    return list;
}

static json_t *json_parts(const differences *d)
{
    json_t *o = json_object();
    step_part x[STEP_PARTS], y[STEP_PARTS];
    price_parts(x, &d->a.p);
    price_parts(y, &d->b.p);
    for (int i = 0; i < STEP_PARTS; i++)
        json_object_set_new(o, x[i].name,
                            json_pack("{s:f, s:f}", "a", x[i].seconds, "b", y[i].seconds));
    return o;
}

static json_t *json_memory(const differences *d, arena *a)
{
    json_t *o = json_object();
    diff_part parts[2 * PEAK_PARTS];
    int n = peak_of_both(parts, d, a);
    for (int i = 0; i < n; i++)
        json_object_set_new(
            o, parts[i].name,
            json_pack("{s:I, s:I}", "a", (json_int_t)parts[i].a, "b", (json_int_t)parts[i].b));
    return o;
}

static json_t *json_changes(const differences *d)
{
    json_t *list = json_array();
    for (int i = 0; i < d->n_changes; i++) {
        const diff_change *c = &d->changes[i];
        json_t *kinds = json_object();
        for (int k = 0; k < c->n_kinds; k++)
            json_object_set_new(kinds, c->kinds[k].name, json_real(c->kinds[k].seconds));
        json_t *o =
            json_pack("{s:s, s:s, s:f, s:I, s:f, s:I, s:o}", "names", c->names, "change", c->words,
                      "seconds", c->seconds, "bytes", (json_int_t)c->bytes, "step_s", c->p.step_s,
                      "peak_bytes", (json_int_t)c->p.peak_bytes, "moved", kinds);
        json_object_set_new(o, "alone_seconds",
                            c->alone ? json_real(c->alone_seconds) : json_null());
        json_object_set_new(o, "alone_bytes",
                            c->alone ? json_integer(c->alone_bytes) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

json_t *diff_json(const differences *d, const diff_verdict *v, const diff_runs *r, arena *a)
{
    json_t *o = json_object();
    json_object_set_new(o, "a", json_end(&d->a, a));
    json_object_set_new(o, "b", json_end(&d->b, a));
    json_object_set_new(o, "knobs", json_knobs(d));
    json_object_set_new(o, "tolerance", json_real(v->tolerance));
    json_object_set_new(o, "differ", json_boolean(diff_is_beyond(v)));
    if (r) diff_runs_json(o, r);
    if (!v->priced && !v->measured) return o;
    json_object_set_new(o, "time", json_real(v->time));
    json_object_set_new(o, "memory", json_real(v->memory));
    if (!v->priced) return o;
    json_object_set_new(o, "parts", json_parts(d));
    json_object_set_new(o, "regions", json_memory(d, a));
    json_object_set_new(o, "changes", json_changes(d));
    return o;
}
