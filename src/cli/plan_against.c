/* plan_against.c - compares a recipe with its plan: where it ranks, and which changes beat it, one
 * at a time. */
#include <stdio.h>

#include "cli/plan.h"

enum { KINDS_SHOWN = 4 };

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static void print_head(const plan_answer *p, arena *a)
{
    const against *g = p->compared;
    const price *x = &g->p;
    cli_print("\nAgainst", "%s\n         %s\n", p->own->name, plan_sizes_text(g->s, a));
    printf("         %.3f s a step, %.1f tokens/s/GPU, %.1f TFLOP/s/GPU; %.2f GiB on its fullest "
           "rank: %s%s\n",
           x->step_s, x->tokens_per_s_per_gpu, x->tflops_per_gpu, gib(x->peak_bytes),
           x->fits ? "it fits" : "it does not fit, by ",
           x->fits ? "" : text_bytes(a, x->peak_bytes - x->usable));
}

static void print_violations(const against *g)
{
    for (int i = 0; i < g->found.n; i++)
        if (g->found.list[i].rule->severity != NOTE)
            printf("         %s %s: %s\n",
                   g->found.list[i].rule->severity == ERROR ? "breaks" : "warned by",
                   g->found.list[i].rule->id, g->found.list[i].message);
}

/* "It stands", or why it does not. */
static const char *stands(const against *g)
{
    if (!g->p.fits) return "If it fitted, it would rank";
    return g->found.n_errors ? "If it broke no rule, it would rank" : "It ranks";
}

static void print_place(const plan_answer *p)
{
    const against *g = p->compared;
    const search_result *r = p->result;
    if (!r->n_best) return;
    double first = r->best[0].exact.step_s, last = r->best[r->n_best - 1].exact.step_s;
    if (g->place > r->n_best)
        printf("         %s below the %d layouts of the list, the last of which takes %.3f s",
               stands(g), r->n_best, last);
    else
        printf("         %s as number %d of the list", stands(g), g->place);
    if (first < g->p.step_s) printf("; the first is %.2f times as fast", g->p.step_s / first);
    printf("\n");
    if (g->same > 1 || (g->same && g->place > 1))
        printf("         Row %d has the same parallel sizes and better values of the other knobs\n",
               g->same);
}

static void print_kinds(const path_step *s)
{
    printf("                                            ");
    for (int i = 0; i < s->n_kinds && i < KINDS_SHOWN; i++)
        printf("%s%s %+.3g s", i ? ", " : "", s->kinds[i].title, s->kinds[i].seconds);
    printf("%s\n", s->n_kinds ? "" : "no part changes by 0.1 % of the step or more");
}

static void print_path(const against *g)
{
    if (!g->n_path) return;
    printf("\n"
           "         The changes that lead from it to the first, largest gain first among those "
           "that fit and break no rule; changes that\n"
           "         gain nothing or are not possible alone are grouped. Below each change: the "
           "time that it saves (-) or adds (+).\n\n"
           "            gain        step        GiB\n");
    for (int i = 0; i < g->n_path; i++) {
        const path_step *s = &g->path[i];
        printf("         %+6.1f %% %10.3f s %8.2f%s  %s: %s\n", 100 * s->gain, s->p.step_s,
               gib(s->p.peak_bytes), s->p.fits ? " " : "!", s->names, s->words);
        print_kinds(s);
    }
    if (g->faster)
        printf("\n"
               "         After change %d it takes %.3f s, less than the first of the list: a "
               "combination that the search does not try\n"
               "         (a flex backend that is not the platform's own, a layout string, a CUDA "
               "graph scope, an optimizer offload fraction).\n",
               g->faster, g->path[g->faster - 1].p.step_s);
}

void plan_print_against(const plan_answer *p, arena *a)
{
    const against *g = p->compared;
    if (g->why_not) {
        cli_print("\nAgainst", "%s: no program can be built: %s\n", p->own->name, g->why_not);
        return;
    }
    print_head(p, a);
    print_violations(g);
    print_place(p);
    print_path(g);
}
