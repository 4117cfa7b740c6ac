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

unsigned capture_of(const recipe *r)
{
    static const struct {
        const char *word;
        unsigned parts;
    } modules[] = {
        {"attn", CAPTURED_ATTENTION},
        {"mlp", CAPTURED_MLP},
        {"moe", CAPTURED_ROUTER | CAPTURED_PREPROCESS | CAPTURED_EXPERTS},
        {"moe_router", CAPTURED_ROUTER},
        {"moe_preprocess", CAPTURED_PREPROCESS},
    };
    const char *how = recipe_word(r, K_GRAPHS);
    if (text_equal(how, "full_iteration")) return ~0u;
    if (!how || text_equal(how, "none")) return 0;
    if (!recipe_count(r, K_GRAPH_MODULES)) return ~(unsigned)CAPTURED_REST;
    unsigned parts = 0;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (recipe_has(r, K_GRAPH_MODULES, modules[i].word)) parts |= modules[i].parts;
    return parts;
}
