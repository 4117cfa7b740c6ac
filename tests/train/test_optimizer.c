/* test_optimizer.c - AdamW against a plain loop in double precision, clipping, and sums. */
#include "train/optimizer_testing.h"

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

/* ---- sums */

static void rows_cover_each_trained_element_once(void **state)
{
    (void)state;
    made d = make(GOLDEN "deepseek-v3-tiny", DECAY_MEGATRON);
    char *times = ARENA_ARRAY(scratch, char, d.n);
    int64_t pieces = 0;
    for (int64_t i = 0; i < d.o.table.n; i++) {
        const update_row *row = &d.o.table.rows[i];
        assert_true(row->piece == pieces);
        pieces += (row->n + UPDATE_PIECE - 1) / UPDATE_PIECE;
        for (int64_t j = 0; j < row->n; j++) times[row->offset + j]++;
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
        cmocka_unit_test(rows_cover_each_trained_element_once),
        cmocka_unit_test(zeros_are_counted),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
