/* packing.c - how far the region of saved buffers ends above the bytes that live at once. */
#include <stdio.h>

#include "price/packing_rows.h"

/* Runs that differ in what packing does not see are printed once. */
static bool is_known(const packing_list *l, int row)
{
    for (int i = 0; i < row; i++)
        if (l->list[i].bytes == l->list[row].bytes && l->list[i].live == l->list[row].live)
            return true;
    return false;
}

int main(void)
{
    packing_list l = {.a = arena_create()};
    error err = {{0}};
    int far = 0, touching = 0;
    if (packing_all(&l, &err)) {
        fprintf(stderr, "packing: %s\n", err.text);
        return ERR_INPUT;
    }
    printf("| layout | rank | live at once, MiB | region, MiB | gap, MiB | gap |\n"
           "|---|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < l.n; i++) {
        const packing_row *r = &l.list[i];
        double live = (double)r->live, gap = (double)(r->bytes - r->live), mib = 1 << 20;
        far += !packing_is_close(r->bytes, r->live);
        touching += r->bytes == r->live;
        if (100 * (r->bytes - r->live) > r->live && !is_known(&l, i))
            printf("| %s | %lld | %.0f | %.0f | %.0f | %.2f %% |\n", r->name, (long long)r->rank,
                   live / mib, (double)r->bytes / mib, gap / mib, live > 0 ? 100 * gap / live : 0);
    }
    printf("\n%d layouts: %d without a gap, %d farther than 3 %% and 64 MiB. Rows have more than 1 "
           "%%; "
           "of layouts with the same bytes the first.\n",
           l.n, touching, far);
    arena_destroy(l.a);
    return 0;
}
