/* words.c - words that several commands take: how many of which GPU, and sizes.
 *
 * `--gpus` and `--seq` win over a recipe's file, as overrides do; beside an override of the same
 * knob they must agree with it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "layout/layout.h"

/* ---- reading */

status cli_read_count(const char *option, const char *word, int64_t most, int64_t *n, error *err)
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

status cli_read_gpus(arena *a, const char *word, int64_t *n, const char **name, error *err)
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

status cli_set_gpu(recipe *r, const char *word, const char *name, error *err)
{
    value v;
    TRY(knob_accept(r->a, K_GPU, recipe_located(r, K_GPU, value_of_text(name), ""), &v, err));
    TRY(must_agree(r, K_GPU, v, "--gpus", word, err));
    recipe_set(r, K_GPU, v, "--gpus");
    return recipe_read_machine(r, err);
}

status cli_set_gpus(recipe *r, const char *word, error *err)
{
    int64_t n;
    const char *name;
    TRY(cli_read_gpus(r->a, word, &n, &name, err));
    if (name) TRY(cli_set_gpu(r, word, name, err));
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

status cli_set_seq(recipe *r, const char *word, error *err)
{
    int64_t seq = 0;
    TRY(cli_read_count("--seq", word, 1 << 30, &seq, err));
    TRY(must_agree(r, K_SEQ, value_of_int(seq), "--seq", word, err));
    recipe_set(r, K_SEQ, value_of_int(seq), "--seq");
    return OK;
}

void cli_reach_seq(recipe *r)
{
    if (r->knob[K_MAX_POSITIONS].from == FROM_NOTHING) return;
    if (recipe_int(r, K_MAX_POSITIONS) < recipe_int(r, K_SEQ))
        recipe_set(r, K_MAX_POSITIONS, value_of_int(recipe_int(r, K_SEQ)), "--seq");
}

/* ---- short words */

const char *cli_short_word(arena *a, const char *word)
{
    const char *equals = strchr(word, '=');
    if (equals || file_exists(word)) return NULL;
    return knob_short_word(a, word);
}
