/* blends.c - data files as Megatron-Bridge names them: a pair of paths and weights (or null), and
 * one such pair for training, validation and test. Here they are words, as in Megatron-LM. */
#include "config/blends.h"

#include "config/knobs.h"

static bool is_pair(value v)
{
    return v.kind == V_LIST && v.list.n == 2 && v.list.items[0].kind == V_LIST;
}

value blend_words(arena *a, value v)
{
    if (!is_pair(v)) return v;
    value paths = v.list.items[0], weights = v.list.items[1];
    bool none = weights.kind == V_TEXT && text_equal(weights.text, "null"); /* in a list of texts */
    if (weights.kind == V_NULL || none) return paths;
    if (weights.kind != V_LIST || weights.list.n != paths.list.n)
        return v; /* refused by its type */
    value *words = ARENA_ARRAY(a, value, 2 * paths.list.n);
    for (int i = 0; i < paths.list.n; i++) {
        words[2 * i] = value_of_text(value_text(a, weights.list.items[i]));
        words[2 * i + 1] = paths.list.items[i];
    }
    return (value){.kind = V_LIST, .list = {words, 2 * paths.list.n}};
}

status blends_set(recipe *r, value v, const char *where, error *err)
{
    static const knob_id sets[] = {K_TRAIN_DATA, K_VALID_DATA, K_TEST_DATA};
    if (v.kind != V_NULL && (v.kind != V_LIST || v.list.n != 3))
        return error_set(err, ERR_INPUT,
                         "%s: " BLEND_PER_SPLIT " needs three items, for training, validation and "
                         "test: [[[path, ...], [weight, ...]], null, null]",
                         where);
    for (int i = 0; i < 3; i++) {
        value one = v.kind == V_NULL ? v : blend_words(r->a, v.list.items[i]);
        status s = recipe_set_key(r, knobs[sets[i]].key, one, where, err);
        if (s) return error_prefix(err, s, BLEND_PER_SPLIT);
    }
    return OK;
}

/* ---- writing */

static bool is_number(arena *a, value v)
{
    value n;
    error ignored;
    return v.kind == V_TEXT && !value_scalar(a, v.text, &n, &ignored) &&
           (n.kind == V_INT || n.kind == V_FLOAT);
}

value blend_pair(arena *a, value words)
{
    int n = words.kind == V_LIST ? words.list.n : 0, step = n % 2 ? 1 : 2;
    if (!n) return (value){.kind = V_NULL};
    for (int i = 0; i < n; i += 2)
        if (!is_number(a, words.list.items[i])) step = 1;
    value *paths = ARENA_ARRAY(a, value, n), *weights = ARENA_ARRAY(a, value, n);
    value *pair = ARENA_ARRAY(a, value, 2);
    error ignored;
    for (int i = 0; i < n / step; i++) {
        paths[i] = words.list.items[i * step + step - 1];
        if (step == 2) value_scalar(a, words.list.items[i * step].text, &weights[i], &ignored);
    }
    pair[0] = (value){.kind = V_LIST, .list = {paths, n / step}};
    pair[1] = (value){.kind = V_NULL};
    if (step == 2) pair[1] = (value){.kind = V_LIST, .list = {weights, n / step}};
    return (value){.kind = V_LIST, .list = {pair, 2}};
}
