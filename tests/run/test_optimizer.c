/* test_optimizer.c - AdamW against a plain loop in double precision, and who decays. */
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
#include "model/safetensors.h"
#include "run/init_weights.h"
#include "run/optimizer.h"
#include "run/owned.h"
#include "run/part_map.h"

#define GOLDEN  "moefold.model=tests/data/golden/"
#define SMALL   GOLDEN "qwen3-moe-tiny"
#define NO_CLIP " optimizer.clip_grad=0"

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

#define F32(p) ((typed){DTYPE_F32, p})
#define ARRAYS(d)                                                                                  \
    (&(update_arrays){.weights = F32((d).w),                                                       \
                      .gradients = F32((d).g),                                                     \
                      .first = F32((d).m),                                                         \
                      .second = F32((d).v)})

/* A model's weights with an optimizer, and arrays of numbers. */
typedef struct made {
    setup s;
    weight_list list;
    optimizer o;
    int64_t n;
    float *w, *g, *m, *v;
} made;

static float *numbers(const char *name, int64_t n, double deviation)
{
    float *x = ARENA_ARRAY(scratch, float, n);
    philox g = philox_stream(1, philox_id(name));
    philox_normal(&g, 0, n, deviation, x);
    return x;
}

static void set_up_words(setup *s, const char *overrides)
{
    recipe r;
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    status st = OK;
    for (char *word = strtok_r(text, " ", &rest); word && !st; word = strtok_r(NULL, " ", &rest))
        st = recipe_override(&r, word, "test", &err);
    if (!st) st = model_fill(&r, &err);
    if (!st) st = setup_init(s, &r, scratch, &err);
    if (st) fail_msg("%s", err.text);
}

static made make(const char *overrides, decay_rule rule)
{
    made d = {0};
    set_up_words(&d.s, overrides);
    weight_list_init(&d.list, &d.s, scratch);
    program whole = {.s = &d.s, .weights = d.list};
    optimizer_init(&d.o, &whole, rule, scratch);
    d.n = d.list.elements;
    d.w = numbers("weights", d.n, 0.02);
    d.g = numbers("gradients", d.n, 0.001);
    d.m = ARENA_ARRAY(scratch, float, d.n);
    d.v = ARENA_ARRAY(scratch, float, d.n);
    return d;
}

static float *copied(const float *x, int64_t n)
{
    float *y = ARENA_ARRAY(scratch, float, n);
    memcpy(y, x, sizeof *x * (size_t)n);
    return y;
}

static bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

/* Untrained elements and padding hold what must neither be read nor written. */
static void poison_gaps(made *d)
{
    bool *used = ARENA_ARRAY(scratch, bool, d->n), *moments = ARENA_ARRAY(scratch, bool, d->n);
    for (int i = 0; i < d->list.n; i++) {
        const weight *w = &d->list.list[i];
        if (!w->row->trained) continue;
        memset(used + w->offset, 1, (size_t)w->n);
        memset(moments + owned_moments(&d->list, w, 0), 1, (size_t)w->n);
    }
    for (int64_t i = 0; i < d->n; i++) {
        if (!used[i]) d->w[i] = d->g[i] = (float)NAN;
        if (!moments[i]) d->m[i] = d->v[i] = (float)NAN;
    }
}

static double plain_norm(const made *d, double scale)
{
    double sum = 0;
    for (int i = 0; i < d->list.n; i++)
        for (int64_t j = 0; j < d->list.list[i].n && d->list.list[i].row->trained; j++)
            sum += pow(scale * (double)d->g[d->list.list[i].offset + j], 2);
    return sqrt(sum);
}

/* ---- the reference: torch's AdamW, element by element, in double */

typedef struct reference {
    double *w, *m, *v;
    double beta1, beta2, eps;
    int t;
    bool l2;
} reference;

static reference reference_of(const made *d, bool l2)
{
    reference f = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .l2 = l2};
    f.w = ARENA_ARRAY(scratch, double, d->n);
    f.m = ARENA_ARRAY(scratch, double, d->n);
    f.v = ARENA_ARRAY(scratch, double, d->n);
    for (int64_t i = 0; i < d->n; i++) f.w[i] = (double)d->w[i];
    return f;
}

static void reference_element(reference *f, int64_t i, double g, double lr, double decay)
{
    if (f->l2) g += decay * f->w[i];
    f->m[i] = f->beta1 * f->m[i] + (1 - f->beta1) * g;
    f->v[i] = f->beta2 * f->v[i] + (1 - f->beta2) * g * g;
    double m = f->m[i] / (1 - pow(f->beta1, f->t)), v = f->v[i] / (1 - pow(f->beta2, f->t));
    f->w[i] -= lr * (m / (sqrt(v) + f->eps) + (f->l2 ? 0 : decay * f->w[i]));
}

static bool is_table_or_head(const param *row)
{
    return strcmp(row->name, "embedding.word_embeddings.weight") == 0 ||
           strcmp(row->name, "output_layer.weight") == 0;
}

static void reference_step(reference *f, const made *d, step_rates rates)
{
    f->t++;
    for (int i = 0; i < d->list.n; i++) {
        const weight *w = &d->list.list[i];
        double lr = is_table_or_head(w->row) ? rates.embedding_lr : rates.lr;
        double decay = w->row->decay ? rates.decay : 0;
        for (int64_t j = w->offset; j < w->offset + w->n && w->row->trained; j++)
            reference_element(f, j, rates.scale * (double)d->g[j], lr, decay);
    }
}

/* Distance of the arrays, relative to how far the weights have moved. */
static double distance(const reference *f, const made *d, const float *start)
{
    double off = 0, moved = 0;
    for (int i = 0; i < d->list.n; i++)
        for (int64_t j = d->list.list[i].offset, k = 0; k < d->list.list[i].n; j++, k++) {
            if (!d->list.list[i].row->trained) break;
            off += pow(f->w[j] - (double)d->w[j], 2);
            moved += pow(f->w[j] - (double)start[j], 2);
        }
    return sqrt(off / moved);
}

static void new_gradient(made *d, int t)
{
    philox g = philox_stream((uint64_t)t, philox_id("gradients"));
    philox_normal(&g, 0, d->n, 0.001 * (1 + t % 3), d->g);
}

static void follow_reference(const char *overrides, bool l2)
{
    made d = make(overrides, DECAY_MEGATRON);
    reference f = reference_of(&d, l2);
    const float *start = copied(d.w, d.n);
    for (int t = 1; t <= 12; t++) {
        new_gradient(&d, t);
        poison_gaps(&d);
        step_rates rates = {1e-3 / t, 3e-3 / t, 0.1, 0.5};
        step_result r = optimizer_step(&d.o, ARRAYS(d), rates);
        double norm = plain_norm(&d, 0.5);
        assert_int_equal(r.outcome, STEP_TAKEN);
        assert_true(fabs(r.norm - norm) < 1e-12 * norm);
        rates.scale *= r.clip;
        reference_step(&f, &d, rates);
        assert_int_equal(d.o.steps, t);
    }
    assert_true(distance(&f, &d, start) < 2e-6);
}

static void update_is_adamw(void **state)
{
    (void)state;
    follow_reference(SMALL NO_CLIP, false);
    follow_reference(GOLDEN "deepseek-v3-tiny optimizer.clip_grad=0.01", false);
    follow_reference(GOLDEN "gpt-oss-tiny" NO_CLIP, false);
}

/* No weight is a multiple of the lanes, and one is shorter than they are. */
static void odd_sizes_are_updated_whole(void **state)
{
    (void)state;
    follow_reference("model.num_layers=2 model.hidden_size=99 model.num_attention_heads=3 "
                     "model.vocab_size=1001 model.num_moe_experts=3 model.moe_ffn_hidden_size=7 "
                     "model.add_bias_linear=true" NO_CLIP,
                     false);
}

static void decay_may_go_into_the_gradient(void **state)
{
    (void)state;
    follow_reference(SMALL NO_CLIP " optimizer.decoupled_weight_decay=false", true);
}

/* ---- clip and skip */

static step_result judged(double clip, double norm)
{
    const double sums[SUM_COUNT] = {[SUM_SQUARES] = norm * norm},
                 given[GIVEN_COUNT] = {[GIVEN_SCALE] = 1};
    double verdict[VERDICT_COUNT];
    update_verdict(verdict, sums, given, &(verdict_limits){clip, (double)INFINITY, 0.9, 0.95});
    return step_result_of(verdict);
}

static void clip_is_megatrons(void **state)
{
    (void)state;
    step_result r = judged(1.5, 3);
    assert_true(r.outcome == STEP_TAKEN && r.norm == 3 && r.clip == 1.5 / (3 + 1e-6));
    assert_true(judged(1.5, 1).clip == 1);
    assert_true(judged(1.5, 0).clip == 1);
    assert_true(judged(1.5, 1.5).clip < 1); /* the 1e-6 counts */
    assert_true(judged(0, 1e30).clip == 1);
}

static void clipped_is_scaled(void **state)
{
    (void)state;
    made a = make(SMALL " optimizer.clip_grad=0.01", DECAY_MEGATRON);
    made b = make(SMALL NO_CLIP, DECAY_MEGATRON);
    step_rates rates = {1e-3, 1e-3, 0.1, 1};
    step_result r = optimizer_step(&a.o, ARRAYS(a), rates);
    assert_true(r.clip < 1 && fabs(r.clip - 0.01 / (r.norm + 1e-6)) < 1e-15);
    rates.scale = r.clip;
    optimizer_step(&b.o, ARRAYS(b), rates);
    assert_true(same(a.w, b.w, a.n) && same(a.m, b.m, a.n) && same(a.v, b.v, a.n));
}

static void assert_skips(made *d, step_outcome why)
{
    const float *w = copied(d->w, d->n), *m = copied(d->m, d->n), *v = copied(d->v, d->n);
    step_result r = optimizer_step(&d->o, ARRAYS(*d), (step_rates){1, 1, 1, 1});
    assert_int_equal(r.outcome, why);
    assert_int_equal(d->o.steps, 0);
    assert_true(same(w, d->w, d->n) && same(m, d->m, d->n) && same(v, d->v, d->n));
}

static void a_bad_gradient_skips_the_step(void **state)
{
    (void)state;
    static const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    made d = make(SMALL, DECAY_MEGATRON);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const weight *last = weight_find(&d.list, &d.s.params.rows[d.s.params.n_rows - 1], 0, -1);
        assert_non_null(last);
        int64_t place = last->offset + last->n - 1;
        float kept = d.g[place];
        d.g[place] = (float)bad[i];
        assert_skips(&d, STEP_NOT_FINITE);
        d.g[place] = kept;
    }
    step_rates rates = {1e-3, 1e-3, 0.1, 1};
    assert_int_equal(optimizer_step(&d.o, ARRAYS(d), rates).outcome, STEP_TAKEN);
    assert_int_equal(d.o.steps, 1);
}

static void a_large_norm_skips_the_step_where_asked(void **state)
{
    (void)state;
    made d = make(SMALL " optimizer.grad_norm_skip_threshold=0.001", DECAY_MEGATRON);
    assert_skips(&d, STEP_TOO_LARGE);
}

/* ---- groups */

static bool decays(const made *d, decay_rule rule, bool qk, const char *name)
{
    for (int i = 0; i < d->s.params.n_rows; i++)
        if (strcmp(d->s.params.rows[i].name, name) == 0)
            return optimizer_decays(&d->s.params.rows[i], rule, qk);
    fail_msg("no weight %s", name);
    return false;
}

static void decay_groups_are_megatrons(void **state)
{
    (void)state;
    static const struct {
        const char *model, *name;
        bool megatron, with_qk, in_file;
    } rows[] = {
        {GOLDEN "qwen3-moe-tiny", "embedding.word_embeddings.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "output_layer.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "mlp.router.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "mlp.experts.linear_fc1.weight", true, true, true},
        {GOLDEN "qwen3-moe-tiny", "pre_mlp_layernorm.weight", false, false, false},
        {GOLDEN "qwen3-moe-tiny", "self_attention.q_layernorm.weight", false, true, false},
        {GOLDEN "qwen3-moe-tiny", "self_attention.k_layernorm.weight", false, true, false},
        {GOLDEN "deepseek-v3-tiny", "mlp.router.expert_bias", false, false, false},
        {GOLDEN "deepseek-v3-tiny", "self_attention.linear_q_up_proj.layer_norm_weight", false,
         false, false},
        {GOLDEN "qwen3-next-tiny", "mlp.shared_experts.gate_weight", true, true, true},
        {GOLDEN "qwen3-next-tiny", "self_attention.conv1d.weight", true, true, true},
        {GOLDEN "qwen3-next-tiny", "self_attention.dt_bias", false, false, false},
        {GOLDEN "qwen3-next-tiny", "self_attention.A_log", false, false, false},
        {GOLDEN "gpt-oss-tiny", "self_attention.core_attention.softmax_offset", false, false,
         false},
        {GOLDEN "gpt-oss-tiny", "self_attention.linear_qkv.bias", false, false, false},
        {GOLDEN "gpt-oss-tiny", "mlp.router.bias", false, false, false},
        {GOLDEN "gpt-oss-tiny", "mlp.experts.linear_fc1.bias", false, false, true},
        {GOLDEN "gpt-oss-tiny", "mlp.experts.linear_fc2.bias", false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made d = make(rows[i].model, DECAY_MEGATRON);
        assert_int_equal(decays(&d, DECAY_MEGATRON, false, rows[i].name), rows[i].megatron);
        assert_int_equal(decays(&d, DECAY_MEGATRON, true, rows[i].name), rows[i].with_qk);
        assert_int_equal(decays(&d, DECAY_FILE, false, rows[i].name), rows[i].in_file);
        assert_int_equal(decays(&d, DECAY_FILE, true, rows[i].name), rows[i].in_file);
    }
}

/* The rule of the reference cases, read off the files themselves. */
static void file_rule_counts_the_files_dimensions(void **state)
{
    (void)state;
    static const char *const cases[] = {"qwen3-moe-tiny", "deepseek-v3-tiny", "qwen3-next-tiny",
                                        "mixtral-tiny",   "gpt-oss-tiny",     "mtp-tiny"};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        made d = make(arena_text(scratch, GOLDEN "%s", cases[c]), DECAY_FILE);
        safetensors file;
        error err = {""};
        const char *path = arena_text(scratch, "tests/data/golden/%s/model.safetensors", cases[c]);
        if (safetensors_open(&file, scratch, path, &err)) fail_msg("%s", err.text);
        for (int i = 0; i < d.list.n; i++) {
            const weight *w = &d.list.list[i];
            for (int part = 0; part < param_hf_parts(w->row); part++) {
                const char *name = param_hf_name(scratch, &d.s.m, w->row, w->layer, part, 0);
                const safetensor *t = safetensors_find(&file, name);
                if (!t) fail_msg("%s", name);
                assert_int_equal(optimizer_decays(w->row, DECAY_FILE, false),
                                 w->row->trained && t->n_dims >= 2);
            }
        }
    }
}

/* An expert's bias that a file keeps by itself is a vector there, a stacked one is not. */
static void stacked_biases_are_matrices(void **state)
{
    (void)state;
    param bias = {.name = "bias", .n_dims = 2, .kind = PARAM_EXPERT, .trained = true};
    bias.hf = HF_EXPERT_ROWS;
    assert_false(optimizer_decays(&bias, DECAY_FILE, false));
    bias.hf = HF_EXPERT_FUSED_T;
    assert_true(optimizer_decays(&bias, DECAY_FILE, false));
}

/* Without a gradient a weight that decays shrinks, and one that does not stays. */
static void only_what_decays_shrinks(void **state)
{
    (void)state;
    for (int rule = 0; rule < 2; rule++) {
        made d = make(GOLDEN "gpt-oss-tiny", (decay_rule)rule);
        memset(d.g, 0, sizeof *d.g * (size_t)d.n);
        const float *start = copied(d.w, d.n);
        optimizer_step(&d.o, ARRAYS(d), (step_rates){0.1, 0.1, 0.5, 1});
        for (int i = 0; i < d.list.n; i++) {
            const weight *w = &d.list.list[i];
            double factor = optimizer_decays(w->row, (decay_rule)rule, false) ? 0.95 : 1;
            for (int64_t j = w->offset; j < w->offset + w->n; j++)
                assert_true(fabs((double)d.w[j] - factor * (double)start[j]) < 1e-8);
        }
    }
}

static void learned_positions_have_the_common_rate(void **state)
{
    (void)state;
    made d = make(SMALL " model.position_embedding_type=learned_absolute", DECAY_MEGATRON);
    int table = 0, positions = 0;
    for (int64_t i = 0; i < d.o.table.n; i++) {
        const double *row = d.o.table.rows + i * TABLE_COLUMNS;
        for (int j = 0; j < d.list.n; j++) {
            const weight *w = &d.list.list[j];
            if ((int64_t)row[TABLE_OFFSET] != w->offset || !w->row->trained) continue;
            assert_int_equal(row[TABLE_EMBEDDING], is_table_or_head(w->row));
            table += (int)row[TABLE_EMBEDDING];
            positions += strstr(w->row->name, "position_embeddings") != NULL;
        }
    }
    assert_true(table > 0 && positions > 0);
}

/* ---- sums */

static void rows_cover_each_trained_element_once(void **state)
{
    (void)state;
    made d = make(GOLDEN "deepseek-v3-tiny", DECAY_MEGATRON);
    char *times = ARENA_ARRAY(scratch, char, d.n);
    int64_t pieces = 0;
    for (int64_t i = 0; i < d.o.table.n; i++) {
        const double *row = d.o.table.rows + i * TABLE_COLUMNS;
        assert_true(row[TABLE_PIECE] == (double)pieces);
        pieces += ((int64_t)row[TABLE_N] + UPDATE_PIECE - 1) / UPDATE_PIECE;
        for (int64_t j = 0; j < (int64_t)row[TABLE_N]; j++) times[(int64_t)row[TABLE_OFFSET] + j]++;
    }
    for (int i = 0; i < d.list.n; i++)
        for (int64_t j = 0; j < d.list.list[i].n; j++)
            assert_int_equal(times[d.list.list[i].offset + j]--, d.list.list[i].row->trained);
}

static void zeros_are_counted(void **state)
{
    (void)state;
    made d = make(SMALL, DECAY_MEGATRON);
    assert_int_equal(optimizer_zeros(&d.o, F32(d.g)), 0);
    d.g[0] = d.g[d.list.list[3].offset] = 0;
    assert_int_equal(optimizer_zeros(&d.o, F32(d.g)), 2);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    int before = omp_get_max_threads();
    made one = {0};
    for (int n = 1; n < 8; n += 2) {
        omp_set_num_threads(n);
        made d = make(SMALL, DECAY_MEGATRON);
        for (int t = 0; t < 3; t++)
            optimizer_step(&d.o, ARRAYS(d), (step_rates){1e-3, 1e-3, 0.1, 1});
        if (n == 1) one = d;
        assert_true(optimizer_squares(&d.o, F32(d.g)) == optimizer_squares(&one.o, F32(one.g)));
        assert_true(same(d.w, one.w, d.n) && same(d.m, one.m, d.n) && same(d.v, one.v, d.n));
    }
    omp_set_num_threads(before);
}

/* ---- ranks */

/* What one rank, or one with the whole model, holds; values follow from names and places alone. */
typedef struct held {
    program p;
    optimizer o;
    float *w, *g, *m, *v;
} held;

static void hold(held *h, const setup *s, const rank_at *at)
{
    *h = (held){.p = {.s = s, .at = at ? *at : (rank_at){0}}};
    if (at)
        weight_list_rank(&h->p.weights, s, at, scratch);
    else
        weight_list_init(&h->p.weights, s, scratch);
    optimizer_init(&h->o, &h->p, DECAY_MEGATRON, scratch);
    h->w = ARENA_ARRAY(scratch, float, h->p.weights.elements);
    h->g = ARENA_ARRAY(scratch, float, h->p.weights.elements);
    h->m = ARENA_ARRAY(scratch, float, h->p.weights.owned);
    h->v = ARENA_ARRAY(scratch, float, h->p.weights.owned);
    init_weights(s, at, &h->p.weights, 5, h->w);
    init_weights(s, at, &h->p.weights, 6, h->g);
}

/* What the rank has updated is as in the whole model; counts the elements that it answers for. */
static void compare_rank(const held *rank, const held *whole, char *times)
{
    const setup *s = rank->p.s;
    for (int i = 0; i < rank->p.weights.n; i++) {
        const weight *w = &rank->p.weights.list[i];
        const weight *all = weight_find(&whole->p.weights, w->row, w->layer, -1);
        if (!w->row->trained) continue;
        part_map map;
        part_map_init(&map, s, &rank->p.at, w);
        int64_t first, n = owned_range(&rank->p.weights, w, &first), run;
        bool answers = rank_answers(s, &rank->p.at, w);
        for (int64_t e = 0; e < all->n; e++) {
            int64_t k = part_map_find(&map, e, &run);
            if (k < first || k >= first + n) continue;
            assert_true(rank->w[w->offset + k] == whole->w[all->offset + e]);
            times[all->offset + e] = (char)(times[all->offset + e] + answers);
        }
    }
}

static void ranks_share(const char *overrides)
{
    setup s;
    held whole;
    set_up_words(&s, overrides);
    hold(&whole, &s, NULL);
    double sum = 0, all = optimizer_squares(&whole.o, F32(whole.g));
    int64_t zeros = 0;
    char *times = ARENA_ARRAY(scratch, char, whole.p.weights.elements);
    step_rates rates = {1e-3, 2e-3, 0.1, 0.5};
    optimizer_update(&whole.o, ARRAYS(whole), rates);
    for (int64_t r = 0; r < s.lay.world; r++) {
        held rank;
        rank_at at = rank_coordinates(&s.lay, r);
        hold(&rank, &s, &at);
        sum += optimizer_squares(&rank.o, F32(rank.g));
        zeros += optimizer_zeros(&rank.o, F32(rank.g));
        optimizer_update(&rank.o, ARRAYS(rank), rates);
        compare_rank(&rank, &whole, times);
    }
    assert_true(fabs(sum - all) < 1e-12 * all);
    assert_int_equal(zeros, optimizer_zeros(&whole.o, F32(whole.g)));
    for (int i = 0; i < whole.p.weights.n; i++) {
        const weight *w = &whole.p.weights.list[i];
        for (int64_t e = 0; e < w->n && w->row->trained; e++)
            assert_int_equal(times[w->offset + e], 1);
    }
}

static void ranks_share_norm_and_update(void **state)
{
    (void)state;
    ranks_share(SMALL " cluster.n_gpus=4 model.tensor_model_parallel_size=2 "
                      "model.expert_model_parallel_size=2 model.expert_tensor_parallel_size=1");
    ranks_share(GOLDEN "gpt-oss-tiny cluster.n_gpus=4 model.expert_tensor_parallel_size=2 "
                       "model.expert_model_parallel_size=2 model.tensor_model_parallel_size=2");
    ranks_share(SMALL " cluster.n_gpus=4 model.pipeline_model_parallel_size=2 "
                      "model.context_parallel_size=2");
    ranks_share(SMALL " cluster.n_gpus=4 ddp.use_distributed_optimizer=false "
                      "model.expert_model_parallel_size=2");
    ranks_share(GOLDEN "mtp-tiny cluster.n_gpus=4 model.pipeline_model_parallel_size=2");
}

/* ---- the router's correction bias */

/* Computed by Megatron-Core's get_updated_expert_bias, rate 1e-3; expert 3 has the mean load. */
static void expert_bias_is_megatrons(void **state)
{
    (void)state;
    static const float counts[] = {1, 2, 22, 12, 20, 15, 11, 29, 6, 22, 0, 9, 15, 15, 13, 0};
    static const double before[] = {
        -0.23305609822273254, -0.146515354514122,  0.10327304899692535,   -0.06977449357509613,
        0.22772541642189026,  0.04932216927409172, -0.11740028113126755,  0.25976935029029846,
        -0.1391223520040512,  0.0668177455663681,  -0.35918501019477844,  -0.0732475072145462,
        0.007164320442825556, 0.07015325874090195, -0.048962756991386414, -0.49148088693618774};
    static const double after[] = {
        -0.23205609619617462, -0.1455153524875641, 0.10227304697036743,  -0.06977449357509613,
        0.22672541439533234,  0.0483221709728241,  -0.11640027910470963, 0.25876936316490173,
        -0.1381223499774933,  0.06581774353981018, -0.3581850230693817,  -0.07224750518798828,
        0.006164320278912783, 0.06915325671434402, -0.04996275529265404, -0.490480899810791};
    float bias[16];
    for (int i = 0; i < 16; i++) bias[i] = (float)before[i];
    update_bias(bias, counts, 16, 1e-3);
    for (int i = 0; i < 16; i++) assert_true(bias[i] == (float)after[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_is_adamw),
        cmocka_unit_test(odd_sizes_are_updated_whole),
        cmocka_unit_test(decay_may_go_into_the_gradient),
        cmocka_unit_test(clip_is_megatrons),
        cmocka_unit_test(clipped_is_scaled),
        cmocka_unit_test(a_bad_gradient_skips_the_step),
        cmocka_unit_test(a_large_norm_skips_the_step_where_asked),
        cmocka_unit_test(decay_groups_are_megatrons),
        cmocka_unit_test(file_rule_counts_the_files_dimensions),
        cmocka_unit_test(stacked_biases_are_matrices),
        cmocka_unit_test(only_what_decays_shrinks),
        cmocka_unit_test(learned_positions_have_the_common_rate),
        cmocka_unit_test(rows_cover_each_trained_element_once),
        cmocka_unit_test(zeros_are_counted),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(ranks_share_norm_and_update),
        cmocka_unit_test(expert_bias_is_megatrons),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
