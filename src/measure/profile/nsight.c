/* nsight.c - Nsight Systems: the SQLite file of `nsys export --type sqlite`.
 *
 * Written from NVIDIA's description of the exported tables; see docs/PROFILE.md for what was seen.
 *
 * I1  Tables and columns that a version does not have are not asked for: an export has only the
 *     tables of what was recorded. Without kernels there is nothing to say.
 * I2  Times are nanoseconds. Correlation ids are of a process, and are made unique with it.
 * I3  Nothing is run that stands in the file: what is asked for are tables, not views, and columns
 *     that are stored, not computed. One that never ends would hold us up. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "measure/profile/readers.h"

typedef struct export
{
    sqlite3 *db;
    const char *path;
    profile *p;
    profile_events *e;
    status s;
    error *err;
}
export;

static bool broken(export *x)
{
    if (!x->s)
        x->s = error_set(x->err, ERR_INPUT,
                         "%s: SQLite cannot read it: %s; repair: export it again (nsys export "
                         "--type sqlite)",
                         x->path, sqlite3_errmsg(x->db));
    return false;
}

/* Has the answer a row? */
static bool any(export *x, const char *sql, const char *table, const char *column)
{
    sqlite3_stmt *q = NULL;
    if (x->s) return false;
    if (sqlite3_prepare_v2(x->db, sql, -1, &q, NULL) != SQLITE_OK) return broken(x);
    sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
    if (column) sqlite3_bind_text(q, 2, column, -1, SQLITE_STATIC);
    int code = sqlite3_step(q);
    if (code != SQLITE_ROW && code != SQLITE_DONE) broken(x);
    sqlite3_finalize(q);
    return code == SQLITE_ROW;
}

/* Has the table this column? (I1, I3) */
static bool has(export *x, const char *table, const char *column)
{
    bool computed = any(x,
                        "select 1 from pragma_table_list where schema = 'main' and name = ?1 and "
                        "type <> 'table' union all select 1 from pragma_table_xinfo(?1) where "
                        "hidden <> 0",
                        table, NULL);
    if (computed && !x->s)
        x->s = error_set(x->err, ERR_INPUT,
                         "%s: %s is not a plain table: not an export of Nsight Systems; repair: "
                         "export it again (nsys export --type sqlite)",
                         x->path, table);
    return any(x, "select 1 from pragma_table_info(?1) where name = ?2", table, column);
}

/* ---- rows */

typedef void (*row_taker)(export *x, sqlite3_stmt *q);

static void each(export *x, const char *sql, row_taker take)
{
    sqlite3_stmt *q = NULL;
    if (x->s) return;
    if (sqlite3_prepare_v2(x->db, sql, -1, &q, NULL) != SQLITE_OK) {
        broken(x);
        return;
    }
    int code = SQLITE_ROW;
    while (!x->s && (code = sqlite3_step(q)) == SQLITE_ROW) {
        take(x, q);
        if (x->e->n_kernels + x->e->n_calls + x->e->n_ranges > EVENTS_MAX)
            x->s = error_set(x->err, ERR_INPUT,
                             "%s: more than %d million events; repair: profile "
                             "fewer steps",
                             x->path, EVENTS_MAX >> 20);
    }
    if (!x->s && code != SQLITE_DONE) broken(x);
    sqlite3_finalize(q);
}

static double at(export *x, sqlite3_stmt *q, int column)
{
    sqlite3_int64 t = sqlite3_column_int64(q, column);
    if (!x->e->has_base) x->e->base = (double)t;
    x->e->has_base = true;
    return ((double)t - x->e->base) * 1e-9; /* I2 */
}

static int name_of(export *x, sqlite3_stmt *q, int column, const char *other)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    return profile_intern(x->e, text && *text ? text : other);
}

/* The process is in bits 24 to 47 of nsys's global ids (I2). */
static int64_t correlation(sqlite3_stmt *q, int id, int global)
{
    if (sqlite3_column_type(q, id) == SQLITE_NULL) return -1;
    uint64_t process = ((uint64_t)sqlite3_column_int64(q, global) >> 24) & 0xffffff;
    return (int64_t)(process << 32 | ((uint64_t)sqlite3_column_int64(q, id) & 0xffffffff));
}

/* start, end, name, device, stream, correlation, globalPid */
static void take_kernel(export *x, sqlite3_stmt *q)
{
    profile_kernel k = {.group = -1, .name = name_of(x, q, 2, "(no name)")};
    k.start = at(x, q, 0);
    k.end = at(x, q, 1);
    k.device = sqlite3_column_int(q, 3) & 0xffff;
    k.stream = sqlite3_column_int(q, 4) & 0xffff;
    k.correlation = correlation(q, 5, 6);
    if (k.end >= k.start) events_kernel(x->e, k);
}

/* start, end, name, globalTid, correlation */
static void take_call(export *x, sqlite3_stmt *q)
{
    profile_call c = {.name = name_of(x, q, 2, "call"), .thread = sqlite3_column_int64(q, 3)};
    c.start = at(x, q, 0);
    c.end = at(x, q, 1);
    c.correlation = correlation(q, 4, 3);
    if (c.end >= c.start) events_call(x->e, c);
}

/* start, end, text, globalTid */
static void take_range(export *x, sqlite3_stmt *q)
{
    profile_range r = {.name = name_of(x, q, 2, ""), .thread = sqlite3_column_int64(q, 3)};
    const char *name = x->e->names[r.name];
    r.start = at(x, q, 0);
    r.end = at(x, q, 1);
    r.frame = !text_starts(name, "aten::") && !strstr(name, "Backward") && !strstr(name, "op_id");
    if (text_starts(name, "iteration") || text_starts(name, "ProfilerStep#")) x->e->n_steps++;
    if (r.end >= r.start) events_range(x->e, r);
}

static void take_gpu(export *x, sqlite3_stmt *q)
{
    const char *name = (const char *)sqlite3_column_text(q, 0);
    if (name && !x->p->gpu) x->p->gpu = arena_text(x->e->a, "%s", text_visible(x->e->a, name));
}

/* ---- tables */

static void read_kernels(export *x)
{
    if (!has(x, "CUPTI_ACTIVITY_KIND_KERNEL", "correlationId")) return;
    bool whole = has(x, "CUPTI_ACTIVITY_KIND_KERNEL", "demangledName");
    const char *form = "select k.start, k.end, s.value, k.deviceId, k.streamId, k.correlationId, "
                       "%s from CUPTI_ACTIVITY_KIND_KERNEL k left join StringIds s on s.id = k.%s";
    bool process = has(x, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid");
    each(x,
         arena_text(x->e->a, form, process ? "k.globalPid" : "0",
                    whole ? "demangledName" : "shortName"),
         take_kernel);
}

/* copyKind 1: host to device, 2: device to host; 8: on the device. */
static void read_copies(export *x)
{
    const char *tail = "deviceId, streamId, correlationId, globalPid from CUPTI_ACTIVITY_KIND_";
    if (has(x, "CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind"))
        each(x,
             arena_text(x->e->a,
                        "select start, end, case copyKind when 1 then 'Memcpy HtoD' when 2 then "
                        "'Memcpy DtoH' else 'Memcpy DtoD' end, %sMEMCPY",
                        tail),
             take_kernel);
    if (has(x, "CUPTI_ACTIVITY_KIND_MEMSET", "correlationId"))
        each(x, arena_text(x->e->a, "select start, end, 'Memset', %sMEMSET", tail), take_kernel);
}

static void read_host(export *x)
{
    if (has(x, "CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"))
        each(x,
             "select r.start, r.end, s.value, r.globalTid, r.correlationId from "
             "CUPTI_ACTIVITY_KIND_RUNTIME r left join StringIds s on s.id = r.nameId",
             take_call);
    if (!has(x, "NVTX_EVENTS", "text")) return;
    bool ids = has(x, "NVTX_EVENTS", "textId");
    each(x,
         ids ? "select n.start, n.end, coalesce(n.text, s.value), n.globalTid from NVTX_EVENTS n "
               "left join StringIds s on s.id = n.textId where n.end is not null"
             : "select start, end, text, globalTid from NVTX_EVENTS where end is not null",
         take_range);
}

/* What SQLite looks at beside the file, and would wait for. */
static void check_beside(export *x)
{
    static const char *const tails[] = {"-journal", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0] && !x->s; i++) {
        const char *path = arena_text(x->e->a, "%s%s", x->path, tails[i]);
        if (file_exists(path) && !file_is_plain(path))
            x->s = error_set(x->err, ERR_INPUT, "%s: is not a file; repair: remove it", path);
    }
}

status nsight_read(profile *out, profile_events *e, const char *path, error *err)
{
    export x = {.path = path, .p = out, .e = e, .err = err};
    out->source = SOURCE_NSIGHT;
    check_beside(&x);
    /* The file is never written to, and may lie where nothing can be written. */
    if (!x.s && sqlite3_open_v2(path, &x.db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) broken(&x);
    if (!x.s && has(&x, "StringIds", "value")) {
        read_kernels(&x);
        read_copies(&x);
        read_host(&x);
        if (has(&x, "TARGET_INFO_GPU", "name"))
            each(&x, "select name from TARGET_INFO_GPU order by id", take_gpu);
    }
    sqlite3_close(x.db);
    if (x.s) return x.s;
    if (!e->n_kernels)
        return error_set(
            err, ERR_INPUT,
            "%s: an SQLite file without kernels (no rows in "
            "CUPTI_ACTIVITY_KIND_KERNEL): not an export of Nsight Systems, or CUDA was "
            "not traced; repair: nsys profile --trace cuda,nvtx, then nsys export "
            "--type sqlite",
            path);
    return OK;
}
