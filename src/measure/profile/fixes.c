/* fixes.c - the rows of fixes.def that a recipe can take.
 *
 * I1  The order is the guides': a fix that gains less may be the safer one to try first. What it
 *     is predicted to bring stands beside it. */
#include "measure/profile/fixes.h"

#include <string.h>

typedef struct fix_row {
    wall w;
    cost_kind kind;
    const char *words, *what;
} fix_row;

static const fix_row rows[] = {
#define FIX(w, kind, words, what) {w, kind, words, what},
#include "measure/profile/fixes.def"
#undef FIX
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* "key*2" with the recipe's number; NULL: it cannot be halved, or is not set. */
static const char *expand(const char *words, const setup *s, arena *a)
{
    const char *sign = strpbrk(words, "*/");
    if (!sign || strchr(words, '=')) return words;
    size_t n = (size_t)(sign - words);
    for (int k = 0; k < K_COUNT; k++) {
        if (strlen(knobs[k].key) != n || strncmp(knobs[k].key, words, n) != 0) continue;
        int64_t now = recipe_int(&s->r, (knob_id)k);
        if (now < 1) now = 1;
        if (*sign == '/' && (now < 2 || now % 2)) return NULL;
        return arena_text(a, "%s=%lld", knobs[k].key,
                          (long long)(*sign == '*' ? now * 2 : now / 2));
    }
    return NULL;
}

int profile_fixes(profile_fix *out, wall w, cost_kind kind, const change_job *j, arena *a)
{
    const char *words[ROWS] = {0};
    price_change priced[ROWS] = {{0}};
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    if (setup_init(s, j->given, a, &err)) return 0;
    for (int i = 0; i < ROWS; i++) {
        bool meant = rows[i].w == w && (rows[i].kind == COST_OTHER || rows[i].kind == kind);
        if (meant && *rows[i].words) words[i] = expand(rows[i].words, s, a);
    }
    price_these(priced, words, ROWS, j, a);
    int n = 0;
    for (int i = 0; i < ROWS && n < FIXES_MAX; i++) {
        bool advice = rows[i].w == w && !*rows[i].words;
        if (advice || priced[i].words) out[n++] = (profile_fix){rows[i].what, priced[i]};
    }
    return n;
}
