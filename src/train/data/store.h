/* store.h - sequences of token ids, wherever they come from.
 *
 * A store is a numbered list of sequences with their lengths, and a way to read a piece of one.
 * There are two: a pair of Megatron files (idx.h) and Megatron's mock data (below).
 * What orders and cuts them into samples sees only this. A store does not change after it was
 * opened: any number of threads may read it. */
#ifndef TRAIN_DATA_STORE_H
#define TRAIN_DATA_STORE_H

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

/* Which ids a model can take. Megatron turns the pad id into 0 where it finds it, so that one may
 * lie outside the vocabulary. */
typedef struct data_ids {
    int32_t vocab_size;
    int32_t pad; /* -1: none; as in Megatron, -1 in a file is then taken for padding */
} data_ids;

typedef struct data_slice {
    int64_t sequence;
    int64_t first, n; /* tokens; inside the sequence */
} data_slice;

typedef struct data_store data_store;
struct data_store {
    const char *name;    /* for messages */
    int64_t n_sequences; /* at most 2^31 - 1, as Megatron numbers them in 32 bits */
    const void *lengths; /* [n_sequences] int32, not aligned */
    data_ids ids;

    /* Writes slice.n ids; an id that the model cannot take is ERR_INPUT with the file, the sequence
     * and the id. */
    status (*read)(const data_store *s, data_slice slice, int32_t *out, error *err);

    /* Was all that was read so far there? ERR_MACHINE: the file was shortened, or its disk fails;
     * what was read since the last question may be anything. NULL: it cannot happen. */
    status (*whole)(const data_store *s, error *err);
};

static inline int64_t data_store_length(const data_store *s, int64_t sequence)
{
    int32_t length;
    memcpy(&length, (const char *)s->lengths + 4 * sequence, sizeof length);
    return length;
}

/* ---- Megatron's mock data: sequences without a file.
 *
 * 100,000 sequences of 1 to 4,095 tokens (numpy's default_rng(0), whatever the run's seed is);
 * one of length n holds 1, 2, ..., n-1, each modulo the vocabulary, and the id that ends it. */

typedef struct mock_store {
    data_store store; /* first: the store's `read` finds the rest behind it */
    int32_t eod;
} mock_store;

/* The lengths come from `a`; nothing is to be closed. */
status mock_init(mock_store *m, arena *a, int32_t vocab_size, int32_t eod, error *err);

#endif
