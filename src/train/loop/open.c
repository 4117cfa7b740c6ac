/* open.c - everything that a run opens before its first step, and the program made again where
 * routed buffers were too small.
 *
 * I1  Each rank first does what it can do alone; then all agree. So no rank waits in a collective
 *     call for one that has already failed and left. */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/comm/agree.h"
#include "base/file.h"
#include "base/json.h"
#include "base/maths.h"
#include "train/executor/touched.h"
#include "train/loop/facts.h"
#include "train/loop/state.h"

/* ---- which files a run reads: the knobs that name them, and the two kinds of files that name them
 * in their stead, as Megatron-LM reads them */

static data_paths words_of_text(const trainer *t, const char *text)
{
    static const char blanks[] = " \t\r\n\f\v";
    int n = 0;
    const char **list = ARENA_ARRAY(t->a, const char *, strlen(text) / 2 + 1);
    for (const char *p = text + strspn(text, blanks); *p; p += strspn(p, blanks)) {
        size_t len = strcspn(p, blanks);
        list[n++] = arena_copy(t->a, p, len);
        p += len;
    }
    return (data_paths){list, n};
}

enum { NAMES_BYTES_MAX = 64 << 20 };

/* dataset.data_args_path: what dataset.data_path would hold. */
static status read_words(const trainer *t, const char *path, data_paths *out, error *err)
{
    char *text;
    size_t n;
    status s = file_read(t->a, path, NAMES_BYTES_MAX, &text, &n, err);
    if (s) return error_prefix(err, s, "%s", knobs[K_DATA_ARGS].key);
    *out = words_of_text(t, text);
    if (out->n) return OK;
    return error_set(err, ERR_INPUT, "%s=%s: names no files", knobs[K_DATA_ARGS].key, path);
}

/* A text with blanks, or a list of words and numbers; null names none. */
static status words_of_json(const trainer *t, const json_t *v, const char *where, data_paths *out,
                            error *err)
{
    if (json_is_string(v)) *out = words_of_text(t, json_string_value(v));
    if (json_is_string(v) || json_is_null(v)) return OK;
    size_t n = json_array_size(v);
    const char **list = ARENA_ARRAY(t->a, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        const char *word = json_string_value(one);
        if (word)
            list[i] = arena_copy(t->a, word, strlen(word));
        else if (json_is_number(one))
            list[i] = arena_text(t->a, "%.17g", json_number_value(one));
        else
            v = NULL;
    }
    *out = (data_paths){list, (int)n};
    if (json_is_array(v)) return OK;
    return error_set(err, ERR_INPUT,
                     "%s is needed: prefixes of files, with weights or without, or null", where);
}

/* dataset.per_split_data_args_path: {"train": [...], "valid": [...], "test": [...]} */
static status read_separate(const trainer *t, const char *path, data_options *o, error *err)
{
    json_t *root;
    status s = json_read(path, &root, err);
    if (s) return error_prefix(err, s, "%s", knobs[K_SPLIT_ARGS].key);
    for (int i = 0; i < DATA_SPLITS && !s; i++) {
        const char *name = data_split_names[i];
        s = words_of_json(t, json_object_get(root, name),
                          arena_text(t->a, "%s=%s: \"%s\"", knobs[K_SPLIT_ARGS].key, path, name),
                          &o->separate[i], err);
    }
    json_decref(root);
    return s;
}

status trainer_files(const trainer *t, data_options *o, error *err)
{
    const job *j = &t->s->j;
    const char *words = j->data_args, *sets = j->split_args;
    if (j->mock_data) return OK;
    const job_texts separate[DATA_SPLITS] = {j->train_data, j->valid_data, j->test_data};
    o->paths = (data_paths){j->data_path.item, j->data_path.n};
    for (int i = 0; i < DATA_SPLITS; i++)
        o->separate[i] = (data_paths){separate[i].item, separate[i].n};
    if (words) return read_words(t, words, &o->paths, err);
    return sets ? read_separate(t, sets, o, err) : OK;
}

/* ---- routed buffers that were too small for a step
 *
 * Only routed buffers grow: weights and moments stay where they are, the rest of the memory is
 * taken anew. Gradients are made again by the step that follows. */

/* The buffer that was asked for most, of a rank. */
typedef struct overflow {
    double wanted, room; /* rows; wanted 0: none was too small */
    int64_t layer;
} overflow;

static bool worse(const overflow *a, const overflow *b)
{
    return b->wanted == 0 || a->wanted * b->room > b->wanted * a->room;
}

static overflow own_overflow(const trainer *t)
{
    const float *rows = t->report.rows;
    overflow worst = {0};
    for (int64_t i = 0; i < t->report.n_layers; i++) {
        overflow o = {(double)rows[2 * i], (double)rows[2 * i + 1], i};
        if (o.wanted > o.room && worse(&o, &worst)) worst = o;
    }
    return worst;
}

static overflow worst_overflow(const trainer *t, int64_t *rank)
{
    arena *scratch = arena_create();
    int64_t n = comm_size(t->c);
    overflow mine = own_overflow(t), worst = {0}, *all = ARENA_ARRAY(scratch, overflow, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 0; r < n; r++)
        if (all[r].wanted > 0 && worse(&all[r], &worst)) {
            worst = all[r];
            *rank = r;
        }
    arena_destroy(scratch);
    return worst;
}

/* Half as much again as was wanted, in tenths. */
static double enough(const trainer *t, const overflow *o)
{
    double factor = t->s->j.buffer_factor;
    double wanted = o->room > 0 ? o->wanted / o->room : 2;
    return ceil(factor * wanted * 1.5 * 10) / 10;
}

static status open_larger(trainer *t, double factor, error *err)
{
    setup *s = ARENA_NEW(t->a, setup);
    *s = *t->s;
    setup_set(s, K_BUFFER_FACTOR, value_of_float(factor), "routed buffers were too small");
    comm_work work = comm_work_begin(t->c, WORK_BUILD);
    status st = ranks_agree(t->c, trainer_open(t, s, err), err);
    comm_work_end(t->c, work);
    return st;
}

status trainer_grow(trainer *t, error *err)
{
    enum { FACTOR_MAX = 1024 }; /* of the knob */
    int64_t rank = 0, bytes = t->p->arena_bytes;
    overflow o = worst_overflow(t, &rank);
    double factor = enough(t, &o), before = t->s->j.buffer_factor;
    char *what = arena_text(
        t->a, "step %lld: rank %lld, layer %lld: %.0f rows do not fit into a routed buffer of %.0f",
        (long long)t->at.iteration + 1, (long long)rank, (long long)o.layer, o.wanted, o.room);
    if (t->s->j.on_overflow == J_ON_OVERFLOW_STOP || factor > FACTOR_MAX)
        return error_set(err, ERR_MACHINE,
                         "%s; %s (steps after the last checkpoint are lost); repair: "
                         "moefold.moe_buffer_factor=%g",
                         what,
                         factor > FACTOR_MAX ? "no factor is large enough"
                                             : "stopped because moefold.on_overflow=stop",
                         factor > FACTOR_MAX ? (double)FACTOR_MAX : factor);
    status s = open_larger(t, factor, err);
    if (s) return s;
    t->at.buffer_factor = factor;
    trainer_say(t, stderr,
                arena_text(t->a,
                           "%s; moefold.moe_buffer_factor %g becomes %g (arena of rank 0: %s "
                           "becomes %s), and the step runs again",
                           what, before, factor, text_bytes(t->a, bytes),
                           text_bytes(t->a, t->p->arena_bytes)));
    return OK;
}

status trainer_grow_as_before(trainer *t, error *err)
{
    double factor = t->at.buffer_factor, before = t->s->j.buffer_factor;
    if (factor <= before || t->s->j.on_overflow == J_ON_OVERFLOW_STOP) return OK;
    status s = open_larger(t, factor, err);
    if (s)
        return error_prefix(err, s,
                            "moefold.moe_buffer_factor=%g, which the run before needed "
                            "(moefold.on_overflow=stop leaves it at %g)",
                            factor, before);
    trainer_say(t, stderr,
                arena_text(t->a,
                           "moefold.moe_buffer_factor %g becomes %g, as before iteration %lld",
                           before, factor, (long long)t->at.iteration));
    return OK;
}

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
