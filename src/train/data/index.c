/* index.c - epochs, the order of documents, the order of samples, and which are a rank's.
 *
 * x is 1 where samples have an extra token, else 0; T the tokens of an epoch, E the epochs.
 *
 * I1  E is the smallest that has the N samples asked for: E * T >= N * S + x, and at least 1.
 * I2  The random numbers are spent in this order: documents (of all epochs but a separate last
 *     one), documents of the separate epoch, samples, samples of the separate epoch.
 * I3  Row 0 is (0, 0). Row k > 0 is found by the last token before it that must exist: k * S with
 *     the extra token, k * S - 1 without. That is where Megatron's walk stops, empty sequences and
 *     ends of sequences included. */
#include "train/data/index.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/maths.h"
#include "train/data/numpy.h"

enum { STRIDE = 16 };

static int64_t entry_length(const data_index *x, int64_t entry)
{
    return data_store_length(x->ask.store, x->documents[entry]);
}

static int64_t n_sequences(const data_index *x)
{
    return x->ask.sequences.end - x->ask.sequences.begin;
}

/* ---- sizes */

static status count_epochs(data_index *x, error *err)
{
    const index_ask *q = &x->ask;
    for (int64_t i = q->sequences.begin; i < q->sequences.end; i++)
        x->n_tokens += data_store_length(q->store, i);
    if (x->n_tokens == 0)
        return error_set(err, ERR_INPUT, "%s: the %" PRId64 " sequences for %s are all empty",
                         q->store->name, n_sequences(x), data_split_names[q->which]);
    x->n_epochs = 1;
    if (q->n_samples == DATA_ALL) return OK;
    int64_t needed = mul_sat(q->n_samples, q->seq_length);
    if (needed >= SIZE_HUGE / 2)
        return error_set(err, ERR_INPUT,
                         "%s: %" PRId64 " samples of %" PRId64
                         " tokens are more than can be counted",
                         q->store->name, q->n_samples, q->seq_length);
    if (needed + q->extra_token > x->n_tokens)
        x->n_epochs = ceil_div(needed + q->extra_token, x->n_tokens); /* I1 */
    return OK;
}

/* Megatron rounds up in 32-bit floats, which loses samples of a large set; what it loses is lost
 * here too. Where its float is too large it stops; here that number is the exact one. */
static int64_t samples_with_partial(int64_t tokens, int64_t seq_length)
{
    int64_t rounded = (int64_t)ceilf((float)tokens / (float)seq_length);
    int64_t exact = ceil_div(tokens, seq_length);
    return rounded < exact ? rounded : exact;
}

static status count_samples(data_index *x, error *err)
{
    const index_ask *q = &x->ask;
    int64_t tokens = x->n_epochs * x->n_tokens - q->extra_token;
    x->n_entries = mul_sat(x->n_epochs, n_sequences(x));
    x->n_samples =
        q->keep_partial ? samples_with_partial(tokens, q->seq_length) : tokens / q->seq_length;
    if (x->n_samples == 0)
        return error_set(err, ERR_INPUT,
                         "%s: the sequences for %s have %" PRId64
                         " tokens, too few for one sample of "
                         "%" PRId64,
                         q->store->name, data_split_names[q->which], x->n_tokens, q->seq_length);
    if (x->n_epochs == 1) return OK;
    int64_t per_epoch = (x->n_tokens - q->extra_token) / q->seq_length;
    x->n_first = ((x->n_epochs - 1) * x->n_tokens - q->extra_token) / q->seq_length;
    x->separate = q->n_samples - x->n_first < (int64_t)(0.80 * (double)per_epoch);
    return OK;
}

/* ---- orders */

static void order_documents(data_index *x, numpy_state *r)
{
    int64_t n = n_sequences(x), first = x->separate ? x->n_entries - n : x->n_entries;
    uint32_t *to = x->documents;
    for (int64_t epoch = 0; epoch < x->n_epochs; epoch++)
        for (int64_t i = 0; i < n; i++) *to++ = (uint32_t)(x->ask.sequences.begin + i);
    numpy_shuffle32(r, x->documents, first); /* I2 */
    numpy_shuffle32(r, x->documents + first, x->n_entries - first);
}

static void order_samples(data_index *x, numpy_state *r)
{
    int64_t n = x->n_samples, first = x->separate ? x->n_first : n;
    if (x->shuffle) {
        for (int64_t i = 0; i < n; i++) x->shuffle[i] = (uint32_t)i;
        numpy_shuffle32(r, x->shuffle, first); /* I2 */
        numpy_shuffle32(r, x->shuffle + first, n - first);
    } else {
        for (int64_t i = 0; i < n; i++) x->shuffle_wide[i] = (uint64_t)i;
        numpy_shuffle64(r, x->shuffle_wide, first);
        numpy_shuffle64(r, x->shuffle_wide + first, n - first);
    }
}

/* False: there are not as many tokens as were counted before, so somebody changes the lengths. */
static bool count_starts(data_index *x)
{
    int64_t at = 0;
    for (int64_t e = 0; e < x->n_entries; e++) {
        if (e % STRIDE == 0) x->starts[e / STRIDE] = at;
        at += entry_length(x, e);
    }
    return at == x->n_epochs * x->n_tokens;
}

static status take_memory(data_index *x, error *err)
{
    char what[200];
    void *documents, *starts, *shuffle;
    bool wide = x->n_samples >= (int64_t)UINT32_MAX - 1;
    snprintf(what, sizeof what, "the order of %s (%" PRId64 " epochs of %" PRId64 " sequences)",
             data_split_names[x->ask.which], x->n_epochs, n_sequences(x));
    TRY(data_take(&documents, x->n_entries, sizeof *x->documents, what, err));
    x->documents = documents;
    TRY(data_take(&starts, ceil_div(x->n_entries, STRIDE), sizeof *x->starts, what, err));
    x->starts = starts;
    TRY(data_take(&shuffle, x->n_samples, wide ? sizeof *x->shuffle_wide : sizeof *x->shuffle, what,
                  err));
    if (wide)
        x->shuffle_wide = shuffle;
    else
        x->shuffle = shuffle;
    return OK;
}

status index_init(data_index *x, const index_ask *ask, error *err)
{
    assert(ask->seq_length >= 1 && ask->sequences.begin < ask->sequences.end);
    data_index made = {.ask = *ask};
    status s = count_epochs(&made, err);
    if (!s) s = count_samples(&made, err);
    if (!s) s = take_memory(&made, err);
    if (s) {
        index_release(&made);
        return s;
    }
    numpy_state r;
    numpy_seed(&r, ask->seed);
    order_documents(&made, &r);
    order_samples(&made, &r);
    if (!count_starts(&made)) {
        index_release(&made);
        return error_set(err, ERR_MACHINE,
                         "%s: lengths of sequences changed while they were read; keep the data "
                         "unchanged while a run reads them",
                         ask->store->name);
    }
    *x = made;
    return OK;
}

void index_release(data_index *x)
{
    free(x->documents);
    free(x->starts);
    free(x->shuffle);
    free(x->shuffle_wide);
    *x = (data_index){0};
}

/* ---- questions */

/* The entry that holds this token of the stream; the token must exist. (Where lengths have changed
 * since they were added up, any entry: whoever reads asks data_store.whole.) */
static index_place find_token(const data_index *x, int64_t token)
{
    int64_t low = 0,
            high = ceil_div(x->n_entries, STRIDE); /* starts[low] <= token < starts[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (x->starts[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    int64_t entry = low * STRIDE, offset = token - x->starts[low];
    for (int64_t n; entry < x->n_entries - 1 && offset >= (n = entry_length(x, entry)); entry++)
        offset -= n;
    return (index_place){entry, offset};
}

index_place index_row(const data_index *x, int64_t k)
{
    assert(k >= 0 && k <= x->n_samples);
    if (k == 0) return (index_place){0, 0}; /* I3 */
    int64_t end = x->n_epochs * x->n_tokens, extra = x->ask.extra_token;
    int64_t token = k * x->ask.seq_length - (1 - extra);
    if (token >= end) { /* the end of a short last sample */
        int64_t last = x->n_entries - 1;
        return (index_place){last, entry_length(x, last) - extra};
    }
    index_place p = find_token(x, token);
    p.offset += 1 - extra;
    return p;
}

int64_t index_shuffled(const data_index *x, int64_t i)
{
    assert(i >= 0 && i < x->n_samples);
    return x->shuffle ? (int64_t)x->shuffle[i] : (int64_t)x->shuffle_wide[i];
}

/* ---- a rank's share */

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

/* ---- memory for long lists */

static int64_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? mul_sat(pages, page) : SIZE_HUGE;
}

status data_take(void **out, int64_t n, size_t item_bytes, const char *what, error *err)
{
    int64_t bytes = mul_sat(n, (int64_t)item_bytes), most = machine_bytes();
    void *memory = bytes < most ? malloc(bytes ? (size_t)bytes : 1) : NULL;
    if (!memory)
        return error_set(err, ERR_MACHINE,
                         "data: %s takes %.1f GiB, which this machine (%.1f GiB) does not have",
                         what, (double)bytes / 0x1p30, (double)most / 0x1p30);
    *out = memory;
    return OK;
}
