/* report_layout.c - ranks, stages and knobs for the report's page. */
#include "cli/report.h"

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

const char *const *const *report_knobs_answer(const setup *s, arena *a)
{
    static const char *const origins[] = {"open", "default", "derived", "model", "user"};
    const char *const **list = ARENA_ARRAY(a, const char *const *, K_COUNT + 1);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &s->r.knob[k];
        const char *row[] = {knobs[k].key, value_text(a, x->v), origins[x->from],
                             x->why ? x->why : "", knobs[k].help ? knobs[k].help : ""};
        list[k] = answer_texts(row, 5, a);
    }
    return list;
}
