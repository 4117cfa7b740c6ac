/* weights.h - weights between Hugging Face safetensors and our flat FP32 arrays.
 *
 * Flat arrays are those of ir/weights.h: weight i starts at element `offset`. How each weight
 * is made of a file's tensors is in train/hf/map.h. Padding between weights, and rows that pad the
 * vocabulary, are in no file: they are neither read nor written here.
 *
 * Nothing here is collective. A rank may read its part of the files and compare its part of a
 * tensor; whole tensors and files are given out by one that holds the whole model. */
#ifndef TRAIN_HF_WEIGHTS_H
#define TRAIN_HF_WEIGHTS_H

#include "train/hf/map.h"

/* ---- reading
 *
 * Read are F32, BF16, F16, FP8 (E4M3 with weight_scale_inv of 128 x 128) and gpt-oss's MXFP4, one
 * file or many with an index, experts one by one or fused. Each tensor of the files is used,
 * applied (a scale), or ignored for one of these reasons: it repeats a table (a prediction
 * module's embedding and head, the head of a tied model), holds rotary frequencies, or belongs to
 * a prediction module that the recipe leaves out. Anything else is ERR_INPUT with the file and the
 * tensor: one that is missing, unknown, or of another shape or type, a file that is damaged. All
 * that is checked before the first element is written. */
typedef struct hf_ignored {
    const char *name, *file, *reason;
    int64_t elements;
} hf_ignored;

typedef struct hf_count {
    int tensors;
    int64_t elements; /* as stored; MXFP4 has two values to an element */
} hf_count;

/* found = used + applied + ignored. Texts live in the setup's arena. */
typedef struct hf_report {
    int n_files;
    hf_count found, used, applied, ignored;
    const hf_ignored *list; /* [ignored.tensors] */
    int64_t written;        /* elements of the rank's flat array, each once */
    int64_t padded;         /* of the whole model that no file has: rows beyond the vocabulary */
} hf_report;

/* Where values go: the weights `w` of the rank `at` (NULL: the whole model). */
typedef struct hf_rank {
    const setup *s;
    const rank_at *at;
    const weight_list *w;
    float *values; /* the flat array */
} hf_rank;

/* Only values that the rank holds are read. The checks are of all tensors on every rank. */
status hf_load(const hf_rank *to, const char *folder, hf_report *report, error *err);

/* ---- writing
 *
 * The folder must not exist, or be empty. All is written to a folder beside it and synced, which is
 * then renamed: a crash leaves either nothing or everything under the name. */
typedef struct hf_saved {
    int n_files, n_tensors;
    int64_t elements, bytes;
    const char *const *carried; /* names, in the setup's arena */
    int n_carried;
} hf_saved;

typedef struct hf_options {
    bool bf16;           /* else FP32; the router's correction bias is FP32 always */
    int64_t shard_bytes; /* a file holds no more, if it has more than one tensor; 0: 5 GB */

    const char *config; /* text of config.json, written as it is (model_write_config); NULL: none */
    const char *beside; /* folder whose tokenizer and generation files are copied; NULL: none */
    hf_saved *saved;    /* what was written; may be NULL */
} hf_options;

status hf_save(const setup *s, const weight_list *w, const float *weights, const char *folder,
               const hf_options *o, error *err);

/* ---- single tensors
 *
 * Values of a flat array under Hugging Face names: weights, or gradients and other arrays that are
 * laid out alike but not shifted where the file holds w + 1. hf_walk (train/hf/map.h) visits all
 * tensors. A gradient array may end at `trained`: weights that are not trained have no gradient.
 * hf_gather and hf_tensor take the list of a whole model. */
typedef struct hf_flat {
    const setup *s;
    const weight_list *w;
    const float *values; /* [w->elements], or [w->trained] of gradients */
    bool gradient;
} hf_flat;

/* Elements [lo, hi) of the tensor to out[0 ..]. */
void hf_gather(const hf_flat *f, const hf_part *p, int64_t lo, int64_t hi, float *out);

/* The whole tensor of this name, which must have `n` elements. ERR_INPUT: the model has no such
 * tensor, another size, or no gradient for it. */
status hf_tensor(const hf_flat *f, const char *name, float *out, int64_t n, error *err);

/* ---- a tensor beside what ranks hold of it */

typedef struct hf_golden {
    const char *name;
    const float *values; /* [n] */
    int64_t n;
} hf_golden;

/* Sums over elements, in a fixed order. Those of all ranks are added up; of `largest` the largest
 * is taken. */
typedef struct hf_compared {
    double difference, golden; /* squares */
    double largest;            /* |ours| where the golden value is zero */
    int64_t elements;          /* over all ranks: the tensor's */
} hf_compared;

/* Adds to `out` the elements that this rank answers for (owned.h): with the sharded optimizer
 * those are in its slices, where sums of gradients are complete. f->w and f->values are the rank's;
 * `at` NULL: the whole model. The gradient of a weight that is not trained counts as zero.
 * ERR_INPUT, on every rank alike: the model has no such tensor, or another size. */
status hf_compare(const hf_flat *f, const rank_at *at, const hf_golden *t, hf_compared *out,
                  error *err);

#endif
