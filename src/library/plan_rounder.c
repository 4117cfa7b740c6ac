/* plan_rounder.c - is the job faster on fewer GPUs?
 *
 * Parallel sizes must divide heads, experts, layers and batch, which have many factors of two: 576
 * GPUs may take longer for a batch than 512 do. Counts with more of those factors are searched, of
 * at least RATIO of the GPUs, the roundest first, as long as there is time. */

#include "base/clock.h"
#include "library/plan_parts.h"

static const double RATIO = 0.7;

static double fastest_of(const search_result *r)
{
    double least = 0;
    for (int i = 0; i < r->n_best; i++)
        if (r->best[i].priced && (least <= 0 || r->best[i].exact.step_s < least))
            least = r->best[i].exact.step_s;
    return least;
}

/* Seconds of a step of the same job on n GPUs; 0: no layout was found. */
static double search_on(const plan_answer *p, const search_options *o, int64_t n, double work)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    search_result *there = ARENA_NEW(a, search_result);
    search_options quick = *o;
    error err = {{0}};
    quick.front = false;
    quick.work = work;
    *r = *p->given;
    r->a = a;
    recipe_set(r, K_N_GPUS, value_of_int(n), "--gpus");
    double step = search_run(there, r, &quick, a, &err) ? 0 : fastest_of(there);
    arena_destroy(a);
    return step;
}

void plan_find_rounder(plan_answer *p, const search_options *o, double seconds)
{
    double start = clock_work(), now = fastest_of(p->result);
    int64_t world = p->world, unit = 1, last = world;
    while (unit * 2 < world) unit *= 2;
    p->rounder = (plan_rounder){.before_s = now};
    for (; world % unit && now > 0 && clock_work() < start + seconds; unit /= 2) {
        int64_t n = world / unit * unit;
        if (n == last || (double)n < RATIO * (double)world || n < p->hw->gpus_per_node) continue;
        double step = search_on(p, o, n, start + seconds + WALK_GRACE_SECONDS);
        last = n;
        if (step <= 0 || step > now) continue;
        now = step;
        p->rounder.gpus = n;
        p->rounder.step_s = step;
    }
}
