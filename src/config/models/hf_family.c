/* hf_family.c - which family a config.json is of; what is missing for families that are not here.
 *
 * A family that is known and refused says which of its blocks nobody has built, because "unknown"
 * sends people looking for a spelling. */
#include <string.h>
#include <strings.h>

#include "config/models/hf_config.h"

/* Hub: how names of such models start. */
static const struct {
    const char *model_types, *hub, *missing;
} refused[] = {
    {"deepseek_v32", "deepseek-ai/DeepSeek-V3.2", "sparse attention (DSA) with its indexer"},
    {"glm_moe_dsa", "zai-org/GLM-5", "sparse attention (DSA) with its indexer"},
    {"llama4|llama4_text", "meta-llama/Llama-4",
     "chunked attention, and layers without rotary embedding between those that have it"},
    {"minimax|minimax_m1|minimax_text_01", "MiniMaxAI/MiniMax-Text|MiniMaxAI/MiniMax-M1",
     "lightning (linear) attention"},
    {"kimi_linear", "moonshotai/Kimi-Linear", "Kimi delta attention (KDA)"},
    {"qwen3_5|qwen3_5_moe|qwen3_5_moe_text", "Qwen/Qwen3.5", "vision encoder"},
    {"qwen2_vl|qwen2_5_vl|qwen3_vl|qwen3_vl_moe|glm4v_moe|kimi_vl|kimi_k25",
     "Qwen/Qwen2-VL|Qwen/Qwen2.5-VL|Qwen/Qwen3-VL|zai-org/GLM-4.5V|moonshotai/Kimi-VL",
     "vision encoder"},
    {"jamba|bamba|mamba|mamba2|falcon_h1|granitemoehybrid|nemotron_h|zamba2",
     "ai21labs/|nvidia/Nemotron-H|nvidia/NVIDIA-Nemotron-Nano|ibm-granite/granite-4",
     "state-space (Mamba) layers"},
    {"gemma|gemma2|gemma3|gemma3_text", "google/gemma",
     "norms behind attention and MLP, and GeGLU"},
    {"phimoe", "microsoft/Phi-3.5-MoE", "sparse mixer router"},
    {"dbrx", "databricks/dbrx", "clipping of queries, keys and values"},
    {"gpt2|gpt_neox|opt|bloom", "openai-community/gpt2|EleutherAI/|facebook/opt|bigscience/bloom",
     "checkpoint layout; give the sizes as model.* knobs instead"},
};

enum { N_REFUSED = sizeof refused / sizeof refused[0] };

const char *family_missing_by_name(const char *name)
{
    for (int i = 0; i < N_REFUSED; i++)
        for (const char *h = refused[i].hub; *h;) {
            size_t n = strcspn(h, "|");
            if (strncasecmp(name, h, n) == 0) return refused[i].missing;
            h += n + (h[n] == '|');
        }
    return NULL;
}

static const char *missing_by_type(const char *type)
{
    for (int i = 0; i < N_REFUSED; i++)
        if (text_in(refused[i].model_types, '|', type)) return refused[i].missing;
    return NULL;
}

/* ---- the family */

enum { TYPES_MAX = 64 };

/* All model types that are read. */
static int known_types(const config *c, const char *types[TYPES_MAX])
{
    int n_types = 0;
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (const char *t = families[f].model_types; *t && n_types < TYPES_MAX;) {
            size_t n = strcspn(t, "|");
            types[n_types++] = arena_copy(c->r->a, t, n);
            t += n + (t[n] == '|');
        }
    return n_types;
}

static status find_family(config *c)
{
    const char *known[TYPES_MAX];
    int n = known_types(c, known);
    textbuf list = text_init(c->r->a);
    for (int i = 0; i < n; i++) text_add(&list, "%s%s", i ? ", " : "", known[i]);
    const json_t *v = json_object_get(c->root, "model_type");
    if (!v)
        return config_missing(c, "model_type", arena_text(c->r->a, "it must be one of %s", list.s));
    const char *type = json_string_value(v);
    for (int f = 0; type && f < FAMILY_COUNT; f++)
        if (text_in(families[f].model_types, '|', type)) {
            c->family = (family_id)f;
            return OK;
        }
    const char *missing = type ? missing_by_type(type) : NULL;
    if (missing) return config_wrong(c, "model_type", v, "moefold does not have its %s", missing);
    const char *near = type ? text_nearest(type, known, n) : NULL;
    return config_wrong(c, "model_type", v, "%s%s%sknown are %s",
                        near ? "the nearest known one is " : "", near ? near : "", near ? "; " : "",
                        list.s);
}

static status check_architecture(const config *c)
{
    const json_t *v = config_find(c, "architectures", NULL);
    if (!v) return OK;
    if (!json_is_array(v)) return config_wrong(c, "architectures", v, "a list of names is needed");
    bool fits = json_array_size(v) == 0;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        fits = fits || (name && text_starts(name, families[c->family].architecture));
    }
    if (fits) return OK;
    const json_t *type = json_object_get(c->root, "model_type");
    const char *missing = missing_by_type(json_string_value(type)); /* one type, two families */
    if (missing)
        return config_wrong(c, "model_type", type, "moefold does not have its %s", missing);
    return config_wrong(c, "architectures", v, "model_type %s has %s...: one of the two is wrong",
                        config_text(c, type), families[c->family].architecture);
}

status config_family(config *c)
{
    TRY(find_family(c));
    return check_architecture(c);
}
