/* test_router_ranks.c - losses of the router whose counts are summed over ranks. */
#include "moe_testing.h"

/* Two ranks with half of the tokens each, two microbatches: their parts of the global loss add up
 * to the loss that one rank would have, and so do gradients. STEPS from the counts is the same. */
static void global_loss_adds_up_over_ranks(void **state)
{
    (void)state;
    pool p = {.random = 3};
    int64_t T = 12, E = 5, K = 2, half = T / 2 * E;
    double *logits = random_doubles(&p, T * E, 2), *counts = TAKE(&p, double, E);
    double *whole_d = TAKE(&p, double, T *E), *parts_d = TAKE(&p, double, T *E);
    double whole_loss = 0, parts_loss = 0;
    op count = {.kind = OP_AUX_COUNT, .dim = {T, E, K}};
    op one = {.kind = OP_AUX_GLOBAL, .dim = {T, E, K, 2, T}, .real = {0.5, 3}};
    op part = {.kind = OP_AUX_GLOBAL, .dim = {T / 2, E, K, 0, T}, .real = {0.5, 3}};
    kernel_rows t = plain_moe_double();
    for (int microbatch = 0; microbatch < 2; microbatch++)
        run(t, &count, LIST(logits), LIST(counts));
    run(t, &one, LIST(logits, counts), LIST(&whole_loss, whole_d));
    for (int rank = 0; rank < 2; rank++)
        run(t, &part, LIST(logits + rank * half, counts), LIST(&parts_loss, parts_d + rank * half));
    assert_true(magnitude(whole_loss - parts_loss) < 1e-12);
    for (int64_t i = 0; i < T * E; i++) assert_true(magnitude(whole_d[i] - parts_d[i]) < 1e-12);
    pool_release(&p);
}

/* A microbatch of B samples on TP x CP ranks. Row i of a rank's share is a row of the whole. */
typedef struct shares {
    int64_t B, seq, tp, cp;
} shares;

static int64_t row_of_share(const shares *s, int64_t rank, int64_t i)
{
    int64_t S = s->seq / s->cp, t = rank % s->tp * (s->B * S / s->tp) + i; /* of the CP rank */
    return t / S * s->seq + rank / s->tp * S + t % S;
}

/* Sums of counts over ranks make their losses parts of the loss that one rank would have. */
static void check_shares(const shares *s, int by_sequence)
{
    pool p = {.random = 4};
    int64_t n = s->B * s->seq, E = 7, K = 3, ranks = s->tp * s->cp, T = n / ranks;
    int64_t S = s->seq / s->cp;
    double *logits = random_doubles(&p, n * E, 2), *d = TAKE(&p, double, n *E);
    double *counts = TAKE(&p, double, s->B *E), loss = 0, parts = 0;
    kernel_rows t = plain_moe_double();
    op one = {.kind = OP_AUX_LOSS, .dim = {n, s->seq, E, K, by_sequence}, .real = {0.5, 3}};
    run(t, &one, LIST(logits), LIST(&loss, d));
    for (int64_t i = 0; i < 2 * ranks; i++) {
        int64_t rank = i % ranks, first = rank % s->tp * T;
        double *mine = TAKE(&p, double, T *E), *dmine = TAKE(&p, double, T *E);
        for (int64_t j = 0; j < T * E; j++)
            mine[j] = logits[row_of_share(s, rank, j / E) * E + j % E];
        op count = {.kind = OP_AUX_COUNT, .dim = {T, E, K, by_sequence ? S : 0, first}};
        op part = {.kind = OP_AUX_LOSS, .real = {0.5, 3}};
        memcpy(part.dim, (int64_t[]){T, S, E, K, by_sequence, first, n, s->seq}, 8 * 8);
        if (i < ranks) {
            run(t, &count, LIST(mine), LIST(counts));
            continue;
        }
        run(t, &part, LIST(mine, counts), LIST(&parts, dmine));
        for (int64_t j = 0; j < T * E; j++)
            assert_true(magnitude(dmine[j] - d[row_of_share(s, rank, j / E) * E + j % E]) < 1e-12);
    }
    assert_true(magnitude(loss - parts) < 1e-12);
    pool_release(&p);
}

static void losses_add_up_over_ranks(void **state)
{
    (void)state;
    static const shares all[] = {{2, 12, 1, 1}, {2, 12, 2, 1}, {2, 12, 4, 1},
                                 {1, 12, 4, 1}, {3, 12, 2, 2}, {3, 12, 4, 3}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int by_sequence = 0; by_sequence < 2; by_sequence++)
            check_shares(&all[i], by_sequence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(global_loss_adds_up_over_ranks),
        cmocka_unit_test(losses_add_up_over_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
