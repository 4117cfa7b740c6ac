/* setup.h - a recipe with everything resolved: knobs, model, layout, stages.
 *
 * Rules and everything after them read a setup. It is made also from recipes that break rules,
 * so that all violations can be named at once: `possible` and `pipe.why_not` say what could not
 * be laid out. */
#ifndef LAYOUT_SETUP_H
#define LAYOUT_SETUP_H

#include "layout/cluster.h"
#include "layout/layout.h"
#include "layout/pipeline.h"
#include "layout/state.h"
#include "job/job.h"
#include "model/params.h"

typedef struct setup {
    recipe r; /* resolved: every knob has a value and a reason */
    job j;    /* what it says, in the types of C */
    model m;
    param_table params;
    const gpu *gpu;
    bool possible; /* lay is valid */
    layout lay;
    pipeline pipe;
    const state_bytes *states; /* [pipe.pp]: see setup_states; NULL: nobody keeps them */
} setup;

/* `given` has model_fill behind it. It is not changed. Memory comes from `a`. */
status setup_init(setup *s, const recipe *given, arena *a, error *err);

/* One knob with another value, on which nothing that setup_init derives depends. */
void setup_set(setup *s, knob_id k, value v, const char *why);

/* Does pipeline rank q hold the same kinds of layers as rank q - 1? Then it holds as many bytes. */
bool setup_stage_repeats(const setup *s, int64_t q);

/* Works out state_of_stage of every stage, once where stages are alike, and keeps it: for setups
 * that are asked again and again. Does nothing where there is no layout or no split. A copy that
 * gets another layout, split or optimizer sets `states` to NULL. */
void setup_states(setup *s, arena *a);

/* The pipeline stage whose ranks hold most, and its bytes. Requires possible and no
 * pipe.why_not. */
int64_t setup_fullest(const setup *s, state_bytes *bytes);

/* A knob that follows others where nobody sets it: what it becomes, and why. Null: its default.
 * Whoever changes a resolved setup asks again, in the order of the list. */
typedef struct follower {
    knob_id k;
    value (*of)(const job *j, const char **why);
} follower;
const follower *setup_followers(int *n);

#endif
