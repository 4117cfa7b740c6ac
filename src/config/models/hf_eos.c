/* hf_eos.c - the token that ends a document: eos_token_id of a config.json and eos_token of the
 * tokenizer beside it.
 *
 * I1  Megatron ends documents with the tokenizer's eos_token, so that one decides. A config.json
 *     may name several ids, of which the tokenizer's must be one.
 * I2  Nothing is guessed: where the two disagree, or several ids are left, the knob stays null and
 *     its reason says why. Whoever needs the token asks for it then (rule eod-mask-needs-token). */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "config/models/hf_config.h"

/* ---- the tokenizer's file */

/* "<|im_end|>", or an object with it as content. */
static const char *token_text(const json_t *v)
{
    const char *text = json_string_value(v);
    return text ? text : json_string_value(json_object_get(v, "content"));
}

/* tokenizer_config.json: {"151645": {"content": "<|im_end|>", ...}, ...} */
static int64_t id_in_decoder(arena *a, const json_t *root, const char *token)
{
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(root, "added_tokens_decoder"), key, v)
    {
        value id;
        error ignored;
        if (text_equal(token_text(v), token) && !value_scalar(a, key, &id, &ignored) &&
            id.kind == V_INT)
            return id.whole;
    }
    return -1;
}

/* tokenizer.json: [{"id": 151645, "content": "<|im_end|>", ...}, ...] */
static int64_t id_in_list(const json_t *root, const char *token)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(root, "added_tokens"), i, v)
    {
        if (text_equal(token_text(v), token) && json_is_integer(json_object_get(v, "id")))
            return json_integer_value(json_object_get(v, "id"));
    }
    return -1;
}

/* The file of that name in the folder; NULL: it is not there, or is no JSON. */
static json_t *read_beside(const recipe *r, const char *folder, const char *name)
{
    json_t *root = NULL;
    error ignored;
    const char *path = arena_text(r->a, "%s%s", folder, name);
    return file_exists(path) && !json_read_tokens(path, &root, &ignored) ? root : NULL;
}

int64_t config_tokenizer_eos(const recipe *r, const char *folder)
{
    json_t *own = read_beside(r, folder, "tokenizer_config.json");
    const char *token = token_text(json_object_get(own, "eos_token"));
    int64_t id = token ? id_in_decoder(r->a, own, token) : -1;
    if (token && id < 0) {
        json_t *whole = read_beside(r, folder, "tokenizer.json");
        id = id_in_list(whole, token);
        json_decref(whole);
    }
    json_decref(own);
    return id;
}

/* ---- both */

static bool names(const json_t *v, int64_t id)
{
    if (json_is_integer(v)) return json_integer_value(v) == id;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (names(json_array_get(v, i), id)) return true;
    return false;
}

static void leave_open(const config *c, const char *why)
{
    recipe_fill(c->r, K_EOD, (value){.kind = V_NULL}, FROM_MODEL, "%s: %s", c->name, why);
}

status config_eos(const config *c)
{
    static const char field[] = "eos_token_id";
    const json_t *v = config_find(c, field, NULL);
    const char *text = v ? config_text(c, v) : NULL, *from = field;
    if (recipe_is(c->r, K_TOKENIZER, "NullTokenizer")) return OK; /* model_derive */
    int64_t id = c->folder ? config_tokenizer_eos(c->r, c->folder) : -1;
    if (json_array_size(v) == 1) v = json_array_get(v, 0);
    if (id >= 0 && v && !names(v, id)) {
        leave_open(c, arena_text(c->r->a, "%s is %s, but %" PRId64 " in tokenizer_config.json",
                                 field, text, id));
        return OK;
    }
    if (id >= 0)
        from = "eos_token of tokenizer_config.json";
    else if (json_is_integer(v))
        id = json_integer_value(v);
    if (id < 0 && v)
        leave_open(c, arena_text(c->r->a, "%s is %s and no tokenizer_config.json says which", field,
                                 text));
    if (id >= recipe_int(c->r, K_VOCAB))
        leave_open(c, arena_text(c->r->a, "%s %" PRId64 " is outside of the vocabulary", from, id));
    return id < 0 ? OK : config_set(c, from, K_EOD, value_of_int(id));
}

/* A file that has none gets the one that is known; one that the data were made without a tokenizer
 * for is none. */
void draft_eos(const draft *d)
{
    const recipe *r = d->of.r;
    bool known = recipe_given(r, K_EOD) && !recipe_is(r, K_TOKENIZER, "NullTokenizer");
    const json_t *had = json_object_get(d->root, "eos_token_id");
    if (known && (!had || json_is_null(had)))
        draft_put(d, "eos_token_id", draft_number(K_EOD, r->knob[K_EOD].v));
}
