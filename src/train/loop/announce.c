/* announce.c - what a run is, before its first step: data, tokens and how often they are read,
 * where weights come from, schedule, batch, layout, what is saved where. As lines for people, and
 * as the event `start` for programs. */
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

enum { FILES_SAID = 3 };

static void line(trainer *t, const char *head, const char *text)
{
    trainer_say(t, stderr, arena_text(t->a, "%-9s%s", head, text));
}

static const char *count(const trainer *t, double n)
{
    return text_grouped(t->a, (int64_t)n);
}

static const char *text_of(const trainer *t, knob_id k)
{
    return recipe_shown(&t->s->r, k, t->a);
}

/* ---- data */

/* What training reads of one file, and how often. */
typedef struct file_use {
    const char *name;
    double tokens, of_file; /* read; in the file, as far as it is for training */
} file_use;

static file_use use_of(const trainer *t, data_split which, int member, double samples)
{
    const data_index *x = data_member(t->data, which, member);
    const data_blend *b = data_blend_of(t->data, which);
    double n = samples;
    if (b) {
        n = 0;
        for (int64_t i = 0; i < b->length && (double)i < samples; i++) n += b->member[i] == member;
    }
    return (file_use){data_name(t->data, which, member), n * (double)batch_seq(t->p),
                      (double)x->n_tokens};
}

static bool trains(const trainer *t)
{
    return !t->s->j.skip_train;
}

static double samples_to_train(const trainer *t)
{
    return trains(t) ? (double)(t->train_iters * t->gbs) : 0;
}

/* Of all validations of the run. */
static double samples_to_validate(const trainer *t)
{
    const job *j = &t->s->j;
    if (!trains(t)) return (double)(j->eval_iters * t->gbs);
    int64_t every = j->eval_interval;
    return every > 0 ? (double)(t->train_iters / every * j->eval_iters * t->gbs) : 0;
}

static const train_file_answer *files_of(int *n, const trainer *t, data_split which, double samples)
{
    *n = t->s->j.mock_data || !data_length(t->data, which) ? 0 : data_members(t->data, which);
    train_file_answer *list = ARENA_ARRAY(t->a, train_file_answer, *n);
    for (int i = 0; i < *n; i++) {
        file_use u = use_of(t, which, i, samples);
        list[i] = (train_file_answer){u.name, (int64_t)u.tokens, (int64_t)u.of_file,
                                      u.tokens / u.of_file};
    }
    return list;
}

static void say_files(trainer *t, const char *head, data_split which, double samples)
{
    int n = data_length(t->data, which) ? data_members(t->data, which) : 0;
    for (int i = 0; i < n && i < FILES_SAID; i++) {
        file_use u = use_of(t, which, i, samples);
        line(t, i ? "" : head,
             arena_text(t->a, "%s: %s tokens of %s, %.3g epoch%s", u.name, count(t, u.tokens),
                        count(t, u.of_file), u.tokens / u.of_file,
                        u.tokens == u.of_file ? "" : "s"));
    }
    if (n > FILES_SAID) line(t, "", arena_text(t->a, "and %d more files", n - FILES_SAID));
}

static const char *end_of_document(const trainer *t)
{
    const job *j = &t->s->j;
    if (!j->eod_mask) return "not used: the loss counts every token";
    if (j->mock_data && !recipe_by_user(&t->s->r, K_EOD))
        return arena_text(t->a, "token %lld (the last id), which has no loss",
                          (long long)t->s->m.vocab - 1);
    return arena_text(t->a, "token %s (%s), which has no loss", text_of(t, K_EOD),
                      recipe_why(&t->s->r, K_EOD));
}

static void say_data(trainer *t)
{
    double samples = samples_to_train(t);
    if (t->s->j.mock_data)
        line(t, "Data",
             arena_text(t->a,
                        "MOCK DATA, counted numbers instead of text (moefold.mock_data, %s): this "
                        "run learns no language; dataset.data_path names files",
                        recipe_why(&t->s->r, K_MOCK_DATA)));
    else
        say_files(t, "Data", DATA_TRAIN, samples);
    if (trains(t))
        line(t, "",
             arena_text(t->a, "%s tokens in %s samples of %s; order by %s=%s",
                        count(t, samples * (double)batch_seq(t->p)), count(t, samples),
                        count(t, (double)batch_seq(t->p)), knobs[K_DATA_SEED].key,
                        text_of(t, K_DATA_SEED)));
    line(t, "", arena_text(t->a, "end of document: %s", end_of_document(t)));
    if (t->s->j.mock_data) return;
    say_files(t, "Valid", DATA_VALID, samples_to_validate(t));
    say_files(t, "Test", DATA_TEST, samples_to_validate(t));
}

/* ---- the rest */

/* A name on the hub or a preset is a shape here; its weights are nowhere. */
static const char *drawn(const trainer *t)
{
    const char *name = t->s->j.model;
    const char *shape =
        name ? arena_text(t->a, "; %s gives the shape of the model, no weights", name) : "";
    return arena_text(t->a, "random initialisation (%s=%s)%s", knobs[K_SEED].key,
                      text_of(t, K_SEED), shape);
}

static const char *weights_text(const trainer *t)
{
    return t->loaded_from ? t->loaded_from : drawn(t);
}

static const char *schedule_text(const trainer *t)
{
    const schedule *s = &t->rates;
    if (!trains(t)) return "no step (validation.skip_train): weights are evaluated";
    return arena_text(
        t->a, "steps %lld to %lld; lr %g to %g, %s; warm-up %g samples; %s, weight decay %g",
        (long long)t->first_iteration + 1, (long long)t->train_iters, s->lr, s->min_lr,
        text_of(t, K_LR_STYLE), s->warmup, text_of(t, K_OPTIMIZER), s->wd);
}

static const char *batch_text(const trainer *t)
{
    return arena_text(t->a, "global batch %lld = microbatch %lld x %lld microbatches x DP %lld",
                      (long long)t->gbs, (long long)t->p->B, (long long)t->p->micros,
                      (long long)t->s->lay.dp);
}

static const char *layout_text(const trainer *t)
{
    const layout *l = &t->s->lay;
    return arena_text(t->a,
                      "%lld rank%s: TP %lld, CP %lld, EP %lld, ETP %lld, PP %lld, DP %lld; %s",
                      (long long)l->world, l->world > 1 ? "s" : "", (long long)l->tp,
                      (long long)l->cp, (long long)l->ep, (long long)l->etp, (long long)l->pp,
                      (long long)l->dp, text_of(t, K_PRECISION));
}

static const char *saves_text(const trainer *t)
{
    const job *j = &t->s->j;
    const char *folder = j->save;
    if (!trains(t)) return "nothing";
    const char *run = t->o->run ? arena_text(t->a, "; the run in %s", t->o->run) : "";
    if (!folder)
        return arena_text(t->a,
                          "no checkpoint (checkpoint.save is not set): weights are lost at "
                          "the end%s",
                          run);
    const char *every =
        job_has(j, K_SAVE_INTERVAL)
            ? arena_text(t->a, "every %s steps and at the end", text_of(t, K_SAVE_INTERVAL))
            : "at the end";
    return arena_text(t->a, "checkpoints in %s, %s%s", folder, every, run);
}

json_t *trainer_start_json(const trainer *t)
{
    const job *j = &t->s->j;
    double samples = samples_to_train(t), seq = (double)batch_seq(t->p);
    train_data_answer data = {.mock = j->mock_data,
                              .samples = (int64_t)samples,
                              .tokens = (int64_t)(samples * seq),
                              .end_of_document = j->eod_mask ? end_of_document(t) : NULL};
    data.train = files_of(&data.n_train, t, DATA_TRAIN, samples);
    data.valid = files_of(&data.n_valid, t, DATA_VALID, samples_to_validate(t));
    const start_event x = {.event = "start",
                           .iteration = t->first_iteration,
                           .train_iters = t->train_iters,
                           .data = &data,
                           .random_weights = !t->loaded_from,
                           .weights = weights_text(t),
                           .schedule = schedule_text(t),
                           .batch = batch_text(t),
                           .layout = layout_text(t),
                           .checkpoints = j->save,
                           .saves = saves_text(t)};
    return answer_json(start_event, &x);
}

status trainer_announce(trainer *t, error *err)
{
    t->first_iteration = t->at.iteration;
    say_data(t);
    line(t, "Weights", weights_text(t));
    line(t, "Schedule", schedule_text(t));
    line(t, "Batch", batch_text(t));
    line(t, "Layout", layout_text(t));
    line(t, "Saves", saves_text(t));
    return trainer_event(t, trainer_start_json(t), err);
}
