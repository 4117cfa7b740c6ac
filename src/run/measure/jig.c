/* jig.c - one operation under the clock, through the device that a run would use.
 *
 * I1  Every rank spends the same window on the same operation, so that each is measured beside busy
 *     neighbours. Who is done early would leave the others more memory than they have in a run.
 * I2  Other programs disturb: of many times the lowest tenth counts, of several rounds the
 *     best. Where ranks share cores they disturb one another in a run too, and the mean counts; where
 *     power binds, the middle of what follows the first third of the window.
 * I3  A device that computes beside the host gets a batch of calls for each look at the clock, so
 *     that launches hide behind kernels, as they do in a step.
 * I4  Where a call takes the host longer than the kernel, calls are put behind long ones, and what
 *     those take alone is taken off.
 * I5  Where power binds, products by themselves run slower than among the operations of a step,
 *     which move memory a fifth of the time: copies for that long stand between batches, unclocked. */
#include "run/measure/jig.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "price/cost.h"
#include "program/update.h"

void jig_barrier(const jig *j)
{
    if (j->c) comm_barrier(j->c, GROUP_WORLD);
}

double jig_mean(const jig *j, double x)
{
    if (j->c) comm_sum(j->c, GROUP_WORLD, &x, 1);
    return x / (double)j->ranks;
}

void jig_step(jig *j)
{
    j->done++;
    if (j->o->says) j->o->says(j->o->who, j->done, j->total);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* I2 */
double jig_typical(const jig *j, int n)
{
    double sum = 0, *t = j->times;
    if (j->scale->limited) {
        t += n / 3;
        n -= n / 3;
    }
    for (int i = 0; i < n; i++) sum += t[i];
    if (j->crowded) return sum / n;
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[j->scale->limited ? n / 2 : (n - 1) / 10];
}

void jig_point(curve *c, int i, double x, double y)
{
    if (i == c->n) c->y[c->n++] = 0;
    c->x[i] = x;
    c->y[i] = fmax(c->y[i], y);
}

/* ---- memory: inputs in STATE, and behind them tables; outputs in WORK, and behind them the
 * workspace */

device_address jig_in(const jig *j)
{
    (void)j;
    return (device_address){SPACE_STATE, 0};
}

device_address jig_tables(const jig *j)
{
    return (device_address){SPACE_STATE, j->scale->pool};
}

device_address jig_out(const jig *j)
{
    (void)j;
    return (device_address){SPACE_WORK, 0};
}

device_address jig_room(const jig *j)
{
    return (device_address){SPACE_WORK, j->scale->pool};
}

static void fill_pools(jig *j, unsigned char *piece, int64_t bytes)
{
    int64_t size = dtype_bytes(j->scale->type, 1), n = bytes / size;
    for (int64_t i = 0; i < n; i++) {
        float x = (float)(i * 7919 % 2003) * 1e-3F - 1;
        if (j->scale->type == DTYPE_F32)
            ((float *)(void *)piece)[i] = x;
        else
            ((uint16_t *)(void *)piece)[i] = bf16_of_float(x);
    }
    for (int64_t at = 0; at < j->scale->pool; at += bytes) {
        j->d->table->write(j->d, (device_address){SPACE_STATE, at}, piece, bytes);
        j->d->table->write(j->d, (device_address){SPACE_WORK, at}, piece, bytes);
    }
}

status jig_take(jig *j, error *err)
{
    const int64_t piece_bytes = 1 << 25;
    const device_table *t = j->d->table;
    const measure_scale *z = j->scale;
    unsigned char *piece = malloc((size_t)piece_bytes);
    j->times = calloc(ROOM_TIMES, sizeof *j->times);
    status s = piece && j->times
                   ? OK
                   : error_set(err, ERR_MACHINE, "no host memory for the measurement's tables");
    if (!s) s = t->take(j->d, SPACE_STATE, z->pool + ROOM_TABLE + ROOM_BLOCKS, err);
    if (!s) s = t->take(j->d, SPACE_WORK, z->pool + z->workspace, err);
    if (!s) s = t->take(j->d, SPACE_HOST, piece_bytes, err);
    if (!s) s = t->events(j->d, 1, err);
    if (!s) fill_pools(j, piece, piece_bytes);
    free(piece);
    return s;
}

/* The next n elements of a pool, round and round. */
static void *next(const jig *j, device_address pool, int64_t *at, dtype type, int64_t n)
{
    const int64_t line = 256, bytes = dtype_bytes(type, n);
    assert(bytes <= j->scale->pool);
    if (*at + bytes > j->scale->pool) *at = 0;
    void *x = j->d->table->pointer(j->d, (device_address){pool.space, pool.offset + *at});
    *at += (bytes + line - 1) / line * line;
    return x;
}

static bool is_table(const timed_op *t, int i)
{
    if (t->table == JIG_BLOCKS) return t->types.in[i] == DTYPE_F64;
    return t->table && t->types.in[i] == DTYPE_I32;
}

static void *table_at(const jig *j, const timed_op *t, int i)
{
    device_address at = jig_tables(j);
    if (t->table == JIG_BLOCKS && i > 1)
        at.offset += ROOM_BLOCKS / 2; /* the verdict, behind the table of an update */
    return j->d->table->pointer(j->d, at);
}

static void take_tensors(jig *j, const timed_op *t, void **in, void **out)
{
    for (int i = 0; i < JIG_TENSORS; i++) {
        in[i] = out[i] = NULL;
        if (t->in[i])
            in[i] = is_table(t, i) ? table_at(j, t, i)
                                   : next(j, jig_in(j), &j->in_at, t->types.in[i], t->in[i]);
        if (t->out[i]) out[i] = next(j, jig_out(j), &j->out_at, t->types.out[i], t->out[i]);
    }
}

/* ---- tables */

static int32_t whole(const timed_op *t, int64_t i)
{
    int64_t n = t->table_n, each = t->table_each;
    if (t->table == JIG_OFFSETS) return (int32_t)((i < n ? i : n) * each);
    if (t->table == JIG_ROWS) return (int32_t)(i % each * (n / each) + i / each);
    return (int32_t)((uint32_t)i * 2654435761u % (uint32_t)n);
}

static status write_blocks(jig *j, const timed_op *t)
{
    const double table[TABLE_COLUMNS] = {
        [TABLE_N] = (double)t->table_n, [TABLE_DECAYS] = 1, [TABLE_ANSWERS] = 1};
    double verdict[VERDICT_COUNT] = {[VERDICT_CLIP] = 1, [VERDICT_SCALE] = 1};
    device_address at = jig_tables(j), behind = {at.space, at.offset + ROOM_BLOCKS / 2};
    verdict[VERDICT_OUTCOME] = STEP_TAKEN;
    verdict[VERDICT_LR] = verdict[VERDICT_EMBEDDING_LR] = 1e-6;
    verdict[VERDICT_CORRECT1] = verdict[VERDICT_CORRECT2] = 1;
    j->d->table->write(j->d, at, table, sizeof table);
    j->d->table->write(j->d, behind, verdict, sizeof verdict);
    return OK;
}

static status write_table(jig *j, const timed_op *t)
{
    int64_t n = 0;
    if (t->table == JIG_BLOCKS) return write_blocks(j, t);
    for (int i = 0; i < JIG_TENSORS; i++)
        if (is_table(t, i)) n = t->in[i];
    assert(4 * n <= ROOM_TABLE);
    int32_t *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) return error_set(j->err, ERR_MACHINE, "no host memory for a table of %d", (int)n);
    for (int64_t i = 0; i < n; i++) list[i] = whole(t, i);
    j->d->table->write(j->d, jig_tables(j), list, n * (int64_t)sizeof *list);
    free(list);
    return OK;
}

/* ---- an operation with its row */

/* Gradients of weights are FP32. */
static bool is_gradient(op_kind k, int i)
{
    static const struct {
        op_kind kind;
        int out;
    } list[] = {{OP_GEMM_W, OUT_GEMM_W_dw},    {OP_GROUPED_W, OUT_GROUPED_W_dw},
                {OP_NORM_W, OUT_NORM_W_dw},    {OP_EMBED_W, OUT_EMBED_W_dw},
                {OP_BIAS_W, OUT_BIAS_W_db},    {OP_HEAD_LOSS, OUT_HEAD_LOSS_dw},
                {OP_ATTN_D, OUT_ATTN_D_dsinks}};
    for (size_t n = 0; n < sizeof list / sizeof list[0]; n++)
        if (list[n].kind == k && list[n].out == i) return true;
    return false;
}

static dtype letter_type(const jig *j, char letter, bool wide)
{
    if (letter == 'i') return DTYPE_I32;
    if (letter == 'd') return DTYPE_F64;
    return letter == 'f' || wide ? DTYPE_F32 : j->scale->type;
}

static void set_types(const jig *j, timed_op *t)
{
    const char *in = op_infos[t->o.kind].types, *out = strchr(in, '>') + 1;
    t->types = (op_types){0};
    for (int i = 0; i < OP_IN_MAX; i++) t->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) t->o.out[i] = -1;
    for (int i = 0; i < JIG_TENSORS; i++) {
        if (t->in[i]) {
            t->o.in[i] = i;
            t->types.in[i] = letter_type(j, in[i], t->wide_in >> i & 1);
            t->types.in_elements[i] = t->in[i];
        }
        if (t->out[i]) {
            t->o.out[i] = JIG_TENSORS + i;
            t->types.out[i] =
                letter_type(j, out[i], t->wide_out >> i & 1 || is_gradient(t->o.kind, i));
            t->types.out_elements[i] = t->out[i];
        }
    }
}

double jig_bytes(const timed_op *t)
{
    buf bufs[2 * JIG_TENSORS];
    segment seg = {.bufs = bufs, .n_bufs = 2 * JIG_TENSORS};
    memset(bufs, 0, sizeof bufs);
    for (int i = 0; i < JIG_TENSORS; i++) {
        bufs[i].type = t->types.in[i];
        bufs[i].bytes = dtype_bytes(t->types.in[i], t->in[i]);
        bufs[JIG_TENSORS + i].type = t->types.out[i];
        bufs[JIG_TENSORS + i].bytes = dtype_bytes(t->types.out[i], t->out[i]);
    }
    for (int i = 0; i < 2 * JIG_TENSORS; i++) bufs[i].parent = -1;
    return cost_bytes(&seg, &t->o);
}

typedef struct bound {
    const timed_op *t;
    kernel_call call;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} bound;

static status bind(jig *j, timed_op *t, bound *b)
{
    int n_rows;
    const kernel *rows = j->d->table->rows(&n_rows);
    *b = (bound){.t = t};
    set_types(j, t);
    const kernel *k = kernel_pick(rows, n_rows, &t->o, &t->types, false);
    if (!k)
        return error_set(j->err, ERR_MACHINE, "bench: device %s has no kernel for %s",
                         j->d->table->name, op_infos[t->o.kind].name);
    int64_t room = kernel_workspace_of(k, &t->o, &t->types);
    if (room > j->scale->workspace)
        return error_set(j->err, ERR_MACHINE, "bench: %s wants %lld bytes of workspace, not %lld",
                         op_infos[t->o.kind].name, (long long)room, (long long)j->scale->workspace);
    if (t->table && write_table(j, t)) return ERR_MACHINE;
    b->call = (kernel_call){.row = k, .o = &t->o, .types = &t->types};
    b->call.workspace = j->d->table->pointer(j->d, jig_room(j));
    return k->prepare ? k->prepare(&t->o, &t->types, &b->call.state, j->err) : OK;
}

static void unbind(const bound *b)
{
    if (b->call.row && b->call.row->release) b->call.row->release(b->call.state);
}

static void put(jig *j, bound *b)
{
    take_tensors(j, b->t, b->in, b->out);
    b->call.in = b->in;
    b->call.out = b->out;
    j->d->table->launch(j->d, STREAM_COMPUTE, &b->call);
}

/* Seconds of n calls, one after another. */
static double run(jig *j, bound *b, int n)
{
    double start = clock_seconds();
    for (int i = 0; i < n; i++) put(j, b);
    j->d->table->record(j->d, STREAM_COMPUTE, 0);
    j->d->table->wait_here(j->d, 0);
    return clock_seconds() - start;
}

/* I3 */
static int batch_of(const jig *j, double one)
{
    enum { BATCHES = 8, MOST = 256 };
    if (!j->scale->limited) return 1;
    double n = j->window / BATCHES / (one > 1e-7 ? one : 1e-7);
    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

/* I5: copies that take `part` of what the batch before them took. */
static void run_beside(jig *j, bound *copy, double batch_seconds)
{
    const double part = 0.25;
    for (double left = part * batch_seconds; copy && left > 0;) left -= run(j, copy, 1);
}

static int run_times(jig *j, bound *b, bound *copy)
{
    enum { LEAST_RUNS = 2 };
    int n = 0;
    run(j, b, 1); /* threads and library wake up */
    double last = j->scale->limited ? run(j, b, 1) : 0;
    int batch = batch_of(j, last);
    jig_barrier(j);
    double warm = copy ? 0.5 * j->window : 0, begin = clock_seconds();
    while (clock_seconds() - begin < warm) run_beside(j, copy, run(j, b, batch));
    begin = clock_seconds();
    while (n < LEAST_RUNS || (n < ROOM_TIMES && clock_seconds() - begin < j->window)) {
        run_beside(j, copy, last);
        last = run(j, b, batch);
        j->times[n++] = last / batch;
    }
    return n;
}

static int run_window(jig *j, bound *b)
{
    const int64_t n = 1 << 27;
    bound copy;
    timed_op t = {.o = {.kind = OP_COPY, .dim = {n}, .name = "beside"}};
    t.in[IN_COPY_a] = t.out[OUT_COPY_y] = n;
    bool beside = j->scale->limited && op_flops(&b->t->o) > 0;
    if (beside) j->st = bind(j, &t, &copy);
    int times = j->st ? 0 : run_times(j, b, beside ? &copy : NULL);
    if (beside && !j->st) unbind(&copy);
    return times;
}

/* ---- operations that take less than the host's call (I4) */

enum { BLOCKS = 4, SMALL_CALLS = 256, SMALL_TIMES = 9 };

static double run_behind(jig *j, bound *block, bound *b, int n)
{
    double start = clock_seconds();
    for (int i = 0; i < BLOCKS; i++) put(j, block);
    for (int i = 0; i < n; i++) put(j, b);
    j->d->table->record(j->d, STREAM_COMPUTE, 0);
    j->d->table->wait_here(j->d, 0);
    return clock_seconds() - start;
}

static int middle_of(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return n / 2;
}

static double small_seconds(jig *j, bound *b)
{
    const int64_t side = j->scale->side;
    double with[SMALL_TIMES], without[SMALL_TIMES];
    timed_op long_one = product_op(OP_GEMM, side, side, side);
    bound block;
    j->st = bind(j, &long_one, &block);
    for (int i = 0; i < SMALL_TIMES && !j->st; i++) {
        without[i] = run_behind(j, &block, b, 0);
        with[i] = run_behind(j, &block, b, SMALL_CALLS);
    }
    if (j->st) return 1;
    unbind(&block);
    double all = with[middle_of(with, SMALL_TIMES)], own = without[middle_of(without, SMALL_TIMES)];
    return fmax((all - own) / SMALL_CALLS, 1e-7);
}

double jig_time(jig *j, timed_op *t)
{
    const double host_bound = 20e-6;
    bound b;
    double seconds = 1;
    if (!j->st) j->st = bind(j, t, &b);
    if (!j->st) {
        int n = run_window(j, &b);
        seconds = n ? jig_typical(j, n) : 1;
        if (j->scale->limited && seconds < host_bound) seconds = small_seconds(j, &b);
        unbind(&b);
        seconds = jig_mean(j, seconds);
    }
    jig_step(j);
    return seconds;
}

double jig_host(jig *j, timed_op *t)
{
    enum { CALLS = 100 }; /* fewer than a GPU's queue takes */
    bound b;
    double least = 1;
    if (!j->st) j->st = bind(j, t, &b);
    for (int n = 0; n < 5 && !j->st; n++) {
        run(j, &b, 1);
        double start = clock_seconds();
        for (int i = 0; i < CALLS; i++) put(j, &b);
        least = fmin(least, (clock_seconds() - start) / CALLS);
        j->d->table->sync(j->d);
    }
    if (!j->st) unbind(&b);
    jig_step(j);
    return least;
}

/* ---- who computes */

/* All but idle and waiting for disks. Zero where there is no such file. */
static double computed_by_all(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    double t[FIELDS] = {0};
    FILE *f = fopen("/proc/stat", "r");
    if (!f) return 0;
    int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[USER], &t[NICE], &t[SYSTEM],
                   &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]);
    fclose(f);
    if (n != FIELDS) return 0;
    double ticks = t[USER] + t[NICE] + t[SYSTEM] + t[IRQ] + t[SOFTIRQ] + t[STEAL];
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

jig_load jig_load_now(const jig *j)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double own = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    own = jig_mean(j, own) * (double)j->ranks;
    return (jig_load){clock_seconds(), computed_by_all(), own};
}

double jig_flops(jig *j, timed_op *list, int n)
{
    double flops = 0, seconds = 0;
    for (int i = 0; i < n; i++) {
        seconds += jig_time(j, &list[i]);
        flops += op_flops(&list[i].o);
    }
    return flops / seconds;
}
