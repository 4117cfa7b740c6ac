/* test_init.c - numbers by counter, and the weights that are drawn with them. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "config/models/models.h"
#include "train/executor/init_weights.h"
#include "train/executor/part_map.h"

static arena *scratch;

static int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

/* ---- the generator */

/* The three vectors that Random123 publishes for ten rounds. */
static void philox_gives_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        philox_block(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void names_have_the_published_hash(void **state)
{
    (void)state;
    assert_true(philox_id("") == 0xcbf29ce484222325u);
    assert_true(philox_id("a") == 0xaf63dc4c8601ec8cu);
    assert_true(philox_id("foobar") == 0x85944171f73967e8u);
}

enum { MANY = 1 << 18 };

static float *draw(philox g, bool normal, int64_t n)
{
    float *x = ARENA_ARRAY(scratch, float, n);
    if (normal)
        philox_normal(&g, 0, n, 1, x);
    else
        philox_uniform(&g, 0, n, -3, 5, x);
    return x;
}

/* Any cut of the range, at any place, in any order. */
static void values_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    enum { N = 4099 };
    philox g = philox_stream(7, philox_id("cut"));
    for (int normal = 0; normal < 2; normal++) {
        float *whole = draw(g, normal, N), part[64];
        for (int64_t first = N - 1, n = 1; first >= 0; first -= 13, n = n % 61 + 3) {
            if (n > N - first) n = N - first;
            if (normal)
                philox_normal(&g, (uint64_t)first, n, 1, part);
            else
                philox_uniform(&g, (uint64_t)first, n, -3, 5, part);
            assert_memory_equal(part, whole + first, sizeof *part * (size_t)n);
        }
    }
}

/* Past 2^34 numbers the counter's second word is in use; no value repeats there. */
static void streams_are_long(void **state)
{
    (void)state;
    philox g = philox_stream(7, 1);
    float low[8], high[8], next[8];
    philox_normal(&g, 0, 8, 1, low);
    philox_normal(&g, (uint64_t)1 << 34, 8, 1, high);
    philox_normal(&g, ((uint64_t)1 << 34) + 3, 5, 1, next);
    assert_memory_equal(high + 3, next, 5 * sizeof *next);
    for (int i = 0; i < 8; i++) assert_true(low[i] != high[i]);
}

static void seeds_and_ids_give_other_values(void **state)
{
    (void)state;
    philox g[] = {philox_stream(1, 2), philox_stream(2, 1), philox_stream(1, 3),
                  philox_stream((uint64_t)1 << 32, 2), philox_stream(1, (uint64_t)2 << 32)};
    enum { STREAMS = sizeof g / sizeof g[0] };
    float x[STREAMS][4];
    for (int i = 0; i < STREAMS; i++) philox_normal(&g[i], 0, 4, 1, x[i]);
    for (int i = 0; i < STREAMS; i++)
        for (int j = 0; j < i; j++)
            for (int k = 0; k < 4; k++) assert_true(x[i][k] != x[j][k]);
}

/* Our logarithm and circle against the C library's. */
static void normal_values_are_box_muller(void **state)
{
    (void)state;
    philox g = philox_stream(5, 6);
    float *x = draw(g, true, MANY);
    const double pi = acos(-1);
    for (uint32_t block = 0; block < MANY / 4; block++) {
        uint32_t counter[4] = {block, 0, 6, 0}, word[4];
        philox_block(counter, g.key, word);
        for (int i = 0; i < 4; i += 2) {
            double radius = sqrt(-2 * log(((double)word[i] + 1) / 4294967296.0));
            double angle = 2 * pi * ((double)word[i + 1] + 0.5) / 4294967296.0 - pi / 4;
            assert_true(fabs((double)x[4 * block + (uint32_t)i] - radius * cos(angle)) < 1e-6);
            assert_true(fabs((double)x[4 * block + (uint32_t)i + 1] - radius * sin(angle)) < 1e-6);
        }
    }
}

typedef struct moments {
    double mean, deviation, skew, kurtosis, least, most;
} moments;

static moments moments_of(const float *x, int64_t n)
{
    moments m = {.least = (double)x[0], .most = (double)x[0]};
    for (int64_t i = 0; i < n; i++) {
        m.mean += (double)x[i] / (double)n;
        m.least = fmin(m.least, (double)x[i]);
        m.most = fmax(m.most, (double)x[i]);
    }
    double sum[5] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int k = 2; k < 5; k++) sum[k] += pow((double)x[i] - m.mean, k) / (double)n;
    m.deviation = sqrt(sum[2]);
    m.skew = sum[3] / pow(m.deviation, 3);
    m.kurtosis = sum[4] / (sum[2] * sum[2]);
    return m;
}

/* Five standard errors of each estimate: a sound generator fails one seed in a million. */
static void assert_normal(const float *x, int64_t n, double deviation)
{
    moments m = moments_of(x, n);
    double root = sqrt((double)n);
    assert_true(fabs(m.mean) < 5 * deviation / root);
    assert_true(fabs(m.deviation - deviation) < 5 * deviation / (root * sqrt(2)));
    if (n < 1000) return;
    assert_true(fabs(m.skew) < 5 * sqrt(6) / root);
    assert_true(fabs(m.kurtosis - 3) < 5 * sqrt(24) / root);
}

static void assert_uniform(const float *x, int64_t n, double low, double high)
{
    moments m = moments_of(x, n);
    double deviation = (high - low) / sqrt(12);
    assert_true(m.least >= low && m.most <= high);
    assert_true(fabs(m.mean - (low + high) / 2) < 5 * deviation / sqrt((double)n));
    assert_true(fabs(m.deviation - deviation) < 5 * deviation / sqrt((double)n));
}

static void values_have_their_distributions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        assert_normal(draw(philox_stream(seed, 9), true, MANY), MANY, 1);
        assert_uniform(draw(philox_stream(seed, 9), false, MANY), MANY, -3, 5);
    }
}

/* Neighbours, lanes of a block and the two of a pair are not correlated. */
static void values_are_independent(void **state)
{
    (void)state;
    const float *x = draw(philox_stream(11, 12), true, MANY);
    for (int lag = 1; lag < 9; lag++) {
        double sum = 0;
        for (int64_t i = 0; i + lag < MANY; i++) sum += (double)x[i] * (double)x[i + lag];
        assert_true(fabs(sum / MANY) < 5 / sqrt(MANY));
    }
}

/* The normal distribution by its tails: how many values lie beyond k deviations. */
static void tails_are_right(void **state)
{
    (void)state;
    const float *x = draw(philox_stream(13, 14), true, MANY);
    for (int k = 1; k < 4; k++) {
        double expected = MANY * erfc(k / sqrt(2)), beyond = 0;
        for (int64_t i = 0; i < MANY; i++) beyond += fabs((double)x[i]) > k;
        assert_true(fabs(beyond - expected) < 5 * sqrt(expected));
    }
}

/* Weights drawn today are drawn tomorrow, and on other machines. */
static void first_values_stay(void **state)
{
    (void)state;
    static const float normal[] = {-0x1.35a2fap-6f, -0x1.a8b092p-5f, 0x1.22b774p-9f,
                                   -0x1.e5169cp-8f, 0x1.a169ep-9f,   0x1.ead7b8p-6f,
                                   -0x1.471234p-6f, 0x1.20df16p-6f};
    static const float uniform[] = {-0x1.e93a64p-2f, 0x1.47074ap-2f,  0x1.b65b78p-2f,
                                    0x1.af72bep-2f,  -0x1.6d7338p-3f, -0x1.2284d4p-3f,
                                    -0x1.686e9ep-4f, 0x1.4305eep-7f};
    philox g = philox_stream(1234, philox_id("embedding.word_embeddings.weight"));
    float x[8];
    philox_normal(&g, 0, 8, 0.02, x);
    assert_memory_equal(x, normal, sizeof x);
    philox_uniform(&g, 0, 8, -0.5, 0.5, x);
    assert_memory_equal(x, uniform, sizeof x);
}

/* ---- weights */

#define GOLDEN "moefold.model=tests/data/golden/"

static const char *const cases[] = {GOLDEN "qwen3-moe-tiny",  GOLDEN "deepseek-v3-tiny",
                                    GOLDEN "qwen3-next-tiny", GOLDEN "mixtral-tiny",
                                    GOLDEN "gpt-oss-tiny",    GOLDEN "mtp-tiny"};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef struct drawn {
    setup s;
    weight_list w;
    float *x;
} drawn;

static drawn draw_model(const char *overrides, uint64_t seed)
{
    recipe r;
    drawn d = {0};
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    status st = OK;
    for (char *word = strtok_r(text, " ", &rest); word && !st; word = strtok_r(NULL, " ", &rest))
        st = recipe_override(&r, word, "test", &err);
    if (!st) st = model_fill(&r, &err);
    if (!st) st = setup_init(&d.s, &r, scratch, &err);
    if (st) fail_msg("%s", err.text);
    weight_list_init(&d.w, &d.s, scratch);
    d.x = ARENA_ARRAY(scratch, float, d.w.elements);
    for (int64_t i = 0; i < d.w.elements; i++) d.x[i] = 12345;
    init_weights(&d.s, NULL, &d.w, seed, d.x);
    return d;
}

static double deviation_of(const drawn *d, param_init init)
{
    if (init == INIT_EMBEDDING) return 0.05;
    return init == INIT_OUTPUT ? 0.04 / sqrt(2.0 * (double)d->s.m.n_layers) : 0.04;
}

static void assert_distribution(const drawn *d, const weight *w)
{
    const float *x = d->x + w->offset;
    double bound;
    switch (w->row->init) {
    case INIT_NORMAL:
    case INIT_OUTPUT:
    case INIT_EMBEDDING:
        if (w->n >= 32) assert_normal(x, w->n, deviation_of(d, w->row->init));
        return;
    case INIT_ONE:
    case INIT_ZERO:
        for (int64_t i = 0; i < w->n; i++) assert_true(x[i] == (w->row->init == INIT_ONE));
        return;
    case INIT_CONV:
        bound = 1 / sqrt((double)w->row->dim[2]);
        assert_uniform(x, w->n, -bound, bound);
        return;
    case INIT_A_LOG:
        for (int64_t i = 0; i < w->n; i++) assert_true(x[i] >= 0 && (double)x[i] <= log(16));
        return;
    }
}

static void weights_have_megatrons_distributions(void **state)
{
    (void)state;
    int seen[INIT_A_LOG + 1] = {0};
    for (int c = 0; c < N_CASES; c++) {
        drawn d = draw_model(arena_text(scratch,
                                        "%s model.init_method_std=0.04 "
                                        "model.embedding_init_method_std=0.05",
                                        cases[c]),
                             1234);
        for (int i = 0; i < d.w.n; i++) {
            assert_distribution(&d, &d.w.list[i]);
            seen[d.w.list[i].row->init]++;
        }
    }
    for (int i = 0; i <= INIT_A_LOG; i++) assert_true(seen[i] > 0);
}

static void embedding_follows_the_others_unless_set(void **state)
{
    (void)state;
    drawn d = draw_model(GOLDEN "qwen3-moe-tiny model.init_method_std=0.3", 1);
    const weight *table = &d.w.list[0];
    assert_int_equal(table->row->init, INIT_EMBEDDING);
    assert_normal(d.x + table->offset, table->n, 0.3);
}

/* A rank that holds rows or columns of a weight draws those of the whole weight. */
static void shards_are_cut_from_one_weight(void **state)
{
    (void)state;
    drawn d = draw_model(GOLDEN "qwen3-next-tiny", 99);
    for (int i = 0; i < d.w.n; i++) {
        const weight *w = &d.w.list[i];
        init_source from = {&d.s, w->row, weight_name(scratch, &d.s, w), 99};
        int64_t columns = w->row->dim[w->row->n_dims - 1], half = columns - columns / 2;
        float *part = ARENA_ARRAY(scratch, float, half);
        for (int64_t row = w->n / columns - 1; row >= 0; row--) {
            init_elements(&from, row * columns + columns / 2, half, part);
            assert_memory_equal(part, d.x + w->offset + row * columns + columns / 2,
                                sizeof *part * (size_t)half);
        }
    }
}

/* Box by box, run by run: what a rank holds of a weight. */
static void fill_part(const setup *s, const rank_at *at, const weight *w, float *part)
{
    init_source from = {s, w->row, weight_name(scratch, s, w), 5};
    weight_box boxes[PARAM_SECTIONS_MAX];
    int n = weight_boxes(boxes, s, at, w);
    memset(part, 0, sizeof *part * (size_t)w->n);
    for (int b = 0; b < n; b++)
        for (int64_t i = 0; i < box_elements(w, &boxes[b]);) {
            box_run r = box_run_at(w, &boxes[b], i);
            init_elements(&from, r.whole, r.n, part + r.part);
            i += r.n;
        }
}

static void ranges_are_cut_from_the_part(void **state)
{
    (void)state;
    static const int64_t steps[] = {97, 4096, 1 << 20};
    static const char *const models[] = {"qwen3-next-tiny", "deepseek-v3-tiny", "gpt-oss-tiny"};
    for (int c = 0; c < 3 * 3 * 2; c++) {
        drawn d =
            draw_model(arena_text(scratch,
                                  GOLDEN "%s model.tensor_model_parallel_size=2 "
                                         "model.expert_tensor_parallel_size=1 "
                                         "model.expert_model_parallel_size=2 cluster.n_gpus=2",
                                  models[c % 3]),
                       5);
        rank_at at = rank_coordinates(&d.s.lay, c / 9);
        weight_list mine;
        weight_list_rank(&mine, &d.s, &at, scratch);
        for (int i = 0; i < mine.n; i++) {
            const weight *w = &mine.list[i];
            int64_t step = steps[c / 3 % 3];
            float *whole = ARENA_ARRAY(scratch, float, w->n + 1);
            float *cut = ARENA_ARRAY(scratch, float, w->n + 1);
            fill_part(&d.s, &at, w, whole);
            cut[w->n] = 7;
            for (int64_t k = 0; k < w->n; k += step)
                init_range(&d.s, &at, w, 5, (init_span){k, w->n - k < step ? w->n - k : step},
                           cut + k);
            assert_memory_equal(cut, whole, sizeof *cut * (size_t)w->n);
            assert_true(cut[w->n] == 7);
        }
    }
}

static void padding_of_the_vocabulary_adds_rows_only(void **state)
{
    (void)state;
    drawn a = draw_model(GOLDEN "qwen3-moe-tiny", 3);
    drawn b = draw_model(GOLDEN "qwen3-moe-tiny model.should_pad_vocab=true "
                                "model.make_vocab_size_divisible_by=1000",
                         3);
    assert_true(b.w.list[0].n > a.w.list[0].n);
    for (int i = 0; i < a.w.n; i++)
        assert_memory_equal(a.x + a.w.list[i].offset, b.x + b.w.list[i].offset,
                            sizeof *a.x * (size_t)a.w.list[i].n);
}

static void each_weight_and_seed_has_its_own_values(void **state)
{
    (void)state;
    drawn a = draw_model(GOLDEN "mtp-tiny", 1), b = draw_model(GOLDEN "mtp-tiny", 2);
    for (int i = 0; i < a.w.n; i++) {
        const weight *w = &a.w.list[i];
        if (w->row->init == INIT_ONE || w->row->init == INIT_ZERO) continue;
        assert_memory_not_equal(a.x + w->offset, b.x + w->offset, sizeof *a.x * (size_t)w->n);
        for (int j = 0; j < i; j++)
            assert_true(a.x[w->offset] != a.x[a.w.list[j].offset] || w->n < 8);
    }
}

static void padding_is_zero(void **state)
{
    (void)state;
    drawn d = draw_model(GOLDEN "gpt-oss-tiny", 1);
    bool *used = ARENA_ARRAY(scratch, bool, d.w.elements);
    for (int i = 0; i < d.w.n; i++) memset(used + d.w.list[i].offset, 1, (size_t)d.w.list[i].n);
    for (int64_t i = 0; i < d.w.elements; i++) assert_true(used[i] || d.x[i] == 0);
}

static void initialisation_can_be_left_out(void **state)
{
    (void)state;
    drawn d = draw_model(GOLDEN "gpt-oss-tiny model.perform_initialization=false", 1);
    for (int64_t i = 0; i < d.w.elements; i++) assert_true(d.x[i] == 0);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    int before = omp_get_max_threads();
    drawn one = {0};
    for (int n = 1; n < 6; n += 2) {
        omp_set_num_threads(n);
        drawn d = draw_model(GOLDEN "deepseek-v3-tiny", 1);
        if (n == 1) one = d;
        assert_memory_equal(d.x, one.x, sizeof *d.x * (size_t)d.w.elements);
    }
    omp_set_num_threads(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(names_have_the_published_hash),
        cmocka_unit_test(values_do_not_depend_on_the_cut),
        cmocka_unit_test(streams_are_long),
        cmocka_unit_test(seeds_and_ids_give_other_values),
        cmocka_unit_test(normal_values_are_box_muller),
        cmocka_unit_test(values_have_their_distributions),
        cmocka_unit_test(values_are_independent),
        cmocka_unit_test(tails_are_right),
        cmocka_unit_test(first_values_stay),
        cmocka_unit_test(weights_have_megatrons_distributions),
        cmocka_unit_test(embedding_follows_the_others_unless_set),
        cmocka_unit_test(shards_are_cut_from_one_weight),
        cmocka_unit_test(ranges_are_cut_from_the_part),
        cmocka_unit_test(padding_of_the_vocabulary_adds_rows_only),
        cmocka_unit_test(each_weight_and_seed_has_its_own_values),
        cmocka_unit_test(padding_is_zero),
        cmocka_unit_test(initialisation_can_be_left_out),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
