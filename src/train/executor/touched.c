/* touched.c - patterns, the map, and what is counted in it. */
#include "train/executor/touched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train/executor/executor_state.h"

static const unsigned char patterns[TOUCHED_PATTERNS] = {0xa5, 0x5a};

status touched_open(touched *m, executor *e, const program *p, error *err)
{
    int64_t bytes = program_end(p);
    *m = (touched){.e = e, .p = p, .bytes = bytes};
    m->map = calloc((size_t)bytes / 8 + 1, 1);
    return m->map ? OK
                  : error_set(err, ERR_MACHINE,
                              "no host memory for a bit of each of %lld planned bytes",
                              (long long)bytes);
}

void touched_fill(touched *m, int pattern)
{
    executor_fill(m->e, 0, m->bytes, patterns[pattern]);
    executor_guard_fill(m->e, patterns[pattern]);
}

void touched_mark(touched *m, int pattern)
{
    executor_differ(m->e, 0, m->bytes, patterns[pattern], m->map);
    m->behind += executor_guard_touched(m->e, patterns[pattern]);
}

/* ---- counting */

static bool is_set(const touched *m, int64_t i)
{
    return m->map[i / 8] >> (i % 8) & 1;
}

static uint64_t word_at(const touched *m, int64_t i)
{
    uint64_t w;
    memcpy(&w, m->map + i / 8, sizeof w);
    return w;
}

/* Maps of large arenas have gigabytes, of words that are nearly all full or empty. */
static int64_t count(const touched *m, int64_t from, int64_t to)
{
    int64_t n = 0;
    for (; from < to && from % 64; from++) n += is_set(m, from);
    for (; from + 64 <= to; from += 64) {
        uint64_t w = word_at(m, from);
        if (w) n += w == UINT64_MAX ? 64 : __builtin_popcountll(w);
    }
    for (; from < to; from++) n += is_set(m, from);
    return n;
}

static int64_t first_of(const touched *m, int64_t from, int64_t to, bool set)
{
    while (from < to && is_set(m, from) != set) from++;
    return from;
}

/* ---- in words */

static const char *buffer_at(const touched *m, int64_t place, arena *a)
{
    const program *p = m->p;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int id = 0; id < it->seg->n_bufs; id++) {
                const buf *b = &it->seg->bufs[id];
                int64_t at = program_place(p, it, id);
                if (at < 0 || place < at || place >= at + b->bytes) continue;
                return arena_text(a, "byte %" PRId64 " of %" PRId64 " of %s of %s", place - at,
                                  b->bytes, b->name ? b->name : "a buffer", it->seg->name);
            }
        }
    for (int r = 0; r < REGION_COUNT; r++)
        if (place >= p->offset[r] && place < p->offset[r] + p->bytes[r])
            return arena_text(a, "byte %" PRId64 " of %s", place - p->offset[r],
                              region_title((region)r));
    return "pinned memory of the host";
}

static const char *say(const touched *m, int64_t place, bool set, arena *a)
{
    return arena_text(a, "%s was %s (place %" PRId64 ")", buffer_at(m, place, a),
                      set ? "touched but not planned" : "planned but not touched", place);
}

/* Between two ranges nothing may be touched, but for workspace. */
static void count_gap(const touched *m, int64_t from, int64_t to, touched_report *r, arena *a)
{
    for (int64_t i = 0; i <= m->n_work && from < to; i++) {
        bool behind = i == m->n_work; /* the last workspace */
        int64_t end = behind || m->work[i].start > to ? to : m->work[i].start;
        if (!behind && m->work[i].end <= from) continue;
        int64_t n = end > from ? count(m, from, end) : 0;
        if (n && !r->first) r->first = say(m, first_of(m, from, end, true), true, a);
        r->outside += n;
        from = behind ? to : m->work[i].end;
    }
}

static void count_range(const touched *m, program_range x, touched_report *r, arena *a)
{
    bool on_host = x.start >= m->p->arena_bytes;
    int64_t used = count(m, x.start, x.end), planned = x.end - x.start;
    *(on_host ? &r->host_planned : &r->planned) += planned;
    *(on_host ? &r->host_used : &r->used) += used;
    if (used < planned && !r->first)
        r->first = say(m, first_of(m, x.start, x.end, false), false, a);
}

touched_report touched_close(touched *m, arena *a)
{
    touched_report r = {.outside = m->behind};
    program_range *list;
    int64_t n = program_ranges(m->p, &list, a), last = 0;
    m->n_work = program_workspaces(m->p, &m->work, a);
    for (int64_t i = 0; i < m->n_work; i++) {
        r.workspace += m->work[i].end - m->work[i].start;
        r.workspace_used += count(m, m->work[i].start, m->work[i].end);
    }
    if (m->behind) r.first = "bytes after the arena were touched";
    for (int64_t i = 0; i < n; last = list[i++].end) {
        count_gap(m, last, list[i].start, &r, a);
        count_range(m, list[i], &r, a);
    }
    count_gap(m, last, m->bytes, &r, a);
    free(m->map);
    m->map = NULL;
    return r;
}

bool touched_is_right(const touched_report *r, bool even)
{
    bool whole = r->used == r->planned && r->host_used == r->host_planned;
    return r->outside == 0 && (whole || !even);
}
