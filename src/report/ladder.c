/* ladder.c - the memory ladder: prices a recipe with more and more recompute, one rung after
 * another.
 *
 * I1  Modules are added in the order of their recompute cost. A module that the model does not
 *     have, or that a rule forbids here, is left out of all rungs. The MoE layer as a whole takes
 *     the place of its parts. */
#include "report/ladder.h"

#include <string.h>

#include "plan/moves.h"

/* "layernorm+moe_act" */
static const char *name_of(arena *a, unsigned drop)
{
    textbuf u = text_init(a);
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop_modules[i].drop & drop) text_add(&u, "%s%s", u.n ? "+" : "", drop_modules[i].word);
    return u.s ? u.s : "";
}

/* False: it breaks a rule that the recipe does not. */
static bool try_rung(rung *out, const try_job *j, edits e, arena *a)
{
    arena *scratch = arena_create();
    try_result t;
    bool good = try_edits(&t, e, j, scratch) && t.priced;
    if (good)
        *out = (rung){.words = edits_text(e, a),
                      .step_s = t.p.step_s,
                      .peak_bytes = t.peak_bytes,
                      .fits = t.fits};
    arena_destroy(scratch);
    return good;
}

/* The recipe's own rung: one of the list, or one between them. */
static int add_own(rung *list, int n, const ladder_job *j, arena *a)
{
    int how = j->resolved->recompute;
    unsigned drop = how == J_RECOMPUTE_SELECTIVE ? drop_of(j->resolved) : 0;
    const char *own = name_of(a, drop);
    if (!*own) own = how == J_RECOMPUTE_FULL ? "full" : "none";
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, own) == 0 && list[i].step_s == j->now->step_s) {
            list[i].own = true;
            return n;
        }
    int at = 0;
    while (at < n && list[at].peak_bytes > j->now->peak_bytes) at++;
    memmove(&list[at + 1], &list[at], sizeof *list * (size_t)(n - at));
    list[at] = (rung){own, "", true, j->now->step_s, j->now->peak_bytes, j->now->fits};
    return n + 1;
}

int report_ladder(rung out[RUNGS_MAX], const ladder_job *j, arena *a)
{
    int n = 0;
    unsigned drop = 0;
    const try_job t = {.given = j->given,
                       .hw = j->hw,
                       .o = j->o,
                       .budget = j->budget,
                       .depth = TRY_PRICE,
                       .errors = try_errors(j->given)};
    if (try_rung(&out[n], &t, moves[MOVE_NO_RECOMPUTE].e, a)) out[n++].name = "none";
    for (int i = 0; i < DROP_MODULES && n < RUNGS_MAX - 2; i++) {
        unsigned next = drop_tidy(drop | drop_modules[i].drop); /* I1 */
        if (!drop_modules[i].rung || !try_rung(&out[n], &t, move_recompute(next, a), a)) continue;
        drop = next;
        if (n && out[n].peak_bytes == out[n - 1].peak_bytes && out[n].step_s == out[n - 1].step_s)
            continue; /* the model has no such module */
        out[n++].name = name_of(a, drop);
    }
    if (try_rung(&out[n], &t, moves[MOVE_FULL_RECOMPUTE].e, a)) out[n++].name = "full";
    return add_own(out, n, j, a);
}
