/* models.c - moefold.model to knobs: a preset, or a config.json. */
#include "config/models/models.h"

#include <string.h>

#include "base/file.h"
#include "config/models/family.h"
#include "config/models/hf_config.h"

int model_begun(const char *name, const char **first)
{
    int n;
    const char *const *presets = model_presets(&n);
    return model_is_preset(name) ? 0 : text_begun(name, presets, n, first);
}

const char *model_meant(arena *a, const char *name)
{
    int n;
    const char *const *presets = model_presets(&n), *slash = strrchr(name, '/'), *first;
    const char *bare = slash ? slash + 1 : name; /* of a name on the hub */
    const char *near = text_meant(a, bare, presets, n);
    if (!near) return NULL;
    const char *how =
        model_begun(bare, &first) > 1 ? "presets that begin so are" : "the nearest preset is";
    return arena_text(a, "%s %s", how, near);
}

static status unknown_model(const recipe *r, const char *name, error *err)
{
    int n;
    const char *const *presets = model_presets(&n);
    const char *near = model_meant(r->a, name);
    const char *missing = family_missing_by_name(name);
    if (missing)
        return error_set(err, ERR_INPUT, "%s=%.200s: moefold does not have its %s",
                         knobs[K_MODEL].key, name, missing);
    textbuf list = text_init(r->a);
    for (int i = 0; i < n; i++) text_add(&list, "%s%s", i ? ", " : "", presets[i]);
    return error_set(err, ERR_INPUT,
                     "%s=%.200s: no preset, config.json or folder has this name%s%s; presets are "
                     "%s",
                     knobs[K_MODEL].key, name, near ? "; " : "", near ? near : "", list.s);
}

static bool is_config_file(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0 && file_exists(path);
}

bool model_is_named(const char *name)
{
    if (model_is_preset(name) || file_is_folder(name) || is_config_file(name)) return true;
    return !file_exists(name) && (model_is_spelled(name) || family_missing_by_name(name));
}

/* The config.json that a path means: the file itself, or the one in that folder. NULL: neither. */
static const char *as_config(arena *a, const char *path)
{
    if (is_config_file(path)) return path;
    if (!file_is_folder(path)) return NULL;
    bool slash = *path && path[strlen(path) - 1] == '/';
    return arena_text(a, "%s%sconfig.json", path, slash ? "" : "/");
}

static const char *find_config(const recipe *r, const char *name)
{
    const char *path = NULL;
    if (name[0] != '/' && *r->folder)
        path = as_config(r->a, arena_text(r->a, "%s%s", r->folder, name));
    return path ? path : as_config(r->a, name);
}

const char *model_config_path(const recipe *r)
{
    const char *name = recipe_word(r, K_MODEL);
    const char *path = name && *name && !model_is_preset(name) ? find_config(r, name) : NULL;
    return path && file_exists(path) ? path : NULL;
}

/* A model cannot be without these: null gives them back to the preset or the config.json. */
static void reopen_sizes(recipe *r)
{
    static const knob_id sizes[] = {K_LAYERS,   K_HIDDEN,   K_HEADS, K_VOCAB,
                                    K_KV_HEADS, K_HEAD_DIM, K_FFN,   K_MOE_FFN};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (r->knob[sizes[i]].v.kind == V_NULL) r->knob[sizes[i]].from = FROM_NOTHING;
}

/* A tokenizer that the recipe names as a folder or a file in it is the one that made the data. */
static void fill_eos(recipe *r)
{
    const char *name = recipe_word(r, K_TOKENIZER_MODEL);
    if (!name || !file_exists(name) || recipe_is(r, K_TOKENIZER, "NullTokenizer")) return;
    bool folder = file_is_folder(name);
    int64_t id =
        config_tokenizer_eos(r, folder ? arena_text(r->a, "%s/", name) : file_folder(r->a, name));
    if (id >= 0)
        recipe_fill(r, K_EOD, value_of_int(id), FROM_MODEL, "%s: eos_token of the tokenizer", name);
}

/* Every other knob of a resolved recipe is settled, so the model fills this one alone. */
bool model_has_own(const recipe *resolved, knob_id k, arena *a, value *own)
{
    if (!recipe_by_user(resolved, k) || k == K_MODEL || !recipe_given(resolved, K_MODEL))
        return false;
    recipe *r = ARENA_NEW(a, recipe);
    *r = *resolved;
    r->a = a;
    recipe_open(r, k);
    error err;
    if (model_fill(r, &err) || r->knob[k].from != FROM_MODEL) return false;
    *own = r->knob[k].v;
    return !value_equal(*own, resolved->knob[k].v);
}

status model_fill(recipe *r, error *err)
{
    reopen_sizes(r);
    fill_eos(r);
    const char *name = recipe_word(r, K_MODEL);
    if (!name) return OK;
    if (model_is_preset(name)) return preset_fill(r, name, err);
    const char *path = *name ? find_config(r, name) : NULL;
    if (!path && model_is_spelled(name)) return preset_fill(r, name, err);
    if (!path) return unknown_model(r, name, err);
    if (!file_exists(path))
        return error_set(
            err, ERR_INPUT,
            "%s=%.200s: the folder %.400s has no config.json (and no recipe.yaml or "
            "metrics.jsonl, as a run's folder would); give a folder that has one, or a preset",
            knobs[K_MODEL].key, name, file_folder(r->a, path));
    return config_fill(r, path, err);
}
