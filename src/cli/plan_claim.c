/* plan_claim.c - the claim of a plan (library/plan_claim.c), printed. */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"

/* "VC-Q30-H100-step, 13011 tok/s/GPU in bf16 on 16 with forced balance" */
static const char *run_text(const band_run *run, arena *a)
{
    return arena_text(a, "%s, %.0f tok/s/GPU in %s%s with %s", run->id, run->tokens, run->precision,
                      run->n_gpus ? arena_text(a, " on %lld", (long long)run->n_gpus) : "",
                      run->natural ? "natural routing" : "forced balance");
}

static void print_doubts(const claim *c)
{
    if (c->n_differ)
        cli_print("", "knobs of number 1, and in brackets those of that run: %s\n", c->differs);
    if (c->row && c->ratio > c->bears)
        cli_print("",
                  "published pairs that differ in %d knobs support a factor of %.2f: measure "
                  "before you rely on more\n",
                  c->n_differ, c->bears);
}

void plan_print_claim(const plan_answer *p, arena *a)
{
    claim c;
    if (!plan_find_claim(&c, p, a)) return;
    if (!c.run) {
        cli_print("Claim",
                  "we know no published run of this model on %s at this sequence length, so number "
                  "1 is not compared with one\n\n",
                  p->hw->name);
        return;
    }
    const char *ours = c.traits.feature[BAND_PRECISION];
    bool alike = text_equal(ours, c.run->precision);
    double off = c.row ? 100 * (exp(-c.row->error) - 1) : 0;
    cli_print("Claim",
              "with the same routing %.2f times the fastest published run %s%s on %s at this "
              "sequence length: %s (%s)\n",
              c.ratio, alike ? "in " : "(none is in ", alike ? ours : arena_text(a, "%s)", ours),
              p->hw->name, run_text(c.run, a),
              c.row ? arena_text(a, "our prediction of it is %.0f %% too %s", fabs(off),
                                 off < 0 ? "slow" : "fast")
                    : "its layout is not published, so it is not predicted");
    if (c.fastest)
        cli_print("", "and %.2f times the fastest of all: %s\n", c.to_fastest,
                  run_text(c.fastest, a));
    print_doubts(&c);
    printf("\n");
}
