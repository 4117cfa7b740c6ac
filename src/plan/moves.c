/* moves.c - the table of moves. */
#include "plan/moves.h"

#include "config/judgement.h"
#include "config/target.h"
#include "ir/segment.h"
#include "job/cp_kind.h"
#include "job/dispatcher.h"

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

edits move_recompute(unsigned drop, arena *a)
{
    if (!drop || drop == DROP_FULL) return moves[drop ? MOVE_FULL_RECOMPUTE : MOVE_NO_RECOMPUTE].e;
    signed char *word = ARENA_ARRAY(a, signed char, DROP_MODULES);
    size_t n = 0;
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop_modules[i].drop & drop) word[n++] = (signed char)drop_modules[i].listed;
    edit *list = ARENA_ARRAY(a, edit, 4);
    list[0] = (edit)SET_WORD(RECOMPUTE, SELECTIVE);
    list[1] = (edit){K_RECOMPUTE_MODULES, EDIT_WORDS, {.words = {word, n}}};
    list[2] = (edit)SET_NULL(RECOMPUTE_METHOD);
    list[3] = (edit)SET_NULL(RECOMPUTE_LAYERS);
    return (edits){list, 4};
}

edits move_optimizer(int quarters, arena *a)
{
    edit *list = ARENA_ARRAY(a, edit, 3);
    list[0] = (edit)SET_FLAG(OPT_OFFLOAD, quarters > 0);
    list[1] = quarters % 4 ? (edit)SET_REAL(OPT_OFFLOAD_FRACTION, quarters / 4.0)
                           : (edit)SET_NULL(OPT_OFFLOAD_FRACTION);
    list[2] = (edit)SET_FLAG(OPT_STATES, false);
    return (edits){list, 3};
}
