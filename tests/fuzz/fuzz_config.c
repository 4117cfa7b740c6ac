/* fuzz_config.c - config.json of Hugging Face models, and the model that the knobs then describe.
 *
 * I1  A model that could be read has sizes, totals and FLOPs that a report can print.
 * I2  It can be written, or a knob is named. */
#include "fuzz/mutate.h"

#include <jansson.h>
#include <math.h>

#include "config/models/models.h"
#include "model/params.h"

static void must_be_printable(const model *m, arena *a) /* I1 */
{
    param_table t;
    param_table_init(&t, m, a);
    for (int i = 0; i < t.n_rows; i++) {
        MUST(t.rows[i].name && t.rows[i].n_dims >= 1 && t.rows[i].n_dims <= 3);
        MUST(param_elements(&t.rows[i]) >= 0);
        MUST(param_local(&t.rows[i], 1, 1, 1) == param_elements(&t.rows[i]));
    }
    param_totals n = param_count(&t);
    MUST(n.total >= 0 && n.active >= 0 && n.active <= n.total);
    MUST(n.expert >= 0 && n.expert <= n.total && n.embedding >= 0 && n.embedding <= n.total);
    double flops = model_flops_per_token(m, 4096);
    MUST(isfinite(flops) && flops >= 0);
}

static json_t *any_value(unsigned *seed)
{
    switch (mutate_random(seed, 12)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(mutate_random(seed, 2));
    case 2:
        return json_real((double)MUTATE_PICK(seed, mutate_sizes) / 4);
    case 3:
        return json_string("full_attention");
    case 4:
        return json_pack("[i,i]", 0, 3);
    case 5:
        return json_pack("{s:s,s:f}", "rope_type", "yarn", "factor", 4.0);
    default:
        return json_integer(MUTATE_PICK(seed, mutate_sizes));
    }
}

/* Changes or drops one member of the object or of an object inside it. */
static void change_member(json_t *object, unsigned *seed)
{
    size_t n = json_object_size(object);
    void *at = json_object_iter(object);
    for (unsigned skip = n ? mutate_random(seed, (unsigned)n) : 0; skip; skip--)
        at = json_object_iter_next(object, at);
    if (!at) return;
    json_t *inside = json_object_iter_value(at);
    if (json_object_size(inside) && mutate_random(seed, 4))
        change_member(inside, seed);
    else if (mutate_random(seed, 8) == 0)
        json_object_del(object, json_object_iter_key(at));
    else
        json_object_iter_set_new(object, at, any_value(seed));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    json_t *root = json_loadb((const char *)data, n, 0, NULL);
    if (!json_is_object(root) || mutate_random(&seed, 4) == 0) {
        json_decref(root);
        return LLVMFuzzerMutate(data, n, max);
    }
    change_member(root, &seed);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    size_t length = text ? strlen(text) : 0;
    if (text && length <= max) {
        memcpy(data, text, length);
        n = length;
    }
    free(text);
    return n;
}

static void must_be_written(const recipe *r, const char *text) /* I2 */
{
    error err = {0};
    config_made made = {0};
    config_source from = {.config = text, .dtype = "float32"};
    if (fuzz_accepted(model_write_config(r, &from, &made, &err), &err))
        MUST(made.text && *made.text && made.model_type && made.changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "config.json");
    error err = {0};
    status s = model_parse_config(r, "config.json", (const char *)data, n, &err);
    if (fuzz_accepted(s, &err)) {
        fuzz_settings(r);
        recipe_derive(r);
        job j;
        model_resolve(r, &j);
        model m = {0};
        if (fuzz_accepted(model_init(&m, &j, a, &err), &err)) {
            must_be_printable(&m, a);
            must_be_written(r, arena_copy(a, (const char *)data, n));
        }
    }
    arena_destroy(a);
    return 0;
}
