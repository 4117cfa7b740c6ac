/* plan_file.c - plans and differences as JSON. Keys that are not known here are left alone. */
#include "report/plan_file.h"

#include <stdio.h>
#include <string.h>

#define REPAIR "repair: write the plan again (moefold plan ... --json > plan.json)"

bool plan_file_is(const char *data)
{
    bool plan = strstr(data, "\"complete\"") && strstr(data, "\"gpus\"");
    bool diff = strstr(data, "\"differ\"") && strstr(data, "\"tolerance\"");
    return data[strspn(data, " \t\r\n")] == '{' && (plan || diff);
}

bool plan_file_is_diff(const json_t *file)
{
    return json_is_boolean(json_object_get(file, "differ"));
}

/* Both ends, and where both have a price or were measured the parts of a step. */
static status check_diff(const json_t *diff, const char *name, error *err)
{
    bool ends =
        json_is_object(json_object_get(diff, "a")) && json_is_object(json_object_get(diff, "b"));
    bool compared = json_is_number(json_object_get(diff, "time"));
    if (ends && (!compared || json_is_object(json_object_get(diff, "parts")))) return OK;
    return error_set(
        err, ERR_INPUT,
        "%s: \"a\", \"b\" or \"parts\" is missing; repair: write it again (moefold diff "
        "A B --json > diff.json)",
        name);
}

/* A row of a list: what a page draws of it. */
static const struct field {
    const char *key;
    bool whole;
} fields[] = {{"step_s", false}, {"peak_bytes", true},
              {"tp", true},      {"cp", true},
              {"ep", true},      {"etp", true},
              {"pp", true},      {"vpp", true},
              {"dp", true},      {"micro_batch_size", true}};

static status check_row(const json_t *row, const char *at, error *err)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *v = json_object_get(row, fields[i].key);
        if (fields[i].whole ? json_is_integer(v) : json_is_number(v)) continue;
        return error_set(err, ERR_INPUT, "%s: there is no %s \"%s\"; " REPAIR, at,
                         fields[i].whole ? "whole number" : "number", fields[i].key);
    }
    const json_t *band = json_object_get(row, "band");
    static const char *const ends[] = {"high_s", "low_s"};
    for (int i = 0; i < 2 && band; i++)
        if (!json_is_number(json_object_get(band, ends[i])))
            return error_set(err, ERR_INPUT, "%s: there is no number \"%s\" in \"band\"; " REPAIR,
                             at, ends[i]);
    return OK;
}

static status check_list(const json_t *plan, const char *name, const char *key, error *err)
{
    char at[512];
    size_t i;
    json_t *row, *list = json_object_get(plan, key);
    if (list && !json_is_array(list))
        return error_set(err, ERR_INPUT, "%s: \"%s\" is not a list; " REPAIR, name, key);
    json_array_foreach(list, i, row)
    {
        snprintf(at, sizeof at, "%s: %s[%zu]", name, key, i);
        TRY(check_row(row, at, err));
    }
    return OK;
}

static status check(const json_t *plan, const char *name, error *err)
{
    static const char *const lists[] = {"best", "front", "ladder"};
    if (!json_is_array(json_object_get(plan, "best")) ||
        !json_is_integer(json_object_get(plan, "gpus")) ||
        !json_is_string(json_object_get(plan, "gpu")))
        return error_set(
            err, ERR_INPUT,
            "%s: not a plan, because \"best\", \"gpus\" or \"gpu\" is missing; " REPAIR, name);
    bool rows = json_array_size(json_object_get(plan, "best")) > 0;
    if (rows && !json_is_integer(json_object_get(plan, "usable_bytes")))
        return error_set(err, ERR_INPUT, "%s: \"usable_bytes\" is missing; " REPAIR, name);
    status s = OK;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && !s; i++)
        s = check_list(plan, name, lists[i], err);
    return s;
}

status plan_file_parse(json_t **plan, const char *name, const char *data, size_t n, error *err)
{
    error why = {{0}};
    status s = json_parse(name, data, n, plan, &why);
    if (s) return error_set(err, s, "%.1500s; it is cut short or not JSON; " REPAIR, why.text);
    s = plan_file_is_diff(*plan) ? check_diff(*plan, name, err) : check(*plan, name, err);
    if (s) json_decref(*plan);
    return s;
}
