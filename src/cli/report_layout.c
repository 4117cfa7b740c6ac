/* report_layout.c - ranks, stages and knobs for the report's page. */
#include "cli/report.h"

static json_t *json_axes(const layout *l, grid g)
{
    static const char *const names[2][AXIS_COUNT] = {
        [GRID_DENSE] = {[AXIS_TP] = "TP", [AXIS_CP] = "CP", [AXIS_DP] = "DP", [AXIS_PP] = "PP"},
        [GRID_EXPERT] = {[AXIS_TP] = "ETP", [AXIS_EP] = "EP", [AXIS_DP] = "EDP", [AXIS_PP] = "PP"}};
    json_t *list = json_array();
    const axis *order = layout_order(l);
    for (int i = 0; i < AXIS_COUNT; i++) {
        axis x = order[i];
        if (!names[g][x]) continue;
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", names[g][x], "size",
                                              (json_int_t)l->size[g][x], "stride",
                                              (json_int_t)l->stride[g][x]));
    }
    return list;
}

json_t *report_json_layout(const setup *s)
{
    const layout *l = &s->lay;
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "world", (json_int_t)l->world, "vpp",
                     (json_int_t)s->pipe.vpp, "gpus_per_node", (json_int_t)l->gpus_per_node,
                     "nvlink_domain", (json_int_t)l->nvlink_domain, "dense",
                     json_axes(l, GRID_DENSE), "expert", json_axes(l, GRID_EXPERT));
}

json_t *report_json_stages(const setup *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < s->pipe.pp * s->pipe.vpp; i++) {
        const stage *st = &s->pipe.stages[i];
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:b, s:I, s:b}", "pp",
                                              (json_int_t)(i % s->pipe.pp), "chunk",
                                              (json_int_t)(i / s->pipe.pp), "first_layer",
                                              (json_int_t)st->first_layer, "layers",
                                              (json_int_t)st->n_layers, "embedding", st->embedding,
                                              "mtp", (json_int_t)st->n_mtp, "loss", st->loss));
    }
    return list;
}

json_t *report_json_knobs(const setup *s, arena *a)
{
    static const char *const origins[] = {"open", "default", "derived", "model", "user"};
    json_t *list = json_array();
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &s->r.knob[k];
        json_array_append_new(list, json_pack("[s, s, s, s, s]", knobs[k].key, value_text(a, x->v),
                                              origins[x->from], x->why ? x->why : "",
                                              knobs[k].help ? knobs[k].help : ""));
    }
    return list;
}
