/* cards.h - parts of a step, built, fitted and played once, and remembered.
 *
 * Whole programs are too slow to build for each layout of a search. A layer falls into two halves
 * that meet only in the hidden state h: attention (x -> h), and MLP or experts (h -> y). Each is
 * built as a segment of its own by the builders of src/ir and depends on few knobs. Their
 * saved bytes add up to the layer's, and its temporaries are the larger of the two, because spans
 * of different halves never meet in time. Embedding, final norm, head and prediction module are
 * cards too; full recompute, activation offload and combined 1F1B, which do not fall apart like
 * that, have cards of whole layers and of pairs. */
#ifndef PLAN_CARDS_H
#define PLAN_CARDS_H

#include "predict/price.h"
#include "ir/memory/live.h"
#include "ir/order.h"
#include "plan/search_choice.h"

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
    int64_t saved, temp, work;       /* bytes; temp: of the larger phase; work: of kernels */
    int64_t parts[SAVED_PARTS];      /* of the saved bytes */
    live_span live;                  /* under Megatron; of a pair: the level of `forward` alone */
    double seconds[SCOPES][2];       /* [graphs][phase]; of a pair: all in phase 0 */
    simulation_pace pace[SCOPES][2]; /* the same, for lists that it is a part of */
} card;

/* What a half saves under any recompute, without building it again. */
enum { CARD_MASKS_MAX = 24 };
typedef struct card_light {
    int n_masks;
    unsigned mask[CARD_MASKS_MAX];
    int64_t bytes[CARD_MASKS_MAX], parts[CARD_MASKS_MAX][SAVED_PARTS];
    unsigned any;   /* of all masks */
    int64_t input;  /* bytes of the half's input, which nothing drops */
    int64_t temp;   /* most bytes of temporaries that live at once: a card's are not fewer */
    live_span live; /* as the card's, but without offload; of a pair: `forward` alone */
    /* Seconds by phase, each below what a card with this recompute takes: */
    double inside[2];   /* as a part of a pair: without messages that could have started before */
    double waited[2];   /* the same without what messages take of the chip */
    double compute[2];  /* compute stream by itself */
    double messages[2]; /* busiest of the others */
    double host[SCOPES][2]; /* [graphs][phase]: launching */
    double fastest[2];      /* GEMMs at the peak of the chip */
} card_light;

/* Layers of a model fall into few kinds: attention by MLP, at the ends and between them. A search
 * of a model of more is an error. */
enum { LAYER_KINDS_MAX = 8 };

typedef struct cards cards;

cards *cards_create(choice_maker *m, const hardware *hw, const price_options *o, arena *a);

const model *cards_model(const cards *k);
int cards_kinds(const cards *k);                  /* kinds of layers; 0: too many */
int cards_kind_of(const cards *k, int64_t layer); /* of a layer */
bool cards_kind_has(const cards *k, int kind, block_kind block);
bool cards_offload(const cards *k);                /* does the recipe offload activations? */
bool cards_whole(const cards *k, const choice *c); /* do layers not fall into halves? */

/* Which of the drop bits make a difference to this half. */
const card_light *card_light_of(cards *k, const choice *c, card_what half, int kind);
/* The same with the choice's recompute behind it, as far as seconds go; of whole layers too. */
const card_light *card_bound_of(cards *k, const choice *c, card_what half, int kind);
int64_t card_saved(const card_light *l, unsigned drop);
int64_t card_saved_part(const card_light *l, unsigned drop, saved_part part);
const card_light *card_pair_light(cards *k, const choice *c, int kind, int other);

/* `kind`: of layer, where `what` is a part of one; `other`: of the backward half of a pair. */
const card *card_of(cards *k, const choice *c, card_what what, int kind, int other);

/* Seconds of a message of [T][H] (times `parts`) between neighbours of this layout. */
double card_message(cards *k, const setup *s, int64_t parts);

/* Gives back what building took; cards live on in their arena. */
void cards_release(cards *k);

int64_t cards_built(const cards *k);

/* How often a rank's chunks run by themselves and beside one another, under combined 1F1B. */
typedef struct order_meet {
    int64_t forward, backward, times; /* chunks */
} order_meet;

typedef struct order_meets {
    int64_t *alone; /* [vpp][phase] */
    order_meet *list;
    int n;
    bool by_first_stage; /* the first forward and the last backward are of the first chunk, alone */
} order_meets;
const order_meets *cards_meets(cards *k, const order_shape *h);

/* The order of a rank; good until one of another pipeline is asked for. */
const step_order *cards_order(cards *k, const order_shape *h);

#endif
