/* expect.h - what a recipe is expected to take, after some were measured. Internal to measure/tune.
 *
 * A price is wrong alike for recipes that are alike: what it does not know (caches, launches, a
 * library's bad size) belongs to a microbatch, a dispatcher, a kind of recompute. So the logarithm
 * of measured over priced is taken as a smooth function of the recipe, known at the trials
 * (ordinary kriging): an expectation is the price times what trials nearby took over theirs, and it
 * comes with its own uncertainty, small beside a trial and large far from all of them. */
#ifndef MEASURE_TUNE_EXPECT_H
#define MEASURE_TUNE_EXPECT_H

#include "measure/tune/tune.h"

typedef struct expectations expectations;

typedef struct expectation {
    double seconds;
    double band; /* standard deviation, as a part of `seconds` */
} expectation;

/* Prices all trials with t->hw. Lives in `a`. */
expectations *expectations_of(const tune *t, arena *a);

/* Of a trial, by the hardware as it is known now; 0: it has no price. */
double expect_priced(const expectations *e, int number);

/* Of a recipe after setup_init, which is priced at so many seconds. */
expectation expect(const expectations *e, const recipe *r, double priced);

/* How much lower than `best` seconds the measured time is expected to be, in the mean over all that
 * it may be (nothing where it is higher), as a part of `best`. */
double expected_gain(expectation x, double best);

/* In how many steps one recipe becomes the other: a doubling of a size, a module more that is
 * recomputed, another word. */
double steps_apart(const recipe *x, const recipe *y);

#endif
