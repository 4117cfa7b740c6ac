/* ladder.c - the memory ladder: prices a recipe with more and more recompute, one rung after
 * another.
 *
 * I1  Modules are added in the order of their recompute cost. A module that the model does not
 *     have, or that a rule forbids here, is left out of all rungs. The MoE layer as a whole takes
 *     the place of its parts. */
#include "report/ladder.h"

#include <string.h>

#include "predict/audit/audit.h"
#include "base/clock.h"
#include "rules/rules.h"

static const char none[] = "model.recompute_granularity=null model.recompute_modules=null "
                           "model.recompute_method=null model.recompute_num_layers=null";
static const char full[] = "model.recompute_granularity=full model.recompute_method=uniform "
                           "model.recompute_num_layers=1 model.recompute_modules=null";

static const char *words_of(arena *a, unsigned drop, char between)
{
    textbuf u = text_init(a);
    int n = 0;
    for (int i = 0; i < DROP_MODULES; i++) {
        if (!(drop_modules[i].drop & drop)) continue;
        if (n++) text_put(&u, &between, 1);
        text_add(&u, "%s", drop_modules[i].word);
    }
    return u.s ? u.s : "";
}

static bool apply(recipe *r, const char *words)
{
    error err = {{0}};
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        if (n && recipe_override(r, arena_copy(r->a, w, n), "ladder", &err)) return false;
        w += n + strspn(w + n, " ");
    }
    return true;
}

/* False: it breaks a rule that the recipe does not. */
static bool try_rung(rung *out, const ladder_job *j, const char *words, int errors, arena *a)
{
    arena *scratch = arena_create();
    recipe *r = ARENA_NEW(scratch, recipe);
    setup *s = ARENA_NEW(scratch, setup);
    error err = {{0}};
    violations found;
    *r = *j->given;
    r->a = scratch;
    bool good =
        apply(r, words) && setup_init(s, r, scratch, &err) == OK && !audit_why_not(s, scratch);
    if (good) rules_check(&found, s, false, scratch);
    good = good && found.n_errors <= errors;
    if (good) {
        price p;
        price_setup(&p, s, j->hw, j->o, scratch);
        *out = (rung){.words = arena_text(a, "%s", words), .step_s = p.step_s};
        out->peak_bytes = p.peak_bytes;
        out->fits = p.fits;
    }
    arena_destroy(scratch);
    return good;
}

static int errors_of(const recipe *given)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    violations found = {0};
    if (setup_init(s, given, a, &err) == OK) rules_check(&found, s, false, a);
    int n = found.n_errors;
    arena_destroy(a);
    return n;
}

/* The recipe's own rung: one of the list, or one between them. */
static int add_own(rung *list, int n, const ladder_job *j, arena *a)
{
    int how = j->resolved->recompute;
    unsigned drop = how == J_RECOMPUTE_SELECTIVE ? drop_of(j->resolved) : 0;
    const char *own = words_of(a, drop, '+');
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
    int n = 0, errors = errors_of(j->given);
    unsigned drop = 0;
    if (try_rung(&out[n], j, none, errors, a)) out[n++].name = "none";
    for (int i = 0; i < DROP_MODULES && n < RUNGS_MAX - 2 && clock_seconds() < j->until; i++) {
        unsigned bit = drop_modules[i].drop, parts = DROP_MOE_ACT | DROP_SHARED;
        unsigned next = bit == DROP_MOE ? (drop & ~parts) | bit : drop | bit; /* I1 */
        const char *words = arena_text(a,
                                       "model.recompute_granularity=selective "
                                       "model.recompute_modules=[%s] model.recompute_method=null "
                                       "model.recompute_num_layers=null",
                                       words_of(a, next, ','));
        if (bit & DROP_CORE_ATTN || !try_rung(&out[n], j, words, errors, a)) continue;
        drop = next;
        if (n && out[n].peak_bytes == out[n - 1].peak_bytes && out[n].step_s == out[n - 1].step_s)
            continue; /* the model has no such module */
        out[n++].name = words_of(a, drop, '+');
    }
    if (clock_seconds() < j->until && try_rung(&out[n], j, full, errors, a)) out[n++].name = "full";
    return add_own(out, n, j, a);
}
