/* capture.c - see capture.h. */
#include "ir/capture.h"

bool capture_is_router(op_kind k)
{
    return op_infos[k].cost == COST_CLASS_ROUTER;
}

static const unsigned part_of_module[MODULE_COUNT] = {
    [MODULE_NONE] = CAPTURED_REST,        [MODULE_EMBEDDING] = CAPTURED_REST,
    [MODULE_LAYER] = CAPTURED_ATTENTION,  [MODULE_ATTENTION] = CAPTURED_ATTENTION,
    [MODULE_LINEAR] = CAPTURED_ATTENTION, [MODULE_MLP] = CAPTURED_MLP,
    [MODULE_MOE] = CAPTURED_EXPERTS,      [MODULE_SHARED] = CAPTURED_ROUTER,
    [MODULE_PREDICTION] = CAPTURED_REST,  [MODULE_HEAD] = CAPTURED_REST,
    [MODULE_MESSAGES] = CAPTURED_REST,    [MODULE_REPLICAS] = CAPTURED_REST,
    [MODULE_OPTIMIZER] = CAPTURED_REST,
};

unsigned capture_part(const op *o)
{
    if (o->module != MODULE_MOE) return part_of_module[o->module];
    if (capture_is_router(o->kind) || op_is(o->kind, NORMALISES) || o->role == ROLE_ROUTER)
        return CAPTURED_ROUTER;
    return op_is(o->kind, PREPROCESS) ? CAPTURED_PREPROCESS : CAPTURED_EXPERTS;
}

unsigned capture_of(const job *j)
{
    static const struct {
        int word;
        unsigned parts;
    } modules[] = {
        {J_GRAPH_MODULES_ATTN, CAPTURED_ATTENTION},
        {J_GRAPH_MODULES_MLP, CAPTURED_MLP},
        {J_GRAPH_MODULES_MOE, CAPTURED_ROUTER | CAPTURED_PREPROCESS | CAPTURED_EXPERTS},
        {J_GRAPH_MODULES_MOE_ROUTER, CAPTURED_ROUTER},
        {J_GRAPH_MODULES_MOE_PREPROCESS, CAPTURED_PREPROCESS},
    };
    if (j->graphs == J_GRAPHS_FULL_ITERATION) return ~0u;
    if (j->graphs == J_GRAPHS_NULL || j->graphs == J_GRAPHS_NONE) return 0;
    if (!j->graph_modules.n) return ~(unsigned)CAPTURED_REST;
    unsigned parts = 0;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (job_lists(j->graph_modules, modules[i].word)) parts |= modules[i].parts;
    return parts;
}
