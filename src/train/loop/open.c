/* open.c - everything that a run opens before its first step.
 *
 * I1  Each rank first does what it can do alone; then all agree. So no rank waits in a collective
 *     call for one that has already failed and left. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/maths.h"
#include "backend/comm/agree.h"
#include "train/loop/facts.h"
#include "train/loop/state.h"
#include "train/executor/touched.h"

/* ---- data */

/* Mock data end with the last id, as with Megatron's NullTokenizer, unless a person names one. */
static int32_t end_of_document(const trainer *t, bool mock)
{
    const job *j = &t->s->j;
    if (mock && !recipe_by_user(&t->s->r, K_EOD)) return (int32_t)t->s->m.vocab - 1;
    return job_has(j, K_EOD) ? (int32_t)j->eod : -1;
}

/* Megatron would leave validation out without a word. */
static status nothing_to_validate(const trainer *t, error *err)
{
    const job *j = &t->s->j;
    const char *instead =
        t->o->evaluate ? "--data FILE" : arena_text(t->a, "%s=null", knobs[K_EVAL_INTERVAL].key);
    if (job_has(j, K_TRAIN_DATA) || job_has(j, K_VALID_DATA) || job_has(j, K_TEST_DATA) ||
        job_has(j, K_SPLIT_ARGS))
        return error_set(err, ERR_INPUT,
                         "files are named for each set, but none for validation; repair: %s=FILE, "
                         "or %s",
                         knobs[K_VALID_DATA].key, instead);
    return error_set(err, ERR_INPUT,
                     "%s=%s leaves nothing for validation; repair: give its second number a part, "
                     "as in '969,30,1', or %s",
                     knobs[K_SPLIT].key, j->split, instead);
}

static status open_data(trainer *t, error *err)
{
    const job *j = &t->s->j;
    data_options o = data_defaults();
    int64_t every = j->eval_interval;
    status s = trainer_files(t, &o, err);
    if (s) return s;
    o.split = j->split;
    o.seq_length = batch_seq(t->p);
    o.seed = j->data_seed;
    o.vocab_size = (int32_t)t->s->m.vocab;
    o.eod = end_of_document(t, j->mock_data);
    o.surplus = j->surplus;
    o.eod_mask_loss = j->eod_mask;
    o.read_bin = !j->mmap;
    o.n_samples[DATA_TRAIN] = t->train_iters * t->gbs;
    if (every > 0) o.n_samples[DATA_VALID] = (t->train_iters / every + 1) * j->eval_iters * t->gbs;
    if (j->skip_train) {
        o.n_samples[DATA_TRAIN] = 0;
        o.n_samples[DATA_VALID] = o.n_samples[DATA_TEST] = j->eval_iters * t->gbs;
    }
    if (t->o->evaluate) {
        o.n_samples[DATA_TRAIN] = o.n_samples[DATA_TEST] = 0;
        o.n_samples[DATA_VALID] = j->mock_data ? j->eval_iters * t->gbs : DATA_ALL;
        o.drop_partial_valid = false;
    }
    s = data_open(&t->data, &o, t->a, err);
    bool some = !s && (data_length(t->data, DATA_VALID) || data_length(t->data, DATA_TEST));
    return s || !o.n_samples[DATA_VALID] || some ? s : nothing_to_validate(t, err);
}

static long long file_size(const trainer *t, const char *prefix, const char *suffix)
{
    struct stat info;
    return stat(arena_text(t->a, "%s%s", prefix, suffix), &info) == 0 ? (long long)info.st_size
                                                                      : -1;
}

/* Names and sizes of the files and lengths of the sets: what each rank has opened. */
static const char *data_text(const trainer *t)
{
    textbuf text = text_init(t->a);
    for (data_split which = DATA_TRAIN; which < DATA_SPLITS; which++)
        for (int i = 0; i < data_members(t->data, which); i++) {
            const char *name = data_name(t->data, which, i);
            text_add(&text, "%s: .idx of %lld bytes, .bin of %lld\n", name,
                     file_size(t, name, ".idx"), file_size(t, name, ".bin"));
        }
    text_add(&text, "%lld samples to train, %lld to validate",
             (long long)data_length(t->data, DATA_TRAIN),
             (long long)data_length(t->data, DATA_VALID));
    return text.s;
}

/* ---- threads */

/* Cores that this process may use. */
static int64_t own_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* As asked; as the launcher has set; else this rank's share of the machine. */
static int threads_of(const trainer *t)
{
    const char *word = getenv("OMP_NUM_THREADS");
    int64_t share = sysconf(_SC_NPROCESSORS_ONLN) / comm_local(t->c), cores = own_cores();
    if (t->o->threads > 0) return t->o->threads;
    if (comm_launched() && word && atoi(word) > 0) return atoi(word);
    if (cores < share) share = cores;
    return share > 0 ? (int)share : 1;
}

/* ---- program */

static void take_arrays(trainer *t)
{
    int64_t T = t->p->B * batch_seq(t->p);
    if (!t->tokens) {
        t->tokens = ARENA_ARRAY(t->a, int32_t, T);
        t->labels = ARENA_ARRAY(t->a, int32_t, T);
        t->positions = ARENA_ARRAY(t->a, int32_t, T);
        t->mask = ARENA_ARRAY(t->a, float, T);
    }
}

status trainer_open(trainer *t, const setup *s, error *err)
{
    program *p = ARENA_NEW(t->a, program);
    executor_options o = {
        .plain = t->o->plain, .guard = t->o->touched ? TOUCHED_GUARD : 0, .device = t->o->device};
    program_build(p, s, comm_rank(t->c), t->a);
    status st = t->e ? executor_rework(t->e, p, err) : executor_open(&t->e, p, t->c, o, err);
    if (st) return st;
    t->s = s;
    t->p = p;
    take_arrays(t);
    batch_tables(t->e, p);
    int64_t steps = t->opt.steps;
    optimizer_init(&t->opt, p, DECAY_MEGATRON, t->a);
    t->opt.steps = steps;
    step_table(t->e, p, &t->opt);
    return trainer_predict_attach(t, err);
}

/* Every kernel is launched once, over zeros, before the first step, which then meets none that is
 * still to be loaded: where the host runs ahead nothing may wait for it in a step. Nothing is kept.
 * Collective. */
static void launch_once(trainer *t)
{
    const program *p = t->p;
    if (!executor_runs_ahead(t->e)) return;
    comm_work before = comm_work_begin(t->c, WORK_NONE); /* a hang is watched for */
    comm_where(t->c, "the first launches", NULL);
    executor_first(t->e, true);
    step_run_begin(t->e);
    step_run_end(t->e, p, p->types.moments ? STEP_UPDATES : STEP_ONLY);
    step_report_of(t->e, p);
    executor_first(t->e, false);
    executor_fill(t->e, 0, program_end(p), 0);
    batch_tables(t->e, p);
    step_table(t->e, p, &t->opt);
    comm_work_end(t->c, before);
}

static void say_transport(trainer *t)
{
    bool says = comm_size(t->c) > 1 || getenv("MOEFOLD_TRANSPORT");
    const char *how = says ? executor_transport(t->e) : NULL;
    if (how) trainer_say(t, stderr, arena_text(t->a, "transport: %s", how));
}

/* ---- all of it */

/* As many as a double counts. */
static const int64_t SAMPLES_MOST = (int64_t)1 << 53;

static status run_length(trainer *t, error *err)
{
    const job *j = &t->s->j;
    t->gbs = j->gbs;
    t->train_iters = job_has(j, K_TRAIN_SAMPLES) ? j->train_samples / t->gbs : j->train_iters;
    if (t->train_iters <= 0 && job_has(j, K_TRAIN_SAMPLES))
        return error_set(err, ERR_RULE,
                         "%s=%lld is less than a step, which has %s=%lld; repair: %s=%lld",
                         knobs[K_TRAIN_SAMPLES].key, (long long)j->train_samples, knobs[K_GBS].key,
                         (long long)t->gbs, knobs[K_TRAIN_SAMPLES].key, (long long)t->gbs);
    if (t->train_iters <= 0)
        return error_set(
            err, ERR_RULE,
            "run length is not set: give train.train_iters (steps) or train.train_samples");
    int64_t every = j->eval_interval;
    const struct {
        knob_id knob;
        int64_t asked, steps;
    } lengths[] = {
        {K_TRAIN_ITERS, j->train_iters, t->train_iters},
        {K_EVAL_ITERS, j->eval_iters,
         every > 0 ? mul_sat(t->train_iters / every + 1, j->eval_iters) : 0},
    };
    for (int i = 0; i < 2; i++)
        if (mul_sat(lengths[i].steps, t->gbs) > SAMPLES_MOST)
            return error_set(err, ERR_RULE,
                             "%s=%lld: %lld steps of %lld samples are more than %lld samples; "
                             "lower it",
                             knobs[lengths[i].knob].key, (long long)lengths[i].asked,
                             (long long)lengths[i].steps, (long long)t->gbs,
                             (long long)SAMPLES_MOST);
    return OK;
}

static status open_alone(trainer *t, error *err)
{
    TRY(run_length(t, err));
    TRY(schedule_init(&t->rates, &t->s->j, t->gbs, err));
    kernels_threads(threads_of(t));
    TRY(trainer_open(t, t->given, err));
    t->planned_bytes = t->p->arena_bytes;
    return open_data(t, err);
}

status trainer_open_all(trainer *t, error *err)
{
    comm_where(t->c, "the start", NULL);
    TRY(ranks_agree(t->c, open_alone(t, err), err)); /* I1 */
    fact data = {"data", data_text(t), "give all ranks the same files"};
    TRY(facts_agree(t->c, &data, 1, t->a, err));
    if (t->o->touched) return OK;
    launch_once(t);
    say_transport(t);
    TRY(trainer_start(t, err));
    TRY(trainer_folder_open(t, err));
    status s = OK;
    if (t->o->metrics && comm_rank(t->c) == 0)
        s = metrics_open(&t->metrics, t->o->metrics, t->at.iteration, err);
    if (!s) s = trainer_gemms(t, err);
    return ranks_agree(t->c, s, err);
}
