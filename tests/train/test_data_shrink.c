/* test_data_shrink.c - data files that others shorten or write anew while they are mapped: an error
 * with the file and its sizes, never a signal, and never tokens that were not there. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/data/idx.h"
#include "train/data/source.h"

/* Files of several pages each. */
enum { SEQUENCES = 2000, LENGTH = 40, BYTES = 4, VOCAB = 1000, SEQ = 64 };
enum { IDX = 34 + 12 * SEQUENCES + 8 * (SEQUENCES + 1), BIN = SEQUENCES * LENGTH * BYTES };

typedef struct set {
    char folder[32], prefix[64], idx[72], bin[72];
    arena *a;
    data_source *d;
    data_options o;
    const char *paths[1];
} set;

static void put(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(v >> 8 * i);
}

static void write_file(const char *path, const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* `scale` is 1, or what lengths and offsets are multiplied with. */
static void write_idx(const set *x, int scale)
{
    unsigned char *b = calloc(1, IDX);
    memcpy(b, "MMIDIDX\0", 9);
    put(b + 9, 1, 8);
    b[17] = 4;
    put(b + 18, SEQUENCES, 8);
    put(b + 26, SEQUENCES + 1, 8);
    for (int i = 0; i < SEQUENCES; i++) {
        put(b + 34 + 4 * i, (uint64_t)(LENGTH * scale), 4);
        put(b + 34 + 4 * SEQUENCES + 8 * i, (uint64_t)(i * LENGTH * BYTES) * (uint64_t)scale, 8);
    }
    for (int i = 0; i <= SEQUENCES; i++) put(b + 34 + 12 * SEQUENCES + 8 * i, (uint64_t)i, 8);
    FILE *f = fopen(x->idx, access(x->idx, F_OK) == 0 ? "r+" : "w"); /* in place */
    assert_non_null(f);
    assert_int_equal(fwrite(b, 1, IDX, f), IDX);
    fclose(f);
    free(b);
}

static void set_open(set *x, bool plain)
{
    *x = (set){.folder = "/tmp/moefold-test-XXXXXX", .a = arena_create(), .o = data_defaults()};
    assert_non_null(mkdtemp(x->folder));
    snprintf(x->prefix, sizeof x->prefix, "%s/set", x->folder);
    snprintf(x->idx, sizeof x->idx, "%s.idx", x->prefix);
    snprintf(x->bin, sizeof x->bin, "%s.bin", x->prefix);
    unsigned char *tokens = malloc(BIN);
    for (int i = 0; i < BIN / BYTES; i++) put(tokens + BYTES * i, (uint64_t)(1 + i % 999), BYTES);
    write_file(x->bin, tokens, BIN);
    free(tokens);
    write_idx(x, 1);
    x->paths[0] = x->prefix;
    x->o.paths.list = x->paths;
    x->o.paths.n = 1;
    x->o.split = "1";
    x->o.seq_length = SEQ;
    x->o.vocab_size = VOCAB;
    x->o.n_samples[DATA_TRAIN] = 2000;
    x->o.read_bin = plain;
    error err = {{0}};
    if (data_open(&x->d, &x->o, x->a, &err)) fail_msg("%s", err.text);
}

static void set_close(set *x)
{
    data_close(x->d);
    remove(x->idx);
    remove(x->bin);
    rmdir(x->folder);
    arena_destroy(x->a);
}

/* Reads sample after sample. Returns how many were fine; each of those holds what was `written`. */
static int read_all(const set *x, bool written, error *err)
{
    int32_t tokens[SEQ], labels[SEQ], positions[SEQ];
    float mask[SEQ];
    data_item item = {tokens, labels, mask, positions, NULL, 0, 0};
    int n = 0;
    while (n < 2000 && !data_sample(x->d, DATA_TRAIN, n, &item, err)) {
        for (int i = 0; i < SEQ && written; i++)
            if (tokens[i] == 0 || labels[i] == 0) fail_msg("sample %d has a token of no file", n);
        n++;
    }
    return n;
}

static void expect_shortened(const set *x, const char *path, long long had, long long has)
{
    error err = {{0}};
    char want[256];
    int n = read_all(x, true, &err);
    if (n == 2000) fail_msg("all samples of %s were read", path);
    snprintf(want, sizeof want,
             "%s: had %lld bytes when it was opened and has been shortened to %lld", path, had,
             has);
    if (!strstr(err.text, want)) fail_msg("no '%s' in: %s", want, err.text);
    if (!strstr(err.text, "resume from the last checkpoint")) fail_msg("%s", err.text);
}

static void whole_files_are_read(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        set x;
        error err = {{0}};
        set_open(&x, plain);
        if (read_all(&x, true, &err) != 2000) fail_msg("%s", err.text);
        set_close(&x);
    }
}

/* To nothing, into the middle, and by less than a page, which no signal tells of. */
static void a_shortened_bin_is_named(void **state)
{
    (void)state;
    static const long sizes[] = {0, BIN / 2, BIN - 100};
    for (int i = 0; i < 6; i++) {
        set x;
        set_open(&x, i / 3);
        assert_int_equal(truncate(x.bin, sizes[i % 3]), 0);
        expect_shortened(&x, x.bin, BIN, sizes[i % 3]);
        set_close(&x);
    }
}

static void a_shortened_idx_is_named(void **state)
{
    (void)state;
    static const long sizes[] = {0, 34 + 4 * SEQUENCES / 2, 34 + 8 * SEQUENCES, IDX - 10};
    for (int i = 0; i < 8; i++) {
        set x;
        set_open(&x, i / 4);
        assert_int_equal(truncate(x.idx, sizes[i % 4]), 0);
        expect_shortened(&x, x.idx, IDX, sizes[i % 4]);
        set_close(&x);
    }
}

/* Another .idx of the same size: nobody can know, but no read leaves the .bin. */
static void an_idx_that_is_written_anew_reads_nothing_outside(void **state)
{
    (void)state;
    static const int scales[] = {1 << 20, -1, -(1 << 20), 3};
    for (int i = 0; i < 8; i++) {
        set x;
        error err = {{0}};
        set_open(&x, i / 4);
        write_idx(&x, scales[i % 4]);
        read_all(&x, false, &err);
        set_close(&x);
    }
}

/* rename() leaves what is mapped as it is. */
static void a_replaced_file_is_no_fault(void **state)
{
    (void)state;
    set x;
    error err = {{0}};
    char other[80];
    set_open(&x, false);
    snprintf(other, sizeof other, "%s.new", x.bin);
    write_file(other, (const unsigned char *)"short", 5);
    assert_int_equal(rename(other, x.bin), 0);
    if (read_all(&x, true, &err) != 2000) fail_msg("%s", err.text);
    set_close(&x);
}

static void a_bin_that_is_too_short_is_refused_at_the_start(void **state)
{
    (void)state;
    set x;
    error err = {{0}};
    set_open(&x, false);
    data_close(x.d);
    x.d = NULL;
    assert_int_equal(truncate(x.bin, BIN - 1), 0);
    assert_int_equal(data_open(&x.d, &x.o, x.a, &err), ERR_INPUT);
    char want[160];
    snprintf(want, sizeof want, "%s: has %d bytes, but the .idx puts sequence 1999", x.bin,
             BIN - 1);
    if (!strstr(err.text, want)) fail_msg("no '%s' in: %s", want, err.text);
    assert_non_null(strstr(err.text, "copy or write it again"));
    set_close(&x);
}

/* A signal for another page is what it was: the end. */
static void other_faults_are_not_hidden(void **state)
{
    (void)state;
    static const char elsewhere[1];
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        guard_release(guard_take(elsewhere, 1));
        raise(SIGBUS); /* steps back, */
        raise(SIGBUS); /* and ends */
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_are_read),
        cmocka_unit_test(a_shortened_bin_is_named),
        cmocka_unit_test(a_shortened_idx_is_named),
        cmocka_unit_test(an_idx_that_is_written_anew_reads_nothing_outside),
        cmocka_unit_test(a_replaced_file_is_no_fault),
        cmocka_unit_test(a_bin_that_is_too_short_is_refused_at_the_start),
        cmocka_unit_test(other_faults_are_not_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
