/* test_router.c - the router against Megatron-Core's own numbers, and what it promises besides. */
#include "moe_testing.h"

#include <jansson.h>

#include "base/maths.h"
#include "model/safetensors.h"

#define FOLDER "tests/data/router/"

/* ---- Megatron-Core's cases */

typedef struct golden {
    pool p;
    arena *a;
    safetensors f;
    FILE *file;
    json_t *cases;
} golden;

typedef struct route {
    const char *name;
    int64_t T, B, E, K, groups, group_topk;
    unsigned flags;
    double scaling;
    json_t *values;
} route;

static void golden_open(golden *g)
{
    error err;
    memset(g, 0, sizeof *g);
    g->a = arena_create();
    if (safetensors_open(&g->f, g->a, FOLDER "router.safetensors", &err)) fail_msg("%s", err.text);
    g->file = fopen(FOLDER "router.safetensors", "rb");
    g->cases = json_load_file(FOLDER "router.json", 0, NULL);
    assert_non_null(g->file);
    assert_int_equal(json_array_size(g->cases), 11);
}

static void golden_close(golden *g)
{
    json_decref(g->cases);
    fclose(g->file);
    arena_destroy(g->a);
    pool_release(&g->p);
}

static unsigned flags_of(json_t *v)
{
    const char *score = json_string_value(json_object_get(v, "score_function"));
    if (strcmp(score, "sigmoid") == 0) return SIGMOID | RENORMALISE;
    if (strcmp(score, "sqrtsoftplus") == 0) return SQRT_SOFTPLUS | RENORMALISE;
    return json_is_true(json_object_get(v, "pre_softmax")) ? PRE_SOFTMAX : 0;
}

static int64_t whole(json_t *v, const char *field)
{
    return json_integer_value(json_object_get(v, field)); /* null: 0 */
}

static double number(json_t *v, const char *field)
{
    return json_number_value(json_object_get(v, field));
}

static route route_of(json_t *v)
{
    bool scaled = json_is_number(json_object_get(v, "scaling_factor"));
    return (route){.name = json_string_value(json_object_get(v, "name")),
                   .T = whole(v, "tokens"),
                   .B = whole(v, "batch"),
                   .E = whole(v, "experts"),
                   .K = whole(v, "topk"),
                   .groups = whole(v, "num_groups"),
                   .group_topk = whole(v, "group_topk"),
                   .flags = flags_of(v),
                   .scaling = scaled ? number(v, "scaling_factor") : 1,
                   .values = v};
}

/* The bytes of CASE.NAME, or NULL. */
static void *tensor(golden *g, const route *r, const char *name)
{
    const safetensor *t = safetensors_find(&g->f, arena_text(g->a, "%s.%s", r->name, name));
    if (!t) return NULL;
    size_t bytes = (size_t)(t->end - t->begin);
    void *x = pool_take(&g->p, bytes);
    fseek(g->file, g->f.data + t->begin, SEEK_SET);
    assert_int_equal(fread(x, 1, bytes, g->file), bytes);
    return x;
}

/* Megatron's token position * B + sample is our token sample * S + position. */
static int64_t our_token(const route *r, int64_t theirs)
{
    return theirs % r->B * (r->T / r->B) + theirs / r->B;
}

/* [T][E] of floats or bytes, as floats, our tokens. */
static float *by_token(golden *g, const route *r, const char *name)
{
    const safetensor *t = safetensors_find(&g->f, arena_text(g->a, "%s.%s", r->name, name));
    if (!t) fail_msg("%s has no %s", r->name, name);
    bool bytes = strcmp(t->dtype, "U8") == 0;
    void *raw = tensor(g, r, name);
    float *x = TAKE(&g->p, float, r->T * r->E);
    for (int64_t i = 0; i < r->T * r->E; i++) {
        int64_t to = our_token(r, i / r->E) * r->E + i % r->E;
        x[to] = bytes ? (float)((unsigned char *)raw)[i] : ((float *)raw)[i];
    }
    return x;
}

static void assert_close(const route *r, const char *what, const float *x, const float *expected,
                         double tolerance)
{
    double most = 0;
    for (int64_t i = 0; i < r->T * r->E; i++)
        if (magnitude(expected[i]) > most) most = magnitude(expected[i]);
    for (int64_t i = 0; i < r->T * r->E; i++)
        if (!(magnitude((double)x[i] - (double)expected[i]) <= tolerance * most))
            fail_msg("%s %s: token %d expert %d: %.9g, not %.9g", r->name, what, (int)(i / r->E),
                     (int)(i % r->E), (double)x[i], (double)expected[i]);
}

/* What a router says, as [T][K] and spread out as [T][E]. */
typedef struct routed {
    float *probs, *dense, *map;
    int32_t *ids;
} routed;

static float *spread(golden *g, const route *r, const int32_t *ids, const float *values)
{
    float *x = TAKE(&g->p, float, r->T * r->E);
    for (int64_t i = 0; i < r->T * r->K; i++) x[i / r->K * r->E + ids[i]] = values ? values[i] : 1;
    return x;
}

static routed route_tokens(golden *g, kernel_rows t, const route *r)
{
    routed x = {.probs = TAKE(&g->p, float, r->T * r->K), .ids = TAKE(&g->p, int32_t, r->T * r->K)};
    op o = {.kind = OP_ROUTER,
            .dim = {r->T, r->E, r->K, r->groups, r->group_topk},
            .real = {r->scaling},
            .flags = r->flags};
    run(t, &o, LIST(by_token(g, r, "logits"), tensor(g, r, "expert_bias")), LIST(x.probs, x.ids));
    x.dense = spread(g, r, x.ids, x.probs);
    x.map = spread(g, r, x.ids, NULL);
    return x;
}

/* Each case with row 0 and with the fast rows. */
static void for_all_cases(void (*check)(golden *g, kernel_rows t, const route *r))
{
    golden g;
    json_t *v;
    size_t i;
    golden_open(&g);
    json_array_foreach(g.cases, i, v)
    {
        route r = route_of(v);
        check(&g, plain_moe(), &r);
        check(&g, fast_moe(), &r);
        pool_release(&g.p);
    }
    golden_close(&g);
}

static void check_weights(golden *g, kernel_rows t, const route *r)
{
    routed x = route_tokens(g, t, r);
    assert_close(r, "map", x.map, by_token(g, r, "map"), 0);
    assert_close(r, "probs", x.dense, by_token(g, r, "probs"), 5e-7);
}

static void weights_and_choice_are_megatrons(void **state)
{
    (void)state;
    for_all_cases(check_weights);
}

static void check_gradient(golden *g, kernel_rows t, const route *r)
{
    routed x = route_tokens(g, t, r);
    float *cotangent = by_token(g, r, "cotangent"), *dprobs = TAKE(&g->p, float, r->T * r->K);
    float *dlogits = random_floats(&g->p, r->T * r->E, 1); /* all of it is overwritten */
    for (int64_t i = 0; i < r->T * r->K; i++) dprobs[i] = cotangent[i / r->K * r->E + x.ids[i]];
    op o = {
        .kind = OP_ROUTER_D, .dim = {r->T, r->E, r->K}, .real = {r->scaling}, .flags = r->flags};
    run(t, &o, LIST(dprobs, by_token(g, r, "logits"), x.ids), LIST(dlogits));
    assert_close(r, "grad_probs", dlogits, by_token(g, r, "grad_probs"), 1e-6);
}

static void gradient_of_weights_is_megatrons(void **state)
{
    (void)state;
    for_all_cases(check_gradient);
}

typedef struct loss_case {
    const char *value, *coefficient, *gradient;
    op_kind kind;
    int by_sequence;
} loss_case;

static void check_loss(golden *g, kernel_rows t, const route *r, const loss_case *l)
{
    float loss = 0, *dlogits = TAKE(&g->p, float, r->T * r->E);
    op o = {.kind = l->kind, .real = {number(r->values, l->coefficient), 1}, .flags = r->flags};
    int64_t aux[] = {r->T, r->T / r->B, r->E, r->K, l->by_sequence}, z[] = {r->T, r->E};
    memcpy(o.dim, l->kind == OP_Z_LOSS ? z : aux, l->kind == OP_Z_LOSS ? sizeof z : sizeof aux);
    run(t, &o, LIST(by_token(g, r, "logits")), LIST(&loss, dlogits));
    double expected = number(r->values, l->value);
    if (!(magnitude((double)loss - expected) <= 1e-6 * expected))
        fail_msg("%s %s: %.9g, not %.9g", r->name, l->value, (double)loss, expected);
    assert_close(r, l->gradient, dlogits, by_token(g, r, l->gradient), 2e-6);
}

static void check_losses(golden *g, kernel_rows t, const route *r)
{
    static const loss_case losses[] = {
        {"aux_loss", "aux_coeff", "grad_aux", OP_AUX_LOSS, 0},
        {"seq_aux_loss", "seq_aux_coeff", "grad_seq_aux", OP_AUX_LOSS, 1},
        {"z_loss", "z_coeff", "grad_z", OP_Z_LOSS, 0},
    };
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) check_loss(g, t, r, &losses[i]);
}

static void losses_are_megatrons(void **state)
{
    (void)state;
    for_all_cases(check_losses);
}

/* Columns of a [T][E] map. */
static void count_columns(const route *r, const float *map, float *counts /* [E] */)
{
    memset(counts, 0, (size_t)r->E * sizeof *counts);
    for (int64_t i = 0; i < r->T * r->E; i++) counts[i % r->E] += map[i];
}

/* Padding fills every expert to its capacity; those rows belong to no token of ours, and to tokens
 * with weight 0 of Megatron's. */
static void check_padding(golden *g, kernel_rows t, const route *r, const char *factor,
                          int64_t capacity)
{
    routed x = route_tokens(g, t, r);
    float *keep = TAKE(&g->p, float, r->T * r->K), *counts = TAKE(&g->p, float, r->E);
    int32_t *rows = TAKE(&g->p, int32_t, r->T * r->K), *offsets = TAKE(&g->p, int32_t, r->E + 1);
    op drop = {.kind = OP_DROP, .dim = {r->T, r->E, r->K, capacity, 0}};
    op sort = {.kind = OP_SORT, .dim = {r->T, r->E, r->K, r->E * capacity, capacity}};
    run(t, &drop, LIST(x.probs, x.ids), LIST(keep));
    run(t, &sort, LIST(x.ids, keep), LIST(rows, offsets));
    count_columns(r, by_token(g, r, arena_text(g->a, "drop%s.pad.map", factor)), counts);
    float *padded = by_token(g, r, arena_text(g->a, "drop%s.pad.probs", factor));
    for (int64_t e = 0; e < r->E; e++)
        assert_int_equal(offsets[e + 1] - offsets[e], (int)counts[e]);
    for (int64_t i = 0; i < r->T * r->K; i++) {
        int64_t e = x.ids[i];
        assert_true((rows[i] >= 0) == (keep[i] > 0));
        assert_true(rows[i] < 0 || (rows[i] >= offsets[e] && rows[i] < offsets[e + 1]));
        double weight = keep[i] > 0 ? x.probs[i] : 0, expected = padded[i / r->K * r->E + e];
        assert_true(magnitude(weight - expected) <= 5e-7 * r->scaling);
    }
}

static void check_drop(golden *g, kernel_rows t, const route *r)
{
    static const char *const factors[] = {"1.0", "1.25"};
    for (int f = 0; f < 2; f++) {
        routed x = route_tokens(g, t, r);
        double exact = (double)(r->T * r->K) / (double)r->E * strtod(factors[f], NULL);
        int64_t capacity = (int64_t)exact + (exact > (double)(int64_t)exact);
        float *keep = random_floats(&g->p, r->T * r->K, 1);
        op o = {.kind = OP_DROP, .dim = {r->T, r->E, r->K, capacity, 0}};
        run(t, &o, LIST(x.probs, x.ids), LIST(keep));
        float *map = spread(g, r, x.ids, keep);
        for (int64_t i = 0; i < r->T * r->E; i++) x.dense[i] *= map[i];
        const char *their_map = arena_text(g->a, "drop%s.nopad.map", factors[f]);
        const char *their_probs = arena_text(g->a, "drop%s.nopad.probs", factors[f]);
        assert_close(r, their_map, map, by_token(g, r, their_map), 0);
        assert_close(r, their_probs, x.dense, by_token(g, r, their_probs), 5e-7);
        check_padding(g, t, r, factors[f], capacity);
    }
}

static void dropping_and_padding_are_megatrons(void **state)
{
    (void)state;
    for_all_cases(check_drop);
}

/* facts/megatron-core.md 2.5: once per global batch, by the sign of what an expert lacks. */
static void update_bias(float *bias, const float *counts, int64_t E, double rate)
{
    double mean = 0;
    for (int64_t e = 0; e < E; e++) mean += (double)counts[e] / (double)E;
    for (int64_t e = 0; e < E; e++) {
        double lacks = mean - (double)counts[e];
        bias[e] = (float)((double)bias[e] + rate * ((lacks > 0) - (lacks < 0)));
    }
}

static void check_bias(golden *g, kernel_rows t, const route *r)
{
    float *bias = tensor(g, r, "expert_bias"), *expected = tensor(g, r, "counts");
    if (!bias) return;
    routed x = route_tokens(g, t, r);
    float *counts = TAKE(&g->p, float, r->E), *after = tensor(g, r, "bias_after_update");
    op o = {.kind = OP_LOAD, .dim = {r->T, r->E, r->K}};
    run(t, &o, LIST(x.ids), LIST(counts));
    assert_memory_equal(counts, expected, (size_t)r->E * sizeof *counts);
    update_bias(bias, counts, r->E, 1e-3);
    for (int64_t e = 0; e < r->E; e++) assert_true(magnitude(bias[e] - after[e]) < 1e-9);
}

static void counts_and_bias_are_megatrons(void **state)
{
    (void)state;
    for_all_cases(check_bias);
}

/* ---- facts/megatron-core.md 2.9, in double */

typedef struct example {
    const char *what;
    int64_t K, groups, group_topk;
    unsigned flags;
    double scaling;
    bool biased;
    int ids[4];
    double weights[4]; /* 0: not given */
} example;

static void examples_of_the_facts(void **state)
{
    (void)state;
    static const example examples[] = {
        {"pre", 2, 0, 0, PRE_SOFTMAX, 1, false, {2, 3}, {0.37900013, 0.22987520}},
        {"post", 2, 0, 0, 0, 1, false, {2, 3}, {0.62245933, 0.37754067}},
        {"pre, renormalised",
         2,
         0,
         0,
         PRE_SOFTMAX | RENORMALISE,
         1,
         false,
         {2, 3},
         {0.62245933, 0.37754067}},
        {"bias", 2, 0, 0, SIGMOID | RENORMALISE, 1, true, {3, 4}, {0.62051481, 0.37948519}},
        {"scaled", 2, 0, 0, SIGMOID | RENORMALISE, 2.5, true, {3, 4}, {1.55128703, 0.94871297}},
        {"groups", 4, 4, 2, SIGMOID | RENORMALISE, 1, false, {2, 3, 5, 4}, {0}},
        {"best two",
         4,
         4,
         2,
         SIGMOID | BEST_TWO,
         1,
         false,
         {2, 3, 5, 4},
         {0.88079708, 0.81757448, 0.73105858, 0.5}},
    };
    double logits[] = {0.5, -1, 2, 1.5, 0, 1, -0.5, 0.25}, bias[] = {0, 0, -.3, 0, .3, 0, 0, .2};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const example *x = &examples[i];
        double probs[4];
        int32_t ids[4];
        op o = {.kind = OP_ROUTER,
                .dim = {1, 8, x->K, x->groups, x->group_topk},
                .real = {x->scaling},
                .flags = x->flags};
        run(plain_moe_double(), &o, LIST(logits, x->biased ? bias : NULL), LIST(probs, ids));
        for (int64_t k = 0; k < x->K; k++) {
            if (ids[k] != x->ids[k]) fail_msg("%s: expert %d", x->what, ids[k]);
            if (x->weights[k] > 0 && !(magnitude(probs[k] - x->weights[k]) < 6e-9))
                fail_msg("%s: %.9f, not %.9f", x->what, probs[k], x->weights[k]);
        }
    }
}

static void losses_of_the_facts(void **state)
{
    (void)state;
    double logits[] = {1, .5, -.5, 0, .2, .1, .9, -1, 1.5, -.3, .4, .4, 0, 2, 1, -1};
    double counts[4] = {0}, expected[] = {3, 2, 3, 0}, aux = 0, global = 0, z = 0, unused[16];
    op count = {.kind = OP_AUX_COUNT, .dim = {4, 4, 2}};
    op local = {.kind = OP_AUX_LOSS, .dim = {4, 4, 4, 2, 0}, .real = {1, 1}};
    op over_all = {.kind = OP_AUX_GLOBAL, .dim = {4, 4, 2, 1, 4}, .real = {1, 1}};
    op z_loss = {.kind = OP_Z_LOSS, .dim = {4, 4}, .real = {1, 1}};
    kernel_rows t = plain_moe_double();
    run(t, &count, LIST(logits), LIST(counts));
    assert_memory_equal(counts, expected, sizeof counts);
    memset(unused, 0, sizeof unused);
    run(t, &local, LIST(logits), LIST(&aux, unused));
    run(t, &over_all, LIST(logits, counts), LIST(&global, unused));
    run(t, &z_loss, LIST(logits), LIST(&z, unused));
    assert_true(magnitude(aux - 1.17718461) < 6e-9);
    assert_true(magnitude(global - aux) < 1e-12);
    assert_true(magnitude(z - 4.06713412) < 6e-9);
}

/* ---- promises of our own */

/* Half of the experts equal, one unlike the others, NaN, infinities: ids stay different experts. */
static void ties_and_nan_give_the_lowest_index(void **state)
{
    (void)state;
    float nan = strtof("nan", NULL), inf = strtof("inf", NULL);
    float logits[] = {1,   1,   1,   1,   2,    1,   0, 1,   nan,  nan, nan, nan,
                      nan, nan, nan, nan, -inf, inf, 0, nan, -inf, inf, 1,   1};
    unsigned flags[] = {0, PRE_SOFTMAX, SIGMOID, SQRT_SOFTPLUS};
    float probs[9];
    int32_t ids[9];
    for (int f = 0; f < 4; f++)
        for (int groups = 0; groups < 2; groups++) {
            op o = {.kind = OP_ROUTER, .dim = {3, 8, 3}, .real = {1}, .flags = flags[f]};
            if (groups) o.dim[3] = 4, o.dim[4] = 2;
            run(plain_moe(), &o, LIST(logits), LIST(probs, ids));
            int32_t expected[] = {4, 0, 1}, in_groups[] = {4, 0, 1};
            assert_memory_equal(ids, groups ? in_groups : expected, sizeof expected);
            for (int i = 0; i < 9; i++) {
                assert_true(ids[i] >= 0 && ids[i] < 8);
                for (int j = i / 3 * 3; j < i; j++) assert_int_not_equal(ids[i], ids[j]);
            }
        }
}

/* One expert, two or three to a group's score give three different choices. */
static void group_scores_count_as_many_experts_as_asked(void **state)
{
    (void)state;
    float lone[] = {3, -5, -5, 2, 2, -5, 2.5f, 2.4f, -5}; /* one good expert, or two fair ones */
    float even[] = {2, 2, 2, 3, 3, -5, -5, -5, -5};       /* three fair ones, or two good ones */
    struct {
        float *logits;
        int64_t K, group_topk;
        unsigned flags;
        int32_t ids[3];
    } cases[] = {
        {lone, 2, 2, SIGMOID, {0, 6}},               /* Megatron: K / GROUP_TOPK = 1 */
        {lone, 2, 2, SIGMOID | BEST_TWO, {6, 7}},    /* groups 2 and 1 */
        {even, 3, 1, SIGMOID, {0, 1, 2}},            /* Megatron: 3 */
        {even, 3, 1, SIGMOID | BEST_TWO, {3, 4, 5}}, /* group 1 */
        {lone, 2, 3, SIGMOID, {0, 6}},               /* K < GROUP_TOPK: one, not none */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float probs[3];
        int32_t ids[3];
        op o = {.kind = OP_ROUTER,
                .dim = {1, 9, cases[i].K, 3, cases[i].group_topk},
                .real = {1},
                .flags = cases[i].flags};
        run(fast_moe(), &o, LIST(cases[i].logits), LIST(probs, ids));
        assert_memory_equal(ids, cases[i].ids, (size_t)cases[i].K * sizeof *ids);
    }
}

typedef struct shape {
    int64_t E, K, groups, group_topk, T;
} shape;

static void check_forced(const shape *s, int64_t first, pool *p)
{
    float *logits = random_floats(p, s->T * s->E, 3), *probs = TAKE(p, float, s->T * s->K);
    int32_t *ids = TAKE(p, int32_t, s->T * s->K), *counts = TAKE(p, int32_t, s->E);
    op o = {.kind = OP_ROUTER,
            .dim = {s->T, s->E, s->K, s->groups, s->group_topk, first},
            .real = {1},
            .flags = FORCED};
    run(fast_moe(), &o, LIST(logits), LIST(probs, ids));
    for (int64_t t = 0; t < s->T; t++) {
        bool used[EXPERTS_MAX] = {false}; /* groups */
        int64_t n_groups = 0;
        double sum = 0;
        for (int64_t i = t * s->K; i < (t + 1) * s->K; i++) {
            counts[ids[i]]++;
            sum += probs[i];
            for (int64_t j = t * s->K; j < i; j++) assert_int_not_equal(ids[i], ids[j]);
            int64_t g = s->groups ? ids[i] / (s->E / s->groups) : 0;
            n_groups += !used[g];
            used[g] = true;
        }
        assert_true(magnitude(sum - 1) < 1e-5);
        if (s->groups) assert_true(n_groups <= s->group_topk);
    }
    for (int64_t e = 0; e < s->E; e++) assert_int_equal(counts[e], s->T * s->K / s->E);
}

/* Wherever a microbatch starts. */
static void forced_balance_is_exact_within_groups(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {8, 2, 0, 0, 4},   {8, 2, 0, 0, 40},   {7, 3, 0, 0, 7},      {16, 4, 0, 0, 1024},
        {6, 4, 0, 0, 3},   {256, 8, 8, 4, 32}, {256, 8, 8, 4, 96},   {160, 6, 8, 3, 80},
        {64, 6, 1, 1, 32}, {32, 8, 8, 4, 4},   {12, 3, 4, 3, 8},     {12, 4, 3, 2, 9},
        {12, 5, 3, 2, 12}, {5, 5, 0, 0, 3},    {512, 10, 0, 0, 256}, {8, 1, 4, 1, 8},
    };
    pool p = {.random = 1};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int64_t first = 0; first < 3; first++) {
            check_forced(&shapes[i], first * shapes[i].T + first, &p);
            pool_release(&p);
        }
}

/* A replay adds nothing to what is reported, and all to the gradient. */
static void replay_leaves_losses_alone(void **state)
{
    (void)state;
    kernel_rows tables[] = {plain_moe(), fast_moe()};
    for (int i = 0; i < 2; i++) {
        pool p = {.random = 2};
        float *logits = random_floats(&p, 24, 1), *counts = TAKE(&p, float, 4), loss[2] = {7, 7};
        float *d[2] = {TAKE(&p, float, 24), TAKE(&p, float, 24)};
        counts[1] = 12;
        for (unsigned replay = 0; replay < 2; replay++) {
            unsigned flags = replay ? REPLAY : 0;
            op aux = {.kind = OP_AUX_LOSS, .dim = {6, 3, 4, 2, 1}, .real = {1, 2}, .flags = flags};
            op all = {
                .kind = OP_AUX_GLOBAL, .dim = {6, 4, 2, 1, 6}, .real = {1, 2}, .flags = flags};
            op z = {.kind = OP_Z_LOSS, .dim = {6, 4}, .real = {1, 2}, .flags = flags};
            run(tables[i], &aux, LIST(logits), LIST(&loss[replay], d[replay]));
            run(tables[i], &all, LIST(logits, counts), LIST(&loss[replay], d[replay]));
            run(tables[i], &z, LIST(logits), LIST(&loss[replay], d[replay]));
        }
        assert_true(loss[0] > 7 && loss[1] == 7);
        assert_memory_equal(d[0], d[1], 24 * sizeof(float));
        pool_release(&p);
    }
}

/* With the first ones kept instead of the largest. */
static void position_keeps_the_first_tokens(void **state)
{
    (void)state;
    float probs[] = {.1f, .9f, .2f, .8f, .3f, .7f, .4f, .6f}, keep[8];
    int32_t ids[] = {0, 1, 0, 2, 0, 1, 0, 1};
    float by_weight[] = {0, 1, 0, 1, 1, 1, 1, 0}, by_place[] = {1, 1, 1, 1, 0, 1, 0, 0};
    kernel_rows tables[] = {plain_moe(), fast_moe()};
    for (int i = 0; i < 2; i++)
        for (int position = 0; position < 2; position++) {
            op o = {.kind = OP_DROP, .dim = {4, 3, 2, 2, position}};
            run(tables[i], &o, LIST(probs, ids), LIST(keep));
            assert_memory_equal(keep, position ? by_place : by_weight, sizeof keep);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_choice_are_megatrons),
        cmocka_unit_test(gradient_of_weights_is_megatrons),
        cmocka_unit_test(losses_are_megatrons),
        cmocka_unit_test(dropping_and_padding_are_megatrons),
        cmocka_unit_test(counts_and_bias_are_megatrons),
        cmocka_unit_test(examples_of_the_facts),
        cmocka_unit_test(losses_of_the_facts),
        cmocka_unit_test(ties_and_nan_give_the_lowest_index),
        cmocka_unit_test(group_scores_count_as_many_experts_as_asked),
        cmocka_unit_test(forced_balance_is_exact_within_groups),
        cmocka_unit_test(replay_leaves_losses_alone),
        cmocka_unit_test(position_keeps_the_first_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
