/* loads.c - the skew of natural routing; see loads.h.
 *
 * I1  The load of one of n EP ranks is taken as a sum of D independent draws that reach it with the
 *     chance of 1/n each. Its relative spread is sqrt((n - 1) / D), and the fullest of n ranks lies
 *     above the mean by at most sqrt(2 ln n) of that. How many experts a rank has does not matter:
 *     fewer of a coarse kind or more of a fine one get the same part of the draws.
 * I2  D = 1,000 is argued from published pairs that differ in forced balance alone, on H100. A
 *     natural step took longer by, published and with the law: DeepSeek-V3, EP 32, 19 and 23 %;
 *     Qwen3-235B at 16K, 32K, 64K and 128K 25, 20, 15, 9 and 26, 22, 16, 10 % (its EP is not
 *     printed: 32, as in its other runs on H100); Mixtral-8x22B, EP 8, 4 and 12 %. One skew for
 *     every EP that is right at EP 32 would say 30 % of the last. Left out is Qwen3-30B, EP 16
 *     (23 and 6 %): the first hundred steps of a router that begins with noise.
 *     Where training goes on from weights whose router has settled, D = 59,000: MLPerf v6.0 starts
 *     DeepSeek-V3 from a checkpoint that was tuned until more than 98 % of its loads were balanced
 *     (mlcommons.org, May 2026), and its natural step at EP 32 took 1.7 % longer than its forced
 *     sister (38.94 and 38.3 s on 256 GB300): a skew of 1.06, as four more of its rows bear out.
 * I3  Where experts have a capacity, no rank gets more than that; padded to it, all get as much. */
#include "config/loads.h"

#include <math.h>

#include "config/job_of.h"

static const double DRAWS = 1000, SETTLED_DRAWS = 59000; /* I2 */

bool loads_forced(const job *j)
{
    return j->force_balance || j->force_random;
}

bool loads_by_megatron(const job *j)
{
    return !job_on_cpu(j) && !job_is_ours(j);
}

/* The most that a rank can have: I3, or all there is. */
static double most(const job *j)
{
    double ep = (double)j->ep;
    if (!job_has(j, K_CAPACITY) || j->capacity < 0) return ep;
    return fmin(ep, j->pad_capacity ? 1 : fmax(j->capacity, 1));
}

double loads_skew(const job *j, const char **why)
{
    double n = (double)j->ep;
    *why = loads_forced(j) ? "balance is forced"
           : !loads_by_megatron(j)
               ? "unset: balanced routing is assumed (--save-routing measures it)"
           : n < 2         ? "no two ranks share experts"
           : j->pretrained ? "natural routing that has settled, from MLPerf's runs"
                           : "natural routing, from published pairs at this EP";
    if (!loads_by_megatron(j) || loads_forced(j) || n < 2) return 1;
    double draws = j->pretrained ? SETTLED_DRAWS : DRAWS;
    double skew = 1 + sqrt(2 * (n - 1) * log(n) / draws); /* I1 */
    return fmin(round(skew * 100) / 100, most(j));
}

double loads_room(const job *j, const char **why)
{
    bool grows = loads_by_megatron(j);
    *why = grows              ? "Megatron's tensors grow with the load: moefold.routing_skew"
           : j->force_balance ? "forced balance is exact"
                              : "unset: 1.5 times the balanced load";
    return grows ? loads_priced(j) : j->force_balance ? 1 : 1.5;
}

double loads_priced(const job *j)
{
    double n = (double)j->ep, skew = j->routing_skew;
    return n > 1 && !loads_forced(j) && skew > 1 ? fmin(skew, n) : 1;
}

double loads_rank_capacity(const job *j)
{
    const char *why;
    double skew = job_has(j, K_ROUTING_SKEW) ? loads_priced(j) : loads_skew(j, &why);
    return fmax(1.5, ceil(4 * 1.1 * skew) / 4);
}

knob_id loads_knob(const job *j)
{
    if (!loads_forced(j)) return K_ROUTING_SKEW;
    return loads_by_megatron(j) ? K_BUFFER_FACTOR : K_COUNT;
}

/* ---- recipes */

/* What is read here of a recipe that is not resolved. */
static job job_of_loads(const recipe *r)
{
    static const knob_id read[] = {K_EP,           K_CAPACITY,     K_PAD_CAPACITY, K_FORCE_BALANCE,
                                   K_FORCE_RANDOM, K_ROUTING_SKEW, K_TARGET,       K_GPU};
    job j = {0};
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) job_take(&j, r, read[i]);
    return j;
}

void loads_set(recipe *r, double skew, const char *why)
{
    const job j = job_of_loads(r);
    knob_id k = loads_knob(&j);
    if (k != K_COUNT) recipe_set(r, k, value_of_float(skew), why);
}
