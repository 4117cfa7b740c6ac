/* test_safetensors.c - headers of weight files, whole and broken. */
#include "testing.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "model/safetensors.h"

/* A file in memory: length, header, `n_data` bytes. */
static size_t file_of(unsigned char *out, const char *header, size_t n_data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 0, n_data);
    return 8 + n + n_data;
}

static status parse_bytes(safetensors *f, arena *a, const void *bytes, size_t n, error *err)
{
    safetensors_head head = {"test", bytes, n, (int64_t)n};
    return safetensors_parse(f, a, &head, err);
}

static status parse(const char *header, size_t n_data, error *err)
{
    unsigned char bytes[1024];
    size_t n = file_of(bytes, header, n_data);
    arena *a = arena_create();
    safetensors f;
    status s = parse_bytes(&f, a, bytes, n, err);
    arena_destroy(a);
    return s;
}

static void header_gives_name_type_shape_and_place(void **state)
{
    (void)state;
    arena *a = arena_create();
    safetensors f;
    error err;
    assert_int_equal(safetensors_open(&f, a, GOLDEN "qwen3-next-tiny/model.safetensors", &err), OK);
    const safetensor *t = safetensors_find(&f, "model.layers.0.linear_attn.conv1d.weight");
    assert_non_null(t);
    assert_string_equal(t->dtype, "F32");
    assert_int_equal(t->n_dims, 3);
    assert_int_equal(t->dim[0], 128);
    assert_int_equal(t->dim[1], 1);
    assert_int_equal(t->dim[2], 4);
    assert_int_equal(t->end - t->begin, 4 * 128 * 4);
    assert_null(safetensors_find(&f, "model.layers.0.linear_attn.conv1d"));
    assert_true(safetensors_any(&f, "model.layers.3."));
    assert_false(safetensors_any(&f, "model.layers.4."));
    arena_destroy(a);
}

static void broken_headers_are_refused(void **state)
{
    (void)state;
#define ENTRY(dtype, shape, range)                                                                 \
    "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" range "}}"
    static const struct {
        const char *header;
        size_t n_data;
        status expected;
    } rows[] = {
        {ENTRY("\"F32\"", "[2,2]", "[0,16]"), 16, OK},
        {ENTRY("\"F4\"", "[2,2]", "[0,2]"), 2, OK},
        {ENTRY("\"F32\"", "[]", "[0,4]"), 4, OK},
        {ENTRY("\"F32\"", "[0]", "[0,0]"), 0, OK},
        {"{}", 0, OK},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, OK},
        {"{}", 1, ERR_INPUT},
        {"[]", 0, ERR_INPUT},
        {"1", 0, ERR_INPUT},
        {"", 0, ERR_INPUT},
        {"{\"w\":1}", 0, ERR_INPUT},
        {"{\"w\":null}", 0, ERR_INPUT},
        {ENTRY("\"F31\"", "[2,2]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("7", "[2,2]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "4", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[-2,-2]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2.0,2]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,4]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[9223372036854775807,9223372036854775807]", "[0,16]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[0,15]"), 15, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[16,0]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[-16,0]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[0,16,32]"), 32, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[0,\"16\"]"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "null"), 16, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[0,16]"), 15, ERR_INPUT},
        {ENTRY("\"F32\"", "[2,2]", "[0,16]"), 20, ERR_INPUT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
         6, ERR_INPUT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
         9, ERR_INPUT},
        {"{\"a\":{},\"a\":{}}", 0, ERR_INPUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error err = {{0}};
        if (parse(rows[i].header, rows[i].n_data, &err) != rows[i].expected)
            fail_msg("%s: '%s'", rows[i].header, err.text);
        if (rows[i].expected) assert_has(err.text, "test");
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    char *data;
    size_t n;
    error err;
    const char *path = GOLDEN "qwen3-moe-tiny/model.safetensors";
    assert_int_equal(file_read(a, path, 1 << 22, &data, &n, &err), OK);
    for (size_t cut = 0; cut < n; cut += cut < 64 ? 1 : 4093) {
        arena_place mark = arena_mark(a);
        char *copy = malloc(cut ? cut : 1); /* exactly as long, so that reading past it is seen */
        memcpy(copy, data, cut);
        safetensors f;
        assert_int_equal(parse_bytes(&f, a, copy, cut, &err), ERR_INPUT);
        free(copy);
        arena_release(a, mark);
    }
    arena_destroy(a);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void changed_bytes_never_crash(void **state)
{
    (void)state;
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}";
    arena *a = arena_create();
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[512];
        size_t n = file_of(bytes, header, 32);
        int changes = 1 + (int)(next_random(&seed) % 4);
        for (int i = 0; i < changes; i++)
            bytes[next_random(&seed) % n] = (unsigned char)next_random(&seed);
        arena_place mark = arena_mark(a);
        safetensors f;
        error err;
        (void)parse_bytes(&f, a, bytes, n, &err);
        arena_release(a, mark);
    }
    arena_destroy(a);
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void files_that_are_none_are_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/moefold-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x", folder);
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    static const char index[] = "{\"weight_map\":{\"b\":\"2\",\"a\":\"1\"}}";
    arena *a = arena_create();
    safetensors f;
    error err;
    assert_int_equal(safetensors_open(&f, a, path, &err), ERR_INPUT);
    assert_int_equal(safetensors_open(&f, a, folder, &err), ERR_INPUT);
    write_file(path, pointer, sizeof pointer - 1);
    assert_int_equal(safetensors_open(&f, a, path, &err), ERR_INPUT);
    assert_has(err.text, "Git LFS");
    assert_int_equal(safetensors_open_index(&f, a, path, &err), ERR_INPUT);
    write_file(path, "{}", 2);
    assert_int_equal(safetensors_open_index(&f, a, path, &err), ERR_INPUT);
    write_file(path, index, sizeof index - 1);
    assert_int_equal(safetensors_open_index(&f, a, path, &err), OK);
    assert_int_equal(f.n_tensors, 2);
    assert_non_null(safetensors_find(&f, "a"));
    remove(path);
    rmdir(folder);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_gives_name_type_shape_and_place),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(changed_bytes_never_crash),
        cmocka_unit_test(files_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
