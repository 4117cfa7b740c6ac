/* sample.c - from a place in the stream to tokens, labels, mask, positions and pieces.
 *
 * I1  No memory of its own: the text is S + 1 ids, of which the first S are the tokens and the last
 *     is the last label; the other labels are copies of tokens.
 * I2  Ends of documents are looked for in the ids as read; only then do pad ids become 0.
 * I3  A join counts as one only if something of the text but its last id lies behind it. That is
 *     Megatron's rule: it takes the extra token off the last part, in a short text as well. */
#include "train/data/sample.h"

#include <assert.h>

enum { JOIN = 1 }; /* mark in positions, until they are written */

typedef struct text {
    data_item *item;
    int64_t n, room;  /* ids so far; S + 1 or S */
    int64_t n_tokens; /* S */
} text;

/* Appends a slice, which ends no later than the text. */
static status append(text *t, const data_store *store, data_slice slice, error *err)
{
    int64_t n_tokens = slice.n < t->n_tokens - t->n ? slice.n : t->n_tokens - t->n;
    data_slice head = slice;
    head.n = n_tokens;
    status s = store->read(store, head, t->item->tokens + t->n, err);
    if (!s && slice.n > n_tokens) { /* I1 */
        data_slice last = {slice.sequence, slice.first + n_tokens, 1};
        s = store->read(store, last, t->item->labels + t->n_tokens - 1, err);
    }
    t->n += slice.n;
    return s;
}

static status gather(text *t, const data_index *x, int64_t k, error *err)
{
    const data_store *store = x->ask.store;
    index_place at = index_row(x, k);
    for (; t->n < t->room && at.entry < x->n_entries; at = (index_place){at.entry + 1, 0}) {
        int64_t sequence = x->documents[at.entry];
        int64_t n = data_store_length(store, sequence) - at.offset;
        if (n <= 0) continue; /* below 0 only where the lengths have changed (data_store.whole) */
        if (n > t->room - t->n) n = t->room - t->n;
        if (t->n < t->n_tokens) t->item->positions[t->n] = JOIN;
        TRY(append(t, store, (data_slice){sequence, at.offset, n}, err));
    }
    if (t->room > t->n_tokens && t->n <= t->n_tokens && t->n > 0)
        t->item->positions[t->n - 1] = 0; /* I3 */
    return OK;
}

/* Pads a short text and shifts the labels. */
static void complete(const text *t, int32_t pad)
{
    int32_t *tokens = t->item->tokens, *labels = t->item->labels;
    int64_t n_tokens = t->n_tokens;
    for (int64_t i = t->n; i < n_tokens; i++) tokens[i] = pad;
    if (t->n <= n_tokens) labels[n_tokens - 1] = pad;
    memcpy(labels, tokens + 1, (size_t)(n_tokens - 1) * sizeof *labels);
}

static void cut_piece(data_item *item, int64_t at)
{
    int32_t length = (int32_t)at - item->cu_seqlens[item->n_pieces];
    if (length > item->max_seqlen) item->max_seqlen = length;
    item->cu_seqlens[++item->n_pieces] = (int32_t)at;
}

/* Reads the marks of joins out of the positions while it writes them. */
static void place_tokens(data_item *item, const sample_rules *r, int64_t n)
{
    bool cut_positions = r->inter_document || r->reset_positions;
    bool cut_pieces = item->cu_seqlens && (r->inter_document || r->reset_attention);
    int32_t position = 0;
    if (item->cu_seqlens) item->n_pieces = item->max_seqlen = item->cu_seqlens[0] = 0;
    item->positions[0] = 0;
    for (int64_t i = 1; i < n; i++) {
        bool cut = r->inter_document ? item->positions[i] == JOIN
                                     : r->eod >= 0 && item->tokens[i - 1] == r->eod; /* I2 */
        if (cut && cut_pieces) cut_piece(item, i);
        position = cut && cut_positions ? 0 : position + 1;
        item->positions[i] = position;
    }
    if (!item->cu_seqlens) return;
    cut_piece(item, n);
    for (int64_t i = item->n_pieces; i <= n; i++) item->cu_seqlens[i] = (int32_t)n;
}

static void mask_loss(data_item *item, const sample_rules *r, int64_t n, int32_t pad)
{
    for (int64_t i = 0; i < n; i++) {
        bool ends = r->eod_mask_loss && r->eod >= 0 && item->tokens[i] == r->eod;
        item->loss_mask[i] = ends || item->labels[i] == pad ? 0.0F : 1.0F;
    }
    for (int64_t i = 0; i < n; i++) { /* I2 */
        if (item->tokens[i] == pad) item->tokens[i] = 0;
        if (item->labels[i] == pad) item->labels[i] = 0;
    }
}

status sample_read(const data_index *x, const sample_rules *r, int64_t k, data_item *item,
                   error *err)
{
    int64_t n = x->ask.seq_length;
    int32_t pad = x->ask.store->ids.pad;
    text t = {item, 0, n + x->ask.extra_token, n};
    assert(k >= 0 && k < x->n_samples);
    memset(item->positions, 0, (size_t)n * sizeof *item->positions);
    TRY(gather(&t, x, k, err));
    complete(&t, pad);
    place_tokens(item, r, n);
    mask_loss(item, r, n, pad);
    return OK;
}
