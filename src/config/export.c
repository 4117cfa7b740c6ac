/* export.c - a command of Megatron-LM.
 *
 * I1  Reading the result gives the recipe back, for every knob that has a flag.
 * I2  Flags that Megatron-LM refuses to combine are never both written.
 * I3  Flags that Megatron-LM requires are written even if the recipe does not set them. */
#include "config/export.h"

#include <inttypes.h>
#include <string.h>

#include "config/export_parts.h"
#include "config/megatron_table.h"

typedef struct writer {
    const recipe *r;
    textbuf *out;
    arena *a;
    const char *launcher, *more; /* words before torchrun, and behind the last flag */
    bool begun;                  /* a flag was written */
    bool said[K_COUNT];          /* the flags so far tell this knob's value */
} writer;

/* ---- which knobs */

/* Megatron-LM stops at these (I2), or another flag tells it the same. */
static bool left_out(const recipe *r, knob_id k)
{
    switch ((int)k) {
    case K_VPP: /* the layout has as many stages as it has */
        return recipe_given(r, K_PP_LAYOUT);
    case K_WD_START:
    case K_WD_END:
        return recipe_is(r, K_WD_STYLE, "constant");
    case K_ROPE_TYPE:
        return !recipe_on(r, K_MLA);
    case K_KV_HEADS:
        return recipe_int(r, K_KV_HEADS) == recipe_int(r, K_HEADS);
    case K_PRECISION: /* its parts are written */
        return true;
    case K_BATCH_P2P: /* Megatron-LM has the opposite of the other */
        return recipe_on(r, K_BATCH_P2P) != recipe_on(r, K_OVERLAP_P2P);
    case K_LAYER_OFFLOAD:
        return recipe_on(r, K_LAYER_OFFLOAD) == (recipe_int(r, K_LAYER_OFFLOAD_N) > 0);
    case K_DATA_SEED:
        return value_equal(r->knob[K_DATA_SEED].v, r->knob[K_SEED].v);
    case K_EVAL_ITERS: /* written with its interval, or 0 */
        return !recipe_given(r, K_EVAL_INTERVAL);
    case K_REMAINDERS:
        return !recipe_on(r, K_PRECISION_AWARE);
    default:
        return false;
    }
}

static bool differs(const writer *w, knob_id k)
{
    value v = w->r->knob[k].v;
    if (v.kind == V_NULL) return false; /* "none" has no flag; it is what flags' absence means */
    return !value_equal(v, knob_default(w->a, k, MEGATRON_LM)) && export_matters(w->r, k);
}

/* The knob's flag with this mark, or NULL. Megatron-LM heeds its YaRN flags without MLA only. */
static const char *flag_with(const writer *w, knob_id k, char mark)
{
    knob_flag f;
    for (const char *p = knobs[k].flag; knob_flag_next(&p, &f);) {
        if (f.mark != mark) continue;
        if (recipe_on(w->r, K_MLA) && text_starts(f.name, "--yarn-")) continue;
        return arena_copy(w->a, f.name, f.n);
    }
    return NULL;
}

/* ---- lines */

static void begin_flag(writer *w, const char *flag)
{
    text_add(w->out, "%s%s", w->begun ? " \\\n" : "", flag);
    w->begun = true;
}

/* ---- values */

/* [0,0,0,1,...] as [0]*3+[1]*58: what people write, and short for any model. */
static void put_pattern(textbuf *t, value v)
{
    if (v.list.n == 0) text_add(t, "[]");
    for (int i = 0, run; i < v.list.n; i += run) {
        for (run = 1; i + run < v.list.n; run++)
            if (!value_equal(v.list.items[i], v.list.items[i + run])) break;
        text_add(t, "%s[%" PRId64 "]", i ? "+" : "", v.list.items[i].whole);
        if (run > 1) text_add(t, "*%d", run);
    }
}

static const char *value_word(const writer *w, knob_id k, value v)
{
    textbuf t = text_init(w->a);
    if (v.kind == V_TEXT)
        return v.text;
    else if (v.kind != V_LIST)
        export_number(&t, v);
    else if (k == K_WINDOW) /* not an expression but numbers with commas, there */
        for (int i = 0; i < v.list.n; i++)
            text_add(&t, "%s%" PRId64, i ? "," : "", v.list.items[i].whole);
    else
        put_pattern(&t, v);
    return t.s;
}

static void put_value(writer *w, const char *flag, const char *word)
{
    begin_flag(w, flag);
    text_add(w->out, text_starts(word, "--") ? "=" : " ");
    export_shell_word(w->out, word);
}

/* One word after the flag, or several for lists that Megatron-LM takes so. */
static bool put_values(writer *w, knob_id k, const char *flag)
{
    value v = export_value(w->r, k, w->a);
    if (v.kind != V_LIST || (knobs[k].form == EITHER && knobs[k].kind == INT)) {
        put_value(w, flag, value_word(w, k, v));
        return true;
    }
    if (v.list.n == 0) return false;
    begin_flag(w, flag);
    for (int i = 0; i < v.list.n; i++) {
        text_add(w->out, " ");
        export_shell_word(w->out, value_word(w, k, v.list.items[i]));
    }
    return true;
}

/* ---- flags */

/* A flag that several knobs carry can only be written where they agree. */
static bool carriers_agree(const writer *w, knob_id k, const char *flag)
{
    char mark;
    for (int other = 0; other < K_COUNT; other++)
        if (knob_has_flag((knob_id)other, flag, &mark) &&
            !value_equal(w->r->knob[other].v, w->r->knob[k].v))
            return false;
    return true;
}

static void mark_carriers(writer *w, const char *flag)
{
    char mark;
    for (int k = 0; k < K_COUNT; k++)
        if (knob_has_flag((knob_id)k, flag, &mark)) w->said[k] = true;
}

static void write_switch(writer *w, knob_id k)
{
    const char *flag = flag_with(w, k, recipe_on(w->r, k) ? '+' : '!');
    if (!flag || !carriers_agree(w, k, flag)) return;
    begin_flag(w, flag);
    mark_carriers(w, flag);
}

static void write_knob(writer *w, knob_id k)
{
    if (w->said[k] || combo_writes(k) || left_out(w->r, k) || !differs(w, k)) return;
    if (knobs[k].kind == BOOL) {
        write_switch(w, k);
        return;
    }
    const char *flag = flag_with(w, k, 0);
    if (!flag) return;
    if (k == K_KV_HEADS) begin_flag(w, "--group-query-attention");
    w->said[k] = put_values(w, k, flag);
    if (k == K_VOCAB && !recipe_on(w->r, K_VOCAB_PAD))
        w->said[K_VOCAB_PAD] = put_values(w, k, "--padded-vocab-size");
}

static bool has_settings(const writer *w, const combo *c)
{
    for (int i = 0; i < COMBO_SETS_MAX && c->set[i].v; i++) {
        value v;
        error err;
        if (knob_parse(w->a, c->set[i].k, c->set[i].v, &v, &err)) return false;
        if (!value_equal(v, w->r->knob[c->set[i].k].v)) return false;
    }
    return true;
}

static void write_combos(writer *w)
{
    for (int i = 0; i < n_combos; i++) {
        const combo *c = &combos[i];
        if (!c->written || !has_settings(w, c)) continue;
        begin_flag(w, c->flag);
        for (int j = 0; j < COMBO_SETS_MAX && c->set[j].v; j++) w->said[c->set[j].k] = true;
    }
}

/* ---- what Megatron-LM stops without (I3) */

enum { EXPORT_EVAL_INTERVAL = 1000 };

static void write_required(writer *w)
{
    const recipe *r = w->r;
    if (!recipe_given(r, K_TOKENIZER)) put_value(w, "--tokenizer-type", "NullTokenizer");
    if (!recipe_given(r, K_LR)) put_value(w, "--lr", knobs[K_LR].dflt);
    if (recipe_on(r, K_FORCE_RANDOM) && !recipe_on(r, K_FORCE_BALANCE))
        begin_flag(w, "--moe-router-force-load-balancing"); /* by random logits, there */
    if (recipe_on(r, K_MLA) && !recipe_is(r, K_ROPE_TYPE, "yarn"))
        begin_flag(w, "--no-rope-fusion"); /* its fused kernel of MLA has YaRN only */
    if (!recipe_names_data(r) && !recipe_on(r, K_MOCK_DATA)) begin_flag(w, "--mock-data");
    if (!recipe_given(r, K_TRAIN_ITERS) && !recipe_given(r, K_TRAIN_SAMPLES))
        put_value(w, "--train-iters", arena_text(w->a, "%d", EXPORT_ITERS));
    if (!recipe_given(r,
                      K_EVAL_INTERVAL)) { /* it divides by the interval, also with 0 iterations */
        put_value(w, "--eval-interval", arena_text(w->a, "%d", EXPORT_EVAL_INTERVAL));
        put_value(w, "--eval-iters", "0");
    }
}

static void explain_required(writer *w)
{
    const recipe *r = w->r;
    text_add(w->out, "# planned for %s=%s %s=%s\n", knobs[K_GPU].key,
             value_text(w->a, r->knob[K_GPU].v), knobs[K_NVLINK].key,
             value_text(w->a, r->knob[K_NVLINK].v));
    if (!recipe_given(r, K_LR))
        text_add(w->out, "# the learning rate is not set in the recipe; give %s\n",
                 knobs[K_LR].key);
    if (!recipe_names_data(r) && !recipe_on(r, K_MOCK_DATA))
        text_add(w->out, "# no data are named in the recipe; give %s\n", knobs[K_DATA_PATH].key);
    if (!recipe_given(r, K_TRAIN_ITERS) && !recipe_given(r, K_TRAIN_SAMPLES))
        text_add(w->out, "# the run length is not set in the recipe; give %s\n",
                 knobs[K_TRAIN_ITERS].key);
}

/* ---- what has no flag */

static bool is_environment(knob_id k)
{
    return text_starts(knobs[k].key, "env_vars.");
}

/* The command line: environment, torchrun with as many processes as GPUs, the script. */
static void write_launch(writer *w)
{
    const export_nodes n = export_nodes_of(w->r);
    for (int k = 0; k < K_COUNT; k++) {
        if (!is_environment((knob_id)k) || !recipe_given(w->r, (knob_id)k)) continue;
        value v = w->r->knob[k].v;
        text_add(w->out, "%s=", knobs[k].key + strlen("env_vars."));
        export_shell_word(w->out, v.kind == V_TEXT ? v.text : value_text(w->a, v));
        text_add(w->out, " ");
        w->said[k] = true;
    }
    if (recipe_on(w->r, K_OFFLOAD)) text_add(w->out, "%s=1 ", EXPORT_OFFLOAD_VARIABLE);
    if (export_wants_register(w->r)) text_add(w->out, "%s=0 ", EXPORT_REGISTER_VARIABLE);
    text_add(w->out, "%storchrun", w->launcher);
    if (n.nodes > 0)
        text_add(w->out, " --nnodes %" PRId64 " --nproc-per-node %" PRId64, n.nodes, n.gpus);
    text_add(w->out, " pretrain_gpt.py");
    w->begun = true;
}

static bool is_unsaid(const writer *w, knob_id k)
{
    return !w->said[k] && !knob_is_ours(k) && !left_out(w->r, k) && differs(w, k);
}

static void write_unsaid(writer *w)
{
    for (int k = 0; k < K_COUNT; k++)
        if (is_unsaid(w, (knob_id)k))
            text_add(w->out, "# no flag: %s=%s\n", knobs[k].key, value_text(w->a, w->r->knob[k].v));
}

static writer *write_all(const recipe *resolved, const char *launcher, const char *more,
                         textbuf *out)
{
    writer *w = ARENA_NEW(out->a, writer);
    *w = (writer){.r = resolved, .out = out, .a = out->a, .launcher = launcher, .more = more};
    write_launch(w);
    write_combos(w);
    for (int k = 0; k < K_COUNT; k++) write_knob(w, (knob_id)k);
    write_required(w);
    if (*more) begin_flag(w, more);
    text_add(out, "\n");
    return w;
}

void export_megatron_lm(const recipe *resolved, textbuf *out)
{
    export_megatron_lm_by(resolved, "", "", out);
}

void export_megatron_lm_by(const recipe *resolved, const char *launcher, const char *more,
                           textbuf *out)
{
    writer *w = write_all(resolved, launcher, more, out);
    explain_required(w);
    write_unsaid(w);
    export_remarks(resolved, out);
}

bool export_lm_says(const recipe *resolved, bool *unsaid, arena *a)
{
    textbuf scratch = text_init(a);
    writer *w = write_all(resolved, "", "", &scratch);
    bool all = true;
    for (int k = 0; k < K_COUNT; k++) {
        unsaid[k] = is_unsaid(w, (knob_id)k);
        all &= !unsaid[k];
    }
    return all;
}
