/* test_moe.c - gradients against differences, fast rows against row 0, threads against threads. */
#include "moe_sorted.h"

#include <omp.h>

#include "backend/cpu/kernels/blas.h"

/* ---- gradients against central differences, in double */

/* A function of its input `which`: the inner product of outputs with what comes back to them. */
typedef struct slope_case {
    const char *what;
    op o;
    void *in[OP_IN_MAX];
    int which;
    int64_t n_in; /* of input `which` */
    int64_t n_out[OP_OUT_MAX];
    const double *cotangent[OP_OUT_MAX];
} slope_case;

static double value_of(const slope_case *c, pool *p)
{
    void *out[OP_OUT_MAX] = {NULL};
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (c->n_out[i]) out[i] = TAKE(p, double, c->n_out[i]); /* zero: some add */
    run(plain_moe_double(), &c->o, c->in, out);
    double sum = 0;
    for (int i = 0; i < OP_OUT_MAX; i++)
        for (int64_t j = 0; c->cotangent[i] && j < c->n_out[i]; j++)
            sum += c->cotangent[i][j] * ((double *)out[i])[j];
    return sum;
}

static void assert_slope(const slope_case *c, const double *gradient)
{
    double *x = c->in[c->which], step = 1e-5;
    for (int64_t i = 0; i < c->n_in; i++) {
        pool p = {0};
        double was = x[i];
        x[i] = was + step;
        double above = value_of(c, &p);
        x[i] = was - step;
        double below = value_of(c, &p);
        x[i] = was;
        pool_release(&p);
        double slope = (above - below) / (2 * step);
        if (!(magnitude(slope - gradient[i]) <= 1e-7 * (1 + magnitude(slope))))
            fail_msg("%s: element %d: %.10g by differences, %.10g by the kernel", c->what, (int)i,
                     slope, gradient[i]);
    }
}

typedef struct mode {
    const char *what;
    unsigned flags;
    int64_t K, groups, group_topk;
} mode;

static void gradient_of_router_weights(void **state)
{
    (void)state;
    static const mode modes[] = {
        {"softmax after", 0, 3, 0, 0},
        {"softmax before", PRE_SOFTMAX, 3, 0, 0},
        {"softmax before, one", PRE_SOFTMAX, 1, 0, 0},
        {"softmax before, renormalised", PRE_SOFTMAX | RENORMALISE, 3, 0, 0},
        {"softmax, groups", PRE_SOFTMAX, 2, 4, 2},
        {"sigmoid", SIGMOID, 3, 0, 0},
        {"sigmoid, renormalised", SIGMOID | RENORMALISE, 3, 0, 0},
        {"sigmoid, renormalised, one", SIGMOID | RENORMALISE, 1, 0, 0},
        {"sigmoid, groups", SIGMOID | RENORMALISE | BEST_TWO, 3, 4, 2},
        {"root of softplus", SQRT_SOFTPLUS | RENORMALISE, 3, 0, 0},
        {"forced", FORCED, 3, 0, 0},
        {"forced sigmoid", FORCED | SIGMOID | RENORMALISE, 2, 4, 2},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        pool p = {.random = 5 + i};
        const mode *m = &modes[i];
        int64_t T = 5, E = 8, K = m->K;
        double *logits = random_doubles(&p, T * E, 2), *bias = random_doubles(&p, E, 0.3);
        double *cotangent = random_doubles(&p, T * K, 1), *probs = TAKE(&p, double, T *K);
        double *gradient = random_doubles(&p, T * E, 1);
        int32_t *ids = TAKE(&p, int32_t, T * K);
        slope_case c = {.what = m->what, .in = {logits, bias}, .n_in = T * E};
        c.o = (op){.kind = OP_ROUTER,
                   .dim = {T, E, K, m->groups, m->group_topk},
                   .real = {1.7},
                   .flags = m->flags};
        c.n_out[0] = c.n_out[1] = T * K;
        c.cotangent[0] = cotangent;
        op back = {.kind = OP_ROUTER_D, .dim = {T, E, K}, .real = {1.7}, .flags = m->flags};
        run(plain_moe_double(), &c.o, LIST(logits, bias), LIST(probs, ids));
        run(plain_moe_double(), &back, LIST(cotangent, logits, ids), LIST(gradient));
        assert_slope(&c, gradient);
        pool_release(&p);
    }
}

static void gradient_of_losses(void **state)
{
    (void)state;
    enum { T = 6, E = 5, K = 2, N_LOSSES = 6 };
    static const op losses[N_LOSSES] = {
        {.kind = OP_AUX_LOSS, .dim = {T, 3, E, K, 0}, .real = {0.7, 1.3}},
        {.kind = OP_AUX_LOSS, .dim = {T, 3, E, K, 1}, .real = {0.7, 1.3}},
        {.kind = OP_AUX_LOSS, .dim = {T, 3, E, K, 0, 2, 4 * T, 6}, .real = {0.7, 1.3}},
        {.kind = OP_AUX_LOSS, .dim = {T, 3, E, K, 1, 2, 4 * T, 6}, .real = {0.7, 1.3}},
        {.kind = OP_AUX_GLOBAL, .dim = {T, E, K, 3, 4 * T}, .real = {0.7, 1.3}},
        {.kind = OP_Z_LOSS, .dim = {T, E}, .real = {0.7, 1.3}},
    };
    static const unsigned scores[] = {0, SIGMOID, SQRT_SOFTPLUS};
    for (int i = 0; i < N_LOSSES * 3; i++) {
        pool p = {.random = 40 + (uint64_t)i};
        double *logits = random_doubles(&p, T * E, 2), one = 1.3;
        double counts[3 * E] = {3, 0, 11, 7, 3, 0, 9, 1, 2, 4, 6, 6, 5, 0, 1};
        double loss = 0, *before = random_doubles(&p, T * E, 1), *after = TAKE(&p, double, T *E);
        slope_case c = {.what = "loss", .o = losses[i % N_LOSSES], .in = {logits, counts}};
        if (c.o.kind == OP_AUX_LOSS && c.o.dim[6] == 0) c.in[1] = NULL; /* counts by itself */
        c.o.flags = scores[i / N_LOSSES];
        c.n_in = c.n_out[1] = T * E;
        c.n_out[0] = 1;
        c.cotangent[0] = &one; /* real[1]: how much of the loss goes backwards */
        memcpy(after, before, T * E * sizeof *after);
        run(plain_moe_double(), &c.o, c.in, LIST(&loss, after)); /* adds */
        for (int j = 0; j < T * E; j++) after[j] -= before[j];
        assert_slope(&c, after);
        pool_release(&p);
    }
}

/* One pair is dropped, and an expert has no rows. */
static sorted small_sorted(pool *p)
{
    sorted s = {.T = 7, .E = 6, .K = 2, .room = 17};
    s = sort_tokens(p, s, SPARSE, 0);
    s.rows[3] = -1; /* dropped */
    return s;
}

static void gradient_of_permutation(void **state)
{
    (void)state;
    pool p = {.random = 7};
    sorted s = small_sorted(&p);
    int64_t H = 3, n_x = s.T * H, n_xp = s.room * H, n_pairs = s.T * s.K;
    double *x = random_doubles(&p, n_x, 1), *probs = random_doubles(&p, n_pairs, 1);
    double *dxp = random_doubles(&p, n_xp, 1), *dpp = random_doubles(&p, s.room, 1);
    double *dx = TAKE(&p, double, n_x), *dprobs = TAKE(&p, double, n_pairs);
    slope_case c = {.what = "permute", .in = {x, probs, s.rows}, .n_in = n_x};
    c.o = (op){.kind = OP_PERMUTE, .dim = {s.T, s.K, H, s.room}};
    c.n_out[0] = n_xp, c.cotangent[0] = dxp;
    c.n_out[1] = s.room, c.cotangent[1] = dpp;
    op back = c.o;
    back.kind = OP_PERMUTE_D;
    run(plain_moe_double(), &back, LIST(dxp, dpp, s.rows), LIST(dx, dprobs));
    assert_slope(&c, dx);
    c.which = 1, c.n_in = n_pairs;
    assert_slope(&c, dprobs);
    pool_release(&p);
}

static void gradient_of_unpermutation(void **state)
{
    (void)state;
    pool p = {.random = 8};
    sorted s = small_sorted(&p);
    int64_t H = 3, n_y = s.T * H, n_yp = s.room * H;
    double *yp = random_doubles(&p, n_yp, 1), *dy = random_doubles(&p, n_y, 1);
    double *dyp = random_doubles(&p, n_yp, 1);
    slope_case c = {.what = "unpermute", .in = {yp, s.rows}, .n_in = n_yp};
    c.o = (op){.kind = OP_UNPERMUTE, .dim = {s.T, s.K, H, s.room}};
    c.n_out[0] = n_y, c.cotangent[0] = dy;
    op back = c.o;
    back.kind = OP_UNPERMUTE_D;
    run(plain_moe_double(), &back, LIST(dy, s.rows), LIST(dyp));
    assert_slope(&c, dyp);
    pool_release(&p);
}

static void gradient_of_experts(void **state)
{
    (void)state;
    pool p = {.random = 9};
    sorted s = small_sorted(&p);
    int64_t N = 3, K = 4, n_x = s.room * K, n_w = s.E * N * K, n_y = s.room * N;
    double *x = random_doubles(&p, n_x, 1), *w = random_doubles(&p, n_w, 1);
    double *dy = random_doubles(&p, n_y, 1), *dx = random_doubles(&p, n_x, 1);
    double *dw = TAKE(&p, double, n_w);
    slope_case c = {.what = "experts", .in = {x, w, s.offsets}, .n_in = n_x};
    c.o = (op){.kind = OP_GROUPED, .dim = {s.room, s.E, N, K}};
    c.n_out[0] = n_y, c.cotangent[0] = dy;
    op by_x = c.o, by_w = c.o;
    by_x.kind = OP_GROUPED_D, by_w.kind = OP_GROUPED_W;
    run(plain_moe_double(), &by_x, LIST(dy, w, s.offsets), LIST(dx));
    run(plain_moe_double(), &by_w, LIST(dy, x, s.offsets), LIST(dw));
    assert_slope(&c, dx);
    c.which = 1, c.n_in = n_w;
    assert_slope(&c, dw);
    pool_release(&p);
}

static void gradient_of_expert_biases(void **state)
{
    (void)state;
    for (int weighted = 0; weighted < 2; weighted++) {
        pool p = {.random = 10};
        sorted s = small_sorted(&p);
        int64_t N = 3, n_b = s.E * N, n_y = s.room * N;
        double *b = random_doubles(&p, n_b, 1), *dy = random_doubles(&p, n_y, 1);
        double *weights = weighted ? random_doubles(&p, s.room, 1) : NULL;
        double *db = TAKE(&p, double, n_b), *dp = TAKE(&p, double, s.room);
        slope_case c = {.what = "biases", .in = {b, weights, s.offsets}, .n_in = n_b};
        c.o = (op){.kind = OP_GROUPED_BIAS, .dim = {s.room, s.E, N}, .real = {0.7}};
        c.n_out[0] = n_y, c.cotangent[0] = dy;
        op by_b = c.o, by_p = c.o;
        by_b.kind = OP_GROUPED_BIAS_W, by_p.kind = OP_GROUPED_BIAS_P;
        run(plain_moe_double(), &by_b, LIST(dy, weights, s.offsets), LIST(db));
        run(plain_moe_double(), &by_p, LIST(dy, b, s.offsets), LIST(dp));
        for (int64_t i = 0; i < n_b; i++) db[i] *= 0.7; /* it is whole, whatever the share added */
        assert_slope(&c, db);
        c.which = 1, c.n_in = s.room;
        if (weighted) assert_slope(&c, dp);
        pool_release(&p);
    }
}

/* ---- fast rows against row 0, and against themselves on other numbers of threads */

typedef struct pair_case {
    op o;
    void *in[OP_IN_MAX];
    int64_t n_out[OP_OUT_MAX]; /* elements of 4 bytes */
    bool whole[OP_OUT_MAX];    /* int32: must be equal */
} pair_case;

/* Outputs start the same way everywhere: some are added to, the others must be overwritten. */
static void run_pair(pool *p, kernel_rows t, const pair_case *c, void **out)
{
    p->random = 77;
    for (int i = 0; i < OP_OUT_MAX; i++)
        out[i] = c->n_out[i] ? random_floats(p, c->n_out[i], 1) : NULL;
    run(t, &c->o, c->in, out);
}

static void assert_near(const pair_case *c, int i, const float *x, const float *expected)
{
    double most = 0;
    for (int64_t j = 0; j < c->n_out[i]; j++)
        if (magnitude(expected[j]) > most) most = magnitude(expected[j]);
    for (int64_t j = 0; j < c->n_out[i]; j++)
        if (!(magnitude((double)x[j] - (double)expected[j]) <= 2e-6 * most))
            fail_msg("kind %d output %d element %d: %.9g, not %.9g", (int)c->o.kind, i, (int)j,
                     (double)x[j], (double)expected[j]);
}

static void assert_pair(const pair_case *c)
{
    pool p = {0};
    void *plain[OP_OUT_MAX], *one[OP_OUT_MAX], *more[OP_OUT_MAX];
    run_pair(&p, plain_moe(), c, plain);
    omp_set_num_threads(1);
    run_pair(&p, fast_moe(), c, one);
    for (int i = 0; i < OP_OUT_MAX; i++) {
        if (c->whole[i]) assert_memory_equal(one[i], plain[i], (size_t)c->n_out[i] * 4);
        if (c->n_out[i] && !c->whole[i]) assert_near(c, i, one[i], plain[i]);
    }
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        omp_set_num_threads(n_threads);
        run_pair(&p, fast_moe(), c, more);
        for (int i = 0; i < OP_OUT_MAX; i++)
            if (c->n_out[i]) assert_memory_equal(more[i], one[i], (size_t)c->n_out[i] * 4);
    }
    pool_release(&p);
}

static void router_on_threads_equals_row_0(void **state)
{
    (void)state;
    static const mode modes[] = {{"", 0, 3, 0, 0},
                                 {"", PRE_SOFTMAX, 5, 11, 4},
                                 {"", SIGMOID | RENORMALISE, 6, 11, 3},
                                 {"", FORCED, 4, 11, 2},
                                 {"", SQRT_SOFTPLUS, 1, 0, 0}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const mode *m = &modes[i];
        int64_t sizes[] = {1, 37, 600};
        for (int j = 0; j < 3; j++) {
            pool p = {.random = 11 + i};
            int64_t T = sizes[j], E = 33, K = m->K;
            pair_case c = {.in = {random_floats(&p, T * E, 2), random_floats(&p, E, 0.1f)},
                           .n_out = {T * K, T * K},
                           .whole = {false, true}};
            c.o = (op){.kind = OP_ROUTER,
                       .dim = {T, E, K, m->groups, m->group_topk, 5},
                       .real = {2.5},
                       .flags = m->flags};
            assert_pair(&c);
            int32_t *ids = TAKE(&p, int32_t, T * K);
            run(plain_moe(), &c.o, c.in, LIST(TAKE(&p, float, T *K), ids));
            pair_case back = {
                .o = c.o, .in = {random_floats(&p, T * K, 1), c.in[0], ids}, .n_out = {T * E}};
            back.o.kind = OP_ROUTER_D;
            assert_pair(&back);
            pool_release(&p);
        }
    }
}

static void losses_on_threads_equal_row_0(void **state)
{
    (void)state;
    int64_t sizes[][2] = {{3, 3}, {74, 37}, {900, 300}};
    unsigned scores[] = {0, SIGMOID, SQRT_SOFTPLUS};
    for (int i = 0; i < 9; i++) {
        pool p = {.random = 21};
        int64_t T = sizes[i / 3][0], S = sizes[i / 3][1], E = 19, K = 4;
        op ops[] = {
            {.kind = OP_AUX_LOSS, .dim = {T, S, E, K, 0}, .real = {1, 0.5}},
            {.kind = OP_AUX_LOSS, .dim = {T, S, E, K, 1}, .real = {1, 0.5}},
            {.kind = OP_AUX_LOSS, .dim = {T, S, E, K, 0, 1, 4 * T, 2 * S}, .real = {1, 0.5}},
            {.kind = OP_AUX_LOSS, .dim = {T, S, E, K, 1, 1, 4 * T, 2 * S}, .real = {1, 0.5}},
            {.kind = OP_AUX_GLOBAL, .dim = {T, E, K, 0, 2 * T}, .real = {1, 0.5}},
            {.kind = OP_Z_LOSS, .dim = {T, E}, .real = {1, 0.5}},
            {.kind = OP_AUX_COUNT, .dim = {T, E, K}},
            {.kind = OP_AUX_COUNT, .dim = {T, E, K, S, 1}},
        };
        float *logits = random_floats(&p, T * E, 3), *counts = TAKE(&p, float, 4 * E);
        for (int64_t e = 0; e < 4 * E; e++) counts[e] = (float)(3 * e);
        for (size_t j = 0; j < sizeof ops / sizeof ops[0]; j++) {
            pair_case c = {.o = ops[j], .in = {logits, counts}, .n_out = {1, T * E}};
            c.o.flags = scores[i % 3];
            if (c.o.kind == OP_AUX_LOSS && c.o.dim[6] == 0) c.in[1] = NULL; /* counts by itself */
            if (c.o.kind == OP_AUX_COUNT) c.n_out[0] = 4 * E, c.n_out[1] = 0;
            assert_pair(&c);
        }
        pool_release(&p);
    }
}

/* Few different weights, so that most of the choice is between equals. */
static void dropping_equals_row_0(void **state)
{
    (void)state;
    int64_t capacities[] = {0, 1, 7, 40, 1000};
    for (int i = 0; i < 20; i++) {
        pool p = {.random = 31};
        sorted s = {.T = 101, .E = 9, .K = 3, .room = 303};
        s = sort_tokens(&p, s, i / 10 ? CROWDED : SPREAD, 0);
        float *probs = TAKE(&p, float, s.T *s.K);
        for (int64_t j = 0; j < s.T * s.K; j++)
            probs[j] = (float)((int)(magnitude(random_next(&p)) * 8)) / 8;
        pair_case c = {.in = {probs, s.ids}, .n_out = {s.T * s.K}, .whole = {true}};
        c.o = (op){.kind = OP_DROP, .dim = {s.T, s.E, s.K, capacities[i % 5], i / 5 % 2}};
        assert_pair(&c);
        pool_release(&p);
    }
}

static void permutation_on_threads_equals_row_0(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_WAYS; i++) {
        pool p = {.random = 41};
        sorted s = sort_in_way(&p, &ways[i / 2], 53);
        int64_t H = i % 2 ? 2500 : 33, n_x = s.T * H, n_xp = s.room * H, n = s.T * s.K;
        float *x = random_floats(&p, n_x, 1), *xp = random_floats(&p, n_xp, 1);
        float *probs = random_floats(&p, n, 1), *pp = random_floats(&p, s.room, 1);
        op o = {.dim = {s.T, s.K, H, s.room}};
        pair_case cases[] = {
            {.in = {x, probs, s.rows}, .n_out = {n_xp, s.room}, .whole = {true, true}},
            {.in = {xp, pp, s.rows}, .n_out = {n_x, n}, .whole = {true, true}},
            {.in = {xp, s.rows}, .n_out = {n_x}, .whole = {true}},
            {.in = {x, s.rows}, .n_out = {n_xp}, .whole = {true}},
        };
        op_kind kinds[] = {OP_PERMUTE, OP_PERMUTE_D, OP_UNPERMUTE, OP_UNPERMUTE_D};
        for (int j = 0; j < 8; j++) {
            cases[j % 4].o = o;
            cases[j % 4].o.kind = kinds[j % 4];
            cases[j % 4].o.flags = j < 4 ? 0 : ACCUMULATE;
            assert_pair(&cases[j % 4]);
        }
        pool_release(&p);
    }
}

/* Wide enough that products are cut, in odd places. */
static void experts_on_threads_equal_row_0(void **state)
{
    (void)state;
    if (!blas_ready()) skip();
    int64_t sizes[][3] = {{53, 19, 33}, {1, 1, 1}, {290, 263, 141}};
    for (int i = 0; i < 3 * N_WAYS; i++) {
        pool p = {.random = 51};
        int64_t T = sizes[i / N_WAYS][0], N = sizes[i / N_WAYS][1], K = sizes[i / N_WAYS][2];
        if (T == 1 && ways[i % N_WAYS].more_room < 0) continue;
        sorted s = sort_in_way(&p, &ways[i % N_WAYS], T);
        float *x = random_floats(&p, s.room * K, 1), *y = random_floats(&p, s.room * N, 1);
        float *w = random_floats(&p, s.E * N * K, 1);
        pair_case cases[] = {
            {.o = {.kind = OP_GROUPED}, .in = {x, w, s.offsets}, .n_out = {s.room * N}},
            {.o = {.kind = OP_GROUPED_D}, .in = {y, w, s.offsets}, .n_out = {s.room * K}},
            {.o = {.kind = OP_GROUPED_W}, .in = {y, x, s.offsets}, .n_out = {s.E * N * K}},
        };
        for (int j = 0; j < 3; j++) {
            memcpy(cases[j].o.dim, (int64_t[]){s.room, s.E, N, K}, 4 * sizeof(int64_t));
            assert_pair(&cases[j]);
        }
        pool_release(&p);
    }
}

static void biases_on_threads_equal_row_0(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_WAYS; i++) {
        pool p = {.random = 61};
        sorted s = sort_in_way(&p, &ways[i / 2], 53);
        int64_t N = 131;
        float *b = random_floats(&p, s.E * N, 1), *y = random_floats(&p, s.room * N, 1);
        float *weights = i % 2 ? random_floats(&p, s.room, 1) : NULL;
        pair_case cases[] = {
            {.o = {.kind = OP_GROUPED_BIAS}, .in = {b, weights, s.offsets}, .n_out = {s.room * N}},
            {.o = {.kind = OP_GROUPED_BIAS_W}, .in = {y, weights, s.offsets}, .n_out = {s.E * N}},
            {.o = {.kind = OP_GROUPED_BIAS_P}, .in = {y, b, s.offsets}, .n_out = {s.room}},
        };
        for (int j = 0; j < 3; j++) {
            memcpy(cases[j].o.dim, (int64_t[]){s.room, s.E, N}, 3 * sizeof(int64_t));
            cases[j].o.real[0] = i % 3 ? 1 : 0.25;
            assert_pair(&cases[j]);
        }
        pool_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_of_router_weights),
        cmocka_unit_test(gradient_of_losses),
        cmocka_unit_test(gradient_of_permutation),
        cmocka_unit_test(gradient_of_unpermutation),
        cmocka_unit_test(gradient_of_experts),
        cmocka_unit_test(gradient_of_expert_biases),
        cmocka_unit_test(router_on_threads_equals_row_0),
        cmocka_unit_test(losses_on_threads_equal_row_0),
        cmocka_unit_test(dropping_equals_row_0),
        cmocka_unit_test(permutation_on_threads_equals_row_0),
        cmocka_unit_test(experts_on_threads_equal_row_0),
        cmocka_unit_test(biases_on_threads_equal_row_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
