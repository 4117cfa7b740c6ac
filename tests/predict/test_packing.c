/* test_packing.c - the region of saved buffers ends close to the bytes that live at once, for every
 * layout of the list; what lives at once lies apart; a gap is printed where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "predict/packing_rows.h"

/* Farther than 3 % and 64 MiB, and why. */
typedef struct far_row {
    const char *name, *why;
} far_row;
static const far_row far_rows[] = {
    {"deepseek-v3 on 1,024 H100, fp8",
     "two dense layers in the first of four chunks live most when those with experts do not"},
};
enum { N_FAR = sizeof far_rows / sizeof far_rows[0] };

static bool is_far(const char *name)
{
    for (int i = 0; i < N_FAR; i++)
        if (strcmp(far_rows[i].name, name) == 0) return true;
    return false;
}

static void all_layouts_are_packed_closely(void **state)
{
    (void)state;
    packing_list l = {.a = arena_create()};
    error err = {{0}};
    int far = 0;
    if (packing_all(&l, &err)) fail_msg("%s", err.text);
    assert_true(l.n >= 230);
    for (int i = 0; i < l.n; i++) {
        const packing_row *r = &l.list[i];
        assert_true(r->bytes >= r->live && r->live > 0);
        bool close = packing_is_close(r->bytes, r->live);
        far += !close;
        if (close == is_far(r->name))
            fail_msg("%s, rank %lld: %lld bytes, %lld live at once: %s", r->name,
                     (long long)r->rank, (long long)r->bytes, (long long)r->live,
                     close ? "close, take it off the list" : "too far apart");
    }
    assert_int_equal(far, N_FAR);
    arena_destroy(l.a);
}

static void the_page_has_these_gaps(void **state)
{
    (void)state;
    packing_list l = {.a = arena_create()};
    error err = {{0}};
    char *page = NULL, *table = NULL;
    size_t n, m;
    if (packing_all(&l, &err) || file_read(l.a, "docs/MEMORY.md", 1 << 22, &page, &n, &err))
        fail_msg("%s", err.text);
    FILE *out = open_memstream(&table, &m);
    assert_non_null(out);
    packing_print(&l, out);
    fclose(out);
    for (char *line = strtok(table, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(page, line))
            fail_msg("docs/MEMORY.md has no \"%s\": write it anew with build/bench/packing", line);
    free(table);
    arena_destroy(l.a);
}

/* ---- places */

typedef struct shadow {
    const packing_places *p;
    struct {
        int64_t at, bytes;
    } alive[4096];
    int n;
    int64_t end;
} shadow;

static void see(void *with, const slot_event *e)
{
    shadow *w = with;
    int64_t at = *packing_place(w->p, e->chunk, e->micro, e->instance, e->part);
    if (e->leaves) {
        int k = 0;
        while (k < w->n && w->alive[k].at != at) k++;
        assert_true(k < w->n);
        w->alive[k] = w->alive[--w->n];
        return;
    }
    for (int k = 0; k < w->n; k++)
        assert_true(at + e->bytes <= w->alive[k].at || at >= w->alive[k].at + w->alive[k].bytes);
    assert_true(w->n < 4096);
    w->alive[w->n].at = at;
    w->alive[w->n++].bytes = e->bytes;
    if (at + e->bytes > w->end) w->end = at + e->bytes;
}

/* A rank of up to four chunks with layers of random sizes. */
static void try_rank(uint32_t seed, arena *a)
{
    enum { LAYERS = 3, SIZES = 5 };
    static segment_kind kinds[LAYERS] = {SEGMENT_LAYER, SEGMENT_LAYER, SEGMENT_LAYER};
    int64_t vpp = 1 + seed % 4, pp = 4, micros = 8 + 4 * (seed % 3);
    slot_row rows[4];
    for (int64_t v = 0; v < vpp; v++) {
        rows[v] = (slot_row){ARENA_ARRAY(a, slot_bytes, LAYERS), kinds, LAYERS, v > 0 || seed % 2};
        for (int i = 0; i < LAYERS * SAVED_PARTS; i++) {
            seed = seed * 1664525u + 1013904223u;
            rows[v].list[i / SAVED_PARTS].bytes[i % SAVED_PARTS] = 64 * (int64_t)(seed >> 16 & 7);
        }
    }
    bool pairs =
        vpp > 1 && (seed >> 20) % 2; /* without virtual stages one would pair with itself */
    slot_rows s = {rows, vpp, pairs, (seed >> 21) % 2 != 0};
    order_shape h = {pp, (seed >> 22) % 4, vpp, micros, pp, s.pairs};
    step_order o;
    order_make(&o, &h, a);
    packing_places p = {NULL, micros, LAYERS};
    p.at = ARENA_ARRAY(a, int64_t, vpp * micros * LAYERS * SAVED_PARTS);
    packed with = packing_of(&s, &o, &p, a), without = packing_of(&s, &o, NULL, a);
    static shadow w;
    w = (shadow){.p = &p};
    lives_walk(&s, &o, see, &w);
    assert_int_equal(w.n, 0);
    assert_true(w.end <= with.bytes && with.bytes >= with.live);
    assert_int_equal(with.bytes, without.bytes);
    assert_int_equal(with.live, lives_most(&s, &o));
}

static void what_lives_at_once_lies_apart(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 400; seed++) {
        arena *a = arena_create();
        try_rank(seed * 2654435761u, a);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts_are_packed_closely),
        cmocka_unit_test(the_page_has_these_gaps),
        cmocka_unit_test(what_lives_at_once_lies_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
