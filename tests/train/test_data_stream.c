/* test_data_stream.c - rows and samples against a plain walk, empty sequences included. */
#include "train/test_data_golden.h"

/* ---- a store in memory: token j of sequence i is 100 * i + j, or EOD at the end */

enum { SEQUENCES = 12, EOD = 5000, VOCAB = 6000, PAD = -1 };

typedef struct fake_store {
    data_store store;
    int32_t lengths[SEQUENCES];
} fake_store;

static int32_t fake_id(const data_store *s, int64_t sequence, int64_t place)
{
    return place == data_store_length(s, sequence) - 1 ? EOD : (int32_t)(100 * sequence + place);
}

static status fake_read(const data_store *s, data_slice slice, int32_t *out, error *err)
{
    (void)err;
    assert_true(slice.first >= 0 && slice.n >= 0);
    assert_true(slice.first + slice.n <= data_store_length(s, slice.sequence));
    for (int64_t i = 0; i < slice.n; i++) out[i] = fake_id(s, slice.sequence, slice.first + i);
    return OK;
}

static void fake_init(fake_store *f, int n)
{
    f->store = (data_store){"fake", n, f->lengths, {VOCAB, PAD}, fake_read, NULL};
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- the walk: where Megatron's builder of the sample index would stand */

static index_place walk_on(const data_index *x, index_place p)
{
    int64_t extra = x->ask.extra_token, left = x->ask.seq_length + extra;
    for (;;) {
        int64_t n = data_store_length(x->ask.store, x->documents[p.entry]) - p.offset;
        if (n >= left) return (index_place){p.entry, p.offset + left - extra};
        if (p.entry == x->n_entries - 1) /* a short last sample */
            return (index_place){p.entry, p.offset + n - extra};
        left -= n;
        p = (index_place){p.entry + 1, 0};
    }
}

static void check_rows(const data_index *x)
{
    index_place p = {0, 0};
    for (int64_t k = 0; k <= x->n_samples; k++) {
        index_place q = index_row(x, k);
        assert_int_equal(q.entry, p.entry);
        assert_int_equal(q.offset, p.offset);
        if (k < x->n_samples) p = walk_on(x, p);
    }
}

/* All of the stream in a row, and each sample cut out of it. */
static void check_samples(const data_index *x)
{
    enum { STREAM_MAX = 1 << 14 };
    static int32_t stream[STREAM_MAX];
    int64_t n = 0, s = x->ask.seq_length;
    for (int64_t e = 0; e < x->n_entries; e++)
        for (int64_t i = 0; i < data_store_length(x->ask.store, x->documents[e]); i++) {
            assert_true(n < STREAM_MAX);
            stream[n++] = fake_id(x->ask.store, x->documents[e], i);
        }
    for (int64_t k = 0; k < x->n_samples; k++) {
        roomy_item r;
        error err = {{0}};
        data_item item = {r.tokens, r.labels, r.loss_mask, r.positions, r.cu_seqlens, 0, 0};
        assert_int_equal(sample_read(x, &(sample_rules){.eod = EOD}, k, &item, &err), OK);
        for (int64_t i = 0; i < s; i++) {
            bool token = k * s + i < n;
            bool label = k * s + i + 1 < n && (x->ask.extra_token || i < s - 1);
            assert_int_equal(r.tokens[i], token ? stream[k * s + i] : 0);
            assert_int_equal(r.labels[i], label ? stream[k * s + i + 1] : 0);
            assert_true(r.loss_mask[i] == (label ? 1.0F : 0.0F));
        }
        assert_int_equal(item.n_pieces, 1);
        assert_int_equal(item.max_seqlen, s);
    }
}

static void samples_are_cut_from_one_stream(void **state)
{
    (void)state;
    uint32_t seed = 3;
    int built = 0;
    for (int round = 0; round < 2000; round++) {
        fake_store f;
        data_index x;
        error err = {{0}};
        int n = 1 + (int)(next_random(&seed) % SEQUENCES);
        fake_init(&f, n);
        for (int i = 0; i < n; i++) {
            uint32_t v = next_random(&seed);
            f.lengths[i] = v % 3 == 0 ? 0 : (int32_t)(v / 3 % 40);
        }
        index_ask ask = {.store = &f.store, .which = DATA_VALID, .sequences = {0, n}};
        ask.seq_length = 1 + next_random(&seed) % 30;
        ask.n_samples = next_random(&seed) % 4 ? (int64_t)(next_random(&seed) % 60) : DATA_ALL;
        ask.seed = next_random(&seed);
        ask.extra_token = next_random(&seed) % 2;
        ask.keep_partial = next_random(&seed) % 2;
        status s = index_init(&x, &ask, &err);
        assert_true(s == OK || s == ERR_INPUT);
        if (s) continue;
        assert_true(x.n_samples >= ask.n_samples);
        check_rows(&x);
        check_samples(&x);
        index_release(&x);
        built++;
    }
    assert_true(built > 1500);
}

/* ---- pieces */

static void read_one(const fake_store *f, int64_t seq_length, bool partial, sample_rules rules,
                     roomy_item *r)
{
    data_index x;
    error err = {{0}};
    index_ask ask = {.store = &f->store,
                     .which = DATA_VALID,
                     .sequences = {0, f->store.n_sequences},
                     .seq_length = seq_length,
                     .n_samples = DATA_ALL,
                     .extra_token = true,
                     .keep_partial = partial};
    r->item = (data_item){r->tokens, r->labels, r->loss_mask, r->positions, r->cu_seqlens, 0, 0};
    assert_int_equal(index_init(&x, &ask, &err), OK);
    for (uint32_t e = 0; e < x.n_entries; e++)
        x.documents[e] = e; /* in the order of the file: so few need one start */
    x.starts[0] = 0;
    assert_int_equal(sample_read(&x, &rules, 0, &r->item, &err), OK);
    index_release(&x);
}

static void assert_pieces(const roomy_item *r, int n, const int *cuts)
{
    assert_int_equal(r->item.n_pieces, n);
    for (int i = 0; i <= n; i++) assert_int_equal(r->cu_seqlens[i], cuts[i]);
    for (int p = 0; p < n; p++)
        for (int i = cuts[p]; i < cuts[p + 1]; i++) assert_int_equal(r->positions[i], i - cuts[p]);
}

static void pieces_end_at_joins_and_are_never_empty(void **state)
{
    (void)state;
    fake_store f = {.lengths = {0, 3, 0, 0, 4, 9}};
    sample_rules joins = {.eod = EOD, .inter_document = true};
    roomy_item r;
    fake_init(&f, 6);
    read_one(&f, 10, false, joins, &r);
    assert_pieces(&r, 3, (int[]){0, 3, 7, 10});
    assert_int_equal(r.item.max_seqlen, 4);
    read_one(&f, 7, false, joins, &r); /* the extra token is the only one behind the last join */
    assert_pieces(&r, 2, (int[]){0, 3, 7});
    for (int i = 3; i <= 7; i++) assert_int_equal(r.cu_seqlens[i], 7);
}

/* A short text loses its last token to the labels, as Megatron counts: a join before it is none. */
static void a_pad_tail_belongs_to_the_last_piece(void **state)
{
    (void)state;
    sample_rules joins = {.eod = EOD, .inter_document = true};
    roomy_item r;
    fake_store f = {.lengths = {5, 2}};
    fake_init(&f, 2);
    read_one(&f, 10, true, joins, &r);
    assert_pieces(&r, 2, (int[]){0, 5, 10});
    f.lengths[1] = 1;
    read_one(&f, 10, true, joins, &r);
    assert_pieces(&r, 1, (int[]){0, 10});
}

static void resets_are_independent_of_each_other(void **state)
{
    (void)state;
    fake_store f = {.lengths = {3, 4, 9}};
    roomy_item r;
    fake_init(&f, 3);
    read_one(&f, 10, false, (sample_rules){.eod = EOD, .reset_attention = true}, &r);
    assert_int_equal(r.item.n_pieces, 3);
    for (int i = 0; i < 10; i++) assert_int_equal(r.positions[i], i);
    read_one(&f, 10, false, (sample_rules){.eod = EOD, .reset_positions = true}, &r);
    assert_int_equal(r.item.n_pieces, 1);
    assert_int_equal(r.positions[3], 0);
    assert_int_equal(r.positions[9], 2);
    assert_true(r.loss_mask[2] == 1);
    read_one(&f, 10, false, (sample_rules){.eod = EOD, .eod_mask_loss = true}, &r);
    assert_true(r.loss_mask[2] == 0 && r.loss_mask[1] == 1 && r.loss_mask[3] == 1);
    assert_int_equal(r.positions[9], 9);
}

/* Megatron counts these samples in 32-bit floats: of 2^25 + 1 tokens it sees 2^25. */
static void samples_of_large_validation_sets_are_counted_in_floats(void **state)
{
    (void)state;
    fake_store f = {.lengths = {(1 << 25) + 2}};
    data_index x;
    error err = {{0}};
    fake_init(&f, 1);
    index_ask ask = {&f.store, DATA_VALID, {0, 1}, 4096, DATA_ALL, 1234, true, true};
    assert_int_equal(index_init(&x, &ask, &err), OK);
    assert_int_equal(x.n_samples, 8192);
    index_release(&x);
    f.lengths[0] = (1 << 24) + 2;
    assert_int_equal(index_init(&x, &ask, &err), OK);
    assert_int_equal(x.n_samples, 4096);
    index_release(&x);
    f.lengths[0] = (1 << 24) + 3;
    assert_int_equal(index_init(&x, &ask, &err), OK);
    assert_int_equal(x.n_samples, 4097);
    index_release(&x);
}

static void a_set_without_tokens_is_an_error(void **state)
{
    (void)state;
    fake_store f = {.lengths = {0, 0}};
    data_index x;
    error err = {{0}};
    fake_init(&f, 2);
    index_ask ask = {&f.store, DATA_TEST, {0, 2}, 8, 5, 1, true, false};
    assert_int_equal(index_init(&x, &ask, &err), ERR_INPUT);
    assert_has(err.text, "fake: the 2 sequences for test are all empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_cut_from_one_stream),
        cmocka_unit_test(pieces_end_at_joins_and_are_never_empty),
        cmocka_unit_test(a_pad_tail_belongs_to_the_last_piece),
        cmocka_unit_test(resets_are_independent_of_each_other),
        cmocka_unit_test(samples_of_large_validation_sets_are_counted_in_floats),
        cmocka_unit_test(a_set_without_tokens_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
