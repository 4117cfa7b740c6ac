/* plan_claim.c - the first layout of a plan beside the fastest published run of the same model,
 * length and GPU that is most like it: what it claims, in what it differs, and how much of that
 * published pairs bear.
 *
 * I1  Like is compared with like: of the same precision and number of GPUs where there is such a
 *     run, and always under the run's routing, balanced or as it comes.
 * I2  A run that is faster still, in another precision or on other GPUs, is named, too. */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "predict/bands.h"

typedef struct claim {
    const band_run *run;     /* NULL: nothing is published */
    const band_run *fastest; /* in any precision; NULL: it is `run` */
    const band_row *row;     /* of the run; NULL: its layout is not known, so it has no price */
    band_traits traits;
    const char *differs;
    int n_differ;
    double ratio, bears; /* of speeds; what pairs that differ in so many knobs bear */
    double to_fastest;
} claim;

/* Of the first row, with this routing (I1). */
static double tokens_of(const plan_answer *p, bool natural)
{
    const found *f = &p->result->best[0];
    bool other = p->other.there && p->other.natural == natural && p->other.step_s > 0;
    return f->exact.tokens_per_s_per_gpu * (other ? f->exact.step_s / p->other.step_s : 1);
}

static double ratio_to(const plan_answer *p, const band_run *run)
{
    return tokens_of(p, run->natural) / run->tokens;
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
    out->run = band_fastest_like(&out->traits, p->world);
    if (!out->run) return true;
    const band_run *fastest = band_fastest(&out->traits);
    if (fastest->tokens > out->run->tokens) out->fastest = fastest;
    out->ratio = ratio_to(p, out->run);
    out->to_fastest = ratio_to(p, fastest);
    out->row = band_row_of(out->run);
    if (!out->row) return true;
    textbuf t = text_init(a);
    out->n_differ = band_unlike(&t, &out->traits, out->row);
    if (t.s) out->differs = t.s;
    out->bears = exp(band_of_difference(out->n_differ > 0 ? out->n_differ : 1));
    return true;
}

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
    if (!find_claim(&c, p, a)) return;
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

static run_answer answer_run(const band_run *run, double ratio)
{
    return (run_answer){run->id, run->tokens, run->n_gpus, run->precision, run->natural, ratio};
}

const claim_answer *plan_claim_answer(const plan_answer *p, arena *a)
{
    claim c;
    if (!find_claim(&c, p, a) || !c.run) return NULL;
    claim_answer *x = ARENA_NEW(a, claim_answer);
    run_answer *runs = ARENA_ARRAY(a, run_answer, 2);
    runs[0] = answer_run(c.run, c.ratio);
    *x = (claim_answer){.run = runs,
                        .bears = c.row ? c.bears : NAN,
                        .price_error = c.row ? exp(-c.row->error) - 1 : NAN,
                        .differs = c.differs,
                        .n_differ = c.row ? c.n_differ : FIELD_NONE};
    if (c.fastest) {
        runs[1] = answer_run(c.fastest, c.to_fastest);
        x->fastest = &runs[1];
    }
    return x;
}
