/* show_program.c - `moefold show --ops | --memory | --schedule`: the step program, readable. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "predict/audit/audit.h"
#include "answer/answer.h"
#include "cli/cli.h"
#include "answer/answer.h"
#include "cli/verdict.h"

/* ---- operations */

static const char *const phase_names[] = {"forward", "backward", "weight gradient", "recompute"};
static const char *const stream_names[STREAM_COUNT] = {[STREAM_COMPUTE] = "compute",
                                                       [STREAM_COMM] = "comm",
                                                       [STREAM_SEND_FORWARD] = "send fwd",
                                                       [STREAM_RECV_FORWARD] = "recv fwd",
                                                       [STREAM_SEND_BACKWARD] = "send bwd",
                                                       [STREAM_RECV_BACKWARD] = "recv bwd",
                                                       [STREAM_DP] = "dp",
                                                       [STREAM_COPY] = "copy",
                                                       [STREAM_COPY_BACK] = "back",
                                                       [STREAM_HOST] = "host"};

static void print_names(const segment *seg, const int *ids, int n)
{
    const char *comma = "";
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0) continue;
        const buf *b = &seg->bufs[ids[i]];
        printf("%s%s", comma, b->name);
        if (b->life == LIFE_GRADIENT) printf("'");
        comma = ", ";
    }
}

/* A message: who takes part, and what goes to each member. */
static void print_message(const program *p, const op *o)
{
    int64_t n = group_width(p->s, o->group);
    printf("over %s (%" PRId64 "), ", comm_group_name(o->group), n);
    if (op_is(o->kind, BY_TABLE))
        printf("rows of %" PRId64 " B, room %" PRId64, dtype_bytes(o->type, o->dim[DIM_EXCHANGE_W]),
               o->dim[DIM_EXCHANGE_ROOM]);
    else
        printf("%" PRId64 " B", dtype_bytes(o->type, o->dim[DIM_MESSAGE_N]));
    if (op_is(o->kind, STEPPED)) printf(", %+" PRId64 " on", o->dim[DIM_MESSAGE_STEP]);
    if (o->flags & ACROSS) printf(", event %d", o->event);
    printf(": ");
}

static void print_op(const program *p, const segment *seg, const op *o)
{
    printf("  %-15s %-8s %-16s %-22s ", phase_names[o->phase], stream_names[o->stream],
           op_infos[o->kind].name, o->name ? o->name : "");
    if (o->kind == OP_WAIT) {
        if (!(o->flags & ACROSS) && o->dim[DIM_WAIT_EVENT] == 0)
            printf("start of the list on compute\n");
        else
            printf("%s %" PRId64 "\n", o->flags & ACROSS ? "event of the program" : "event",
                   o->dim[DIM_WAIT_EVENT]);
        return;
    }
    double flops = op_flops(o);
    if (flops > 0)
        printf("%9.3g GF ", flops / 1e9);
    else
        printf("%12s ", "");
    printf("%9.3g MB  ", (double)seg_op_bytes(seg, o) / 1e6);
    if (op_is_comm(o->kind)) print_message(p, o);
    print_names(seg, o->in, OP_IN_MAX);
    printf(o->flags & OVERWRITE ? " => " : " -> ");
    print_names(seg, o->out, OP_OUT_MAX);
    printf("\n");
}

/* How often the step goes through a list of a segment; the first layer it does so for. */
static int64_t times_in_step(const program *p, const segment *seg, int phase, int64_t *layer)
{
    int64_t times = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            if (it->seg != seg || it->phase != phase) continue;
            if (!times++ && it->at[0].chunk >= 0)
                *layer = p->chunks[it->at[0].chunk].list[it->at[0].instance].layer;
        }
    return times;
}

static void print_segment(const program *p, const segment *seg, arena *a)
{
    int64_t layer = 0, times[2];
    for (int phase = 1; phase >= 0; phase--) times[phase] = times_in_step(p, seg, phase, &layer);
    if (!times[0] && !times[1]) return;
    printf("%s", seg->name);
    if (seg->n_layers) printf(" %" PRId64, layer);
    if (seg->n_layers > 1) printf(" to %" PRId64, layer + seg->n_layers - 1);
    printf(" (%" PRId64 " times forward, %" PRId64 " backward)", times[0], times[1]);
    if (seg->saved_bytes + seg->temp_bytes[0] + seg->temp_bytes[1])
        printf(": saves %s a microbatch, temporaries %s forward, %s backward",
               text_bytes(a, seg->saved_bytes), text_bytes(a, seg->temp_bytes[0]),
               text_bytes(a, seg->temp_bytes[1]));
    printf("\n");
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < seg->n_ops[phase] && times[phase]; i++)
            print_op(p, seg, &seg->ops[phase][i]);
    printf("\n");
}

static void print_ops(const program *p, arena *a)
{
    printf("Operations of rank %" PRId64 ": a microbatch is %" PRId64 " x %" PRId64
           " tokens on this rank; one segment of each kind.\n",
           p->at.rank, p->B, p->S);
    printf("A name with ' is a gradient; => overwrites it, everything else adds to it. Sizes cover "
           "all buffers that an operation touches; for communication also the bytes to each other "
           "member.\n\n");
    for (int i = 0; i < p->n_segments; i++) print_segment(p, p->segments[i], a);
}

/* ---- memory */

typedef struct module_row {
    op_module module;
    int64_t saved, buffers;
} module_row;

/* Saved bytes by module, over all instances of a microbatch. */
static int saved_by_module(const program *p, module_row *rows, int room)
{
    int n = 0;
    for (int64_t c = 0; c < p->n_chunks; c++)
        for (int i = 0; i < p->chunks[c].n; i++) {
            const segment *seg = p->chunks[c].list[i].seg;
            for (int id = 0; id < seg->n_bufs; id++) {
                const buf *b = &seg->bufs[id];
                if (b->life != LIFE_SAVED) continue;
                int k = 0;
                while (k < n && rows[k].module != b->module) k++;
                if (k == n && n < room) rows[n++] = (module_row){b->module, 0, 0};
                if (k < n) {
                    rows[k].saved += b->bytes;
                    rows[k].buffers++;
                }
            }
        }
    return n;
}

/* The arena is our own program's: where Megatron runs the recipe, other bytes count. */
static void print_megatron(const program *p, arena *a)
{
    if (!fit_by_megatron(p->s)) return;
    program_size size = program_size_of(p);
    fit f = {0};
    fit_see(&f, p->s, &size);
    printf("\n  This arena is that of our own program. Megatron runs the recipe: its allocator "
           "reserves %s of this rank,\n  and %s lie outside, together %s (moefold price --rank "
           "%" PRId64 " has the parts)\n",
           text_bytes(a, f.memory.reserved), text_bytes(a, f.memory.outside),
           text_bytes(a, f.peak_bytes), p->at.rank);
}

static void print_regions(const program *p, arena *a)
{
    int64_t covered = program_buffer_bytes(p);
    printf("Arena of rank %" PRId64 ": %s, of which buffers cover %s (%s bytes)\n\n", p->at.rank,
           text_bytes(a, p->arena_bytes), text_bytes(a, covered), text_grouped(a, covered));
    printf("  %-30s %14s %20s %20s\n", "region", "", "bytes", "starts at");
    for (int i = 0; i < REGION_COUNT; i++)
        if (region_is_shown(i, p->bytes[i]))
            printf("  %-30s %14s %20s %20s\n", region_title((region)i), text_bytes(a, p->bytes[i]),
                   text_grouped(a, p->bytes[i]), text_grouped(a, p->offset[i]));
    if (p->bytes[REGION_SAVED] > p->saved_live)
        printf("\n  Activations: %s\n", cli_packing_gap(p->bytes[REGION_SAVED], p->saved_live, a));
    if (p->host_bytes)
        printf("\n  On the host, outside the arena: %s of offloaded activations (%s bytes), of "
               "which buffers cover %s\n",
               text_bytes(a, p->host_bytes), text_grouped(a, p->host_bytes),
               text_grouped(a, program_host_buffer_bytes(p)));
    if (p->staging_bytes)
        printf("\n  On the host: %s of batch and report (%s bytes)\n",
               text_bytes(a, p->staging_bytes), text_grouped(a, p->staging_bytes));
    print_megatron(p, a);
    printf("\n");
}

static void print_saved(const program *p, arena *a)
{
    module_row rows[32];
    int n = saved_by_module(p, rows, 32);
    printf("Activations saved for backward, per microbatch (%" PRId64
           " microbatches in flight at most):\n\n",
           order_peak(&p->order));
    printf("  %-18s %8s %14s %20s %12s\n", "module", "buffers", "", "bytes", "per token");
    for (int i = 0; i < n; i++)
        printf("  %-18s %8" PRId64 " %14s %20s %12s\n", op_module_names[rows[i].module],
               rows[i].buffers, text_bytes(a, rows[i].saved), text_grouped(a, rows[i].saved),
               text_grouped(a, rows[i].saved / p->T));
    printf("\n");
}

static void bar(double part)
{
    int n = (int)(part * 50 + 0.5);
    for (int i = 0; i < n; i++) putchar('#');
}

/* What is alive while the first microbatch goes through, segment by segment. */
static void print_timeline(const program *p, arena *a)
{
    int64_t fixed = 0, most = 1;
    for (int i = 0; i < REGION_COUNT; i++)
        if (i != REGION_SAVED && i != REGION_TEMP) fixed += p->bytes[i];
    for (int pass = 0; pass < 2; pass++) { /* first the peak, then the picture */
        int64_t saved = 0;
        if (pass)
            printf("Activations and temporaries during the first microbatch (in addition to %s of "
                   "weights, gradients, optimizer and buffers):\n\n",
                   text_bytes(a, fixed));
        for (int64_t e = 0; e < p->order.n && (p->order.list[e].micro == 0 || e < 2); e++) {
            const chunk *c = &p->chunks[p->order.list[e].chunk];
            int phase = p->order.list[e].phase;
            if (p->order.list[e].micro != 0) continue;
            for (int k = 0; k < c->n; k++) {
                const instance *in = &c->list[phase == SEG_FORWARD ? k : c->n - 1 - k];
                if (phase == SEG_FORWARD) saved += in->seg->saved_bytes;
                int64_t now = saved + in->seg->temp_bytes[phase];
                if (now > most) most = now;
                if (pass) {
                    printf("  %-8s %-9s %4" PRId64 " %12s  ", phase ? "backward" : "forward",
                           in->seg->name, in->layer, text_bytes(a, now));
                    bar((double)now / (double)most);
                    printf("\n");
                }
                if (phase == SEG_BACKWARD) saved -= in->seg->saved_bytes;
            }
        }
    }
    printf("\n");
}

static void print_memory(const program *p, arena *a)
{
    print_regions(p, a);
    print_saved(p, a);
    print_timeline(p, a);
}

/* ---- schedule */

static void print_schedule(const program *p)
{
    cli_print("Schedule",
              "of a step on rank %" PRId64 ", pipeline rank %" PRId64 ": PP %" PRId64
              ", VPP %" PRId64 ", %" PRId64 " microbatches; %" PRId64
              " warm-up forwards, at most %" PRId64 " (chunk, microbatch) pairs in flight.\n"
              "F microbatch.chunk forward, B backward.\n\n ",
              p->at.rank, p->at.pp, p->s->pipe.pp, p->s->pipe.vpp, p->micros, p->order.warmup,
              order_peak(&p->order));
    for (int64_t i = 0; i < p->order.n; i++) {
        const order_entry *e = &p->order.list[i];
        if (i && i % 16 == 0) printf("\n ");
        printf(" %c%" PRId64 ".%" PRId64, e->phase ? 'B' : 'F', e->micro, e->chunk);
    }
    printf("\n\nOperation lists: %" PRId64 " in the step, %" PRId64
           " before the optimizer, %" PRId64 " after it; one each to begin, to report and to "
           "update.\n",
           p->items[PART_STEP].n, p->items[PART_FINISH].n, p->items[PART_GATHER].n);
}

status cli_print_program(const setup *s, const char *what, int64_t rank, arena *a, error *err)
{
    const char *why_not = audit_why_not(s, a);
    if (why_not)
        return error_set(err, ERR_RULE, "--%s: no program can be built: %s", what, why_not);
    program *p = ARENA_NEW(a, program);
    program_build(p, s, rank, a);
    if (strcmp(what, "ops") == 0)
        print_ops(p, a);
    else if (strcmp(what, "memory") == 0)
        print_memory(p, a);
    else
        print_schedule(p);
    return OK;
}

const program_answer *cli_program_answer(const setup *s, int64_t rank, arena *a)
{
    if (audit_why_not(s, a)) return NULL;
    program *p = ARENA_NEW(a, program);
    program_build(p, s, rank, a);
    program_answer *x = ARENA_NEW(a, program_answer);
    *x = (program_answer){.rank = rank,
                          .arena_bytes = p->arena_bytes,
                          .buffer_bytes = program_buffer_bytes(p),
                          .saved_live = p->saved_live,
                          .host_bytes = p->host_bytes};
    x->regions = answer_regions(&x->n_regions, p->bytes, a);
    return x;
}
