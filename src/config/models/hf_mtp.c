/* hf_mtp.c - does a config.json's prediction module exist?
 *
 * Files name a module whose weights are often not there (transformers drops them). So its name
 * alone is only noted; it is used when the weights beside the file hold it, or when the user
 * asks. */
#include <inttypes.h>

#include "base/file.h"
#include "config/models/hf_config.h"
#include "model/model.h"
#include "model/safetensors.h"

/* How many modules the weights have: DeepSeek stores them as further layers, Qwen3-Next under
 * mtp. */
static int64_t count_modules(const config *c, const safetensors *f)
{
    int64_t n_layers = config_int(c, "num_hidden_layers"), n = 0;
    for (; n < MODEL_MTP_MAX; n++) {
        const char *layer = arena_text(c->r->a, "model.layers.%" PRId64 ".", n_layers + n);
        const char *mtp = arena_text(c->r->a, "mtp.layers.%" PRId64 ".", n);
        if (!safetensors_any(f, layer) && !safetensors_any(f, mtp)) break;
    }
    return n;
}

/* Broken or absent weights are no reason to refuse a plan: *why says what was found instead. */
static int64_t modules_in_weights(const config *c, const char **why)
{
    safetensors f = {0};
    error err = {{0}};
    *why = "no weights are beside it";
    if (!c->folder) return 0;
    const char *index = arena_text(c->r->a, "%smodel.safetensors.index.json", c->folder);
    const char *single = arena_text(c->r->a, "%smodel.safetensors", c->folder);
    status s = OK;
    if (file_exists(index))
        s = safetensors_open_index(&f, c->r->a, index, &err);
    else if (file_exists(single))
        s = safetensors_open(&f, c->r->a, single, &err);
    else
        return 0;
    *why = s ? arena_text(c->r->a, "%.300s", err.text) : "the weights beside it have none";
    return s ? 0 : count_modules(c, &f);
}

/* The second is transformers' own word for the first, the last is MiniMax-M2's. */
#define MTP_FIELDS "num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers|num_mtp_modules"

status config_mtp(const config *c)
{
    const char *field, *why;
    const json_t *v = config_find(c, MTP_FIELDS, &field);
    if (v &&
        (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > MODEL_MTP_MAX))
        return config_wrong(c, field, v, "a whole number from 0 to %d is needed", MODEL_MTP_MAX);
    if (json_is_false(config_find(c, "use_mtp", NULL))) return OK;
    if (c->r->knob[K_MTP].from == FROM_USER) return OK;
    int64_t named = v ? json_integer_value(v) : 0, found = modules_in_weights(c, &why);
    if (named && found) {
        int64_t n = named < found ? named : found;
        if (named != found)
            recipe_note(c->r,
                        "%s: %s is %" PRId64 ", the weights have %" PRId64 "; %s=%" PRId64
                        " is taken",
                        c->name, field, named, found, knobs[K_MTP].key, n);
        return config_set(c, arena_text(c->r->a, "%s, and the weights have it", field), K_MTP,
                          value_of_int(n));
    }
    if (named)
        recipe_note(c->r, "%s: %s is %" PRId64 " but %s: left out; %s=%" PRId64 " adds it", c->name,
                    field, named, why, knobs[K_MTP].key, named);
    else if (found)
        recipe_note(c->r,
                    "%s: names no prediction module, the weights have %" PRId64
                    ": left out; %s=%" PRId64 " adds it",
                    c->name, found, knobs[K_MTP].key, found);
    return OK;
}

int64_t config_modules_named(const json_t *root)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "");
    int64_t n = config_int(&(config){.r = r, .root = root}, MTP_FIELDS);
    bool used = !json_is_false(json_object_get(root, "use_mtp"));
    arena_destroy(a);
    return used ? n : 0;
}

/* A file that names more modules than it has would make transformers draw them. */
void draft_mtp(const draft *d)
{
    int64_t n = model_modules(d->of.m, d->of.m->n_mtp);
    if (n > 0 || draft_in(d, IN(MODULE_COUNT)))
        draft_put(d, MTP_FIELDS, json_integer(n));
    else
        draft_correct(d, MTP_FIELDS, json_integer(n));
    draft_correct(d, "use_mtp", json_boolean(n > 0));
}
