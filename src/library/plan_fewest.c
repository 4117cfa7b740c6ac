/* plan_fewest.c - the smallest cluster that holds a job: the fewest GPUs of which some layout fits.
 *
 * Counts are whole nodes, and below one node its halves; where sizes are pinned, multiples of what
 * they take (layout_fewest). Fitting is not monotonic in the count: 64 GPUs may hold a job that 72
 * do not, because parallel sizes must divide heads, experts and layers. So doubling and halving
 * only find some count that fits; then all smaller counts are tried, from the smallest on, as long
 * as there is time.
 *
 * I1  `exact` means that all smaller counts were tried and none fits.
 * I2  The batch is kept if some layout divides it. Otherwise it becomes the next larger one that
 *     the count divides, and the output says so. */
#include <math.h>

#include "base/clock.h"
#include "base/maths.h"
#include "library/plan_parts.h"

enum { NODES_MOST = 1 << 14, PARTS_MOST = 16, TIMES_MOST = 64 };

typedef struct walk {
    const plan_answer *p;
    search_options o;
    int64_t counts[PARTS_MOST + NODES_MOST]; /* those that sizes allow, smallest first */
    bool seen[PARTS_MOST + NODES_MOST];
    int n;
    double until; /* of clock_work */
    bool cut;     /* time was up within a search: nothing is known of its count */
    plan_fewest *best;
    arena *kept; /* of the search that found it; NULL: none did */
    search_result *found;
} walk;

/* ---- one count */

static int64_t twos_of(int64_t n)
{
    return n & -n;
}

/* The next batch that the count divides, or where that is larger, its odd factors and some twos. */
static int64_t batch_for(int64_t gbs, int64_t n)
{
    int64_t twos = twos_of(n), odd = n / twos;
    while (twos > 1 && odd * twos > gbs) twos /= 2;
    return round_up(gbs, odd * twos);
}

static bool fits_with(walk *w, int64_t n, int64_t gbs)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    search_result *there = ARENA_NEW(a, search_result);
    error err = {{0}};
    *r = *w->p->given;
    r->a = a;
    recipe_set(r, K_N_GPUS, value_of_int(n), "--gpus");
    if (gbs != recipe_int(r, K_GBS)) recipe_set(r, K_GBS, value_of_int(gbs), "what divides");
    bool good = search_run(there, r, &w->o, a, &err) == OK && there->n_best > 0;
    w->cut = w->cut || !there->complete;
    if (good) {
        *w->best = (plan_fewest){.gpus = n, .gbs = gbs, .f = there->best[0]};
        w->best->f.exact.evidence = NULL;
        arena_destroy(w->kept);
        w->kept = a;
        w->found = there;
    } else {
        arena_destroy(a);
    }
    return good;
}

static bool fits(walk *w, int64_t n)
{
    int64_t gbs = recipe_int(w->p->given, K_GBS), other = batch_for(gbs, n);
    return fits_with(w, n, gbs) || (other != gbs && fits_with(w, n, other)); /* I2 */
}

/* ---- which counts */

/* What pinned sizes take. */
static int64_t unit_of(const recipe *r)
{
    static const knob_id sizes[] = {K_TP, K_CP, K_PP, K_EP, K_ETP};
    int64_t v[5];
    for (int i = 0; i < 5; i++) {
        bool pinned = r->knob[sizes[i]].from == FROM_USER && recipe_given(r, sizes[i]);
        v[i] = pinned && recipe_int(r, sizes[i]) > 0 ? recipe_int(r, sizes[i]) : 1;
    }
    return layout_fewest(v[0], v[1], v[2], v[3], v[4]);
}

/* Every weight is somewhere, and so is its gradient: what all GPUs together hold at least. */
static double state_least(const walk *w)
{
    choice_maker *m = w->p->result->maker;
    double least = INFINITY;
    for (int i = 0; i < m->n_precisions; i++) {
        const setup *s = choice_base(m, i, 1);
        if (!s) continue;
        state_mode mode = state_mode_bare(&s->j);
        double bytes = 0;
        for (int k = 0; k < s->params.n_rows; k++) {
            const param *x = &s->params.rows[k];
            double n = (double)param_local(x, 1, 1, 1) * (double)x->block->times;
            if (x->trained) bytes += n * (fmin(mode.weight, mode.plain) + mode.gradient);
        }
        least = fmin(least, bytes);
    }
    return least < INFINITY ? least : 0;
}

static void add_count(walk *w, int64_t n, int64_t unit, double state)
{
    bool may = (double)n * (double)w->p->hw->usable >= state;
    if (may && n % unit == 0) w->counts[w->n++] = n;
}

/* Those below `most`. */
static void list_counts(walk *w, int64_t most)
{
    int64_t node = w->p->hw->gpus_per_node, unit = unit_of(w->p->given);
    int64_t odd = node / twos_of(node);
    double state = state_least(w);
    w->n = 0;
    for (int64_t n = odd; n < node && n < most && w->n < PARTS_MOST; n *= 2)
        add_count(w, n, unit, state);
    for (int64_t k = 1; k <= NODES_MOST && k * node < most; k++)
        add_count(w, k * node, unit, state);
}

/* ---- the walk */

static bool late(const walk *w)
{
    return w->cut || clock_work() >= w->until;
}

static bool try_count(walk *w, int i)
{
    w->seen[i] = true;
    return fits(w, w->counts[i]);
}

/* Between counts that do not and one that does: a smaller one that does, soon. */
static void halve(walk *w)
{
    int low = -1, high = w->n;
    while (high - low > 1 && !late(w)) {
        double from = (double)(low < 0 ? w->counts[0] : w->counts[low]);
        double middle = sqrt(from * (double)(high == w->n ? w->best->gpus : w->counts[high]));
        int mid = low + 1;
        while (mid + 1 < high && (double)w->counts[mid + 1] <= middle) mid++;
        if (try_count(w, mid))
            high = mid;
        else
            low = mid;
    }
    w->n = high;
}

/* I1 */
static void scan(walk *w)
{
    bool all = true;
    for (int i = 0; i < w->n && all; i++) {
        if (w->seen[i]) continue;
        if (late(w))
            all = false;
        else if (try_count(w, i))
            break;
    }
    w->best->exact = all && !w->cut;
}

/* More GPUs, doubled until something fits. */
static void find_more(walk *w)
{
    int64_t node = w->p->hw->gpus_per_node, world = w->p->world;
    int64_t n = world < node ? world : round_up(world, node), most = n * TIMES_MOST;
    for (n *= 2; n <= most && n <= LAYOUT_WORLD_MAX && !late(w); n *= 2) {
        w->best->looked_to = n;
        if (fits(w, n)) return;
    }
}

/* What to run there, if one does. */
static void find_fastest(walk *w)
{
    bool exact = w->best->exact;
    w->o.only_fit = w->o.unpriced = false;
    w->o.work = 0;
    w->o.until = w->p->until;
    fits_with(w, w->best->gpus, w->best->gbs);
    w->best->exact = exact;
}

void plan_find_fewest(plan_answer *p, const search_options *o, double seconds, arena *a)
{
    walk *w = ARENA_NEW(a, walk);
    *w = (walk){.p = p, .o = *o, .until = clock_work() + seconds, .best = &p->fewest};
    w->o.only_fit = w->o.unpriced = true;
    w->o.best = 1;
    w->o.work = w->until + WALK_GRACE_SECONDS;
    p->fewest = (plan_fewest){0};
    if (p->result->n_best)
        p->fewest = (plan_fewest){
            .gpus = p->world, .gbs = recipe_int(p->given, K_GBS), .f = p->result->best[0]};
    else
        find_more(w);
    bool known = p->fewest.gpus > 0;
    list_counts(w, known ? p->fewest.gpus : p->fewest.looked_to);
    if (known) halve(w);
    scan(w); /* where no doubling does, a count with other factors may */
    bool giant = search_is_giant(recipe_int(p->given, K_LAYERS), p->fewest.f.micros);
    if (p->fewest.gpus && !p->result->n_best && !w->cut && !giant) find_fastest(w);
    if (w->kept && !p->fewest.f.priced) search_price_found(&p->fewest.f, w->found, &w->o);
    arena_destroy(w->kept);
    if (w->cut && clock_seconds() >= p->until) p->complete = false;
}
