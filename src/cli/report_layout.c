/* report_layout.c - ranks, stages and knobs for the report's page. */
#include <string.h>

#include "cli/report.h"
#include "config/models/models.h"

static const page_axis_answer *axes_of(int *n, const layout *l, grid g, arena *a)
{
    static const char *const names[2][AXIS_COUNT] = {
        [GRID_DENSE] = {[AXIS_TP] = "TP", [AXIS_CP] = "CP", [AXIS_DP] = "DP", [AXIS_PP] = "PP"},
        [GRID_EXPERT] = {[AXIS_TP] = "ETP", [AXIS_EP] = "EP", [AXIS_DP] = "EDP", [AXIS_PP] = "PP"}};
    page_axis_answer *list = ARENA_ARRAY(a, page_axis_answer, AXIS_COUNT);
    const axis *order = layout_order(l);
    *n = 0;
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = order[i];
        if (names[g][x])
            list[(*n)++] = (page_axis_answer){names[g][x], l->size[g][x], l->stride[g][x]};
    }
    return list;
}

const page_layout_answer *report_layout_answer(const setup *s, arena *a)
{
    const layout *l = &s->lay;
    page_layout_answer *x = ARENA_NEW(a, page_layout_answer);
    *x = (page_layout_answer){.world = l->world,
                              .vpp = s->pipe.vpp,
                              .gpus_per_node = l->gpus_per_node,
                              .nvlink_domain = l->nvlink_domain};
    x->dense = axes_of(&x->n_dense, l, GRID_DENSE, a);
    x->expert = axes_of(&x->n_expert, l, GRID_EXPERT, a);
    return x;
}

const page_stage_answer *report_stages_answer(int *n, const setup *s, arena *a)
{
    *n = (int)(s->pipe.pp * s->pipe.vpp);
    page_stage_answer *list = ARENA_ARRAY(a, page_stage_answer, *n);
    for (int i = 0; i < *n; i++) {
        const stage *st = &s->pipe.stages[i];
        list[i] = (page_stage_answer){i % s->pipe.pp, i / s->pipe.pp, st->first_layer, st->n_layers,
                                      st->embedding,  st->n_mtp,      st->loss};
    }
    return list;
}

/* A recipe that was written by us has the model's values, too: whoever reads it has set nothing
 * there. */
const char *const *const *report_knobs_answer(const setup *s, arena *a)
{
    static const char *const origins[] = {"open", "default", "derived", "model", "user"};
    const char *const **list = ARENA_ARRAY(a, const char *const *, K_COUNT + 1);
    recipe *bare = ARENA_NEW(a, recipe);
    error err;
    recipe_init(bare, a, s->r.name);
    bare->knob[K_MODEL] = s->r.knob[K_MODEL];
    bool known = model_fill(bare, &err) == OK;
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &s->r.knob[k], *m = &bare->knob[k];
        const char *text = value_text(a, x->v);
        bool preset = known && x->from == FROM_USER && m->from == FROM_MODEL &&
                      strcmp(text, value_text(a, m->v)) == 0;
        const char *row[] = {knobs[k].key, text, preset ? "preset" : origins[x->from],
                             preset   ? m->why ? m->why : ""
                             : x->why ? x->why
                                      : "",
                             knobs[k].help ? knobs[k].help : ""};
        list[k] = answer_texts(row, 5, a);
    }
    return list;
}
