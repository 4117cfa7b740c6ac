/* case.c - reading a reference case. */
#include "train/parity/case.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/parity/parity.h"

enum { GOLDEN_BYTES_MAX = 1 << 30 };

static const int32_t *whole_numbers(const golden_case *g, const safetensor *t)
{
    return (const int32_t *)(const void *)(g->bytes + t->begin);
}

static bool is_batch(const safetensor *t)
{
    return t && t->n_dims == 2 && strcmp(t->dtype, "I32") == 0;
}

static status read_batch(golden_case *g, const char *folder, error *err)
{
    const safetensor *ids = safetensors_find(&g->tensors, "input_ids");
    const safetensor *labels = safetensors_find(&g->tensors, "labels");
    if (!is_batch(ids) || !is_batch(labels) ||
        safetensor_elements(ids) != safetensor_elements(labels))
        return error_set(
            err, ERR_INPUT,
            "%s: is not a reference case: golden.safetensors has no input_ids and labels "
            "(int32, [batch, seq])",
            folder);
    g->ids = whole_numbers(g, ids);
    g->labels = whole_numbers(g, labels);
    g->batch = ids->dim[0];
    g->seq = ids->dim[1];
    for (int64_t i = 0; i < g->batch * g->seq; i++) g->masked = g->masked || g->labels[i] < 0;
    return OK;
}

status golden_open(golden_case *g, arena *a, const char *folder, error *err)
{
    char *bytes;
    size_t n;
    const char *path = arena_text(a, "%s/golden.safetensors", folder);
    status s = json_read(arena_text(a, "%s/golden.json", folder), &g->json, err);
    if (!s) s = file_read(a, path, GOLDEN_BYTES_MAX, &bytes, &n, err);
    if (s) return s;
    safetensors_head head = {path, bytes, n, (int64_t)n};
    s = safetensors_parse(&g->tensors, a, &head, err);
    if (s) return s;
    g->bytes = (const unsigned char *)bytes + g->tensors.data;
    return read_batch(g, folder, err);
}

const float *golden_floats(const golden_case *g, const char *name, int64_t elements)
{
    const safetensor *t = safetensors_find(&g->tensors, name);
    if (!t || strcmp(t->dtype, "F32") != 0 || safetensor_elements(t) != elements) return NULL;
    return (const float *)(const void *)(g->bytes + t->begin);
}

double golden_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

/* transformers runs sequences longer than max_position_embeddings: positions are only rotated. */
static status make_room(recipe *r, const golden_case *g, const char *folder, error *err)
{
    json_t *config;
    status s = json_read(arena_text(r->a, "%s/config.json", folder), &config, err);
    if (s) return s;
    bool longer = golden_number(config, "max_position_embeddings", INFINITY) < (double)g->seq;
    json_decref(config);
    if (!longer) return OK;
    const char *words = arena_text(r->a, "model.max_position_embeddings=%lld", (long long)g->seq);
    return recipe_override(r, words, "reference case", err);
}

/* What the file of the case says and knobs have. */
static status take_case(recipe *r, const golden_case *g, const char *folder, error *err)
{
    double factor = golden_number(g->json, "mtp_loss_scaling_factor", NAN);
    status s = make_room(r, g, folder, err);
    if (!s && !isnan(factor))
        s = recipe_override(r, arena_text(r->a, "model.mtp_loss_scaling_factor=%.17g", factor),
                            "reference case", err);
    return s;
}

status parity_recipe(recipe *r, const char *folder, error *err)
{
    golden_case g = {0};
    status s = golden_open(&g, r->a, folder, err);
    if (!s) s = take_case(r, &g, folder, err);
    json_decref(g.json);
    if (s) return s;
    const char *fixed[] = {"cluster.gpu=cpu",
                           "train.micro_batch_size=1",
                           "model.moe_aux_loss_coeff=0.0",
                           "model.moe_z_loss_coeff=null",
                           "model.moe_router_bias_update_rate=0.0",
                           arena_text(r->a, "model.seq_length=%lld", (long long)g.seq),
                           arena_text(r->a, "train.global_batch_size=%lld", (long long)g.batch)};
    recipe_set(r, K_MODEL, value_of_text(folder), "reference case");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !s; i++)
        s = recipe_override(r, fixed[i], "reference case", err);
    return s;
}
