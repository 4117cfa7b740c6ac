/* print.c - blocks of text that several commands print. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

void cli_json_print(json_t *root)
{
    json_dumpf(root, stdout, JSON_INDENT(0) | JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(root);
}

void cli_print_model(const setup *s, arena *a)
{
    param_totals totals = param_count(&s->params);
    int64_t seq = recipe_int(&s->r, K_SEQ);
    cli_print("Model", "%s: %s parameters, %s active per token;\n", s->m.name,
              text_count(a, totals.total), text_count(a, totals.active));
    printf("         %.4g GFLOP per trained token at sequence length %s\n\n",
           model_flops_per_token(&s->m, seq) / 1e9, text_grouped(a, seq));
}

bool cli_print_notes(const recipe *r, const char *before, bool all)
{
    int idle = 0;
    for (int i = 0; i < r->n_notes; i++) idle += strstr(r->notes[i], "no effect here") != NULL;
    bool counted = idle > 1 && !all;
    for (int i = 0; i < r->n_notes; i++)
        if (!counted || !strstr(r->notes[i], "no effect here"))
            printf("%s%s\n", before, r->notes[i]);
    if (counted)
        printf("%s%d options have no effect here; `moefold show ... --all` names them\n", before,
               idle);
    return r->n_notes > 0;
}

static const char *reach_text(const setup *s, const group_kind *k, arena *a)
{
    group_reach reach = group_reach_of(&s->lay, k);
    if (reach.nodes == 1) return "inside a node";
    if (reach.domains == 1)
        return arena_text(a, "%" PRId64 " nodes, one NVLink domain", reach.nodes);
    return arena_text(a, "crosses %" PRId64 " nodes", reach.nodes);
}

/* Groups of one rank carry nothing and are left out. */
static void print_groups(const layout *l, const setup *s, arena *a)
{
    int n, n_shown = 0;
    const group_kind *kinds = group_kinds(&n);
    for (int i = 0; i < n; i++) {
        const group_kind *k = &kinds[i];
        if (group_size(l, k) == 1) continue;
        if (!n_shown++)
            printf("         %-16s %6s %7s  %-28s%s\n", "group", "ranks", "groups", "reach",
                   "carries");
        printf("         %-6s %-9s %6" PRId64 " %7" PRId64 "  %-28s%s\n",
               k->grid == GRID_DENSE ? "dense" : "expert", k->name, group_size(l, k),
               group_count(l, k), reach_text(s, k, a), k->use);
    }
    if (n_shown) printf("\n");
}

void cli_print_layout(const setup *s, arena *a)
{
    const recipe *r = &s->r;
    cli_print("Layout", "%" PRId64 " x %s", recipe_int(r, K_N_GPUS), recipe_word(r, K_GPU));
    if (!s->possible) {
        printf(": these sizes allow no layout\n\n");
        return;
    }
    const layout *l = &s->lay;
    printf(", %" PRId64 " per node", l->gpus_per_node);
    if (recipe_on_cpu(r))
        printf("\n");
    else
        printf(", NVLink domain of %" PRId64 "\n", l->nvlink_domain);
    printf("         dense   TP %" PRId64 " x CP %" PRId64 " x DP %" PRId64 " x PP %" PRId64 "\n",
           l->tp, l->cp, l->dp, l->pp);
    printf("         expert  ETP %" PRId64 " x EP %" PRId64 " x EDP %" PRId64 " x PP %" PRId64
           "\n\n",
           l->etp, l->ep, l->edp, l->pp);
    print_groups(l, s, a);
}

void cli_print_stages(const setup *s, arena *a)
{
    if (s->pipe.why_not) {
        cli_print("Stages", "none: %s\n\n", s->pipe.why_not);
        return;
    }
    cli_print("Stages", "PP %" PRId64 " x VPP %" PRId64 ": %s\n\n", s->pipe.pp, s->pipe.vpp,
              pipeline_text(a, &s->pipe));
}

static void print_bytes_row(const char *name, const int64_t by_kind[3], int64_t rest, int64_t total,
                            arena *a)
{
    printf("         %-10s", name);
    for (int k = 0; k < 3; k++) printf(" %12s", text_bytes(a, by_kind[k]));
    printf(" %12s %12s  %s\n", text_bytes(a, rest), text_bytes(a, total), text_grouped(a, total));
}

void cli_print_memory(const setup *s, int64_t pp_rank, arena *a)
{
    state_bytes b;
    state_of_stage(&b, s, pp_rank);
    state_mode mode = state_mode_of(&s->j, s->r.a);
    cli_print("State",
              "weights, gradients and optimizer of rank %" PRId64 " (pipeline rank %" PRId64
              "); %s\n\n",
              layout_stage_rank(&s->lay, pp_rank), pp_rank, mode.why);
    printf("         %-10s %12s %12s %12s %12s %12s  %s\n", "", "dense", "expert", "embedding",
           "padding", "total", "bytes");
    print_bytes_row("weights", b.weights, b.padding_weights + b.buffers, state_weights(&b), a);
    print_bytes_row("gradients", b.gradients, b.padding_gradients, state_gradients(&b), a);
    print_bytes_row("optimizer", b.optimizer, b.padding_optimizer, state_optimizer(&b), a);
    int64_t sum[3];
    for (int k = 0; k < 3; k++) sum[k] = b.weights[k] + b.gradients[k] + b.optimizer[k];
    int64_t rest = b.padding_weights + b.padding_gradients + b.padding_optimizer + b.buffers;
    print_bytes_row("total", sum, rest, state_total(&b), a);
    if (b.host) printf("         on the host: %s of optimizer state\n", text_bytes(a, b.host));
    if (s->gpu && s->gpu->memory_bytes)
        printf("         %.1f %% of the %s of one %s, before activations\n",
               100.0 * (double)state_total(&b) / (double)s->gpu->memory_bytes,
               text_bytes(a, s->gpu->memory_bytes), s->gpu->name);
    printf("\n");
}
