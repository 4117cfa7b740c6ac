/* rank.c - one rank of the layout: its places, its groups, what it holds. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"

static void print_members(const setup *s, const group_kind *k, int64_t rank, arena *a)
{
    int64_t place, g = group_of(&s->lay, k, rank, &place), size = group_size(&s->lay, k);
    int64_t *ranks = ARENA_ARRAY(a, int64_t, size);
    group_ranks(&s->lay, k, g, ranks);
    printf("  %-6s %-9s group rank %" PRId64 " of %" PRId64 ": ",
           k->grid == GRID_DENSE ? "dense" : "expert", k->name, place, size);
    for (int64_t i = 0; i < size; i++) {
        if (size > 12 && i == 8) {
            printf(" ... %" PRId64, ranks[size - 1]);
            break;
        }
        printf("%s%" PRId64, i ? " " : "", ranks[i]);
    }
    printf("\n");
}

void cli_print_rank(const setup *s, int64_t rank, arena *a)
{
    const layout *l = &s->lay;
    int64_t pp = layout_coordinate(l, GRID_DENSE, AXIS_PP, rank);
    printf("Rank %" PRId64 " of %" PRId64 ": node %" PRId64 ", NVLink domain %" PRId64 "\n", rank,
           l->world, rank / l->gpus_per_node, rank / l->nvlink_domain);
    printf("  tp %" PRId64 "  cp %" PRId64 "  dp %" PRId64 "  pp %" PRId64 "    etp %" PRId64
           "  ep %" PRId64 "  edp %" PRId64 "\n\n",
           layout_coordinate(l, GRID_DENSE, AXIS_TP, rank),
           layout_coordinate(l, GRID_DENSE, AXIS_CP, rank),
           layout_coordinate(l, GRID_DENSE, AXIS_DP, rank), pp,
           layout_coordinate(l, GRID_EXPERT, AXIS_TP, rank),
           layout_coordinate(l, GRID_EXPERT, AXIS_EP, rank),
           layout_coordinate(l, GRID_EXPERT, AXIS_DP, rank));
    int n;
    const group_kind *kinds = group_kinds(&n);
    for (int i = 0; i < n; i++) print_members(s, &kinds[i], rank, a);
    printf("\n");
    for (int64_t v = 0; v < s->pipe.vpp; v++) {
        const stage *st = &s->pipe.stages[v * s->pipe.pp + pp];
        printf("  chunk %" PRId64 ": %s", v, st->embedding ? "embedding, " : "");
        if (st->n_layers)
            printf("layers %" PRId64 " to %" PRId64, st->first_layer,
                   st->first_layer + st->n_layers - 1);
        else
            printf("no layer");
        printf("%s%s\n", st->n_mtp ? ", prediction module" : "", st->loss ? ", head and loss" : "");
    }
    if (s->m.moe->experts) {
        int64_t ep = layout_coordinate(l, GRID_EXPERT, AXIS_EP, rank),
                each = s->m.moe->experts / l->ep;
        printf("  experts %" PRId64 " to %" PRId64 " of each MoE layer\n", ep * each,
               ep * each + each - 1);
    }
    int64_t cp = layout_coordinate(l, GRID_DENSE, AXIS_CP, rank), seq = recipe_int(&s->r, K_SEQ);
    if (l->cp > 1) {
        int64_t chunk = seq / (2 * l->cp), second = 2 * l->cp - 1 - cp;
        printf("  tokens %" PRId64 " to %" PRId64 " and %" PRId64 " to %" PRId64
               " of each sequence\n",
               cp * chunk, cp * chunk + chunk - 1, second * chunk, second * chunk + chunk - 1);
    }
    printf("\n");
    cli_print_memory(s, pp, a);
}
