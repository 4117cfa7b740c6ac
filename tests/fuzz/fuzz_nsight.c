/* fuzz_nsight.c - SQLite files, as exports of Nsight Systems are.
 *
 * Most inputs are SQL, one statement a line, run in a new file that has the tables of an export:
 * rows, views in place of tables, computed columns, triggers, other types. The rest, told by their
 * first byte, are the bytes of a file.
 *
 * I1  Reading ends, and runs nothing that stands in the file.
 * I2  What is taken adds up. */
#include "fuzz/adds_up.h"
#include "fuzz/mutate.h"

#include <sqlite3.h>
#include <unistd.h>

enum { STEPS_MOST = 20000, LENGTH_MOST = 1 << 16, BYTES = 'B' };

static const char tables[] =
    "create table StringIds (id integer not null primary key, value text not null);"
    "create table TARGET_INFO_GPU (id integer, name text);"
    "create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer,"
    " streamId integer, correlationId integer, globalPid integer, demangledName integer,"
    " shortName integer);"
    "create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer,"
    " streamId integer, correlationId integer, globalPid integer, copyKind integer);"
    "create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer,"
    " correlationId integer, nameId integer);"
    "create table NVTX_EVENTS (start integer, end integer, text text, globalTid integer,"
    " textId integer);"
    "insert into StringIds values (1, 'ncclDevKernel_SendRecv'), (2, 'cudaLaunchKernel');"
    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (1000, 3000, 0, 7, 1, 16777216, 1, 1);"
    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (500, 600, 16777217, 1, 2);";

static char path[64];

static void clean_up(void)
{
    (void)unlink(path);
}

static void prepare(void)
{
    const char *above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (*path) return;
    snprintf(path, sizeof path, "%s/moefold-nsight-%ld", above, (long)getpid());
    atexit(clean_up);
}

static int too_long(void *with)
{
    (void)with;
    return 1;
}

/* Statement by statement: one that cannot be run does not end the others. */
static void build(const uint8_t *data, size_t n)
{
    sqlite3 *db = NULL;
    arena *a = arena_create();
    char *line = arena_copy(a, (const char *)data, n);
    MUST(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_MOST);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    MUST(sqlite3_exec(db, "pragma journal_mode=off; pragma synchronous=off; begin", NULL, NULL,
                      NULL) == SQLITE_OK);
    MUST(sqlite3_exec(db, tables, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_progress_handler(db, STEPS_MOST, too_long, NULL);
    for (char *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        sqlite3_exec(db, line, NULL, NULL, NULL);
    }
    sqlite3_exec(db, "commit", NULL, NULL, NULL);
    MUST(sqlite3_close(db) == SQLITE_OK);
    arena_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    prepare();
    (void)unlink(path);
    if (n && data[0] == BYTES) {
        FILE *f = fopen(path, "wb");
        MUST(f && fwrite(data + 1, 1, n - 1, f) == n - 1 && fclose(f) == 0);
    } else {
        build(data, n);
    }
    arena *a = arena_create();
    profile p;
    error err = {0};
    if (fuzz_accepted(profile_read(&p, path, 0, a, &err), &err)) fuzz_adds_up(&p, a);
    arena_destroy(a);
    return 0;
}

/* ---- statements */

static const char *const names[] = {
    "StringIds",
    "TARGET_INFO_GPU",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
};

static const char *row(arena *a, unsigned *seed, const char *table)
{
    static const char *const texts[] = {"null",          "'aten::mm'", "x'00ff'",  "1e400",
                                        "'iteration 3'", "''",         "char(27)", "-1"};
    static const int columns[] = {2, 2, 8, 7, 5, 5};
    textbuf t = text_init(a);
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], table) == 0) n = columns[i];
    text_add(&t, "insert or replace into %s values (", table);
    for (int i = 0; i < n; i++) {
        if (i) text_add(&t, ", ");
        if (mutate_random(seed, 6) == 0)
            text_add(&t, "%s", MUTATE_PICK(seed, texts));
        else if (mutate_random(seed, 3) == 0)
            text_add(&t, "%lld", (long long)MUTATE_PICK(seed, mutate_sizes));
        else
            text_add(&t, "%u", mutate_random(seed, 5000));
    }
    text_add(&t, ")");
    return t.s;
}

static const char *statement(arena *a, unsigned *seed)
{
    static const char *const endless =
        "with recursive c(n) as (select 1 union all select n + 1 from c)";
    const char *table = MUTATE_PICK(seed, names), *other = MUTATE_PICK(seed, names);
    switch (mutate_random(seed, 12)) {
    case 0:
        return arena_text(a, "drop table %s", table);
    case 1:
        return arena_text(a, "create view %s as select * from %s", table, other);
    case 2:
        return arena_text(
            a,
            "create view %s as %s select n as id, n as value, n as start, n as end, n "
            "as name, n as correlationId, n as text from c where n < 0",
            table, endless);
    case 3:
        return arena_text(a, "create trigger t%u after insert on %s begin delete from %s; end",
                          mutate_random(seed, 9), table, other);
    case 4:
        return arena_text(a, "alter table %s add column x as (hex(zeroblob(%u)))", table,
                          mutate_random(seed, 60000));
    case 5:
        return arena_text(a, "alter table %s rename to %s", table, other);
    case 6:
        return arena_text(a, "create index i%u on %s (abs(random()))", mutate_random(seed, 9),
                          table);
    case 7:
        return arena_text(a, "create table %s (id, value, start, end, name, correlationId, text)",
                          table);
    default:
        return row(a, seed, table);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    if ((n && data[0] == BYTES) || mutate_random(&seed, 4) == 0)
        return LLVMFuzzerMutate(data, n, max);
    arena *a = arena_create();
    const char *line = statement(a, &seed);
    size_t length = strlen(line);
    if (mutate_random(&seed, 4) == 0) n = 0;
    if (n + length + 1 <= max) {
        if (n) data[n++] = '\n';
        memcpy(data + n, line, length);
        n += length;
    }
    arena_destroy(a);
    return n;
}
