/* advice.c - what is said of broken rules: repairs that were applied and checked, with what they
 * lead to, in words that can be appended to the command at hand. */
#include "config/appended.h"
#include "library/check.h"
#include "plan/repairs.h"
#include "predict/machine.h"

/* `check` answers in milliseconds: a price takes about ten of them. */
static const int64_t ADVICE = TRY_SECONDS(0.04);

void advise(violations *found, const recipe *given, const setup *s, const struct fit *own, arena *a)
{
    error err = {{0}};
    if (!repairs_to_price(found)) return;
    hardware *hw = ARENA_NEW(a, hardware);
    if (!machine_of_setup(hw, s, a, &err)) { /* else `price` says what is wrong with it */
        repair_job j = {.given = given, .s = s, .hw = hw, .own = own, .budget.left = ADVICE};
        price_repairs(found, &j, a);
    }
    for (int i = 0; i < found->n; i++)
        for (int k = 0; k < found->list[i].n_repairs; k++)
            found->list[i].words[k] =
                recipe_appended(given, edits_words(found->list[i].repairs[k], a), a);
}
