/* moves.c - the table of moves. */
#include "plan/moves.h"

#include "job/cp_kind.h"

const move moves[MOVES] = {
#define MOVE(id, by, applies, ...) [MOVE_##id] = {by, EDITS(__VA_ARGS__)},
#include "plan/moves.def"
};

static bool applies(move_id m, const job *j)
{
    switch (m) {
#define MOVE(id, by, applies, ...)                                                                 \
    case MOVE_##id:                                                                                \
        return applies;
#include "plan/moves.def"
    default:
        return false;
    }
}

bool move_edits(edits *out, move_id m, const job *j, arena *a)
{
    return applies(m, j) && edits_resolve(out, moves[m].e, j, a);
}
