/* params.h - the parameter table: one row a weight of a block.
 *
 * Blocks repeat, so the table holds each once; a pass over the model visits them in the order of
 * the network: the embedding, the blocks of layers i < n_layers, the head, then those of each
 * prediction module (layers from n_layers on), BLOCK_MTP first.
 *
 * Initial values, memory, optimizer shards, gradient reduction, checkpoints, import and export are
 * loops over these rows, which stand in Megatron's order of registration within a block. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "model/model.h"

typedef enum param_cut {
    CUT_NONE, /* a copy on every TP rank (an expert's: on every ETP rank) */
    CUT_TP,   /* `axis` is divided over the tensor parallel group */
    CUT_ETP,  /* `axis` is divided over the expert tensor parallel group */
} param_cut;

/* For reports. The word table, learned positions and the head count as embedding. Weights of the
 * class expert have the experts as axis 0 and are divided over EP there; in Megatron's buffers each
 * local expert is a weight. */
typedef enum param_class { PARAM_DENSE, PARAM_EXPERT, PARAM_EMBEDDING } param_class;

typedef enum param_init {
    INIT_NORMAL,    /* N(0, init_method_std) */
    INIT_OUTPUT,    /* the same / sqrt(2 layers) */
    INIT_EMBEDDING, /* N(0, embedding_init_method_std) */
    INIT_ONE,
    INIT_ZERO,
    INIT_CONV,  /* U(-1/sqrt(taps), 1/sqrt(taps)) */
    INIT_A_LOG, /* log of U(1, 16) */
} param_init;

/* What no size says of a weight: who treats it in a way of its own asks here. */
typedef enum param_role {
    WEIGHT_PLAIN, /* of two dimensions: a matrix of a linear layer */
    WEIGHT_BIAS,  /* of experts: two dimensions here, one for each expert in Megatron */
    WEIGHT_ROUTER,
    WEIGHT_GATE, /* of the shared expert */
    WEIGHT_CONV,
    WEIGHT_QK_NORM,
    WEIGHT_POSITIONS,
    WEIGHT_HEAD,
} param_role;

/* How the weight is made of Hugging Face tensors.
 *
 * HF_ROWS            the named tensors stacked by rows, in the order given
 * HF_MINUS_ONE       the file holds w + 1 of a zero-centred norm
 * HF_QKV             q, k, v; here by key/value group: its query heads, its key, its value
 * HF_QKV_GATE        the same; the file's q holds query and gate by head, and here the gates of a
 *                    group follow its query heads
 * HF_GDN_IN          qkvz and ba, both by key head; here sections q, k, v, z, b, a over all heads
 * HF_EXPERT_ROWS     HF_ROWS for each expert: "{e}" in the names is its number
 * HF_EXPERT_FUSED_T  gpt-oss: one tensor [E][in][out] (a bias: [E][out]); where the weight has
 *                    sections the file's columns alternate between them: gate, up, gate, up */
typedef enum param_hf {
    HF_ROWS,
    HF_MINUS_ONE,
    HF_QKV,
    HF_QKV_GATE,
    HF_GDN_IN,
    HF_EXPERT_ROWS,
    HF_EXPERT_FUSED_T,
} param_hf;

enum { PARAM_DIMS_MAX = 3, PARAM_SECTIONS_MAX = 6 };

typedef struct param {
    const char *name; /* Megatron's, after that of its layer: "self_attention.linear_qkv.weight" */
    const model_block *block; /* of the model; its own among those with the same weights */
    int n_dims;
    int64_t dim[PARAM_DIMS_MAX]; /* global shape of one layer; experts have a leading axis E */
    param_cut cut;
    int axis; /* which dimension CUT_* divides */

    /* `axis` may be made of sections that are each divided: a rank's share of [gate; up] is its
     * part of the gate, then its part of up. Their sizes add up to dim[axis]; none: one piece. */
    int n_sections;
    int64_t section[PARAM_SECTIONS_MAX];

    param_class kind;
    param_role role;
    param_init init;
    bool decay;   /* weight decay: two or more dimensions and no bias */
    bool trained; /* false: a buffer without gradient, always FP32 (the router's correction bias) */
    bool linear;  /* a matrix of Transformer Engine's linear layers, which may hold it narrower */
    bool gemm;    /* one of those, or the head */

    /* Names are separated by spaces and follow param_hf_prefix; "": no checkpoint has such a
     * weight. hf_fused: the name that transformers gives it when it keeps experts in one tensor
     * [E][out][in] (and, for Mixtral's router, the name beside those); NULL: none. */
    param_hf hf;
    const char *hf_names, *hf_fused;
} param;

typedef struct param_table {
    const param *rows; /* in the order of the model's blocks */
    int n_rows;
    const int *start; /* [model's blocks + 1]: where the rows of a block stand */
} param_table;

/* Holds the blocks that occur in the model; memory comes from `a`. The vocabulary is the padded
 * one: rows beyond model.vocab are in no Hugging Face file. */
void param_table_init(param_table *t, const model *m, arena *a);

static inline bool param_of_layer(const param *p) /* neither of the embedding nor of the head */
{
    return p->block->kind != BLOCK_EMBEDDING && p->block->kind != BLOCK_HEAD;
}

int64_t param_elements(const param *p); /* of one layer, all ranks */
int64_t param_local(const param *p, int64_t tp, int64_t etp, int64_t ep); /* on one rank */

/* Trained weights of the whole model; active: those that one token meets (top-k of the experts;
 * tables whole). */
typedef struct param_totals {
    int64_t total, active, expert, embedding;
    int64_t buffers; /* untrained elements, in no other sum */
} param_totals;
param_totals param_count(const param_table *t);

/* ---- Hugging Face names */

/* What stands before the names of a block of layer i: "model.layers.3."; i is ignored for embedding
 * and head. */
const char *param_hf_prefix(arena *a, const model *m, block_kind kind, int64_t i);

/* Of how many tensors it is made: of one layer, and of one expert where names hold "{e}". */
int param_hf_parts(const param *p);

/* Name of one of them; `expert` is ignored where it has no part. */
const char *param_hf_name(arena *a, const model *m, const param *p, int64_t i, int part,
                          int64_t expert);

#endif
