/* test_library.c - the library through its header: its answers are the program's, and what is wrong
 * is said, not printed. */
#include <moefold.h>

#include <locale.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

enum { WORDS_MAX = 24, TEXT_MAX = 4096 };

typedef moefold_status (*question)(moefold_answer **answer, const char *const *words, int n,
                                   const moefold_watch *watch);

/* "check tiny tp=3": the question, and its words. */
typedef struct asked {
    char text[512];
    const char *words[WORDS_MAX];
    int n;
    question ask;
} asked;

static asked *asked_of(asked *out, const char *line)
{
    snprintf(out->text, sizeof out->text, "%s", line);
    char *rest = NULL, *word = strtok_r(out->text, " ", &rest);
    out->ask = strcmp(word, "check") == 0   ? moefold_check
               : strcmp(word, "price") == 0 ? moefold_price
                                            : moefold_plan;
    for (out->n = 0; (word = strtok_r(NULL, " ", &rest));) out->words[out->n++] = word;
    return out;
}

static moefold_status ask(moefold_answer **x, const char *line, const moefold_watch *watch)
{
    asked q;
    asked_of(&q, line);
    return q.ask(x, q.words, q.n, watch);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- fields */

static void fields_are_found_by_their_path(void **state)
{
    (void)state;
    moefold_answer *x;
    bool ok;
    int64_t ep, peak, usable;
    assert_int_equal(ask(&x, "check recipes/qwen3-30b-4k-h100.yaml", NULL), MOEFOLD_OK);
    assert_string_equal(moefold_why(x), "");
    assert_true(moefold_bool(x, "ok", &ok) && ok);
    assert_true(moefold_integer(x, "layout.ep", &ep));
    assert_int_equal(ep, 16);
    assert_true(moefold_integer(x, "peak_bytes", &peak));
    assert_true(moefold_integer(x, "usable_bytes", &usable));
    assert_true(moefold_bool(x, "fits", &ok));
    assert_int_equal(ok, peak <= usable);
    assert_string_equal(moefold_text(x, "model.name"), "qwen3-30b-a3b");
    assert_null(moefold_text(x, "model.parameters"));
    assert_int_equal(moefold_count(x, "nothing"), -1);
    moefold_free(x);
    assert_string_equal(moefold_version(), MOEFOLD_VERSION);
    assert_null(moefold_json(NULL));
    assert_false(moefold_bool(NULL, "ok", &ok));
}

static void parts_of_a_price_add_up(void **state)
{
    (void)state;
    moefold_answer *x;
    int64_t peak, bytes, sum = 0;
    double step, seconds;
    char path[64];
    assert_int_equal(ask(&x, "price recipes/qwen3-30b-4k-h100.yaml", NULL), MOEFOLD_OK);
    assert_true(moefold_integer(x, "peak_bytes", &peak) && moefold_real(x, "step_s", &step));
    int64_t n = moefold_count(x, "memory.peak_parts");
    for (int64_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "memory.peak_parts.%d.bytes", (int)i);
        assert_true(moefold_integer(x, path, &bytes));
        sum += bytes;
    }
    assert_int_equal(sum, peak);
    assert_true(moefold_real(x, "parts.attention", &seconds) && seconds > 0 && seconds < step);
    moefold_free(x);
}

/* ---- the program's answers */

/* Seconds that an answer took are not part of it. */
static void leave_seconds_out(char *json)
{
    static const char key[] = "\"seconds\":";
    for (char *p = json; (p = strstr(p, key));) {
        p += strlen(key);
        memmove(p, p + strspn(p, "0123456789.e+-"), strlen(p + strspn(p, "0123456789.e+-")) + 1);
    }
}

/* What a command prints; its exit code. */
static int printed(const char *command, char **out)
{
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    for (size_t got; (got = fread(text + n, 1, room - n - 1, f)) > 0;) {
        n += got;
        if (room - n < 2) text = realloc(text, room *= 2);
    }
    text[n] = 0;
    *out = text;
    return WEXITSTATUS(pclose(f));
}

static const char *const jobs[] = {
    "check qwen3-30b-a3b --gpus 16xH100 --all-ranks",
    "check deepseek-v3 --gpus 16xH100 --fix",
    "check recipes/dsv3-4k-h100.yaml ep=128",
    "check tiny tp=3 --gpus 8xH100",
    "check qwen3-30b-a3b --gpus 16xH100 --rank 99",
    "check nosuch.yaml",
    "price recipes/qwen3-30b-4k-h100.yaml --routing 2 --headroom 0.2",
    "price recipes/dsv3-128k-h100.yaml",
    "price tiny tp=3 --gpus 8xH100",
    "price tiny model.num_layers=few",
    "plan qwen3-30b-a3b --gpus 16xH100 --seq 4096",
    "plan qwen3-30b-a3b --gpus 8xH100 --seq 32K --gbs 64 --pin tp=2 --search all",
    "plan --against recipes/qwen3-30b-4k-h100.yaml",
    "plan qwen3-30b-a3b --gpus 1xH100 --seq 4K",
    "plan tiny --gpus 8xH100 --seq 4K --pin tp=3",
    "plan tiny --gpus 8xH100 --seq 4001",
    "plan qwen3-30b-a3b --gpus 16xH100 --pin model.moe_router_topk=500",
    "plan qwen3-30b-a3b --gpus 16xH100 --seconds 0.0001",
    "plan qwen3-30b-a3b --gpus 0xH100",
    "plan qwen3-30b-a3b --gpus 16xH100 --pin bogus",
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

static void answers_are_those_of_the_program(void **state)
{
    (void)state;
    const char *program = getenv("MOEFOLD") ? getenv("MOEFOLD") : "build/moefold";
    for (int i = 0; i < JOBS; i++) {
        char command[1024], *out, *said;
        moefold_answer *x;
        int code = (int)ask(&x, jobs[i], NULL);
        char *json = moefold_json(x);
        snprintf(command, sizeof command, "%s %s --json 2>/dev/null", program, jobs[i]);
        if (printed(command, &out) != code) fail_msg("%s: status %d", jobs[i], code);
        snprintf(command, sizeof command, "%s %s --json 2>&1 >/dev/null", program, jobs[i]);
        printed(command, &said);
        leave_seconds_out(out);
        if (json) leave_seconds_out(json);
        if (*out) out[strlen(out) - 1] = 0; /* the end of the line */
        if (strcmp(json ? json : "", out) != 0) fail_msg("%s:\n%s\nnot\n%s", jobs[i], json, out);
        if (!strstr(said, moefold_why(x)))
            fail_msg("%s: %s, not %s", jobs[i], moefold_why(x), said);
        assert_int_equal(*said != 0, *moefold_why(x) != 0);
        free(json);
        free(out);
        free(said);
        moefold_free(x);
    }
}

/* ---- calls that end early */

/* What free() keeps for later (at most a few of each size) counts as in use. */
enum { KEPT_BYTES = 16 << 10 };

static int64_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

static void nothing_grows(void **state)
{
    (void)state;
    static const char *const asked_for[] = {"check tiny --gpus 8xH100", "price tiny --gpus 1xH100",
                                            "check tiny tp=3 --gpus 8xH100", "check nosuch.yaml"};
    enum { BEFORE = 200, TIMES = 1000 };
    int64_t before = 0;
    for (int i = 0; i < BEFORE + TIMES; i++) {
        moefold_answer *x;
        if (i == BEFORE) before = in_use();
        ask(&x, asked_for[i % 4], NULL);
        free(moefold_json(x));
        moefold_free(x);
    }
    if (in_use() > before + KEPT_BYTES) fail_msg("%lld bytes more", (long long)(in_use() - before));
}

static void a_call_has_no_more_memory_than_it_is_given(void **state)
{
    (void)state;
    static const char *const asked_for[] = {"check recipes/qwen3-30b-4k-h100.yaml --fix",
                                            "price recipes/qwen3-30b-4k-h100.yaml",
                                            "plan tiny --gpus 8xH100 --seq 4K"};
    int64_t before = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            int ended = 0;
            moefold_answer *x;
            for (size_t most = 100000;; most = most * 3 / 2) {
                const moefold_watch watch = {.memory = most};
                moefold_status st = ask(&x, asked_for[i], &watch);
                if (st == MOEFOLD_OK) break;
                assert_int_equal(st, MOEFOLD_MEMORY);
                assert_null(moefold_json(x));
                assert_string_equal(moefold_why(x), "no memory is left");
                moefold_free(x);
                ended++;
            }
            moefold_free(x);
            assert_true(ended > 3);
            if (!round && i == 2) before = in_use();
        }
    assert_true(in_use() <= before + KEPT_BYTES);
}

typedef struct patience {
    double until, refused;
    int calls;
    char what[64];
} patience;

static bool is_patient(void *with, const char *what, double part)
{
    patience *p = with;
    p->calls++;
    assert_true(part <= 1);
    snprintf(p->what, sizeof p->what, "%s", what);
    if (now() < p->until) return true;
    p->refused = now();
    return false;
}

static void a_call_is_cancelled_at_once(void **state)
{
    (void)state;
    static const char *const asked_for[] = {"plan deepseek-v3 --gpus 1024xH100 --seq 128K",
                                            "plan deepseek-v3 --gpus 16xH100 --seq 4K",
                                            "check deepseek-v3 --gpus 1024xH100 pp=16 --all-ranks"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            patience p = {.until = now() + 0.05 + 0.3 * k};
            moefold_answer *x;
            moefold_status st =
                ask(&x, asked_for[i], &(moefold_watch){.goes_on = is_patient, .with = &p});
            double late = now() - p.refused;
            if (st != MOEFOLD_CANCELLED && p.refused > 0) fail_msg("%s: %d", asked_for[i], st);
            if (st == MOEFOLD_CANCELLED && late > 0.3) fail_msg("%s: %g s", asked_for[i], late);
            assert_true(p.calls > 0 && p.what[0]);
            moefold_free(x);
        }
}

/* ---- threads */

typedef struct thread_job {
    pthread_t thread;
    const char *line;
    char *json;
} thread_job;

static void *plan_one(void *of)
{
    thread_job *j = of;
    moefold_answer *x;
    ask(&x, j->line, NULL);
    j->json = moefold_json(x);
    leave_seconds_out(j->json);
    moefold_free(x);
    return NULL;
}

static void threads_know_nothing_of_one_another(void **state)
{
    (void)state;
    static const char *const lines[] = {"plan tiny --gpus 8xH100 --seq 4K",
                                        "plan qwen3-30b-a3b --gpus 16xH100 --seq 4K --gbs 64",
                                        "plan tiny --gpus 16xH200 --seq 8K --pin pp=2",
                                        "plan qwen3-30b-a3b --gpus 8xB200 --seq 8K --gbs 32"};
    thread_job alone[4], together[4];
    for (int i = 0; i < 4; i++) {
        alone[i].line = together[i].line = lines[i];
        plan_one(&alone[i]);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&together[i].thread, NULL, plan_one, &together[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(together[i].thread, NULL);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(alone[i].json, together[i].json);
        free(alone[i].json);
        free(together[i].json);
    }
}

/* Where a language that writes 1,5 is installed: numbers are as they are without it. */
static void a_callers_language_changes_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    static const char line[] = "price recipes/qwen3-30b-4k-h100.yaml --headroom 0.2";
    char *json[2];
    for (int i = 0; i < 2; i++) {
        moefold_answer *x;
        for (int k = 0; i && k < 4 && !setlocale(LC_ALL, names[k]);) k++;
        if (i && *localeconv()->decimal_point != ',') print_message("no such language here\n");
        assert_int_equal(ask(&x, line, NULL), MOEFOLD_OK);
        json[i] = moefold_json(x);
        moefold_free(x);
    }
    setlocale(LC_ALL, "C");
    assert_string_equal(json[0], json[1]);
    free(json[0]);
    free(json[1]);
}

static void wrong_words_are_said(void **state)
{
    (void)state;
    static const char *const lines[] = {"check", "check tiny model.nosuchknob=1", "plan tiny",
                                        "price tiny --help", "check tiny --gpus 8x\x01"};
    for (int i = 0; i < 5; i++) {
        moefold_answer *x;
        assert_int_equal(ask(&x, lines[i], NULL), MOEFOLD_INPUT);
        assert_true(strlen(moefold_why(x)) > 10);
        assert_null(moefold_json(x));
        moefold_free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_are_found_by_their_path),
                                       cmocka_unit_test(parts_of_a_price_add_up),
                                       cmocka_unit_test(answers_are_those_of_the_program),
                                       cmocka_unit_test(wrong_words_are_said),
                                       cmocka_unit_test(a_callers_language_changes_nothing),
                                       cmocka_unit_test(nothing_grows),
                                       cmocka_unit_test(a_call_has_no_more_memory_than_it_is_given),
                                       cmocka_unit_test(a_call_is_cancelled_at_once),
                                       cmocka_unit_test(threads_know_nothing_of_one_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
