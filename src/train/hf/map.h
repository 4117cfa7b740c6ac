/* map.h - which element of a weight is which element of a Hugging Face tensor.
 *
 * A weight of ours is made of one or more tensors of a file; each of them is a part. A part is cut
 * into pieces, blocks with two strides on each side, and that is all the maps there are: reading,
 * writing, gradients under their Hugging Face names, and the tests' accounting walk the same
 * pieces.
 *
 * I1  The pieces of a part cover each of its elements exactly once.
 * I2  The parts of a weight cover each of its elements exactly once, except rows beyond
 *     model.vocab, which no part has.
 *
 * The weights are those of a whole model (weight_list_init), whoever holds what of them. Nothing
 * here reads a file, and nothing is allocated but names. */
#ifndef TRAIN_HF_MAP_H
#define TRAIN_HF_MAP_H

#include "ir/weights.h"

/* PUBLIC is what checkpoints on the hub have and what we write. FUSED is transformers' own: the
 * experts of a layer in one tensor [E][out][in]. PACKED is gpt-oss in MXFP4: X_blocks and X_scales
 * instead of X, and not transposed: [E][out][in]. */
typedef enum hf_spelling { HF_PUBLIC, HF_FUSED, HF_PACKED, HF_SPELLINGS } hf_spelling;

enum { HF_DIMS_MAX = 4, HF_PACKED_BLOCK = 32 };

typedef struct hf_part {
    const model *m;
    const weight *w;
    hf_spelling spelling;
    const char *name; /* of the tensor: "model.layers.3.self_attn.q_proj.weight" */
    int part;         /* which of the weight's tensors, */
    int64_t expert;   /* and of which expert */
    int n_dims;
    int64_t dim[HF_DIMS_MAX]; /* as the file has it: packed, two values to a byte */
    int64_t elements;         /* values */
    int64_t n_pieces;
} hf_part;

/* How many parts the weight has in this spelling; 0: the spelling does not have it. */
int64_t hf_parts(const weight *w, hf_spelling spelling);

/* Part i of them; the name comes from `a`. */
void hf_part_init(hf_part *p, const model *m, const weight *w, hf_spelling spelling, int64_t i,
                  arena *a);

/* Elements of the weight that no file has: rows that pad the vocabulary. */
int64_t hf_padding(const model *m, const weight *w);

/* Added to what the file holds to get the weight; 0 but for HF_MINUS_ONE. There and back is exact
 * for values from 0.5 to 2, as a norm has them; others may change in their last bit. */
float hf_shift(const weight *w);

/* ERR_INPUT when a weight has no place in Hugging Face files or its sizes do not fit together (I2);
 * the weight is named. Everything else here may be called once this is OK. */
status hf_check(const setup *s, const weight_list *w, error *err);

/* ---- every tensor of the model, in the order of the weights:
 *
 *     hf_walk walk = {.s = s, .w = w};
 *     for (hf_part p; hf_walk_next(&walk, &p, a);) ...                     names live in `a` */
typedef struct hf_walk {
    const setup *s;
    const weight_list *w;
    int weight;
    int64_t part;
    hf_spelling spelling; /* unset: the public one */
} hf_walk;
bool hf_walk_next(hf_walk *walk, hf_part *p, arena *a);

/* ---- the elements [lo, hi) of a part, run by run:
 *
 * element hf + i * hf_step of the tensor is element ours + i * our_step of the weight, i < n. */
typedef struct hf_run {
    int64_t hf, ours, n, hf_step, our_step;
} hf_run;

typedef struct hf_piece {
    int64_t hf, ours; /* first elements */
    int64_t n_outer, n_inner;
    int64_t hf_outer, hf_inner; /* steps; the outer one is never the smaller */
    int64_t our_outer, our_inner;
} hf_piece;

typedef struct hf_runs {
    const hf_part *p;
    int64_t lo, hi;
    int64_t next_piece, outer, outer_end;
    hf_piece at;
} hf_runs;

hf_runs hf_runs_of(const hf_part *p, int64_t lo, int64_t hi);
bool hf_runs_next(hf_runs *r, hf_run *run);

#endif
