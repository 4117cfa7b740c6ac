/* trainer_save.c - checkpoints of a run, at once or beside the steps. */
#include "run/trainer_state.h"

checkpoint trainer_checkpoint(const trainer *t, bool moments)
{
    return (checkpoint){.s = t->s,
                        .at = &t->p->at,
                        .c = t->c,
                        .w = &t->p->weights,
                        .weights = t->w,
                        .exp_avg = moments ? t->m : NULL,
                        .exp_avg_sq = moments ? t->v : NULL,
                        .config = t->config,
                        .state = t->at};
}

status trainer_save_open(trainer *t, error *err)
{
    if (!recipe_given(&t->s->r, K_SAVE)) return OK;
    checkpoint c = trainer_checkpoint(t, true);
    return checkpoint_save_open(&c, recipe_word(&t->s->r, K_SAVE), err);
}

static FILE *lines_to(const trainer *t)
{
    return t->o->json ? stderr : stdout;
}

static void say_saved(trainer *t)
{
    char line[LINE_BYTES];
    saved_print(line, sizeof line, &t->saved);
    trainer_say(t, lines_to(t), line);
}

status trainer_save_finish(trainer *t, error *err)
{
    if (!t->save) return OK;
    status s = checkpoint_save_finish(t->save, err);
    t->save = NULL;
    if (!s) say_saved(t);
    return s;
}

status trainer_save(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    const char *folder = recipe_word(r, K_SAVE);
    int64_t wanted = recipe_int(r, K_KEEP);
    int keep = wanted > 0 ? (int)wanted : 0;
    status s = trainer_save_finish(t, err);
    if (s) return s;
    comm_where(t->c, "saving a checkpoint", NULL);
    trainer_gather(t);
    t->at.optimizer_steps = t->opt.steps;
    checkpoint c = trainer_checkpoint(t, true);
    t->saved = (checkpoint_note){t->at.iteration, folder, "moefold", t->s->lay.tp, t->s->lay.pp};
    char line[LINE_BYTES];
    saving_print(line, sizeof line, &t->saved);
    trainer_say(t, lines_to(t), line);
    if (recipe_on(r, K_ASYNC_SAVE)) return checkpoint_save_start(&t->save, &c, folder, keep, err);
    s = checkpoint_save(&c, folder, keep, err);
    if (!s) say_saved(t);
    return s;
}
