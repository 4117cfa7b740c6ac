/* units.h - the order in which combined 1F1B runs the instances of two chunks, one forward and one
 * backward: the embedding of the one, the head of the other, layers in pairs, what is left of
 * either's layers, then the rest. Each half keeps its own order. */
#ifndef IR_SCHEDULE_UNITS_H
#define IR_SCHEDULE_UNITS_H

#include "ir/segment.h"

typedef struct unit_walk {
    const segment_kind *f, *b; /* kinds of the instances of each chunk */
    int f_at, f_end;           /* the next forward, upwards */
    int b_at, b_end;           /* the next backward, downwards; past the last one: b_end */
    int stage;                 /* 0 at the start */
} unit_walk;

/* What runs next: an instance of one chunk (the other is -1), or a pair. */
typedef struct unit_step {
    int f, b;
} unit_step;

/* False: layers of both, and what stands before them, are done. */
static inline bool unit_layers(unit_walk *w, unit_step *s)
{
    for (; w->stage < 5; w->stage++) {
        bool has_f = w->f_at<w->f_end, has_b = w->b_at> w->b_end;
        bool layer_f = has_f && w->f[w->f_at] == SEGMENT_LAYER;
        bool layer_b = has_b && w->b[w->b_at] == SEGMENT_LAYER;
        bool embeds = has_f && w->f[w->f_at] == SEGMENT_EMBEDDING;
        const bool runs[5][2] = {{embeds, false},
                                 {false, has_b && !layer_b},
                                 {layer_f && layer_b, layer_f && layer_b},
                                 {false, layer_b},
                                 {layer_f, false}};
        const bool *now = runs[w->stage];
        if (!now[0] && !now[1]) continue;
        *s = (unit_step){now[0] ? w->f_at++ : -1, now[1] ? w->b_at-- : -1};
        return true;
    }
    return false;
}

/* What is left of the forward, then of the backward. False: all is done. */
static inline bool unit_rest(unit_walk *w, unit_step *s)
{
    if (w->f_at < w->f_end)
        *s = (unit_step){w->f_at++, -1};
    else if (w->b_at > w->b_end)
        *s = (unit_step){-1, w->b_at--};
    else
        return false;
    return true;
}

#endif
