/* test_library.c - the library through its header: answers are those of the program's tables, and
 * what is wrong is said, not printed. */
#include <moefold.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static moefold_job *opened(const char *const *words, int n)
{
    moefold_job *j;
    if (moefold_open(&j, words, n)) fail_msg("%s", moefold_why(j));
    return j;
}

static void a_job_is_checked(void **state)
{
    (void)state;
    static const char *const words[] = {"qwen3-30b-a3b", "cluster.gpu=H100", "cluster.n_gpus=16",
                                        "model.expert_model_parallel_size=8"};
    moefold_job *j = opened(words, 4);
    moefold_answer *x;
    bool ok;
    int64_t ep, peak, usable;
    assert_int_equal(moefold_check(j, &x), MOEFOLD_OK);
    moefold_close(j); /* the answer outlives it */
    assert_true(moefold_bool(x, "ok", &ok) && ok);
    assert_true(moefold_integer(x, "layout.ep", &ep));
    assert_int_equal(ep, 8);
    assert_true(moefold_integer(x, "peak_bytes", &peak));
    assert_true(moefold_integer(x, "usable_bytes", &usable));
    assert_true(moefold_bool(x, "fits", &ok));
    assert_int_equal(ok, peak <= usable);
    assert_string_equal(moefold_text(x, "model.name"), "qwen3-30b-a3b");
    assert_null(moefold_text(x, "model.parameters"));
    assert_int_equal(moefold_count(x, "nothing"), -1);
    char *text = moefold_json(x);
    assert_non_null(strstr(text, "\"layout\":{\"world\":16,"));
    free(text);
    moefold_answer_free(x);
}

static void parts_of_a_price_add_up(void **state)
{
    (void)state;
    static const char *const words[] = {"qwen3-30b-a3b", "cluster.gpu=H100", "cluster.n_gpus=16"};
    moefold_job *j = opened(words, 3);
    moefold_answer *x;
    int64_t peak, bytes, sum = 0;
    double step, seconds;
    char path[64];
    assert_int_equal(moefold_price(j, &x), MOEFOLD_OK);
    assert_true(moefold_integer(x, "peak_bytes", &peak) && moefold_real(x, "step_s", &step));
    int64_t n = moefold_count(x, "memory.peak_parts");
    for (int64_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "memory.peak_parts.%d.bytes", (int)i);
        assert_true(moefold_integer(x, path, &bytes));
        sum += bytes;
    }
    assert_int_equal(sum, peak);
    assert_true(moefold_real(x, "parts.attention", &seconds) && seconds > 0 && seconds < step);
    moefold_answer_free(x);
    moefold_close(j);
}

static void a_broken_rule_is_an_answer(void **state)
{
    (void)state;
    static const char *const words[] = {"tiny", "cluster.gpu=H100", "cluster.n_gpus=8",
                                        "model.tensor_model_parallel_size=3"};
    moefold_job *j = opened(words, 4);
    moefold_answer *x;
    bool ok = true;
    assert_int_equal(moefold_check(j, &x), MOEFOLD_OK);
    assert_true(moefold_bool(x, "ok", &ok) && !ok);
    assert_true(moefold_count(x, "violations") > 0);
    assert_string_equal(moefold_text(x, "violations.0.severity"), "error");
    assert_false(moefold_bool(x, "fits", &ok));
    moefold_answer_free(x);
    assert_int_equal(moefold_price(j, &x), MOEFOLD_RULE);
    assert_null(x);
    assert_non_null(strstr(moefold_why(j), "no program can be built"));
    moefold_close(j);
}

static void wrong_words_are_said(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"nosuchmodel.yaml", NULL},
                                           {"tiny", "model.nosuchknob=1"},
                                           {"tiny", "model.num_layers=few"}};
    moefold_job *j;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(moefold_open(&j, wrong[i], 1 + (wrong[i][1] != NULL)), MOEFOLD_INPUT);
        assert_true(strlen(moefold_why(j)) > 10);
        moefold_close(j);
    }
    assert_int_equal(moefold_open(&j, NULL, 0), MOEFOLD_INPUT);
    moefold_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_checked), cmocka_unit_test(parts_of_a_price_add_up),
        cmocka_unit_test(a_broken_rule_is_an_answer), cmocka_unit_test(wrong_words_are_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
