/* test_data_idx.c - .idx and .bin: whole, of every type, truncated, corrupted, and missing. */
#include "train/test_data_golden.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "train/data/idx.h"

static const char *const names[] = {"a-i32", "a-u16", "b-u16"};
enum { N_NAMES = sizeof names / sizeof names[0] };

/* ---- the files of orders.json */

static void check_file(const idx_file *f, const json_t *want)
{
    const json_t *lengths = json_object_get(want, "sequence_lengths");
    const json_t *documents = json_object_get(want, "document_indices");
    const json_t *first = json_object_get(want, "first_sequence");
    int32_t ids[SEQ_MAX];
    error err = {{0}};
    assert_string_equal(idx_type_name(f), text_of(want, "dtype"));
    assert_int_equal(f->store.n_sequences, int_of(want, "sequences"));
    assert_int_equal(f->n_documents, int_of(want, "documents"));
    for (int64_t i = 0; i < length_of(lengths); i++)
        assert_int_equal(data_store_length(&f->store, i), item_of(lengths, i));
    for (int64_t i = 0; i < length_of(documents); i++)
        assert_int_equal(idx_document(f, i), item_of(documents, i));
    data_slice all = {0, 0, length_of(first)};
    assert_int_equal(f->store.read(&f->store, all, ids, &err), OK);
    assert_list(ids, first, "first sequence");
}

static void files_are_read_as_megatron_reads_them(void **state)
{
    (void)state;
    json_t *root = orders_read();
    for (int i = 0; i < N_NAMES; i++)
        for (int plain = 0; plain < 2; plain++) {
            arena *a = arena_create();
            idx_options o = {{1000, -1}, plain};
            idx_file f;
            error err = {{0}};
            const char *prefix = arena_text(a, MEGATRON_DATA "%s", names[i]);
            if (idx_open(&f, prefix, &o, a, &err)) fail_msg("%s", err.text);
            check_file(&f, json_object_get(json_object_get(root, "files"), names[i]));
            idx_close(&f);
            arena_destroy(a);
        }
    json_decref(root);
}

/* ---- files in memory */

typedef struct pair {
    unsigned char *idx, *bin;
    size_t n_idx, n_bin;
} pair;

static void put(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(v >> 8 * i);
}

/* Two sequences, {1, 2, 3} and {4, 5}, two documents. */
static pair pair_make(int type, int bytes)
{
    pair p = {malloc(82), malloc((size_t)(5 * bytes)), 82, (size_t)(5 * bytes)};
    memcpy(p.idx, "MMIDIDX\0", 9);
    put(p.idx + 9, 1, 8);
    p.idx[17] = (unsigned char)type;
    put(p.idx + 18, 2, 8);
    put(p.idx + 26, 3, 8);
    put(p.idx + 34, 3, 4);
    put(p.idx + 38, 2, 4);
    put(p.idx + 42, 0, 8);
    put(p.idx + 50, (uint64_t)(3 * bytes), 8);
    for (int i = 0; i < 3; i++) put(p.idx + 58 + 8 * i, (uint64_t)i, 8);
    for (int i = 0; i < 5; i++) put(p.bin + i * bytes, (uint64_t)i + 1, bytes);
    return p;
}

static void pair_free(pair p)
{
    free(p.idx);
    free(p.bin);
}

static status pair_parse(idx_file *f, pair p, data_ids ids, error *err)
{
    idx_bytes b = {.prefix = "pair",
                   .idx = {.bytes = p.idx, .n_bytes = (int64_t)p.n_idx},
                   .bin = {.bytes = p.bin, .n_bytes = (int64_t)p.n_bin},
                   .ids = ids};
    *err = (error){{0}};
    return idx_parse(f, &b, err);
}

/* Every slice that the file admits is read; whatever it says, it is said with the file's name. */
static void read_everything(const idx_file *f)
{
    int32_t ids[256];
    for (int64_t i = 0; i < f->store.n_sequences; i++) {
        int64_t n = data_store_length(&f->store, i);
        for (int64_t at = 0; at < n; at += 256) {
            data_slice s = {i, at, n - at < 256 ? n - at : 256};
            error err = {{0}};
            status st = f->store.read(&f->store, s, ids, &err);
            assert_true(st == OK || st == ERR_INPUT);
            if (st) assert_has(err.text, "pair.bin: sequence");
        }
    }
}

static const struct {
    int type, bytes;
    bool is_signed;
} types[] = {{1, 1, false}, {2, 1, true}, {3, 2, true}, {4, 4, true}, {5, 8, true}, {8, 2, false}};
enum { N_TYPES = sizeof types / sizeof types[0] };

static void every_type_of_token_is_read(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        pair p = pair_make(types[t].type, types[t].bytes);
        idx_file f;
        error err;
        int32_t ids[3];
        assert_int_equal(pair_parse(&f, p, (data_ids){6, -1}, &err), OK);
        assert_int_equal(f.store.read(&f.store, (data_slice){0, 1, 2}, ids, &err), OK);
        assert_int_equal(ids[0], 2);
        assert_int_equal(ids[1], 3);
        assert_int_equal(f.store.read(&f.store, (data_slice){1, 0, 2}, ids, &err), OK);
        assert_int_equal(ids[1], 5);
        assert_int_equal(f.store.read(&f.store, (data_slice){1, 2, 0}, ids, &err), OK);
        pair_free(p);
    }
}

static void an_id_outside_the_vocabulary_is_named(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        int bytes = types[t].bytes;
        pair p = pair_make(types[t].type, bytes);
        idx_file f;
        error err;
        int32_t ids[3];
        assert_int_equal(pair_parse(&f, p, (data_ids){5, -1}, &err), OK);
        assert_int_equal(f.store.read(&f.store, (data_slice){0, 0, 3}, ids, &err), OK);
        assert_int_equal(f.store.read(&f.store, (data_slice){1, 0, 2}, ids, &err), ERR_INPUT);
        assert_has(err.text, "pair.bin: sequence 1 has the token 5 at position 1");
        assert_has(err.text, "vocabulary of 5");
        f.store.ids.pad = 5; /* what becomes 0 may be anything */
        assert_int_equal(f.store.read(&f.store, (data_slice){1, 0, 2}, ids, &err), OK);
        put(p.bin + 4 * bytes, (uint64_t)-2, bytes);
        assert_int_equal(f.store.read(&f.store, (data_slice){1, 0, 2}, ids, &err), ERR_INPUT);
        if (types[t].is_signed) assert_has(err.text, "the token -2 at");
        pair_free(p);
    }
}

static void ids_of_64_bits_are_not_cut_to_32(void **state)
{
    (void)state;
    pair p = pair_make(5, 8);
    idx_file f;
    error err;
    int32_t ids[3];
    assert_int_equal(pair_parse(&f, p, (data_ids){100, -1}, &err), OK);
    put(p.bin, ((uint64_t)1 << 32) + 7, 8);
    assert_int_equal(f.store.read(&f.store, (data_slice){0, 0, 3}, ids, &err), ERR_INPUT);
    assert_has(err.text, "the token 4294967303 at position 0");
    pair_free(p);
}

static void every_wrong_field_is_named(void **state)
{
    (void)state;
    static const struct {
        int at, bytes;
        uint64_t v;
        const char *said;
    } rows[] = {
        {0, 1, 'X', "pair.idx: does not start with MMIDIDX"},
        {8, 1, 1, "pair.idx: does not start with MMIDIDX"},
        {9, 8, 2, "version 2"},
        {17, 1, 0, "token type 0"},
        {17, 1, 9, "token type 9"},
        {17, 1, 255, "token type 255"},
        {17, 1, 6, "float64"},
        {17, 1, 7, "float32"},
        {17, 1, 5, "pair.bin: has 10 bytes"}, /* wider tokens than there are */
        {18, 8, 3, "3 sequences"},
        {18, 8, 1, "1 sequences"},
        {18, 8, UINT64_MAX, "18446744073709551615 sequences"},
        {18, 8, (uint64_t)1 << 62, "4611686018427387904 sequences"},
        {26, 8, 2, "2 document entries"},
        {26, 8, 0, "0 document entries"},
        {26, 8, UINT64_MAX / 8 + 1, "document entries"},
        {34, 4, (uint64_t)-1, "sequence 0 has -1 tokens"},
        {34, 4, 6, "puts sequence 0 (6 tokens of 2 bytes) at byte 0"},
        {38, 4, INT32_MAX, "puts sequence 1 (2147483647 tokens"},
        {42, 8, (uint64_t)-1, "at byte -1"},
        {50, 8, 7, "at byte 7"},
        {50, 8, INT64_MAX, "at byte 9223372036854775807"},
        {58, 8, 1, "entry 0 of the documents is 1"},
        {66, 8, 3, "entry 1 of the documents is 3"},
        {66, 8, (uint64_t)-1, "entry 1 of the documents is -1"},
        {74, 8, 0, "entry 2 of the documents is 0, after 1"},
        {74, 8, 1, "the documents end at sequence 1 of 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pair p = pair_make(8, 2);
        idx_file f;
        error err;
        put(p.idx + rows[i].at, rows[i].v, rows[i].bytes);
        assert_int_equal(pair_parse(&f, p, (data_ids){100, -1}, &err), ERR_INPUT);
        assert_has(err.text, rows[i].said);
        pair_free(p);
    }
}

static void modes_of_multimodal_sets_are_passed_over(void **state)
{
    (void)state;
    pair p = pair_make(8, 2);
    idx_file f;
    error err;
    p.idx = realloc(p.idx, 85);
    assert_non_null(p.idx);
    memset(p.idx + 82, 0, 3);
    p.n_idx = 83;
    assert_int_equal(pair_parse(&f, p, (data_ids){100, -1}, &err), ERR_INPUT);
    p.n_idx = 84;
    assert_int_equal(pair_parse(&f, p, (data_ids){100, -1}, &err), OK);
    p.n_idx = 85;
    assert_int_equal(pair_parse(&f, p, (data_ids){100, -1}, &err), ERR_INPUT);
    pair_free(p);
}

/* ---- damage */

static pair pair_read(arena *a, const char *name)
{
    char *idx, *bin;
    error err;
    pair p;
    const char *prefix = arena_text(a, MEGATRON_DATA "%s", name);
    assert_int_equal(file_read(a, arena_text(a, "%s.idx", prefix), 1 << 20, &idx, &p.n_idx, &err),
                     OK);
    assert_int_equal(file_read(a, arena_text(a, "%s.bin", prefix), 1 << 20, &bin, &p.n_bin, &err),
                     OK);
    p.idx = (unsigned char *)idx;
    p.bin = (unsigned char *)bin;
    return p;
}

/* Copies of exactly these sizes, so that a sanitizer sees a read past their end. */
static status parse_copy(pair p, size_t n_idx, size_t n_bin)
{
    pair copy = {malloc(n_idx ? n_idx : 1), malloc(n_bin ? n_bin : 1), n_idx, n_bin};
    idx_file f;
    error err;
    memcpy(copy.idx, p.idx, n_idx);
    memcpy(copy.bin, p.bin, n_bin);
    status s = pair_parse(&f, copy, (data_ids){1000, -1}, &err);
    assert_true(s == OK || s == ERR_INPUT);
    assert_int_equal(s == OK, err.text[0] == 0);
    if (s)
        assert_has(err.text, "pair.");
    else
        read_everything(&f);
    pair_free(copy);
    return s;
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        arena *a = arena_create();
        pair p = pair_read(a, names[i]);
        for (size_t n = 0; n < p.n_idx; n++) assert_int_equal(parse_copy(p, n, p.n_bin), ERR_INPUT);
        for (size_t n = 0; n < p.n_bin; n++) assert_int_equal(parse_copy(p, p.n_idx, n), ERR_INPUT);
        assert_int_equal(parse_copy(p, p.n_idx, p.n_bin), OK);
        arena_destroy(a);
    }
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Some bytes anywhere, or a field of 8 bytes set to a size at an edge. */
static void corrupt(pair p, uint32_t *seed)
{
    static const uint64_t edges[] = {0,         1,          INT32_MAX, (uint64_t)1 << 31,
                                     INT64_MAX, UINT64_MAX, 1u << 20,  UINT64_MAX / 12};
    uint32_t n = 1 + next_random(seed) % 4;
    while (n--) {
        size_t at = next_random(seed) % p.n_idx;
        if (next_random(seed) % 4 == 0 && at + 8 <= p.n_idx)
            put(p.idx + at, edges[next_random(seed) % 8], 8);
        else
            p.idx[at] = (unsigned char)next_random(seed);
    }
}

static void corrupted_files_never_crash(void **state)
{
    (void)state;
    uint32_t seed = 1;
    int taken = 0, refused = 0;
    for (int i = 0; i < N_NAMES; i++) {
        arena *a = arena_create();
        pair p = pair_read(a, names[i]);
        pair changed = p;
        changed.idx = arena_take(a, p.n_idx);
        for (int round = 0; round < 10000; round++) {
            memcpy(changed.idx, p.idx, p.n_idx);
            corrupt(changed, &seed);
            if (parse_copy(changed, p.n_idx, p.n_bin))
                refused++;
            else
                taken++;
        }
        arena_destroy(a);
    }
    assert_true(refused > 1000 && taken > 100); /* both ways were walked */
}

/* ---- on disk */

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void assert_unopened(arena *a, const char *prefix, const char *said)
{
    for (int plain = 0; plain < 2; plain++) {
        idx_options o = {{100, -1}, plain};
        idx_file f;
        error err = {{0}};
        assert_int_equal(idx_open(&f, prefix, &o, a, &err), ERR_INPUT);
        assert_has(err.text, said);
    }
}

static void missing_and_empty_files_are_named(void **state)
{
    (void)state;
    arena *a = arena_create();
    pair p = pair_make(8, 2);
    char folder[] = "/tmp/moefold-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *prefix = arena_text(a, "%s/set", folder);
    const char *idx = arena_text(a, "%s.idx", prefix), *bin = arena_text(a, "%s.bin", prefix);
    assert_unopened(a, prefix, "set.idx: No such file");
    write_file(idx, p.idx, p.n_idx);
    assert_unopened(a, prefix, "set.bin: No such file");
    write_file(bin, "", 0);
    assert_unopened(a, prefix, "set.bin: has 0 bytes");
    write_file(bin, p.bin, p.n_bin);
    write_file(idx, "", 0);
    assert_unopened(a, prefix, "set.idx: has 0 bytes");
    remove(idx);
    assert_int_equal(mkdir(idx, 0700), 0);
    assert_unopened(a, prefix, "set.idx: is a folder; a file is needed");
    rmdir(idx);
    remove(bin);
    rmdir(folder);
    pair_free(p);
    arena_destroy(a);
}

/* Reads in pieces of 4096 bytes meet in the middle of a sequence. */
static void plain_reads_equal_mapped_ones(void **state)
{
    (void)state;
    arena *a = arena_create();
    idx_file mapped, plain;
    error err = {{0}};
    enum { N = 5000 };
    pair p = {arena_take(a, 62), arena_take(a, 8 * N), 62, 8 * N};
    char folder[] = "/tmp/moefold-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    memcpy(p.idx, "MMIDIDX\0", 9);
    p.idx[9] = 1, p.idx[17] = 5, p.idx[18] = 1, p.idx[26] = 2, p.idx[54] = 1;
    put(p.idx + 34, N, 4);
    for (int i = 0; i < N; i++) put(p.bin + 8 * i, (uint64_t)(i * 7 % 1000), 8);
    const char *prefix = arena_text(a, "%s/set", folder);
    write_file(arena_text(a, "%s.idx", prefix), p.idx, p.n_idx);
    write_file(arena_text(a, "%s.bin", prefix), p.bin, p.n_bin);
    assert_int_equal(idx_open(&mapped, prefix, &(idx_options){{1000, -1}, false}, a, &err), OK);
    assert_int_equal(idx_open(&plain, prefix, &(idx_options){{1000, -1}, true}, a, &err), OK);
    static int32_t x[N], y[N];
    for (int64_t from = 0; from < 3; from++) {
        data_slice s = {0, from, N - from};
        assert_int_equal(mapped.store.read(&mapped.store, s, x, &err), OK);
        assert_int_equal(plain.store.read(&plain.store, s, y, &err), OK);
        assert_memory_equal(x, y, (size_t)(N - from) * sizeof *x);
        assert_int_equal(y[N - from - 1], (N - 1) * 7 % 1000);
    }
    assert_int_equal(truncate(arena_text(a, "%s.bin", prefix), 4000), 0);
    assert_int_equal(plain.store.read(&plain.store, (data_slice){0, 0, N}, y, &err), ERR_MACHINE);
    assert_has(err.text, "shortened");
    idx_close(&mapped);
    idx_close(&plain);
    remove(arena_text(a, "%s.idx", prefix));
    remove(arena_text(a, "%s.bin", prefix));
    rmdir(folder);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_as_megatron_reads_them),
        cmocka_unit_test(every_type_of_token_is_read),
        cmocka_unit_test(an_id_outside_the_vocabulary_is_named),
        cmocka_unit_test(ids_of_64_bits_are_not_cut_to_32),
        cmocka_unit_test(every_wrong_field_is_named),
        cmocka_unit_test(modes_of_multimodal_sets_are_passed_over),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(corrupted_files_never_crash),
        cmocka_unit_test(missing_and_empty_files_are_named),
        cmocka_unit_test(plain_reads_equal_mapped_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
