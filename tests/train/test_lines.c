/* test_lines.c - what a run prints: Megatron's lines to the byte, JSON, a bar in no one's way. */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/loop/iteration_line.h"
#include "train/loop/progress.h"

/* 2026-08-22 10:00:00 on the clock of wherever the test runs. */
static time_t ten_o_clock(void)
{
    struct tm t = {.tm_year = 126, .tm_mon = 7, .tm_mday = 22, .tm_hour = 10, .tm_isdst = -1};
    return mktime(&t);
}

static iteration_line example(void)
{
    return (iteration_line){
        .when = ten_o_clock(),
        .iteration = 50,
        .train_iters = 100,
        .consumed_samples = 51200,
        .seconds = 20.9901,
        .tflops = 299.42,
        .tokens_per_second = 1e6,
        .lr = 3e-4,
        .global_batch = 1024,
        .losses = {{"lm loss", 6.123456}, {"load_balancing_loss", 1.000123}},
        .n_losses = 2,
        .loss_scale = 1,
        .norm = 1.2341,
        .has = LINE_THROUGHPUT | LINE_NORM,
    };
}

#define HEAD " [2026-08-22 10:00:00] iteration       50/     100 | consumed samples:        51200 |"
#define TIME " elapsed time per iteration (ms): 20990.1 | throughput per GPU (TFLOP/s/GPU): 299.4 |"
#define RATE " learning rate: 3.000000E-04 | global batch size:  1024 | lm loss: 6.123456E+00 |"
#define TAIL " number of skipped iterations:   0 | number of nan iterations:   0 |"

/* The example line of Megatron-Bridge. */
static void iteration_line_is_megatrons(void **state)
{
    (void)state;
    char text[LINE_BYTES];
    iteration_line it = example();
    iteration_line_print(text, sizeof text, &it);
    assert_string_equal(
        text, HEAD TIME RATE
        " load_balancing_loss: 1.000123E+00 | loss scale: 1.0 | grad norm: 1.234 |" TAIL);
    step_time_print(text, sizeof text, &it);
    assert_string_equal(text, "Step Time : 20.99s GPU utilization: 299.4MODEL_TFLOP/s/GPU");
}

static void optional_fields_stand_where_megatron_has_them(void **state)
{
    (void)state;
    char text[LINE_BYTES];
    iteration_line it = example();
    it.skipped_samples = 7;
    it.losses[2] = (named_loss){"mtp_1 loss", 0};
    it.n_losses = 3;
    it.has = LINE_NORM | LINE_ZEROS | LINE_PARAMS_NORM | LINE_MAX_LOGIT;
    it.zeros = 12;
    it.params_norm = 345.6789;
    it.max_logit = 2.5;
    it.skipped = 1000;
    it.nan = 2;
    iteration_line_print(text, sizeof text, &it);
    assert_string_equal(
        text,
        HEAD " skipped samples:            7 | elapsed time per iteration (ms): 20990.1 |" RATE
             " load_balancing_loss: 1.000123E+00 | mtp_1 loss: 0.000000E+00 |"
             " loss scale: 1.0 | grad norm: 1.234 | num zeros: 12 | params norm: 345.679 |"
             " max attention logit: 2.500 | number of skipped iterations: 1000 |"
             " number of nan iterations:   2 |");
}

/* As Python prints them; a loss that is negative or NaN is left out. */
static void odd_numbers_are_printed_as_megatron_does(void **state)
{
    (void)state;
    char text[LINE_BYTES];
    iteration_line it = example();
    it.losses[0].value = -1;
    it.losses[1].value = (double)NAN;
    it.norm = -(double)NAN;
    iteration_line_print(text, sizeof text, &it);
    assert_null(strstr(text, "lm loss"));
    assert_null(strstr(text, "load_balancing_loss"));
    assert_non_null(strstr(text, "| grad norm: nan |"));
    it.norm = (double)INFINITY;
    it.losses[0].value = (double)INFINITY;
    iteration_line_print(text, sizeof text, &it);
    assert_non_null(strstr(text, "| grad norm: inf |"));
    assert_non_null(strstr(text, "| lm loss: INF |"));
}

static void text_is_cut_to_its_room(void **state)
{
    (void)state;
    char whole[LINE_BYTES], text[LINE_BYTES];
    iteration_line it = example();
    iteration_line_print(whole, sizeof whole, &it);
    for (size_t room = 1; room < strlen(whole) + 2; room++) {
        memset(text, 'x', sizeof text);
        iteration_line_print(text, room, &it);
        size_t n = strlen(whole) < room - 1 ? strlen(whole) : room - 1;
        assert_int_equal(strlen(text), n);
        assert_memory_equal(text, whole, n);
        assert_int_equal(text[room], 'x');
    }
}

/* DeepSeek-V3 at 4,096 tokens, 2.6e11 model FLOPs a token: flops x tokens / (time x GPUs). */
static void throughput_is_model_flops(void **state)
{
    (void)state;
    double t = iteration_tflops(2.599930e11, (int64_t)8192 * 4096, 30, 1024);
    assert_true(fabs(t - 2.599930e11 * 8192 * 4096 / 30 / 1024 / 1e12) < 1e-9);
    assert_true(iteration_tflops(1, 1, 0, 8) == 0);
}

/* ---- intervals */

static void interval_averages_what_advanced(void **state)
{
    (void)state;
    log_interval t = {0};
    iteration_line it = example();
    named_loss good[] = {{"lm loss", 4}, {"z_loss", 1}}, better[] = {{"z_loss", 3}, {"lm loss", 2}};
    named_loss bad[] = {{"lm loss", (double)NAN}, {"z_loss", 100}}, large[] = {{"lm loss", 50}};
    log_interval_add(&t, good, 2, false, 1);
    log_interval_add(&t, bad, 2, true, 2);
    log_interval_add(&t, large, 1, true, 3);
    log_interval_add(&t, better, 2, false, 6);
    log_interval_close(&t, &it);
    assert_int_equal(it.n_losses, 2);
    assert_string_equal(it.losses[0].name, "lm loss");
    assert_true(it.losses[0].value == 3 && it.losses[1].value == 2);
    assert_true(it.seconds == 3 && it.skipped == 2 && it.nan == 1);
    log_interval_add(&t, large, 1, false, 1);
    log_interval_close(&t, &it);
    assert_true(it.n_losses == 1 && it.losses[0].value == 50 && it.skipped == 0 && it.nan == 0);
}

static void interval_of_skipped_iterations_has_no_loss(void **state)
{
    (void)state;
    log_interval t = {0};
    iteration_line it = example();
    named_loss bad[] = {{"lm loss", (double)INFINITY}};
    log_interval_add(&t, bad, 1, true, 1);
    log_interval_close(&t, &it);
    assert_true(it.n_losses == 1 && isnan(it.losses[0].value) && it.skipped == 1 && it.nan == 1);
}

static void interval_survives_too_many_losses(void **state)
{
    (void)state;
    static char names[LOSSES_MAX + 4][16];
    log_interval t = {0};
    iteration_line it = example();
    for (int i = 0; i < LOSSES_MAX + 4; i++) {
        snprintf(names[i], sizeof names[i], "l%d", i);
        named_loss one = {names[i], 1};
        log_interval_add(&t, &one, 1, false, 1);
    }
    log_interval_close(&t, &it);
    assert_int_equal(it.n_losses, LOSSES_MAX);
}

/* ---- other lines */

static void validation_line_is_megatrons(void **state)
{
    (void)state;
    char text[LINE_BYTES];
    named_loss losses[] = {{"lm loss", 2}, {"mtp_1 loss", 30}};
    validation_print(text, sizeof text, "iteration 50", losses, 2);
    const char *middle = " validation loss at iteration 50 | lm loss value: 2.000000E+00 | "
                         "lm loss PPL: 7.389056E+00 | mtp_1 loss value: 3.000000E+01 | "
                         "mtp_1 loss PPL: 4.851652E+08 | ";
    char *first = text, *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_int_equal(second - first - 1, strlen(middle) + 1);
    assert_int_equal(strspn(first, "-"), strlen(middle) + 1);
    assert_int_equal(third - second - 1, strlen(middle));
    assert_memory_equal(second, middle, strlen(middle));
    assert_int_equal(strspn(third, "-"), strlen(middle) + 1);
    assert_int_equal(strlen(third), strlen(middle) + 1);
}

static void checkpoint_lines_are_megatrons(void **state)
{
    (void)state;
    char text[LINE_BYTES];
    checkpoint_note c = {50, "runs/a", "moefold", 4, 2};
    saving_print(text, sizeof text, &c);
    assert_string_equal(text, "saving checkpoint at iteration      50 to runs/a in moefold format");
    saved_print(text, sizeof text, &c);
    assert_string_equal(text, "  successfully saved checkpoint from iteration      50 to runs/a "
                              "[ t 1/4, p 1/2 ]");
    loaded_print(text, sizeof text, &c);
    assert_string_equal(text, "  successfully loaded checkpoint from runs/a [ t 1/4, p 1/2 ] "
                              "at iteration 50");
    memory_print(text, sizeof text, 2, 1234567890, 36408905728);
    assert_string_equal(text, "[Rank 0] (after 2 iterations) memory (GB) | "
                              "mem-allocated-gigabytes: 1.2346 | "
                              "mem-max-allocated-gigabytes: 36.409");
}

/* ---- JSON */

static void json_has_the_lines_fields(void **state)
{
    (void)state;
    iteration_line it = example();
    json_t *o = iteration_line_json(&it);
    assert_string_equal(json_string_value(json_object_get(o, "event")), "iteration");
    assert_string_equal(json_string_value(json_object_get(o, "time")), "2026-08-22 10:00:00");
    assert_int_equal(json_integer_value(json_object_get(o, "iteration")), 50);
    assert_int_equal(json_integer_value(json_object_get(o, "consumed_samples")), 51200);
    assert_int_equal(json_integer_value(json_object_get(o, "global_batch_size")), 1024);
    assert_true(json_real_value(json_object_get(o, "grad_norm")) == 1.2341);
    assert_true(json_real_value(json_object_get(o, "tflops_per_gpu")) == 299.42);
    assert_true(json_real_value(json_object_get(o, "learning_rate")) == 3e-4);
    json_t *losses = json_object_get(o, "losses");
    assert_true(json_real_value(json_object_get(losses, "lm loss")) == 6.123456);
    assert_int_equal(json_object_size(losses), 2);
    assert_null(json_object_get(o, "params_norm"));
    json_decref(o);
}

static void json_has_null_for_what_is_no_number(void **state)
{
    (void)state;
    iteration_line it = example();
    it.norm = (double)NAN;
    it.losses[0].value = (double)INFINITY;
    json_t *o = iteration_line_json(&it);
    assert_true(json_is_null(json_object_get(o, "grad_norm")));
    assert_true(json_is_null(json_object_get(json_object_get(o, "losses"), "lm loss")));
    json_decref(o);
    named_loss loss = {"lm loss", 2};
    o = validation_json(50, "valid", &loss, 1);
    assert_true(
        fabs(json_real_value(json_object_get(json_object_get(o, "perplexities"), "lm loss")) -
             exp(2)) < 1e-12);
    json_decref(o);
}

static int lines_of(const char *path, int64_t *last)
{
    char text[LINE_BYTES];
    int n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; fgets(text, sizeof text, f); n++) {
        json_t *o = json_loads(text, 0, NULL);
        assert_non_null(o);
        *last = json_integer_value(json_object_get(o, "iteration"));
        json_decref(o);
    }
    fclose(f);
    return n;
}

static void write_metrics(const char *path, int64_t first, int n)
{
    metrics_file m;
    error err = {""};
    iteration_line it = example();
    assert_int_equal(metrics_open(&m, path, first - 1, &err), OK);
    for (int i = 0; i < n; i++) {
        it.iteration = first + i;
        assert_int_equal(metrics_write(&m, iteration_line_json(&it), &err), OK);
    }
    assert_int_equal(metrics_close(&m, &err), OK);
    assert_int_equal(metrics_close(&m, &err), OK);
}

static void metrics_file_has_a_line_an_object(void **state)
{
    (void)state;
    char folder[] = "/tmp/moefold-lines-XXXXXX", path[64];
    int64_t last = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    write_metrics(path, 1, 5);
    write_metrics(path, 6, 2);
    assert_int_equal(lines_of(path, &last), 7);
    assert_int_equal(last, 7);
    write_metrics(path, 4, 1); /* 5 to 7 are made again */
    assert_int_equal(lines_of(path, &last), 4);
    assert_int_equal(last, 4);
    FILE *cut = fopen(path, "a"); /* by a crash */
    fputs("{\"iteration\":5", cut);
    fclose(cut);
    write_metrics(path, 6, 1);
    assert_int_equal(lines_of(path, &last), 5);
    write_metrics(path, 1, 1);
    assert_int_equal(lines_of(path, &last), 1);
    unlink(path);
    rmdir(folder);
}

static void metrics_file_says_why_not(void **state)
{
    (void)state;
    metrics_file m;
    error err = {""};
    assert_int_equal(metrics_open(&m, "no/such/folder/metrics.jsonl", 0, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "no/such/folder/metrics.jsonl"));
    if (access("/dev/full", W_OK)) return;
    assert_int_equal(metrics_open(&m, "/dev/full", 0, &err), OK);
    iteration_line it = example();
    assert_int_equal(metrics_write(&m, iteration_line_json(&it), &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "/dev/full"));
    metrics_close(&m, &err);
}

/* ---- progress */

static void bar_fits_the_terminal(void **state)
{
    (void)state;
    progress p = {.first = 10, .done = 60, .total = 110, .started = 100, .now = 200};
    char text[512];
    progress_text(&p, text, sizeof text, 80);
    assert_string_equal(text, "      60/110 [===================>               ]  54%  2.00 s/it  "
                              "ETA 0:01:40");
    for (int columns = 1; columns < 200; columns++) {
        progress_text(&p, text, sizeof text, columns);
        assert_true(strlen(text) < (size_t)(columns > 1 ? columns : 2));
    }
}

static void time_left_has_days_and_no_surprise(void **state)
{
    (void)state;
    progress p = {.total = 1000000, .done = 1, .now = 0.25};
    char text[512];
    progress_text(&p, text, sizeof text, 80);
    assert_non_null(strstr(text, " 250 ms/it  ETA 2d 21:26"));
    p.done = 0;
    progress_text(&p, text, sizeof text, 80);
    assert_null(strstr(text, "ETA"));
    p = (progress){.total = 10, .done = 12, .now = 12};
    progress_text(&p, text, sizeof text, 80);
    assert_non_null(strstr(text, "100%"));
    assert_non_null(strstr(text, "ETA 0:00:00"));
    p = (progress){0};
    progress_text(&p, text, sizeof text, 80);
    assert_non_null(strstr(text, "0/0"));
}

static void a_pipe_gets_lines_only(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    FILE *out = fdopen(ends[1], "w");
    progress p;
    progress_init(&p, out, 0, 3, 0);
    for (int i = 1; i <= 3; i++) {
        progress_step(&p, i, i);
        progress_line(&p, out, "a line");
    }
    progress_finish(&p);
    fclose(out);
    char text[256] = "";
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_string_equal(text, "a line\na line\na line\n");
}

/* What a terminal shows after these bytes: carriage return, clear to the end of the line. */
static void show(char *screen, size_t room, const char *bytes)
{
    size_t start = 0, at = 0, n = 0;
    for (; *bytes; bytes++) {
        if (*bytes == '\r') {
            at = start;
        } else if (*bytes == '\n') {
            screen[n++] = '\n';
            start = at = n;
        } else if (strncmp(bytes, "\033[K", 3) == 0) {
            n = at;
            bytes += 2;
        } else {
            screen[at++] = *bytes;
            if (at > n) n = at;
        }
        assert_true(n < room);
    }
    screen[n] = 0;
}

static FILE *open_terminal(int *master)
{
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0 || grantpt(*master) || unlockpt(*master)) return NULL;
    const char *name = ptsname(*master);
    return name ? fopen(name, "w") : NULL;
}

/* All that has been written; a terminal hands it over in parts. */
static void read_terminal(int master, char *out, size_t room)
{
    struct pollfd wait = {.fd = master, .events = POLLIN};
    size_t n = 0;
    while (n + 1 < room && poll(&wait, 1, 200) > 0) {
        ssize_t got = read(master, out + n, room - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    out[n] = 0;
}

#define LINE                                                                                       \
    "a line that is longer than the bar, whatever that may be, and that stays whole throughout"
#define LONG LINE "\n"

static void a_terminal_gets_whole_lines_and_a_bar(void **state)
{
    (void)state;
    int master;
    FILE *out = open_terminal(&master);
    if (!out) skip();
    setenv("TERM", "xterm", 1);
    progress p;
    progress_init(&p, out, 0, 4, 0);
    assert_true(p.on);
    progress_line(&p, out, "before");
    for (int i = 1; i <= 3; i++) {
        progress_step(&p, i, i);
        progress_line(&p, out, LINE);
    }
    char bytes[8192], screen[8192];
    read_terminal(master, bytes, sizeof bytes);
    show(screen, sizeof screen, bytes);
    const char *last = strrchr(screen, '\n') + 1;
    assert_non_null(strstr(last, "3/4 ["));
    assert_memory_equal(screen, "before\n" LONG LONG LONG, strlen("before\n" LONG LONG LONG));
    progress_finish(&p);
    read_terminal(master, bytes, sizeof bytes);
    assert_string_equal(bytes, "\r\033[K");
    fclose(out);
    close(master);
}

/* A terminal that cannot erase gets no bar. */
static void a_dumb_terminal_gets_none(void **state)
{
    (void)state;
    int master;
    FILE *out = open_terminal(&master);
    if (!out) skip();
    setenv("TERM", "dumb", 1);
    progress p;
    progress_init(&p, out, 0, 4, 0);
    assert_false(p.on);
    fclose(out);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iteration_line_is_megatrons),
        cmocka_unit_test(optional_fields_stand_where_megatron_has_them),
        cmocka_unit_test(odd_numbers_are_printed_as_megatron_does),
        cmocka_unit_test(text_is_cut_to_its_room),
        cmocka_unit_test(throughput_is_model_flops),
        cmocka_unit_test(interval_averages_what_advanced),
        cmocka_unit_test(interval_of_skipped_iterations_has_no_loss),
        cmocka_unit_test(interval_survives_too_many_losses),
        cmocka_unit_test(validation_line_is_megatrons),
        cmocka_unit_test(checkpoint_lines_are_megatrons),
        cmocka_unit_test(json_has_the_lines_fields),
        cmocka_unit_test(json_has_null_for_what_is_no_number),
        cmocka_unit_test(metrics_file_has_a_line_an_object),
        cmocka_unit_test(metrics_file_says_why_not),
        cmocka_unit_test(bar_fits_the_terminal),
        cmocka_unit_test(time_left_has_days_and_no_surprise),
        cmocka_unit_test(a_pipe_gets_lines_only),
        cmocka_unit_test(a_terminal_gets_whole_lines_and_a_bar),
        cmocka_unit_test(a_dumb_terminal_gets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
