/* presets.c - models by name: our own, or Hugging Face's in any case. */
#include <string.h>
#include <strings.h>

#include "config/models/models.h"
#include "config/models/family.h"
#include "model/model.h"

typedef struct preset {
    const char *name, *hub; /* hub: Hugging Face's names, with '|' */
    family_id family;
    int n_dense; /* leading layers without experts */
    const char *settings;
} preset;

static const preset presets[] = {
#define PRESET(name, hub, family, n_dense, settings) {name, hub, family, n_dense, settings},
#include "config/models/presets.def"
#undef PRESET
};

static const char *const names[] = {
#define PRESET(name, hub, family, n_dense, settings) name,
#include "config/models/presets.def"
#undef PRESET
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *const *model_presets(int *n)
{
    *n = N_PRESETS;
    return names;
}

static bool same_word(const char *a, const char *b, size_t n)
{
    return strlen(a) == n && strncasecmp(a, b, n) == 0;
}

/* "deepseek-ai/DeepSeek-V3", or its part behind the slash. */
static bool is_hub_name(const preset *p, const char *name)
{
    for (const char *h = p->hub; *h;) {
        size_t n = strcspn(h, "|"), owner = strcspn(h, "/");
        if (same_word(name, h, n)) return true;
        if (owner < n && same_word(name, h + owner + 1, n - owner - 1)) return true;
        h += n + (h[n] == '|');
    }
    return false;
}

static const preset *find(const char *name, bool any_spelling)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (text_equal(presets[i].name, name)) return &presets[i];
    for (int i = 0; any_spelling && i < N_PRESETS; i++)
        if (same_word(name, presets[i].name, strlen(presets[i].name)) ||
            is_hub_name(&presets[i], name))
            return &presets[i];
    return NULL;
}

bool model_is_preset(const char *name)
{
    return find(name, false) != NULL;
}

bool model_is_spelled(const char *name)
{
    return find(name, true) != NULL;
}

const char *model_hub_names(const char *preset_name)
{
    const preset *p = find(preset_name, false);
    return p ? p->hub : "";
}

family_id preset_family(const char *name)
{
    const preset *p = name ? find(name, true) : NULL;
    return p ? p->family : FAMILY_COUNT;
}

status preset_fill(recipe *r, const char *name, error *err)
{
    const preset *p = find(name, true);
    const char *why = arena_text(r->a, "preset %s", p->name);
    TRY(settings_fill(r, p->settings, why, err));
    dense_first_fill(r, p->n_dense, why);
    return family_fill(r, p->family, why, err);
}
