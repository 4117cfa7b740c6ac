/* megatron_testing.h - a recipe that a Megatron input is read into, for one test at a time. */
#ifndef TESTS_CONFIG_MEGATRON_TESTING_H
#define TESTS_CONFIG_MEGATRON_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/megatron.h"

static arena *memory;
static recipe r;
static error err;
static megatron_options how;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    recipe_init(&r, memory, "test");
    how = (megatron_options){0};
    err.text[0] = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static void assert_knob(const char *key, const char *expected)
{
    int k = knob_find(key, NULL);
    assert_true(k >= 0);
    value given, v;
    assert_int_equal(value_parse(memory, expected, &given, &err), OK);
    assert_int_equal(knob_accept(memory, (knob_id)k, given, &v, &err), OK);
    if (!value_equal(v, r.knob[k].v))
        fail_msg("%s is %s, expected %s", key, value_text(memory, r.knob[k].v), expected);
}

#endif
