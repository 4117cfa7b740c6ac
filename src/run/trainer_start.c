/* trainer_start.c - what a run starts from, and what it leaves behind: weights, checkpoints. */
#include <string.h>

#include "base/file.h"
#include "run/hf_weights.h"
#include "run/init_weights.h"
#include "run/trainer_state.h"

static bool has_weights(const trainer *t, const char *folder)
{
    return file_exists(arena_text(t->a, "%s/model.safetensors", folder)) ||
           file_exists(arena_text(t->a, "%s/model.safetensors.index.json", folder));
}

static void read_config(trainer *t)
{
    const char *folder = recipe_word(&t->s->r, K_MODEL);
    const char *path = folder ? arena_text(t->a, "%s/config.json", folder) : NULL;
    char *text;
    size_t n;
    error ignored;
    if (path && file_exists(path) && !file_read(t->a, path, 1 << 24, &text, &n, &ignored))
        t->config = text;
}

static checkpoint checkpoint_of(trainer *t, bool moments)
{
    return (checkpoint){.s = t->s,
                        .w = &t->p.weights,
                        .weights = t->w,
                        .exp_avg = moments ? t->m : NULL,
                        .exp_avg_sq = moments ? t->v : NULL,
                        .config = t->config,
                        .state = t->at};
}

static status load_checkpoint(trainer *t, const char *folder, bool weights_only, bool *found,
                              error *err)
{
    int64_t iteration = recipe_int(&t->s->r, K_CKPT_STEP);
    *found = false;
    status s =
        recipe_given(&t->s->r, K_CKPT_STEP) ? OK : checkpoint_latest(folder, &iteration, err);
    if (s || iteration < 0) return s;
    checkpoint c = checkpoint_of(t, !weights_only && recipe_on(&t->s->r, K_LOAD_OPTIM));
    s = checkpoint_load(&c, folder, iteration, err);
    if (s) return s;
    *found = true;
    if (weights_only) return OK;
    t->at = c.state;
    t->opt.steps = c.state.optimizer_steps;
    char line[LINE_BYTES];
    checkpoint_note note = {iteration, folder, "moefold", 1, 1};
    loaded_print(line, sizeof line, &note);
    progress_line(&t->bar, t->o->json ? stderr : stdout, line);
    return OK;
}

static status load_files(trainer *t, const char *folder, error *err)
{
    hf_report report;
    status s = hf_load(t->s, &t->p.weights, folder, t->w, &report, err);
    if (s) return s;
    char *line = arena_text(t->a, "weights of %s: %lld elements read, %d tensors ignored", folder,
                            (long long)report.written, report.ignored.tensors);
    progress_line(&t->bar, stderr, line);
    return OK;
}

/* A checkpoint to resume wins; then weights to start from; then weights beside the model's
 * config.json; else they are drawn. */
status trainer_start(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    const char *load = recipe_word(r, K_LOAD), *pretrained = recipe_word(r, K_PRETRAINED);
    const char *folder = recipe_word(r, K_MODEL);
    bool found = false;
    read_config(t);
    memset(t->m, 0, (size_t)t->p.bytes[REGION_OPTIMIZER]);
    init_weights(t->s, &t->p.weights, (uint64_t)recipe_int(r, K_SEED), t->w);
    t->at.seed = recipe_int(r, K_SEED);
    status s = OK;
    if (load && file_is_folder(load))
        s = load_checkpoint(t, load, recipe_on(r, K_FINETUNE), &found, err);
    if (s || found) return s;
    if (recipe_given(r, K_CKPT_STEP) && load)
        return error_set(err, ERR_INPUT, "checkpoint.load=%s: has no checkpoint of step %lld", load,
                         (long long)recipe_int(r, K_CKPT_STEP));
    if (pretrained && has_weights(t, pretrained)) return load_files(t, pretrained, err);
    if (pretrained) {
        s = load_checkpoint(t, pretrained, true, &found, err);
        if (!s && !found)
            s = error_set(err, ERR_INPUT, "checkpoint.pretrained_checkpoint=%s: holds no weights",
                          pretrained);
        return s;
    }
    if (folder && has_weights(t, folder)) return load_files(t, folder, err);
    return OK;
}

status trainer_save(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    const char *folder = recipe_word(r, K_SAVE);
    t->at.optimizer_steps = t->opt.steps;
    checkpoint c = checkpoint_of(t, true);
    char line[LINE_BYTES];
    checkpoint_note note = {t->at.iteration, folder, "moefold", 1, 1};
    FILE *out = t->o->json ? stderr : stdout;
    saving_print(line, sizeof line, &note);
    progress_line(&t->bar, out, line);
    int64_t keep = recipe_int(r, K_KEEP);
    status s = checkpoint_save(&c, folder, keep > 0 ? (int)keep : 0, err);
    if (s) return s;
    saved_print(line, sizeof line, &note);
    progress_line(&t->bar, out, line);
    return OK;
}
