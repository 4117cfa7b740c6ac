/* model.h - the architecture, read off the knobs.
 *
 * Three sources give the knobs of a model: a preset's name, a Hugging Face config.json, or the user
 * (a recipe or a Megatron-LM argument list). From here on only the knobs count. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "config/job_of.h"

/* What a network is made of. A kind has a row here, a struct of its sizes below, rows of weights
 * (params.def), what it counts (flops.c) and a builder (ir/build/layer.c). */
typedef enum block_kind {
    BLOCK_EMBEDDING,
    BLOCK_ATTENTION, /* of a layer: norm and softmax attention (GQA or MLA) */
    BLOCK_GDN,       /* of a layer: norm and gated delta net */
    BLOCK_MLP,       /* of a layer: norm and dense MLP */
    BLOCK_MOE,       /* of a layer: norm, router, experts, shared expert */
    BLOCK_MTP,       /* of a prediction module: its norms and projection; its layer follows */
    BLOCK_HEAD,      /* final norm and head (no head weight where tied) */
    BLOCK_KINDS
} block_kind;

typedef struct attention_block {
    int64_t heads, kv_heads, head_dim;
    bool mla;
    int64_t q_lora, kv_lora, qk_dim, qk_rope_dim, v_dim; /* MLA; q_lora 0: full */
    int64_t window;                                      /* tokens seen, itself included; 0: all */
    bool bias;                                           /* of all projections; MLA: down and out */
    bool qkv_bias, qk_norm, qk_norm_whole, output_gate, sinks;
} attention_block;

typedef struct gdn_block {
    int64_t conv, k_dim, v_dim, k_heads, v_heads;
} gdn_block;

typedef struct mlp_block {
    int64_t ffn;
} mlp_block;

typedef struct moe_block {
    int64_t experts, topk; /* 0 experts: there is none */
    int64_t ffn, shared_ffn;
    int64_t latent; /* width that is dispatched; 0: hidden */
    bool shared_gate, expert_bias;
} moe_block;

typedef struct model_block {
    block_kind kind;
    int64_t times; /* how often its weights exist; a repeated module exists once */
    const struct model_block
        *weights; /* the first block with such weights: its own, or another's */
    union {
        attention_block attention;
        gdn_block gdn;
        mlp_block mlp;
        moe_block moe;
    };
} model_block;

/* Blocks of a layer in the order of the network, each around its residual connection. */
enum { LAYER_BLOCKS_MAX = 3 };
typedef struct layer_kind {
    const model_block *block[LAYER_BLOCKS_MAX];
    int n_blocks;
} layer_kind;

enum { MODEL_LAYERS_MAX = 4096, MODEL_MTP_MAX = 64 };

/* As whose files name weights that others name differently: rows of params.def. */
typedef enum weight_names { NAMES_OTHERS, NAMES_MIXTRAL, NAMES_OSS, NAMES_NEXT } weight_names;

/* Sizes are never negative and never above 2^40, and layers never above the maxima: loops and
 * GEMMs over a model are safe whatever the knobs say. Rules compare the knobs themselves. */
typedef struct model {
    const char *name;   /* preset, folder or "custom" */
    const char *family; /* as Hugging Face's model_type: qwen3_moe, deepseek_v3, ... */
    weight_names names; /* of that family's files */
    int64_t n_layers, n_mtp;
    bool mtp_repeated;                   /* one physical module serves all n_mtp depths */
    int64_t hidden, vocab, padded_vocab; /* padded: as TP and the knobs ask */
    int64_t positions;                   /* rows of a learned position table; 0: none */
    bool tied, glu, linear_bias;
    bool norm_bias;     /* LayerNorm: norms have a bias */
    bool zero_centered; /* norm weights are stored as w - 1 */

    /* By kind, as block_kind has them; what the knobs describe is there even where no layer has
     * it. Blocks of unlike sizes are two. */
    const model_block *blocks;
    int n_blocks;
    unsigned has; /* a bit a block_kind */
    const layer_kind *kinds;
    int n_kinds;
    const int16_t *layer; /* [n_layers + n_mtp] number of its kind; modules are as the last layer */

    /* Sizes where no layer is asked of: of the first block of a kind. Without one they are what the
     * knobs say, and no block. */
    const attention_block *attention;
    const gdn_block *gdn;
    const mlp_block *mlp;
    const moe_block *moe;
} model;

/* Modules that have weights, behind so many depths. */
static inline int64_t model_modules(const model *m, int64_t n_mtp)
{
    return m->mtp_repeated && n_mtp > 1 ? 1 : n_mtp;
}

static inline bool model_has(const model *m, block_kind kind)
{
    return m->has >> kind & 1;
}

static inline const layer_kind *model_layer(const model *m, int64_t i)
{
    return &m->kinds[m->layer[i]];
}

/* The layer's block of this kind; NULL: it has none. */
static inline const model_block *layer_block(const layer_kind *l, block_kind kind)
{
    for (int i = 0; i < l->n_blocks; i++)
        if (l->block[i]->kind == kind) return l->block[i];
    return NULL;
}

static inline bool model_layer_has(const model *m, int64_t i, block_kind kind)
{
    return layer_block(model_layer(m, i), kind) != NULL;
}

/* Are the n layers from a on and from b on of the same kinds? */
bool model_same_layers(const model *m, int64_t a, int64_t b, int64_t n);

int64_t model_layers_with(const model *m, block_kind kind); /* of the decoder */
bool model_uses(const model *m, block_kind kind);           /* does any layer have it? */

/* The window of layer i; 0: none. The one that the knobs describe; does any layer have it? */
static inline int64_t model_layer_window(const model *m, int64_t i)
{
    const model_block *b = layer_block(model_layer(m, i), BLOCK_ATTENTION);
    return b ? b->attention.window : 0;
}
int64_t model_window(const model *m);
bool model_is_windowed(const model *m);

/* What the knobs of an architecture imply for one another: MLP widths, key/value heads, head size,
 * longest sequence. Whatever would need a division by zero stays open. */
void model_derive(resolving *d);

/* That and defaults alone, of a recipe whose model alone is asked for; its job. */
void model_resolve(recipe *r, job *j);

/* From a resolved job; memory comes from `a`. Out-of-range sizes are rules' business
 * and do not fail here; what cannot be read (a moe_layer_freq list of the wrong length, no
 * num_layers at all) is ERR_INPUT. */
status model_init(model *m, const job *j, arena *a, error *err);

/* What two spellings of one architecture have in common, and no two published models: widths, heads
 * and experts of a layer. Layers and prediction modules are left out, so that a proxy with four
 * layers of a model counts as that model. */
enum { MODEL_SHAPE = 14 };

typedef struct model_shape {
    const char *family; /* of the model: it stands for the switches */
    int64_t size[MODEL_SHAPE];
} model_shape;

model_shape model_shape_of(const model *m);
bool model_same_shape(const model_shape *a, const model_shape *b);

/* Model FLOPs of one trained token (forward and backward; causal attention halved, recompute not
 * counted), exactly as Megatron counts them. A windowed layer counts the mean number of keys it
 * sees. */
double model_flops_per_token(const model *m, int64_t seq);

#endif
