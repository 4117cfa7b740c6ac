/* fuzz_value.c - the text form of values, alone: text -> value -> text -> the same value. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    const char *text = arena_copy(a, (const char *)data, n);
    error err = {0};
    value v;
    if (fuzz_accepted(value_parse(a, text, &v, &err), &err)) fuzz_value(a, v);
    fuzz_value(a, value_of_text(text)); /* any text at all can be a value */
    arena_destroy(a);
    return 0;
}
