/* fuzz_run.c - files of a run: the first byte says which, metrics or a summary. What is taken is
 * whole. */
#include "fuzz/mutate_json.h"

#include <math.h>
#include <string.h>

#include "report/compare_runs.h"
#include "report/run_folder.h"

static void lines(const char *data, size_t n)
{
    arena *a = arena_create();
    run_lines l;
    error err = {0};
    if (fuzz_accepted(run_lines_parse(&l, "fuzz.jsonl", data, n, a, &err), &err)) {
        MUST(l.n > 0);
        for (int64_t i = 0; i < l.n; i++) {
            MUST(l.list[i].iteration >= 1 && l.list[i].seconds > 0 && isfinite(l.list[i].seconds));
            MUST(!i || l.list[i].iteration > l.list[i - 1].iteration);
        }
        for (int64_t i = 0; i < 2 * l.n_validations; i++) MUST(isfinite(l.validation[i]));
        double *steps;
        run_folder f = {.lines = l};
        int64_t count = run_steps(&f, &steps, a);
        measured_side side = {.steps = steps, .n = count};
        if (count > 0) MUST(compare_steps(&side, a).median > 0);
    }
    arena_destroy(a);
}

static void summary(const char *data, size_t n)
{
    arena *a = arena_create();
    json_t *o = NULL;
    error err = {0};
    if (fuzz_accepted(run_summary_parse(&o, "fuzz.json", data, n, &err), &err)) {
        double *steps;
        run_folder f = {.summary = o};
        int64_t count = run_steps(&f, &steps, a);
        for (int64_t i = 0; i < count && json_array_size(json_object_get(o, "step_seconds")); i++)
            MUST(steps[i] > 0);
    }
    json_decref(o);
    arena_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    const char *text = (const char *)data + 1;
    if (data[0] & 1)
        lines(text, n - 1);
    else
        summary(text, n - 1);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_json(data, n, max, 1, seed);
}
