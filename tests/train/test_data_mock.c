/* test_data_mock.c - Megatron's mock data: lengths, orders and samples. */
#include "train/test_data_golden.h"

#include "train/data/store.h"

/* ---- SHA-256, for lists too long to write down (FIPS 180-4) */

static uint32_t turn(uint32_t v, int n)
{
    return v >> n | v << (32 - n);
}

/* The first 32 bits behind the point of the cube root of the i-th prime (square root: half). */
static uint32_t root_bits(int prime, bool cube)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t low = 0, high = (uint64_t)1 << 36;
    wide want = (wide)prime << (cube ? 96 : 64);
    while (high - low > 1) {
        uint64_t m = low + (high - low) / 2;
        wide power = (wide)m * m;
        if (cube ? power > want / m : power > want)
            high = m;
        else
            low = m;
    }
    return (uint32_t)low;
}

typedef struct sha {
    uint32_t h[8], k[64];
} sha;

static void sha_init(sha *s)
{
    for (int n = 0, p = 2; n < 64; p++) {
        bool prime = true;
        for (int q = 2; q * q <= p; q++) prime &= p % q != 0;
        if (!prime) continue;
        if (n < 8) s->h[n] = root_bits(p, false);
        s->k[n++] = root_bits(p, true);
    }
}

static void sha_block(sha *s, const unsigned char *b)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 |
               (uint32_t)b[4 * i + 2] << 8 | b[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t t = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
                     ((v[4] & v[5]) ^ (~v[4] & v[6])) + s->k[i] + w[i];
        uint32_t u = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
                     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

static void assert_sha(const void *bytes, size_t n, const char *want)
{
    sha s;
    unsigned char tail[128] = {0};
    char got[65];
    size_t whole = n / 64 * 64, rest = n - whole, end = rest < 56 ? 64 : 128;
    sha_init(&s);
    for (size_t i = 0; i < whole; i += 64) sha_block(&s, (const unsigned char *)bytes + i);
    memcpy(tail, (const unsigned char *)bytes + whole, rest);
    tail[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[end - 1 - (size_t)i] = (unsigned char)((uint64_t)n * 8 >> 8 * i);
    for (size_t i = 0; i < end; i += 64) sha_block(&s, tail + i);
    for (int i = 0; i < 8; i++) snprintf(got + 8 * i, 9, "%08x", s.h[i]);
    assert_string_equal(got, want);
}

/* ---- mock data */

static void mock_data_are_megatrons(void **state)
{
    (void)state;
    json_t *root = orders_read(), *want = json_object_get(root, "mock");
    const json_t *lengths = json_object_get(want, "sequence_lengths_head");
    arena *a = arena_create();
    data_options o = options_of(want, root);
    data_source *d = opened(&o, a);
    const data_index *x = data_member(d, DATA_TRAIN, 0);
    const data_store *s = x->ask.store;
    assert_int_equal(s->n_sequences, int_of(want, "low_level_size"));
    for (int64_t i = 0; i < length_of(lengths); i++)
        assert_int_equal(data_store_length(s, i), item_of(lengths, i));
    assert_sha(s->lengths, 4 * (size_t)s->n_sequences,
               text_of(want, "sequence_lengths_sha256_i32le"));
    assert_index(x, want);
    assert_orders(x, json_object_get(want, "document_index_head"),
                  json_object_get(want, "sample_index_head"),
                  json_object_get(want, "shuffle_index_head"));
    assert_sha(x->documents, 4 * (size_t)x->n_entries,
               text_of(want, "document_index_sha256_i32le"));
    assert_sha(x->shuffle, 4 * (size_t)x->n_samples, text_of(want, "shuffle_index_sha256_u32le"));
    assert_samples(d, DATA_TRAIN, json_object_get(want, "samples"));
    assert_int_equal(data_length(d, DATA_TEST), 0); /* none wanted, none built */
    data_close(d);
    arena_destroy(a);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mock_data_are_megatrons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
