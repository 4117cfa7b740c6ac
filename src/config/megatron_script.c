/* megatron_script.c - the training command among all that a launch script would run.
 *
 * A command trains where it starts a Python program that is named like one (pretrain_gpt.py), or
 * any program with several flags that are knobs here. */
#include <stdlib.h>
#include <string.h>

#include "config/megatron_reader.h"

enum { FLAGS_OF_TRAINING = 5 };

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

/* Programs that only show or move what looks like a command. */
static bool is_bystander(const char *program)
{
    return text_in("echo,printf,cat,tee,grep,sed,awk,ls,rm,cp,mv,ln,pip,pip3,git,wget,curl,chmod,"
                   "tail,head,find,which,sbcast,scontrol",
                   ',', shell_program(program));
}

static int known_flags(arena *a, const shell_words *w, int from)
{
    int n = 0;
    for (int i = from; i < w->n && n < FLAGS_OF_TRAINING; i++) {
        if (!text_starts(w->text[i], "--")) continue;
        const char *flag = flag_canonical(arena_copy(a, w->text[i], strcspn(w->text[i], "=")));
        for (int k = 0; k < K_COUNT; k++) {
            char mark;
            if (!knob_has_flag((knob_id)k, flag, &mark)) continue;
            n++;
            break;
        }
    }
    return n;
}

static bool named_like_training(const char *word)
{
    const char *name = shell_program(word);
    if (!ends_with(name, ".py") || text_starts(name, "test_")) return false;
    return strstr(name, "train") || strstr(name, "finetune") || bridge_launches(name);
}

static bool is_launcher(const char *word)
{
    return text_in("torchrun,ft_launcher,torch.distributed.run,torch.distributed.launch", ',',
                   shell_program(word));
}

/* torchrun ... ${PROGRAM} ...: the program is a variable without a value. */
static int open_program(const shell_words *w)
{
    bool launched = false;
    for (int i = 0; i < w->n; i++) {
        if (launched && shell_has_mark(w->text[i]) && w->text[i][0] != '-' &&
            !text_starts(w->text[i - 1], "--"))
            return i + 1;
        launched |= is_launcher(w->text[i]);
    }
    return 0;
}

/* Where the words of the training program begin; 0: the command does not train. */
static int program_end(arena *a, const shell_words *w)
{
    if (!w->n || is_bystander(w->text[0])) return 0;
    for (int i = 0; i < w->n; i++)
        if (named_like_training(w->text[i]) && !text_starts(w->text[i], "--")) return i + 1;
    bool script = false;
    for (int i = 0; i < w->n && i < 3; i++) script |= ends_with(w->text[i], ".sh");
    int python = 0;
    for (int i = 0; i < w->n && !python; i++)
        if (ends_with(w->text[i], ".py") && !text_starts(w->text[i], "--")) python = i + 1;
    int open = python ? 0 : open_program(w);
    if (open) return open;
    if (script || known_flags(a, w, 0) < FLAGS_OF_TRAINING) return 0;
    if (python) return python;
    for (int i = 1; i < w->n; i++)
        if (text_starts(w->text[i], "--")) return i;
    return 0;
}

/* ---- all of them */

typedef struct candidate {
    const shell_command *c;
    int program;
} candidate;

typedef struct candidates {
    candidate *items;
    int n, room;
} candidates;

static bool same_words(const shell_words *a, const shell_words *b)
{
    bool same = a->n == b->n;
    for (int i = 0; i < a->n && same; i++) same = strcmp(a->text[i], b->text[i]) == 0;
    return same;
}

static void find_training(arena *a, const shell_result *run, candidates *out)
{
    for (int i = 0; i < run->n_commands; i++) {
        const shell_command *c = &run->commands[i];
        int program = program_end(a, &c->words);
        bool seen = false;
        for (int j = 0; j < out->n && program && !seen; j++)
            seen = same_words(&out->items[j].c->words, &c->words) &&
                   same_words(&out->items[j].c->environment, &c->environment);
        if (!program || seen || out->n == TROUBLE_MAX) continue;
        ARENA_GROW(a, out->items, out->n, out->room);
        out->items[out->n++] = (candidate){c, program};
    }
}

/* Scripts that it calls; NULL: none. */
static const char *called_script(arena *a, const shell_result *run)
{
    textbuf t = text_init(a);
    for (int i = 0; i < run->n_commands; i++) {
        const shell_words *w = &run->commands[i].words;
        for (int j = 0; j < w->n && j < 3 && !is_bystander(w->text[0]); j++) {
            if (!ends_with(w->text[j], ".sh") || t.n > 300) continue;
            const char *name = shell_plain(a, w->text[j]);
            if (strstr(t.s, name)) continue;
            text_add(&t, "%s%s", t.n ? ", " : "", name);
        }
    }
    return t.n ? t.s : NULL;
}

/* ---- picking one */

static status list_commands(reader *rd, const candidates *found)
{
    textbuf t = text_init(rd->r->a);
    text_add(&t, "%s: %d training commands; --command N picks one", rd->name, found->n);
    for (int i = 0; i < found->n && t.n < 1500; i++) {
        const candidate *c = &found->items[i];
        const shell_words *w = &c->c->words;
        text_add(&t, "\n  %d: line %d: %.100s, %d words", i + 1, c->c->line,
                 shell_plain(rd->r->a, w->text[c->program - 1]), w->n - c->program);
    }
    return error_set(rd->err, ERR_INPUT, "%s", t.s);
}

static status pick(reader *rd, const candidates *found, const megatron_options *o,
                   const candidate **out)
{
    const char *wish = o ? o->command : NULL;
    if (!wish && found->n > 1) return list_commands(rd, found);
    char *end = NULL;
    long n = wish ? strtol(wish, &end, 10) : 1;
    if ((end && *end) || n < 1 || n > found->n)
        return error_set(rd->err, ERR_INPUT,
                         "--command %.20s: %s has %d training command%s: a number from 1 to %d",
                         wish, rd->name, found->n, found->n > 1 ? "s" : "", found->n);
    *out = &found->items[n - 1];
    return OK;
}

/* Programs of Megatron-LM that train other models; what their flags say would be read as a GPT. */
static status refuse_program(reader *rd, const char *program)
{
    static const char *const others[][2] = {
        {"pretrain_bert.py", "BERT"},
        {"pretrain_t5.py", "T5"},
        {"pretrain_ict.py", "a retriever"},
        {"pretrain_retro.py", "RETRO"},
        {"pretrain_mamba.py", "state-space layers"},
        {"pretrain_hybrid.py", "state-space layers"},
        {"pretrain_vlm.py", "a vision encoder"},
        {"finetune_vlm.py", "a vision encoder"},
        {"pretrain_audio.py", "an audio encoder"},
        {"pretrain_vision_classify.py", "a vision model"},
        {"pretrain_vision_dino.py", "a vision model"},
        {"pretrain_vision_inpaint.py", "a vision model"},
        {"train_rl.py", "reinforcement learning"},
    };
    const char *name = shell_program(program);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (text_equal(name, others[i][0]))
            return error_set(rd->err, ERR_INPUT,
                             "%s: %s trains %s; moefold has decoder-only language models "
                             "(docs/MODELS.md)",
                             rd->where, name, others[i][1]);
    return OK;
}

static status read_command(reader *rd, const candidate *c)
{
    const shell_command *cmd = c->c;
    rd->where = arena_text(rd->r->a, "%s:%d", rd->name, cmd->line);
    recipe_note(rd->r, "%s: the training command %.200s is read; nothing was executed", rd->where,
                shell_plain(rd->r->a, cmd->words.text[c->program - 1]));
    const char *program = cmd->words.text[c->program - 1];
    TRY(refuse_program(rd, program));
    for (int i = 0; i < cmd->words.n && i < c->program; i++)
        rd->torchrun |= is_launcher(cmd->words.text[i]);
    for (int i = 0; i < cmd->environment.n; i++) {
        bool taken;
        TRY(reader_environment(rd, cmd->environment.text[i], &taken));
    }
    TRY(reader_launcher(rd, &cmd->words, c->program));
    return bridge_launches(program) ? bridge_launch(rd, &cmd->words, c->program)
                                    : reader_words(rd, &cmd->words, c->program);
}

/* A file that only fills arrays: their words are the list. */
static status read_arrays(reader *rd, const shell_result *run)
{
    const char *calls = called_script(rd->r->a, run);
    if (!known_flags(rd->r->a, &run->arrays, 0) || run->arrays.n > MEGATRON_WORDS_MAX)
        return error_set(
            rd->err, ERR_INPUT,
            "%s: it has no training command (such as torchrun ... pretrain_gpt.py ...)%s%s%s",
            rd->name, calls ? "; it calls " : "", calls ? calls : "",
            calls
                ? ", which is not read: name that file instead, or the argument list that it builds"
                : "");
    recipe_note(rd->r, "%s: it has no training command: the words of its arrays are read",
                rd->name);
    return reader_words(rd, &run->arrays, 0);
}

status megatron_script(reader *rd, const char *data, size_t n, shell_set *sets,
                       const megatron_options *o)
{
    shell_result run;
    candidates found = {0};
    shell_set known[SLURM_VARIABLES_MAX];
    rd->slurm = slurm_header_read(rd->r->a, data, n);
    shell_source from = {.name = rd->name,
                         .data = data,
                         .n = n,
                         .line = 1,
                         .sets = sets,
                         .n_sets = o ? o->n_sets : 0,
                         .known = known,
                         .folder = rd->r->folder};
    from.n_known = slurm_variables(rd->r->a, &rd->slurm, known, SLURM_VARIABLES_MAX);
    status s = shell_read(rd->r->a, &from, &run, rd->err);
    if (s) return s;
    for (int i = 0; i < run.n_notes; i++) recipe_note(rd->r, "%s", run.notes[i]);
    find_training(rd->r->a, &run, &found);
    const char *calls = found.n ? called_script(rd->r->a, &run) : NULL;
    if (calls) recipe_note(rd->r, "%s: it calls %s, which is not read", rd->name, calls);
    if (!found.n) return read_arrays(rd, &run);
    const candidate *c = NULL;
    s = pick(rd, &found, o, &c);
    if (!s && c->c->words.n > MEGATRON_WORDS_MAX)
        s = error_set(rd->err, ERR_INPUT, "%s:%d: more than %d words", rd->name, c->c->line,
                      MEGATRON_WORDS_MAX);
    return s ? s : read_command(rd, c);
}
