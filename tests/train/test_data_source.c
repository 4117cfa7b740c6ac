/* test_data_source.c - what data_open refuses and why, fillers, and sets beyond 32 bits. */
#include "train/test_data_golden.h"

#include <fcntl.h>
#include <unistd.h>

static const char *const a_i32[] = {MEGATRON_DATA "a-i32"};

static data_options small_options(void)
{
    data_options o = data_defaults();
    o.paths.list = a_i32;
    o.paths.n = 1;
    o.split = "1";
    o.seq_length = 16;
    o.vocab_size = 1000;
    o.eod = 999;
    o.n_samples[DATA_TRAIN] = 30;
    return o;
}

static void assert_refused(const data_options *o, status want, const char *said)
{
    arena *a = arena_create();
    data_source *d = NULL;
    error err = {{0}};
    assert_int_equal(data_open(&d, o, a, &err), want);
    assert_null(d);
    assert_has(err.text, said);
    arena_destroy(a);
}

#define REFUSED(change, want, said)                                                                \
    do {                                                                                           \
        data_options o = small_options();                                                          \
        change;                                                                                    \
        assert_refused(&o, want, said);                                                            \
    } while (0)

static void bad_options_are_named(void **state)
{
    (void)state;
    REFUSED(o.seq_length = 0, ERR_INPUT, "samples of 0 tokens");
    REFUSED(o.seq_length = INT32_MAX, ERR_INPUT, "samples of 2147483647 tokens");
    REFUSED(o.seed = -1, ERR_INPUT, "random_seed: -1");
    REFUSED(o.seed = (int64_t)1 << 32, ERR_INPUT, "random_seed: 4294967296");
    REFUSED(o.surplus = -0.1, ERR_INPUT, "surplus");
    REFUSED(o.n_samples[1] = -2, ERR_INPUT, "-2 samples for valid");
    REFUSED(o.n_samples[0] = INT64_MAX, ERR_INPUT, "cannot be counted");
    REFUSED(o.split = NULL, ERR_INPUT, "dataset.split is not set");
    REFUSED(o.split = "0,1", ERR_INPUT, "nothing for training");
    REFUSED(o.vocab_size = 0, ERR_INPUT, "vocabulary of 0");
    REFUSED((o.eod = -1, o.eod_mask_loss = true), ERR_INPUT, "which is unknown");
    REFUSED((o.paths.n = 0, o.eod = 1000), ERR_INPUT, "mock data");
    REFUSED(o.paths.list = (const char *[]){"no/such"}, ERR_INPUT, "no/such.idx: No such file");
    REFUSED((o.n_samples[0] = DATA_ALL, o.seq_length = 5000), ERR_INPUT, "too few for one sample");
    REFUSED(o.n_samples[0] = (int64_t)1 << 51, ERR_MACHINE, "GiB");
    REFUSED((o.n_samples[0] = (int64_t)1 << 51, o.seq_length = 1 << 30), ERR_INPUT, "counted");
}

/* Megatron never comes back from this one. */
static void a_split_that_gets_no_sequence_is_an_error(void **state)
{
    (void)state;
    REFUSED((o.split = "969, 30, 1", o.n_samples[DATA_TEST] = 5), ERR_INPUT,
            "a-i32: dataset.split '969, 30, 1' gives test none of the 40 sequences");
    arena *a = arena_create();
    data_options o = small_options();
    o.split = "969, 30, 1";
    o.n_samples[DATA_TEST] = 0; /* nobody wants it */
    data_source *d = opened(&o, a);
    assert_int_equal(data_length(d, DATA_TEST), 0);
    data_close(d);
    o.split = "100,0,0"; /* and here there is none to be had */
    o.n_samples[DATA_TEST] = 5;
    d = opened(&o, a);
    assert_int_equal(data_length(d, DATA_TEST), 0);
    assert_null(data_blend_of(d, DATA_TEST));
    data_close(d);
    data_close(NULL);
    arena_destroy(a);
}

static void an_id_outside_the_vocabulary_is_named(void **state)
{
    (void)state;
    arena *a = arena_create();
    data_options o = small_options();
    o.vocab_size = 999;
    data_source *d = opened(&o, a);
    int32_t tokens[16], labels[16], positions[16];
    float mask[16];
    int refused = 0;
    for (int64_t i = 0; i < data_length(d, DATA_TRAIN); i++) {
        error err = {{0}};
        data_item item = {tokens, labels, mask, positions, NULL, 0, 0};
        status s = data_sample(d, DATA_TRAIN, i, &item, &err);
        if (!s) continue;
        assert_int_equal(s, ERR_INPUT);
        assert_has(err.text, "a-i32.bin: sequence ");
        assert_has(err.text, "the token 999");
        refused++;
    }
    assert_true(refused >= 30); /* of 40 ends of documents */
    data_close(d);
    arena_destroy(a);
}

static void a_filler_is_the_first_sample_without_loss(void **state)
{
    (void)state;
    arena *a = arena_create();
    data_options o = small_options();
    data_source *d = opened(&o, a);
    roomy_item first, filler;
    item_read(&first, d, DATA_TRAIN, 0);
    item_read(&filler, d, DATA_TRAIN, -1);
    assert_memory_equal(first.tokens, filler.tokens, 16 * sizeof(int32_t));
    assert_memory_equal(first.labels, filler.labels, 16 * sizeof(int32_t));
    for (int i = 0; i < 16; i++) assert_true(first.loss_mask[i] == 1 && filler.loss_mask[i] == 0);
    error err = {{0}};
    int64_t end = data_length(d, DATA_TRAIN);
    assert_int_equal(data_sample(d, DATA_TRAIN, end, &first.item, &err), ERR_INPUT);
    assert_has(err.text, "of train was asked for, which has 81");
    assert_int_equal(data_sample(d, DATA_TRAIN, -2, &first.item, &err), ERR_INPUT);
    assert_int_equal(data_sample(d, DATA_VALID, 0, &first.item, &err), ERR_INPUT);
    data_close(d);
    arena_destroy(a);
}

static int masked(const data_options *o)
{
    arena *a = arena_create();
    data_source *d = opened(o, a);
    int n = 0;
    for (int64_t i = 0; i < data_length(d, DATA_TRAIN); i++) {
        roomy_item r;
        item_read(&r, d, DATA_TRAIN, i);
        for (int k = 0; k < 16; k++) n += r.loss_mask[k] == 0;
    }
    data_close(d);
    arena_destroy(a);
    return n;
}

static void a_pad_id_that_ends_documents_is_not_heeded(void **state)
{
    (void)state;
    data_options o = small_options();
    assert_int_equal(masked(&o), 0);
    o.pad = 999;
    assert_int_equal(masked(&o), 0);
    o.allow_ambiguous_pad = true;
    assert_int_equal(masked(&o), 40); /* each end of a document is some label once */
}

static void types_of_tokens_change_no_sample(void **state)
{
    (void)state;
    arena *a = arena_create();
    data_options o = small_options();
    data_source *wide = opened(&o, a);
    o.paths.list = (const char *[]){MEGATRON_DATA "a-u16"};
    data_source *narrow = opened(&o, a);
    assert_int_equal(data_length(wide, DATA_TRAIN), data_length(narrow, DATA_TRAIN));
    for (int64_t i = 0; i < data_length(wide, DATA_TRAIN); i++) {
        roomy_item x, y;
        item_read(&x, wide, DATA_TRAIN, i);
        item_read(&y, narrow, DATA_TRAIN, i);
        assert_memory_equal(x.tokens, y.tokens, 16 * sizeof(int32_t));
        assert_memory_equal(x.labels, y.labels, 16 * sizeof(int32_t));
    }
    data_close(wide);
    data_close(narrow);
    arena_destroy(a);
}

/* ---- beyond 32 bits: three sequences of 2^31 - 1 tokens in a file with a hole */

enum { HUGE_SEQUENCES = 3, HUGE_SEQ = 1 << 20 };

static void put(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(v >> 8 * i);
}

static void write_huge_idx(const char *path)
{
    unsigned char b[34 + 12 * HUGE_SEQUENCES + 8 * 2] = "MMIDIDX\0";
    b[9] = 1, b[17] = 1, b[18] = HUGE_SEQUENCES, b[26] = 2;
    for (int i = 0; i < HUGE_SEQUENCES; i++) {
        put(b + 34 + 4 * i, INT32_MAX, 4);
        put(b + 34 + 4 * HUGE_SEQUENCES + 8 * i, (uint64_t)i * INT32_MAX, 8);
    }
    put(b + sizeof b - 8, HUGE_SEQUENCES, 8);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b, 1, sizeof b, f), sizeof b);
    assert_int_equal(fclose(f), 0);
}

/* The second-to-last token of the last sequence is 7, all others are 0. */
static bool write_huge_bin(const char *path)
{
    off_t n = (off_t)HUGE_SEQUENCES * INT32_MAX;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    bool done = ftruncate(fd, n) == 0 && pwrite(fd, "\7", 1, n - 2) == 1;
    close(fd);
    return done;
}

static void check_huge(const char *prefix, arena *a)
{
    data_options o = small_options();
    o.paths.list = &prefix;
    o.seq_length = HUGE_SEQ;
    o.vocab_size = 8;
    o.n_samples[DATA_TRAIN] = 20000; /* more than two to the 34 tokens */
    data_source *d = opened(&o, a);
    const data_index *x = data_member(d, DATA_TRAIN, 0);
    int64_t tokens = (int64_t)HUGE_SEQUENCES * INT32_MAX;
    assert_int_equal(x->n_tokens, tokens);
    assert_int_equal(x->n_epochs, 4);
    assert_int_equal(x->n_samples, (4 * tokens - 1) / HUGE_SEQ);
    data_item item = {ARENA_ARRAY(a, int32_t, HUGE_SEQ),
                      ARENA_ARRAY(a, int32_t, HUGE_SEQ),
                      ARENA_ARRAY(a, float, HUGE_SEQ),
                      ARENA_ARRAY(a, int32_t, HUGE_SEQ),
                      ARENA_ARRAY(a, int32_t, HUGE_SEQ + 1),
                      0,
                      0};
    int64_t sevens = 0;
    for (int64_t k = 0; k <= x->n_samples; k++) {
        int64_t at = k * HUGE_SEQ, entry = at / INT32_MAX;
        index_place p = index_row(x, k);
        assert_int_equal(p.entry, entry);
        assert_int_equal(p.offset, at % INT32_MAX);
        if (k == x->n_samples || x->documents[entry] != HUGE_SEQUENCES - 1 ||
            p.offset + HUGE_SEQ < INT32_MAX)
            continue;
        error err = {{0}};
        assert_int_equal(sample_read(x, &(sample_rules){.eod = -1}, k, &item, &err), OK);
        sevens += item.tokens[INT32_MAX - 2 - p.offset] == 7;
    }
    assert_true(sevens >= 3); /* once an epoch; the last may lie behind the last sample */
    data_close(d);
}

static void sets_beyond_32_bits_are_read(void **state)
{
    (void)state;
    arena *a = arena_create();
    char folder[] = "/tmp/moefold-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *prefix = arena_text(a, "%s/set", folder);
    const char *idx = arena_text(a, "%s.idx", prefix), *bin = arena_text(a, "%s.bin", prefix);
    write_huge_idx(idx);
    bool room = write_huge_bin(bin);
    if (room) check_huge(prefix, a);
    remove(idx);
    remove(bin);
    rmdir(folder);
    arena_destroy(a);
    if (!room) skip(); /* the file system has no holes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(a_split_that_gets_no_sequence_is_an_error),
        cmocka_unit_test(an_id_outside_the_vocabulary_is_named),
        cmocka_unit_test(a_filler_is_the_first_sample_without_loss),
        cmocka_unit_test(a_pad_id_that_ends_documents_is_not_heeded),
        cmocka_unit_test(types_of_tokens_change_no_sample),
        cmocka_unit_test(sets_beyond_32_bits_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
