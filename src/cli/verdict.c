/* verdict.c - prints the peak memory of the fullest rank and whether its GPU can hold it. */
#include "cli/verdict.h"

#include <stdio.h>

#include "ir/memory/packing.h"
#include "config/target.h"

const char *cli_fit_text(const fit *f, arena *a)
{
    int64_t left = f->usable_bytes - f->peak_bytes;
    return arena_text(a, "rank %lld needs %s of %s usable, %s %s", (long long)f->fullest,
                      text_bytes(a, f->peak_bytes), text_bytes(a, f->usable_bytes),
                      text_bytes(a, left < 0 ? -left : left), left < 0 ? "too much" : "to spare");
}

static void print_part(const char *title, int64_t bytes, arena *a)
{
    if (bytes) printf("         %-40s %12s\n", title, text_bytes(a, bytes));
}

static void print_outside(const reported *r, arena *a)
{
    for (int i = 0; i < OUTSIDE_PARTS; i++)
        print_part(arena_text(a, "outside: %s", outside_title((outside_part)i)), r->outside_part[i],
                   a);
}

static void print_reported(const reported *r, arena *a)
{
    for (int i = 0; i < ALLOCATED_PARTS; i++)
        print_part(allocated_title((allocated_part)i), r->part[i], a);
    print_part("allocated (torch's peak)", r->allocated, a);
    printf("         %-40s %12s   %s to %s\n", "reserved by the allocator",
           text_bytes(a, r->reserved), text_bytes(a, r->reserved_low),
           text_bytes(a, r->reserved_high));
    print_outside(r, a);
}

const char *cli_packing_gap(int64_t bytes, int64_t live, arena *a)
{
    return arena_text(a, "at most %s are live at once; the region is %s (%.1f %%) larger than that",
                      text_bytes(a, live), text_bytes(a, bytes - live),
                      live > 0 ? 100 * (double)(bytes - live) / (double)live : 0.0);
}

/* Where the packing of our own arena is not close. */
static void print_gap(const fit *f, arena *a)
{
    int64_t bytes = f->bytes[REGION_SAVED];
    if (!packing_is_close(bytes, f->saved_live))
        printf("         activations: %s\n", cli_packing_gap(bytes, f->saved_live, a));
}

/* Of a node's GPUs together, beside what its host has. */
static void print_node(const host_need *h, arena *a)
{
    if (!h->node) return;
    const char *text = "host.memory of the hardware description is not set";
    if (h->memory)
        text = arena_text(a, "%s of %s", h->node > h->memory ? "MORE THAN ALL" : "out",
                          text_bytes(a, h->memory));
    printf("         %-40s %12s   %s\n", "on the host: all GPUs of a node, at most",
           text_bytes(a, h->node), text);
}

void cli_print_regions(const fit *f, arena *a)
{
    if (f->megatron) {
        print_reported(&f->memory, a);
    } else {
        for (int i = 0; i < REGION_COUNT; i++)
            if (region_is_shown(i, f->bytes[i]))
                print_part(region_title((region)i), f->bytes[i], a);
        print_outside(&f->memory, a);
        print_gap(f, a);
    }
    print_part(f->megatron ? "peak: reserved and outside" : "peak: all of these", f->memory.peak,
               a);
    print_part("on the host: offloaded activations", f->host_bytes, a);
    print_part("on the host: optimizer state", f->on_host.state, a);
    print_node(&f->on_host, a);
    printf("\n");
}

void cli_print_fit(const setup *s, const fit *f, arena *a)
{
    if (f->why_not) {
        cli_print("Peak", "unknown, no program can be built: %s\n\n", f->why_not);
        return;
    }
    cli_print("Peak", "of the fullest rank, activations included: %s (pipeline rank %lld)\n\n",
              cli_fit_text(f, a), (long long)rank_coordinates(&s->lay, f->fullest).pp);
    cli_print_regions(f, a);
}

void cli_print_not_priced(const not_priced *list, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s %s=%s (the price assumes: %s)\n", i ? "           " : "Not priced:", list[i].key,
               list[i].value, list[i].assumed);
    if (n) printf("\n");
}

const char *cli_estimate_text(const job *j, const hardware *hw, arena *a)
{
    if (!answer_has_times(j, hw)) return NULL;
    if (target_by_reference(j))
        return arena_text(
            a,
            "times are estimates: %s has no MXFP8 or NVFP4 GEMMs, and the rate of the "
            "reference kernels that run instead was not measured (0.2 TFLOP/s "
            "assumed); repair: mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
            hw->name);
    if (answer_estimates_times(j, hw))
        return arena_text(a,
                          "times are estimates: our kernels were not measured on %s; repair: run "
                          "`moefold bench --device cuda` there",
                          hw->name);
    return NULL;
}

void cli_print_times(const job *j, const hardware *hw, arena *a)
{
    const char *estimate = cli_estimate_text(j, hw, a);
    if (estimate)
        cli_print("Estimate", "%s\n\n", estimate);
    else if (answer_has_times(j, hw))
        cli_print("Machine", "%s, measured with our kernels on %s\n\n", hw->path, hw->measured);
}
