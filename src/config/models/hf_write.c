/* hf_write.c - a recipe as a config.json.
 *
 * The parts of the reader write, too (hf_config.h). Here they are put together, and what they wrote
 * is read again: a knob that comes back as another value is one that the family's file cannot say.
 * So there is no list of what can be said, and none to forget a knob in.
 *
 * I1  Nothing is handed out that does not read as the same model.
 * I2  A source that says the same already stays as it is, byte for byte. */
#include <string.h>

#include "base/json.h"
#include "config/models/models.h"
#include "config/models/hf_config.h"

enum { NAMED_MAX = 16 };

typedef struct reading {
    recipe r;
    model m;
} reading;

typedef struct writing {
    const recipe *r;
    model m;
    const config_source *from;
    json_t *source; /* NULL: none, or none that can be read */
    family_id source_family;
    reading was; /* of the source */
    error *err;
} writing;

/* ---- reading what was written */

/* The recipe with this file as its model. Prediction modules are in the weights, not in the
 * file. */
static status read_again(const writing *w, const json_t *root, value modules, reading *out,
                         error *err)
{
    out->r = *w->r;
    facts_reopen(&out->r);
    recipe_set(&out->r, K_MTP, modules, "config.json");
    TRY(config_fill_json(&out->r, "config.json", NULL, root, err));
    job j;
    model_resolve(&out->r, &j);
    return model_init(&out->m, &j, out->r.a, err);
}

/* ---- drafts */

static json_t *make_draft(const recipe *r, const model *m, family_id f, json_t *start)
{
    draft d = {.of = {r, m}, .family = f, .root = json_deep_copy(start)};
    for (int i = 0; i < n_config_parts; i++)
        if (config_parts[i].write) config_parts[i].write(&d);
    return d.root;
}

static const char *first_type(arena *a, family_id f)
{
    const char *types = families[f].model_types;
    return arena_copy(a, types, strcspn(types, "|"));
}

/* A file without a source, or of another family than its source: token ids are kept. Those that are
 * not known are null, or transformers would take any. */
static json_t *start_anew(const writing *w, family_id f)
{
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    json_t *root = json_object();
    const char *class = arena_text(w->r->a, "%sForCausalLM", families[f].architecture);
    json_object_set_new(root, "architectures", json_pack("[s]", class));
    json_object_set_new(root, "model_type", json_string(first_type(w->r->a, f)));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        json_t *id = json_object_get(w->source, ids[i]);
        json_object_set_new(root, ids[i], id ? json_incref(id) : json_null());
    }
    return root;
}

/* Fields that one has and the other has not, or otherwise. */
static void name_changes(const json_t *before, json_t *after, bool gone, textbuf *changed)
{
    const char *key;
    json_t *v;
    json_object_foreach(after, key, v)
    {
        const json_t *had = json_object_get(before, key);
        if (!had || (!gone && !json_equal(had, v)))
            text_add(changed, "%s%s", changed->n ? ", " : "", key);
    }
}

/* I2: where the two drafts are one the source is as good. Else every field is written out, so that
 * nothing hangs on what somebody's program takes for an absent one. */
static json_t *correct_source(const writing *w, textbuf *changed)
{
    json_t *before = make_draft(&w->was.r, &w->was.m, w->source_family, w->source);
    json_t *after = make_draft(w->r, &w->m, w->source_family, w->source);
    name_changes(before, after, false, changed);
    name_changes(after, before, true, changed);
    json_decref(before);
    if (changed->n) return after;
    json_decref(after);
    return json_deep_copy(w->source);
}

/* ---- a family */

/* transformers does not load these two where the heads do not divide the width, whatever head_dim
 * says. */
static bool loads(const model *m, family_id f)
{
    return (f != LLAMA && f != DEEPSEEK_V2) || m->attention->heads < 1 ||
           m->hidden % m->attention->heads == 0;
}

/* Why the file does not say what was trained; nothing is added where it does. */
static void check_file(const writing *w, family_id f, const json_t *root, textbuf *refusal)
{
    reading *now = ARENA_NEW(w->r->a, reading);
    knob_id named[NAMED_MAX];
    error why = {{0}};
    if (read_again(w, root, w->r->knob[K_MTP].v, now, &why)) {
        text_add(refusal, "it would be refused: %s", why.text);
        return;
    }
    facts_side trained = {w->r, &w->m}, written = {&now->r, &now->m};
    int n = facts_differ(trained, written, named, NAMED_MAX);
    for (int i = 0; i < n && i < NAMED_MAX; i++)
        text_add(refusal, "%s%s=%s instead of %s", i ? ", " : "it would say ", knobs[named[i]].key,
                 facts_text(written, trained, named[i]), facts_text(trained, written, named[i]));
    if (!n && !text_equal(now->m.family, w->m.family))
        text_add(refusal, "its weights would have the names of %s, not of %s", now->m.family,
                 w->m.family);
    if (!loads(&w->m, f))
        text_add(refusal, "%stransformers loads none whose %s does not divide %s",
                 refusal->n ? ", and " : "", knobs[K_HEADS].key, knobs[K_HIDDEN].key);
}

static json_t *write_family(const writing *w, family_id f, textbuf *changed)
{
    if (w->source && f == w->source_family) return correct_source(w, changed);
    json_t *start = start_anew(w, f), *root = make_draft(w->r, &w->m, f, start);
    json_decref(start);
    return root;
}

static family_id family_of_type(const char *type)
{
    for (int f = 0; f < FAMILY_COUNT; f++)
        if (text_in(families[f].model_types, '|', type)) return (family_id)f;
    return FAMILY_COUNT;
}

/* The source's family, the preset's, or the one whose names the weights have. */
static family_id preferred(const writing *w)
{
    family_id f = w->source ? w->source_family : preset_family(w->from->model);
    return f == FAMILY_COUNT || f == GPT ? family_of_type(w->m.family) : f;
}

static status refuse(const writing *w, family_id f, const char *refusal)
{
    if (f == FAMILY_COUNT)
        return error_set(
            w->err, ERR_INPUT,
            "no config.json of transformers says what this model is (%s); keep it as a "
            "checkpoint of ours",
            w->m.family);
    return error_set(w->err, ERR_INPUT,
                     "a config.json of %s cannot say what was trained: %s; repair: train with "
                     "what it says, or give that to this command, which then exports the weights "
                     "as that other model",
                     first_type(w->r->a, f), refusal);
}

/* ---- what goes with the weights */

/* transformers 5 writes dtype, older ones torch_dtype, which all read. Files that we write are not
 * quantised. */
static bool set_dtype(json_t *root, const char *dtype)
{
    static const char *const names[] = {"dtype", "torch_dtype"};
    bool changed = json_object_del(root, "quantization_config") == 0, there = false;
    for (int i = 0; i < 2; i++) {
        const json_t *had = json_object_get(root, names[i]);
        there = there || had;
        if (!had || text_equal(json_string_value(had), dtype)) continue;
        json_object_set_new(root, names[i], json_string(dtype));
        changed = true;
    }
    if (there) return changed;
    json_object_set_new(root, names[1], json_string(dtype));
    return true;
}

static void hand_out(const writing *w, json_t *root, const char *changed, bool anew,
                     config_made *out)
{
    arena *a = w->r->a;
    const char *type = json_string_value(json_object_get(root, "model_type"));
    bool other = set_dtype(root, w->from->dtype) || *changed || anew;
    const char *text = other ? arena_text(a, "%s\n", json_indented(a, root)) : w->from->config;
    *out = (config_made){.text = text,
                         .model_type = arena_copy(a, type, strlen(type)),
                         .changed = changed,
                         .anew = anew};
}

/* ---- the whole */

static status write_one(const writing *w, config_made *out)
{
    family_id first = preferred(w);
    const char *refusal = "";
    for (int i = -1; i < FAMILY_COUNT; i++) {
        family_id f = i < 0 ? first : (family_id)i;
        if (f == GPT || f == FAMILY_COUNT || (i >= 0 && f == first)) continue;
        textbuf changed = text_init(w->r->a), why = text_init(w->r->a);
        json_t *root = write_family(w, f, &changed);
        check_file(w, f, root, &why);
        if (!why.n) hand_out(w, root, changed.s, !w->source || f != w->source_family, out);
        json_decref(root);
        if (!why.n) return OK;
        if (i < 0) refusal = why.s;
    }
    return refuse(w, first, refusal);
}

/* A source that cannot be read, or of a family that is not here, is as none. */
static void open_source(writing *w)
{
    error ignored;
    const char *text = w->from->config;
    if (!text || json_parse("config.json", text, strlen(text), &w->source, &ignored)) return;
    const char *type = json_string_value(json_object_get(w->source, "model_type"));
    value modules = value_of_int(config_modules_named(w->source));
    w->source_family = type ? family_of_type(type) : FAMILY_COUNT;
    if (type && !read_again(w, w->source, modules, &w->was, &ignored)) return;
    json_decref(w->source);
    w->source = NULL;
}

status model_write_config(const recipe *r, const config_source *from, config_made *out, error *err)
{
    writing *w = ARENA_NEW(r->a, writing);
    w->r = r;
    w->from = from;
    w->err = err;
    job j;
    job_of(&j, r);
    status s = model_init(&w->m, &j, r->a, err);
    if (s) return s;
    open_source(w);
    s = write_one(w, out);
    json_decref(w->source);
    return s;
}
