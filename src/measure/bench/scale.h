/* scale.h - at which sizes a kind of machine is measured: those that programs for it have.
 *
 * A CPU's operations take microseconds to milliseconds at a few hundred rows, a GPU is not even
 * full there: each has its own lists. What is measured, and how, is the same for both. */
#ifndef MEASURE_BENCH_SCALE_H
#define MEASURE_BENCH_SCALE_H

#include "base/dtype.h"
#include "hardware/hardware.h"

typedef struct scale_list {
    int n;
    double x[CURVE_MAX];
} scale_list;

typedef struct measure_scale {
    dtype type;   /* of activations and weights; their gradients are FP32 */
    int rounds;   /* of which the best counts */
    bool forms;   /* each of a layer's GEMMs by itself, and every kind of operation */
    bool limited; /* power binds: operations are run until the chip is as warm as in a step, and the
                     middle of the times counts instead of the lowest tenth */
    scale_list sides, depths, expert_rows, expert_depths, lengths, head_sizes, passes;
    scale_list messages; /* bytes that a rank sends; the largest is half of what pools hold */
    scale_list narrow_sides, narrow_depths, narrow_rows, narrow_expert_depths; /* FP8, or none */
    int64_t depth, side; /* sums of GEMMs by side; result of GEMMs by the length of sums */
    int64_t experts, expert_side, usual_rows; /* weights of expert_side squared */
    int64_t heads, key_heads, head, usual_length;
    int64_t tokens; /* attention has as many samples as make so many, one at least */
    int64_t width;  /* of what a layer does beside GEMMs: heads of `head` */
    int64_t head_tokens, head_width, vocabulary, head_rows;
    int64_t delta_length, delta_keys, delta_values, delta_head;
    int64_t host_updates;    /* elements that the host updates */
    int64_t pool, workspace; /* bytes: of inputs and as much of outputs; for one operation */
    int64_t unequal[2];      /* heads of queries and keys, of values: MLA's */
} measure_scale;

/* Of CPUs, and of GPUs. */
extern const measure_scale measure_scale_cpu, measure_scale_gpu;

#endif
