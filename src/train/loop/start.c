/* start.c - what a run starts from: weights and counters. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/waiting.h"
#include "backend/comm/agree.h"
#include "config/models/models.h"
#include "train/hf/weights.h"
#include "train/executor/init_weights.h"
#include "train/loop/state.h"

/* What rank 0 sees counts on all: ranks that decided differently would wait for one another. A rank
 * that sees something else fails where it reads. */
static bool seen(const trainer *t, bool here)
{
    comm_broadcast(t->c, GROUP_WORLD, 0, &here, sizeof here);
    return here;
}

static status look_for_weights(const trainer *t, const char *folder, bool *there, error *err)
{
    file_kind one, many;
    status s = file_look(arena_text(t->a, "%s/model.safetensors", folder), &one, err);
    if (!s) s = file_look(arena_text(t->a, "%s/model.safetensors.index.json", folder), &many, err);
    TRY(ranks_follow(t->c, s, err));
    *there = seen(t, one || many);
    return OK;
}

static void read_config(trainer *t)
{
    const char *path = model_config_path(&t->s->r);
    char *text;
    size_t n;
    error ignored;
    if (path && !file_read(t->a, path, 1 << 24, &text, &n, &ignored)) t->config = text;
}

/* The same folder, by whatever name? */
static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    if (!a || !b) return false;
    if (stat(a, &x) == 0 && stat(b, &y) == 0) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    size_t n = strlen(a), m = strlen(b);
    while (n > 1 && a[n - 1] == '/') n--;
    while (m > 1 && b[m - 1] == '/') m--;
    return n == m && strncmp(a, b, n) == 0;
}

/* Where a checkpoint was looked for in vain: what may have been meant, or "". */
static const char *perhaps(trainer *t, const char *load)
{
    const char *name = strrchr(load, '/');
    int64_t step = -1;
    error ignored;
    if (!file_is_folder(load)) {
        const char *near = file_nearest(t->a, load);
        return near ? arena_text(t->a, "; the nearest name is %s", near) : "";
    }
    const char *above = name ? arena_copy(t->a, load, (size_t)(name - load)) : ".";
    if (!text_starts(name ? name + 1 : load, "iter_") ||
        checkpoint_latest(above, &step, &ignored) || step < 0)
        return "";
    return arena_text(t->a, "; this is a checkpoint itself: %s=%s with %s loads it",
                      knobs[K_LOAD].key, above, knobs[K_CKPT_STEP].key);
}

/* A job that is started again and again names one folder for both: the first time it is empty. */
static status nothing_to_load(trainer *t, const char *load, error *err)
{
    const job *j = &t->s->j;
    file_kind kind;
    TRY(file_look(load, &kind, err));
    const char *what = kind == FILE_FOLDER ? "holds no checkpoint" : "is not there";
    if (job_has(j, K_CKPT_STEP))
        return error_set(err, ERR_INPUT, "%s=%s: has no checkpoint of step %lld", knobs[K_LOAD].key,
                         load, (long long)j->ckpt_step);
    if (same_folder(load, j->save)) {
        trainer_say(
            t, stderr,
            arena_text(t->a, "%s=%s: %s yet; starting at step 0", knobs[K_LOAD].key, load, what));
        return OK;
    }
    return error_set(err, ERR_INPUT,
                     "%s=%s: %s%s; repair: name the folder that holds iter_N, or null to start "
                     "at step 0 (an empty folder is fine only if it is also %s)",
                     knobs[K_LOAD].key, load, what, perhaps(t, load), knobs[K_SAVE].key);
}

/* Is it this model, and what else is not as it was? Rank 0 looks. */
static status compare_recipes(trainer *t, const char *folder, int64_t iteration, bool resumes,
                              error *err)
{
    arena *scratch = arena_create();
    textbuf changed = text_init(scratch);
    checkpoint_info info;
    status s = OK;
    if (comm_rank(t->c) == 0) s = checkpoint_read_info(&info, scratch, folder, iteration, err);
    if (comm_rank(t->c) == 0 && !s) {
        const stored_recipe stored = checkpoint_recipe(&info);
        s = stored_compare(&stored, &t->s->r, resumes, &changed, err);
    }
    s = ranks_follow(t->c, s, err);
    if (!s && changed.n && !t->o->evaluate)
        trainer_say(t, stderr,
                    arena_text(t->a, "changed since iteration %lld of %s: %s", (long long)iteration,
                               folder, changed.s));
    arena_destroy(scratch);
    return s;
}

/* The schedule of the checkpoint instead of the recipe's; rank 0 reads it. */
static status take_schedule(trainer *t, const char *folder, int64_t iteration, error *err)
{
    arena *scratch = arena_create();
    status s = OK;
    if (comm_rank(t->c) == 0) {
        checkpoint_info info = {0};
        job *then = ARENA_NEW(scratch, job);
        s = checkpoint_read_info(&info, scratch, folder, iteration, err);
        const stored_recipe stored = checkpoint_recipe(&info);
        if (!s) s = stored_job(&stored, then, scratch, err);
        if (!s) s = schedule_init(&t->rates, then, then->gbs, err);
    }
    s = ranks_follow(t->c, s, err);
    if (!s) comm_broadcast(t->c, GROUP_WORLD, 0, &t->rates, sizeof t->rates);
    arena_destroy(scratch);
    return s;
}

/* checkpoint.ckpt_step is of the folder that checkpoint.load names. -1: there is none. */
static status choose(const trainer *t, const char *folder, int64_t *iteration, error *err)
{
    const job *j = &t->s->j;
    *iteration = j->ckpt_step;
    if (job_has(j, K_CKPT_STEP) && same_folder(folder, j->load)) return OK;
    return checkpoint_latest(folder, iteration, err);
}

static status load_checkpoint(trainer *t, const char *folder, bool weights_only, bool *found,
                              error *err)
{
    int64_t iteration = -1;
    *found = false;
    TRY(ranks_agree(t->c, choose(t, folder, &iteration, err), err));
    comm_broadcast(t->c, GROUP_WORLD, 0, &iteration, sizeof iteration);
    if (iteration < 0) return OK;
    lent_checkpoint l;
    bool moments = !weights_only && t->s->j.load_optim;
    TRY(compare_recipes(t, folder, iteration, !weights_only || t->o->evaluate, err));
    TRY(trainer_lend(t, moments, &l, err));
    comm_work before = comm_work_begin(t->c, WORK_LOAD);
    status s = checkpoint_load(&l.c, folder, iteration, err);
    comm_work_end(t->c, before);
    trainer_return(&l, ARRAY_WRITTEN);
    if (s) return s;
    *found = true;
    t->loaded_iteration = iteration;
    t->loaded_from = arena_text(t->a, "%s, iteration %lld", folder, (long long)iteration);
    if (weights_only && t->o->evaluate) return OK;
    if (weights_only) {
        trainer_say(t, stderr,
                    arena_text(t->a, "%s: weights of iteration %lld loaded; starting at step 0",
                               folder, (long long)iteration));
        return OK;
    }
    t->at = l.c.state;
    t->opt.steps = l.c.state.optimizer_steps;
    if (t->s->j.sched_checkpoint) TRY(take_schedule(t, folder, iteration, err));
    char line[LINE_BYTES];
    checkpoint_note note = {iteration, folder, "moefold", t->s->lay.tp, t->s->lay.pp};
    loaded_print(line, sizeof line, &note);
    trainer_say(t, t->o->json ? stderr : stdout, line);
    return trainer_grow_as_before(t, err);
}

static status load_files(trainer *t, const char *folder, error *err)
{
    hf_report report;
    array_loan w;
    status s = ranks_agree(t->c, array_borrow(&w, t->e, t->p, ARRAY_WEIGHTS, err), err);
    if (s) return s;
    comm_work before = comm_work_begin(t->c, WORK_LOAD);
    s = hf_load(&(hf_rank){t->s, &t->p->at, &t->p->weights, w.values}, folder, &report, err);
    array_return(&w, ARRAY_ROUNDED);
    s = ranks_agree(t->c, s, err);
    comm_work_end(t->c, before);
    if (s) return s;
    t->loaded_from = folder;
    if (t->o->evaluate) return OK;
    trainer_say(t, stderr,
                arena_text(t->a, "weights of %s: %lld elements read%s, %d tensors ignored", folder,
                           (long long)report.written, comm_size(t->c) > 1 ? " by rank 0" : "",
                           report.ignored.tensors));
    return OK;
}

/* Elements that are drawn at a time. */
enum { DRAWN = 1 << 25 };

static int64_t drawn_at_most(const weight_list *w)
{
    int64_t most = 1;
    for (int i = 0; i < w->n; i++)
        if (w->list[i].n > most) most = w->list[i].n;
    return most < DRAWN ? most : DRAWN;
}

/* In ranges: all at once would take as much memory of the host as they have in FP32, beside the
 * state that it keeps. Memory is new, so padding between them is zero. */
static status draw_weights(trainer *t, error *err)
{
    const weight_list *w = &t->p->weights;
    uint64_t seed = (uint64_t)t->s->j.seed;
    int64_t most = drawn_at_most(w), n;
    float *values = malloc(2 * sizeof *values * (size_t)most);
    status s = OK;
    if (!values)
        s = error_set(err, ERR_MACHINE, "no memory to draw %lld weights at a time",
                      (long long)most);
    for (int i = 0; i < w->n && !s; i++) {
        const weight *one = &w->list[i];
        for (int64_t at = 0; at < one->n; at += n) {
            n = one->n - at < most ? one->n - at : most;
            init_range(t->s, &t->p->at, one, seed, (init_span){at, n}, values);
            array_put_weights(t->e, t->p, one->offset + at, n, values, values + most);
        }
        waiting_part((double)(i + 1) / (double)w->n);
    }
    free(values);
    return ranks_agree(t->c, s, err);
}

/* ---- the folder to save in */

/* What a folder to save in holds when a run starts. A run that begins at step 0 there would move
 * the text file back and mix its checkpoints with those that are there. */
static status look_at_own(const trainer *t, const char *folder, bool *resumes, error *err)
{
    const job *j = &t->s->j;
    const char *load = j->load;
    int64_t iteration = -1;
    checkpoint_info info;
    file_kind kind;
    status s = file_look(folder, &kind, err);
    if (!s && kind == FILE_FOLDER) s = choose(t, folder, &iteration, err);
    if (s || iteration < 0) return s;
    if (same_folder(load, folder)) {
        if (!j->finetune) return OK; /* as asked for */
        return error_set(err, ERR_INPUT,
                         "%s=true starts at step 0, but %s=%s holds iteration %lld; repair: "
                         "%s=ANOTHER_FOLDER",
                         knobs[K_FINETUNE].key, knobs[K_SAVE].key, folder, (long long)iteration,
                         knobs[K_SAVE].key);
    }
    s = checkpoint_read_info(&info, t->a, folder, iteration, err);
    if (s) return s;
    const stored_recipe stored = checkpoint_recipe(&info);
    s = stored_same_job(&stored, &t->s->r, folder, err);
    *resumes = !s;
    return s;
}

/* A job that is started again, by a person or by Slurm, goes on where its own folder ends, whatever
 * it started from. */
static status resume_own(trainer *t, bool *found, error *err)
{
    const job *j = &t->s->j;
    const char *folder = j->save;
    bool resumes = false;
    if (!job_has(j, K_SAVE)) return OK;
    status s = comm_rank(t->c) == 0 ? look_at_own(t, folder, &resumes, err) : OK;
    s = ranks_follow(t->c, s, err);
    comm_broadcast(t->c, GROUP_WORLD, 0, &resumes, sizeof resumes);
    if (s || !resumes) return s;
    s = load_checkpoint(t, folder, false, found, err);
    if (s) return s;
    const char *left = t->at.iteration < t->train_iters ? "" : "; no step is left to do";
    trainer_say(t, stderr,
                arena_text(t->a, "%s=%s holds iteration %lld of this job: resuming there%s",
                           knobs[K_SAVE].key, folder, (long long)t->at.iteration, left));
    return OK;
}

/* Its own checkpoint wins; then one to resume; then weights to start from; then weights beside the
 * model's config.json; else they are drawn. */
status trainer_start(trainer *t, error *err)
{
    const job *j = &t->s->j;
    const char *load = j->load, *pretrained = j->pretrained;
    const char *folder = j->model;
    bool found = false, weights = false;
    read_config(t);
    executor_zero_optimizer(t->e);
    TRY(draw_weights(t, err));
    t->at.seed = j->seed;
    TRY(trainer_save_open(t, err));
    TRY(resume_own(t, &found, err));
    if (!found && load) {
        file_kind kind;
        TRY(ranks_follow(t->c, file_look(load, &kind, err), err));
        if (seen(t, kind == FILE_FOLDER)) TRY(load_checkpoint(t, load, j->finetune, &found, err));
    }
    if (found) return OK;
    if (load) TRY(ranks_follow(t->c, nothing_to_load(t, load, err), err));
    if (pretrained) {
        TRY(look_for_weights(t, pretrained, &weights, err));
        if (weights) return load_files(t, pretrained, err);
        TRY(load_checkpoint(t, pretrained, true, &found, err));
        if (found) return OK;
        return error_set(err, ERR_INPUT, "checkpoint.pretrained_checkpoint=%s: holds no weights",
                         pretrained);
    }
    if (folder) TRY(look_for_weights(t, folder, &weights, err));
    if (weights) return load_files(t, folder, err);
    if (!t->o->evaluate) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: names no weights; repair: name a folder of checkpoints, a model's folder "
                     "with safetensors, or %s=FOLDER",
                     t->s->r.name, knobs[K_LOAD].key);
}
