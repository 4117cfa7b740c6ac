/* fit.h - does a setup fit? One answer for `check`, `price`, `plan` and repairs.
 *
 * Memory is that of the fullest rank. Where Megatron runs the recipe: what its allocator would
 * reserve, and what lies outside of it (allocated.h). Where we run it: our arena, to the byte, and
 * what lies outside. Either is compared with visible memory less the headroom. It is summed up from
 * segments that all stages share, without whole programs: milliseconds where building those takes
 * tens of them. */
#ifndef PREDICT_FIT_H
#define PREDICT_FIT_H

#include "hardware/hardware.h"
#include "predict/allocated.h"
#include "ir/program.h"
#include "rules/rules.h"

typedef struct fit {
    const char *why_not; /* no program can be built, and why; then nothing else is set */
    int64_t peak_bytes, usable_bytes;
    bool fits;
    /* of the fullest rank: */
    int64_t fullest; /* its number */
    int64_t bytes[REGION_COUNT];
    int64_t arena_bytes; /* of our own program */
    int64_t graph_pools; /* pools of CUDA graphs */
    reported memory;     /* outside: whoever runs it; the rest: where Megatron does */
    bool megatron;
    int64_t saved_live; /* of its saved bytes: most that live at once */
    int64_t host_bytes; /* activations on the host, beside all that */
    host_need on_host;
} fit;

/* Of any setup, valid or not. `found`: what rules_check says of it. Memory comes from `a`, and only
 * `why_not` stays there. */
void fit_of(fit *out, const setup *s, const violations *found, const hardware *hw, arena *a);

/* The same of the first rank of every pipeline stage, out[pp], where a program can be built. */
void fit_stages(fit *out, const setup *s);

/* Is it Megatron that would run it? */
bool fit_by_megatron(const setup *s);

/* The same rank by rank, one of each pipeline stage. */
void fit_see(fit *out, const setup *s, const program_size *p);

#endif
