/* searching.h - what a search starts from: a recipe that leaves most knobs open, and a machine. */
#ifndef TESTS_PLAN_SEARCHING_H
#define TESTS_PLAN_SEARCHING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/models/models.h"
#include "plan/search.h"

/* A preset model with overrides, the last NULL; NULL: none. */
static inline recipe *searching_recipe(const char *name, const char *const *words, arena *a)
{
    error err = {{0}};
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, name);
    recipe_set(r, K_MODEL, value_of_text(name), "test");
    for (; words && *words; words++)
        if (recipe_override(r, *words, "test", &err)) fail_msg("%s", err.text);
    assert_int_equal(model_fill(r, &err), OK);
    return r;
}

/* `file` as hardware/ has it. */
static inline void searching_machine(hardware *hw, const char *file, arena *a)
{
    error err = {{0}};
    if (hardware_read(hw, file, a, &err)) fail_msg("%s", err.text);
}

/* A number below `below`, from a test's own state; DRAW: one of a list, from state_of_random. */
static inline uint32_t searching_draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

#define DRAW(list)                                                                                 \
    list[searching_draw(&state_of_random, (uint32_t)(sizeof(list) / sizeof(list)[0]))]

#endif
