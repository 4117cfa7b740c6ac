/* cover.c - which bytes of the arena buffers cover.
 *
 * I1  What buffers cover is the length of their union: all that a step can touch. */
#include <stdlib.h>

#include "ir/memory/plan.h"
#include "ir/target.h"

static int by_start(const void *a, const void *b)
{
    const program_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int64_t union_of(program_range *list, int64_t n)
{
    qsort(list, (size_t)n, sizeof *list, by_start);
    int64_t covered = 0, end = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t from = list[i].start > end ? list[i].start : end;
        if (list[i].end > from) covered += list[i].end - from;
        if (list[i].end > end) end = list[i].end;
    }
    return covered;
}

typedef struct range_list {
    program_range *list; /* NULL: they are counted alone */
    int64_t n;
} range_list;

/* The workspace of an operation without gaps of alignment inside. */
static void add_workspace(range_list *out, const program *p, const segment *seg, const op *o,
                          int64_t at)
{
    workspace_part list[WORKSPACE_PARTS];
    int n = workspace_parts(list, target_row_of(p->s), seg, o);
    for (int m = 0; m < n && out->list; m++)
        out->list[out->n + m] = (program_range){at + list[m].at, at + list[m].at + list[m].bytes};
    out->n += n;
}

static void packed_workspace(range_list *out, const program *p)
{
    int64_t at = p->offset[REGION_TEMP] + p->workspace_offset;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++)
                add_workspace(out, p, it->seg, &it->seg->ops[it->phase][k],
                              it->work ? it->work[k] : at);
        }
}

static int64_t workspace_ranges(const program *p, program_range *list)
{
    range_list out = {list, 0};
    int64_t at = p->offset[REGION_TEMP] + p->workspace_offset;
    if (p->packed) packed_workspace(&out, p);
    for (int i = 0; i < p->n_segments && !p->packed; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase]; k++)
                add_workspace(&out, p, p->segments[i], &p->segments[i]->ops[phase][k], at);
    return out.n;
}

/* Where buffers lie. */
typedef enum memory_kind { MEMORY_ARENA, MEMORY_HOST, MEMORY_STAGING, MEMORY_KEPT } memory_kind;

static memory_kind memory_of(const buf *b)
{
    if (b->life == LIFE_FIXED && b->region == REGION_STAGING) return MEMORY_STAGING;
    if (b->life == LIFE_FIXED && b->region == REGION_KEPT) return MEMORY_KEPT;
    return b->life == LIFE_HOST ? MEMORY_HOST : MEMORY_ARENA;
}

static int64_t collect_items(const program *p, memory_kind kind, program_range *out)
{
    int64_t n = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int id = 0; id < it->seg->n_bufs; id++) {
                const buf *b = &it->seg->bufs[id];
                bool counted = b->life == LIFE_STEP || b->life == LIFE_WEIGHT ||
                               b->life == LIFE_GRADIENT || b->life == LIFE_OUTPUT ||
                               memory_of(b) != kind;
                int64_t at = counted ? -1 : program_place(p, it, id);
                if (at >= 0) out[n++] = (program_range){at, at + b->bytes};
            }
        }
    return n;
}

/* But for the workspace. */
static int64_t collect(const program *p, program_range *out)
{
    int64_t n = 0;
    for (int i = REGION_WEIGHTS; i <= REGION_OPTIMIZER; i++) { /* padding is used like the rest */
        int64_t bytes = i == REGION_OPTIMIZER ? p->optimizer_bytes : p->bytes[i];
        out[n++] = (program_range){p->offset[i], p->offset[i] + bytes};
    }
    for (int i = 0; i < STEP_COUNT; i++) {
        int64_t at = p->offset[REGION_STEP] + p->step_offset[i];
        int64_t times = step_by_micro((step_buffer)i) ? p->micros : 1;
        out[n++] = (program_range){at, at + times * p->step_bytes[i]};
    }
    return n + collect_items(p, MEMORY_ARENA, out + n);
}

static int64_t ranges_most(const program *p)
{
    int64_t most = REGION_COUNT + STEP_COUNT + workspace_ranges(p, NULL);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) most += p->items[part].list[i].seg->n_bufs;
    return most;
}

static int64_t bytes_covered(const program *p, memory_kind kind)
{
    program_range *list = malloc(sizeof *list * (size_t)ranges_most(p));
    if (!list) return 0;
    int64_t n = kind == MEMORY_ARENA ? collect(p, list) : collect_items(p, kind, list);
    if (kind == MEMORY_ARENA) n += workspace_ranges(p, list + n);
    int64_t bytes = union_of(list, n); /* I1 */
    free(list);
    return bytes;
}

/* In order, none touching another. */
static int64_t join_ranges(program_range *list, int64_t n)
{
    int64_t joined = 0;
    qsort(list, (size_t)n, sizeof *list, by_start);
    for (int64_t i = 0; i < n; i++) {
        if (list[i].end <= list[i].start) continue;
        if (joined && list[i].start <= list[joined - 1].end) {
            if (list[i].end > list[joined - 1].end) list[joined - 1].end = list[i].end;
        } else {
            list[joined++] = list[i];
        }
    }
    return joined;
}

int64_t program_ranges(const program *p, program_range **out, arena *a)
{
    program_range *list = ARENA_ARRAY(a, program_range, 2 * ranges_most(p));
    int64_t n = collect(p, list);
    n += collect_items(p, MEMORY_HOST, list + n);
    n += collect_items(p, MEMORY_STAGING, list + n);
    n += collect_items(p, MEMORY_KEPT, list + n);
    *out = list;
    return join_ranges(list, n);
}

int64_t program_workspaces(const program *p, program_range **out, arena *a)
{
    int64_t at = p->offset[REGION_TEMP] + p->workspace_offset;
    program_range *list = ARENA_ARRAY(a, program_range, workspace_ranges(p, NULL) + 1);
    int64_t n = p->packed ? workspace_ranges(p, list) : 0;
    list[n++] = (program_range){at, at + p->workspace_bytes};
    *out = list;
    return join_ranges(list, n);
}

int64_t program_buffer_bytes(const program *p)
{
    return bytes_covered(p, MEMORY_ARENA);
}

int64_t program_host_buffer_bytes(const program *p)
{
    return bytes_covered(p, MEMORY_HOST);
}

int64_t program_staging_buffer_bytes(const program *p)
{
    return bytes_covered(p, MEMORY_STAGING);
}
