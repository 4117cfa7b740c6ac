/* sample.h - one sample: what a model reads and what it should say.
 *
 * The text of a sample is S + 1 ids (S without the extra token): tokens are the first S, labels
 * the same shifted by one. A text that ends early (only the last of a validation set can) is
 * filled with the pad id; without the extra token the last label is the pad id. */
#ifndef TRAIN_DATA_SAMPLE_H
#define TRAIN_DATA_SAMPLE_H

#include "train/data/index.h"

typedef struct sample_rules {
    int32_t eod;          /* id that ends a document; -1: none */
    bool eod_mask_loss;   /* no loss where the input is eod: what follows is another document */
    bool reset_positions; /* positions restart behind each eod */
    bool reset_attention; /* no attention across an eod */
    bool inter_document;  /* both, at the joins of sequences instead of at eod */
} sample_rules;

/* Memory for one sample, the caller's. The first four are always written. */
typedef struct data_item {
    int32_t *tokens;    /* [S] */
    int32_t *labels;    /* [S] */
    float *loss_mask;   /* [S] 1: counts, 0: does not */
    int32_t *positions; /* [S] */

    /* Pieces that do not see each other (reset_attention, inter_document; else one piece): piece
     * p has tokens cu_seqlens[p] up to, without, cu_seqlens[p + 1]. Entries from n_pieces
     * on are S, which is how Megatron pads the list. No piece is empty: where a sequence is,
     * Megatron has one piece more, of no tokens. */
    int32_t *cu_seqlens; /* [S + 1]; NULL: not wanted */
    int32_t n_pieces;
    int32_t max_seqlen; /* tokens of the longest piece */
} data_item;

/* Reads sample `k` of the stream (not shuffled). Where a label is the pad id (that of the index's
 * store) the loss does not count; then pad ids become 0, so that an embedding can take them. On
 * failure the memory holds nothing of use. */
status sample_read(const data_index *x, const sample_rules *r, int64_t k, data_item *item,
                   error *err);

#endif
