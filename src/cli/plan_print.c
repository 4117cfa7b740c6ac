/* plan_print.c - the table of the best, the front of speed against headroom, and the near miss. */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "config/job_of.h"
#include "cli/routing.h"
#include "cli/screen_price.h"
#include "cli/verdict.h"
#include "ir/segment.h"
#include "config/job_of.h"
#include "config/export.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

const char *plan_knobs_text(const plan_answer *p, const choice *c, arena *a)
{
    textbuf t = text_init(a);
    text_add(&t, "dispatcher %s", plan_dispatcher(p, c));
    if (c->overlap != OVERLAP_NOTHING) text_add(&t, ", overlap: %s", plan_overlap(c->overlap));
    if (c->drop) text_add(&t, ", recompute %s", choice_modules(a, c->drop));
    if (c->offload) text_add(&t, ", %s", choice_offload(a, c));
    if (c->graphs) text_add(&t, ", CUDA graphs: %s", choice_graphs(c->graphs));
    for (pick_id x = 0; x < PICKS; x++)
        if (c->pick[x]) text_add(&t, ", %s", choice_pick(a, x, c->pick[x]));
    const choice_maker *m = p->result->maker;
    const char *format = job_word(K_PRECISION, m->precisions[c->precision]);
    bool first = m->precisions[c->precision] == m->precisions[0];
    if (format && (p->any_precision || !first)) text_add(&t, ", %s", format);
    if (m->wide[c->precision]) text_add(&t, ", weights in 16 bits");
    if (c->split) text_add(&t, ", embedding and head count as layers");
    if (p->ways.chunks) text_add(&t, ", %lld chunks", (long long)p->ways.chunks);
    return t.s;
}

/* "916 M": three digits are what anybody reads. */
static const char *about(arena *a, int64_t n)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e4, "K"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if ((double)n >= units[i].unit) {
            double x = (double)n / (units[i].unit == 1e4 ? 1e3 : units[i].unit);
            return arena_text(a,
                              x < 10    ? "%.2f %s"
                              : x < 100 ? "%.1f %s"
                                        : "%.0f %s",
                              x, units[i].name);
        }
    return text_grouped(a, n);
}

/* Chunks that nobody asked for, and what they brought. */
static void print_chunks(const plan_answer *p)
{
    const search_own *w = &p->ways;
    if (!w->chunks) return;
    printf("         among layouts with %s=%lld; without it ", knobs[K_SEQUENCE_CHUNKS].key,
           (long long)w->chunks);
    if (w->without_s > 0)
        printf("the best takes %.3f s\n", w->without_s);
    else
        printf("nothing fits\n");
}

/* Defaults that were left because nothing fits with them. */
static void print_left(const plan_answer *p)
{
    static const char *const said[PLAN_DEFAULTS] = {
        [PLAN_FP8_WEIGHTS] = ("weights in FP8 (mixed_precision.fp8_param_gather): weights in 16 "
                              "bits (BF16, or the optimizer on the host) were"),
        [PLAN_PUBLISHED] = "the features of published runs on such GPUs: all features were",
        [PLAN_PRECISION] = "the platform's number format: all formats were"};
    for (int i = 0; i < PLAN_DEFAULTS; i++)
        if (p->left[i]) printf("         Nothing fits with %s searched, too.\n", said[i]);
}

static void print_counts(const plan_answer *p, arena *a)
{
    const search_counts *n = &p->result->counts;
    int64_t judged = n->state + n->saved + n->slow + n->simulated + n->summed + n->rules;
    const struct {
        int64_t n;
        const char *what;
    } rows[] = {
        {n->state, "cannot hold weights, gradients and optimizer"},
        {n->saved, "have no room for activations"},
        {n->slow,
         "are slower than the tenth by a lower bound, or than the best with the same sizes"},
        {n->simulated, "were simulated and are slower than the tenth"},
        {n->rules, "break a rule"},
    };
    cli_print("Searched", "%s layouts in %.2g s\n", about(a, judged), n->seconds);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].n) printf("         %8s %s\n", about(a, rows[i].n), rows[i].what);
    printf("         %8s were simulated with exact memory; %s of them fit\n", about(a, n->summed),
           about(a, n->fitted));
    if (p->published)
        printf("         among features that published runs on such GPUs have (--search all "
               "searches all features)\n");
    print_left(p);
    print_chunks(p);
    if (!p->complete)
        printf(
            "         The time limit of %.3g s (--seconds) was reached: this is the best so far.\n",
            p->limit);
    printf("\n");
}

/* What its number is worth. */
static void print_judgement(const search_result *r, int row)
{
    const found *f = &r->best[row];
    printf("            +-%.0f %%%s%s", 100 * (exp(f->band) - 1),
           f->tie ? ", a tie with the fastest" : "",
           f->supported ? "" : ", no published run has all of its features");
    if (row && f->before) printf("; before number %d because %s", f->behind + 1, f->before);
    printf("\n");
}

static void print_table(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    bool cpu = p->hw->arch == ARCH_CPU;
    printf("Best     %d layouts, one for each set of parallel sizes; %.1f GiB of a %s are usable\n"
           "         GiB: peak of the fullest rank; TFLOP/s: model FLOPs per %s; mbs: micro batch "
           "size\n\n",
           r->n_best, gib(p->hw->usable), screen_device(cpu), screen_device(cpu));
    printf("         %2s %9s %10s %8s %8s  TP  CP           EP ETP  PP VPP  DP mbs\n", "", "step s",
           cpu ? "tok/s/proc" : "tok/s/GPU", "TFLOP/s", "GiB");
    for (int i = 0; i < r->n_best; i++) {
        const found *f = &r->best[i];
        const choice *c = &f->c;
        printf("         %2d %9.3f %10.1f %8.*f %8.2f %3lld %3lld %-10s %3lld %3lld %3lld %3lld "
               "%3lld %3lld\n",
               i + 1, f->exact.step_s, f->exact.tokens_per_s_per_gpu,
               cli_tflops_digits(f->exact.tflops_per_gpu), f->exact.tflops_per_gpu,
               gib(f->exact.peak_bytes), (long long)c->tp, (long long)c->cp,
               c->cp > 1 ? cp_kinds[c->kind].name : "", (long long)c->ep, (long long)c->etp,
               (long long)c->pp, (long long)c->vpp, (long long)f->dp, (long long)c->mbs);
        printf("            %s\n", plan_knobs_text(p, c, a));
        if (f->band > 0) print_judgement(r, i);
        if (f->exact.peak_bytes != f->peak_bytes)
            printf(
                "            warning: the whole program takes %lld bytes, the estimate was %lld\n",
                (long long)f->exact.peak_bytes, (long long)f->peak_bytes);
    }
    printf("\n");
}

/* Rows that free hardly more memory than the one before are left to --json. */
enum { FRONT_STEPS = 40 };

static void print_front(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    cli_print("Headroom",
              "The fastest layouts for each amount of free memory, %s\n"
              "         (estimated from per-layer costs)\n\n",
              p->more ? "and the fastest in 80, 60 and 40 % of the memory"
                      : "among those simulated (--more searches for others)");
    int64_t last = INT64_MAX; /* bytes of the last that was printed */
    for (int i = 0; i < r->n_front; i++) {
        const found *f = &r->front[i];
        if (i && last - f->peak_bytes < p->hw->usable / FRONT_STEPS) continue;
        last = f->peak_bytes;
        printf("         %9.3f s %8.2f GiB free  %s; %s\n", f->step_s,
               gib(p->hw->usable - f->peak_bytes), choice_text(a, &f->c),
               plan_knobs_text(p, &f->c, a));
    }
    printf("\n");
}

/* ---- what a file sets */

enum { COLUMNS = 110 };

static void print_wrapped(const char *word, const char *text)
{
    int at = (int)strlen(word) + 1;
    printf("         %s:", word);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (at > 0 && at + (int)n > COLUMNS - 9) {
            printf("\n            ");
            at = 0;
        }
        printf(" %.*s", (int)n, p);
        at += (int)n + 1;
        p += n;
        p += strspn(p, " ");
    }
    printf("\n");
}

void plan_print_kept(const plan_answer *p, arena *a)
{
    textbuf kept = text_init(a), opened = text_init(a);
    int n[2] = {0, 0};
    for (int k = 0; k < K_COUNT; k++) {
        if (!plan_was_set(p, (knob_id)k)) continue;
        bool open = plan_was_opened(p, (knob_id)k);
        n[open]++;
        if (open)
            text_add(&opened, "%s%s=%s", opened.n ? " " : "", knobs[k].key,
                     word_quoted(a, value_text(a, p->set->knob[k].v)));
        else if (strncmp(knobs[k].key, "model.", 6) != 0)
            text_add(&kept, "%s%s", kept.n ? " " : "", knobs[k].key);
    }
    if (!n[0] && !n[1]) return;
    cli_print("Recipe", "%s sets %d knob%s: %d kept, %d searched%s\n", p->set->name, n[0] + n[1],
              n[0] + n[1] > 1 ? "s" : "", n[0], n[1],
              n[1] ? " (--pin KEY=VALUE keeps one, --pin all keeps all)" : "");
    if (n[1]) print_wrapped("searched", opened.s);
    if (kept.n) print_wrapped("kept, in addition to the model's", kept.s);
    printf("\n");
}

void plan_print(const plan_answer *p, arena *a)
{
    cli_print("Plan", "%s on %lld %s, sequence length %s, global batch %s (%s)\n\n",
              recipe_word(p->given, K_MODEL) ? recipe_word(p->given, K_MODEL) : p->given->name,
              (long long)p->world, p->hw->name, text_grouped(a, recipe_int(p->given, K_SEQ)),
              text_grouped(a, recipe_int(p->given, K_GBS)), p->given->knob[K_GBS].why);
    job given;
    job_of(&given, p->given);
    cli_print_times(&given, p->hw, a);
    plan_print_kept(p, a);
    const char *lost = plan_lost_pins(p, a);
    if (lost) cli_print("Pins", "not kept by the search: %s\n\n", lost);
    print_counts(p, a);
    print_table(p, a);
    plan_print_first(p, a);
    plan_print_claim(p, a);
    print_front(p, a);
}

void plan_print_miss(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    cli_print("Plan", "nothing fits on %lld %s\n\n", (long long)p->world, p->hw->name);
    print_counts(p, a);
    if (r->has_miss) {
        int64_t over = r->miss.peak_bytes - p->hw->usable;
        cli_print("Nearest", "%s; %s\n", choice_text(a, &r->miss.c),
                  plan_knobs_text(p, &r->miss.c, a));
        printf("         needs %s%s on its fullest rank, %s bytes (%s) more than is usable\n",
               p->miss_exact ? "" : "at least ", text_bytes(a, r->miss.peak_bytes),
               text_grouped(a, over), text_bytes(a, over));
        if (p->miss_exact)
            printf("         (no layout needs less than %s)\n", text_bytes(a, p->miss_least));
    } else {
        cli_print("Nearest",
                  "weights, gradients and optimizer alone are more than any layout of these "
                  "GPUs holds\n");
    }
    plan_print_offload(p, a);
    plan_print_fewest(p, a);
}
