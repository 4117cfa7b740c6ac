/* Messages of every format; sums of BF16 and FP16 are made in FP32, in the order of ranks, and
 * rounded once: to the same bits on every backend. */
#include "comm/running.h"

/* Element i of rank r; BF16 holds it, and FP16 too. One in four is large on ranks 0 and 1, which
 * cancel each other in FP32 before they swallow what the other ranks have, or after. */
static float wild(int64_t r, int64_t i)
{
    uint32_t random = mixed((uint32_t)(r * 65537 + i));
    if (i % 4 == 0 && r < 2) return r ? -0x1p15f : 0x1p15f;
    if (i % 4 == 0) return (float)(128 + random % 128) * 0x1p-17f;
    float v = (float)(128 + random % 128) * (random & 256 ? -1.0f : 1.0f);
    static const float scales[] = {0x1p-12f, 0x1p-7f, 0x1p-4f, 1, 4, 0x1p7f};
    return v * scales[random / 512 % 6];
}

typedef enum way { IN_ORDER, BACKWARDS, ROUNDED_EACH, WAYS } way;

static float sum_of(dtype type, int64_t members_n, int64_t i, way how)
{
    float sum = 0;
    for (int64_t k = 0; k < members_n; k++) {
        float v = wild(how == BACKWARDS ? members_n - 1 - k : k, i);
        sum = k ? sum + v : v;
        if (how == ROUNDED_EACH) sum = rounded(type, sum);
    }
    return rounded(type, sum);
}

/* Would the numbers tell? With two members neither order nor roundings matter. */
static void check_that_it_tells(dtype type, int64_t members_n, int64_t n, result *r)
{
    int64_t differ[WAYS] = {0};
    for (int64_t i = 0; i < n; i++)
        for (way w = BACKWARDS; w < WAYS; w++)
            differ[w] += sum_of(type, members_n, i, w) != sum_of(type, members_n, i, IN_ORDER);
    if (members_n < 3) return;
    EXPECT(r, differ[BACKWARDS] > n / 20 && differ[ROUNDED_EACH] > n / 20,
           "%s: of %d sums %d depend on the order, %d on roundings", dtype_name(type), (int)n,
           (int)differ[BACKWARDS], (int)differ[ROUNDED_EACH]);
}

static void expect_sum(dtype type, const void *y, int64_t at, int64_t i, int64_t members_n,
                       const char *what, result *r)
{
    float got = get(type, y, at), want = sum_of(type, members_n, i, IN_ORDER);
    EXPECT(r, memcmp(&got, &want, sizeof got) == 0, "%s of %s, element %d: %a, not %a", what,
           dtype_name(type), (int)i, (double)got, (double)want);
}

static void check_sums(comm *c, dtype type, int64_t n, result *r)
{
    int64_t P = comm_size(c), rank = comm_rank(c);
    void *x = elements(type, n * P), *y = elements(type, n);
    op all = {.kind = OP_ALL_REDUCE, .group = GROUP_WORLD, .type = type, .dim = {n}};
    op scatter = {.kind = OP_REDUCE_SCATTER, .group = GROUP_WORLD, .type = type, .dim = {n}};
    all.stream = scatter.stream = STREAM_COMM;
    scatter.out[1] = -1;
    for (int64_t i = 0; i < n; i++) put(type, y, i, wild(rank, i));
    comm_wait(c, comm_start(c, &all, NULL, (void *[]){y}));
    for (int64_t i = 0; i < n; i++) expect_sum(type, y, i, i, P, "ALL_REDUCE", r);
    EXPECT(r, get(type, y, n) == -77, "ALL_REDUCE wrote behind %d elements", (int)n);
    for (int64_t i = 0; i < n * P; i++) put(type, x, i, wild(rank, i));
    comm_wait(c, comm_start(c, &scatter, (void *[]){x}, (void *[]){y}));
    for (int64_t i = 0; i < n; i++) expect_sum(type, y, i, rank * n + i, P, "REDUCE_SCATTER", r);
    EXPECT(r, get(type, y, n) == -77, "REDUCE_SCATTER wrote behind %d elements", (int)n);
    free(x);
    free(y);
}

/* By hand: 256 + 1 + 1 + 1 is 259 in FP32 and 260 in BF16, whose steps are 2 here, but 256 where
 * each sum is rounded; 2^24 + 1 - 2^24 + 1 is 1 in this order, 2 or 0 in others. */
static void check_by_hand(comm *c, result *r)
{
    static const float mine[4][2] = {{256, 0x1p24f}, {1, 1}, {1, -0x1p24f}, {1, 1}};
    uint16_t y[2];
    for (int i = 0; i < 2; i++) y[i] = bf16_of_float(mine[comm_rank(c)][i]);
    run_one(c, DTYPE_BF16, OP_ALL_REDUCE, 2, 0, NULL, y);
    EXPECT(r, bf16_to_float(y[0]) == 260, "256 + 1 + 1 + 1: %g", (double)bf16_to_float(y[0]));
    EXPECT(r, bf16_to_float(y[1]) == 1, "2^24 + 1 - 2^24 + 1: %g", (double)bf16_to_float(y[1]));
}

/* Infinity, NaN and the largest finite number stay what they are. */
static void check_limits(comm *c, result *r)
{
    static const uint16_t special[] = {0x7f80, 0xff80, 0x7fc1, 0x7f7f, 0x8000, 0x0001};
    enum { N = sizeof special / sizeof special[0] };
    uint16_t y[N], zero = 0x8000;
    for (int i = 0; i < N; i++) y[i] = comm_rank(c) == 0 ? special[i] : zero;
    run_one(c, DTYPE_BF16, OP_ALL_REDUCE, N, 0, NULL, y);
    for (int i = 0; i < N; i++)
        EXPECT(r, y[i] == special[i], "%04x and -0: %04x", special[i], y[i]);
}

static void check_types(comm *c, const setup *s, result *r)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 64, 1023, 1024, 1025, 4099};
    int64_t P = comm_size(c);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_sums(c, DTYPE_BF16, sizes[i], r);
        check_sums(c, DTYPE_F16, sizes[i], r);
    }
    check_that_it_tells(DTYPE_BF16, P, 4099, r);
    check_that_it_tells(DTYPE_F16, P, 4099, r);
    if (P == 4) check_by_hand(c, r);
    check_limits(c, r);
    for (uint32_t seed = 20; seed < 26; seed++) check_many(c, s, seed, r);
    check_bytes(c, s, DTYPE_BF16, r);
}

/* A rank that waits for one message moves the others on: rank 0 has the sum before it starts what
 * the others wait for first. */
static void check_that_waiting_helps(comm *c, const setup *s, result *r)
{
    (void)s;
    enum { N = 3001 };
    uint16_t y[N];
    float x = 1, all[4];
    op sum = {.kind = OP_ALL_REDUCE, .group = GROUP_WORLD, .type = DTYPE_BF16, .dim = {N}};
    op gather = {.kind = OP_ALL_GATHER, .group = GROUP_WORLD, .dim = {1}};
    sum.stream = STREAM_COMM;
    gather.stream = STREAM_DP;
    for (int i = 0; i < N; i++) y[i] = bf16_of_float(1);
    int a = comm_start(c, &sum, NULL, (void *[]){y});
    if (comm_rank(c) == 0) comm_wait(c, a);
    int b = comm_start(c, &gather, (void *[]){&x}, (void *[]){all});
    comm_wait(c, b);
    if (comm_rank(c) > 0) comm_wait(c, a);
    EXPECT(r, bf16_to_float(y[N - 1]) == (float)comm_size(c), "%g ones",
           (double)bf16_to_float(y[N - 1]));
}

static void check_all_types(comm *c, const setup *s, result *r)
{
    check_types(c, s, r);
    check_that_waiting_helps(c, s, r);
}

static void threads_sum_in_order_and_round_once(void **state)
{
    (void)state;
    on_threads(1, "", check_all_types);
    on_threads(2, "cluster.n_gpus=2 model.context_parallel_size=2", check_all_types);
    on_threads(3, "cluster.n_gpus=3 model.context_parallel_size=3", check_all_types);
    on_threads(4, LAYOUT_OF_4, check_all_types);
}

static void expect_all_well(int n)
{
    for (int i = 0; i < n; i++) {
        char line[64];
        snprintf(line, sizeof line, "rank %d: all is well", i);
        expect_again(line);
    }
}

static void mpi_sums_to_the_same_bits(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("types", MPIRUN_OF(2))) fail_msg("%s", again);
    expect_all_well(2);
    if (run_again("types", MPIRUN_OF(3))) fail_msg("%s", again);
    expect_all_well(3);
    if (run_again("types", MPIRUN_OF(4))) fail_msg("%s", again);
    expect_all_well(4);
}

static void mpi_sums_large_messages_in_pieces(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("types", "MOEFOLD_MPI_PIECE=50 " MPIRUN_OF(3))) fail_msg("%s", again);
    expect_all_well(3);
    if (run_again("types", "MOEFOLD_MPI_PIECE=7 " MPIRUN_OF(4))) fail_msg("%s", again);
    expect_all_well(4);
}

static void other_formats_are_refused_by_name(void **state)
{
    (void)state;
    error err = {{0}};
    op o = {.kind = OP_ALL_REDUCE, .name = "gradients", .dim = {8}};
    static const dtype summed[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_F16, DTYPE_I32};
    for (dtype t = 0; t < DTYPE_COUNT; t++) {
        bool can = false;
        for (int i = 0; i < 5; i++) can |= summed[i] == t;
        o.type = t;
        o.kind = OP_ALL_REDUCE;
        assert_int_equal(comm_can(&o, &err), can ? OK : ERR_MACHINE);
        if (!can) assert_non_null(strstr(err.text, dtype_name(t)));
        if (!can) assert_non_null(strstr(err.text, "gradients (ALL_REDUCE)"));
        o.kind = OP_ALL_GATHER;
        assert_int_equal(comm_can(&o, &err), OK);
    }
    o.type = DTYPE_FP4;
    o.dim[0] = 7;
    assert_int_equal(comm_can(&o, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "7 elements of FP4"));
    assert_int_equal(run_again("fp8-sum", ""), ERR_MACHINE);
    expect_again("rank 0 of 1: operation gradients (ALL_REDUCE): collectives cannot sum FP8 E4M3");
}

/* Two in a byte: eight are four bytes. */
static void fp4_travels_in_whole_bytes(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    comm *c;
    error err = {{0}};
    assert_null(setup_of(s, a, ""));
    assert_int_equal(comm_open_self(&c, &err), OK);
    assert_int_equal(comm_groups(c, s, &err), OK);
    open_streams(c);
    char x[5] = "abcd", y[6] = "-----";
    run_one(c, DTYPE_FP4, OP_ALL_GATHER, 8, 0, x, y);
    assert_string_equal(y, "abcd-");
    comm_close(c);
    arena_destroy(a);
}

static void formats_of_members_are_compared(void **state)
{
    (void)state;
    assert_int_equal(run_again("other-format", ""), ERR_MACHINE);
    expect_again("ALL_GATHER qkv of 8 FP32");
    expect_again("ALL_GATHER qkv of 8 INT32");
    assert_int_equal(run_again("other-format-pair", ""), ERR_MACHINE);
    expect_again("8 BF16");
    expect_again("8 FP16");
}

/* ---- what the processes do */

static void gather_another_format(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    float x[8] = {0}, y[16];
    op o = {.kind = OP_ALL_GATHER, .group = GROUP_WORLD, .name = "qkv", .dim = {8}};
    o.type = comm_rank(c) == 0 ? DTYPE_F32 : DTYPE_I32;
    o.stream = STREAM_COMM;
    comm_wait(c, comm_start(c, &o, (void *[]){x}, (void *[]){y}));
}

static void send_another_format(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    uint16_t x[8] = {0};
    bool sends = comm_rank(c) == 0;
    op o = {.kind = sends ? OP_SEND : OP_RECV, .group = GROUP_WORLD, .dim = {8, 1, 0}};
    o.type = sends ? DTYPE_BF16 : DTYPE_F16;
    o.stream = STREAM_COMM;
    comm_wait(c, comm_start(c, &o, (void *[]){x}, (void *[]){x}));
}

static void sum_fp8(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    op o = {.kind = OP_ALL_REDUCE, .group = GROUP_WORLD, .name = "gradients", .dim = {8}};
    o.type = DTYPE_E4M3;
    o.stream = STREAM_COMM;
    comm_start(c, &o, NULL, (void *[]){&o});
}

static void mode_of_threads(void **state)
{
    (void)state;
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (text_equal(mode, "other-format")) on_threads(2, "cluster.n_gpus=2", gather_another_format);
    if (text_equal(mode, "other-format-pair"))
        on_threads(2, "cluster.n_gpus=2", send_another_format);
    if (text_equal(mode, "fp8-sum")) on_threads(1, "", sum_fp8);
}

static int run_mode(const char *mode)
{
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(mode_of_threads)};
    if (!text_equal(mode, "types")) return cmocka_run_group_tests(of_threads, NULL, NULL);
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (text_equal(size, "2"))
        return run_mpi("cluster.n_gpus=2 model.tensor_model_parallel_size=2", check_all_types);
    if (text_equal(size, "3"))
        return run_mpi("cluster.n_gpus=3 model.context_parallel_size=3", check_all_types);
    return run_mpi(LAYOUT_OF_4, check_all_types);
}

int main(void)
{
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (mode) return run_mode(mode);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_sum_in_order_and_round_once),
        cmocka_unit_test(mpi_sums_to_the_same_bits),
        cmocka_unit_test(mpi_sums_large_messages_in_pieces),
        cmocka_unit_test(other_formats_are_refused_by_name),
        cmocka_unit_test(fp4_travels_in_whole_bytes),
        cmocka_unit_test(formats_of_members_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
