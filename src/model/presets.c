/* presets.c - models by name. */
#include "model/family.h"
#include "model/model.h"

typedef struct preset {
    const char *name;
    family_id family;
    int n_dense; /* leading layers without experts */
    const char *settings;
} preset;

static const preset presets[] = {
#define PRESET(name, family, n_dense, settings) {name, family, n_dense, settings},
#include "model/presets.def"
#undef PRESET
};

static const char *const names[] = {
#define PRESET(name, family, n_dense, settings) name,
#include "model/presets.def"
#undef PRESET
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *const *model_presets(int *n)
{
    *n = N_PRESETS;
    return names;
}

static const preset *find(const char *name)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (text_equal(presets[i].name, name)) return &presets[i];
    return NULL;
}

bool model_is_preset(const char *name)
{
    return find(name) != NULL;
}

status preset_fill(recipe *r, const char *name, error *err)
{
    const preset *p = find(name);
    const char *why = arena_text(r->a, "preset %s", name);
    status s = settings_fill(r, p->settings, why, err);
    if (s) return s;
    dense_first_fill(r, p->n_dense, why);
    return family_fill(r, p->family, why, err);
}
