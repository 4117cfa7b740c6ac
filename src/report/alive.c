/* alive.c - bytes that come and go with the items of a step. */
#include "report/alive.h"

static int64_t saved_of(const program *p, const item_at *at)
{
    return at->chunk < 0 ? 0 : p->chunks[at->chunk].list[at->instance].seg->saved_bytes;
}

static void add_change(alive_list *l, alive_change c, arena *a)
{
    ARENA_GROW(a, l->list, l->n, l->room);
    l->list[l->n++] = c;
}

void alive_add(alive_list *l, const program *p, const item *it, double start, double end, arena *a)
{
    bool pair = it->seg->kind == SEGMENT_PAIR, back = it->phase == SEG_BACKWARD;
    const item_at *f = back ? NULL : &it->at[0];
    const item_at *b = pair ? &it->at[1] : back ? &it->at[0] : NULL;
    int64_t temp = it->seg->temp_bytes[back]; /* I1 */
    add_change(l, (alive_change){start, f ? saved_of(p, f) : 0, temp}, a);
    add_change(l, (alive_change){end, b ? -saved_of(p, b) : 0, -temp}, a);
}

int64_t alive_sample(memory_point *out, int64_t n, const alive_list *l, double step)
{
    int64_t k = 0, most_saved = 0;
    memory_point now = {0};
    for (int64_t i = 0; i < n; i++) {
        double end = step * (double)(i + 1) / (double)n;
        memory_point most = now;
        for (; k < l->n && l->list[k].at <= end; k++) {
            now.saved += l->list[k].saved;
            now.temp += l->list[k].temp;
            if (now.saved > most_saved) most_saved = now.saved;
            if (now.saved + now.temp > most.saved + most.temp) most = now;
        }
        most.at = step * (double)i / (double)n;
        out[i] = most;
    }
    return most_saved;
}
