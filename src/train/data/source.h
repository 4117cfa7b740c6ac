/* source.h - the training data of a run, in Megatron's order.
 *
 * Give it what dataset.* says and how many samples training, validation and test will read; get
 * sample i of each. The same options give the samples that Megatron-LM (and Megatron-Bridge)
 * would read, token for token: split, epochs, shuffles, blends, mock data. What follows from that
 * and may surprise:
 *
 *   - The order depends on how many samples are asked for, because that decides the number of
 *     epochs: a resumed run must ask for as many as the first did.
 *   - A set is built in whole epochs, so data_length is what was asked for or more, blends apart.
 *   - A blend with weights can be a few samples longer than asked; one without has one epoch of
 *     each member and may end sooner.
 *   - Files are split by sequences, not by documents or tokens.
 *
 * Which index a rank reads when is index.h's business. Nothing here is collective: every
 * rank opens the files for itself and comes to the same order. After data_open a source does not
 * change: any number of threads may read samples, and reading allocates nothing.
 *
 *     data_options o = data_defaults();
 *     o.paths = (data_paths){paths, n};        // none: mock data
 *     o.split = "969, 30, 1";
 *     o.seq_length = 4096, o.vocab_size = 151936, o.eod = 151643;
 *     o.n_samples[DATA_TRAIN] = train_iters * global_batch_size;
 *     data_source *d;
 *     status s = data_open(&d, &o, a, err);
 *     ...
 *     s = data_sample(d, DATA_TRAIN, i, &item, err);
 *     ...
 *     data_close(d); */
#ifndef TRAIN_DATA_SOURCE_H
#define TRAIN_DATA_SOURCE_H

#include "base/arena.h"
#include "train/data/blend.h"
#include "train/data/index.h"
#include "train/data/sample.h"

/* Prefixes of files, or weights and prefixes in turn. */
typedef struct data_paths {
    const char *const *list;
    int n; /* 0: none */
} data_paths;

typedef struct data_options {
    data_paths paths; /* dataset.data_path; none here and below: mock data, "1,1,1" */
    data_paths separate[DATA_SPLITS]; /* or files of each set's own, read whole: nothing is split */
    const char *split;                /* dataset.split; needed where there are paths */
    int64_t seq_length;
    int64_t seed; /* 0 .. 2^32 - 1 */

    /* Samples wanted. 0: none, the set is not built. DATA_ALL: one epoch (not with weights). A
     * set for validation or test that the split leaves out is empty; one that it names but that
     * gets no sequence of a file is an error, where Megatron would never end. Training must not
     * be left out. */
    int64_t n_samples[DATA_SPLITS];

    int32_t vocab_size; /* ids in files must be smaller */
    int32_t eod;        /* end of document; -1: none. Mock data need one */
    int32_t pad;        /* padding; -1: none. Not heeded if it equals eod, unless that is allowed */
    bool allow_ambiguous_pad;

    double surplus;     /* dataset.mid_level_dataset_surplus */
    bool eod_mask_loss; /* see sample_rules */
    bool reset_position_ids;
    bool reset_attention_mask;
    bool inter_document;
    bool extra_token;        /* Megatron's add_extra_token_to_sequence */
    bool drop_partial_valid; /* Megatron's drop_last_partial_validation_sequence */
    bool read_bin;           /* dataset.mmap_bin_files off */
} data_options;

/* Megatron's defaults: seed 1234, no ids, surplus 0.005, extra_token and drop_partial_valid on.
 * Paths, split, lengths and counts are for the caller. */
data_options data_defaults(void);

typedef struct data_source data_source;

/* Opens the files and makes the orders, which takes seconds for a hundred million sequences. Small
 * things come from `a`, which must live as long as the source; files and orders are the source's
 * own. ERR_INPUT: files or options; ERR_MACHINE: memory. */
status data_open(data_source **out, const data_options *o, arena *a, error *err);
void data_close(data_source *d); /* NULL is fine */

/* Samples of a set; 0 if it was not wanted or the split leaves it out. */
int64_t data_length(const data_source *d, data_split which);

/* Writes one sample where `item` points. Index -1 is a filler, as Megatron has it: sample 0 with a
 * loss mask of zeros. An index outside the set is ERR_INPUT, and so is an id outside the
 * vocabulary; a .bin that cannot be read any more is ERR_MACHINE. */
status data_sample(const data_source *d, data_split which, int64_t index, data_item *item,
                   error *err);

/* What a set is made of, for reports: its members (one unless it is a blend), their orders, and the
 * blend, or NULL where there is none. */
int data_members(const data_source *d, data_split which);
const char *data_name(const data_source *d, data_split which, int member);
const data_index *data_member(const data_source *d, data_split which, int member);
const data_blend *data_blend_of(const data_source *d, data_split which);

#endif
