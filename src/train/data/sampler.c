/* sampler.c - groups and shares. */
#include "train/data/sampler.h"

#include <assert.h>

int64_t sampler_microbatches(const data_sampler *s)
{
    assert(s->micro_batch_size >= 1 && s->n_ranks >= 1 && s->rank >= 0 && s->rank < s->n_ranks);
    if (s->consumed >= s->n_samples) return 0;
    return (s->n_samples - s->consumed) / s->micro_batch_size / s->n_ranks;
}

int64_t sampler_first(const data_sampler *s, int64_t m)
{
    if (m < 0 || m >= sampler_microbatches(s)) return -1;
    return s->consumed + (m * s->n_ranks + s->rank) * s->micro_batch_size;
}
