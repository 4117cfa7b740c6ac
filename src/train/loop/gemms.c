/* gemms.c - reports which cuBLASLt algorithms the GEMMs of a run use, and who chose them.
 *
 * A resumed run must use the algorithms that it had before. A new run uses those that `bench` tuned
 * on this machine, if any. Either is reported before the first step, with the number of GEMMs whose
 * algorithm is not the heuristic's first choice. Devices without such a library report nothing. */
#include "answer/answer.h"
#include "train/loop/state.h"

enum { PRODUCTS_MAX = 256 };

typedef struct tally {
    int n, of[LT_SOURCES], others; /* others: not the heuristic's first */
} tally;

static tally count(const trainer *t)
{
    tally c = {0};
    lt_use *list = ARENA_ARRAY(t->a, lt_use, PRODUCTS_MAX);
    c.n = executor_gemms(t->e, list, PRODUCTS_MAX);
    if (c.n > PRODUCTS_MAX) c.n = PRODUCTS_MAX;
    for (int i = 0; i < c.n; i++) {
        c.of[list[i].from]++;
        c.others += list[i].place != 0;
    }
    return c;
}

status trainer_gemms(trainer *t, error *err)
{
    const tally c = count(t);
    if (c.n == 0) return OK;
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(t->a,
                           "[Rank 0] GEMM by cuBLASLt: %d shapes; algorithms: %d kept by the run, "
                           "%d tuned by `bench`, %d the heuristic's first choice; %d differ from "
                           "that",
                           c.n, c.of[LT_KEPT], c.of[LT_TUNED], c.of[LT_FIRST], c.others));
    const products_event x = {"products",     c.n,     c.of[LT_KEPT], c.of[LT_TUNED],
                              c.of[LT_FIRST], c.others};
    return trainer_event(t, answer_json(products_event, &x), err);
}
