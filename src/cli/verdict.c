/* verdict.c - the fullest rank beside what its GPU has. */
#include "cli/verdict.h"

#include <stdio.h>

#include "audit/audit.h"
#include "recipe/target.h"
#include "run/timing.h"

status cli_fit(fit *out, const setup *s, const violations *found, arena *a, error *err)
{
    *out = (fit){.why_not = audit_why_not_of(s, found, a)};
    if (out->why_not) return OK; /* it may name a GPU that does not exist */
    hardware hw;
    status st = timing_machine(&hw, s, a, err);
    if (st) return st;
    fit_of(out, s, found, &hw, a);
    return OK;
}

const char *cli_fit_text(const fit *f, arena *a)
{
    int64_t left = f->usable_bytes - f->peak_bytes;
    return arena_text(a, "rank %lld needs %s of %s usable, %s %s", (long long)f->fullest,
                      text_bytes(a, f->peak_bytes), text_bytes(a, f->usable_bytes),
                      text_bytes(a, left < 0 ? -left : left), left < 0 ? "too much" : "to spare");
}

void cli_print_regions(const fit *f, arena *a)
{
    for (int i = 0; i < REGION_COUNT; i++)
        if (f->bytes[i])
            printf("         %-34s %12s\n", region_title((region)i), text_bytes(a, f->bytes[i]));
    if (f->beside) printf("         %-34s %12s\n", "CUDA graph pools", text_bytes(a, f->beside));
    if (f->host_bytes)
        printf("         %-34s %12s\n", "on the host: offloaded activations",
               text_bytes(a, f->host_bytes));
    printf("\n");
}

void cli_print_fit(const setup *s, const fit *f, arena *a)
{
    if (f->why_not) {
        cli_print("Peak", "unknown, no program can be built: %s\n\n", f->why_not);
        return;
    }
    cli_print("Peak", "of the fullest rank, activations included: %s (pipeline rank %lld)\n\n",
              cli_fit_text(f, a), (long long)rank_coordinates(&s->lay, f->fullest).pp);
    cli_print_regions(f, a);
}

void cli_json_fit(json_t *o, const fit *f)
{
    bool known = !f->why_not;
    json_object_set_new(o, "fits", known ? json_boolean(f->fits) : json_null());
    json_object_set_new(o, "peak_bytes", known ? json_integer(f->peak_bytes) : json_null());
    json_object_set_new(o, "usable_bytes", known ? json_integer(f->usable_bytes) : json_null());
    json_object_set_new(o, "fullest_rank", known ? json_integer(f->fullest) : json_null());
    if (!known) json_object_set_new(o, "memory_why_not", json_string(f->why_not));
}

void cli_print_not_priced(const not_priced *list, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s %s=%s (the price assumes: %s)\n", i ? "           " : "Not priced:", list[i].key,
               list[i].value, list[i].assumed);
    if (n) printf("\n");
}

static bool is_own_gpu(const recipe *r, const hardware *hw)
{
    return target_of(r) == TARGET_MOEFOLD && hw->arch != ARCH_CPU;
}

void cli_print_times(const recipe *r, const hardware *hw)
{
    if (!is_own_gpu(r, hw)) return;
    if (timing_estimated(r, hw))
        cli_print("Estimate",
                  "times are estimates: our kernels were not measured on %s; repair: `moefold "
                  "bench --device cuda` there\n\n",
                  hw->name);
    else
        cli_print("Machine", "%s, measured with our kernels on %s\n\n", hw->path, hw->measured);
}

void cli_json_times(json_t *o, const recipe *r, const hardware *hw)
{
    if (!is_own_gpu(r, hw)) return;
    json_object_set_new(o, "estimate", json_boolean(timing_estimated(r, hw)));
    json_object_set_new(o, "measured", hw->measured ? json_string(hw->measured) : json_null());
}

json_t *cli_json_not_priced(const not_priced *list, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(out, json_pack("{s:s, s:s, s:s}", "key", list[i].key, "value",
                                             list[i].value, "assumed", list[i].assumed));
    return out;
}
