/* blend.h - what a set is made of: several sets read as one, and a split of each.
 *
 * Members are mixed without chance: the next sample comes from the member that lies furthest
 * behind its share. With weights (shares that the user gives) each member is built for its share
 * of the samples asked for and a little more; without, each has one epoch and its share is its
 * length. */
#ifndef TRAIN_DATA_BLEND_H
#define TRAIN_DATA_BLEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* dataset.data_path, understood: "weight path weight path ...", or paths alone. */
typedef struct blend_list {
    int n;
    const char **prefixes; /* [n] */
    double *weights;       /* [n] with sum 1; NULL: by length */
} blend_list;

/* Words are pairs of weight and path if they are even in number and every first, third, ... is a
 * number, as Megatron decides it; else all are paths. A list of which only some words are numbers
 * is refused unless there are files of that name. */
status blend_parse(blend_list *list, arena *a, const char *const *words, int n_words, error *err);

/* Samples of a member with this weight, of n in all: in the blend, and built (a surplus of 0.005 is
 * half a percent more). */
int64_t blend_share(int64_t n, double weight);
int64_t blend_built(int64_t n, double weight, double surplus);

typedef struct data_blend {
    int64_t length;
    int16_t *member; /* [length] where sample k comes from */
    int64_t *sample; /* [length] which of that member's, in its order */
} data_blend;

/* What a blend is made from. */
typedef struct blend_ask {
    int n_members;
    const double *weights; /* [n_members]; NULL: sizes decide */
    const int64_t *sizes;  /* [n_members] samples that the members have, all > 0 */
    int64_t length;        /* -1: all samples of all members, without weights only */
    const char *what;      /* for messages: "train" */
} blend_ask;

/* A member of which more samples are wanted than it has is ERR_INPUT. */
status blend_init(data_blend *b, const blend_ask *ask, error *err);
void blend_release(data_blend *b);

/* ---- which sequences are for training, validation and test.
 *
 * A split is a text with up to three numbers ("969, 30, 1"); whatever is not a digit or a dot
 * only separates them. Each part is its number over the sum of all, in this order, and owns a
 * contiguous range of a file's sequences. The arithmetic is Megatron's, in double, rounding
 * halves to even: the ranges are Megatron's to the sequence. */

typedef enum data_split { DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_SPLITS } data_split;

extern const char *const data_split_names[DATA_SPLITS]; /* "train", "valid", "test" */

typedef struct split_ends {
    bool present[DATA_SPLITS]; /* false: a part of no width */
    double begin[DATA_SPLITS], end[DATA_SPLITS];
} split_ends;

status split_parse(split_ends *ends, const char *text, error *err);

typedef struct split_range {
    int64_t begin, end; /* sequences; may be empty although the part is present */
} split_range;
split_range split_of(const split_ends *ends, data_split which, int64_t n_sequences);

#endif
