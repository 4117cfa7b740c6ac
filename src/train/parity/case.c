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
    const char *says = arena_text(a, "%s/golden.json", folder);
    if (!file_exists(says))
        return error_set(err, ERR_INPUT,
                         "%s: is not there; repair: name a folder that holds a reference case "
                         "(golden.json, golden.safetensors, the model)",
                         says);
    TRY(json_read(says, &g->json, err));
    TRY(file_read(a, path, GOLDEN_BYTES_MAX, &bytes, &n, err));
    safetensors_head head = {path, bytes, n, (int64_t)n};
    TRY(safetensors_parse(&g->tensors, a, &head, err));
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

static void fix(parity_fixed *out, const char *override)
{
    out->list[out->n++] = override;
}

/* transformers runs sequences longer than max_position_embeddings: positions are only rotated. */
static status make_room(parity_fixed *out, const golden_case *g, const char *folder, arena *a,
                        error *err)
{
    json_t *config;
    TRY(json_read(arena_text(a, "%s/config.json", folder), &config, err));
    if (golden_number(config, "max_position_embeddings", INFINITY) < (double)g->seq)
        fix(out, arena_text(a, "model.max_position_embeddings=%lld", (long long)g->seq));
    json_decref(config);
    return OK;
}

status parity_fixes(parity_fixed *out, const char *folder, arena *a, error *err)
{
    golden_case g = {0};
    *out = (parity_fixed){.n = 0};
    status s = golden_open(&g, a, folder, err);
    if (!s) s = make_room(out, &g, folder, a, err);
    if (!s) {
        double factor = golden_number(g.json, "mtp_loss_scaling_factor", NAN);
        if (!isnan(factor)) fix(out, arena_text(a, "model.mtp_loss_scaling_factor=%.17g", factor));
        fix(out, "cluster.gpu=cpu");
        fix(out, "train.micro_batch_size=1");
        fix(out, "model.moe_aux_loss_coeff=0.0");
        fix(out, "model.moe_z_loss_coeff=null");
        fix(out, "model.moe_router_bias_update_rate=0.0");
        fix(out, arena_text(a, "model.seq_length=%lld", (long long)g.seq));
        fix(out, arena_text(a, "train.global_batch_size=%lld", (long long)g.batch));
    }
    json_decref(g.json);
    return s;
}
