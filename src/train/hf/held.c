/* held.c - runs of a tensor cut to what a rank holds. */
#include "train/hf/held.h"

#include "base/maths.h"

hf_held hf_held_of(const part_map *map, const hf_part *p, int64_t lo, int64_t hi)
{
    return (hf_held){.map = map, .runs = hf_runs_of(p, lo, hi)};
}

/* Elements one behind the other are so in the whole and in the part: a run of a larger step takes
 * every step-th of them. */
bool hf_held_next(hf_held *h, hf_run *run)
{
    for (;;) {
        if (h->next >= h->run.n) {
            if (!hf_runs_next(&h->runs, &h->run)) return false;
            h->next = 0;
        }
        const hf_run *r = &h->run;
        int64_t alike, i = h->next;
        int64_t at = part_map_find(h->map, r->ours + i * r->our_step, &alike);
        int64_t n = ceil_div(alike, r->our_step);
        if (n > r->n - i) n = r->n - i;
        h->next += n;
        if (at < 0) continue;
        *run = (hf_run){r->hf + i * r->hf_step, at, n, r->hf_step, r->our_step};
        return true;
    }
}

bool hf_held_any(const part_map *map, const hf_part *p, int64_t lo, int64_t hi)
{
    hf_run run;
    hf_held h = hf_held_of(map, p, lo, hi);
    return hf_held_next(&h, &run);
}
