/* parity.c - `moefold parity`: compares our numbers with a reference case. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "answer/answer.h"
#include "cli/join.h"
#include "base/waiting.h"
#include "cli/ranks.h"
#include "cli/runtime.h"
#include "train/parity/parity.h"

static void print_json(const parity_result *r)
{
    const parity_answer x = {.ok = r->ok,
                             .loss = r->loss,
                             .loss_golden = r->loss_golden,
                             .loss_rel_err = r->loss_rel_err,
                             .logits_rel_err = r->logits_rel_err,
                             .grad_rel_err_max = r->grad_rel_err_max,
                             .grad_worst = r->grad_worst ? r->grad_worst : "",
                             .curve_rel_err_max = r->curve_rel_err_max,
                             .curve_worst_step = r->curve_worst,
                             .curve = r->curve,
                             .n_curve = r->n_curve,
                             .arena_bytes = r->arena_bytes};
    cli_json_print(answer_json(parity_answer, &x));
}

static void print_row(const char *name, double e, double tolerance, const char *where)
{
    printf("  %-10s %10.2e   %8.0e  %-4s %s\n", name, e, tolerance, e <= tolerance ? "ok" : "OVER",
           where);
}

static void print_text(const char *folder, const parity_result *r, arena *a)
{
    printf("%s: %s\n\n", folder, r->ok ? "agrees" : "DOES NOT AGREE");
    printf("  %-10s %10s   %8s\n", "", "rel. error", "tolerance");
    print_row("loss", r->loss_rel_err, r->tolerance[0],
              arena_text(a, "%.7f, reference %.7f", r->loss, r->loss_golden));
    print_row("logits", r->logits_rel_err, r->tolerance[1], "");
    print_row(
        "gradients", r->grad_rel_err_max, r->tolerance[2],
        arena_text(a, "worst of %d: %s", r->n_gradients, r->grad_worst ? r->grad_worst : "-"));
    print_row("curve", r->curve_rel_err_max, r->tolerance[3],
              arena_text(a, "worst at step %d", r->curve_worst + 1));
}

/* The case's folder comes first; what it fixes is set before the user's overrides, so that those
 * win. */
static status read_case(arena *a, const cli_words *w, recipe *r, const char **folder, bool *done,
                        error *err)
{
    if (w->argc < 2 || w->argv[1][0] == '-') {
        if (w->argc >= 2 && strcmp(w->argv[1], "--help") == 0) return cli_read(a, w, r, done, err);
        return error_set(err, ERR_INPUT, "name the folder of a reference case first");
    }
    *folder = w->argv[1];
    recipe *fixed = ARENA_NEW(a, recipe);
    recipe_init(fixed, a, *folder);
    parity_fixed list;
    status s = parity_fixes(&list, *folder, a, err);
    recipe_set(fixed, K_MODEL, value_of_text(*folder), "reference case");
    for (int i = 0; i < list.n && !s; i++)
        s = recipe_override(fixed, list.list[i], "reference case", err);
    if (!s) s = cli_read(a, w, r, done, err);
    for (int k = 0; k < K_COUNT && !s; k++)
        if (fixed->knob[k].from == FROM_USER && r->knob[k].from != FROM_USER)
            r->knob[k] = fixed->knob[k];
    return s;
}

/* The case on this rank, from joining the job to leaving it. */
static int run_rank(const setup *s, arena *a, const parity_options *o, bool json)
{
    comm *c = NULL;
    error err = {{0}};
    parity_result result = {0};
    status st = cli_open(&c, s, a, &err);
    if (!st) {
        if (cli_speaks()) waiting_begin("parity", "steps of the case", WAITING_UNKNOWN, 0);
        st = parity_run(&result, s, a, o, c, &err);
        if (cli_speaks()) waiting_end();
    }
    int code = st ? (int)st : result.ok ? OK : ERR_RULE;
    bool speaks = cli_speaks();
    if (st && speaks) cli_fail("parity", st, &err);
    if (!st && speaks && json) print_json(&result);
    if (!st && speaks && !json) print_text(o->folder, &result, a);
    comm_close(c);
    return code;
}

int command_parity(int argc, char **argv)
{
    bool json = false, done = false, broken = false;
    int code = OK, n_ranks = 0;
    parity_options o = {0};
    const char *ranks = NULL;
    const cli_option options[] = {
        {"--json", NULL, "print JSON (docs/JSON.md)", &json, NULL},
        {"--ranks", "N", "start N ranks on this machine (mpirun)", NULL, &ranks},
        {"--plain", NULL, "use the plain C kernels only", &o.plain, NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    const cli_words words = {"parity", argc, argv, options, 3};
    status st = read_case(a, &words, r, &o.folder, &done, &err);
    if (!st && !done) st = cli_read_ranks(ranks, argc, argv, r, &n_ranks, &err);
    if (!st && !done) cli_own_target(r, !n_ranks && cli_speaks());
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done) st = cli_can_run(s, a, &err);
    if (!st && !done) broken = cli_rank_refuses("parity", s, a);
    if (st)
        code = cli_fail_alone("parity", st, &err);
    else if (broken)
        code = ERR_RULE;
    else if (n_ranks)
        code = cli_run_ranks(argc, argv, n_ranks);
    else if (!done)
        code = run_rank(s, a, &o, json);
    arena_destroy(a);
    return code;
}
