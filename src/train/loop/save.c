/* save.c - checkpoints of a run, at once or beside the steps. */
#include <time.h>

#include "base/clock.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

/* A save that failed is made again after this; the last one of a run has no later. */
enum { wait_seconds = 60, last_wait_seconds = 1 };

void trainer_return(lent_checkpoint *l, array_end how)
{
    for (int i = 0; i < 3; i++) array_return(&l->loans[i], how);
}

status trainer_lend(const trainer *t, bool moments, lent_checkpoint *l, error *err)
{
    static const array_kind kinds[] = {ARRAY_WEIGHTS, ARRAY_FIRST, ARRAY_SECOND};
    *l = (lent_checkpoint){.c = {.s = t->s,
                                 .at = &t->p->at,
                                 .c = t->c,
                                 .w = &t->p->weights,
                                 .config = t->config,
                                 .state = t->at,
                                 .lock = t->lock}};
    float **const places[] = {&l->c.weights, &l->c.exp_avg, &l->c.exp_avg_sq};
    status s = OK;
    for (int i = 0; i < (moments && t->p->types.moments ? 3 : 1) && !s; i++) {
        s = array_borrow(&l->loans[i], t->e, t->p, kinds[i], err);
        *places[i] = l->loans[i].values;
    }
    s = ranks_agree(t->c, s, err);
    if (s) trainer_return(l, ARRAY_READ);
    return s;
}

void trainer_save_close(trainer *t)
{
    checkpoint_lock_release(t->lock);
    t->lock = NULL;
}

static void say_of_lock(void *with, const char *text)
{
    trainer_say(with, stderr, text);
}

/* Rank 0 holds the folder for the job. */
status trainer_save_open(trainer *t, error *err)
{
    const char *folder = t->s->j.save;
    if (!job_has(&t->s->j, K_SAVE)) return OK;
    lent_checkpoint l;
    lock_options o = {.say = say_of_lock, .with = t};
    status s = trainer_lend(t, true, &l, err);
    if (s) return s;
    s = checkpoint_save_open(&l.c, folder, &o, &t->lock, err);
    trainer_return(&l, ARRAY_READ);
    return s ? error_prefix(err, s, "%s=%s", knobs[K_SAVE].key, folder) : OK;
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

/* ---- failures: the disk may be back for the next try, and steps are dear */

bool trainer_save_again(const trainer *t)
{
    return t->save_again > 0 && clock_seconds() > t->save_again;
}

static status succeeded(trainer *t, error *err)
{
    t->saves_failed = 0;
    t->save_again = 0;
    say_saved(t);
    return trainer_event(t, saved_json(&t->saved), err);
}

/* OK: the run goes on, and saves again a minute later. */
static status bear(trainer *t, status s, error *err)
{
    int64_t limit = t->s->j.save_limit;
    t->saves_failed++;
    t->save_again = clock_seconds() + wait_seconds;
    if (t->saves_failed >= limit)
        return error_prefix(err, s, "%lld saves in a row failed; %s=%lld ends the run",
                            (long long)t->saves_failed, knobs[K_SAVE_LIMIT].key, (long long)limit);
    trainer_say(t, stderr,
                arena_text(t->a,
                           "checkpoint of step %lld was not saved (failure %lld; %s=%lld of "
                           "them in a row end the run): %s",
                           (long long)t->saved.iteration, (long long)t->saves_failed,
                           knobs[K_SAVE_LIMIT].key, (long long)limit, err->text));
    return OK;
}

/* ---- saving */

status trainer_save_finish(trainer *t, error *err)
{
    if (!t->save) return OK;
    comm_where(t->c, "saving a checkpoint", NULL);
    comm_work before = comm_work_begin(t->c, WORK_SAVE);
    status s = checkpoint_save_finish(t->save, err);
    comm_work_end(t->c, before);
    t->save = NULL;
    return s ? bear(t, s, err) : succeeded(t, err);
}

static status save_once(trainer *t, bool async, error *err)
{
    const job *j = &t->s->j;
    const char *folder = j->save;
    int64_t wanted = j->keep;
    int keep = wanted > 0 ? (int)wanted : 0;
    trainer_gather(t);
    t->at.optimizer_steps = t->opt.steps;
    lent_checkpoint l;
    status s = trainer_lend(t, true, &l, err);
    if (s) return s;
    t->saved = (checkpoint_note){t->at.iteration, folder, "moefold", t->s->lay.tp, t->s->lay.pp};
    char line[LINE_BYTES];
    saving_print(line, sizeof line, &t->saved);
    trainer_say(t, lines_to(t), line);
    comm_where(t->c, "saving a checkpoint", NULL);
    comm_work before = comm_work_begin(t->c, WORK_SAVE);
    s = async ? checkpoint_save_start(&t->save, &l.c, folder, keep, err)
              : checkpoint_save(&l.c, folder, keep, err);
    trainer_return(&l, ARRAY_READ);
    comm_work_end(t->c, before);
    return s;
}

status trainer_save(trainer *t, bool last, error *err)
{
    bool async = t->s->j.async_save && !last;
    status s = trainer_save_finish(t, err), failed = OK;
    do {
        if (failed) nanosleep(&(struct timespec){last_wait_seconds, 0}, NULL);
        failed = s ? OK : save_once(t, async, err);
        if (failed) s = bear(t, failed, err);
    } while (failed && !s && last);
    return s || failed || async ? s : succeeded(t, err);
}

/* ---- going back */

/* Nothing is saved while steps are skipped, so the latest is from before. It may have been saved
 * after the step that did the harm: a finite update to weights that give no finite loss. */
const char *trainer_last_good(const trainer *t)
{
    const char *folder = t->s->j.save, *key = knobs[K_CKPT_STEP].key;
    int64_t latest = -1, before = -1;
    error ignored;
    if (checkpoint_latest(folder, &latest, &ignored) || latest < 0)
        return arena_text(t->a, "there is no checkpoint in %s to go back to", folder);
    (void)checkpoint_previous(folder, latest, &before, &ignored);
    const char *text = arena_text(t->a, "the last checkpoint before them is iteration %lld of %s",
                                  (long long)latest, folder);
    if (before < 0) return text;
    return arena_text(t->a, "%s (%s=%lld: the one before it)", text, key, (long long)before);
}
