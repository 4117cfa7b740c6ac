/* plan_bring_up.c - the order in which an expert brings the winner up: what is easiest to trust
 * first, then one thing after the other, each with its predicted memory and time.
 *
 * First all-to-all, eager, in BF16: a loss curve to hold the rest against. Then the winner's
 * dispatcher, its overlap, its CUDA graphs, its narrow precision.
 *
 * I1  The last recipe is the winner.
 * I2  Every recipe that is written breaks no rule and fits. What rules or memory need beyond the
 *     step itself is added, and named.
 * I3  Nothing that lies in the folder is overwritten: it is empty, or is made here. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "library/plan_parts.h"
#include "config/job_of.h"
#include "ir/segment.h"
#include "config/export.h"
#include "predict/try.h"

typedef enum stage_kind { EAGER, DISPATCHER, OVERLAP, GRAPHS, PRECISION, STAGES } stage_kind;

/* ---- the folder (I3) */

status plan_bring_up_folder(const char *folder, error *err)
{
    DIR *d = opendir(folder);
    if (!d && errno == ENOENT) return OK;
    if (!d)
        return error_set(err, ERR_INPUT, "--bring-up %s: cannot read it as a folder: %s", folder,
                         strerror(errno));
    char held[256] = "";
    for (struct dirent *e = readdir(d); e && !*held; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            snprintf(held, sizeof held, "%s", e->d_name);
    closedir(d);
    if (!*held) return OK;
    return error_set(err, ERR_INPUT,
                     "--bring-up %s: the folder is not empty (it holds %s); give a new folder",
                     folder, held);
}

static status make_folder(const char *folder, error *err)
{
    status st = plan_bring_up_folder(folder, err);
    if (st || mkdir(folder, 0777) == 0 || errno == EEXIST) return st;
    return error_set(err, ERR_INPUT, "--bring-up %s: cannot create the folder: %s", folder,
                     strerror(errno));
}

/* ---- what a step is */

typedef struct making {
    plan_answer *p;
    const setup *winner;
    const choice *won;
    arena *a;
} making;

static bool narrow(const setup *s)
{
    return recipe_given(&s->r, K_FP8) || recipe_given(&s->r, K_FP4);
}

/* NULL: it applies. */
static const char *skipped_because(const making *m, stage_kind k)
{
    const choice *c = m->won;
    if (k == DISPATCHER && c->to == TO_ALLTOALL) return "the winner's dispatcher is alltoall";
    if (k == OVERLAP && !c->overlap && !c->pick[PICK_TP_OVERLAP])
        return "the winner overlaps no EP or TP communication";
    if (k == GRAPHS && !c->graphs) return "the winner has no CUDA graphs";
    if (k == PRECISION && !narrow(m->winner))
        return arena_text(m->a, "the winner computes in %s",
                          recipe_word(&m->winner->r, K_PRECISION));
    return NULL;
}

static const char *name_of(const making *m, stage_kind k)
{
    static const char *const names[] = {"alltoall-eager", NULL, "overlap", "graphs", NULL};
    if (names[k]) return names[k];
    if (k == PRECISION) return recipe_given(&m->winner->r, K_FP4) ? "fp4" : "fp8";
    return choice_dispatcher(m->p->result->maker, m->won)->name;
}

static const char *const topics[STAGES] = {"eager", "dispatcher", "overlap", "CUDA graphs",
                                           "FP8 or FP4"};

static const char *what_of(const making *m, stage_kind k)
{
    const choice *c = m->won;
    const bool tp = c->pick[PICK_TP_OVERLAP];
    switch (k) {
    case EAGER:
        return "dispatcher alltoall, no overlap, no CUDA graphs, BF16";
    case DISPATCHER:
        return arena_text(m->a, "dispatcher %s", plan_dispatcher(m->p, c));
    case OVERLAP:
        return arena_text(m->a, "overlap: %s%s%s", c->overlap ? plan_overlap(c->overlap) : "",
                          c->overlap && tp ? ", " : "", tp ? "TP" : "");
    case GRAPHS:
        return arena_text(m->a, "CUDA graphs: %s", choice_graphs(c->graphs));
    default:
        return arena_text(m->a, "precision %s", recipe_word(&m->winner->r, K_PRECISION));
    }
}

static choice choice_at(const making *m, stage_kind k)
{
    choice c = *m->won;
    if (k < DISPATCHER) c.to = TO_ALLTOALL;
    if (k < OVERLAP) c.overlap = OVERLAP_NOTHING;
    if (k < OVERLAP) c.pick[PICK_TP_OVERLAP] = 0;
    if (k < GRAPHS) c.graphs = SCOPE_NONE;
    return c;
}

/* ---- one recipe */

static bool build(bring_up_step *out, const making *m, const choice *c, const char *words)
{
    arena *a = m->a;
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    try_result t;
    const char *const *fix = NULL;
    const try_job asked = {.hw = m->p->hw, .o = &m->p->prices, .depth = TRY_PRICE};
    search_recipe(r, m->p->result, m->p->given, c);
    r->a = a;
    if (words && recipe_override(r, words, "bring-up", &err)) return false;
    if (!try_recipe(&t, r, &asked, a)) {
        if (!t.found.n_errors) return false;
        out->skipped = arena_text(a, "would break the rule %s", t.found.list[0].rule->id);
        if (!rules_fix(r, a, &fix)) return false;
        for (const char *const *w = fix; *w; w++)
            if (recipe_override(r, *w, "bring-up", &err)) return false;
        if (!try_recipe(&t, r, &asked, a)) return false;
    }
    out->skipped = NULL;
    out->n_warnings = t.found.n - t.found.n_errors;
    out->added_rules = fix;
    out->r = r;
    out->p = t.p;
    return true;
}

static const char *added_text(const making *m, const choice *before, const choice *after)
{
    textbuf t = text_init(m->a);
    if (after->drop != before->drop)
        text_add(&t, "recompute %s", choice_modules(m->a, after->drop));
    if (after->offload != before->offload)
        text_add(&t, "%s%d %% of the optimizer on the host", t.n ? ", " : "",
                 (int)(100 * choice_on_host(after)));
    return t.s;
}

/* Sets that include `drop`: none more, then from the cheapest module on, with norms and without;
 * then full recompute. Experts as a whole cover what is inside of them. */
enum { MORE = 5, SETS = 2 * MORE + 1 };

static unsigned more_recompute(const making *m, unsigned drop, int set)
{
    static const unsigned more[MORE] = {0, DROP_MOE_ACT, DROP_MLA_UP_PROJ, DROP_MLP, DROP_MOE};
    if (set == SETS - 1 || drop == DROP_FULL) return DROP_FULL;
    unsigned all = set >= MORE ? DROP_LAYERNORM : 0;
    for (int i = 0; i <= set % MORE; i++) all |= more[i];
    return drop_tidy(drop | (all & drop_of_model(&m->winner->m)));
}

/* The fastest that fits of more recompute; where none does, of those with a part of the optimizer
 * on the host, as small as it may be (I2). Nothing that `check` would warn of. */
static bool make_fit(bring_up_step *out, const making *m, const choice *c, const char *words)
{
    bool open = m->p->given->knob[K_RECOMPUTE].from != FROM_USER;
    bring_up_step best = *out;
    best.p.fits = false;
    choice x = *c;
    for (; x.offload <= OFFLOAD_ALL && !best.p.fits; x.offload++)
        for (int set = 0; set < SETS; set++) {
            bring_up_step one = *out;
            x.drop = open ? more_recompute(m, c->drop, set) : c->drop;
            arena_place mark = arena_mark(m->a);
            bool good = build(&one, m, &x, words) && !one.added_rules && one.p.fits &&
                        one.n_warnings <= out->n_warnings &&
                        (!best.p.fits || one.p.step_s < best.p.step_s);
            if (!good) {
                arena_release(m->a, mark);
                continue;
            }
            best = one;
            best.added = added_text(m, c, &x);
        }
    if (best.p.fits) *out = best;
    return best.p.fits;
}

static void make_step(bring_up_step *out, const making *m, stage_kind k, bool last)
{
    choice c = choice_at(m, k);
    const char *words = k < PRECISION && narrow(m->winner) ? "mixed_precision=bf16_mixed" : NULL;
    out->name = name_of(m, k);
    out->what = what_of(m, k);
    out->skipped = skipped_because(m, k);
    if (out->skipped) out->what = topics[k];
    if (out->skipped) return;
    if (last) c = *m->won; /* I1 */
    if (!build(out, m, &c, last ? NULL : words)) {
        out->skipped = arena_text(m->a, "%s; it is part of the next step",
                                  out->skipped ? out->skipped : "there is no such layout");
        return;
    }
    if (out->p.fits || make_fit(out, m, &c, words)) return;
    out->skipped = arena_text(
        m->a, "does not fit (%s of %s), not even with more recompute; it is part of the next step",
        text_bytes(m->a, out->p.peak_bytes), text_bytes(m->a, out->p.usable));
}

/* ---- what changed */

static void list_changes(bring_up_step *out, const recipe *before, arena *a)
{
    textbuf t = text_init(a);
    for (int k = 0; k < K_COUNT; k++) {
        const setting *x = &before->knob[k], *y = &out->r->knob[k];
        bool was = x->from == FROM_USER, is = y->from == FROM_USER;
        if ((!was && !is) || (was && is && value_equal(x->v, y->v))) continue;
        const char *now = is ? value_text(a, y->v) : "null";
        if (!was && is && value_equal(y->v, knob_default(a, (knob_id)k, MOEFOLD))) continue;
        text_add(&t, "%s%s=%s", t.n ? " " : "", knobs[k].key, now);
    }
    out->changed = t.s;
}

/* ---- the files */

static status write_step(const bring_up_step *x, const char *folder, int n, arena *a, error *err)
{
    textbuf t = text_init(a);
    recipe *r = ARENA_NEW(a, recipe);
    const char *path = arena_text(a, "%s/%s", folder, x->file);
    *r = *x->r;
    recipe_relocate(r, path);
    text_add(&t, "# Bring-up, step %d: %s.\n", n, x->what);
    if (x->added) text_add(&t, "# Added to make it fit: %s.\n", x->added);
    text_add(&t, "# Predicted: %.3f s a step, %.1f tokens/s/GPU, %s of %s on the fullest rank.\n",
             x->p.step_s, x->p.tokens_per_s_per_gpu, text_bytes(a, x->p.peak_bytes),
             text_bytes(a, x->p.usable));
    export_yaml(r, false, &t);
    return file_write(path, t.s, t.n, err);
}

status plan_make_bring_up(plan_answer *p, const char *folder, arena *a, error *err)
{
    making m = {.p = p, .winner = p->reasons.winner, .won = &p->result->best[0].c, .a = a};
    plan_bring_up *b = &p->bring_up;
    status st = m.winner ? make_folder(folder, err) : OK;
    if (st || !m.winner) return st;
    b->folder = folder;
    int last = EAGER, n = 0;
    for (int k = 0; k < STAGES; k++)
        if (!skipped_because(&m, (stage_kind)k)) last = k;
    const recipe *before = p->given;
    for (int k = 0; k < STAGES && !st; k++) {
        bring_up_step *x = &b->list[b->n++];
        make_step(x, &m, (stage_kind)k, k == last);
        if (x->skipped) continue;
        x->file = arena_text(a, "%02d-%s.yaml", ++n, x->name);
        list_changes(x, before, a);
        before = x->r;
        st = write_step(x, folder, n, a, err);
    }
    return st;
}
