/* advice.c - warnings beside what their repairs would cost. */
#include "cli/cli.h"
#include "price/repairs.h"
#include "run/timing.h"

/* `check` answers in milliseconds: a price takes about ten of them. */
static const double ADVICE_SECONDS = 0.04;

void cli_price_advice(violations *found, const recipe *given, const setup *s, arena *a)
{
    error err = {{0}};
    if (!repairs_to_price(found)) return;
    hardware *hw = ARENA_NEW(a, hardware);
    if (timing_machine(hw, s, a, &err)) return; /* `price` says what is wrong with it */
    repair_job j = {.given = given, .s = s, .hw = hw, .seconds = ADVICE_SECONDS};
    price_repairs(found, &j, a);
}
