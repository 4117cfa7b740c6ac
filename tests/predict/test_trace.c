/* Traces: what is written is read back, sums and messages are judged, bad files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/text.h"
#include "predict/trace/compare.h"

static const char *streams[] = {"compute", "layers", "stages, sends \"forward\""};

/* Two ranks, one message between them. */
static void make(trace *t, arena *a)
{
    trace_init(t, "measured", a);
    t->recipe = "a \"recipe\"\n";
    t->machine = "H100";
    t->streams = streams;
    t->n_streams = 3;
    t->span = 1e-3;
    t->step = 2e-3;
    t->from = 0.5e-3;
    trace_add_rank(t, 8, "rank 8");
    trace_add_rank(t, 0, "rank 0");
    trace_op o = {.name = "qkv", .kind = "GEMM", .phase = "forward", .rank = 0, .stream = 0};
    o.micro = 3, o.layer = 5, o.bytes = 1 << 20;
    o.start = 0, o.end = o.seconds = 400e-6;
    o.seconds = 500e-6; /* cut by the window */
    trace_add(t, o);
    trace_op wait = {.what = TRACE_WAIT, .name = "dispatch", .kind = "EP communication, exposed"};
    wait.micro = wait.layer = wait.bytes = -1;
    wait.start = 400e-6, wait.end = 600e-6, wait.seconds = 200e-6;
    trace_add(t, wait);
    trace_op send = {.name = "send", .kind = "PP communication", .group = "PP", .stream = 2};
    send.micro = send.layer = -1, send.bytes = 77;
    send.start = 100e-6, send.end = 300e-6, send.seconds = 200e-6;
    send.message = TRACE_SENDS, send.peer = 8, send.tag = 1, send.number = 41;
    trace_add(t, send);
    send.rank = 8, send.peer = 0, send.message = TRACE_RECEIVES, send.stream = 1;
    trace_add(t, send);
    trace_sort(t);
}

static void same_op(const trace_op *x, const trace_op *y)
{
    assert_int_equal(x->what, y->what);
    assert_string_equal(x->name, y->name);
    assert_string_equal(x->kind, y->kind);
    assert_true(text_equal(x->phase, y->phase) && text_equal(x->group, y->group));
    assert_true(x->rank == y->rank && x->stream == y->stream && x->micro == y->micro);
    assert_true(x->layer == y->layer && x->bytes == y->bytes && x->message == y->message);
    assert_true(x->peer == y->peer && x->tag == y->tag && x->number == y->number);
    assert_true(fabs(x->start - y->start) < 1e-9 && fabs(x->end - y->end) < 1e-9);
    assert_true(fabs(x->seconds - y->seconds) < 1e-9);
}

static void written_is_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"t.json", "t.json.gz"};
    char folder[] = "/tmp/moefold-trace-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        arena *a = arena_create();
        error err = {{0}};
        trace t, again;
        make(&t, a);
        const char *path = arena_text(a, "%s/%s", folder, names[i]);
        assert_int_equal(trace_write(&t, path, &err), OK);
        char *raw;
        size_t n;
        assert_int_equal(file_read(a, path, 1 << 20, &raw, &n, &err), OK);
        assert_int_equal(gzip_is(raw, n), i);
        if (trace_read(&again, path, a, &err)) fail_msg("%s", err.text);
        assert_string_equal(again.source, "measured");
        assert_string_equal(again.recipe, t.recipe);
        assert_true(again.n == t.n && again.n_ranks == 2);
        assert_string_equal(again.streams[2], streams[2]);
        assert_true(fabs(again.span - t.span) < 1e-9 && fabs(again.from - t.from) < 1e-9);
        for (int64_t k = 0; k < t.n; k++) same_op(&again.ops[k], &t.ops[k]);
        assert_int_equal(unlink(path), 0);
        arena_destroy(a);
    }
    rmdir(folder);
}

static void sums_and_overlaps_are_seen(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace t;
    trace_sum *s;
    make(&t, a);
    assert_int_equal(trace_sums(&t, &s, a), 3);
    assert_true(fabs(s[0].operations - 400e-6) < 1e-12 && fabs(s[0].waits - 200e-6) < 1e-12);
    assert_true(fabs(s[0].idle - 400e-6) < 1e-12 && s[0].overlap == 0);
    trace_op late = t.ops[0];
    late.start = 300e-6, late.end = 700e-6;
    trace_add(&t, late);
    trace_sort(&t);
    trace_sums(&t, &s, a);
    assert_true(s[0].overlap > 1e-4);
    arena_destroy(a);
}

static void lost_messages_are_seen(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace t;
    make(&t, a);
    trace_matches m = trace_match(&t, a);
    assert_true(m.matched == 1 && m.lost == 0);
    for (int64_t i = 0; i < t.n; i++)
        if (t.ops[i].message == TRACE_RECEIVES) t.ops[i].number++;
    m = trace_match(&t, a);
    assert_true(m.matched == 0 && m.lost == 2);
    for (int64_t i = 0; i < t.n; i++) t.ops[i].peer = 99; /* not traced: nobody's fault */
    assert_int_equal(trace_match(&t, a).lost, 0);
    arena_destroy(a);
}

/* Ranks of one run that were traced apart, and two runs side by side. */
static void joined_traces_keep_their_messages(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace t, both;
    make(&t, a);
    trace_init(&both, "measured", a);
    both.streams = streams;
    both.n_streams = 3;
    trace_join(&both, &t, 0, "A: ");
    trace_join(&both, &t, 100, "B: ");
    trace_sort(&both);
    assert_int_equal(both.n, 2 * t.n);
    assert_int_equal(both.n_ranks, 4);
    assert_string_equal(both.ranks[2].name, "B: rank 0");
    trace_matches m = trace_match(&both, a);
    assert_true(m.matched == 2 && m.lost == 0);
    arena_destroy(a);
}

/* ---- two traces */

static const trace_row *row_of(const trace_comparison *c, const char *name, trace_what what)
{
    for (int64_t i = 0; i < c->n; i++)
        if (strcmp(c->rows[i].name, name) == 0 && c->rows[i].what == what) return &c->rows[i];
    return NULL;
}

/* A slower operation is the first row, by as much as it is slower; what is alike differs by
 * nothing; what one alone has counts in full. */
static void the_slower_operation_comes_first(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace x, y;
    trace_comparison c;
    make(&x, a);
    make(&y, a);
    trace_compare(&c, &x, &y, a);
    assert_true(c.n == 3 && c.common == 2 && c.rows[0].difference == 0 && !c.whole);
    for (int64_t i = 0; i < y.n; i++)
        if (strcmp(y.ops[i].name, "qkv") == 0) y.ops[i].end += 100e-6;
    trace_op more = {.name = "fc1", .kind = "GEMM", .start = 0.8e-3, .end = 0.85e-3, .stream = 0};
    trace_add(&y, more);
    trace_sort(&y);
    trace_compare(&c, &x, &y, a);
    assert_string_equal(c.rows[0].name, "qkv");
    assert_true(fabs(c.rows[0].difference - 50e-6) < 1e-12); /* of two ranks one has it */
    const trace_row *fc1 = row_of(&c, "fc1", TRACE_OPERATION);
    assert_true(fc1 && fc1->n[0] == 0 && fabs(fc1->difference - 25e-6) < 1e-12);
    const trace_row *wait = row_of(&c, "dispatch", TRACE_WAIT);
    assert_true(wait && wait->difference == 0);
    arena_destroy(a);
}

/* Twice as often is twice as long in whole steps; in windows only the length counts. */
static void windows_are_compared_by_length(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace x, y;
    trace_comparison c;
    for (int whole = 0; whole < 2; whole++) {
        make(&x, a);
        make(&y, a);
        trace_op again = {.name = "qkv", .kind = "GEMM", .phase = "forward", .stream = 0};
        again.start = 0.6e-3, again.end = 1e-3;
        trace_add(&y, again);
        trace_sort(&y);
        x.from = y.from = whole ? 0 : 1e-3;
        x.step = y.step = whole ? x.span : 10 * x.span;
        trace_compare(&c, &x, &y, a);
        double difference = row_of(&c, "qkv", TRACE_OPERATION)->difference;
        assert_true(c.whole == whole && fabs(difference - (whole ? 200e-6 : 0)) < 1e-12);
    }
    arena_destroy(a);
}

/* Both on one axis: nothing is lost, nothing overlaps, streams keep their names. */
static void two_traces_share_one_axis(void **state)
{
    (void)state;
    arena *a = arena_create();
    trace x, y, both;
    static const char *others[] = {"layers", "compute", "copies"};
    make(&x, a);
    make(&y, a);
    y.streams = others;
    trace_merge(&both, &x, &y, a);
    assert_true(both.n == x.n + y.n && both.n_ranks == 4 && both.ranks[2].rank == 10);
    assert_int_equal(trace_match(&both, a).matched, 2);
    trace_sum *sums;
    int64_t n = trace_sums(&both, &sums, a);
    for (int64_t i = 0; i < n; i++) assert_true(sums[i].overlap == 0);
    int64_t found = 0;
    for (int64_t i = 0; i < both.n; i++)
        if (strcmp(both.ops[i].name, "qkv") == 0)
            found += strcmp(both.streams[both.ops[i].stream],
                            both.ops[i].rank < 10 ? "compute" : "layers") == 0;
    assert_int_equal(found, 2);
    arena_destroy(a);
}

/* ---- bad files */

#define HEAD "{\"otherData\":{\"moefold\":\"trace\",\"version\":1,\"span_s\":1},\"traceEvents\":"

static const struct bad_file {
    const char *text, *says;
} bad_files[] = {
    {"", "bad.json:1:"},
    {"{\"traceEvents\":[", "cut short or not JSON"},
    {"iteration 1/10 | lm loss: 3.2", "cut short or not JSON"},
    {"{\"traceEvents\":[]}", "not a trace of moefold"},
    {"[]", "not a trace of moefold"},
    {"{\"otherData\":{\"moefold\":\"trace\",\"version\":2}}",
     "version is 2, but this program reads version 1"},
    {"{\"otherData\":{\"moefold\":\"trace\",\"version\":1}}", "span_s is not a length"},
    {HEAD "7}", "no list traceEvents"},
    {HEAD "[]}", "has no operation"},
    {HEAD "[3]}", "traceEvents[0]: an event without 'ph'"},
    {HEAD "[{\"ph\":\"X\"}]}", "no rank in 'pid'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":-4,\"tid\":1}]}", "no rank in 'pid'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":0,\"tid\":1000000}]}", "no stream in 'tid'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"x\"}]}", "without args 'what'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"x\",\"args\":{\"what\":\"wait\"}}]}",
     "there is no number 'ts'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"x\",\"ts\":-1,\"dur\":2,\"args\":{"
          "\"what\":\"wait\"}}]}",
     "this is not a time: 'ts'"},
    {HEAD "[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"x\",\"ts\":1,\"dur\":2,\"args\":{"
          "\"what\":\"operation\",\"message\":\"send\",\"peer\":3,\"tag\":1}}]}",
     "a message without 'number'"},
};

static void bad_files_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        arena *a = arena_create();
        error err = {{0}};
        trace t;
        const char *text = bad_files[i].text;
        status s = trace_parse(&t, "bad.json", text, strlen(text), a, &err);
        if (s != ERR_INPUT || !strstr(err.text, bad_files[i].says) || !strstr(err.text, "bad.json"))
            fail_msg("'%s': status %d, '%s'", text, s, err.text);
        arena_destroy(a);
    }
}

/* ---- gzip */

static void cut_and_damaged_gzip_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    error err = {{0}};
    char *text = arena_take(a, 100001), *packed, *out;
    size_t n, out_n;
    for (int i = 0; i < 100000; i++) text[i] = (char)('a' + (int64_t)i * i % 23);
    assert_int_equal(gzip_pack(a, text, 100000, &packed, &n, &err), OK);
    assert_true(n < 100000);
    gzip_text in = {"t.gz", packed, n, 100000};
    assert_int_equal(gzip_unpack(a, &in, &out, &out_n, &err), OK);
    assert_true(out_n == 100000 && memcmp(out, text, out_n) == 0);
    in.limit = 99999;
    assert_int_equal(gzip_unpack(a, &in, &out, &out_n, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "more than the 99999 bytes"));
    in.limit = 100000;
    for (in.n = 0; in.n < n; in.n += n / 37) {
        assert_int_equal(gzip_unpack(a, &in, &out, &out_n, &err), ERR_INPUT);
        assert_non_null(strstr(err.text, "t.gz: the gzip file is cut short"));
    }
    in.n = n;
    packed[n / 2] ^= 0x55;
    assert_int_equal(gzip_unpack(a, &in, &out, &out_n, &err), ERR_INPUT);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read_back),
        cmocka_unit_test(sums_and_overlaps_are_seen),
        cmocka_unit_test(lost_messages_are_seen),
        cmocka_unit_test(joined_traces_keep_their_messages),
        cmocka_unit_test(the_slower_operation_comes_first),
        cmocka_unit_test(windows_are_compared_by_length),
        cmocka_unit_test(two_traces_share_one_axis),
        cmocka_unit_test(bad_files_are_refused_by_name),
        cmocka_unit_test(cut_and_damaged_gzip_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
