/* leftover.c - why a tensor of a file may be left out.
 *
 * The reasons are a table, tried in order. What fits none is refused: a tensor that we do not know
 * may be one that the model needs. */
#include "train/hf/leftover.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct finder {
    hf_source *src;
    const setup *s;
    error *err;
} finder;

#define LAYERS "model.layers."
#define TABLE  "model.embed_tokens.weight"
#define HEAD   "lm_head.weight"

/* The number in "model.layers.N." with what follows it; -1: another name. */
static int64_t layer_of(const char *name, const char **rest)
{
    const char *digits = name + strlen(LAYERS);
    if (!text_starts(name, LAYERS) || !isdigit((unsigned char)*digits)) return -1;
    char *end;
    long long n = strtoll(digits, &end, 10);
    *rest = end + 1;
    return *end == '.' ? n : -1;
}

/* Of a prediction module whose weights the model has: a repeated one exists once. */
static bool is_kept_module(const model *m, int64_t layer)
{
    int64_t n = m->mtp_repeated && m->n_mtp > 1 ? 1 : m->n_mtp;
    return layer >= m->n_layers && layer < m->n_layers + n;
}

/* A layer beyond the model's may be its next layer, which somebody has cut off, or a prediction
 * module, which alone has a projection of two inputs. */
static bool is_module(const finder *f, int64_t layer)
{
    const char *name = arena_text(f->src->a, LAYERS "%" PRId64 ".eh_proj.weight", layer);
    return hf_source_find(f->src, name) != NULL;
}

/* "a copy of X", or that it differs; NULL where there is no X. */
static status copy_of(finder *f, const hf_entry *e, const char *name, const char **reason)
{
    const hf_entry *original = hf_source_find(f->src, name);
    bool same = false;
    *reason = NULL;
    if (!original) return OK;
    status st = hf_source_same(f->src, e, original, &same, f->err);
    *reason =
        arena_text(f->src->a, "%s of %s, which is used", same ? "a copy" : "another version", name);
    return st;
}

/* ---- reasons: each sets *reason where it holds */

static status frequencies(finder *f, const hf_entry *e, const char **reason)
{
    static const char tail[] = "rotary_emb.inv_freq";
    size_t n = strlen(e->t->name), n_tail = sizeof tail - 1;
    (void)f;
    if (n >= n_tail && strcmp(e->t->name + n - n_tail, tail) == 0)
        *reason = "rotary frequencies are computed instead";
    return OK;
}

/* transformers writes the weights of zero shared experts. */
static status nothing(finder *f, const hf_entry *e, const char **reason)
{
    (void)f;
    if (safetensor_elements(e->t) == 0) *reason = "has no elements";
    return OK;
}

static status module_tables(finder *f, const hf_entry *e, const char **reason)
{
    const char *rest = "";
    if (!is_kept_module(&f->s->m, layer_of(e->t->name, &rest))) return OK;
    if (strcmp(rest, "embed_tokens.weight") == 0) return copy_of(f, e, TABLE, reason);
    if (strcmp(rest, "shared_head.head.weight") == 0)
        return copy_of(f, e, f->s->m.tied ? TABLE : HEAD, reason);
    return OK;
}

static status left_out_module(finder *f, const hf_entry *e, const char **reason)
{
    const model *m = &f->s->m;
    const char *rest;
    int64_t layer = layer_of(e->t->name, &rest);
    bool module = layer >= m->n_layers && !is_kept_module(m, layer) && is_module(f, layer);
    if (text_starts(e->t->name, "mtp.")) module = m->n_mtp == 0 || m->mtp_repeated;
    if (module)
        *reason = arena_text(f->src->a,
                             "a prediction module that the recipe leaves out (%s is %" PRId64 ")",
                             knobs[K_MTP].key, m->n_mtp);
    return OK;
}

static status tied_head(finder *f, const hf_entry *e, const char **reason)
{
    if (!f->s->m.tied || strcmp(e->t->name, HEAD) != 0) return OK;
    bool same = false;
    const hf_entry *table = hf_source_find(f->src, TABLE);
    status st = table ? hf_source_same(f->src, e, table, &same, f->err) : OK;
    if (st) return st;
    if (same) {
        *reason = "a copy of " TABLE ": the head is tied to it";
        return OK;
    }
    return error_set(f->err, ERR_INPUT,
                     "%s: tensor '" HEAD "' differs from '" TABLE "', but the model ties them; if "
                     "they are two, set %s=false",
                     e->path, knobs[K_TIED].key);
}

static status (*const reasons[])(finder *, const hf_entry *, const char **) = {
    frequencies, nothing, module_tables, left_out_module, tied_head};

/* ---- all of them */

static status unknown(const finder *f, const hf_entry *e)
{
    const char *rest;
    int64_t layer = layer_of(e->t->name, &rest);
    if (layer >= f->s->m.n_layers)
        return error_set(f->err, ERR_INPUT,
                         "%s: tensor '%.200s' is of layer %" PRId64 "; the model has %" PRId64
                         " layers (%s)",
                         e->path, e->t->name, layer, f->s->m.n_layers, knobs[K_LAYERS].key);
    return error_set(
        f->err, ERR_INPUT,
        "%s: tensor '%.200s' is none of this model's (%s); is config.json the one that "
        "came with it?",
        e->path, e->t->name, f->s->m.family);
}

static status find_reason(finder *f, hf_entry *e)
{
    status st = OK;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0] && !e->reason && !st; i++)
        st = reasons[i](f, e, &e->reason);
    if (st) return st;
    e->use = HF_IGNORED;
    return e->reason ? OK : unknown(f, e);
}

status hf_leftovers(hf_source *src, const setup *s, error *err)
{
    finder f = {src, s, err};
    status st = OK;
    for (int i = 0; i < src->n_entries && !st; i++)
        if (src->entries[i].use == HF_UNUSED) st = find_reason(&f, &src->entries[i]);
    return st;
}
