/* lines.c - what a run says after its steps: lines, who is slow, what messages cost, and what
 * `moefold eval` found. Rank 0 prints them, with numbers of all ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/comm/agree.h"
#include "base/clock.h"
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

/* ---- slow ranks
 *
 * All ranks leave a step together, so the time of a step says nothing about a rank: what counts is
 * its time without waiting for messages. */

static const double slow = 1.3; /* times the median */

/* Streams that are told together. */
static const struct {
    const char *name;
    op_stream first, last;
} stream_rows[] = {
    {"compute", STREAM_COMPUTE, STREAM_COMPUTE},
    {"layers", STREAM_COMM, STREAM_COMM},
    {"stages", STREAM_SEND_FORWARD, STREAM_RECV_BACKWARD},
    {"replicas", STREAM_DP, STREAM_DP},
    {"copies", STREAM_COPY, STREAM_COPY_BACK},
    {"control", STREAM_HOST, STREAM_HOST},
};

void trainer_count(trainer *t, double seconds, double waited)
{
    t->busy += seconds - waited;
    t->busy_steps++;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void trainer_compare(trainer *t)
{
    int64_t n = comm_size(t->c), slowest = 0;
    arena *scratch = arena_create();
    double mine = t->busy_steps ? t->busy / (double)t->busy_steps : 0;
    double *all = ARENA_ARRAY(scratch, double, n), *sorted = ARENA_ARRAY(scratch, double, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 1; r < n; r++)
        if (all[r] > all[slowest]) slowest = r;
    memcpy(sorted, all, sizeof *all * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double median = sorted[(n - 1) / 2];
    if (n > 1 && all[slowest] > slow * median)
        trainer_say(t, stderr,
                    arena_text(scratch,
                               "rank %lld of %lld is slow: %.3g s a step, the others %.3g s "
                               "(without waiting for communication)",
                               (long long)slowest, (long long)n, all[slowest], median));
    arena_destroy(scratch);
    t->compared = clock_seconds();
    t->busy = 0;
    t->busy_steps = 0;
}

/* ---- traffic */

/* What has come since `from`, a step; of each number the largest of all ranks. */
static comm_stats since(trainer *t, const comm_stats *from, int64_t steps)
{
    enum { N = sizeof(comm_stats) / sizeof(double) };
    _Static_assert(sizeof(comm_stats) == N * sizeof(double), "a comm_stats is all doubles");
    comm_stats now = *comm_statistics(t->c);
    double a[N], b[N];
    memcpy(a, &now, sizeof a);
    memcpy(b, from, sizeof b);
    for (int i = 0; i < N; i++) a[i] = (a[i] - b[i]) / (double)(steps > 0 ? steps : 1);
    comm_max(t->c, GROUP_WORLD, a, N);
    memcpy(&now, a, sizeof now);
    return now;
}

/* Where ranks move messages by themselves the host waits for others to come to them, while the
 * device goes on: that is not what a step is exposed to. */
static void print_streams(trainer *t, const comm_stats *s, arena *a)
{
    bool by_device = executor_transport(t->e) != NULL;
    trainer_say(t, stderr, "communication of a step, on the rank that has the most");
    trainer_say(t, stderr,
                by_device ? "  stream      messages host waits ms"
                          : "  stream      messages   exposed ms");
    for (size_t i = 0; i < sizeof stream_rows / sizeof stream_rows[0]; i++) {
        double messages = 0, exposed = 0;
        for (int k = (int)stream_rows[i].first; k <= (int)stream_rows[i].last; k++) {
            messages += s->messages[k];
            exposed += s->exposed[k];
        }
        if (messages > 0)
            trainer_say(t, stderr,
                        arena_text(a, "  %-10s %9.1f %12.3f", stream_rows[i].name, messages,
                                   1000 * exposed));
    }
}

static void print_groups(trainer *t, const comm_stats *s, arena *a)
{
    trainer_say(t, stderr, "  group           in the node    in the NVLink domain          across");
    for (int g = 0; g < GROUP_COUNT; g++) {
        const double *b = s->bytes[g];
        if (b[LEVEL_NODE] + b[LEVEL_DOMAIN] + b[LEVEL_ACROSS] <= 0) continue;
        trainer_say(t, stderr,
                    arena_text(a, "  %-10s %16s %23s %15s", comm_group_name((comm_group)g),
                               text_bytes(a, (int64_t)b[LEVEL_NODE]),
                               text_bytes(a, (int64_t)b[LEVEL_DOMAIN]),
                               text_bytes(a, (int64_t)b[LEVEL_ACROSS])));
    }
}

static void print_traffic(trainer *t, const comm_stats *s)
{
    arena *scratch = arena_create();
    print_streams(t, s, scratch);
    print_groups(t, s, scratch);
    arena_destroy(scratch);
}

void trainer_traffic_line(trainer *t)
{
    if (comm_size(t->c) == 1 || t->s->j.timing_level < 1) return;
    comm_stats s = since(t, &t->reported, t->reported_steps);
    print_traffic(t, &s);
    t->reported = *comm_statistics(t->c);
    t->reported_steps = 0;
}

void trainer_traffic(trainer *t, train_summary *sum, int64_t steps)
{
    if (comm_size(t->c) == 1 || steps < 1) return;
    sum->traffic = since(t, &(comm_stats){0}, steps);
    print_traffic(t, &sum->traffic);
}

/* ---- `moefold eval`: the loss over a whole set, and nothing else */

static const char *data_of(const trainer *t)
{
    bool mock = t->s->j.mock_data;
    textbuf text = text_init(t->a);
    for (int i = 0; !mock && i < data_members(t->data, DATA_VALID); i++)
        text_add(&text, "%s%s", i ? ", " : "", data_name(t->data, DATA_VALID, i));
    if (t->o->evaluate == EVALUATE_VALIDATION)
        text_add(&text, "%s", mock ? "mock data" : ", for validation");
    return text.s;
}

status trainer_evaluation(trainer *t, train_summary *sum, error *err)
{
    double start = clock_seconds();
    step_losses losses;
    int64_t n = data_length(t->data, DATA_VALID);
    /* a set of mock data never ends */
    if (t->s->j.mock_data) n = t->s->j.eval_iters * t->gbs;
    progress_init(&t->bar, stderr, 0, 0, start);
    status s = trainer_evaluate(t, DATA_VALID, (sample_span){0, n}, &losses, err);
    if (s) return s;
    double loss = losses.list[losses.n - 1].value;
    sum->evaluated = (evaluation){.weights = t->loaded_from,
                                  .data = data_of(t),
                                  .iteration = t->loaded_iteration,
                                  .samples = n,
                                  .tokens = (int64_t)llround(losses.sums[SUM_TOKENS]),
                                  .loss = loss,
                                  .perplexity = exp(loss),
                                  .seconds = clock_seconds() - start};
    return OK;
}
