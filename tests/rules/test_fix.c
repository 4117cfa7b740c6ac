/* rules_fix: for random broken recipes, what it prints makes them valid, and no part of it is
 * needless.
 *
 * FIX_SEED=n FIX_RECIPES=1 in the environment tries one recipe again. */
#include "config/models/models.h"
#include "rules/testing.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/maths.h"

enum { RECIPES = 1500, SECONDS = 20, BASES_MAX = 64, KNOBS_MOST = 12 };

static const char *bases[BASES_MAX];
static int n_bases;
static arena *names;

/* ---- random numbers: splitmix64 */

typedef struct dice {
    uint64_t state;
} dice;

static uint64_t roll(dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(dice *d, int n)
{
    return (int)(roll(d) % (uint64_t)n);
}

#define PICK(d, list) ((list)[below((d), (int)(sizeof(list) / sizeof((list)[0])))])

/* ---- bases */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool add_files(const char *folder, const char *ending)
{
    DIR *open = opendir(folder);
    if (!open) return false;
    int first = n_bases;
    for (struct dirent *e; (e = readdir(open)) && n_bases < BASES_MAX;)
        if (strstr(e->d_name, ending))
            bases[n_bases++] = arena_text(names, "%s/%s", folder, e->d_name);
    closedir(open);
    qsort(bases + first, (size_t)(n_bases - first), sizeof *bases, by_name);
    return n_bases > first;
}

static int find_bases(void **state)
{
    (void)state;
    names = arena_create();
    int n;
    const char *const *presets = model_presets(&n);
    for (int i = 0; i < n; i++) bases[n_bases++] = presets[i];
    return add_files("recipes", ".yaml") && add_files("tests/data/megatron", ".txt") ? 0 : -1;
}

static int forget_bases(void **state)
{
    (void)state;
    arena_destroy(names);
    return 0;
}

/* ---- random values */

static const char *random_int(dice *d, const knob *k, arena *a)
{
    static const int64_t some[] = {0,  1,  2,   3,    4,    5,          6,         7,
                                   8,  9,  12,  16,   24,   32,         48,        61,
                                   64, 96, 100, 128,  512,  1000,       1024,      4096,
                                   -1, -7, 99,  8192, 4095, 1000000000, 131072,    1048577,
                                   36, 72, 256, 2048, 18,   10000019,   INT64_MAX, INT64_MIN};
    int64_t n = PICK(d, some);
    const char *dots = k->allowed ? strstr(k->allowed, "..") : NULL;
    if (dots && below(d, 6) == 0) n = strtoll(k->allowed, NULL, 10) - below(d, 2);
    if (dots && dots[2] && below(d, 8) == 0) n = strtoll(dots + 2, NULL, 10) + below(d, 2);
    return arena_text(a, "%" PRId64, n);
}

static const char *random_float(dice *d)
{
    static const char *const some[] = {"0.0", "0.5",  "1.0",  "1.5", "-1.0", "1e-5",
                                       "2",   "1e30", "0.25", "10",  "0.1",  "1e-300"};
    return PICK(d, some);
}

static const char *random_word(dice *d, const knob *k, arena *a)
{
    static const char *const odd[] = {"allgathr", "x", "'{TP}'", "none", "FULL", "moe_akt"};
    if (below(d, 8) == 0) return PICK(d, odd);
    int n = 1;
    for (const char *p = k->allowed; *p; p++) n += *p == '|';
    const char *p = k->allowed;
    for (int skip = below(d, n); skip; skip--) p = strchr(p, '|') + 1;
    return arena_copy(a, p, strcspn(p, "|"));
}

static const char *random_text(dice *d, knob_id k)
{
    static const char *const layouts[] = {"Et|(tt|)*30mL", "Et*30|t*31L", "Et*12|(t*12|)*2t*12L",
                                          "E|t*48|L",      "EtL",         "E||L",
                                          "Et|(tt|*30L",   "Etq|L",       "Et*4|t*4|t*4|t*4L"};
    static const char *const others[] = {"x", "null", "'a b'", "/tmp/nowhere"};
    return k == K_PP_LAYOUT ? PICK(d, layouts) : PICK(d, others);
}

static const char *random_one(dice *d, knob_id k, arena *a)
{
    if (below(d, 16) == 0) return "null";
    switch (knobs[k].kind) {
    case BOOL:
        return below(d, 2) ? "true" : "false";
    case INT:
        return random_int(d, &knobs[k], a);
    case FLOAT:
        return random_float(d);
    case ENUM:
        return random_word(d, &knobs[k], a);
    case TEXT:
        return random_text(d, k);
    }
    return "null";
}

static const char *random_value(dice *d, knob_id k, arena *a)
{
    bool list = knobs[k].form == LIST || (knobs[k].form == EITHER && below(d, 3) == 0);
    if (!list) return random_one(d, k, a);
    textbuf t = text_init(a);
    text_add(&t, "[");
    int n = below(d, 24) ? below(d, 4) : 48;
    for (int i = 0; i < n; i++) text_add(&t, "%s%s", i ? "," : "", random_one(d, k, a));
    text_add(&t, "]");
    return t.s;
}

/* What people turn most is turned most: sizes and switches of the layout. */
static knob_id random_knob(dice *d)
{
    static const knob_id often[] = {
        K_TP,         K_CP,        K_PP,         K_EP,        K_ETP,    K_N_GPUS,
        K_VPP,        K_PP_LAYOUT, K_SEQ,        K_GBS,       K_MBS,    K_GPU,
        K_DISPATCHER, K_FLEX,      K_EP_OVERLAP, K_RECOMPUTE, K_GRAPHS, K_GRAPH_MODULES,
        K_PRECISION,  K_LAYERS,    K_DIST_OPT,   K_OFFLOAD,   K_MTP,    K_FIRST_LAYERS,
        K_EXPERTS};
    knob_id k;
    do k = below(d, 3) ? (knob_id)below(d, K_COUNT) : PICK(d, often);
    while (k == K_MODEL);
    return k;
}

static const char *random_override(dice *d, arena *a)
{
    knob_id k = random_knob(d);
    const char *key = knobs[k].key;
    if (knobs[k].alias && below(d, 10) == 0)
        key = arena_copy(a, knobs[k].alias, strcspn(knobs[k].alias, " "));
    return arena_text(a, "%s=%s", key, random_value(d, k, a));
}

/* ---- what was tried, for a failure or a crash */

static char tried[1 << 16];

static void on_crash(int signal_number)
{
    if (write(STDERR_FILENO, tried, strlen(tried)) < 0) _exit(3);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void note(uint64_t seed, const char *base, bool lm)
{
    snprintf(tried, sizeof tried, "FIX_SEED=%" PRIu64 ": %s%s", seed, lm ? "lm " : "", base);
}

static void note_override(const char *assignment)
{
    size_t n = strlen(tried);
    snprintf(tried + n, sizeof tried - n, " %s", assignment);
}

/* ---- one recipe */

typedef struct tally {
    int n, unreadable, valid, fixed, overrides;
    double worst_ms, sum_ms;
    char worst[1 << 16];
} tally;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool make_random(made *x, uint64_t seed)
{
    dice d = {seed * 0x2545f4914f6cdd1du};
    const char *base = bases[below(&d, n_bases)];
    bool lm = below(&d, 4) == 0;
    note(seed, base, lm);
    made_begin(x);
    if (lm) recipe_set_system(&x->wrote, MEGATRON_LM, "test");
    if (made_name(x, base)) fail_msg("%s: %s", tried, x->err.text);
    for (int n = 1 + below(&d, KNOBS_MOST); n > 0; n--) {
        const char *assignment = random_override(&d, x->a);
        note_override(assignment);
        if (!recipe_override(&x->wrote, assignment, "test", &x->err)) continue;
        if (!*x->err.text) fail_msg("%s: no message", tried);
        x->err.text[0] = 0;
    }
    status st = made_resolve(x);
    if (st && (st != ERR_INPUT || !*x->err.text)) fail_msg("%s: %d, no message", tried, st);
    return !st;
}

static bool is_valid_with(const made *x, const char *const *set, bool say)
{
    made y;
    bool valid = !made_again(&y, x, set) && !y.found.n_errors;
    if (!valid && say) {
        print_message("%s\n", y.err.text);
        print_errors(&y.found);
    }
    made_release(&y);
    return valid;
}

static void check_minimal(made *x, const char *const *set)
{
    int n = count_words(set);
    const char **without = ARENA_ARRAY(x->a, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        int kept = 0;
        for (int j = 0; j < n; j++)
            if (j != i) without[kept++] = set[j];
        without[kept] = NULL;
        if (is_valid_with(x, without, false)) fail_msg("%s\n  %s is needless", tried, set[i]);
    }
}

static void try_one(uint64_t seed, tally *t)
{
    made x;
    t->n++;
    if (make_random(&x, seed)) {
        rules_check(&x.found, &x.s, false, x.a);
        for (int i = 0; i < x.found.n; i++)
            if (!*x.found.list[i].message) fail_msg("%s: no message", tried);
        const char *const *set = NULL;
        double start = now_ms();
        bool found = (set = fix_words(&x.r, x.a)) != NULL;
        double took = now_ms() - start;
        if (!found) {
            print_errors(&x.found);
            fail_msg("%s\n  no fix", tried);
        }
        if (took > t->worst_ms) memcpy(t->worst, tried, sizeof tried);
        t->worst_ms = took > t->worst_ms ? took : t->worst_ms;
        t->sum_ms += took;
        t->valid += !x.found.n_errors;
        t->fixed += x.found.n_errors > 0;
        t->overrides += count_words(set);
        if (!x.found.n_errors && count_words(set)) fail_msg("%s\n  is valid, %s", tried, *set);
        if (!is_valid_with(&x, set, true)) fail_msg("%s\n  the fix does not mend it", tried);
        check_minimal(&x, set);
    } else {
        t->unreadable++;
    }
    made_release(&x);
}

static void fix_makes_random_recipes_valid(void **state)
{
    (void)state;
    static tally t;
    const char *seed = getenv("FIX_SEED"), *recipes = getenv("FIX_RECIPES");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    int most = recipes ? atoi(recipes) : RECIPES;
    static const int deadly[] = {SIGSEGV, SIGFPE, SIGABRT, SIGILL, SIGBUS};
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], on_crash);
    double end = now_ms() + SECONDS * 1e3;
    while (t.n < most && (recipes || now_ms() < end)) try_one(first + (uint64_t)t.n, &t);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], SIG_DFL);
    print_message("%d recipes: %d not readable, %d valid, %d fixed with %.1f overrides each; "
                  "%.2f ms a fix, worst %.1f ms\n",
                  t.n, t.unreadable, t.valid, t.fixed, t.overrides / (double)(t.fixed + !t.fixed),
                  t.sum_ms / (t.fixed + t.valid + 1), t.worst_ms);
    if (recipes) print_message("worst: %s\n", t.worst);
    assert_true(recipes || (t.fixed > t.n / 4 && t.valid > 0 && t.unreadable > 0));
}

/* ---- valid recipes */

static void valid_recipes_need_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < n_bases; i++) {
        made x;
        made_good(&x, bases[i], "");
        const char *const *set = NULL;
        assert_int_equal(x.found.n_errors, 0);
        assert_non_null(set = fix_words(&x.r, x.a));
        assert_int_equal(count_words(set), 0);
        made_release(&x);
    }
}

/* ---- one mistake */

static const char *const mistakes[] = {
    "TP=3",
    "TP=0",
    "CP=3",
    "PP=7",
    "EP=7",
    "EP=1000000",
    "N_GPUS=100",
    "GBS=7",
    "SEQ=1000000007",
    "DISPATCHER=allgathr",
    "FIRST_LAYERS=3",
    "RECOMPUTE=full",
    "RECOMPUTE_MODULES=[moe_akt]",
    "GRAPHS=full_iteration",
    "GRAPH_MODULES=[attn,moe]",
    "EP_OVERLAP=true",
    "SP=true",
    "FP16=true",
    "FP4=e2m1",
    "DIST_OPT=false",
    "MIN_LR=1.0",
    "HEADS=7",
    "KV_HEADS=5",
    "LAYERS=0",
    "TOPK=0",
    "EXPERTS=5",
    "MOE_FREQ=0",
    "CP_COMM=a2a+p2p",
    "TE_RNG=false",
};

/* The set has at most as many overrides as the first repair of the first error, where there is one
 * that does. */
static void one_mistake_needs_one_repair(void **state)
{
    (void)state;
    for (int b = 0; b < n_bases; b++)
        for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
            made x;
            if (made_init(&x, bases[b], mistakes[i]) || !x.found.n_errors) {
                made_release(&x);
                continue;
            }
            const char *const *set = NULL;
            assert_non_null(set = fix_words(&x.r, x.a));
            const violation *v = &x.found.list[0];
            assert_true(v->n_repairs > 0);
            int first = count_words(edits_words(v->repairs[0], x.a));
            if (count_words(set) > first) {
                print_message("%s %s: %d overrides, the first repair has %d\n", bases[b],
                              mistakes[i], count_words(set), first);
                for (const char *const *p = set; *p; p++) print_message("    %s\n", *p);
                print_errors(&x.found);
                fail();
            }
            made_release(&x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_recipes_need_nothing),
        cmocka_unit_test(one_mistake_needs_one_repair),
        cmocka_unit_test(fix_makes_random_recipes_valid),
    };
    return cmocka_run_group_tests(tests, find_bases, forget_bases);
}
