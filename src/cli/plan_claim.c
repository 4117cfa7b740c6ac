/* plan_claim.c - the first layout of a plan beside the fastest published run of the same model,
 * length and GPU: what it claims, in what it differs, and how much of that published pairs bear.
 *
 * Published runs force balance, so a plan with natural routing is compared as if it did, too. */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "price/bands.h"

typedef struct claim {
    const band_row *row; /* NULL: nothing is published */
    band_traits traits;
    const char *differs;
    int n_differ;
    double ratio, bears; /* of speeds; what pairs that differ in so many knobs bear */
} claim;

static double tokens_of(const plan_answer *p)
{
    const found *f = &p->result->best[0];
    bool forced = p->other.there && !p->other.natural && p->other.step_s > 0;
    return f->exact.tokens_per_s_per_gpu * (forced ? f->exact.step_s / p->other.step_s : 1);
}

/* False: no other framework runs there, or the layout cannot be made. */
static bool find_claim(claim *out, const plan_answer *p, arena *a)
{
    search_result *r = p->result;
    setup *s = ARENA_NEW(a, setup);
    const found *f = &r->best[0];
    *out = (claim){.differs = ""};
    if (!(f->band > 0) || !f->priced) return false;
    if (!choice_patch(s, r->maker, &f->c, choice_split(r->maker, &f->c))) return false;
    out->traits = band_traits_of(s);
    out->row = band_fastest(&out->traits);
    if (!out->row) return true;
    textbuf t = text_init(a);
    out->n_differ = band_unlike(&t, &out->traits, out->row);
    if (t.s) out->differs = t.s;
    out->ratio = tokens_of(p) / out->row->tokens;
    out->bears = exp(band_of_difference(out->n_differ > 0 ? out->n_differ : 1));
    return true;
}

void plan_print_claim(const plan_answer *p, arena *a)
{
    claim c;
    if (!find_claim(&c, p, a)) return;
    if (!c.row) {
        cli_print("Claim",
                  "we know no published run of this model on %s at this sequence length, so number "
                  "1 is not compared with one\n\n",
                  p->hw->name);
        return;
    }
    double off = 100 * (exp(-c.row->error) - 1);
    cli_print("Claim",
              "%.2f times the fastest published run on %s at this sequence length: %s, %.0f "
              "tok/s/GPU on %lld in %s (our prediction of it is %.0f %% too %s)\n",
              c.ratio, p->hw->name, c.row->id, c.row->tokens, (long long)c.row->n_gpus,
              c.row->feature[BAND_PRECISION], fabs(off), off < 0 ? "slow" : "fast");
    if (c.n_differ)
        cli_print("", "knobs of number 1, and in brackets those of that run: %s\n", c.differs);
    if (c.ratio > c.bears)
        cli_print("",
                  "published pairs that differ in %d knobs support a factor of %.2f: measure "
                  "before you rely on more\n",
                  c.n_differ, c.bears);
    printf("\n");
}

json_t *plan_json_claim(const plan_answer *p, arena *a)
{
    claim c;
    if (!find_claim(&c, p, a) || !c.row) return json_null();
    return json_pack("{s:s, s:f, s:I, s:s, s:f, s:f, s:f, s:s, s:i}", "id", c.row->id,
                     "tokens_per_s_per_gpu", c.row->tokens, "gpus", (json_int_t)c.row->n_gpus,
                     "precision", c.row->feature[BAND_PRECISION], "ratio", c.ratio, "bears",
                     c.bears, "price_error", exp(-c.row->error) - 1, "differs", c.differs,
                     "n_differ", c.n_differ);
}
