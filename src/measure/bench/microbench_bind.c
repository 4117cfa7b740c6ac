/* microbench_bind.c - memory, tables and the row of an operation under the clock.
 *
 * Tensors are taken one after another from pools, so that they come back after many others. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "predict/cost.h"
#include "op/update.h"
#include "measure/bench/microbench.h"

/* ---- memory: inputs in STATE, and behind them tables; outputs in WORK, and behind them the
 * workspace */

device_address microbench_in(const microbench *j)
{
    (void)j;
    return (device_address){SPACE_STATE, 0};
}

device_address microbench_tables(const microbench *j)
{
    return (device_address){SPACE_STATE, j->scale->pool};
}

device_address microbench_out(const microbench *j)
{
    (void)j;
    return (device_address){SPACE_WORK, 0};
}

device_address microbench_room(const microbench *j)
{
    return (device_address){SPACE_WORK, j->scale->pool};
}

/* Numbers between -1/4 and 1/4: logits of a head are then as far apart as in a step. Between -1 and
 * 1 nearly all gradients of logits were zero, and products of zeros take a tenth less power. */
static void fill_pools(microbench *j, unsigned char *piece, int64_t bytes)
{
    int64_t size = dtype_bytes(j->scale->type, 1), n = bytes / size;
    for (int64_t i = 0; i < n; i++) {
        float x = (float)(i * 7919 % 2003) * 0.25e-3F - 0.25F;
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

status microbench_take(microbench *j, error *err)
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
    if (!s) s = t->events(j->d, 2, err);
    if (!s) fill_pools(j, piece, piece_bytes);
    free(piece);
    return s;
}

/* The next n elements of a pool, round and round. */
static void *next(const microbench *j, device_address pool, int64_t *at, dtype type, int64_t n)
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

static void *table_at(const microbench *j, const timed_op *t, int i)
{
    device_address at = microbench_tables(j);
    if (t->table == JIG_BLOCKS && i > 1)
        at.offset += ROOM_BLOCKS / 2; /* the verdict, behind the table of an update */
    return j->d->table->pointer(j->d, at);
}

void microbench_tensors(microbench *j, const timed_op *t, void **in, void **out)
{
    for (int i = 0; i < JIG_TENSORS; i++) {
        in[i] = out[i] = NULL;
        if (t->in[i])
            in[i] = is_table(t, i) ? table_at(j, t, i)
                                   : next(j, microbench_in(j), &j->in_at, t->types.in[i], t->in[i]);
        if (t->out[i]) out[i] = next(j, microbench_out(j), &j->out_at, t->types.out[i], t->out[i]);
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

static status write_blocks(microbench *j, const timed_op *t)
{
    const update_row table = {.n = t->table_n, .decays = 1, .answers = 1};
    double verdict[VERDICT_COUNT] = {[VERDICT_CLIP] = 1, [VERDICT_SCALE] = 1};
    device_address at = microbench_tables(j), behind = {at.space, at.offset + ROOM_BLOCKS / 2};
    verdict[VERDICT_OUTCOME] = STEP_TAKEN;
    verdict[VERDICT_LR] = verdict[VERDICT_EMBEDDING_LR] = 1e-6;
    verdict[VERDICT_CORRECT1] = verdict[VERDICT_CORRECT2] = 1;
    j->d->table->write(j->d, at, &table, sizeof table);
    j->d->table->write(j->d, behind, verdict, sizeof verdict);
    return OK;
}

static status write_table(microbench *j, const timed_op *t)
{
    int64_t n = 0;
    if (t->table == JIG_BLOCKS) return write_blocks(j, t);
    for (int i = 0; i < JIG_TENSORS; i++)
        if (is_table(t, i)) n = t->in[i];
    assert(4 * n <= ROOM_TABLE);
    int32_t *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) return error_set(j->err, ERR_MACHINE, "no host memory for a table of %d", (int)n);
    for (int64_t i = 0; i < n; i++) list[i] = whole(t, i);
    j->d->table->write(j->d, microbench_tables(j), list, n * (int64_t)sizeof *list);
    free(list);
    return OK;
}

/* ---- an operation with its row */

static bool is_named(const char *list, const char *name, size_t length)
{
    for (; list && *list; list += strcspn(list, " "), list += *list == ' ')
        if (strcspn(list, " ") == length && strncmp(list, name, length) == 0) return true;
    return false;
}

static void set_sizes(const op *o, bool out, const char *without, int *there, int64_t *sizes)
{
    const char *name = out ? op_infos[o->kind].out : op_infos[o->kind].in;
    for (int i = 0; *name; i++) {
        const size_t length = strcspn(name, " ");
        const int64_t n = op_elements(o, out ? OP_IN_MAX + i : i);
        there[i] = is_named(without, name, length) ? -1 : 0;
        sizes[i] = there[i] < 0 ? 0 : n < 0 ? o->dim[0] : n;
        name += length + (name[length] == ' ');
    }
}

void timed_op_sizes(timed_op *t, const char *without)
{
    for (int pass = 0; pass < 2; pass++) { /* a shape may depend on what is there */
        set_sizes(&t->o, false, without, t->o.in, t->in);
        set_sizes(&t->o, true, without, t->o.out, t->out);
    }
}

static dtype letter_type(const microbench *j, char letter, bool wide)
{
    if (letter == 'i') return DTYPE_I32;
    if (letter == 'd') return DTYPE_F64;
    return letter == 'f' || wide ? DTYPE_F32 : j->scale->type;
}

static void set_types(const microbench *j, timed_op *t)
{
    const char *in = op_infos[t->o.kind].types, *out = strchr(in, '>') + 1;
    t->types = (op_types){0};
    for (int i = 0; i < OP_IN_MAX; i++) t->o.in[i] = -1;
    for (int i = 0; i < OP_OUT_MAX; i++) t->o.out[i] = -1;
    for (int i = 0; i < JIG_TENSORS; i++) {
        if (t->in[i]) {
            t->o.in[i] = i;
            t->types.in[i] = letter_type(j, in[i], t->wide_in >> i & 1);
            (void)narrow_type(t->o.kind, true, i, &t->types.in[i]);
            t->types.in_elements[i] = t->in[i];
        }
        if (t->out[i]) {
            t->o.out[i] = JIG_TENSORS + i;
            t->types.out[i] =
                letter_type(j, out[i], (t->wide_out | op_infos[t->o.kind].adds) >> i & 1);
            (void)narrow_type(t->o.kind, false, i, &t->types.out[i]);
            t->types.out_elements[i] = t->out[i];
        }
    }
}

double microbench_bytes(const timed_op *t)
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

status microbench_bind(microbench *j, timed_op *t, microbench_bound *b)
{
    int n_rows;
    const kernel *rows = j->d->table->rows(&n_rows);
    *b = (microbench_bound){.t = t};
    set_types(j, t);
    const kernel *k = kernel_pick(rows, n_rows, &t->o, &t->types, false);
    if (!k)
        return error_set(j->err, ERR_MACHINE, "bench: device %s has no kernel for %s",
                         j->d->table->name, op_infos[t->o.kind].name);
    int64_t room = kernel_workspace_of(k, &t->o, &t->types);
    if (room > j->scale->workspace)
        return error_set(j->err, ERR_MACHINE, "bench: %s needs %lld bytes of workspace, not %lld",
                         op_infos[t->o.kind].name, (long long)room, (long long)j->scale->workspace);
    if (t->table && write_table(j, t)) return ERR_MACHINE;
    b->call = (kernel_call){.row = k, .o = &t->o, .types = &t->types};
    b->call.workspace = j->d->table->pointer(j->d, microbench_room(j));
    return k->prepare ? k->prepare(&t->o, &t->types, &b->call.state, j->err) : OK;
}
