/* megatron.c - reading argument lists of Megatron-LM.
 *
 * I1  A flag takes as many words as Megatron-LM's own parser would take, also one that has no
 *     effect here: else its values would be read as something else.
 * I2  What is read and has no effect is noted with its reason. */
#include "recipe/megatron.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/maths.h"
#include "recipe/megatron_list.h"
#include "recipe/megatron_table.h"
#include "recipe/megatron_words.h"

enum { LAST_MAX = 16 };

typedef struct reader {
    recipe *r;
    const char *where;
    error *err;
    /* for files */
    bool in_launcher; /* no flag of Megatron-LM itself yet */
    bool group_queries;
    value padded_vocab;       /* V_NULL: not said */
    int64_t n_nodes, n_procs; /* torchrun; 0: not said */
    const combo *last[LAST_MAX];
    int n_last;
} reader;

/* A flag and the words that may be its values. */
typedef struct occurrence {
    const char *flag;
    const char *inline_value; /* after the = of --flag=value */
    char *const *words;       /* what follows, up to the next flag */
    int n_words;
} occurrence;

/* ---- taking words */

static bool is_flag(const char *word)
{
    return text_starts(word, "--") && word[2];
}

/* What ends the values of a flag: the next flag, an override, the end of a shell array. */
static bool ends_values(arena *a, const char *word)
{
    size_t n = strcspn(word, "=");
    if (is_flag(word) || strcmp(word, ")") == 0) return true;
    return word[n] && knob_find(arena_copy(a, word, n), NULL) >= 0;
}

static occurrence split_flag(arena *a, int n, char *const *words)
{
    size_t len = strcspn(words[0], "=");
    occurrence o = {.flag = flag_canonical(arena_copy(a, words[0], len)), .words = words + 1};
    if (words[0][len]) o.inline_value = words[0] + len + 1;
    while (o.n_words < n - 1 && !ends_values(a, o.words[o.n_words])) o.n_words++;
    return o;
}

/* The values of a flag, and how many words of the list they took. */
typedef struct values {
    char *const *text;
    int n, used;
} values;

static status take_values(reader *rd, const occurrence *o, flag_arity arity, values *out)
{
    if (o->inline_value) {
        char **one = ARENA_NEW(rd->r->a, char *);
        *one = arena_copy(rd->r->a, o->inline_value, strlen(o->inline_value));
        *out = (values){one, 1, 0};
        if (arity == ARITY_0)
            return error_set(rd->err, ERR_INPUT, "%s: %s takes no value, but '%.100s' is given",
                             rd->where, o->flag, *one);
        return OK;
    }
    int n = arity == ARITY_0 ? 0 : arity == ARITY_1 && o->n_words ? 1 : o->n_words;
    *out = (values){o->words, n, n};
    if (arity != ARITY_0 && n == 0)
        return error_set(rd->err, ERR_INPUT, "%s: %s needs a value", rd->where, o->flag);
    return OK;
}

/* ---- flags of knobs */

static flag_arity knob_arity(knob_id k, char mark)
{
    const knob *kn = &knobs[k];
    if (mark == '+' || mark == '!' || (mark == '?' && kn->kind == BOOL)) return ARITY_0;
    if (kn->form == LIST || (kn->form == EITHER && kn->kind != INT)) return ARITY_N;
    return ARITY_1;
}

/* "null" and "none" are no numbers to Megatron-LM: they stay words, which the knob then
 * refuses. */
static status one_value(reader *rd, const knob *kn, const char *word, value *out)
{
    *out = value_of_text(word);
    if (kn->kind == TEXT || kn->kind == ENUM) return OK;
    if (kn->form == EITHER && kn->kind == INT && strpbrk(word, "[](),*+"))
        return list_expression(rd->r->a, word, out, rd->err);
    value v;
    status s = value_scalar(rd->r->a, word, &v, rd->err);
    if (!s && v.kind != V_NULL) *out = v;
    return s;
}

static status knob_value(reader *rd, knob_id k, const values *vs, value *out)
{
    const knob *kn = &knobs[k];
    bool bracket = kn->form != ONE && kn->kind != TEXT && kn->kind != INT && vs->text[0][0] == '[';
    if (bracket && vs->n == 1) return value_parse(rd->r->a, vs->text[0], out, rd->err);
    if (vs->n == 1) return one_value(rd, kn, vs->text[0], out);
    value *items = ARENA_ARRAY(rd->r->a, value, vs->n);
    for (int i = 0; i < vs->n; i++) {
        status s = one_value(rd, kn, vs->text[i], &items[i]);
        if (s) return s;
    }
    *out = (value){.kind = V_LIST, .list = {items, vs->n}};
    return OK;
}

static status set_knob(reader *rd, const occurrence *o, knob_id k, char mark, int *used)
{
    values vs;
    flag_arity arity = knob_arity(k, mark);
    status s = take_values(rd, o, arity, &vs);
    if (s) return s;
    value v = value_of_bool(mark != '!');
    if (arity != ARITY_0) s = knob_value(rd, k, &vs, &v);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, o->flag);
    *used = vs.used;
    return recipe_set_key(rd->r, knobs[k].key, v, rd->where, rd->err);
}

/* A flag may be carried by several knobs: --no-check-for-nan-in-loss-and-grad. */
static status set_knobs(reader *rd, const occurrence *o, int *used, bool *known)
{
    for (int k = 0; k < K_COUNT; k++) {
        char mark;
        if (!knob_has_flag((knob_id)k, o->flag, &mark)) continue;
        *known = true;
        status s = set_knob(rd, o, (knob_id)k, mark, used);
        if (s) return s;
    }
    return OK;
}

/* ---- flags of several knobs */

static status apply_combo(reader *rd, const combo *c)
{
    for (int i = 0; i < COMBO_SETS_MAX && c->set[i].v; i++) {
        knob_id k = c->set[i].k;
        bool yields = c->set[i].v[0] == '?';
        if (yields && rd->r->knob[k].from == FROM_USER) continue;
        value v;
        status s = value_parse(rd->r->a, c->set[i].v + yields, &v, rd->err);
        if (!s) s = recipe_set_key(rd->r, knobs[k].key, v, rd->where, rd->err);
        if (s) return s;
    }
    return OK;
}

static status set_combo(reader *rd, const occurrence *o, int *used, bool *known)
{
    const char *word = o->inline_value ? o->inline_value : o->n_words ? o->words[0] : NULL;
    const combo *c = combo_find(o->flag, word);
    if (!c || (c->word && o->n_words > 1 && !o->inline_value)) return OK;
    values vs;
    status s = take_values(rd, o, c->word ? ARITY_1 : ARITY_0, &vs);
    if (s) return s;
    *known = true;
    *used = vs.used;
    rd->group_queries |= strcmp(c->flag, "--group-query-attention") == 0;
    if (c->last && rd->n_last < LAST_MAX) rd->last[rd->n_last++] = c;
    return apply_combo(rd, c);
}

/* The size that the model has in the end: nothing is padded then, whatever --vocab-size says. */
static status set_padded_vocab(reader *rd, const occurrence *o, int *used, bool *known)
{
    if (strcmp(o->flag, "--padded-vocab-size") != 0) return OK;
    *known = true;
    status s = set_knob(rd, o, K_VOCAB, 0, used);
    if (s) return s;
    rd->padded_vocab = rd->r->knob[K_VOCAB].v;
    return recipe_set_key(rd->r, knobs[K_VOCAB_PAD].key, value_of_bool(false), rd->where, rd->err);
}

/* ---- flags without effect, and torchrun's */

static status read_count(reader *rd, const char *flag, const char *word, int64_t *out)
{
    value v;
    status s = value_scalar(rd->r->a, word, &v, rd->err);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, flag);
    if (v.kind != V_INT || v.whole < 1 || v.whole > 1 << 20)
        return error_set(rd->err, ERR_INPUT,
                         "%s: %s %.100s: a whole number from 1 to 1048576 is needed", rd->where,
                         flag, word);
    *out = v.whole;
    return OK;
}

static status skip_idle(reader *rd, const occurrence *o, int *used, bool *known)
{
    const idle_flag *f = idle_flag_find(o->flag);
    if (!f) return OK;
    values vs;
    status s = OK;
    if (f->arity == ARITY_N && !o->n_words && !o->inline_value)
        vs = (values){0};
    else
        s = take_values(rd, o, f->arity, &vs);
    if (s) return s;
    *known = true;
    *used = vs.used;
    if (rd->in_launcher && strcmp(f->name, "--nnodes") == 0)
        return read_count(rd, o->flag, vs.text[0], &rd->n_nodes);
    if (rd->in_launcher && strcmp(f->name, "--nproc-per-node") == 0)
        return read_count(rd, o->flag, vs.text[0], &rd->n_procs);
    recipe_note(rd->r, "%s: %s: %s", rd->where, o->flag, flag_why_text(f->why)); /* I2 */
    rd->in_launcher &= f->why == WHY_LAUNCHER;
    return OK;
}

/* ---- one flag */

static status unknown_flag(const reader *rd, const char *flag)
{
    const char *near = flag_nearest(rd->r->a, flag);
    return error_set(rd->err, ERR_INPUT, "%s: unknown flag '%.200s'%s%s%s", rd->where, flag,
                     near ? "; the nearest known one is '" : "", near ? near : "", near ? "'" : "");
}

static status take_flag(reader *rd, int n, char *const *words, int *used)
{
    occurrence o = split_flag(rd->r->a, n, words);
    int taken = 0;
    bool known = false;
    status s = set_combo(rd, &o, &taken, &known);
    if (!s && !known) s = set_padded_vocab(rd, &o, &taken, &known);
    if (!s && !known) s = set_knobs(rd, &o, &taken, &known);
    if (known) rd->in_launcher = false;
    if (!s && !known) s = skip_idle(rd, &o, &taken, &known);
    if (!s && !known) s = unknown_flag(rd, o.flag);
    *used = 1 + taken;
    return s;
}

status megatron_flag(recipe *r, int n, char *const *words, const char *where, int *used, error *err)
{
    reader rd = {.r = r, .where = where, .err = err};
    return take_flag(&rd, n, words, used);
}

/* ---- files */

/* NAME=value before the command: some variables are knobs. */
static status environment(reader *rd, const char *word)
{
    size_t n = strcspn(word, "=");
    const char *key = arena_text(rd->r->a, "env_vars.%.*s", n > 100 ? 100 : (int)n, word);
    if (!word[n] || knob_find(key, NULL) < 0) {
        recipe_note(rd->r, "%s: '%.100s': part of the command, without effect here", rd->where,
                    word);
        return OK;
    }
    value v;
    status s = value_parse(rd->r->a, word + n + 1, &v, rd->err);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, word);
    return recipe_set_key(rd->r, key, v, rd->where, rd->err);
}

/* A word that belongs to no flag. The end of a shell array begins a new command. */
static status loose_word(reader *rd, const char *word)
{
    if (strcmp(word, ")") == 0) {
        rd->in_launcher = true;
        return OK;
    }
    if (rd->in_launcher) return environment(rd, word);
    return error_set(rd->err, ERR_INPUT,
                     "%s: '%.100s' belongs to no flag (the one before it takes fewer values)",
                     rd->where, word);
}

static void launched_gpus(reader *rd)
{
    if (rd->n_nodes && !rd->n_procs)
        recipe_note(rd->r, "--nnodes says nothing without --nproc-per-node: set cluster.n_gpus");
    if (!rd->n_procs) return;
    int64_t nodes = rd->n_nodes ? rd->n_nodes : 1;
    recipe_set(rd->r, K_GPUS_PER_NODE, value_of_int(rd->n_procs), "--nproc-per-node");
    recipe_set(rd->r, K_N_GPUS, value_of_int(mul_sat(nodes, rd->n_procs)),
               "--nnodes x --nproc-per-node");
}

/* Megatron-LM heeds --num-query-groups only beside --group-query-attention, and then has 1
 * unless set. */
static void group_queries(reader *rd)
{
    setting *groups = &rd->r->knob[K_KV_HEADS];
    if (rd->group_queries && groups->from != FROM_USER) {
        recipe_set(rd->r, K_KV_HEADS, value_of_int(1),
                   "--group-query-attention without --num-query-groups");
    } else if (!rd->group_queries && groups->from == FROM_USER) {
        recipe_note(rd->r,
                    "%s: --num-query-groups: without effect in Megatron-LM, since "
                    "--group-query-attention is missing: as many as query heads",
                    groups->why);
        *groups = (setting){0};
    }
}

static status finish(reader *rd)
{
    for (int i = 0; i < rd->n_last; i++) {
        status s = apply_combo(rd, rd->last[i]);
        if (s) return s;
    }
    if (rd->padded_vocab.kind != V_NULL)
        recipe_set(rd->r, K_VOCAB, rd->padded_vocab, "--padded-vocab-size");
    group_queries(rd);
    launched_gpus(rd);
    return OK;
}

status megatron_parse(recipe *r, const char *name, const char *data, size_t n, error *err)
{
    if (n > MEGATRON_BYTES_MAX)
        return error_set(err, ERR_INPUT, "%s: an argument list of %zu bytes; at most %d are read",
                         name, n, MEGATRON_BYTES_MAX);
    shell_words w;
    status s = words_split(r->a, name, data, n, MEGATRON_WORDS_MAX, &w, err);
    if (s) return s;
    recipe_set_system(r, MEGATRON_LM, "a Megatron-LM argument list");
    reader rd = {.r = r, .err = err, .in_launcher = true};
    for (int i = 0, used = 1; i < w.n && !s; i += used) {
        rd.where = arena_text(r->a, "%s:%d", name, w.line[i]);
        used = 1;
        s = is_flag(w.text[i]) ? take_flag(&rd, w.n - i, w.text + i, &used)
                               : loose_word(&rd, w.text[i]);
    }
    return s ? s : finish(&rd);
}

status megatron_read(recipe *r, const char *path, error *err)
{
    char *data;
    size_t n;
    status s = file_read(r->a, path, MEGATRON_BYTES_MAX, &data, &n, err);
    if (s) return s;
    r->folder = file_folder(r->a, path);
    return megatron_parse(r, path, data, n, err);
}
