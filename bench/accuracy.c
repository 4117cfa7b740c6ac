/* accuracy.c - our prices against published speeds and memory, row by row.
 *
 * `accuracy` prints docs/ACCURACY.md's tables; --csv and --json the same for programs, --parts
 * where the steps go (with --winners: those of the winners). --unseen scores rows that nothing was
 * fitted to. --fit sets the fitted numbers of machines on all sources but one, and scores that one:
 * each in turn, or --without SOURCE; it writes nothing. */
#include "accuracy_bands.h"
#include "accuracy_fit.h"
#include "accuracy_parts.h"
#include "accuracy_print.h"
#include "accuracy_unseen.h"
#include "accuracy_winners.h"

typedef struct options {
    bool json, csv, fit, bands, winners, parts, unseen;
    const char *folder, *only, *without;
} options;

static status read_options(int argc, char **argv, options *o, error *err)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (strcmp(argv[i], "--csv") == 0)
            o->csv = true;
        else if (strcmp(argv[i], "--fit") == 0)
            o->fit = true;
        else if (strcmp(argv[i], "--bands") == 0)
            o->bands = true;
        else if (strcmp(argv[i], "--winners") == 0)
            o->winners = true;
        else if (strcmp(argv[i], "--unseen") == 0)
            o->unseen = true;
        else if (strcmp(argv[i], "--parts") == 0)
            o->parts = true;
        else if (strcmp(argv[i], "--hardware") == 0 && more)
            o->folder = argv[++i];
        else if (strcmp(argv[i], "--without") == 0 && more)
            o->without = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && more)
            o->only = argv[++i];
        else
            return error_set(
                err, ERR_INPUT,
                "'%s' is not understood: accuracy [--json | --csv | --bands | --winners | "
                "--unseen] "
                "[--parts] [--fit [--without SOURCE]] [--hardware DIR] [--only PART-OF-AN-ID]",
                argv[i]);
    }
    return OK;
}

/* Halves were dealt before, so that a row is in the same half whatever is looked at. */
static void keep_only(judging *b, const char *part)
{
    int kept = 0;
    for (int i = 0; i < b->n_rows; i++)
        if (text_contains(b->rows[i].id, part)) b->rows[kept++] = b->rows[i];
    b->n_rows = kept;
}

static status judge(judging *b, const options *o, error *err)
{
    if (o->unseen) {
        TRY(unseen_read(b, err));
        print_unseen(b);
        print_unseen_rows(b);
        return OK;
    }
    status st = rows_read(b, err);
    if (st) return st;
    if (o->only) keep_only(b, o->only);
    st = rows_price(b, err);
    if (st) return st;
    if (o->fit) {
        TRY(unseen_read(b, err));
        print_fit(b, o->without);
        return OK;
    }
    if (o->bands) return print_bands_def(b, err);
    if (o->winners) {
        print_winners(b, o->parts);
        return OK;
    }
    if (o->parts) {
        print_all_parts(b);
        return OK;
    }
    if (o->json)
        print_json(b);
    else if (o->csv)
        print_csv(b);
    else
        print_markdown(b);
    return OK;
}

int main(int argc, char **argv)
{
    options o = {.folder = "hardware"};
    error err = {{0}};
    arena *a = arena_create();
    judging *b = ARENA_NEW(a, judging);
    b->a = a;
    status st = read_options(argc, argv, &o, &err);
    b->folder = o.folder;
    if (!st) st = judge(b, &o, &err);
    if (st) fprintf(stderr, "accuracy: %s\n", err.text);
    arena_destroy(a);
    return (int)st;
}
