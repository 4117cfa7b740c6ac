/* products.c - which algorithms of cuBLASLt the run's products have, and whose choice they are.
 *
 * A run that goes on must have those that it had; a run on a machine where `bench` tuned products
 * has those. Either is said before the first step, with how many are not what the library's own
 * heuristic would take. Devices without such a library say nothing. */
#include "run/trainer/state.h"

enum { PRODUCTS_MAX = 256 };

typedef struct tally {
    int n, of[LT_SOURCES], others; /* others: not the heuristic's first */
} tally;

static tally count(const trainer *t)
{
    tally c = {0};
    lt_use *list = ARENA_ARRAY(t->a, lt_use, PRODUCTS_MAX);
    c.n = executor_products(t->e, list, PRODUCTS_MAX);
    if (c.n > PRODUCTS_MAX) c.n = PRODUCTS_MAX;
    for (int i = 0; i < c.n; i++) {
        c.of[list[i].from]++;
        c.others += list[i].place != 0;
    }
    return c;
}

status trainer_products(trainer *t, error *err)
{
    const tally c = count(t);
    if (c.n == 0) return OK;
    trainer_say(t, t->o->json ? stderr : stdout,
                arena_text(t->a,
                           "[Rank 0] GEMM by cuBLASLt: %d shapes; algorithms: %d kept by the run, "
                           "%d tuned by `bench`, %d the heuristic's first choice; %d differ from "
                           "that",
                           c.n, c.of[LT_KEPT], c.of[LT_TUNED], c.of[LT_FIRST], c.others));
    return trainer_event(t,
                         json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "event", "products", "shapes",
                                   c.n, "kept", c.of[LT_KEPT], "tuned", c.of[LT_TUNED], "first",
                                   c.of[LT_FIRST], "other", c.others),
                         err);
}
