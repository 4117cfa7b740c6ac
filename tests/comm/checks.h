/* checks.h - the properties, as each rank sees them; see testing.h. */
#ifndef TESTS_COMM_CHECKS_H
#define TESTS_COMM_CHECKS_H

#include "comm/testing.h"

enum { MESSAGES = 60 };

static const op_kind collective_kinds[] = {OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE,
                                           OP_ALL_TO_ALL, OP_EXCHANGE,       OP_SHIFT};

static const dtype summed_types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I32, DTYPE_F16, DTYPE_F64};
static const dtype moved_types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I32, DTYPE_U8, DTYPE_E4M3};

static inline bool is_sum(op_kind k)
{
    return k == OP_ALL_REDUCE || k == OP_REDUCE_SCATTER;
}

/* Sends come before their receives in the list, as messages k and k + 1; a receive has the tag of
 * its send. Two pairs in four have the same tag: those keep their order. */
static inline void plan_pair(trial *t, int k, uint32_t random, comm_group g)
{
    bool send = k % 2 == 0;
    int64_t step = 1 + random % 3;
    t->o = (op){.kind = send ? OP_SEND : OP_RECV, .group = g, .name = "pair"};
    t->o.dim[0] = random / 64 % 300;
    t->o.dim[1] = send ? step : -step;
    t->o.dim[2] = random / 8 % 2;
    t->o.type = moved_types[random / 32 % 5];
    t->o.stream = random / 16 % 2 ? STREAM_SEND_FORWARD : STREAM_SEND_BACKWARD;
    if (!send) t->o.stream = op_stream_opposite(t->o.stream);
}

/* The same list on every rank. */
static inline int plan(trial *list, const setup *s, int64_t rank, uint32_t seed, arena *a)
{
    int n = 0;
    for (int k = 0; k < MESSAGES; k++) {
        trial *t = &list[n];
        uint32_t random = mixed(seed * 1000 + (uint32_t)(k / 2 * 2));
        comm_group g = (comm_group)(GROUP_WORLD + random / 4096 % (GROUP_COUNT - GROUP_WORLD));
        *t = (trial){.k = k, .who = members_of(s, g, rank, a)};
        if (t->who.n < 1) continue; /* not in this group, and all members know */
        if (random % 4 == 0) {
            plan_pair(t, k, random, g);
        } else {
            random = mixed(random + (uint32_t)k);
            t->o = (op){.kind = collective_kinds[random % 6], .group = g, .name = "many"};
            t->o.dim[0] = random / 8 % 8 == 0 ? 0 : random / 64 % 400;
            t->o.dim[1] = t->o.kind == OP_EXCHANGE ? 1 + random / 64 % 9 : random / 512 % 5;
            t->in_place = random / 4096 % 2;
            t->o.stream = g == GROUP_TP && random / 2048 % 2 ? STREAM_DP : STREAM_COMM;
            t->o.type = (is_sum(t->o.kind) ? summed_types : moved_types)[random / 32768 % 5];
        }
        trial_fill(t, rank);
        n++;
    }
    return n;
}

/* Many messages of several groups at once, ended in another order on each rank. */
static inline void check_many(comm *c, const setup *s, uint32_t seed, result *r)
{
    arena *a = arena_create();
    trial list[MESSAGES];
    int order[MESSAGES], n = plan(list, s, comm_rank(c), seed, a);
    for (int i = 0; i < n; i++) {
        trial_start(&list[i], c);
        order[i] = i;
        if (mixed(seed + (uint32_t)i) % 5 == 0) comm_progress(c);
        if (mixed(seed + (uint32_t)i) % 7 == 0) comm_test(c, list[i / 2].request);
    }
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(mixed((uint32_t)(i + 100 * comm_rank(c))) % (uint32_t)(i + 1));
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < n; i++) comm_wait(c, list[order[i]].request);
    for (int i = 0; i < n; i++) {
        trial_check(&list[i], r);
        trial_free(&list[i]);
    }
    arena_destroy(a);
}

/* Messages to both neighbours at once, each direction on streams of its own, the receives started
 * first here and last there; of one stream the order is kept. */
static inline void check_directions(comm *c, result *r)
{
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    int requests[8];
    for (int half = 0; half < 2; half++) {
        bool sends = half == comm_rank(c) % 2;
        for (int i = 0; i < 4; i++) {
            bool forward = i % 2 == 0;
            int64_t step = forward == sends ? 1 : -1;
            op o = {.kind = sends ? OP_SEND : OP_RECV, .group = GROUP_WORLD, .dim = {1, step, i}};
            o.stream = forward ? STREAM_SEND_FORWARD : STREAM_SEND_BACKWARD;
            if (!sends) o.stream = op_stream_opposite(o.stream);
            requests[4 * half + i] = comm_start(c, &o, (void *[]){&x[i]}, (void *[]){&y[i]});
        }
    }
    for (int i = 7; i >= 0; i--) comm_wait(c, requests[i]);
    for (int i = 0; i < 4; i++) EXPECT(r, y[i] == x[i], "direction %d: %g", i, (double)y[i]);
}

static inline void check_small(comm *c, result *r)
{
    int64_t n = comm_size(c), rank = comm_rank(c);
    static _Thread_local double values[20000]; /* more than one piece */
    for (int i = 0; i < 20000; i++) values[i] = (double)(rank + i);
    comm_sum(c, GROUP_WORLD, values, 20000);
    for (int i = 0; i < 20000; i++)
        EXPECT(r, values[i] == (double)(n * (n - 1) / 2 + n * i), "sum %d: %g", i, values[i]);
    double top[2] = {-(double)rank, (double)rank};
    comm_max(c, GROUP_WORLD, top, 2);
    EXPECT(r, top[0] == 0 && top[1] == (double)(n - 1), "max: %g %g", top[0], top[1]);
    for (int64_t root = 0; root < n; root++) {
        int64_t word[3] = {rank, rank * 2, 7};
        comm_broadcast(c, GROUP_WORLD, root, word, sizeof word);
        EXPECT(r, word[0] == root && word[1] == 2 * root, "broadcast from %d: %d", (int)root,
               (int)word[0]);
    }
    int64_t *all = malloc((size_t)n * sizeof *all);
    comm_collect(c, GROUP_WORLD, &rank, sizeof rank, all);
    for (int64_t p = 0; p < n; p++) EXPECT(r, all[p] == p, "collect: %d", (int)all[p]);
    free(all);
    comm_barrier(c, GROUP_TP);
    comm_barrier(c, GROUP_WORLD);
}

static inline void run_one(comm *c, dtype type, op_kind kind, int64_t n, int64_t step, void *x,
                           void *y)
{
    op o = {.kind = kind, .group = GROUP_WORLD, .stream = STREAM_COMM, .dim = {n, step}};
    o.type = type;
    o.out[1] = -1;
    comm_wait(c, comm_start(c, &o, (void *[]){x}, (void *[]){y}));
}

/* On a world where nodes have 2 ranks and NVLink reaches 4 (check_bytes needs one node pair). */
static inline void check_bytes(comm *c, const setup *s, dtype type, result *r)
{
    int64_t P = comm_size(c), rank = comm_rank(c), N = 10, near = 0;
    for (int64_t p = 0; p < P; p++)
        near += p != rank && p / s->lay.gpus_per_node == rank / s->lay.gpus_per_node;
    void *x = elements(type, N * P), *y = elements(type, N * P);
    double size = (double)dtype_bytes(type, 1);
    comm_statistics_clear(c);
    run_one(c, type, OP_ALL_GATHER, N, 0, x, y);
    run_one(c, type, OP_REDUCE_SCATTER, N, 0, x, y);
    run_one(c, type, OP_ALL_TO_ALL, N, 0, x, y);
    run_one(c, type, OP_ALL_REDUCE, N * P, 0, NULL, y);
    run_one(c, type, OP_SHIFT, N, 1, x, y);
    const comm_stats *st = comm_statistics(c);
    const double *b = st->bytes[GROUP_WORLD];
    int64_t next = (rank + 1) % P;
    bool next_near = next != rank && next / s->lay.gpus_per_node == rank / s->lay.gpus_per_node;
    double to_near = size * (double)(5 * N * near + N * next_near);
    double to_all = size * (double)(5 * N * (P - 1) + N * (next != rank));
    EXPECT(r, b[LEVEL_NODE] == to_near, "bytes in the node: %g, not %g", b[LEVEL_NODE], to_near);
    EXPECT(r, b[LEVEL_NODE] + b[LEVEL_DOMAIN] + b[LEVEL_ACROSS] == to_all, "bytes: %g, not %g",
           b[LEVEL_NODE] + b[LEVEL_DOMAIN] + b[LEVEL_ACROSS], to_all);
    EXPECT(r, b[LEVEL_SELF] == 0, "bytes to itself: %g", b[LEVEL_SELF]);
    EXPECT(r, st->messages[STREAM_COMM] == 5, "%g messages", st->messages[STREAM_COMM]);
    free(x);
    free(y);
}

static inline void check_all(comm *c, const setup *s, result *r)
{
    for (uint32_t seed = 1; seed <= 6; seed++) check_many(c, s, seed, r);
    check_directions(c, r);
    check_small(c, r);
    check_bytes(c, s, DTYPE_F32, r);
    check_bytes(c, s, DTYPE_BF16, r);
    check_bytes(c, s, DTYPE_F64, r);
}

#endif
