/* trainer.c - the loop: steps, updates, lines, checkpoints, signals. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/waiting.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

bool trainer_asked(void)
{
    return stop_asked();
}

/* ---- after a step */

void trainer_gather(trainer *t)
{
    if (t->stale) executor_part(t->e, PART_GATHER);
    t->stale = false;
}

/* The counters follow what the step did. */
static void count_step(trainer *t, step_outcome outcome)
{
    if (outcome == STEP_TAKEN) {
        t->skipped_in_a_row = 0;
        t->opt.steps += t->p->types.moments;
        t->at.scheduler_samples += t->gbs;
    } else {
        t->at.skipped_iterations++;
        t->skipped_in_a_row++;
    }
    t->at.iteration++;
    t->at.consumed_samples += t->gbs;
}

/* ---- the loop */

/* While steps are skipped the weights are suspect: what was saved before stays as it is. */
static bool should_save(trainer *t, const step_losses *losses, bool last)
{
    int64_t every = t->s->j.save_interval;
    if (!job_has(&t->s->j, K_SAVE)) return false;
    bool best = t->s->j.keep_best && t->at.best == t->at.iteration;
    bool due =
        last || best || losses->sums[SUM_AGAIN] > 0 || (every > 0 && t->at.iteration % every == 0);
    if (!due) return false;
    if (!t->skipped_in_a_row) return true;
    trainer_say(
        t, stderr,
        arena_text(t->a, "step %lld is not saved in %s, because the last %lld steps were skipped",
                   (long long)t->at.iteration, t->s->j.save, (long long)t->skipped_in_a_row));
    return false;
}

static bool should_leave(const trainer *t, const step_losses *losses)
{
    int64_t every = t->s->j.exit_interval;
    return losses->sums[SUM_LEAVE] > 0 || (every > 0 && t->at.iteration % every == 0);
}

/* Is a NaN or Inf of this step one that moefold.on_nan=stop stops at? Megatron's two checks say
 * where it looks. */
static bool looks_at(const trainer *t, const step_result *r)
{
    if (r->outcome == STEP_LOSS_NOT_FINITE) return t->s->j.nan_loss;
    return r->outcome == STEP_NOT_FINITE && t->s->j.nan_grad;
}

static status judge(const trainer *t, const step_losses *losses, error *err)
{
    const step_result *r = &losses->result;
    int64_t limit = t->s->j.skip_limit, skipped = t->skipped_in_a_row;
    if (t->s->j.on_nan == J_ON_NAN_STOP && looks_at(t, r))
        return error_set(err, ERR_MACHINE,
                         "step %lld: lm loss %g, gradient norm %g; stopped because "
                         "moefold.on_nan=stop (steps after the last checkpoint are lost)",
                         (long long)t->at.iteration, losses->list[0].value, r->norm);
    if (limit == 0 || skipped < limit) return OK;
    return error_set(
        err, ERR_MACHINE,
        "step %lld: %lld steps in a row were skipped (lm loss %g, gradient norm %g): the run has "
        "diverged; stopped by moefold.skip_limit=%lld; repair: lower optimizer.lr",
        (long long)t->at.iteration, (long long)skipped, losses->list[0].value, r->norm,
        (long long)limit);
}

/* A run that ends while steps are skipped, told to or not, has no checkpoint of its end: that is no
 * success where one was asked for. Whatever ended it, what can be gone back to is said. */
static status judge_end(trainer *t, bool interrupted, status s, error *err)
{
    if (!t->skipped_in_a_row || !job_has(&t->s->j, K_SAVE)) return s;
    if (!s)
        s = error_set(err, ERR_MACHINE,
                      "the run %s at step %lld with %lld skipped steps in a row, so its end is not "
                      "saved in checkpoint.save=%s; repair: lower optimizer.lr",
                      interrupted ? "was told to stop" : "ended", (long long)t->at.iteration,
                      (long long)t->skipped_in_a_row, t->s->j.save);
    const char *text = arena_copy(t->a, err->text, strlen(err->text));
    return error_set(err, s, "%s; %s", text, trainer_last_good(t));
}

static double waited(const trainer *t)
{
    const comm_stats *s = comm_statistics(t->c);
    double sum = 0;
    for (int i = 0; i < STREAM_COUNT; i++) sum += s->exposed[i];
    return sum;
}

static void count(trainer *t, train_summary *sum, const step_losses *losses, bool skipped,
                  double seconds)
{
    log_interval_add(&t->interval, losses->list, losses->n, skipped, seconds);
    if (!skipped && sum->iterations == sum->skipped) sum->first_loss = losses->list[0].value;
    if (!skipped) sum->last_loss = losses->list[0].value;
    sum->iterations++;
    sum->skipped += skipped;
    sum->seconds += seconds;
    t->reported_steps++;
    progress_step(&t->bar, t->at.iteration, clock_seconds());
}

static status one_step(trainer *t, train_summary *sum, step_losses *losses, error *err)
{
    double start = clock_seconds(), lr = schedule_lr(&t->rates, t->at.scheduler_samples);
    double before = waited(t);
    trainer_folder_begin(t);
    trainer_predict_begin(t);
    status s = trainer_step(t, losses, err);
    if (s) return s;
    step_result r = losses->result;
    if (r.outcome != STEP_LOSS_NOT_FINITE) trainer_routing_step(t);
    count_step(t, r.outcome);
    double ended = clock_seconds(), seconds = ended - start;
    trainer_folder_step(t, seconds);
    tracing_end(t->tracing, t->e, t->p, (step_clock){t->loaded, ended});
    trainer_count(t, seconds, waited(t) - before);
    trainer_predict_step(t, seconds);
    count(t, sum, losses, r.outcome != STEP_TAKEN, seconds);
    status judged = judge(t, losses, err);
    bool last = t->at.iteration == t->train_iters;
    if (!judged && (last || t->at.iteration % t->s->j.log_interval == 0))
        s = trainer_line(t, &r, lr, err);
    if (judged || s) return judged ? judged : s;
    trainer_memory_line(t, sum->iterations);
    if (sum->iterations == 1) s = trainer_outside_arena_first(t, err);
    if (s) return s;
    if (losses->sums[SUM_MINUTE] > 0) trainer_compare(t);
    if (t->save && losses->sums[SUM_SAVING] == 0) s = trainer_save_finish(t, err);
    return s;
}

static status loop(trainer *t, train_summary *sum, error *err)
{
    status s = OK;
    step_losses losses;
    while (!s && !sum->interrupted && t->at.iteration < t->train_iters) {
        s = one_step(t, sum, &losses, err);
        if (!s) s = trainer_validation_line(t, err);
        if (s) break;
        sum->interrupted = should_leave(t, &losses);
        sum->told = losses.sums[SUM_LEAVE] > 0 && t->at.iteration < t->train_iters;
        bool last = sum->interrupted || t->at.iteration == t->train_iters,
             save = should_save(t, &losses, last);
        if (save) s = trainer_save(t, last, err);
        if (!s && (save || last)) s = trainer_routing_save(t, err);
    }
    if (!s) trainer_gather(t);
    error ignored;
    status ended = trainer_save_finish(t, s ? &ignored : err);
    return judge_end(t, sum->interrupted, s ? s : ended, err);
}

static void start_loop(trainer *t)
{
    stop_watch(comm_launched(), comm_told_to_end);
    comm_statistics_clear(t->c);
    t->compared = clock_seconds();
    progress_init(&t->bar, stderr, t->at.iteration, t->train_iters, clock_seconds());
    if (comm_rank(t->c) > 0) t->bar.on = false;
}

/* What was written last may fail only now. `st` is the same on all ranks. */
static status close_metrics(trainer *t, status st, error *err)
{
    error why = {{0}};
    status s = t->metrics.file ? metrics_close(&t->metrics, &why) : OK;
    if (st || !t->o->metrics) return st;
    if (s) *err = why;
    return ranks_agree(t->c, s, err);
}

/* Who reads what steps give. */
static status open_readers(trainer *t, error *err)
{
    TRY(trainer_board_open(t, err));
    TRY(trainer_routing_open(t, err));
    TRY(trainer_predict(t, err));
    TRY(trainer_trace_open(t, err));
    return trainer_announce(t, err);
}

static status train(trainer *t, train_summary *sum, error *err)
{
    start_loop(t);
    status st = loop(t, sum, err);
    progress_finish(&t->bar);
    if (t->o->run) t->counted[COUNT_END] = system_count_now();
    if (st) return st;
    trainer_traffic(t, sum, sum->iterations);
    trainer_predict_table(t);
    TRY(trainer_outside_arena_last(t, err));
    TRY(trainer_host_line(t, err));
    return trainer_trace_write(t, err);
}

static status work(trainer *t, train_summary *sum, error *err)
{
    if (t->o->touched) return trainer_touched(t, err);
    if (t->o->evaluate) return trainer_evaluation(t, sum, err);
    return t->s->j.skip_train ? trainer_skip_train(t, err) : train(t, sum, err);
}

status trainer_run(const setup *s, comm *c, const train_options *o, train_summary *sum, arena *a,
                   error *err)
{
    trainer *t = ARENA_NEW(a, trainer);
    *t = (trainer){.given = s,
                   .s = s,
                   .c = c,
                   .o = o,
                   .a = a,
                   .started = clock_seconds(),
                   .outside_arena = -1,
                   .loaded_iteration = -1};
    *sum = (train_summary){.first_loss = NAN, .last_loss = NAN};
    progress_init(&t->bar, stderr, 0, 0, clock_seconds());
    bool first = comm_rank(c) == 0;
    if (o->run) t->counted[COUNT_START] = system_count_now();
    comm_work before = comm_work_begin(c, WORK_START);
    if (first) waiting_begin("train", "program, weights, data", WAITING_UNKNOWN, 0);
    status st = trainer_open_all(t, err);
    if (!st && !o->touched && !o->evaluate) st = open_readers(t, err);
    if (first) waiting_end();
    comm_work_end(c, before);
    if (!st) st = work(t, sum, err);
    if (!st && t->e) executor_settle(t->e);
    if (sum->seconds > 0)
        sum->tokens_per_second =
            (double)(sum->iterations * t->gbs * batch_seq(t->p)) / sum->seconds;
    st = close_metrics(t, st, err);
    st = trainer_board_close(t, st, err);
    st = trainer_folder_close(t, sum, st, err);
    trainer_save_close(t);
    data_close(t->data);
    executor_close(t->e);
    return st;
}
