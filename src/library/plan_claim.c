/* plan_claim.c - the first layout of a plan beside the fastest published run of the same model,
 * length and GPU that is most like it: what it claims, in what it differs, and how much of that
 * published pairs bear.
 *
 * I1  Like is compared with like: of the same precision and number of GPUs where there is such a
 *     run, and always under the run's routing, balanced or as it comes.
 * I2  A run that is faster still, in another precision or on other GPUs, is named, too. */
#include <math.h>

#include "library/plan_parts.h"

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

bool plan_find_claim(claim *out, const plan_answer *p, arena *a)
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

static run_answer answer_run(const band_run *run, double ratio)
{
    return (run_answer){run->id, run->tokens, run->n_gpus, run->precision, run->natural, ratio};
}

const claim_answer *plan_claim_answer(const plan_answer *p, arena *a)
{
    claim c;
    if (!plan_find_claim(&c, p, a) || !c.run) return NULL;
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
