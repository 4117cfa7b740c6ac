/* lines.c - the lines that a run prints after its steps. Rank 0 prints them, with numbers of all
 * ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/comm/agree.h"
#include "train/loop/state.h"

void trainer_say(trainer *t, FILE *to, const char *text)
{
    if (comm_rank(t->c) == 0) progress_line(&t->bar, to, text);
}

/* Of one array, what this rank answers for. */
static status measure(trainer *t, array_kind k, double *sum, error *err)
{
    array_loan l;
    status s = array_borrow(&l, t->e, t->p, k, err);
    if (s) return s;
    typed x = {DTYPE_F32, l.values};
    *sum = k == ARRAY_WEIGHTS ? optimizer_squares(&t->opt, x) : (double)optimizer_zeros(&t->opt, x);
    array_return(&l, ARRAY_READ);
    return OK;
}

/* Numbers that are asked for are added up over all ranks. */
static status add_wanted(trainer *t, iteration_line *line, error *err)
{
    const job *j = &t->s->j;
    bool norm = j->log_params_norm, zeros = j->log_zeros;
    double sums[2] = {0, 0};
    if (!norm && !zeros) return OK;
    status s = norm ? measure(t, ARRAY_WEIGHTS, &sums[0], err) : OK;
    if (!s && zeros) s = measure(t, ARRAY_GRADIENTS, &sums[1], err);
    s = ranks_agree(t->c, s, err);
    if (s) return s;
    comm_sum(t->c, GROUP_WORLD, sums, 2);
    line->params_norm = sqrt(sums[0]);
    line->zeros = (int64_t)sums[1];
    if (norm) line->has |= LINE_PARAMS_NORM;
    if (zeros) line->has |= LINE_ZEROS;
    return OK;
}

status trainer_event(trainer *t, json_t *event, error *err)
{
    if (t->o->json) {
        char *dump = json_dumps(event, JSON_COMPACT);
        trainer_say(t, stdout, dump ? dump : "{}");
        free(dump);
        fflush(stdout);
    }
    status s = OK;
    comm_work before = comm_work_begin(t->c, WORK_WRITE);
    if (t->metrics.file)
        s = metrics_write(&t->metrics, event, err);
    else
        json_decref(event);
    comm_work_end(t->c, before);
    return t->o->metrics ? ranks_agree(t->c, s, err) : s;
}

static void print(trainer *t, const iteration_line *line)
{
    char text[LINE_BYTES];
    iteration_line_print(text, sizeof text, line);
    trainer_say(t, stdout, text);
    fflush(stdout);
}

status trainer_line(trainer *t, const step_result *r, double lr, error *err)
{
    iteration_line line = {.when = time(NULL),
                           .iteration = t->at.iteration,
                           .train_iters = t->train_iters,
                           .consumed_samples = t->at.consumed_samples,
                           .lr = lr,
                           .global_batch = t->gbs,
                           .loss_scale = 1,
                           .norm = r->norm,
                           .has = LINE_NORM};
    log_interval_close(&t->interval, &line);
    int64_t seq = batch_seq(t->p), tokens = t->gbs * seq;
    double flops = model_flops_per_token(&t->s->m, seq);
    line.tflops = iteration_tflops(flops, tokens, line.seconds, t->s->lay.world);
    line.tokens_per_second = (double)tokens / line.seconds;
    if (t->s->j.log_throughput) line.has |= LINE_THROUGHPUT;
    status s = add_wanted(t, &line, err);
    if (s) return s;
    if (!t->o->json) print(t, &line);
    s = trainer_event(t, iteration_line_json(&line), err);
    if (!s) s = trainer_board_line(t, &line, err);
    trainer_traffic_line(t);
    return s;
}

/* Once, after two steps, as Megatron does, of the fullest rank. The arena is all there is, so now
 * and peak are one number. */
void trainer_memory_line(trainer *t, int64_t steps)
{
    static const char first[] = "[Rank 0]";
    char text[LINE_BYTES];
    if (steps != 2) return;
    arena *scratch = arena_create();
    int64_t n = comm_size(t->c), mine = t->p->arena_bytes, fullest = 0;
    int64_t *all = ARENA_ARRAY(scratch, int64_t, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 1; r < n; r++)
        if (all[r] > all[fullest]) fullest = r;
    memory_print(text, sizeof text, steps, all[fullest], all[fullest]);
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(scratch, "[Rank %lld]%s", (long long)fullest, text + strlen(first)));
    arena_destroy(scratch);
}

/* Evaluates samples of a set, says the losses and makes them an event. */
static status evaluate(trainer *t, data_split which, sample_span span, const char *set,
                       step_losses *losses, error *err)
{
    trainer_gather(t);
    status s = trainer_evaluate(t, which, span, losses, err);
    if (s) return s;
    char text[LINE_BYTES];
    char *name = arena_text(t->a, "iteration %lld%s", (long long)t->at.iteration, set);
    validation_print(text, sizeof text, name, losses->list, losses->n);
    trainer_say(t, t->o->json ? stderr : stdout, text);
    json_t *event =
        validation_json(t->at.iteration, data_split_names[which], losses->list, losses->n);
    return trainer_event(t, event, err);
}

/* While steps are skipped nothing is saved. */
static void note_best(trainer *t, double loss)
{
    if (!t->s->j.keep_best || t->skipped_in_a_row || !isfinite(loss)) return;
    if (t->at.best && !(loss < t->at.best_loss)) return;
    t->at.best = t->at.iteration;
    t->at.best_loss = loss;
}

status trainer_validation_line(trainer *t, error *err)
{
    int64_t every = t->s->j.eval_interval;
    if (every < 1 || t->at.iteration % every != 0 || !data_length(t->data, DATA_VALID)) return OK;
    step_losses losses;
    sample_span span = {t->at.consumed_valid_samples, t->s->j.eval_iters * t->gbs};
    status s = evaluate(t, DATA_VALID, span, "", &losses, err);
    if (s) return s;
    t->at.consumed_valid_samples += span.n;
    note_best(t, losses.list[losses.n - 1].value);
    return trainer_board_validation(t, &losses, err);
}

status trainer_skip_train(trainer *t, error *err)
{
    const sample_span span = {0, t->s->j.eval_iters * t->gbs};
    static const char *const sets[] = {
        [DATA_VALID] = " on validation set", [DATA_TEST] = " on test set"};
    step_losses losses;
    status s = OK;
    for (data_split i = DATA_VALID; i <= DATA_TEST && !s; i++)
        if (data_length(t->data, i)) s = evaluate(t, i, span, sets[i], &losses, err);
    return s;
}
