/* test_blas.c - the library for GEMMs: found or not, its kernels chosen, its GEMMs cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/rows.h"
#include "kernels/harness.c"

static const kernel *fast_row(const op *o)
{
    const kernel *k = row_of(fast_dense(), o->kind);
    return k && k->accepts && !k->accepts(o, &(op_types){.in = {0}}) ? NULL : k;
}

static void missing_library_leaves_plain_rows(void **state)
{
    (void)state;
    pid_t child = fork(); /* the library is loaded once in a process */
    if (child == 0) {
        setenv("MOEFOLD_OPENBLAS", "/nowhere/libopenblas.so.0", 1);
        op o = {.kind = OP_GEMM, .dim = {8, 8, 8}}, other = {.kind = OP_NORM, .dim = {8, 8}};
        bool told = strstr(blas_describe(), "libopenblas0-pthread") != NULL;
        _exit(!blas_ready() && !fast_row(&o) && fast_row(&other) && told ? 0 : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

static void users_core_type_is_left_alone(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        setenv("OPENBLAS_CORETYPE", "PRESCOTT", 1);
        bool ready = blas_ready();
        bool told = strstr(blas_describe(), "OPENBLAS_CORETYPE=PRESCOTT") != NULL;
        _exit(!ready || (told && strcmp(getenv("OPENBLAS_CORETYPE"), "PRESCOTT") == 0) ? 0 : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

static void kernels_of_the_library_suit_the_processor(void **state)
{
    (void)state;
    assert_string_equal(blas_core_for(CPU_AVX2 | CPU_AVX512), "SKYLAKEX");
    assert_string_equal(blas_core_for(CPU_AVX2), "HASWELL");
    assert_null(blas_core_for(0));
    assert_true(blas_core_is_poor("Prescott", CPU_AVX2));
    assert_true(blas_core_is_poor("Nehalem", CPU_AVX2 | CPU_AVX512));
    assert_true(blas_core_is_poor("Haswell", CPU_AVX2 | CPU_AVX512));
    assert_false(blas_core_is_poor("SkylakeX", CPU_AVX2 | CPU_AVX512));
    assert_false(blas_core_is_poor("Zen", CPU_AVX2));
    assert_false(blas_core_is_poor("Prescott", 0));
    assert_false(blas_core_is_poor("neoversen1", 0));
    print_message("%s\n", blas_describe());
    if (!getenv("OPENBLAS_CORETYPE")) assert_null(strstr(blas_describe(), "does not use the"));
    assert_true(!getenv("OPENBLAS_CORETYPE") || strstr(blas_describe(), "is set"));
}

/* Tiles of a GEMM cover it once, whatever its form. */
static void tiles_cover_a_gemm_once(void **state)
{
    (void)state;
    enum { M = 700, N = 530, K = 3 };
    if (!blas_ready()) skip();
    float *a = take(sizeof(float) * M * K), *b = take(sizeof(float) * N * K);
    float *c = take(sizeof(float) * M * N);
    for (int i = 0; i < M * K; i++) a[i] = 1;
    for (int i = 0; i < N * K; i++) b[i] = 2;
    for (int form = 0; form < 4; form++) {
        blas_operands p = {.a = a, .b = b, .c = c, .m = M, .n = N, .k = K, .ldc = N, .add = true};
        p.ta = form & 1;
        p.tb = form & 2;
        p.lda = p.ta ? M : K;
        p.ldb = p.tb ? K : N;
        memset(c, 0, sizeof(float) * M * N);
        assert_true(blas_tiles(&p) >= 8);
        for (int64_t i = 0; i < blas_tiles(&p); i++) blas_tile(&p, i);
        for (int i = 0; i < M * N; i++) assert_true(c[i] == 2 * K);
    }
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* the first two start processes and come before OpenMP's threads */
        cmocka_unit_test(missing_library_leaves_plain_rows),
        cmocka_unit_test(users_core_type_is_left_alone),
        cmocka_unit_test(kernels_of_the_library_suit_the_processor),
        cmocka_unit_test(tiles_cover_a_gemm_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
