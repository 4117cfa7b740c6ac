/* index.h - the order in which one set (one split of one store) is read, and by whom.
 *
 * A set is an endless stream cut into samples: its sequences, as often as the samples asked for
 * need ("epochs"), in shuffled order, one behind the other; sample k starts at token k * S of
 * that stream and has S tokens, and one more for the last label. The samples are then read in
 * shuffled order. Both orders are Megatron's, from one RandomState(seed) a set. A last epoch of
 * which less than 80 % is needed is shuffled for itself, documents and samples, so that no sample
 * of it comes early.
 *
 * Megatron keeps where each sample starts in a list. Here it is looked up: the number of tokens
 * before every sixteenth entry of the order is kept, and the rest is counted when a sample is
 * read. That takes half a byte an entry instead of eight bytes a sample, has no 32-bit limit, and
 * costs microseconds a sample. What is kept in all: 4.5 bytes an entry (sequences times epochs)
 * and 4 bytes a sample (8 from 2^32 - 2 samples on, as Megatron). */
#ifndef TRAIN_DATA_INDEX_H
#define TRAIN_DATA_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "train/data/blend.h"
#include "train/data/store.h"

#define DATA_ALL INT64_C(-1) /* samples asked for: those of one epoch */

typedef struct index_ask {
    const data_store *store;
    data_split which;      /* for messages */
    split_range sequences; /* not empty */
    int64_t seq_length;    /* S >= 1 */
    int64_t n_samples;     /* >= 0, or DATA_ALL */
    uint32_t seed;
    bool extra_token;  /* a sample has S + 1 tokens; Megatron's default */
    bool keep_partial; /* the last sample may be short */
} index_ask;

typedef struct data_index {
    index_ask ask;
    int64_t n_tokens; /* of one epoch */
    int64_t n_epochs;
    int64_t n_entries;   /* of the document order: sequences times epochs */
    int64_t n_samples;   /* built: whole epochs, so no fewer than asked for */
    bool separate;       /* the last epoch is shuffled for itself */
    int64_t n_first;     /* samples before it */
    uint32_t *documents; /* [n_entries] sequences of the store, in the stream's order */
    int64_t *starts;     /* [n_entries / 16 rounded up] tokens before entries 0, 16, 32, ... */
    uint32_t *shuffle;   /* [n_samples], or NULL where they are too many for 32 bits */
    uint64_t *shuffle_wide;
} data_index;

/* Asking for samples of a set without tokens, or for all samples of one too short for any, is
 * ERR_INPUT; an index larger than the machine's memory is ERR_MACHINE. */
status index_init(data_index *x, const index_ask *ask, error *err);
void index_release(data_index *x);

/* Where sample k of the stream starts (0 <= k <= n_samples), as Megatron writes it down: an entry
 * of the document order and a token in it. Without the extra token that may be the end of an
 * entry. */
typedef struct index_place {
    int64_t entry, offset;
} index_place;
index_place index_row(const data_index *x, int64_t k);

/* Which sample of the stream is read as the i-th (0 <= i < n_samples). */
int64_t index_shuffled(const data_index *x, int64_t i);

/* ---- who reads which sample, and when.
 *
 * Megatron's "single" loader: the samples from `consumed` on are cut into groups of micro batch
 * size times data-parallel ranks; a group is one microbatch on every rank, and rank r reads the
 * r-th share of it. What is left at the end and does not fill a group is not read. The order over
 * samples depends neither on the number of ranks nor on the micro batch size, so a run may go on
 * with others: `consumed`, kept in the checkpoint, is all that must be known. */

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

/* ---- memory for the long lists of an index.
 *
 * They are larger than anything else that a run keeps on the host and grow with what the user asks
 * for, so they are asked for with care: a size beyond this machine's memory is refused with its
 * reason, before the system starts to kill. */

/* n items, not zeroed; given back with free. `what` says what for: "the order of 5 documents". */
status data_take(void **out, int64_t n, size_t item_bytes, const char *what, error *err);

#endif
