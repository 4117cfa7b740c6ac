/* hf_check.c - fields of a config.json that contradict each other.
 *
 * The fields were read before, so each is absent or a whole number within its knob's range. */
#include <inttypes.h>

#include "base/maths.h"
#include "config/models/hf_config.h"

typedef enum relation { MULTIPLE_OF, EQUAL_TO, AT_LEAST } relation;

static const char *const relation_text[] = {"a multiple of it is needed", "they must be equal",
                                            "it must not be smaller"};

typedef struct pair {
    uint64_t families; /* or traits */
    const char *left;
    relation relation;
    const char *right;
} pair;

static const pair pairs[] = {
    {IN(GROUPED_QUERIES), "num_attention_heads", MULTIPLE_OF, "num_key_value_heads"},
    {IN(LATENT), "num_attention_heads", EQUAL_TO, "num_key_value_heads"},
    {IN(DEEPSEEK_V3), "head_dim", EQUAL_TO,
     "qk_rope_head_dim"}, /* transformers rotates that many */
    {IN(ROUTED_EXPERTS), N_EXPERTS, AT_LEAST, TOP_K},
    {IN(SHARED_EXPERTS), N_EXPERTS, MULTIPLE_OF, "n_group"},
    {IN(SHARED_EXPERTS), "n_group", AT_LEAST, "topk_group"},
    {IN(QWEN3_NEXT), "linear_num_value_heads", MULTIPLE_OF, "linear_num_key_heads"},
};

static bool holds(relation r, int64_t left, int64_t right)
{
    switch (r) {
    case MULTIPLE_OF:
        return left % right == 0;
    case EQUAL_TO:
        return left == right;
    case AT_LEAST:
        return left >= right;
    }
    return true;
}

static status check_pair(const config *c, const pair *p)
{
    const char *left, *right;
    bool of_groups = text_equal(p->left, "n_group") || text_equal(p->right, "n_group");
    if (of_groups && config_ignores_groups(c)) return OK;
    const json_t *l = config_find(c, p->left, &left), *r = config_find(c, p->right, &right);
    if (!l || !r || holds(p->relation, json_integer_value(l), json_integer_value(r))) return OK;
    return config_wrong(c, left, l, "%s is %" JSON_INTEGER_FORMAT ": %s", right,
                        json_integer_value(r), relation_text[p->relation]);
}

/* Without head_dim a head is hidden_size / num_attention_heads. */
static status check_head(const config *c)
{
    int64_t hidden = config_int(c, "hidden_size"), heads = config_int(c, "num_attention_heads");
    if (config_in(c, IN(LATENT)) || config_find(c, "head_dim", NULL)) return OK;
    if (hidden % heads == 0) return OK;
    return config_wrong(c, "hidden_size", json_object_get(c->root, "hidden_size"),
                        "num_attention_heads is %" PRId64
                        " and does not divide it: give head_dim, or correct one of them",
                        heads);
}

static status check_latent_head(const config *c)
{
    const json_t *v = config_find(c, "qk_head_dim", NULL);
    int64_t nope = config_int(c, "qk_nope_head_dim"), rope = config_int(c, "qk_rope_head_dim");
    if (!config_in(c, IN(LATENT))) return OK;
    if (rope % 2)
        return config_wrong(c, "qk_rope_head_dim", json_object_get(c->root, "qk_rope_head_dim"),
                            "pairs are rotated: an even number is needed");
    if (!v || (json_is_integer(v) && json_integer_value(v) == nope + rope)) return OK;
    return config_wrong(c, "qk_head_dim", v,
                        "qk_nope_head_dim + qk_rope_head_dim is %" PRId64
                        ": correct one of them, or remove qk_head_dim",
                        nope + rope);
}

static status check_group_sizes(const config *c)
{
    int64_t groups = config_int(c, "n_group"), chosen = config_int(c, "topk_group");
    if (!config_in(c, IN(SHARED_EXPERTS)) || groups <= 1 || config_ignores_groups(c)) return OK;
    int64_t in_group = config_int(c, N_EXPERTS) / groups;
    if (in_group < 2 && config_in(c, IN(BIASED_SCORES)))
        return config_wrong(
            c, "n_group", json_object_get(c->root, "n_group"),
            "a group of one expert cannot be scored by its two best: use fewer groups");
    if (config_int(c, TOP_K) <= mul_sat(in_group, chosen)) return OK;
    return config_wrong(c, "topk_group", json_object_get(c->root, "topk_group"),
                        "%" PRId64 " groups of %" PRId64 " experts hold fewer than the %" PRId64
                        " that a token chooses",
                        chosen, in_group, config_int(c, TOP_K));
}

/* transformers divides a single sigmoid weight by itself, too; Megatron and moefold leave it. */
static status check_single_weight(const config *c)
{
    const char *field;
    const json_t *k = config_find(c, TOP_K, &field);
    bool always = config_in(c, IN(MINIMAX_M2));
    bool divides =
        config_in(c, IN(BIASED_SCORES)) && !json_is_false(config_find(c, "norm_topk_prob", NULL));
    if (json_integer_value(k) != 1 || !(always || divides)) return OK;
    return config_wrong(c, field, k,
                        "its one weight would be divided by itself and the router would get no "
                        "gradient: %s",
                        always ? "2 or more is needed in this family"
                               : "set norm_topk_prob to false, or choose 2 or more experts");
}

status config_check(const config *c)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (config_in(c, pairs[i].families)) TRY(check_pair(c, &pairs[i]));
    }
    TRY(check_head(c));
    TRY(check_latent_head(c));
    TRY(check_single_weight(c));
    return check_group_sizes(c);
}
