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
 * I3  Where experts have a capacity, no rank gets more than that; padded to it, all get as much. */
#include "config/loads.h"

#include <math.h>

#include "config/target.h"

static const double DRAWS = 1000; /* I2 */

bool loads_forced(const recipe *r)
{
    return recipe_on(r, K_FORCE_BALANCE) || recipe_on(r, K_FORCE_RANDOM);
}

bool loads_by_megatron(const recipe *r)
{
    return !recipe_on_cpu(r) && target_of(r) == TARGET_MEGATRON;
}

/* The most that a rank can have: I3, or all there is. */
static double most(const recipe *r)
{
    double ep = (double)recipe_int(r, K_EP), capacity = recipe_real(r, K_CAPACITY);
    if (!recipe_given(r, K_CAPACITY) || capacity < 0) return ep;
    return fmin(ep, recipe_on(r, K_PAD_CAPACITY) ? 1 : fmax(capacity, 1));
}

double loads_skew(const recipe *r)
{
    double n = (double)recipe_int(r, K_EP);
    if (!loads_by_megatron(r) || loads_forced(r) || n < 2) return 1;
    double skew = 1 + sqrt(2 * (n - 1) * log(n) / DRAWS); /* I1 */
    return fmin(round(skew * 100) / 100, most(r));
}

double loads_room(const recipe *r)
{
    bool exact = recipe_on(r, K_FORCE_BALANCE);
    return loads_by_megatron(r) ? loads_priced(r) : exact ? 1 : 1.5;
}

double loads_priced(const recipe *r)
{
    double n = (double)recipe_int(r, K_EP), skew = recipe_real(r, K_ROUTING_SKEW);
    return n > 1 && !loads_forced(r) && skew > 1 ? fmin(skew, n) : 1;
}

double loads_rank_capacity(const recipe *r)
{
    double skew = recipe_given(r, K_ROUTING_SKEW) ? loads_priced(r) : loads_skew(r);
    return fmax(1.5, ceil(4 * 1.1 * skew) / 4);
}

void loads_set(recipe *r, double skew, const char *why)
{
    if (!loads_forced(r))
        recipe_set(r, K_ROUTING_SKEW, value_of_float(skew), why);
    else if (loads_by_megatron(r))
        recipe_set(r, K_BUFFER_FACTOR, value_of_float(skew), why);
}

static const char *why_skew(const recipe *r)
{
    if (loads_forced(r)) return "balance is forced";
    if (!loads_by_megatron(r))
        return "unset: balanced routing is assumed (--save-routing measures it)";
    if (recipe_int(r, K_EP) < 2) return "no two ranks share experts";
    return "natural routing, from published pairs at this EP";
}

static const char *why_room(const recipe *r)
{
    if (loads_by_megatron(r)) return "Megatron's tensors grow with the load: moefold.routing_skew";
    return recipe_on(r, K_FORCE_BALANCE) ? "forced balance is exact"
                                         : "unset: 1.5 times the balanced load";
}

void loads_derive(recipe *r)
{
    recipe_fill_default(r, K_EP);
    recipe_fill(r, K_ROUTING_SKEW, value_of_float(loads_skew(r)), FROM_DERIVED, "%s", why_skew(r));
    recipe_fill(r, K_BUFFER_FACTOR, value_of_float(loads_room(r)), FROM_DERIVED, "%s", why_room(r));
}
