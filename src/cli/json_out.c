/* json_out.c - what programs read. The keys are documented in docs/JSON.md and stay. */
#include <stdio.h>

#include "cli/cli.h"

json_t *cli_json_value(value v)
{
    switch (v.kind) {
    case V_NULL:
        return json_null();
    case V_BOOL:
        return json_boolean(v.flag);
    case V_INT:
        return json_integer(v.whole);
    case V_FLOAT:
        return json_real(v.real);
    case V_TEXT:
        return json_string(v.text);
    case V_LIST: {
        json_t *list = json_array();
        for (int i = 0; i < v.list.n; i++)
            json_array_append_new(list, cli_json_value(v.list.items[i]));
        return list;
    }
    }
    return json_null();
}

json_t *cli_json_model(const setup *s)
{
    param_totals totals = param_count(&s->params, &s->m);
    int64_t seq = recipe_int(&s->r, K_SEQ);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:f}", "name", s->m.name, "family", s->m.family,
                     "parameters", (json_int_t)totals.total, "active_parameters",
                     (json_int_t)totals.active, "seq_length", (json_int_t)seq, "flops_per_token",
                     model_flops_per_token(&s->m, seq));
}

static json_t *json_groups(const setup *s, grid g)
{
    json_t *grids = json_object();
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int k = 0; k < n_kinds; k++) {
        if (kinds[k].grid != g) continue;
        int64_t size = group_size(&s->lay, &kinds[k]), count = group_count(&s->lay, &kinds[k]);
        int64_t *ranks = ARENA_ARRAY(s->r.a, int64_t, size);
        json_t *groups = json_array();
        for (int64_t i = 0; i < count; i++) {
            group_ranks(&s->lay, &kinds[k], i, ranks);
            json_t *members = json_array();
            for (int64_t j = 0; j < size; j++)
                json_array_append_new(members, json_integer(ranks[j]));
            json_array_append_new(groups, members);
        }
        json_object_set_new(grids, kinds[k].name, groups);
    }
    return grids;
}

static json_t *json_reach(const setup *s)
{
    json_t *list = json_array();
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int k = 0; k < n_kinds; k++) {
        group_reach reach = group_reach_of(&s->lay, &kinds[k]);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "grid",
                            kinds[k].grid == GRID_DENSE ? "dense" : "expert", "group",
                            kinds[k].name, "ranks", (json_int_t)group_size(&s->lay, &kinds[k]),
                            "groups", (json_int_t)group_count(&s->lay, &kinds[k]), "nodes",
                            (json_int_t)reach.nodes, "nvlink_domains", (json_int_t)reach.domains));
    }
    return list;
}

static void set_int(json_t *object, const char *key, int64_t n)
{
    json_object_set_new(object, key, json_integer(n));
}

json_t *cli_json_layout(const setup *s)
{
    const recipe *r = &s->r;
    json_t *o = json_object();
    set_int(o, "world", recipe_int(r, K_N_GPUS));
    set_int(o, "tp", recipe_int(r, K_TP));
    set_int(o, "cp", recipe_int(r, K_CP));
    set_int(o, "ep", recipe_int(r, K_EP));
    set_int(o, "etp", recipe_int(r, K_ETP));
    set_int(o, "pp", recipe_int(r, K_PP));
    set_int(o, "vpp", s->pipe.vpp);
    if (!s->possible) {
        json_object_set_new(o, "dp", json_null());
        json_object_set_new(o, "edp", json_null());
        json_object_set_new(o, "groups", json_null());
        return o;
    }
    set_int(o, "dp", s->lay.dp);
    set_int(o, "edp", s->lay.edp);
    json_object_set_new(o, "stages",
                        s->pipe.why_not ? json_null() : json_string(pipeline_text(r->a, &s->pipe)));
    json_object_set_new(o, "reach", json_reach(s));
    json_object_set_new(o, "groups",
                        json_pack("{s:o, s:o}", "dense", json_groups(s, GRID_DENSE), "expert",
                                  json_groups(s, GRID_EXPERT)));
    return o;
}

json_t *cli_json_memory(const setup *s, int64_t pp_rank)
{
    state_bytes b;
    state_of_stage(&b, s, pp_rank);
    json_t *o = json_object();
    set_int(o, "rank", layout_stage_rank(&s->lay, pp_rank));
    set_int(o, "weights", state_weights(&b));
    set_int(o, "gradients", state_gradients(&b));
    set_int(o, "optimizer", state_optimizer(&b));
    set_int(o, "total", state_total(&b));
    set_int(o, "padding", b.padding_weights + b.padding_gradients + b.padding_optimizer);
    set_int(o, "buffers", b.buffers);
    set_int(o, "host", b.host);
    static const char *const kinds[] = {"dense", "expert", "embedding"};
    json_t *by_kind = json_object();
    for (int k = 0; k < 3; k++) {
        json_t *row = json_object();
        set_int(row, "weights", b.weights[k]);
        set_int(row, "gradients", b.gradients[k]);
        set_int(row, "optimizer", b.optimizer[k]);
        json_object_set_new(by_kind, kinds[k], row);
    }
    json_object_set_new(o, "by_kind", by_kind);
    return o;
}

void cli_json_print(json_t *root)
{
    json_dumpf(root, stdout, JSON_INDENT(0) | JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(root);
}

json_t *cli_json_texts(const char *const *list)
{
    json_t *out = json_array();
    for (; list && *list; list++) json_array_append_new(out, json_string(*list));
    return out;
}

static json_t *json_repair_price(const repair_price *p)
{
    if (!p->valid) return json_null();
    json_t *o = json_pack("{s:I, s:b}", "peak_bytes", (json_int_t)p->peak_bytes, "fits", p->fits);
    json_object_set_new(o, "gain", p->priced ? json_real(p->gain) : json_null());
    json_object_set_new(o, "step_s", p->priced ? json_real(p->step_s) : json_null());
    json_object_set_new(o, "before_step_s", p->priced ? json_real(p->before_s) : json_null());
    return o;
}

json_t *cli_json_violations(const violations *found)
{
    json_t *list = json_array();
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        json_t *alternatives = json_array();
        for (int k = 1; k < v->n_repairs; k++)
            json_array_append_new(alternatives, cli_json_texts(v->repairs[k]));
        json_t *prices = json_array();
        for (int k = 0; k < v->n_repairs; k++)
            json_array_append_new(prices, json_repair_price(&v->prices[k]));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "rule", v->rule->id, "severity",
                            severity_name(v->rule->severity), "message", v->message, "repair",
                            cli_json_texts(v->n_repairs ? v->repairs[0] : NULL), "alternatives",
                            alternatives, "repair_prices", prices));
    }
    return list;
}
