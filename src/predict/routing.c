/* routing.c - recorded loads of experts: the fullest rank of a layer; reading and writing the file.
 *
 * I1  Loads are finite, not negative, and no layer is empty: shares and means exist.
 * I2  Counts below 2^53 are exact, and so are their sums: even loads have a skew of exactly 1. */
#include "predict/routing.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { EXPERTS_MAX = 1 << 20, LAYERS_MAX = MODEL_LAYERS_MAX + MODEL_MTP_MAX };
static const double load_max = 1e15; /* I2: a layer's sum is below 2^53 for any model we know */

/* ---- what it says */

int64_t routing_layers(const model *m, int64_t *list)
{
    int64_t n = 0, layers = m->n_layers + (m->n_mtp > 0); /* there is one module */
    for (int64_t i = 0; m->moe->experts && i < layers; i++) {
        if (!model_layer_has(m, i, BLOCK_MOE)) continue;
        if (list) list[n] = i;
        n++;
    }
    return n;
}

static double sum(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    return s;
}

/* The first expert of the fullest rank; *load is its sum. */
static int64_t fullest(const double *loads, int64_t experts, int64_t ep, double *load)
{
    int64_t each = experts / ep, at = 0;
    *load = -1;
    for (int64_t i = 0; i < experts; i += each) {
        double s = sum(loads + i, each);
        if (s <= *load) continue;
        *load = s;
        at = i;
    }
    return at;
}

static double skew_of(const routing *r, const double *loads, int64_t ep)
{
    double load;
    fullest(loads, r->experts, ep, &load);
    return load * (double)ep / sum(loads, r->experts);
}

static bool divides(const routing *r, int64_t ep)
{
    return ep >= 1 && ep <= r->experts && r->experts % ep == 0;
}

double routing_skew(const routing *r, int64_t ep)
{
    return divides(r, ep) ? r->mean[ep] : 1;
}

static void find_means(routing *r, arena *a)
{
    double *mean = ARENA_ARRAY(a, double, r->experts + 1);
    for (int64_t ep = 0; ep <= r->experts; ep++) {
        mean[ep] = 0;
        for (int64_t i = 0; i < r->n && divides(r, ep); i++)
            mean[ep] += skew_of(r, r->layers[i].loads, ep);
        mean[ep] /= (double)r->n;
    }
    r->mean = mean;
}

expert_loads routing_of_layer(const routing *r, int64_t layer, int64_t ep, arena *a)
{
    expert_loads out = {.skew = 1};
    int64_t i = 0;
    while (i < r->n && r->layers[i].layer != layer) i++;
    if (i == r->n || !divides(r, ep)) return out;
    const double *loads = r->layers[i].loads;
    double load, all = sum(loads, r->experts), even = (double)r->experts;
    const double *own = loads + fullest(loads, r->experts, ep, &load);
    bool alike = true;
    out.skew = load * (double)ep / all;
    out.n = r->experts / ep;
    for (int64_t k = 1; k < out.n; k++) alike = alike && own[k] == own[0];
    if (alike) return out;
    double *part = ARENA_ARRAY(a, double, out.n);
    for (int64_t k = 0; k < out.n; k++) part[k] = own[k] * even / all;
    out.loads = part;
    return out;
}

status routing_fits(const routing *r, const model *m, error *err)
{
    static const char again[] =
        "repair: give a file that `train --save-routing` wrote for this model";
    if (!m->moe->experts)
        return error_set(err, ERR_INPUT, "%s: %s has no experts; repair: leave --routing out",
                         r->path, m->name);
    if (r->experts != m->moe->experts)
        return error_set(err, ERR_INPUT, "%s: loads of %lld experts, but %s has %lld; %s", r->path,
                         (long long)r->experts, m->name, (long long)m->moe->experts, again);
    if (r->topk && r->topk != m->moe->topk)
        return error_set(err, ERR_INPUT, "%s: recorded with topk %lld, but %s has %lld; %s",
                         r->path, (long long)r->topk, m->name, (long long)m->moe->topk, again);
    int64_t list[LAYERS_MAX], n = routing_layers(m, list);
    if (r->n != n)
        return error_set(err, ERR_INPUT,
                         "%s: has %lld MoE layers, but %s has %lld (a prediction module, "
                         "model.mtp_num_layers, counts); %s",
                         r->path, (long long)r->n, m->name, (long long)n, again);
    for (int64_t i = 0; i < n; i++)
        if (r->layers[i].layer != list[i])
            return error_set(err, ERR_INPUT,
                             "%s: has loads of layer %lld, but the MoE layer of %s in its place "
                             "is %lld; %s",
                             r->path, (long long)r->layers[i].layer, m->name, (long long)list[i],
                             again);
    return OK;
}

/* ---- reading */

typedef struct reader {
    routing *r;
    const char *path;
    arena *a;
    error *err;
} reader;

#define BAD(x, ...) error_set((x)->err, ERR_INPUT, __VA_ARGS__)

static status whole(reader *x, const json_t *in, const char *key, int64_t low, int64_t *out)
{
    const json_t *v = json_object_get(in, key);
    if (!v && low == 0) return OK;
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > 1LL << 50)
        return BAD(x, "%s: \"%s\": a whole number of at least %lld is needed", x->path, key,
                   (long long)low);
    *out = json_integer_value(v);
    return OK;
}

static status read_loads(reader *x, const json_t *list, int64_t layer, const double **out)
{
    int64_t n = x->r->experts;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != n)
        return BAD(x, "%s: layer %lld: \"loads\": a list of %lld numbers is needed, one per expert",
                   x->path, (long long)layer, (long long)n);
    double *loads = ARENA_ARRAY(x->a, double, n), all = 0;
    for (int64_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        loads[i] = json_number_value(v);
        if (!json_is_number(v) || !(loads[i] >= 0 && loads[i] <= load_max)) /* I1 */
            return BAD(x, "%s: layer %lld, expert %lld: a number of tokens from 0 to %g is needed",
                       x->path, (long long)layer, (long long)i, load_max);
        all += loads[i];
    }
    if (!(all > 0)) /* I1 */
        return BAD(x, "%s: layer %lld: no expert got a token; repair: record a run again", x->path,
                   (long long)layer);
    *out = loads;
    return OK;
}

static status read_layers(reader *x, const json_t *list)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n < 1 || n > LAYERS_MAX)
        return BAD(x, "%s: \"layers\": a list of 1 to %d MoE layers is needed", x->path,
                   (int)LAYERS_MAX);
    routing_layer *layers = ARENA_ARRAY(x->a, routing_layer, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(list, i), *at = json_object_get(row, "layer");
        if (!json_is_integer(at))
            return BAD(x,
                       "%s: row %zu of \"layers\": {\"layer\": number, \"loads\": [...]} is needed",
                       x->path, i);
        layers[i].layer = json_integer_value(at);
        if (i && layers[i].layer <= layers[i - 1].layer)
            return BAD(
                x,
                "%s: layer %lld comes after %lld; repair: list each layer once, in ascending order",
                x->path, (long long)layers[i].layer, (long long)layers[i - 1].layer);
        TRY(read_loads(x, json_object_get(row, "loads"), layers[i].layer, &layers[i].loads));
    }
    x->r->layers = layers;
    x->r->n = (int64_t)n;
    return OK;
}

static status read_root(reader *x, const json_t *root)
{
    routing *r = x->r;
    if (!json_is_object(root) || !json_object_get(root, "layers"))
        return BAD(x,
                   "%s: is not a recorded routing: {\"experts\": E, \"layers\": [...]} is needed, "
                   "as `train --save-routing` writes it",
                   x->path);
    const char *name = json_string_value(json_object_get(root, "model"));
    if (name) r->model = arena_copy(x->a, name, strlen(name));
    TRY(whole(x, root, "experts", 1, &r->experts));
    if (r->experts > EXPERTS_MAX)
        return BAD(x, "%s: \"experts\": %lld is too large", x->path, (long long)r->experts);
    TRY(whole(x, root, "topk", 0, &r->topk));
    TRY(whole(x, root, "steps", 0, &r->steps));
    TRY(whole(x, root, "tokens", 0, &r->tokens));
    return read_layers(x, json_object_get(root, "layers"));
}

status routing_parse(routing *r, const char *path, const char *data, size_t n, arena *a, error *err)
{
    json_t *root = NULL;
    reader x = {r, path, a, err};
    *r = (routing){.path = path};
    status s = json_parse(path, data, n, &root, err);
    if (!s) s = read_root(&x, root);
    if (!s) find_means(r, a);
    json_decref(root);
    return s;
}

status routing_read(routing *r, const char *path, arena *a, error *err)
{
    char *data;
    size_t n;
    TRY(file_read(a, path, JSON_BYTES_MAX, &data, &n, err));
    return routing_parse(r, path, data, n, a, err);
}

/* ---- writing */

static void put_layer(textbuf *t, const routing *r, int64_t i)
{
    text_add(t, "%s\n    {\"layer\": %lld, \"loads\": [", i ? "," : "",
             (long long)r->layers[i].layer);
    for (int64_t e = 0; e < r->experts; e++)
        text_add(t, "%s%.0f", e ? ", " : "", r->layers[i].loads[e]);
    text_add(t, "]}");
}

status routing_write(const routing *r, const char *path, error *err)
{
    arena *a = arena_create();
    textbuf t = text_init(a);
    json_t *name = json_string(r->model ? r->model : "");
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    text_add(&t,
             "{\n  \"model\": %s, \"experts\": %lld, \"topk\": %lld,\n  \"steps\": %lld, "
             "\"tokens\": %lld,\n  \"layers\": [",
             quoted ? quoted : "\"\"", (long long)r->experts, (long long)r->topk,
             (long long)r->steps, (long long)r->tokens);
    for (int64_t i = 0; i < r->n; i++) put_layer(&t, r, i);
    text_add(&t, "\n  ]\n}\n");
    status s = file_write(path, t.s, t.n, err);
    free(quoted);
    json_decref(name);
    arena_destroy(a);
    return s;
}
