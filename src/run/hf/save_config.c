/* save_config.c - config.json for what was written. */
#include "run/hf/save_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* transformers 5 writes dtype, older ones torch_dtype; a file that has neither gets none. */
static bool set_dtype(json_t *root, const char *dtype)
{
    static const char *const fields[] = {"dtype", "torch_dtype"};
    bool changed = false;
    for (int i = 0; i < 2; i++) {
        const json_t *had = json_object_get(root, fields[i]);
        const char *text = json_string_value(had);
        if (!had || (text && strcmp(text, dtype) == 0)) continue;
        json_object_set_new(root, fields[i], json_string(dtype));
        changed = true;
    }
    return changed;
}

status hf_config_adapt(arena *a, const char *config, bool bf16, const char **out, error *err)
{
    json_t *root;
    status s = json_parse("config.json", config, strlen(config), &root, err);
    if (s) return s;
    bool changed = set_dtype(root, bf16 ? "bfloat16" : "float32");
    if (json_object_del(root, "quantization_config") == 0) changed = true;
    *out = config;
    if (changed) {
        char *text = json_dumps(root, JSON_INDENT(2));
        *out = arena_text(a, "%s\n", text ? text : "{}");
        free(text);
    }
    json_decref(root);
    return OK;
}
