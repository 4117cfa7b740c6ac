/* plan_rows.c - the rest of the list, row by row: in what each differs from the first, and which
 * time it takes more of. */
#include <stdio.h>

#include "cli/plan.h"

enum { KINDS_SHOWN = 3 };

static void add_size(textbuf *t, const char *name, int64_t here, int64_t there)
{
    if (here != there)
        text_add(t, "%s%s %lld instead of %lld", t->n ? ", " : "", name, (long long)here,
                 (long long)there);
}

static void add_word(textbuf *t, const char *word, bool differs)
{
    if (differs) text_add(t, "%s%s", t->n ? ", " : "", word);
}

/* In what a row differs from the first: "EP 32 instead of 16, no graphs". */
static const char *differences(const plan_answer *p, const choice *c, arena *a)
{
    const choice *first = &p->result->best[0].c;
    textbuf t = text_init(a);
    add_size(&t, "TP", c->tp, first->tp);
    add_size(&t, "CP", c->cp, first->cp);
    add_word(&t, cp_kinds[c->kind].title, c->kind != first->kind && c->cp > 1 && first->cp > 1);
    add_size(&t, "EP", c->ep, first->ep);
    add_size(&t, "ETP", c->etp, first->etp);
    add_size(&t, "PP", c->pp, first->pp);
    add_size(&t, "VPP", c->vpp, first->vpp);
    add_size(&t, "microbatch size", c->mbs, first->mbs);
    add_word(&t, arena_text(a, "dispatcher %s", plan_dispatcher(p, c)), c->to != first->to);
    add_word(&t, arena_text(a, "overlap: %s", plan_overlap(c->overlap)),
             c->overlap != first->overlap);
    for (pick_id x = 0; x < PICKS; x++)
        add_word(&t, choice_pick(a, x, c->pick[x]), c->pick[x] != first->pick[x]);
    add_word(&t,
             c->drop ? arena_text(a, "recompute %s", choice_modules(a, c->drop)) : "no recompute",
             c->drop != first->drop);
    add_word(&t, choice_offload(a, c), c->offload != first->offload);
    add_word(&t,
             c->graphs ? arena_text(a, "CUDA graphs: %s", choice_graphs(c->graphs))
                       : "no CUDA graphs",
             c->graphs != first->graphs);
    add_word(&t, c->split ? "embedding and head count as layers" : "even split of layers",
             c->split != first->split);
    return t.n ? t.s : "the same knobs";
}

void plan_explain_rows(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const price *first = &r->best[0].exact;
    if (r->n_best < 2) return;
    cli_print("\nRows",
              "How each differs from the first, its step time against the first, and what "
              "takes "
              "more (+) or less (-) time:\n\n");
    for (int i = 1; i < r->n_best; i++) {
        const found *f = &r->best[i];
        moved kinds[MOVED_MAX];
        int n = price_moved(kinds, first, &f->exact);
        printf("         %2d %+5.1f %%  %s\n", i + 1, 100 * (f->exact.step_s / first->step_s - 1),
               differences(p, &f->c, a));
        printf("                     ");
        for (int k = 0; k < n && k < KINDS_SHOWN; k++)
            printf("%s%s %+.3g s", k ? ", " : "", kinds[k].title, kinds[k].seconds);
        printf("%s\n", n ? "" : "no part differs by 0.1 % of the step");
    }
}
