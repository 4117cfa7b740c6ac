/* near.c - layouts close to one that cannot be.
 *
 * Each axis tries the divisors of the world that suit it, nearest first; what is nearest over all
 * axes is found by trying every combination. The lists are short, so that the search is small
 * whatever the world is. */
#include <math.h>
#include <stdlib.h>

#include "rules/words.h"

enum { TRIED_MAX = 16, DIVISORS_MAX = 512 };

typedef struct near_search {
    const setup *s;
    int64_t asked[N_SIZES];
    int64_t tried[N_SIZES][TRIED_MAX];
    int n_tried[N_SIZES];
    near_layout *found;
    int n_found, room;
} near_search;

static double doublings(int64_t a, int64_t b)
{
    return fabs(log2((double)a / (double)b));
}

/* Keeps the list sorted by distance; the farthest falls out. */
static void try_size(near_search *q, int which, int64_t size)
{
    int64_t *list = q->tried[which];
    int at = q->n_tried[which];
    double d = doublings(size, q->asked[which]);
    if (at == TRIED_MAX && doublings(list[at - 1], q->asked[which]) <= d) return;
    if (at == TRIED_MAX)
        at--;
    else
        q->n_tried[which]++;
    for (; at > 0 && doublings(list[at - 1], q->asked[which]) > d; at--) list[at] = list[at - 1];
    list[at] = size;
}

static int divisors(int64_t n, int64_t *out)
{
    int count = 0;
    for (int64_t d = 1; d * d <= n && count + 2 <= DIVISORS_MAX; d++) {
        if (n % d) continue;
        out[count++] = d;
        if (d * d != n) out[count++] = n / d;
    }
    return count;
}

static bool prepare(near_search *q)
{
    const setup *s = q->s;
    if (I(N_GPUS) < 1 || I(N_GPUS) > LAYOUT_WORLD_MAX) return false;
    sizes_asked(s, q->asked);
    int64_t list[DIVISORS_MAX];
    int n = divisors(I(N_GPUS), list);
    for (int which = 0; which < N_SIZES; which++)
        for (int i = 0; i < n; i++)
            if (size_fits(s, which, list[i])) try_size(q, which, list[i]);
    if (!USER(ETP)) q->n_tried[ETP_] = 1; /* it follows from the others */
    return true;
}

/* A batch that somebody set and that no longer divides is one more thing to change. */
static bool batch_follows(const setup *s, const int64_t *x)
{
    if (!USER(GBS)) return true;
    int64_t dp = I(N_GPUS) / (x[TP_] * x[CP_] * x[PP_]), step = mul_sat(I(MBS), dp);
    if (!MULTIPLE(I(GBS), step)) return false;
    int64_t microbatches = step > 0 ? I(GBS) / step : 0;
    int64_t group = USER(GROUP_SIZE) && I(GROUP_SIZE) > 0 ? I(GROUP_SIZE) : x[PP_];
    bool groups =
        group <= microbatches && (microbatches % group == 0 || microbatches % group >= x[PP_]);
    return CHUNKS < 2 || x[PP_] < 2 || groups;
}

/* So is sequence parallel, where nobody derives it from TP. */
static bool sequence_parallel_follows(const setup *s, const int64_t *x)
{
    if (!LM && !SAID(SP)) return true;
    bool needed = x[TP_] > 1 && SET(EXPERTS), dropped = x[TP_] == 1 && !LM;
    return ON(SP) ? !dropped : !needed;
}

/* Of equals, the one that changes an earlier axis (TP, CP, PP, then experts); then the smaller. */
static bool nearer(const near_layout *a, const near_layout *b)
{
    if (a->n_changes != b->n_changes) return a->n_changes < b->n_changes;
    if (fabs(a->distance - b->distance) > 1e-9) return a->distance < b->distance;
    unsigned differ = a->changed ^ b->changed;
    if (differ) return (a->changed & (differ & -differ)) != 0;
    for (int i = 0; i < N_SIZES; i++)
        if (a->size[i] != b->size[i]) return a->size[i] < b->size[i];
    return false;
}

static void consider(near_search *q, const int64_t *x)
{
    const setup *s = q->s;
    near_layout made = {.n_changes = !batch_follows(s, x) + !sequence_parallel_follows(s, x)};
    made.distance = 0.5 * made.n_changes;
    for (int i = 0; i < N_SIZES; i++) {
        made.size[i] = x[i];
        if (!near_layout_changes(s, &made, i)) continue;
        made.n_changes++;
        made.changed |= 1u << i;
        made.distance += doublings(x[i], q->asked[i]);
    }
    if (q->n_found == q->room && !nearer(&made, &q->found[q->room - 1])) return;
    if (!sizes_fit_together(s, x)) return;
    int at = q->n_found < q->room ? q->n_found++ : q->room - 1;
    for (; at > 0 && nearer(&made, &q->found[at - 1]); at--) q->found[at] = q->found[at - 1];
    q->found[at] = made;
}

/* The world must divide by what is chosen so far; that leaves few combinations. */
static void choose_expert(near_search *q, int64_t *x)
{
    const setup *s = q->s;
    for (int e = 0; e < q->n_tried[EP_]; e++)
        for (int t = 0; t < q->n_tried[ETP_]; t++) {
            x[EP_] = q->tried[EP_][e];
            x[ETP_] = q->tried[ETP_][t];
            sizes_follow(s, x);
            if (sizes_fit_world(s, x)) consider(q, x);
        }
}

static void choose_dense(near_search *q, int64_t *x)
{
    const setup *s = q->s;
    for (int t = 0; t < q->n_tried[TP_]; t++)
        for (int c = 0; c < q->n_tried[CP_]; c++) {
            x[TP_] = q->tried[TP_][t];
            x[CP_] = q->tried[CP_][c];
            if (I(N_GPUS) % mul_sat(mul_sat(x[TP_], x[CP_]), x[PP_]) == 0) choose_expert(q, x);
        }
}

int near_layouts(const setup *s, near_layout *out, int max)
{
    near_search *q = malloc(sizeof *q);
    if (!q) return 0;
    *q = (near_search){.s = s, .found = out, .room = max};
    int64_t x[N_SIZES];
    int n_stages = prepare(q) ? q->n_tried[PP_] : 0;
    for (int p = 0; p < n_stages; p++) {
        x[PP_] = q->tried[PP_][p];
        choose_dense(q, x);
    }
    int n = q->n_found;
    free(q);
    return n;
}

bool near_layout_changes(const setup *s, const near_layout *n, int which)
{
    if (which == ETP_ && !USER(ETP)) return false;
    const int64_t size[N_SIZES] = {I(TP), I(CP), I(PP), I(EP), I(ETP)};
    return n->size[which] != size[which];
}
