/* plan_bring_up.c - the recipes of a bring-up (plan/bring_up.h): names, reasons, files.
 *
 * I1  Nothing that lies in the folder is overwritten: it is empty, or is made here. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "library/plan_parts.h"
#include "config/export.h"

/* ---- the folder (I1) */

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

static const char *name_of(const plan_answer *p, bring_up_stage k)
{
    static const char *const names[] = {"alltoall-eager", NULL, "overlap", "graphs", NULL};
    if (names[k]) return names[k];
    if (k == BRING_UP_PRECISION) return job_has(&p->reasons.winner->j, K_FP4) ? "fp4" : "fp8";
    return choice_dispatcher(p->result->maker, &p->result->best[0].c)->name;
}

static const char *what_of(const plan_answer *p, bring_up_stage k, arena *a)
{
    const choice *c = &p->result->best[0].c;
    const bool tp = c->pick[PICK_TP_OVERLAP];
    switch (k) {
    case BRING_UP_EAGER:
        return "dispatcher alltoall, no overlap, no CUDA graphs, BF16";
    case BRING_UP_DISPATCHER:
        return arena_text(a, "dispatcher %s", plan_dispatcher(p, c));
    case BRING_UP_OVERLAP:
        return arena_text(a, "overlap: %s%s%s", c->overlap ? plan_overlap(c->overlap) : "",
                          c->overlap && tp ? ", " : "", tp ? "TP" : "");
    case BRING_UP_GRAPHS:
        return arena_text(a, "CUDA graphs: %s", choice_graphs(c->graphs));
    default:
        return arena_text(a, "precision %s", recipe_word(&p->reasons.winner->r, K_PRECISION));
    }
}

static const char *why_not_there(const plan_answer *p, bring_up_stage k, arena *a)
{
    static const char *const words[] = {NULL, "the winner's dispatcher is alltoall",
                                        "the winner overlaps no EP or TP communication",
                                        "the winner has no CUDA graphs"};
    return k < BRING_UP_PRECISION ? words[k]
                                  : arena_text(a, "the winner computes in %s",
                                               recipe_word(&p->reasons.winner->r, K_PRECISION));
}

/* NULL: it is made. */
static const char *why_skipped(const plan_answer *p, const bring_up_layout *x, bring_up_stage k,
                               arena *a)
{
    switch (x->end) {
    case BRING_UP_MADE:
        return NULL;
    case BRING_UP_NOT_THERE:
        return why_not_there(p, k, a);
    case BRING_UP_RULE:
        return arena_text(a, "would break the rule %s; it is part of the next step", x->rule->id);
    case BRING_UP_NO_LAYOUT:
        return "there is no such layout; it is part of the next step";
    default:
        return arena_text(
            a, "does not fit (%s of %s), not even with more recompute; it is part of the next step",
            text_bytes(a, x->p.peak_bytes), text_bytes(a, x->p.usable));
    }
}

/* NULL: nothing. */
static const char *added_text(const bring_up_layout *x, arena *a)
{
    textbuf t = text_init(a);
    if (x->v.c.drop != x->before.drop) text_add(&t, "recompute %s", choice_modules(a, x->v.c.drop));
    if (x->v.c.offload != x->before.offload)
        text_add(&t, "%s%d %% of the optimizer on the host", t.n ? ", " : "",
                 (int)(100 * choice_on_host(&x->v.c)));
    return t.n ? t.s : NULL;
}

static bring_up_step step_of(const plan_answer *p, const bring_up_layout *x, bring_up_stage k,
                             arena *a)
{
    static const char *const topics[] = {"eager", "dispatcher", "overlap", "CUDA graphs",
                                         "FP8 or FP4"};
    bool there = x->end != BRING_UP_NOT_THERE;
    return (bring_up_step){.name = name_of(p, k),
                           .what = there ? what_of(p, k, a) : topics[k],
                           .skipped = why_skipped(p, x, k, a),
                           .added = added_text(x, a),
                           .added_rules = x->added_rules.n ? edits_words(x->added_rules, a) : NULL,
                           .r = x->r,
                           .p = x->p};
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
    plan_bring_up *b = &p->bring_up;
    const setup *winner = p->reasons.winner;
    status st = winner ? make_folder(folder, err) : OK;
    if (st || !winner) return st;
    bring_up_layout *stages = ARENA_ARRAY(a, bring_up_layout, BRING_UP_STAGES);
    const variant_job j = plan_variants(p, TRY_PRICE);
    bring_up_find(stages, &j, winner, a);
    b->folder = folder;
    int n = 0;
    const recipe *before = p->given;
    for (int k = 0; k < BRING_UP_STAGES && !st; k++) {
        bring_up_step *x = &b->list[b->n++];
        *x = step_of(p, &stages[k], (bring_up_stage)k, a);
        if (x->skipped) continue;
        x->file = arena_text(a, "%02d-%s.yaml", ++n, x->name);
        list_changes(x, before, a);
        before = x->r;
        st = write_step(x, folder, n, a, err);
    }
    return st;
}
