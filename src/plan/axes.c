/* axes.c - the table of axes. */
#include "plan/axes.h"

enum { KEPT = 1, FIXED = 2, IN_ROW = 4 };

const axis_knob axis_knobs[] = {
#define KNOB(axis, knob, on, how)                                                                  \
    {AX_##axis, K_##knob, on, ((how)&KEPT) != 0, ((how)&FIXED) != 0, ((how)&IN_ROW) != 0},
#define PICK(knob, ...) KNOB(knob, knob, ON_##knob, KEPT | IN_ROW)
#include "plan/axes.def"
    {.k = K_COUNT},
};

const edits pick_values[PICKS] = {
#define PICK(id, words, can, may, ...) [PICK_##id] = EDITS(__VA_ARGS__),
#include "plan/axes.def"
};

const char *axis_words(axis_id x)
{
    static const char *const words[] = {
#define AXIS(id, words)      words,
#define PICK(id, words, ...) words,
#include "plan/axes.def"
    };
    return words[x];
}

static const axis_knob *find(knob_id k)
{
    const axis_knob *x = axis_knobs;
    while (x->k != K_COUNT && x->k != k) x++;
    return x;
}

axis_id axis_of(knob_id k)
{
    const axis_knob *x = find(k);
    return x->k == k ? x->axis : AX_NONE;
}

bool axis_decides(knob_id k)
{
    const axis_knob *x = find(k);
    return x->k == k && !x->fixed;
}

bool axis_in_row(knob_id k)
{
    return find(k)->in_row;
}
