/* trainer.c - the loop: steps, updates, lines, checkpoints, signals. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "run/trainer_state.h"

/* ---- signals */

static volatile sig_atomic_t asked_to_leave;

static void on_signal(int number)
{
    (void)number;
    asked_to_leave = 1;
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    asked_to_leave = 0;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* ---- the update */

static void update_expert_bias(trainer *t)
{
    double rate = recipe_real(&t->s->r, K_BIAS_RATE);
    const float *load = executor_step_buffer(t->e, STEP_LOAD);
    if (!t->s->m.expert_bias || rate == 0) return;
    for (int i = 0; i < t->p.weights.n; i++) {
        const weight *w = &t->p.weights.list[i];
        if (!w->row->trained)
            expert_bias_update(t->w + w->offset, load + w->layer * t->s->m.experts, w->n, rate);
    }
}

static step_result update(trainer *t, const step_losses *losses)
{
    step_rates rates = {schedule_lr(&t->rates, t->at.scheduler_samples),
                        schedule_embedding_lr(&t->rates, t->at.scheduler_samples),
                        schedule_decay(&t->rates, t->at.scheduler_samples), 1};
    step_result r = {.outcome = STEP_NOT_FINITE, .norm = NAN};
    if (losses->finite) {
        update_expert_bias(t);
        r = optimizer_step(&t->opt, t->w, t->g, t->m, t->v, rates);
    }
    if (r.outcome == STEP_TAKEN)
        t->at.scheduler_samples += t->gbs;
    else
        t->at.skipped_iterations++;
    t->at.iteration++;
    t->at.consumed_samples += t->gbs;
    return r;
}

/* ---- lines */

static status print_line(trainer *t, const step_result *r, double lr, error *err)
{
    const recipe *rec = &t->s->r;
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
    int64_t tokens = t->gbs * t->p.S;
    line.tflops =
        iteration_tflops(model_flops_per_token(&t->s->m, t->p.S), tokens, line.seconds, 1);
    line.tokens_per_second = (double)tokens / line.seconds;
    if (recipe_on(rec, K_LOG_THROUGHPUT)) line.has |= LINE_THROUGHPUT;
    if (recipe_on(rec, K_LOG_PARAMS_NORM)) {
        line.params_norm = sqrt(optimizer_squares(&t->opt, t->w));
        line.has |= LINE_PARAMS_NORM;
    }
    if (recipe_on(rec, K_LOG_ZEROS)) {
        line.zeros = optimizer_zeros(&t->opt, t->g);
        line.has |= LINE_ZEROS;
    }
    char text[LINE_BYTES];
    json_t *json = iteration_line_json(&line);
    if (t->o->json) {
        char *dump = json_dumps(json, JSON_COMPACT);
        progress_line(&t->bar, stdout, dump ? dump : "{}");
        free(dump);
    } else {
        iteration_line_print(text, sizeof text, &line);
        progress_line(&t->bar, stdout, text);
    }
    fflush(stdout);
    if (t->metrics.file) return metrics_write(&t->metrics, json, err);
    json_decref(json);
    return OK;
}

/* Once, after two steps, as Megatron does. The arena is all there is, so now and peak are one
 * number. */
static void print_memory(trainer *t, int64_t steps)
{
    char text[LINE_BYTES];
    if (steps != 2) return;
    memory_print(text, sizeof text, steps, t->p.arena_bytes, t->p.arena_bytes);
    progress_line(&t->bar, t->o->json ? stderr : stdout, text);
}

static status print_validation(trainer *t, error *err)
{
    int64_t every = recipe_int(&t->s->r, K_EVAL_INTERVAL);
    if (every < 1 || t->at.iteration % every != 0 || !data_length(t->data, DATA_VALID)) return OK;
    step_losses losses;
    status s = trainer_validate(t, recipe_int(&t->s->r, K_EVAL_ITERS), &losses, err);
    if (s) return s;
    char text[LINE_BYTES];
    char *name = arena_text(t->a, "iteration %lld", (long long)t->at.iteration);
    validation_print(text, sizeof text, name, losses.list, losses.n);
    progress_line(&t->bar, t->o->json ? stderr : stdout, text);
    return OK;
}

/* ---- the loop */

static bool should_save(const trainer *t, bool last)
{
    int64_t every = recipe_int(&t->s->r, K_SAVE_INTERVAL);
    if (!recipe_given(&t->s->r, K_SAVE)) return false;
    return last || (every > 0 && t->at.iteration % every == 0);
}

static bool should_leave(const trainer *t)
{
    int64_t every = recipe_int(&t->s->r, K_EXIT_INTERVAL);
    int64_t minutes = recipe_int(&t->s->r, K_EXIT_MINUTES);
    return asked_to_leave || (every > 0 && t->at.iteration % every == 0) ||
           (minutes > 0 && trainer_seconds() - t->started > 60.0 * (double)minutes);
}

static status judge(trainer *t, const step_result *r, const step_losses *losses, error *err)
{
    if (r->outcome != STEP_NOT_FINITE || recipe_is(&t->s->r, K_ON_NAN, "skip")) return OK;
    return error_set(err, ERR_MACHINE,
                     "step %lld: lm loss %g, gradient norm %g; stopped as moefold.on_nan=stop asks "
                     "(nothing after the last checkpoint is kept)",
                     (long long)t->at.iteration, losses->list[0].value, r->norm);
}

static status one_step(trainer *t, train_summary *sum, error *err)
{
    double start = trainer_seconds(), lr = schedule_lr(&t->rates, t->at.scheduler_samples);
    step_losses losses;
    status s = trainer_step(t, &losses, err);
    if (s) return s;
    step_result r = update(t, &losses);
    double seconds = trainer_seconds() - start;
    bool skipped = r.outcome != STEP_TAKEN;
    log_interval_add(&t->interval, losses.list, losses.n, skipped, seconds);
    if (!sum->iterations) sum->first_loss = losses.list[0].value;
    sum->last_loss = losses.list[0].value;
    sum->iterations++;
    sum->skipped += skipped;
    sum->seconds += seconds;
    progress_step(&t->bar, t->at.iteration, trainer_seconds());
    s = judge(t, &r, &losses, err);
    bool last = t->at.iteration == t->train_iters;
    if (!s && (last || t->at.iteration % recipe_int(&t->s->r, K_LOG_INTERVAL) == 0))
        s = print_line(t, &r, lr, err);
    if (!s) print_memory(t, sum->iterations);
    return s;
}

static status loop(trainer *t, train_summary *sum, error *err)
{
    status s = OK;
    while (!s && t->at.iteration < t->train_iters) {
        s = one_step(t, sum, err);
        if (!s) s = print_validation(t, err);
        if (s) break;
        bool leave = should_leave(t);
        if (should_save(t, leave || t->at.iteration == t->train_iters)) s = trainer_save(t, err);
        if (leave) {
            sum->interrupted = true;
            break;
        }
    }
    return s;
}

/* ---- putting it together */

static status open_data(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    data_options o = data_defaults();
    int n = recipe_count(r, K_DATA_PATH);
    const char **paths = ARENA_ARRAY(t->a, const char *, n + 1);
    for (int i = 0; i < n; i++) paths[i] = recipe_item(r, K_DATA_PATH, i).text;
    int64_t every = recipe_int(r, K_EVAL_INTERVAL);
    o.paths = recipe_on(r, K_MOCK_DATA) ? NULL : paths;
    o.n_paths = recipe_on(r, K_MOCK_DATA) ? 0 : n;
    o.split = recipe_word(r, K_SPLIT);
    o.seq_length = t->p.S;
    o.seed = recipe_int(r, K_DATA_SEED);
    o.vocab_size = (int32_t)t->s->m.vocab;
    o.eod = o.vocab_size - 1;
    o.surplus = recipe_real(r, K_SURPLUS);
    o.eod_mask_loss = recipe_on(r, K_EOD_MASK);
    o.read_bin = !recipe_on(r, K_MMAP);
    o.n_samples[DATA_TRAIN] = t->train_iters * t->gbs;
    if (every > 0)
        o.n_samples[DATA_VALID] =
            (t->train_iters / every + 1) * recipe_int(r, K_EVAL_ITERS) * t->gbs;
    return data_open(&t->data, &o, t->a, err);
}

static status run_length(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    t->gbs = recipe_int(r, K_GBS);
    t->train_iters = recipe_given(r, K_TRAIN_SAMPLES) ? recipe_int(r, K_TRAIN_SAMPLES) / t->gbs
                                                      : recipe_int(r, K_TRAIN_ITERS);
    if (t->train_iters > 0) return OK;
    return error_set(err, ERR_RULE,
                     "how long? give train.train_iters (steps) or train.train_samples");
}

static void take_arrays(trainer *t)
{
    int64_t T = t->p.T;
    t->tokens = ARENA_ARRAY(t->a, int32_t, T);
    t->labels = ARENA_ARRAY(t->a, int32_t, T);
    t->positions = ARENA_ARRAY(t->a, int32_t, T);
    t->mask = ARENA_ARRAY(t->a, float, T);
    t->tokens_of = ARENA_ARRAY(t->a, double, t->p.micros);
    t->w = executor_region(t->e, REGION_WEIGHTS);
    t->g = executor_region(t->e, REGION_GRADIENTS);
    t->m = executor_region(t->e, REGION_OPTIMIZER);
    t->v = t->m + t->p.weights.trained;
}

static status open_all(trainer *t, error *err)
{
    const recipe *r = &t->s->r;
    status s = run_length(t, err);
    if (!s) s = schedule_init(&t->rates, r, t->gbs, err);
    if (!s) program_build(&t->p, t->s, t->a);
    int threads = t->o->threads > 0 ? t->o->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!s) kernels_threads(threads);
    if (!s) s = executor_open(&t->e, &t->p, t->o->plain, err);
    if (s) return s;
    take_arrays(t);
    optimizer_init(&t->opt, r, &t->p.weights, DECAY_MEGATRON, t->a);
    s = trainer_start(t, err);
    if (!s) s = open_data(t, err);
    if (!s && t->o->metrics) s = metrics_open(&t->metrics, t->o->metrics, t->at.iteration > 0, err);
    batch_tables(t->e, &t->p);
    return s;
}

status trainer_run(const setup *s, const train_options *o, train_summary *sum, arena *a, error *err)
{
    trainer *t = ARENA_NEW(a, trainer);
    *t = (trainer){.s = s, .o = o, .a = a, .started = trainer_seconds()};
    *sum = (train_summary){0};
    progress_init(&t->bar, stderr, 0, 0, trainer_seconds());
    status st = open_all(t, err);
    if (!st) {
        watch_signals();
        progress_init(&t->bar, stderr, t->at.iteration, t->train_iters, trainer_seconds());
        st = loop(t, sum, err);
    }
    progress_finish(&t->bar);
    if (sum->seconds > 0)
        sum->tokens_per_second = (double)(sum->iterations * t->gbs * t->p.S) / sum->seconds;
    error ignored;
    if (t->metrics.file) metrics_close(&t->metrics, st ? &ignored : err);
    data_close(t->data);
    executor_close(t->e);
    return st;
}
