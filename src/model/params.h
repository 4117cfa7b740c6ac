/* params.h - the parameter table: one row a weight of a kind of block.
 *
 * Blocks repeat, so the table holds each kind of block once; a pass over the model visits the blocks in the order
 * of the network. Initial values, memory, optimizer shards, gradient reduction, checkpoints, import and export
 * are loops over these rows. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "model/model.h"

typedef enum param_cut {
    CUT_NONE, /* a copy on every TP rank */
    CUT_TP,   /* `axis` is divided over the tensor parallel group */
    CUT_ETP,  /* `axis` is divided over the expert tensor parallel group; experts always over EP too */
} param_cut;

typedef enum param_class { PARAM_DENSE, PARAM_EXPERT, PARAM_EMBEDDING } param_class; /* for reports */

typedef enum param_init { INIT_NORMAL, INIT_OUTPUT, INIT_EMBEDDING, INIT_ONE, INIT_ZERO,
                          INIT_CONV, INIT_A_LOG } param_init;

typedef enum param_block {
    BLOCK_EMBEDDING,
    BLOCK_ATTENTION, /* of one layer: norm and softmax attention (GQA or MLA) */
    BLOCK_LINEAR,    /* of one layer: norm and gated delta net */
    BLOCK_MLP,       /* of one layer: norm and dense MLP */
    BLOCK_MOE,       /* of one layer: norm, router, experts, shared expert */
    BLOCK_MTP,       /* of a prediction module: its norms and projection; its layer comes besides */
    BLOCK_HEAD,      /* final norm and head (no head weight where tied) */
    BLOCK_COUNT
} param_block;

/* How the weight is made of Hugging Face tensors. */
typedef enum param_hf {
    HF_ROWS,        /* the named tensors stacked by rows, in the order given */
    HF_EXPERT_ROWS, /* the same for each expert: "{e}" in the name is its number */
    HF_EXPERT_FUSED_T, /* gpt-oss: one tensor [E][in][out], columns alternate gate, up (fc1) */
    HF_QKVZ,        /* Qwen3-Next: per key head q, k, v, z interleaved */
    HF_Q_GATE,      /* Qwen3-Next: q_proj holds query and gate per head */
} param_hf;

typedef struct param {
    const char *name; /* within its block: "self_attention.linear_qkv.weight", Megatron's name */
    param_block block;
    int n_dims;
    int64_t dim[3];   /* global shape of one layer; experts have a leading axis E */
    param_cut cut;
    int axis;         /* which dimension CUT_* divides */
    param_class kind;
    param_init init;
    bool decay;       /* weight decay: two or more dimensions and no bias */
    bool trained;     /* false: a buffer without gradient (the router's correction bias, FP32) */
    param_hf hf;
    const char *hf_names; /* "self_attn.q_proj.weight self_attn.k_proj.weight ..." after the layer's prefix */
} param;

typedef struct param_table {
    const param *rows;
    int n_rows;
} param_table;

void param_table_init(param_table *t, const model *m, arena *a);

int64_t param_elements(const param *p);                              /* of one layer, all ranks */
int64_t param_local(const param *p, int64_t tp, int64_t etp, int64_t ep); /* on one rank */

/* Trained weights of the whole model; active: those that one token meets (top-k of the experts). */
typedef struct param_totals {
    int64_t total, active, expert, embedding;
} param_totals;
param_totals param_count(const param_table *t, const model *m);

#endif
