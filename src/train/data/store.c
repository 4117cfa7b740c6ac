/* store.c - Megatron's mock data. */
#include "train/data/store.h"

#include <inttypes.h>

#include "train/data/numpy.h"

enum { SEQUENCES = 100000, LENGTH_END = 4096 };

static status read_slice(const data_store *store, data_slice s, int32_t *out, error *err)
{
    (void)err;
    const mock_store *m = (const mock_store *)store;
    int64_t last = data_store_length(store, s.sequence) - 1;
    for (int64_t i = 0; i < s.n; i++) {
        int64_t place = s.first + i;
        out[i] = place == last ? m->eod : (int32_t)((place + 1) % store->ids.vocab_size);
    }
    return OK;
}

status mock_init(mock_store *m, arena *a, int32_t vocab_size, int32_t eod, error *err)
{
    if (vocab_size < 1 || eod < 0 || eod >= vocab_size)
        return error_set(err, ERR_INPUT,
                         "mock data end each document with the id %" PRId32
                         ", which is not in the vocabulary of %" PRId32,
                         eod, vocab_size);
    int32_t *lengths = ARENA_ARRAY(a, int32_t, SEQUENCES);
    numpy_pcg g;
    numpy_pcg_seed(&g, 0);
    for (int i = 0; i < SEQUENCES; i++)
        lengths[i] = 1 + (int32_t)numpy_pcg_below(&g, LENGTH_END - 1);
    *m = (mock_store){{"mock data", SEQUENCES, lengths, {vocab_size, -1}, read_slice, NULL}, eod};
    return OK;
}
