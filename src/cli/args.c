/* args.c - words of the command line, with the page of help that they may ask for. */
#include <stdio.h>

#include "base/file.h"
#include "cli/help.h"
#include "cli/join.h"
#include "config/models/models.h"

int cli_fail(const char *name, status s, const error *err)
{
    fprintf(stderr, "%smoefold %s:%s %s\n", colour_on(stderr, COLOUR_ERROR), name,
            colour_off(stderr), err->text);
    return (int)s;
}

static void print_help(const cli_words *w)
{
    cli_option options[WORD_OPTIONS_MAX];
    help_print(w->name, options, words_options(options, w));
}

/* Behind words_read: the page of help, and what the recipe's name was taken for. */
static void say(const cli_words *w, recipe *r, bool done)
{
    const char *preset;
    if (done) print_help(w);
    if (done || file_exists(r->name) || model_begun(r->name, &preset) != 1) return;
    if (cli_speaks())
        fprintf(stderr, "%s is read as %s, the preset that begins so\n", r->name, preset);
    r->name = preset;
}

status cli_read_first(arena *a, const cli_words *w, words_first first, recipe *r, bool *done,
                      error *err)
{
    megatron_options how;
    TRY(words_read(a, w, first, r, &how, done, err));
    say(w, r, *done);
    return OK;
}

status cli_read(arena *a, const cli_words *w, recipe *r, bool *done, error *err)
{
    return cli_read_first(a, w, NULL, r, done, err);
}

status cli_read_how(arena *a, const cli_words *w, recipe *r, megatron_options *how, bool *done,
                    error *err)
{
    TRY(words_read(a, w, NULL, r, how, done, err));
    say(w, r, *done);
    return OK;
}

status cli_read_plain(const cli_words *w, const char **word, bool *done, error *err)
{
    TRY(words_plain(w, word, done, err));
    if (*done) help_print(w->name, w->options, w->n_options);
    return OK;
}

status cli_needs_file(const recipe *r, error *err)
{
    if (!text_equal(r->name, words_input)) return OK;
    return error_set(err, ERR_INPUT,
                     "the recipe comes from the standard input, but every rank must read it; "
                     "repair: write it to a file and name the file");
}
