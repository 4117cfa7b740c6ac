/* check_audit.c - the audit of all ranks, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/check_audit.h"

static const char *const link_texts[LINK_KINDS] = {"intra-node", "intra NVLink domain",
                                                   "inter-node"};

static const char *bytes_text(arena *a, double bytes)
{
    return text_bytes(a, (int64_t)bytes);
}

/* ---- faults */

static void print_faults(const audit_result *r)
{
    for (int i = 0; i < r->n_faults; i++) {
        const audit_fault *f = &r->faults[i];
        printf("  %-8s %s\n", fault_kind_name(f->kind), f->text);
        if (f->times > 1) printf("           and %" PRId64 " more of the same\n", f->times - 1);
    }
    if (r->n_all_faults > r->n_faults)
        printf("  %" PRId64 " faults in total; the first of each kind are listed\n",
               r->n_all_faults);
    if (r->n_all_faults) printf("\n");
    if (!r->simulated) printf("  not checked for deadlocks yet: repair these faults first\n\n");
}

/* ---- links */

static void print_link_row(const char *name, const double bytes[LINK_KINDS], arena *a)
{
    printf("         %-12s", name);
    for (int k = 0; k < LINK_KINDS; k++) printf(" %21s", bytes_text(a, bytes[k]));
    printf("\n");
}

static void print_links(const audit_result *r, arena *a)
{
    cli_print("Links", "bytes that all ranks send in a step (uniform routing assumed)\n\n");
    printf("         %-12s", "group");
    for (int k = 0; k < LINK_KINDS; k++) printf(" %21s", link_texts[k]);
    printf("\n");
    for (int g = 0; g < GROUP_COUNT; g++) {
        const double *b = r->group_bytes[g];
        if (b[0] + b[1] + b[2] > 0) print_link_row(comm_group_name((comm_group)g), b, a);
    }
    print_link_row("all", r->link_bytes, a);
    print_link_row("busiest rank", r->most, a);
    printf("         %-12s", "  which");
    for (int k = 0; k < LINK_KINDS; k++) {
        if (r->most[k] > 0)
            printf(" %16s %4" PRId64, "rank", r->most_rank[k]);
        else
            printf(" %21s", "");
    }
    printf("\n\n");
}

/* ---- the fullest rank */

static void print_stage(const setup *s, const audit_class *c)
{
    for (int64_t v = 0; v < s->pipe.vpp; v++) {
        const stage *st = &s->pipe.stages[v * s->pipe.pp + c->pp];
        printf("%s%s", v ? "; " : "", st->embedding ? "embedding, " : "");
        if (st->n_layers == 1)
            printf("layer %" PRId64, st->first_layer);
        else if (st->n_layers)
            printf("layers %" PRId64 " to %" PRId64, st->first_layer,
                   st->first_layer + st->n_layers - 1);
        else
            printf("no layer");
        printf("%s%s", st->n_mtp ? ", prediction module" : "", st->loss ? ", head and loss" : "");
    }
}

static const audit_class *class_of_stage(const audit_result *r, int64_t pp)
{
    for (int i = 0; i < r->n_classes; i++)
        if (r->classes[i].pp == pp) return &r->classes[i];
    return r->fullest;
}

static int64_t bytes_of(const peak_part *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (text_equal(list[i].name, name)) return list[i].bytes;
    return 0;
}

static void print_host(const audit_class *c, arena *a)
{
    if (c->host_bytes)
        printf("         %-30s %14s %20s  not included: offloaded activations on the host\n",
               "host", text_bytes(a, c->host_bytes), text_grouped(a, c->host_bytes));
}

static void print_fullest(const setup *s, const audit_result *r, const fit *f, arena *a)
{
    if (f->why_not) return;
    extremes x = answer_extremes(s, f, a);
    const audit_class *c = class_of_stage(r, x.most);
    peak_part full[PEAK_PARTS], empty[PEAK_PARTS];
    int n = answer_peak_parts(full, f, a),
        n_empty = answer_peak_parts(empty, &x.stages[x.least], a);
    cli_print("Fullest", "rank %" PRId64 " (%" PRId64 " ranks hold as much): %s, %s bytes\n",
              f->fullest, x.alike, text_bytes(a, f->peak_bytes), text_grouped(a, f->peak_bytes));
    printf("         pipeline rank %" PRId64 ": ", x.most);
    print_stage(s, c);
    printf("\n         %" PRId64 " (chunk, microbatch) pairs in flight at most\n\n", c->alive);
    printf("         %-36s %14s %20s", "", "", "bytes");
    if (x.least != x.most)
        printf("  against rank %" PRId64 ", the emptiest", x.stages[x.least].fullest);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("         %-36s %14s %20s", full[i].title, text_bytes(a, full[i].bytes),
               text_grouped(a, full[i].bytes));
        int64_t more = full[i].bytes - bytes_of(empty, n_empty, full[i].name);
        if (more) printf("  %c%s", more > 0 ? '+' : '-', text_bytes(a, more > 0 ? more : -more));
        printf("\n");
    }
    print_host(c, a);
    printf("\n");
}

/* Which ranks were looked at for races; those that were found are among the faults. */
static void print_races(const audit_result *r, arena *a)
{
    bool all = r->replayed == r->n_classes;
    if (r->ok && all)
        printf(
            "         no race between streams of a rank: waits order all conflicting accesses\n");
    else if (r->ok && r->replayed_rank)
        printf(
            "         no race between streams of this rank: waits order all conflicting accesses "
            "(%s operations)\n",
            text_grouped(a, r->replayed_ops));
    else if (!all && !r->replayed_rank)
        printf("         races between streams: checked %d of %d kinds of ranks (programs of up to "
               "%s operations); --rank R checks rank R\n",
               r->replayed, r->n_classes, text_grouped(a, r->most_ops));
}

void cli_print_audit(const setup *s, const audit_result *r, const fit *f, double seconds, bool all,
                     arena *a)
{
    if (r->why_not) {
        cli_print("Audit", "no program can be built: %s\n\n", r->why_not);
        return;
    }
    cli_print("Audit", "%s: %s ranks", r->ok ? "all ranks agree" : "FAULTS",
              text_grouped(a, r->ranks));
    printf(" of %d kind%s (%" PRId64 " program%s built), %s messages per step, audited in %.2f s\n",
           r->n_classes, r->n_classes == 1 ? "" : "s", r->built, r->built == 1 ? "" : "s",
           text_grouped(a, r->messages), seconds);
    if (r->ok)
        printf("         every send has its receive, every group agrees on its collectives, no "
               "deadlock\n");
    print_races(r, a);
    printf("\n");
    print_faults(r);
    if (!all) return;
    print_links(r, a);
    print_fullest(s, r, f, a);
}

void cli_print_audit_rank(const setup *s, const audit_result *r, int64_t rank, arena *a)
{
    if (r->why_not) return;
    cli_print_rank(s, rank, a);
    const audit_class *c = &r->classes[r->class_of[rank]];
    audit_traffic x = audit_rank_traffic(r, rank);
    cli_print("Program", "%s, %s bytes; same communication as rank %" PRId64 "\n\n",
              text_bytes(a, c->arena_bytes), text_grouped(a, c->arena_bytes), c->rank);
    for (int i = 0; i < REGION_COUNT; i++)
        if (region_is_shown(i, c->bytes[i]))
            printf("         %-30s %14s %20s\n", region_title((region)i),
                   text_bytes(a, c->bytes[i]), text_grouped(a, c->bytes[i]));
    print_host(c, a);
    cli_print("\nSends", "in a step (uniform routing assumed)\n\n         %-12s %7s %12s", "group",
              "members", "messages");
    for (int k = 0; k < LINK_KINDS; k++) printf(" %21s", link_texts[k]);
    printf("\n");
    for (int g = 0; g < GROUP_COUNT; g++) {
        if (!x.messages[g]) continue;
        printf("         %-12s %7" PRId64 " %12s", comm_group_name((comm_group)g),
               group_width(s, (comm_group)g), text_grouped(a, x.messages[g]));
        for (int k = 0; k < LINK_KINDS; k++) printf(" %21s", bytes_text(a, x.bytes[g][k]));
        printf("\n");
    }
    printf("\n");
}
