/* capture.c - see capture.h. */
#include "ir/capture.h"

bool capture_is_router(op_kind k)
{
    return k == OP_ROUTER || k == OP_ROUTER_D || k == OP_DROP || k == OP_AUX_LOSS ||
           k == OP_AUX_GLOBAL || k == OP_AUX_COUNT || k == OP_Z_LOSS || k == OP_LOAD;
}

static bool is_preprocess(op_kind k)
{
    return k == OP_SORT || k == OP_ROUTE || k == OP_FLEX_COUNT || k == OP_FLEX_PLAN ||
           k == OP_FLEX_PACK;
}

static bool is_norm(op_kind k)
{
    return k == OP_NORM || k == OP_LAYER_NORM;
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
    if (capture_is_router(o->kind) || is_norm(o->kind) || o->role == ROLE_ROUTER)
        return CAPTURED_ROUTER;
    return is_preprocess(o->kind) ? CAPTURED_PREPROCESS : CAPTURED_EXPERTS;
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
