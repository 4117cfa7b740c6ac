/* fuzz_plan.c - plans that a report is made of. What is taken can be drawn. */
#include "fuzz/mutate_json.h"

#include "report/plan_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    const char *text = arena_copy(a, (const char *)data, n);
    json_t *plan = NULL;
    error err = {0};
    plan_file_is(text);
    status s = plan_file_parse(&plan, "fuzz.json", text, n, &err);
    if (fuzz_accepted(s, &err)) {
        size_t i;
        json_t *row;
        MUST(json_is_integer(json_object_get(plan, "gpus")));
        json_array_foreach(json_object_get(plan, "best"), i, row)
            MUST(json_is_number(json_object_get(row, "step_s")));
        json_decref(plan);
    }
    arena_destroy(a);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_json(data, n, max, 0, seed);
}
