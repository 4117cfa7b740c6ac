/* fixes.c - the rows of fixes.def that a recipe can take.
 *
 * I1  The order is the guides': a fix that gains less may be the safer one to try first. What it
 *     is predicted to bring stands beside it. */
#include "measure/profile/fixes.h"

#include <string.h>

typedef struct fix_row {
    wall w;
    cost_kind kind;
    move_id change; /* MOVES: advice */
    const char *what;
} fix_row;

static const fix_row rows[] = {
#define FIX(w, kind, what, move) {w, kind, MOVE_##move, what},
#define ADVICE(w, what)          {w, COST_OTHER, MOVES, what},
#include "measure/profile/fixes.def"
#undef ADVICE
#undef FIX
};

enum { ROWS = sizeof rows / sizeof rows[0] };

int profile_fixes(profile_fix *out, wall w, cost_kind kind, const change_job *j, arena *a)
{
    move_id changes[ROWS];
    price_change priced[ROWS] = {{0}};
    for (int i = 0; i < ROWS; i++)
        changes[i] = rows[i].w == w && (rows[i].kind == COST_OTHER || rows[i].kind == kind)
                         ? rows[i].change
                         : MOVES;
    price_these(priced, changes, ROWS, j, a);
    int n = 0;
    for (int i = 0; i < ROWS && n < FIXES_MAX; i++) {
        bool advice = rows[i].w == w && rows[i].change == MOVES;
        bool helps = priced[i].words && (w != WALL_MEMORY || priced[i].fits || j->now->fits);
        if (advice || helps) out[n++] = (profile_fix){rows[i].what, priced[i]};
    }
    return n;
}
