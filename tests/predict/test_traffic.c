/* Bytes over links: against sums by hand, and against routing that is drawn. */
#include "rules/testing.h"

#include <math.h>
#include <stdlib.h>

#include "predict/audit/audit.h"
#include "predict/audit/expected.h"
#include "op/flex_group.h"

static void audited(made *x, audit_result *r, const char *base, const char *words)
{
    made_good(x, base, words);
    assert_int_equal(audit_run(r, &x->s, NULL, x->a, &x->err), OK);
    assert_null(r->why_not);
    assert_true(r->ok);
}

/* ---- collectives */

static void replicas_send_gradients_and_weights(void **state)
{
    (void)state;
    made x;
    audit_result r;
    audited(&x, &r, "tiny",
            "GPU=cpu N_GPUS=8 GPUS_PER_NODE=2 NVLINK=4 MBS=1 GBS=8 SEQ=64 DIST_OPT=true "
            "BALANCING=none");
    double slice = (double)r.fullest->bytes[REGION_GRADIENTS] / 8;
    audit_traffic t = audit_rank_traffic(&r, 3);
    /* a slice to each of 7 others, summed gradients and then weights */
    assert_true(fabs(t.bytes[GROUP_DP_CP][LINK_IN_NODE] - 2 * slice * 1) <= 1);
    assert_true(fabs(t.bytes[GROUP_DP_CP][LINK_IN_DOMAIN] - 2 * slice * 2) <= 1);
    assert_true(fabs(t.bytes[GROUP_DP_CP][LINK_OUTSIDE] - 2 * slice * 4) <= 1);
    assert_true(fabs(r.group_bytes[GROUP_DP_CP][LINK_OUTSIDE] - 8 * 2 * slice * 4) <= 8);
    made_release(&x);
}

static void stages_send_hidden_states(void **state)
{
    (void)state;
    made x;
    audit_result r;
    audited(&x, &r, "tiny",
            "GPU=cpu N_GPUS=4 GPUS_PER_NODE=2 NVLINK=2 PP=4 MBS=1 GBS=6 SEQ=64 BALANCING=none");
    double message = 4.0 * 64 * (double)x.s.m.hidden;
    assert_true(fabs(r.group_bytes[GROUP_PP][LINK_IN_NODE] - 2 * 6 * 2 * message) <= 1);
    assert_true(fabs(r.group_bytes[GROUP_PP][LINK_OUTSIDE] - 6 * 2 * message) <= 1);
    /* three borders, both ways, both ends; then tallies */
    assert_int_equal(r.messages, 2 * 3 * 6 * 2 + 4);
    made_release(&x);
}

/* ---- exchanges */

static uint64_t seed = 7;

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

enum { RANKS = 16, TOKENS = 20000 };

typedef struct drawn {
    double hop1[RANKS][RANKS], hop2[RANKS][RANKS], rows[RANKS][RANKS];
} drawn;

/* The members that one token of `from` has experts on. */
static void choose(const model *m, int64_t each, bool on[RANKS], int64_t rows[RANKS])
{
    bool chosen[256] = {false};
    for (int64_t k = 0; k < m->moe->topk;) {
        int64_t e = draw(m->moe->experts);
        if (chosen[e]) continue;
        chosen[e] = true;
        on[e / each] = true;
        rows[e / each]++;
        k++;
    }
}

static void route(const setup *s, const flex_group *g, drawn *d)
{
    int64_t P = flex_members(g), each = s->m.moe->experts / s->lay.ep;
    for (int64_t from = 0; from < P; from++)
        for (int t = 0; t < TOKENS; t++) {
            bool on[RANKS] = {false}, there[RANKS] = {false};
            int64_t rows[RANKS] = {0};
            choose(&s->m, each, on, rows);
            for (int64_t to = 0; to < P; to++) {
                int64_t domain = flex_domain(g, to), rail = flex_rail(g, from, domain);
                d->rows[from][to] += (double)rows[to];
                if (!on[to]) continue;
                if (!there[domain] && rail != from) d->hop1[from][rail]++;
                there[domain] = true;
                if (rail != to) d->hop2[rail][to]++;
            }
        }
}

static void near(double drawn_rows, double expected, const char *what, int64_t from, int64_t to)
{
    double slack = 5 * sqrt(expected) + 1; /* five standard deviations of a count */
    if (fabs(drawn_rows - expected) > slack)
        fail_msg("%s from %d to %d: drawn %g, expected %g", what, (int)from, (int)to, drawn_rows,
                 expected);
}

static void compare(const setup *s, const drawn *d, bool flex)
{
    double tokens = (double)recipe_int(&s->r, K_SEQ);
    for (int64_t from = 0; from < s->lay.world; from++)
        for (int64_t to = 0; to < s->lay.world; to++) {
            if (from == to) continue;
            if (!flex) {
                exchange_shape x = {GROUP_EP, 0, false};
                near(d->rows[from][to], exchange_expected(s, &x, from, to) / tokens * TOKENS,
                     "rows", from, to);
                continue;
            }
            for (int back = 0; back < 2; back++)
                for (int hop = 1; hop <= 2; hop++) {
                    exchange_shape x = {GROUP_TP_EP, hop, back == 1};
                    int64_t a = back ? to : from, b = back ? from : to;
                    near(hop == 1 ? d->hop1[a][b] : d->hop2[a][b],
                         exchange_expected(s, &x, from, to) / tokens * TOKENS,
                         hop == 1 ? "first hop" : "second hop", from, to);
                }
        }
}

static void expected_rows_are_those_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int64_t span;
        bool flex;
    } cases[] = {
        {"EP=16 N_GPUS=16 GPUS_PER_NODE=4 DISPATCHER=alltoall", 4, false},
        {"EP=16 N_GPUS=16 GPUS_PER_NODE=4 NVLINK=4 DISPATCHER=flex FLEX=deepep", 4, true},
        {"EP=16 N_GPUS=16 GPUS_PER_NODE=2 NVLINK=8 DISPATCHER=flex FLEX=hybridep", 8, true},
        {"EP=16 N_GPUS=16 GPUS_PER_NODE=5 NVLINK=5 DISPATCHER=flex FLEX=deepep", 5, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made x;
        made_good(&x, "qwen3-30b-a3b", cases[i].words);
        flex_group g = {x.s.m.moe->experts, 16, 1, 0, 0, cases[i].span};
        drawn *d = ARENA_NEW(x.a, drawn);
        route(&x.s, &g, d);
        compare(&x.s, d, cases[i].flex);
        made_release(&x);
    }
}

static double across(const char *words)
{
    made x;
    audit_result r;
    audited(&x, &r, "deepseek-v3", words);
    double bytes = r.group_bytes[GROUP_EP][LINK_OUTSIDE] + r.group_bytes[GROUP_TP_EP][LINK_OUTSIDE];
    made_release(&x);
    return bytes;
}

static void flex_sends_less_across(void **state)
{
    (void)state;
#define LAYOUT "N_GPUS=64 EP=64 GPUS_PER_NODE=8 MBS=1 GBS=64 LAYERS=4 MTP=0 FORCE_BALANCE=true "
    double rows = across(LAYOUT "NVLINK=8 DISPATCHER=alltoall");
    double nodes = across(LAYOUT "NVLINK=8 DISPATCHER=flex FLEX=deepep");
    double domains = across(LAYOUT "NVLINK=32 DISPATCHER=flex FLEX=hybridep");
    /* K of 256 experts, 32 on a node, 128 in a domain of 32 */
    assert_true(nodes < 0.8 * rows);
    assert_true(domains < 0.5 * nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_send_gradients_and_weights),
        cmocka_unit_test(stages_send_hidden_states),
        cmocka_unit_test(expected_rows_are_those_drawn),
        cmocka_unit_test(flex_sends_less_across),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
