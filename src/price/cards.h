/* cards.h - parts of a step, built, fitted and played once, and remembered.
 *
 * Whole programs are too slow to build for each layout of a search. A layer falls into two halves
 * that meet only in the hidden state h: attention (x -> h), and MLP or experts (h -> y). Each is
 * built as a segment of its own by the builders of src/program and depends on few knobs. Their
 * saved bytes add up to the layer's, and its temporaries are the larger of the two, because spans
 * of different halves never meet in time. Embedding, final norm, head and prediction module are
 * cards too; full recompute, activation offload and combined 1F1B, which do not fall apart like
 * that, have cards of whole layers and of pairs. */
#ifndef PRICE_CARDS_H
#define PRICE_CARDS_H

#include "price/price.h"
#include "price/search_choice.h"

typedef enum card_what {
    CARD_ATTENTION, /* first half of a layer */
    CARD_MLP,       /* second half */
    CARD_LAYER,     /* all of it: DROP_FULL, or with offload */
    CARD_PAIR,      /* forward of one layer beside the backward of another */
    CARD_EMBEDDING,
    CARD_FINAL,
    CARD_MTP,
    CARD_HEAD,
    CARD_KINDS
} card_what;

typedef struct card {
    int64_t saved, temp, work; /* bytes; temp: of the larger phase; work: of kernels */
    double seconds[2][2];      /* [graphs][phase]; of a pair: all in phase 0 */
    double least[2][2];        /* the compute stream's own, nothing beside it lost */
    double host[2][2];         /* launching all of it */
    double unhindered[2];      /* by phase: as played if launching took no time */
} card;

/* What a half saves under any recompute, without building it again. */
enum { CARD_MASKS_MAX = 24 };
typedef struct card_light {
    int n_masks;
    unsigned mask[CARD_MASKS_MAX];
    int64_t bytes[CARD_MASKS_MAX];
    unsigned any;       /* of all masks */
    int64_t input;      /* bytes of the half's input, which nothing drops */
    double least[2];    /* busiest stream, by phase, without recompute */
    double compute[2];  /* compute stream alone */
    double messages[2]; /* the busiest of the others */
    double host[2];     /* launching, with graphs */
    double eager[2];    /* without */
    double products[2]; /* of that, products and attention */
} card_light;

/* Layers of a model fall into few kinds. */
enum { LAYER_KINDS_MAX = 8 };

typedef struct cards cards;

cards *cards_create(choice_maker *m, const hardware *hw, const price_options *o, arena *a);

const model *cards_model(const cards *k);
int cards_kinds(const cards *k);                  /* kinds of layers */
int cards_kind_of(const cards *k, int64_t layer); /* of a layer */
bool cards_kind_is(const cards *k, int kind, layer_kind_bits bit);
bool cards_offload(const cards *k);                /* does the recipe offload activations? */
bool cards_whole(const cards *k, const choice *c); /* do layers not fall into halves? */

/* Which of the drop bits make a difference to this half. */
const card_light *card_light_of(cards *k, const choice *c, card_what half, int kind);
/* The same with the choice's recompute behind it: `least`, `compute` and `products` are bounds. */
const card_light *card_bound_of(cards *k, const choice *c, card_what half, int kind);
int64_t card_saved(const card_light *l, unsigned drop);

/* `kind`: of layer, where `what` is a part of one; `other`: of the backward half of a pair. */
const card *card_of(cards *k, const choice *c, card_what what, int kind, int other);

/* Seconds of a message of [T][H] (times `parts`) between neighbours of this layout. */
double card_message(cards *k, const choice *c, const setup *s, int64_t parts);

/* Gives back what building took; cards live on in their arena. */
void cards_release(cards *k);

int64_t cards_built(const cards *k);

#endif
