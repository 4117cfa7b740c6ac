/* word_sizes.c - words that several commands take: how many of which GPU, and sizes.
 *
 * `--gpus` and `--seq` win over a recipe's file, as overrides do; beside an override of the same
 * knob they must agree with it. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "layout/layout.h"
#include "hardware/hardware.h"
#include "library/words.h"

/* ---- reading */

status word_count(const char *option, const char *word, int64_t most, int64_t *n, error *err)
{
    int64_t count;
    if (!value_size(word, &count) || count < 1 || count > most)
        return error_set(err, ERR_INPUT, "%s %s: a whole number from 1 to %lld is needed%s", option,
                         word, (long long)most, most > 128 << 10 ? ", such as 4096 or 128K" : "");
    *n = count;
    return OK;
}

static status bad_count(const char *word, const char *name, error *err)
{
    return error_set(err, ERR_INPUT, "--gpus %s: a count from 1 to %lld is needed, such as 256x%s",
                     word, (long long)LAYOUT_WORLD_MAX, *name ? name : "H100");
}

/* Digits up to `end`; false: too many of them, or none. */
static bool count_of(const char *word, const char *end, int64_t *n)
{
    if (end == word || end - word > 9) return false;
    *n = strtoll(word, NULL, 10);
    return *n >= 1 && *n <= LAYOUT_WORLD_MAX;
}

static bool is_x(char c)
{
    return c == 'x' || c == 'X';
}

status word_gpus(arena *a, const char *word, int64_t *n, const char **name, error *err)
{
    size_t digits = strspn(word, "0123456789"), length = strlen(word), tail = length;
    *n = 0;
    *name = word;
    if (!length)
        return error_set(err, ERR_INPUT, "--gpus: write a count, x and a name, such as 256xH100");
    if (gpu_find(word) || (!digits && file_exists(word))) return OK;
    if (digits && (!word[digits] || (is_x(word[digits]) && word[digits + 1]))) {
        *name = word[digits] ? word + digits + 1 : NULL;
        if (count_of(word, word + digits, n)) return OK;
        return bad_count(word, *name ? *name : "H100", err);
    }
    if (digits)
        return error_set(err, ERR_INPUT,
                         "--gpus %s: write a count, x and a name, such as 256xH100 or H100x256",
                         word);
    while (tail > 0 && isdigit((unsigned char)word[tail - 1])) tail--;
    if (tail == length || tail < 2 || !is_x(word[tail - 1])) return OK;
    *name = arena_copy(a, word, tail - 1);
    return count_of(word + tail, word + length, n) ? OK : bad_count(word, *name, err);
}

/* ---- the cluster */

/* Was the knob set on the command line to something else? */
static status must_agree(const recipe *r, knob_id k, value v, const char *option, const char *word,
                         error *err)
{
    const setting *own = &r->knob[k];
    if (own->from != FROM_USER || !text_equal(own->why, "command line") || value_equal(own->v, v))
        return OK;
    return error_set(err, ERR_INPUT, "%s %s: %s=%s is given, too; leave one of them out", option,
                     word, knobs[k].key, value_text(r->a, own->v));
}

status words_set_gpu(recipe *r, const char *word, const char *name, error *err)
{
    value v;
    TRY(knob_accept(r->a, K_GPU, recipe_located(r, K_GPU, value_of_text(name), ""), &v, err));
    TRY(must_agree(r, K_GPU, v, "--gpus", word, err));
    recipe_set(r, K_GPU, v, "--gpus");
    return recipe_read_machine(r, err);
}

status words_set_gpus(recipe *r, const char *word, error *err)
{
    int64_t n;
    const char *name;
    TRY(word_gpus(r->a, word, &n, &name, err));
    if (name) TRY(words_set_gpu(r, word, name, err));
    if (n) TRY(must_agree(r, K_N_GPUS, value_of_int(n), "--gpus", word, err));
    if (!n) return OK;
    if (!recipe_gpu(r)) {
        const char *taken = knobs[K_GPU].dflt;
        recipe_note(r, "--gpus %s: no GPU is named, and %s is taken; --gpus %sx%s says so", word,
                    taken, word, taken);
    }
    recipe_set(r, K_N_GPUS, value_of_int(n), "--gpus");
    return OK;
}

/* ---- the sequence */

status words_set_seq(recipe *r, const char *word, error *err)
{
    int64_t seq = 0;
    TRY(word_count("--seq", word, 1 << 30, &seq, err));
    TRY(must_agree(r, K_SEQ, value_of_int(seq), "--seq", word, err));
    recipe_set(r, K_SEQ, value_of_int(seq), "--seq");
    return OK;
}

void words_reach_seq(recipe *r)
{
    if (r->knob[K_MAX_POSITIONS].from == FROM_NOTHING) return;
    if (recipe_int(r, K_MAX_POSITIONS) < recipe_int(r, K_SEQ))
        recipe_set(r, K_MAX_POSITIONS, value_of_int(recipe_int(r, K_SEQ)), "--seq");
}

/* ---- short words */

const char *word_short(arena *a, const char *word)
{
    const char *equals = strchr(word, '=');
    if (equals || file_exists(word)) return NULL;
    return knob_short_word(a, word);
}

/* ---- one rank, memory, a stack */

status word_rank(const char *word, const setup *s, int64_t *rank, error *err)
{
    value v;
    status st = value_parse(s->r.a, word, &v, err);
    if (st) return error_prefix(err, st, "--rank");
    if (!s->possible || s->pipe.why_not)
        return error_set(err, ERR_RULE,
                         "--rank %s: the recipe has no valid layout; repair: `moefold check` lists "
                         "what is broken",
                         word);
    if (v.kind != V_INT || v.whole < 0 || v.whole >= s->lay.world)
        return error_set(err, ERR_INPUT,
                         "--rank %s: ranks are 0 to %" PRId64 " (cluster.n_gpus=%" PRId64
                         "); repair: --rank 0, or more GPUs",
                         word, s->lay.world - 1, s->lay.world);
    *rank = v.whole;
    return OK;
}

status words_headroom(recipe *r, const char *word, error *err)
{
    char *end;
    if (!word) return OK;
    double part = strtod(word, &end);
    if (end == word || *end || !(part >= 0 && part <= 0.9))
        return error_set(err, ERR_INPUT,
                         "--headroom %s: a fraction of visible memory in 0..0.9 is needed; repair: "
                         "--headroom %g",
                         word, HEADROOM_DEFAULT);
    recipe_set(r, K_HEADROOM, value_of_float(part), "--headroom");
    return OK;
}

void words_stack(recipe *r, const char *word)
{
    if (word) recipe_set(r, K_STACK, value_of_text(word), "--stack");
}

/* ---- pins */

static bool is_short(const char *word)
{
    arena *scratch = arena_create();
    bool yes = knob_short_word(scratch, word) != NULL;
    arena_destroy(scratch);
    return yes;
}

status words_pins(int argc, char **argv, char **out, int *n, bool *all, error *err)
{
    *n = 0;
    for (int i = 0; i < argc; i++) {
        bool joined = strncmp(argv[i], "--pin=", 6) == 0;
        if (!joined && strcmp(argv[i], "--pin") != 0) {
            out[(*n)++] = argv[i];
            continue;
        }
        char *pin = joined ? argv[i] + 6 : i + 1 < argc ? argv[++i] : NULL;
        if (pin && strcmp(pin, "all") == 0) {
            *all = true;
            continue;
        }
        if (!pin || pin[0] == '-' || (!strchr(pin, '=') && !is_short(pin)))
            return error_set(err, ERR_INPUT,
                             "--pin%s%s: write a knob and its value, such as --pin cp=32 or --pin "
                             "model.recompute_granularity=full (`moefold knobs` lists them)",
                             pin ? " " : "", pin ? pin : "");
        out[(*n)++] = pin;
    }
    return OK;
}
