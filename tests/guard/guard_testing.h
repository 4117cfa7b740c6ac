/* guard_testing.h - a training run on ranks that are threads, and the state that it leaves.
 *
 * A run is trained as `moefold train --plain` trains, and its state is read from the checkpoint
 * that it writes: whatever regions, types and orders the program gives its arrays, a checkpoint has
 * each weight, its first and its second moment under a name, in FP32, in boxes with their place in
 * the whole. Sums here are over whole weights, so they do not depend on who writes which box. */
#ifndef TESTS_GUARD_GUARD_TESTING_H
#define TESTS_GUARD_GUARD_TESTING_H

#include "ir/testing.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "rules/rules.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ranks_testing.h"
#include "train/loop/trainer.h"

enum { GUARD_WEIGHTS_MAX = 256, GUARD_NAME_MAX = 120, GUARD_KINDS = 3, GUARD_RANKS_MAX = 16 };

static const char *const guard_kinds[GUARD_KINDS] = {"weights", "exp_avg", "exp_avg_sq"};

typedef struct guard_weight {
    char name[GUARD_NAME_MAX];
    uint64_t sum[GUARD_KINDS];
    int64_t elements[GUARD_KINDS], whole;
} guard_weight;

typedef struct guard_state {
    guard_weight list[GUARD_WEIGHTS_MAX];
    int n;
    uint64_t total[GUARD_KINDS];
    checkpoint_state counters;
} guard_state;

/* ---- folders */

static inline const char *guard_folder(arena *a)
{
    const char *above = getenv("TMPDIR");
    if (!above) above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char *folder = arena_text(a, "%s/moefold-guard-XXXXXX", above);
    if (!mkdtemp(folder)) fail_msg("%s cannot be made", folder);
    return folder;
}

static inline int guard_remove_one(const char *path, const struct stat *info, int kind,
                                   struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline void guard_remove(const char *folder)
{
    (void)nftw(folder, guard_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- training */

typedef struct guard_run {
    const char *model, *words; /* FP32, and a checkpoint at the end: see guard_train */
    const char *metrics;
    const char *device; /* NULL: as a user's run has it */
    int threads;        /* of a rank; 0: 1 */
    train_summary sum;
    status s[GUARD_RANKS_MAX];
    error err[GUARD_RANKS_MAX];
    char *said; /* lines and messages; freed by the caller */
} guard_run;

static inline void guard_rank(comm *c, void *with)
{
    guard_run *g = with;
    int64_t rank = comm_rank(c);
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    train_summary *sum = ARENA_NEW(a, train_summary);
    train_options o = {.plain = true, .threads = g->threads ? g->threads : 1};
    if (rank == 0) o.metrics = g->metrics;
    o.device = g->device;
    setup_of_words(s, a, g->model, g->words);
    g->s[rank] = comm_groups(c, s, &g->err[rank]);
    if (!g->s[rank]) g->s[rank] = trainer_run(s, c, &o, sum, a, &g->err[rank]);
    if (rank == 0) g->sum = *sum;
    arena_destroy(a);
}

static inline int guard_ranks(const char *of, const char *words)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    violations found;
    setup_of_words(s, a, of, words);
    rules_check(&found, s, false, a);
    if (found.n_errors) fail_msg("%s %s: %s", of, words, found.list[0].message);
    int n = (int)s->lay.world;
    if (n < 1 || n > GUARD_RANKS_MAX) fail_msg("%s: %d ranks", words, n);
    arena_destroy(a);
    return n;
}

/* What ranks print is caught: the standard output is the test's own. */
static inline void guard_train(guard_run *g)
{
    error err = {{0}};
    int n = guard_ranks(g->model, g->words);
    FILE *file = tmpfile();
    if (!file) fail_msg("no temporary file");
    fflush(NULL);
    int out = dup(STDOUT_FILENO), other = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    status s = ranks_run(n, guard_rank, g, &err);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(other, STDERR_FILENO);
    close(out);
    close(other);
    long size = ftell(file);
    rewind(file);
    g->said = calloc(1, (size_t)size + 1);
    if (fread(g->said, 1, (size_t)size, file) != (size_t)size) fail_msg("what was said is lost");
    fclose(file);
    if (s) fail_msg("%s: %s", g->words, err.text);
}

/* ---- the state in a checkpoint */

static inline uint64_t guard_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Of an element: its bits and its number in the whole weight. Sums of these do not depend on the
 * order in which elements come. */
static inline uint64_t guard_element(uint32_t bits, int64_t index)
{
    return guard_mix(guard_mix((uint64_t)index + 0x9e3779b97f4a7c15u) + bits);
}

static inline guard_weight *guard_find(guard_state *s, const char *name, size_t n)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->list[i].name) == n && strncmp(s->list[i].name, name, n) == 0)
            return &s->list[i];
    if (s->n == GUARD_WEIGHTS_MAX || n >= GUARD_NAME_MAX) fail_msg("no room for %s", name);
    guard_weight *w = &s->list[s->n++];
    memset(w, 0, sizeof *w);
    memcpy(w->name, name, n);
    return w;
}

/* "of 8,64,64 at 0,32,0 xxh64 ..." */
static inline int guard_numbers(const char *text, const char *word, int64_t *out)
{
    int n = 0;
    const char *at = strstr(text, word);
    if (!at) fail_msg("\"%s\" has no '%s'", text, word);
    for (at += strlen(word); n < 8;) {
        char *end;
        out[n++] = strtoll(at, &end, 10);
        if (*end != ',') break;
        at = end + 1;
    }
    return n;
}

static inline void guard_box(guard_state *s, int kind, const char *name, const char *note,
                             json_t *spec, const char *data)
{
    int64_t of[8], at[8], dim[8], index[8] = {0}, elements = 1, whole = 1;
    int n = guard_numbers(note, "of ", of);
    guard_numbers(note, " at ", at);
    json_t *shape = json_object_get(spec, "shape");
    if (strcmp(json_string_value(json_object_get(spec, "dtype")), "F32") != 0)
        fail_msg("%s is not FP32", name);
    assert_int_equal(json_array_size(shape), n);
    for (int d = 0; d < n; d++) {
        dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
        elements *= dim[d];
        whole *= of[d];
    }
    guard_weight *w = guard_find(s, name, strcspn(name, "["));
    data += json_integer_value(json_array_get(json_object_get(spec, "data_offsets"), 0));
    for (int64_t i = 0; i < elements; i++) {
        int64_t place = 0;
        uint32_t bits;
        for (int d = 0; d < n; d++) place = place * of[d] + at[d] + index[d];
        memcpy(&bits, data + 4 * i, 4);
        w->sum[kind] += guard_element(bits, place);
        for (int d = n - 1; d >= 0 && ++index[d] == dim[d]; d--) index[d] = 0;
    }
    w->elements[kind] += elements;
    w->whole = whole;
}

static inline void guard_file(guard_state *s, int kind, const char *path)
{
    arena *a = arena_create();
    char *bytes;
    size_t n;
    uint64_t header;
    error err;
    if (file_read(a, path, 1 << 28, &bytes, &n, &err)) fail_msg("%s", err.text);
    memcpy(&header, bytes, 8);
    json_t *json = json_loadb(bytes + 8, (size_t)header, 0, NULL), *spec;
    json_t *notes = json_object_get(json, "__metadata__");
    const char *name;
    if (!json) fail_msg("%s cannot be read", path);
    json_object_foreach(json, name, spec)
    {
        if (spec == notes) continue;
        const char *note = json_string_value(json_object_get(notes, name));
        if (!note) fail_msg("%s: %s has no note", path, name);
        guard_box(s, kind, name, note, spec, bytes + 8 + header);
    }
    json_decref(json);
    arena_destroy(a);
}

static inline int guard_by_name(const void *a, const void *b)
{
    return strcmp(((const guard_weight *)a)->name, ((const guard_weight *)b)->name);
}

static inline void guard_counters(guard_state *s, const char *folder)
{
    arena *a = arena_create();
    json_t *json = json_load_file(arena_text(a, "%s/metadata.json", folder), 0, NULL);
    json_t *state = json_object_get(json, "state");
    if (!state) fail_msg("%s: has no counters", folder);
#define GUARD_COUNTER(name) s->counters.name = json_integer_value(json_object_get(state, #name));
    CHECKPOINT_COUNTERS(GUARD_COUNTER)
#undef GUARD_COUNTER
    json_decref(json);
    arena_destroy(a);
}

/* Every element of every weight must be there once; moments may be missing for what is untrained.
 */
static inline void guard_totals(guard_state *s)
{
    qsort(s->list, (size_t)s->n, sizeof *s->list, guard_by_name);
    for (int i = 0; i < s->n; i++) {
        const guard_weight *w = &s->list[i];
        uint64_t name = 0;
        for (const char *c = w->name; *c; c++) name = guard_mix(name + (unsigned char)*c);
        for (int k = 0; k < GUARD_KINDS; k++) {
            if (w->elements[k] != w->whole && (k == 0 || w->elements[k]))
                fail_msg("%s: %lld elements of %lld in %s", w->name, (long long)w->elements[k],
                         (long long)w->whole, guard_kinds[k]);
            s->total[k] += guard_mix(w->sum[k] ^ name);
        }
    }
}

/* What iteration `step` of the checkpoints in `folder` holds. */
static inline guard_state *guard_read(const char *folder, int64_t step)
{
    guard_state *s = calloc(1, sizeof *s);
    arena *a = arena_create();
    const char *inside = arena_text(a, "%s/iter_%07lld", folder, (long long)step);
    DIR *d = opendir(inside);
    if (!d) fail_msg("%s is not there", inside);
    for (struct dirent *f; (f = readdir(d));)
        for (int k = 0; k < GUARD_KINDS; k++) {
            size_t n = strlen(guard_kinds[k]);
            if (strncmp(f->d_name, guard_kinds[k], n) == 0 && f->d_name[n] == '-')
                guard_file(s, k, arena_text(a, "%s/%s", inside, f->d_name));
        }
    closedir(d);
    guard_counters(s, inside);
    guard_totals(s);
    arena_destroy(a);
    return s;
}

/* The first weight that differs is named. */
static inline void guard_same(const guard_state *a, const guard_state *b, const char *what)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->list[i].name, b->list[i].name);
        for (int k = 0; k < GUARD_KINDS; k++)
            if (a->list[i].sum[k] != b->list[i].sum[k])
                fail_msg("%s: %s of %s differ", what, guard_kinds[k], a->list[i].name);
    }
#define GUARD_COUNTER(name)                                                                        \
    if (a->counters.name != b->counters.name)                                                      \
        fail_msg("%s: " #name " is %lld and %lld", what, (long long)a->counters.name,              \
                 (long long)b->counters.name);
    CHECKPOINT_COUNTERS(GUARD_COUNTER)
#undef GUARD_COUNTER
}

#endif
