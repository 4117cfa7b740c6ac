/* testing.h - what every backend must do: messages of all kinds on all groups, many at once.
 *
 * Ranks are threads or processes, so nothing here ends a test: a check that fails says so in
 * `result`, and whoever runs the rank looks there. All numbers are small whole ones: sums are exact
 * in any order, but for BF16, where they are exact in FP32 and rounded at the end. */
#ifndef TESTS_COMM_TESTING_H
#define TESTS_COMM_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/models/models.h"
#include "backend/comm/comm.h"

typedef struct result {
    char text[256]; /* empty: all is well */
} result;

#define EXPECT(r, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition) && !(r)->text[0]) snprintf((r)->text, sizeof(r)->text, __VA_ARGS__);      \
    } while (0)

/* `words` are overrides of the tiny model, separated by spaces ('_' stands for a blank in them).
 * Returns NULL, or what is wrong. */
static inline const char *setup_of(setup *s, arena *a, const char *words)
{
    recipe *r = ARENA_NEW(a, recipe);
    error *err = ARENA_NEW(a, error);
    recipe_init(r, a, "tiny");
    recipe_set(r, K_MODEL, value_of_text("tiny"), "test");
    status st = recipe_override(r, "cluster.gpu=cpu", "test", err);
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        char *word = arena_copy(a, w, n);
        char *delay = strstr(word, "comm_delay=");
        for (char *p = delay ? strchr(delay, '=') : NULL; p && *p; p++)
            if (*p == '_') *p = ' ';
        if (n) st = recipe_override(r, word, "test", err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, err);
    if (!st) st = setup_init(s, r, a, err);
    return st ? err->text : NULL;
}

/* What the tests use, of all groups. */
static inline void open_streams(comm *c)
{
    comm_use use = {{{false}}};
    for (int g = GROUP_WORLD; g < GROUP_COUNT; g++)
        for (int k = STREAM_COMM; k <= STREAM_DP; k++)
            use.on[g][k] = k != STREAM_DP || g <= GROUP_TP;
    comm_streams(c, &use);
}

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static inline uint32_t mixed(uint32_t v)
{
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ v >> 16;
}

/* Number i of what the rank sends in message k. */
static inline float sent(int64_t rank, int k, int64_t i)
{
    return (float)(mixed((uint32_t)(rank * 7919 + k * 104729 + i)) % 128);
}

/* ---- elements of a format */

static inline void put(dtype t, void *list, int64_t i, float v)
{
    switch (t) {
    case DTYPE_F32:
        ((float *)list)[i] = v;
        break;
    case DTYPE_F64:
        ((double *)list)[i] = (double)v;
        break;
    case DTYPE_BF16:
        ((uint16_t *)list)[i] = bf16_of_float(v);
        break;
    case DTYPE_F16:
        ((uint16_t *)list)[i] = f16_of_float(v);
        break;
    case DTYPE_I32:
        ((int32_t *)list)[i] = (int32_t)v;
        break;
    default:
        ((signed char *)list)[i] = (signed char)v; /* UINT8 and the like are only moved */
    }
}

static inline float get(dtype t, const void *list, int64_t i)
{
    switch (t) {
    case DTYPE_F32:
        return ((const float *)list)[i];
    case DTYPE_F64:
        return (float)((const double *)list)[i];
    case DTYPE_BF16:
        return bf16_to_float(((const uint16_t *)list)[i]);
    case DTYPE_F16:
        return f16_to_float(((const uint16_t *)list)[i]);
    case DTYPE_I32:
        return (float)((const int32_t *)list)[i];
    default:
        return (float)((const signed char *)list)[i];
    }
}

static inline float rounded(dtype t, float v)
{
    double room;
    put(t, &room, 0, v);
    return get(t, &room, 0);
}

/* Room for n elements and one more, full of what nobody sends. */
static inline void *elements(dtype t, int64_t n)
{
    void *p = malloc((size_t)dtype_bytes(t, n + 1));
    for (int64_t i = 0; i <= n; i++) put(t, p, i, -77);
    return p;
}

static inline float *floats(int64_t n)
{
    return elements(DTYPE_F32, n);
}

static inline void *element(dtype t, void *list, int64_t i)
{
    return (char *)list + dtype_bytes(t, i);
}

/* ---- one message with its buffers and what is expected of them */

typedef struct trial {
    op o;
    members who;
    int k; /* number of the message */
    bool in_place;
    void *x, *y; /* of o.type */
    int32_t *table;
    int64_t y_n;
    int request;
} trial;

/* Rows that place `from` sends to place `to` in exchange k. */
static inline int32_t rows_of(int k, int64_t from, int64_t to)
{
    return (int32_t)(mixed((uint32_t)(k * 31 + from * 17 + to)) % 5);
}

/* Starts of rows in x and y, with a gap of one row before each member's. */
static inline void fill_table(trial *t)
{
    int64_t P = t->who.n;
    int32_t out = 0, in = 0;
    t->table = malloc((size_t)(4 * P) * sizeof *t->table);
    for (int64_t p = 0; p < P; p++) {
        int32_t goes = rows_of(t->k, t->who.place, p), comes = rows_of(t->k, p, t->who.place);
        t->table[p] = ++out;
        t->table[P + p] = goes;
        t->table[2 * P + p] = ++in;
        t->table[3 * P + p] = comes;
        out += goes;
        in += comes;
    }
    t->x = elements(t->o.type, out * t->o.dim[1]);
    t->y = elements(t->o.type, t->y_n = in * t->o.dim[1]);
    t->o.dim[0] = in;
}

static inline void trial_fill(trial *t, int64_t rank)
{
    int64_t N = t->o.dim[0], P = t->who.n, x_n = N;
    t->y_n = N;
    if (t->o.kind == OP_EXCHANGE) {
        fill_table(t);
        for (int64_t p = 0; p < P; p++)
            for (int64_t i = 0; i < t->table[P + p] * t->o.dim[1]; i++)
                put(t->o.type, t->x, t->table[p] * t->o.dim[1] + i, sent(rank, t->k, p * 1000 + i));
        return;
    }
    if (t->o.kind == OP_REDUCE_SCATTER || t->o.kind == OP_ALL_TO_ALL) x_n = N * P;
    if (t->o.kind == OP_ALL_GATHER || t->o.kind == OP_ALL_TO_ALL) t->y_n = N * P;
    dtype type = t->o.type;
    t->y = elements(type, t->y_n);
    t->x = elements(type, x_n);
    void *x = t->x;
    if (t->o.kind == OP_ALL_GATHER && t->in_place) x = element(type, t->y, t->who.place * N);
    if (t->o.kind == OP_ALL_REDUCE) x = t->y;
    for (int64_t i = 0; i < x_n; i++) put(type, x, i, sent(rank, t->k, i));
}

static inline void trial_start(trial *t, comm *c)
{
    int64_t N = t->o.dim[0];
    void *in[2] = {t->x, t->table}, *out[2] = {t->y, t->x};
    t->o.out[OUT_REDUCE_SCATTER_left] = t->o.kind == OP_REDUCE_SCATTER && t->in_place ? 1 : -1;
    if (t->o.kind == OP_ALL_GATHER && t->in_place)
        in[0] = element(t->o.type, t->y, t->who.place * N);
    if (t->o.kind == OP_REDUCE_SCATTER && t->in_place)
        out[0] = element(t->o.type, t->x, t->who.place * N);
    t->request = comm_start(c, &t->o, in, out);
}

static inline int64_t around(const trial *t, int64_t step)
{
    return ((t->who.place + step) % t->who.n + t->who.n) % t->who.n;
}

static inline float summed(const trial *t, int64_t i)
{
    float sum = 0;
    for (int64_t p = 0; p < t->who.n; p++) sum += sent(t->who.ranks[p], t->k, i);
    return rounded(t->o.type, sum);
}

/* What element i of the output must be. */
static inline float awaited(const trial *t, int64_t i)
{
    int64_t N = t->o.dim[0], place = t->who.place;
    switch (t->o.kind) {
    case OP_ALL_GATHER:
        return sent(t->who.ranks[i / N], t->k, i % N);
    case OP_REDUCE_SCATTER:
        return summed(t, place * N + i);
    case OP_ALL_REDUCE:
        return summed(t, i);
    case OP_ALL_TO_ALL:
        return sent(t->who.ranks[i / N], t->k, place * N + i % N);
    case OP_SHIFT:
        return sent(t->who.ranks[around(t, -t->o.dim[1])], t->k, i);
    default: /* RECV: what the partner sent as its message k - 1 */
        return sent(t->who.ranks[around(t, t->o.dim[1])], t->k - 1, i);
    }
}

static inline void check_exchange(const trial *t, result *r)
{
    int64_t P = t->who.n, W = t->o.dim[1], checked = 0;
    for (int64_t p = 0; p < P; p++) {
        for (int64_t i = 0; i < t->table[3 * P + p] * W; i++, checked++) {
            float got = get(t->o.type, t->y, t->table[2 * P + p] * W + i);
            float want = sent(t->who.ranks[p], t->k, t->who.place * 1000 + i);
            EXPECT(r, got == want, "EXCHANGE %d: row from place %d: %g, not %g", t->k, (int)p,
                   (double)got, (double)want);
        }
    }
    int64_t untouched = 0;
    for (int64_t i = 0; i < t->y_n; i++) untouched += get(t->o.type, t->y, i) == -77;
    EXPECT(r, untouched == t->y_n - checked, "EXCHANGE %d wrote outside its rows", t->k);
}

static inline void trial_check(const trial *t, result *r)
{
    dtype type = t->o.type;
    void *y = t->y;
    if (t->o.kind == OP_SEND) return;
    if (t->o.kind == OP_EXCHANGE) {
        check_exchange(t, r);
        return;
    }
    if (t->o.kind == OP_REDUCE_SCATTER && t->in_place)
        y = element(type, t->x, t->who.place * t->o.dim[0]);
    for (int64_t i = 0; i < t->y_n; i++)
        EXPECT(r, get(type, y, i) == awaited(t, i),
               "%s %d of %s on %s of %d: element %d is %g, not %g", op_infos[t->o.kind].name, t->k,
               dtype_name(type), comm_group_name(t->o.group), (int)t->who.n, (int)i,
               (double)get(type, y, i), (double)awaited(t, i));
    EXPECT(r, get(type, t->y, t->y_n) == -77, "%s %d of %s wrote behind its buffer",
           op_infos[t->o.kind].name, t->k, dtype_name(type));
}

static inline void trial_free(trial *t)
{
    free(t->x);
    free(t->y);
    free(t->table);
}

#endif
