/* Hardware files: those that are there are whole, wrong ones are refused with line, key, repair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "base/file.h"
#include "hardware/hardware.h"

static char *text_of(arena *a, const char *path)
{
    char *data;
    size_t n;
    error err = {{0}};
    if (file_read(a, path, 1 << 20, &data, &n, &err)) fail_msg("%s", err.text);
    return data;
}

static void every_gpu_is_described(void **state)
{
    (void)state;
    static const char *const names[] = {"A100", "H100",  "H200",  "H800", "B200",
                                        "B300", "GB200", "GB300", "cpu"};
    arena *a = arena_create();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hardware h;
        error err = {{0}};
        if (hardware_read(&h, names[i], a, &err)) fail_msg("%s", err.text);
        assert_string_equal(h.name, names[i]);
        const gpu *sold = gpu_find(names[i]);
        assert_non_null(sold);
        assert_int_equal(h.arch, sold->arch);
        if (!sold->memory_bytes) continue;
        assert_true(h.memory == sold->memory_bytes);
        assert_true(h.gpus_per_node == sold->gpus_per_node);
        assert_true(h.nvlink_domain == sold->nvlink_domain);
        assert_int_equal(h.usable, (int64_t)((double)h.memory * (1 - HEADROOM_DEFAULT)));
        hardware_leave(&h, 0.5);
        assert_int_equal(h.usable, h.memory / 2);
    }
    arena_destroy(a);
}

static void names_are_found_beside_the_program(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n;
    const char *const *names = hardware_names(&n, a);
    assert_true(n >= 9);
    assert_string_equal(names[0], "A100");
    for (int i = 1; i < n; i++) assert_true(strcmp(names[i - 1], names[i]) < 0);
    arena_destroy(a);
}

static void an_unknown_machine_is_answered_with_those_known(void **state)
{
    (void)state;
    static const char *const wrong[] = {"H1000", "", "a b", "../h100", "nowhere.yaml"};
    arena *a = arena_create();
    hardware h;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error err = {{0}};
        assert_int_equal(hardware_read(&h, wrong[i], a, &err), ERR_INPUT);
        assert_true(err.text[0] != 0);
    }
    error err = {{0}};
    hardware_read(&h, "H1000", a, &err);
    assert_non_null(strstr(err.text, "did you mean H100?"));
    assert_non_null(strstr(err.text, "GB200"));
    arena_destroy(a);
}

/* `from` is in hardware/h100.yaml, once or more; the first becomes `to`. */
static void refused(const char *from, const char *to, const char *says)
{
    arena *a = arena_create();
    char *whole = text_of(a, "hardware/h100.yaml"), *at = strstr(whole, from);
    if (!at) fail_msg("hardware/h100.yaml has no \"%s\"", from);
    const char *text = arena_text(a, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    hardware h = {.name = "untouched"};
    error err = {{0}};
    assert_int_equal(hardware_parse(&h, "h.yaml", text, strlen(text), a, &err), ERR_INPUT);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_string_equal(h.name, "untouched");
    arena_destroy(a);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    refused("bf16: 989.5 TF", "bf16: fast", "h.yaml:");
    refused("bf16: 989.5 TF", "bf16: fast", "peak.bf16: \"fast\"");
    refused("bf16: 989.5 TF", "bf16: -1", "peak.bf16");
    refused("bf16: 989.5 TF", "bf16: nan", "peak.bf16");
    refused("bf16: 989.5 TF", "bf16: 1e300", "peak.bf16");
    refused("bf16: 989.5 TF", "bf16: 989.5 TX", "989 TF");
    refused("bf16: 989.5 TF", "bf16: [1]", "peak.bf16");
    refused("bf16: 989.5 TF", "bf17: 989.5 TF", "did you mean \"peak.bf16\"");
    refused("  bandwidth: 3.35 TB/s", "  # none", "memory.bandwidth is missing");
    refused("name: H100", "name:", "name");
    refused("name: H100", "title: H100", "unknown key");
    refused("{128: 0.3, 1024: 0.6}", "{1024: 0.3, 128: 0.6}", "each larger");
    refused("{128: 0.3, 1024: 0.6}", "{128: 0.01, 256: 0.6}", "grows faster");
    refused("{128: 0.3, 1024: 0.6}", "{}", "map of 1 to 16");
    refused("{128: 0.3, 1024: 0.6}", "0.5", "map of 1 to 16");
    refused("{128: 0.3, 1024: 0.6}", "{128: 3}", "grouped.fp32");
    refused("visible: 79.1 GiB", "visible: 79.1 GiB\n  usable: 73.3 GiB", "moefold.headroom");
    refused("\"25.09\": {device: 1.09, ", "\"25.09\": {", "stacks");
    refused("name: H100", "- name", "h.yaml");
    refused("architecture: hopper", "architecture: volta", "h.yaml:7: architecture: \"volta\"");
    refused("architecture: hopper", "architecture: [hopper]", "h.yaml:7: architecture");
    refused("name: H100\narchitecture: hopper", "name: mine", "architecture is missing");
}

/* Files of `moefold bench` were written without the key; their name tells. */
static void old_files_have_the_architecture_of_their_name(void **state)
{
    (void)state;
    arena *a = arena_create();
    char *whole = text_of(a, "hardware/cpu.yaml"), *at = strstr(whole, "name: cpu");
    const char *rest = strstr(at, "architecture: cpu") + strlen("architecture: cpu");
    const char *text = arena_text(a, "name: local%s", rest);
    hardware h;
    error err = {{0}};
    if (hardware_parse(&h, "h.yaml", text, strlen(text), a, &err)) fail_msg("%s", err.text);
    assert_int_equal(h.arch, ARCH_CPU);
    gpu g = hardware_gpu(&h);
    assert_true(g.memory_bytes == h.memory && g.gpus_per_node == h.gpus_per_node);
    assert_string_equal(g.name, "local");
    arena_destroy(a);
}

static void curves_are_read_between_their_points(void **state)
{
    (void)state;
    arena *a = arena_create();
    hardware h;
    error err = {{0}};
    if (hardware_read(&h, "hardware/h100.yaml", a, &err)) fail_msg("%s", err.text);
    const curve *c = &h.memory_efficiency;
    for (int i = 0; i < c->n; i++) assert_true(fabs(curve_at(c, c->x[i]) - c->y[i]) < 1e-12);
    assert_true(curve_at(c, 0) == c->y[0]);
    assert_true(curve_at(c, 1e30) == c->y[c->n - 1]);
    double middle = curve_at(c, sqrt(c->x[0] * c->x[1]));
    assert_true(fabs(middle - sqrt(c->y[0] * c->y[1])) < 1e-9);
    arena_destroy(a);
}

/* Bytes of the file are changed at random: an answer, whatever it is. */
static void broken_files_break_nothing(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *whole = text_of(a, "hardware/gb200.yaml");
    size_t n = strlen(whole);
    srand(7);
    for (int i = 0; i < 2000; i++) {
        arena *scratch = arena_create();
        char *text = arena_copy(scratch, whole, n);
        for (int k = rand() % 8; k >= 0; k--)
            text[(size_t)rand() % n] = " \n:{}[]-#&*.,0e\"9\t\xff"[rand() % 18];
        hardware h;
        error err = {{0}};
        status s = hardware_parse(&h, "h.yaml", text, n, scratch, &err);
        assert_true(s == OK || (s == ERR_INPUT && err.text[0]));
        arena_destroy(scratch);
    }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gpu_is_described),
        cmocka_unit_test(names_are_found_beside_the_program),
        cmocka_unit_test(an_unknown_machine_is_answered_with_those_known),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(old_files_have_the_architecture_of_their_name),
        cmocka_unit_test(curves_are_read_between_their_points),
        cmocka_unit_test(broken_files_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
