/* args.c - words of the command line, with the page of help that they may ask for. */
#include <stdio.h>

#include "cli/help.h"
#include "cli/join.h"

int cli_fail(const char *name, status s, const error *err)
{
    fprintf(stderr, "%smoefold %s:%s %s\n", colour_on(stderr, COLOUR_ERROR), name,
            colour_off(stderr), err->text);
    return (int)s;
}

static status read_all(arena *a, const cli_words *w, words_files *f, recipe *r, bool *done,
                       error *err)
{
    cli_option options[WORD_OPTIONS_MAX];
    TRY(words_read(a, w, f, r, done, err));
    if (*done) help_print(w->name, options, words_options(options, w));
    if (!*done && f->begun && cli_speaks())
        fprintf(stderr, "%s is read as %s, the preset that begins so\n", f->begun, r->name);
    return OK;
}

status cli_read_first(arena *a, const cli_words *w, words_first first, recipe *r, bool *done,
                      error *err)
{
    words_files f = {.first = first};
    return read_all(a, w, &f, r, done, err);
}

status cli_read(arena *a, const cli_words *w, recipe *r, bool *done, error *err)
{
    return cli_read_first(a, w, NULL, r, done, err);
}

status cli_read_how(arena *a, const cli_words *w, recipe *r, megatron_options *how, bool *done,
                    error *err)
{
    words_files f = {.first = NULL};
    TRY(read_all(a, w, &f, r, done, err));
    *how = f.how;
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
