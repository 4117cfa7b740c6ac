/* searching.h - what a search starts from: a recipe that leaves most knobs open, and a machine. */
#ifndef TESTS_PRICE_SEARCHING_H
#define TESTS_PRICE_SEARCHING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "search/search.h"

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

#endif
