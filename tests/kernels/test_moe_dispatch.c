/* test_moe_dispatch.c - tables of messages by hand, and rows that go to their experts at once. */
#include "moe_testing.h"

#include <omp.h>

static void assert_words(const char *what, const int32_t *x, const int32_t *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != expected[i])
            fail_msg("%s[%d] is %d, not %d", what, (int)i, (int)x[i], (int)expected[i]);
}

/* ---- alltoall */

/* Two EP ranks by two of ETP, experts 0 1 | 2 3. Rows of each member for each expert:
 *     member 0 (ep 0, etp 0)  2 1 1 0
 *     member 1 (ep 0, etp 1)  1 1 1 1
 *     member 2 (ep 1, etp 0)  0 2 1 1
 *     member 3 (ep 1, etp 1)  3 0 0 1 */
static const int32_t offsets[4][5] = {
    {0, 2, 3, 4, 4}, {0, 1, 2, 3, 4}, {0, 0, 2, 3, 4}, {0, 3, 3, 3, 4}};

typedef struct routed {
    int32_t kept[4], ep[12], etp[16], local[16], starts[3], sums[16], demand[2];
} routed;

static routed route_member(int64_t place, int64_t room)
{
    routed r;
    int32_t rows[4] = {3, 0, 2, 1}; /* of two tokens with two experts each */
    op o = {.kind = OP_ROUTE, .dim = {4, 2, 2, place, 2, 2, room}};
    memset(&r, 77, sizeof r);
    run(plain_moe(), &o, LIST(rows, (void *)(uintptr_t)offsets),
        LIST(r.kept, r.ep, r.etp, r.local, r.starts, r.sums, r.demand));
    return r;
}

/* Member 0 has experts 0 and 1. From member 0 come 2 + 1 rows, from 2 (its place in ETP) 0 + 2; by
 * the gather over ETP those of member 1: 1 + 1 from itself, 3 + 0 from 3. */
static void rows_arrive_in_megatrons_order(void **state)
{
    (void)state;
    routed r = route_member(0, 8);
    assert_words("ep", r.ep, (int32_t[]){0, 3, 3, 1, 0, 3, 3, 2, 0, 3, 3, 1}, 12);
    assert_words("etp there", r.etp, (int32_t[]){0, 0, 5, 5, 0, 5, 5, 5}, 8);
    assert_words("etp back", r.etp + 8, (int32_t[]){0, 5, 5, 5, 0, 8, 5, 5}, 8);
    /* expert 0: 0 1 (member 0), 5 (1), 7 8 9 (3); expert 1: 2 (0), 3 4 (2), 6 (1) */
    assert_words("local", r.local, (int32_t[]){0, 1, 6, 7, 8, 2, 9, 3, 4, 5, -1}, 11);
    assert_words("starts", r.starts, (int32_t[]){0, 6, 10}, 3);
    assert_words("kept", r.kept, (int32_t[]){3, 0, 2, 1}, 4);
    assert_words("sums", r.sums, (int32_t[]){0, 8, 1, 9, 2, 10, 3, 11, 4, 12, -1, -1}, 12);
    assert_words("demand", r.demand, (int32_t[]){5, 8}, 2);
}

/* Four rows of room: the last one from member 2 stays there; the same on both sides. */
static void rows_without_room_stay_at_home(void **state)
{
    (void)state;
    routed r = route_member(0, 4), other = route_member(2, 4);
    assert_words("taken", r.ep + 6, (int32_t[]){3, 1}, 2);
    assert_words("sent", other.ep + 2, (int32_t[]){1, 2}, 2);
    assert_words("kept", other.kept, (int32_t[]){3, 0, 2, -1}, 4);
    assert_words("starts", r.starts, (int32_t[]){0, 5, 8}, 3); /* member 1: 2 and 2 of 3 */
    assert_words("demand", r.demand, (int32_t[]){5, 4}, 2);
    assert_words("last", r.local + 4, (int32_t[]){2, 7, 3, 4}, 4);
}

static void one_place_in_etp_needs_no_sums(void **state)
{
    (void)state;
    int32_t all[2][3] = {{0, 1, 4}, {0, 2, 2}}, rows[4] = {0, 1, 2, 3}, kept[4], ep[12], local[6];
    int32_t starts[2], demand[2];
    op o = {.kind = OP_ROUTE, .dim = {2, 2, 1, 1, 4, 1, 6}};
    run(plain_moe(), &o, LIST(rows, all), LIST(kept, ep, NULL, local, starts, NULL, demand));
    assert_words("ep", ep, (int32_t[]){0, 2, 2, 0, 0, 3, 3, 0}, 8);
    assert_words("local", local, (int32_t[]){0, 1, 2, -1, -1, -1}, 6);
    assert_words("starts", starts, (int32_t[]){0, 3}, 2);
}

/* ---- flex */

/* Five members with two experts each in nodes of two, the first of them with one member only: 0 |
 * 1 2 | 3 4. */
static op flex_op(op_kind kind, int64_t place)
{
    return (op){.kind = kind, .dim = {10, 5, 1, place, 1, 2}};
}

static void tokens_are_counted_once_for_each_node(void **state)
{
    (void)state;
    int32_t ids[] = {0, 1, 2, /**/ 3, 4, 5, /**/ 9, 8, 0}, rows[9], counts[8];
    float keep[] = {1, 1, 1, 1, 1, 1, 1, 0, 1};
    op o = flex_op(OP_FLEX_COUNT, 0);
    o.dim[6] = 3, o.dim[7] = 3;
    run(plain_moe(), &o, LIST(ids, keep), LIST(rows, counts));
    assert_words("counts", counts, (int32_t[]){2, 2, 1, 2, 2, 1, 0, 1}, 8);
    assert_words("rows", rows, (int32_t[]){0, 2, -1, -1, 3, -1, 1, -1, 4}, 9);
}

/* Node 1's members send to member 0; it sends to the first of each other node; nodes of two keep to
 * their rails. */
static void tokens_take_the_rail_of_their_sender(void **state)
{
    (void)state;
    enum { P = 5, D = 3 };
    int32_t counts[P][D + P], rows[D] = {0, 1, 2}, kept[D], hop1[6 * P], hop2[6 * P], pairs[4];
    int32_t demand[6];
    for (int s = 0; s < P; s++) /* one token each, which goes everywhere */
        for (int i = 0; i < D + P; i++) counts[s][i] = 1;
    op o = flex_op(OP_FLEX_PLAN, 1);
    o.dim[6] = 1, o.dim[7] = 8, o.dim[8] = 8, o.dim[9] = 8;
    run(plain_moe(), &o, LIST(rows, counts), LIST(kept, hop1, hop2, pairs, demand));
    assert_words("to", hop1 + P, (int32_t[]){1, 1, 0, 1, 0}, P);
    assert_words("from", hop1 + 3 * P, (int32_t[]){1, 1, 0, 1, 0}, P); /* 0's rail, itself, 3 */
    assert_words("at", hop1 + 2 * P, (int32_t[]){0, 1, 0, 2, 0}, P);
    assert_words("fan", hop2 + P, (int32_t[]){0, 3, 3, 0, 0}, P);
    assert_words("gather", hop2 + 3 * P, (int32_t[]){0, 3, 2, 0, 0}, P); /* 2 has two sources */
    assert_words("demand", demand, (int32_t[]){3, 8, 6, 8, 5, 8}, 6);
    o.dim[7] = 2; /* the third source finds no room, all its rows stay */
    run(plain_moe(), &o, LIST(rows, counts), LIST(kept, hop1, hop2, pairs, demand));
    assert_words("from", hop1 + 3 * P, (int32_t[]){1, 1, 0, 0, 0}, P);
    assert_words("fan", hop2 + P, (int32_t[]){0, 2, 2, 0, 0}, P);
    assert_words("demand", demand, (int32_t[]){3, 2, 6, 8, 5, 8}, 6);
    o.dim[3] = 2; /* so does member 2, third at member 0, which all others send to */
    run(plain_moe(), &o, LIST(rows, counts), LIST(kept, hop1, hop2, pairs, demand));
    assert_words("kept", kept, (int32_t[]){-1, 1, 2}, D);
    assert_words("to", hop1 + P, (int32_t[]){0, 0, 1, 0, 1}, P);
}

static void rows_fan_out_to_members_with_an_expert(void **state)
{
    (void)state;
    enum { P = 5 };
    float meta[4][4] = {{2, 3, 1, 1}, {4, 9, 1, 1}, {5, 2, 1, 1}, {4, 4, 1, 1}}; /* ids, weights */
    int32_t hop1[6 * P] = {0}, hop2[6 * P] = {0}, rows[8];
    hop1[3 * P] = 3; /* three rows came */
    hop2[0 * P + 2] = 2;
    hop2[1 * P + 1] = 2, hop2[1 * P + 2] = 1;
    op o = flex_op(OP_FLEX_FAN, 2);
    o.dim[6] = 4, o.dim[7] = 2;
    run(plain_moe(), &o, LIST(meta, hop1, hop2), LIST(rows));
    assert_words("rows", rows, (int32_t[]){0, -1, -1, 2, 1, -1, -1, -1}, 8);
}

/* In one operation or in three: the same rows, whatever the room and the number of threads. */
static void placing_at_once_equals_unpacking_and_sorting(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        pool p = {.random = 7 + (uint64_t)i};
        int64_t T = 57, K = 3, H = 33, E = 4, first = 3, room = i % 2 ? 40 : 200, P = 2;
        int32_t table[12] = {0}, demand[2], other_demand[2];
        table[3 * P + 1] = i % 3 ? 50 : 57; /* rows that came */
        float *x = random_floats(&p, T * H, 1), *meta = random_floats(&p, T * 2 * K, 1);
        for (int64_t t = 0; t < T; t++)
            for (int64_t k = 0; k < K; k++)
                meta[t * 2 * K + k] = (float)((t * 5 + k * 3 + t / 7) % 10 - (t % 9 == 0));
        float *xp = random_floats(&p, room * H, 1), *pp = random_floats(&p, room, 1);
        float *other = random_floats(&p, room * H, 1), *other_p = random_floats(&p, room, 1);
        float *probs = TAKE(&p, float, T *K);
        int32_t *ids = TAKE(&p, int32_t, T * K), *rows = TAKE(&p, int32_t, T * K);
        int32_t *other_rows = TAKE(&p, int32_t, T * K), starts[5], other_starts[5];
        op once = {.kind = OP_FLEX_PLACE, .dim = {T, K, H, room, E, first, P}};
        op unpack = {.kind = OP_FLEX_UNPACK, .dim = {T, K, P}};
        op sort = {.kind = OP_SORT, .dim = {T, E, K, room, 0, first}};
        op permute = {.kind = OP_PERMUTE, .dim = {T, K, H, room}};
        omp_set_num_threads(1 + i % 3);
        run(i < 6 ? plain_moe() : fast_moe(), &once, LIST(x, meta, table),
            LIST(xp, pp, rows, starts, demand));
        run(plain_moe(), &unpack, LIST(meta, table), LIST(probs, ids));
        run(plain_moe(), &sort, LIST(ids), LIST(other_rows, other_starts, other_demand));
        run(plain_moe(), &permute, LIST(x, probs, other_rows), LIST(other, other_p));
        assert_words("rows", rows, other_rows, T * K);
        assert_words("starts", starts, other_starts, E + 1);
        assert_words("demand", demand, other_demand, 2);
        assert_true(demand[0] > 40 && demand[1] == room);
        assert_memory_equal(xp, other, (size_t)(room * H) * sizeof *xp);
        assert_memory_equal(pp, other_p, (size_t)room * sizeof *pp);
        pool_release(&p);
    }
}

static void packing_keeps_ids_and_weights(void **state)
{
    (void)state;
    float probs[] = {.1f, .2f, .3f, .4f}, keep[] = {1, 0, 1, 1}, meta[8], back[4];
    int32_t ids[] = {4095, 1, 0, 7}, got[4], table[6] = {0, 0, 0, 2};
    op pack = {.kind = OP_FLEX_PACK, .dim = {2, 2}}, unpack = {.kind = OP_FLEX_UNPACK};
    unpack.dim[0] = 2, unpack.dim[1] = 2, unpack.dim[2] = 1;
    run(plain_moe(), &pack, LIST(probs, ids, keep), LIST(meta));
    run(plain_moe(), &unpack, LIST(meta, table), LIST(back, got));
    assert_words("ids", got, (int32_t[]){4095, -1, 0, 7}, 4);
    assert_memory_equal(back, probs, sizeof probs);
}

static void demand_is_that_of_the_fullest(void **state)
{
    (void)state;
    float most[2] = {0, 0};
    int32_t first[] = {5, 10, 9, 12, 1, 8}, second[] = {13, 12}, third[] = {100, 99};
    op o = {.kind = OP_DEMAND, .dim = {3}};
    run(plain_moe(), &o, LIST(first), LIST(most));
    assert_true(most[0] == 9 && most[1] == 12);
    o.dim[0] = 1;
    run(plain_moe(), &o, LIST(second), LIST(most));
    assert_true(most[0] == 13 && most[1] == 12);
    run(plain_moe(), &o, LIST(third), LIST(most)); /* of the next microbatch */
    assert_true(most[0] == 13 && most[1] == 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive_in_megatrons_order),
        cmocka_unit_test(rows_without_room_stay_at_home),
        cmocka_unit_test(one_place_in_etp_needs_no_sums),
        cmocka_unit_test(tokens_are_counted_once_for_each_node),
        cmocka_unit_test(tokens_take_the_rail_of_their_sender),
        cmocka_unit_test(rows_fan_out_to_members_with_an_expert),
        cmocka_unit_test(placing_at_once_equals_unpacking_and_sorting),
        cmocka_unit_test(packing_keeps_ids_and_weights),
        cmocka_unit_test(demand_is_that_of_the_fullest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
