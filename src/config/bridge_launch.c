/* bridge_launch.c - Megatron-Bridge's launcher: run_recipe.py --recipe NAME key=value ... */
#include "config/megatron_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "config/export.h"

bool bridge_launches(const char *program)
{
    return text_equal(shell_program(program), "run_recipe.py");
}

/* ---- names of recipes: MODEL_pretrain_16gpu_h100_bf16_config */

static const struct {
    const char *start, *model; /* a preset, or a name on the hub */
} models[] = {
    {"deepseek_v2_lite", "deepseek-v2-lite"},
    {"deepseek_v2", "deepseek-v2"},
    {"deepseek_v3", "deepseek-v3"},
    {"glm45_355b", "glm-4.5"},
    {"glm45_air_106b", "glm-4.5-air"},
    {"gpt_oss_120b", "gpt-oss-120b"},
    {"gpt_oss_20b", "gpt-oss-20b"},
    {"kimi_k2", "kimi-k2"},
    {"llama2_7b", "llama-2-7b"},
    {"llama31_405b", "llama-3.1-405b"},
    {"llama31_70b", "llama-3.1-70b"},
    {"llama31_8b", "llama-3.1-8b"},
    {"llama3_70b", "llama-3-70b"},
    {"llama3_8b", "llama-3-8b"},
    {"moonlight_16b", "moonlight-16b"},
    {"olmoe_7b", "olmoe-1b-7b"},
    {"qwen25_32b", "qwen2.5-32b"},
    {"qwen25_72b", "qwen2.5-72b"},
    {"qwen25_7b", "qwen2.5-7b"},
    {"qwen3_14b", "qwen3-14b"},
    {"qwen3_1p7b", "qwen3-1.7b"},
    {"qwen3_235b_a22b", "qwen3-235b-a22b"},
    {"qwen3_30b_a3b", "qwen3-30b-a3b"},
    {"qwen3_32b", "qwen3-32b"},
    {"qwen3_4b", "qwen3-4b"},
    {"qwen3_600m", "qwen3-0.6b"},
    {"qwen3_8b", "qwen3-8b"},
    {"qwen3_next_80b_a3b", "qwen3-next-80b-a3b"},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static const char *model_of(const char *name)
{
    for (int i = 0; i < N_MODELS; i++) {
        size_t n = strlen(models[i].start);
        if (strncmp(name, models[i].start, n) == 0 && (name[n] == '_' || !name[n]))
            return models[i].model;
    }
    return NULL;
}

const char *export_bridge_recipe(const recipe *resolved, arena *a)
{
    const char *model = recipe_word(resolved, K_MODEL);
    for (int i = 0; model && i < N_MODELS; i++)
        if (text_equal(models[i].model, model))
            return arena_text(a, "%s_pretrain_config", models[i].start);
    return NULL;
}

/* 16gpu_h100 in the name, where the launcher said nothing of GPUs. */
static void cluster_of(reader *rd, const char *name)
{
    const char *at = strstr(name, "gpu_"), *digits = at;
    while (digits && digits > name && isdigit((unsigned char)digits[-1])) digits--;
    if (!at || digits == at || digits == name || digits[-1] != '_' || at - digits > 6) return;
    size_t len = strcspn(at + 4, "_");
    char *type = arena_copy(rd->r->a, at + 4, len);
    for (char *p = type; *p; p++) *p = (char)toupper((unsigned char)*p);
    if (gpu_find(type)) recipe_set(rd->r, K_GPU, value_of_text(type), "name of the recipe");
    if (!rd->n_procs)
        recipe_set(rd->r, K_N_GPUS, value_of_int(strtoll(digits, NULL, 10)), "name of the recipe");
}

static status named(reader *rd, const char *name)
{
    recipe *r = rd->r;
    const char *model = model_of(name);
    cluster_of(rd, name);
    recipe_set(r, K_MODEL, value_of_text(model ? model : name),
               arena_text(r->a, "recipe %s", name));
    recipe_note(r,
                "%s: recipe %.120s of Megatron-Bridge: its model and what stands here are read, "
                "not what it sets itself",
                rd->where, name);
    return strstr(name, "_peft_") ? recipe_override(r, "peft=lora", rd->where, rd->err) : OK;
}

/* ---- words */

static status override(reader *rd, const char *word)
{
    arena *a = rd->r->a;
    const char *key = word + strspn(word, "+~"), *equals = strchr(key, '=');
    if (!equals) return OK;
    int k = knob_find(arena_copy(a, key, (size_t)(equals - key)), NULL);
    if (!shell_has_mark(word) || (k >= 0 && knob_is_text((knob_id)k)))
        return recipe_override(rd->r, shell_plain(a, word), rd->where, rd->err);
    if (k >= 0) reader_marks(rd, word, arena_copy(a, key, (size_t)(equals - key)));
    return OK;
}

/* One option of the launcher; `used`: how many words. */
static status launcher_option(reader *rd, const shell_words *w, int at, int *used)
{
    const char *word = w->text[at], *equals = strchr(word, '=');
    const char *next = at + 1 < w->n ? w->text[at + 1] : "";
    bool apart = !equals && *next && *next != '-' && !strchr(next, '=');
    const char *text = equals ? equals + 1 : apart ? next : "";
    *used = apart ? 2 : 1;
    if (!text_starts(word, "--recipe"))
        recipe_note(rd->r, "%s: %.80s: an option of the launcher, no effect here", rd->where, word);
    else if (shell_has_mark(text))
        reader_marks(rd, text, "--recipe");
    else
        return named(rd, text);
    return OK;
}

status bridge_launch(reader *rd, const shell_words *w, int from)
{
    status s = OK;
    recipe_set_system(rd->r, MEGATRON_BRIDGE, "a launch of Megatron-Bridge");
    for (int i = from, used = 1; i < w->n && !s; i += used) {
        rd->where = arena_text(rd->r->a, "%s:%d", rd->name, w->line[i]);
        used = 1;
        s = text_starts(w->text[i], "--") ? launcher_option(rd, w, i, &used)
                                          : override(rd, w->text[i]);
    }
    return s;
}
