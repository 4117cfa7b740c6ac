/* export_bridge.c - overrides of Megatron-Bridge. */
#include <string.h>

#include "config/export.h"
#include "config/blends.h"
#include "config/export_parts.h"
#include "config/precision.h"

/* Bridge keeps these twice or more. It enables both copies of the optimizer's switches where
 * either is on, and its comm_overlap section overwrites those of ddp: so all have to be told. */
static const struct {
    knob_id k;
    const char *keys;
} copies[] = {
    {K_SEQ, "dataset.seq_length"},
    {K_DIST_OPT, "optimizer.use_distributed_optimizer"},
    {K_GRAD_OVERLAP, "comm_overlap.overlap_grad_reduce"},
    {K_PARAM_OVERLAP, "comm_overlap.overlap_param_gather optimizer.overlap_param_gather"},
    {K_BUCKET, "comm_overlap.bucket_size"},
};

/* Bridge has no such field: its models are built for the sequence length, and the mask switch
 * is an argument of a constructor that overrides do not reach. */
static const knob_id no_key[] = {K_MAX_POSITIONS, K_SKIP_MASK, K_DATA_ARGS, K_SPLIT_ARGS};

static bool has_key(knob_id k)
{
    for (size_t i = 0; i < sizeof no_key / sizeof no_key[0]; i++)
        if (no_key[i] == k) return false;
    return true;
}

/* ---- values, in Hydra's grammar: more has to be quoted than we would */

static void put_text(textbuf *t, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./+-";
    if (export_is_word(t->a, s) && s[strspn(s, plain)] == 0) {
        text_put(t, s, strlen(s));
        return;
    }
    text_put(t, "\"", 1);
    for (; *s; s++) {
        /* Hydra, unlike us, keeps a doubled backslash except before a quote. */
        bool ambiguous = *s == '\\' && (!s[1] || s[1] == '"' || s[1] == '\\');
        if (*s == '"' || ambiguous) text_put(t, "\\", 1);
        text_put(t, s, 1);
    }
    text_put(t, "\"", 1);
}

static void put_value(textbuf *t, value v)
{
    if (v.kind == V_TEXT) {
        put_text(t, v.text);
    } else if (v.kind == V_LIST) {
        text_add(t, "[");
        for (int i = 0; i < v.list.n; i++) {
            if (i) text_add(t, ",");
            put_value(t, v.list.items[i]);
        }
        text_add(t, "]");
    } else {
        export_number(t, v);
    }
}

static void put_line(textbuf *out, const char *key, value v)
{
    textbuf t = text_init(out->a);
    text_add(&t, "%s=", key);
    put_value(&t, v);
    export_shell_word(out, t.s);
    text_add(out, "\n");
}

/* ---- knobs */

/* The precision recipe's name stands for its parts. */
static bool is_implied(const recipe *r, knob_id k)
{
    value v;
    const char *name = recipe_word(r, K_PRECISION);
    return name && precision_implies(name, k, &v) && value_equal(v, r->knob[k].v);
}

static bool is_part_of_precision(const recipe *r, knob_id k)
{
    value v;
    const char *name = recipe_word(r, K_PRECISION);
    return name && precision_implies(name, k, &v);
}

static bool is_separate(knob_id k)
{
    return k == K_TRAIN_DATA || k == K_VALID_DATA || k == K_TEST_DATA;
}

static bool is_told(const recipe *r, knob_id k, arena *a)
{
    const setting *s = &r->knob[k];
    bool undecided = s->from == FROM_NOTHING || (s->from == FROM_DEFAULT && s->v.kind == V_NULL);
    if (undecided || knob_is_ours(k) || !export_matters(r, k)) return false;
    if (k == K_DATA_PATH && recipe_on(r, K_MOCK_DATA))
        return false;                 /* it would win over the mock */
    if (is_separate(k)) return false; /* put_blends */
    if (is_part_of_precision(r, k)) return !is_implied(r, k);
    return !value_equal(s->v, knob_default(a, k, MOEFOLD)) ||
           !value_equal(s->v, knob_default(a, k, MEGATRON_BRIDGE));
}

/* Without MLA the fields of YaRN have another name there, an alias here. */
static const char *key_of(const recipe *r, knob_id k, arena *a)
{
    const char *yarn = knobs[k].alias ? strstr(knobs[k].alias, "model.yarn_") : NULL;
    if (!yarn || recipe_on(r, K_MLA)) return knobs[k].key;
    return arena_copy(a, yarn, strcspn(yarn, " "));
}

/* ---- sections that a recipe may hold as nothing or as a name: written as one object each, which
 * Hydra adds by force (++), so that fields below need not exist */

static bool in_section(const char *key, const char *section)
{
    return text_starts(key, section) && key[strlen(section)] == '.';
}

static void add_field(textbuf *object, const char *name, value v)
{
    text_add(object, ",%s:", name);
    put_value(object, v);
}

static void put_object(textbuf *out, const char *section, const char *class, const char *fields)
{
    textbuf t = text_init(out->a);
    text_add(&t, "++%s={_target_:megatron.bridge.training.%s.%s%s}", section, section, class,
             fields);
    export_shell_word(out, t.s);
    text_add(out, "\n");
}

static void add_dtypes(textbuf *object, const recipe *r)
{
    const char *type = recipe_on(r, K_BF16) ? "bfloat16" : recipe_on(r, K_FP16) ? "half" : NULL;
    if (!type) text_add(object, ",fp32:true");
    if (!type) type = "float32";
    text_add(object, ",params_dtype:{_target_:torch.%s,_call_:false}", type);
    text_add(object, ",pipeline_dtype:{_target_:torch.%s,_call_:false}", type);
}

/* By its name where all parts are as the name says, else part by part. */
static void put_precision(textbuf *out, const recipe *r)
{
    bool named = recipe_given(r, K_PRECISION) && !recipe_is(r, K_PRECISION, "fp32");
    textbuf object = text_init(out->a);
    text_add(&object, "%s", "");
    for (int k = 0; k < K_COUNT; k++) {
        if (!in_section(knobs[k].key, "mixed_precision") || !recipe_given(r, (knob_id)k)) continue;
        bool part = is_part_of_precision(r, (knob_id)k);
        bool usual = part ? is_implied(r, (knob_id)k) : !is_told(r, (knob_id)k, out->a);
        named = named && usual;
        add_field(&object, strchr(knobs[k].key, '.') + 1, r->knob[k].v);
    }
    if (named) {
        put_line(out, knobs[K_PRECISION].key, r->knob[K_PRECISION].v);
        return;
    }
    add_dtypes(&object, r);
    put_object(out, "mixed_precision", "MixedPrecisionConfig", object.s);
}

/* ---- all of them */

typedef struct bridge_writer {
    const recipe *r;
    textbuf *out;
    textbuf overlap; /* fields of comm_overlap */
} bridge_writer;

static void put_key(bridge_writer *w, const char *key, value v)
{
    if (in_section(key, "comm_overlap"))
        add_field(&w->overlap, strchr(key, '.') + 1, v);
    else if (in_section(key, "env_vars"))
        put_line(w->out, arena_text(w->out->a, "++%s", key), v);
    else
        put_line(w->out, key, v);
}

static void put_copies(bridge_writer *w, knob_id k, value v)
{
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        if (copies[i].k != k) continue;
        for (const char *p = copies[i].keys; *p; p += strspn(p, " ")) {
            size_t n = strcspn(p, " ");
            put_key(w, arena_copy(w->out->a, p, n), v);
            p += n;
        }
    }
}

static const knob_id separate[] = {K_TRAIN_DATA, K_VALID_DATA, K_TEST_DATA};
enum { N_SEPARATE = sizeof separate / sizeof separate[0] };

/* Files of each set's own, which nothing splits. */
static void put_blends(bridge_writer *w)
{
    value pairs[N_SEPARATE];
    bool any = false;
    for (int i = 0; i < N_SEPARATE; i++) {
        pairs[i] = blend_pair(w->out->a, w->r->knob[separate[i]].v);
        any |= pairs[i].kind != V_NULL;
    }
    if (!any) return;
    put_line(w->out, BLEND_PER_SPLIT, (value){.kind = V_LIST, .list = {pairs, N_SEPARATE}});
    text_add(w->out, "dataset.split=null\n");
}

/* Bridge stops without a run length, and without a tokenizer. */
static void put_required(bridge_writer *w)
{
    const recipe *r = w->r;
    if (recipe_on(r, K_MOCK_DATA) || recipe_names_separate(r))
        text_add(w->out, "dataset.blend=null\n");
    put_blends(w);
    if (recipe_on(r, K_FORCE_RANDOM) && !recipe_on(r, K_FORCE_BALANCE))
        put_line(w->out, knobs[K_FORCE_BALANCE].key, value_of_bool(true));
    if (recipe_on(r, K_OFFLOAD)) text_add(w->out, "++env_vars.%s=1\n", EXPORT_OFFLOAD_VARIABLE);
    if (export_wants_register(r)) text_add(w->out, "++env_vars.%s=0\n", EXPORT_REGISTER_VARIABLE);
    if (!recipe_given(r, K_TOKENIZER)) {
        text_add(w->out, "tokenizer.tokenizer_type=NullTokenizer\n");
        put_line(w->out, "tokenizer.vocab_size", r->knob[K_VOCAB].v);
    }
    if (!recipe_given(r, K_TRAIN_ITERS) && !recipe_given(r, K_TRAIN_SAMPLES))
        text_add(w->out,
                 "train.train_iters=%d\n# the run length is not set in the recipe; give %s\n",
                 EXPORT_ITERS, knobs[K_TRAIN_ITERS].key);
}

void export_bridge(const recipe *resolved, textbuf *out)
{
    const recipe *r = resolved;
    bridge_writer w = {.r = r, .out = out, .overlap = text_init(out->a)};
    add_field(&w.overlap, "tp_comm_overlap", value_of_bool(recipe_on(r, K_TP_OVERLAP)));
    for (int i = 0; i < K_COUNT; i++) {
        knob_id k = (knob_id)i;
        bool precision = k == K_PRECISION || in_section(knobs[k].key, "mixed_precision");
        if (precision || k == K_TP_OVERLAP || !has_key(k) || !is_told(r, k, out->a)) continue;
        value v = export_value(r, k, out->a);
        put_key(&w, key_of(r, k, out->a), v);
        put_copies(&w, k, v);
    }
    put_precision(out, r);
    put_object(out, "comm_overlap", "CommOverlapConfig", w.overlap.s);
    put_required(&w);
    for (int k = 0; k < K_COUNT; k++)
        if (!has_key((knob_id)k) && is_told(r, (knob_id)k, out->a))
            text_add(out, "# no key: %s=%s\n", knobs[k].key, value_text(out->a, r->knob[k].v));
    if (recipe_on(r, K_QK_NORM) && recipe_on(r, K_QK_NORM_WHOLE))
        text_add(out,
                 "# %s: start from this model's own recipe in Megatron-Bridge, because its "
                 "attention has it\n",
                 knobs[K_QK_NORM_WHOLE].key);
    export_remarks(r, out);
}
