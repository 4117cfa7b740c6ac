/* megatron.c - reading flags of Megatron-LM.
 *
 * I1  A flag takes as many words as Megatron-LM's own parser would take, also one that has no
 *     effect here: else its values would be read as something else.
 * I2  What is read and has no effect is noted with its reason.
 * I3  In a file, flags that nobody knows and variables without a value are gathered and reported
 *     together. Where a variable only names a file or a folder, or stands in a flag without
 *     effect, it stays as text. */
#include "config/megatron_reader.h"

#include <string.h>

#include "config/megatron_list.h"
#include "config/tokenizers.h"

/* A flag and the words that may be its values. */
typedef struct occurrence {
    const char *flag;
    const char *inline_value; /* after the = of --flag=value */
    char *const *words;       /* what follows, up to the next flag */
    int n_words;
} occurrence;

/* ---- trouble: gathered in a file (I3) */

static void gather(reader *rd, troubles *t, const char *name, const char *flag)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->items[i].name, name) == 0) return;
    if (t->n == TROUBLE_MAX) return;
    ARENA_GROW(rd->r->a, t->items, t->n, t->room);
    t->items[t->n++] = (trouble){name, rd->where, flag};
}

void reader_marks(reader *rd, const char *text, const char *flag)
{
    const char *name;
    while ((name = shell_next_mark(rd->r->a, &text))) gather(rd, &rd->missing, name, flag);
}

static bool any_mark(char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (shell_has_mark(words[i])) return true;
    return false;
}

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
    TRY(value_scalar(rd->r->a, word, &v, rd->err));
    if (v.kind != V_NULL) *out = v;
    return OK;
}

static status knob_value(reader *rd, knob_id k, const values *vs, value *out)
{
    const knob *kn = &knobs[k];
    bool bracket = kn->form != ONE && kn->kind != TEXT && kn->kind != INT && vs->text[0][0] == '[';
    if (bracket && vs->n == 1) return value_parse(rd->r->a, vs->text[0], out, rd->err);
    if (vs->n == 1) return one_value(rd, kn, vs->text[0], out);
    value *items = ARENA_ARRAY(rd->r->a, value, vs->n);
    for (int i = 0; i < vs->n; i++) TRY(one_value(rd, kn, vs->text[i], &items[i]));
    *out = (value){.kind = V_LIST, .list = {items, vs->n}};
    return OK;
}

/* Does the knob hold names of files and the like, which may stay open? */
static bool keeps_variables(knob_id k)
{
    return knobs[k].kind == TEXT && k != K_PP_LAYOUT && k != K_SPLIT && k != K_MODEL;
}

/* Values with variables that have no value (I3). */
static values plain_values(reader *rd, const occurrence *o, const values *vs)
{
    values plain = {ARENA_ARRAY(rd->r->a, char *, vs->n), vs->n, vs->used};
    for (int i = 0; i < vs->n; i++) ((char **)plain.text)[i] = shell_plain(rd->r->a, vs->text[i]);
    recipe_note(rd->r, "%s: %s: '%.200s' is kept unexpanded (--set gives the variable a value)",
                rd->where, o->flag, plain.text[0]);
    return plain;
}

/* Megatron-LM finds the numbers in the text, whatever stands around them. */
static void strip_quotes(reader *rd, value *v)
{
    size_t n = v->kind == V_TEXT ? strlen(v->text) : 0;
    if (n >= 2 && v->text[0] == '\'' && v->text[n - 1] == '\'')
        *v = value_of_text(arena_copy(rd->r->a, v->text + 1, n - 2));
}

static status set_knob(reader *rd, const occurrence *o, knob_id k, char mark, int *used)
{
    values vs;
    flag_arity arity = knob_arity(k, mark);
    status s = take_values(rd, o, arity, &vs);
    if (s) return s;
    bool marked = any_mark(vs.text, vs.n);
    if (marked && !keeps_variables(k)) {
        for (int i = 0; i < vs.n; i++) reader_marks(rd, vs.text[i], o->flag);
        *used = vs.used;
        return OK;
    }
    if (marked) vs = plain_values(rd, o, &vs);
    value v = value_of_bool(mark != '!');
    if (arity != ARITY_0) s = knob_value(rd, k, &vs, &v);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, o->flag);
    *used = vs.used;
    if (k == K_SPLIT) strip_quotes(rd, &v);
    return recipe_set_key(rd->r, knobs[k].key, v, rd->where, rd->err);
}

/* A flag may be carried by several knobs: --no-check-for-nan-in-loss-and-grad. */
static status set_knobs(reader *rd, const occurrence *o, int *used, bool *known)
{
    for (int k = 0; k < K_COUNT; k++) {
        char mark;
        if (!knob_has_flag((knob_id)k, o->flag, &mark)) continue;
        *known = true;
        TRY(set_knob(rd, o, (knob_id)k, mark, used));
    }
    return OK;
}

/* ---- flags of several knobs */

status combo_apply(recipe *r, const combo *c, const char *where, error *err)
{
    for (int i = 0; i < COMBO_SETS_MAX && c->set[i].v; i++) {
        knob_id k = c->set[i].k;
        bool yields = c->set[i].v[0] == '?';
        if (yields && r->knob[k].from == FROM_USER) continue;
        value v;
        TRY(knob_parse(r->a, c->set[i].k, c->set[i].v + yields, &v, err));
        TRY(recipe_set_key(r, knobs[k].key, v, where, err));
    }
    return OK;
}

static status set_combo(reader *rd, const occurrence *o, int *used, bool *known)
{
    const char *word = o->inline_value ? o->inline_value : o->n_words ? o->words[0] : NULL;
    const combo *c = combo_find(o->flag, word);
    if (!c || (c->word && o->n_words > 1 && !o->inline_value)) return OK;
    values vs;
    TRY(take_values(rd, o, c->word ? ARITY_1 : ARITY_0, &vs));
    *known = true;
    *used = vs.used;
    rd->group_queries |= strcmp(c->flag, "--group-query-attention") == 0;
    if (c->now)
        recipe_note(rd->r, "%s: %s%s%s: an old spelling, read as %s as Megatron-LM does", rd->where,
                    o->flag, c->word ? " " : "", c->word ? c->word : "", c->now);
    if (c->last && rd->n_last < LAST_MAX) rd->last[rd->n_last++] = c;
    return combo_apply(rd->r, c, rd->where, rd->err);
}

/* The size that the model has in the end: nothing is padded then, whatever --vocab-size says. */
static status set_padded_vocab(reader *rd, const occurrence *o, int *used, bool *known)
{
    if (strcmp(o->flag, "--padded-vocab-size") != 0) return OK;
    *known = true;
    TRY(set_knob(rd, o, K_VOCAB, 0, used));
    rd->padded_vocab = rd->r->knob[K_VOCAB].v;
    return recipe_set_key(rd->r, knobs[K_VOCAB_PAD].key, value_of_bool(false), rd->where, rd->err);
}

/* ---- flags without effect, and torchrun's */

static status read_count(reader *rd, const char *flag, const char *word, int64_t *out)
{
    value v;
    if (shell_has_mark(word)) {
        reader_marks(rd, word, flag);
        return OK;
    }
    status s = value_scalar(rd->r->a, word, &v, rd->err);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, flag);
    if (v.kind != V_INT || v.whole < 1 || v.whole > 1 << 20)
        return error_set(rd->err, ERR_INPUT,
                         "%s: %s %.100s: a whole number from 1 to 1048576 is needed", rd->where,
                         flag, word);
    *out = v.whole;
    return OK;
}

/* How many words are a flag's at most: one that may hold flags itself, since nobody knows what is
 * in it, is none of them. */
static int plain_words(const occurrence *o)
{
    int n = o->n_words > 0;
    while (n < o->n_words && !shell_has_mark(o->words[n])) n++;
    return n;
}

static status skip_idle(reader *rd, const occurrence *given, int *used, bool *known)
{
    occurrence cut = *given, *o = &cut;
    const idle_option *f = idle_flag_find(o->flag);
    if (!f) return OK;
    if (text_equal(o->inline_value, "null")) { /* as a repair takes it back */
        *known = true;
        recipe_ignore(rd->r, f, o->flag, o->inline_value, rd->where);
        return OK;
    }
    o->n_words = plain_words(o);
    values vs;
    status s = OK;
    if (f->arity == ARITY_N && !o->n_words && !o->inline_value)
        vs = (values){0};
    else
        s = take_values(rd, o, f->arity, &vs);
    if (s) return s;
    *known = true;
    *used = vs.used;
    if (rd->in_file && f->arity == ARITY_1 && !o->inline_value && o->n_words > 1 &&
        !rd->in_launcher) { /* "a b" that lost its quotes in ${ARGS[@]} */
        recipe_note(rd->r, "%s: %s takes one word, but %d follow: Megatron-LM would refuse them",
                    rd->where, o->flag, o->n_words);
        *used = o->n_words;
    }
    if (rd->in_launcher && strcmp(f->name, "--nnodes") == 0)
        return read_count(rd, o->flag, vs.text[0], &rd->n_nodes);
    if (rd->in_launcher && strcmp(f->name, "--nproc-per-node") == 0)
        return read_count(rd, o->flag, vs.text[0], &rd->n_procs);
    recipe_ignore(rd->r, f, o->flag,
                  f->arity == ARITY_0 ? NULL
                  : vs.n              ? shell_plain(rd->r->a, vs.text[0])
                                      : "",
                  rd->where); /* I2 */
    rd->in_launcher &= f->why == WHY_LAUNCHER;
    return OK;
}

/* ---- one flag */

static status unknown_flag(reader *rd, const occurrence *o, int *taken)
{
    if (rd->in_file) {
        gather(rd, &rd->unknown, o->flag, NULL);
        *taken = o->inline_value ? 0 : o->n_words;
        rd->in_launcher = false;
        return OK;
    }
    const char *near = flag_nearest(rd->r->a, o->flag);
    if (near)
        return error_set(rd->err, ERR_INPUT,
                         "%s: unknown flag '%.200s'; the nearest known one is '%s'", rd->where,
                         o->flag, near);
    return error_set(rd->err, ERR_INPUT,
                     "%s: unknown flag '%.200s'; --help lists the options of the command, `moefold "
                     "knobs` the flags of Megatron-LM",
                     rd->where, o->flag);
}

/* The tokenizer says how large the vocabulary is (reader_finish). */
static void remember_tokenizer(reader *rd, const occurrence *o)
{
    const char *word = o->inline_value ? o->inline_value : o->n_words ? o->words[0] : NULL;
    if (strcmp(o->flag, "--tokenizer-type") == 0) rd->tokenizer = word;
    if (strcmp(o->flag, "--tokenizer-model") == 0) rd->tokenizer_model = word;
    rd->vocab_file |= strcmp(o->flag, "--vocab-file") == 0;
}

status reader_flag(reader *rd, int n, char *const *words, int *used)
{
    occurrence o = split_flag(rd->r->a, n, words);
    int taken = 0;
    bool known = false;
    status s = OK;
    remember_tokenizer(rd, &o);
    if (shell_has_mark(o.flag)) {
        reader_marks(rd, o.flag, "a flag");
        taken = o.n_words;
        known = true;
    }
    if (!known) s = set_combo(rd, &o, &taken, &known);
    if (!s && !known) s = set_padded_vocab(rd, &o, &taken, &known);
    if (!s && !known) s = set_knobs(rd, &o, &taken, &known);
    if (known) rd->in_launcher = false;
    if (!s && !known) s = skip_idle(rd, &o, &taken, &known);
    if (!s && !known) s = unknown_flag(rd, &o, &taken);
    *used = 1 + taken;
    return s;
}

status megatron_flag(recipe *r, int n, char *const *words, const char *where, int *used, error *err)
{
    reader rd = {.r = r, .where = where, .err = err};
    return reader_flag(&rd, n, words, used);
}

/* ---- many */

status reader_environment(reader *rd, const char *word, bool *taken)
{
    size_t n = strcspn(word, "=");
    const char *key = arena_text(rd->r->a, "env_vars.%.*s", n > 100 ? 100 : (int)n, word);
    int known = knob_find(key, NULL);
    *taken = word[n] && known >= 0;
    if (!*taken) return OK;
    if (shell_has_mark(word)) {
        reader_marks(rd, word, arena_copy(rd->r->a, word, n));
        return OK;
    }
    value v = value_of_text(word + n + 1); /* all that the shell left is the text */
    status s = knobs[known].kind == TEXT ? OK : value_parse(rd->r->a, word + n + 1, &v, rd->err);
    if (s) return error_prefix(rd->err, s, "%s: %s", rd->where, word);
    return recipe_set_key(rd->r, key, v, rd->where, rd->err);
}

/* A process that numactl binds runs as one that is not bound, for all that is known here. */
static const char *why_of_command(const char *word)
{
    bool binds = text_equal(shell_program(word), "numactl");
    return binds ? flag_why_text(WHY_HOST) : "part of the command, no effect here";
}

/* A word that belongs to no flag. The end of a shell array begins a new command. */
static status loose_word(reader *rd, const char *word)
{
    if (strcmp(word, ")") == 0) {
        rd->in_launcher = true;
        return OK;
    }
    if (rd->in_launcher) {
        bool taken;
        status s = reader_environment(rd, word, &taken);
        if (!s && !taken)
            recipe_note(rd->r, "%s: '%.100s': %s", rd->where, shell_plain(rd->r->a, word),
                        why_of_command(word));
        return s;
    }
    if (shell_has_mark(word)) {
        reader_marks(rd, word, "a word of the command");
        return OK;
    }
    return error_set(rd->err, ERR_INPUT,
                     "%s: '%.100s' belongs to no flag (the one before it takes fewer values)",
                     rd->where, word);
}

status reader_words(reader *rd, const shell_words *w, int from)
{
    status s = OK;
    for (int i = from, used = 1; i < w->n && !s; i += used) {
        rd->where = arena_text(rd->r->a, "%s:%d", rd->name, w->line[i]);
        used = 1;
        s = is_flag(w->text[i]) ? reader_flag(rd, w->n - i, w->text + i, &used)
                                : loose_word(rd, w->text[i]);
    }
    return s;
}

/* torchrun's sizes; --nodes and --ntasks-per-node are srun's. */
static int64_t *launcher_count(reader *rd, const char *flag)
{
    if (text_in("--nnodes,--nodes", ',', flag)) return &rd->n_nodes;
    bool procs = text_in("--nproc-per-node,--nproc_per_node,--ntasks-per-node", ',', flag);
    return procs ? &rd->n_procs : NULL;
}

status reader_launcher(reader *rd, const shell_words *w, int n)
{
    status s = OK;
    for (int i = 0; i < n && !s; i++) {
        if (!is_flag(w->text[i])) continue;
        size_t len = strcspn(w->text[i], "=");
        const char *flag = arena_copy(rd->r->a, w->text[i], len);
        int64_t *count = launcher_count(rd, flag);
        rd->where = arena_text(rd->r->a, "%s:%d", rd->name, w->line[i]);
        if (count && w->text[i][len])
            s = read_count(rd, flag, w->text[i] + len + 1, count);
        else if (count && i + 1 < n)
            s = read_count(rd, flag, w->text[i + 1], count);
    }
    rd->in_launcher = false;
    return s;
}
