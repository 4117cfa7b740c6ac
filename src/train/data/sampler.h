/* sampler.h - who reads which sample, and when.
 *
 * Megatron's "single" loader: the samples from `consumed` on are cut into groups of micro batch
 * size times data-parallel ranks; a group is one microbatch on every rank, and rank r reads the
 * r-th share of it. What is left at the end and does not fill a group is not read. The order over
 * samples depends neither on the number of ranks nor on the micro batch size, so a run may go on
 * with others: `consumed`, kept in the checkpoint, is all that must be known. */
#ifndef TRAIN_DATA_SAMPLER_H
#define TRAIN_DATA_SAMPLER_H

#include <stdint.h>

typedef struct data_sampler {
    int64_t n_samples;        /* of the set */
    int64_t consumed;         /* samples read before, by all ranks together */
    int64_t micro_batch_size; /* >= 1 */
    int64_t n_ranks, rank;    /* data-parallel */
} data_sampler;

/* How many microbatches a rank can still read. */
int64_t sampler_microbatches(const data_sampler *s);

/* The first of the micro_batch_size neighbouring samples that this rank reads as microbatch m
 * (from 0), or -1 past the end. With M microbatches a step, microbatch i of the n-th step since
 * `consumed` is m = n * M + i. */
int64_t sampler_first(const data_sampler *s, int64_t m);

#endif
