/* What Megatron-Bridge's recipes set (tests/data/bridge_recipes.json says how it was read): those
 * that run there are valid here, and those that stop there are refused by the rules named beside
 * them. */
#include "rules/testing.h"

#include <jansson.h>
#include <stdlib.h>

enum { STORED_FEWEST = 300, TP_OVERLAPS_FEWEST = 60 };

static json_t *stored;

static int read_stored(void **state)
{
    (void)state;
    json_error_t why;
    stored = json_load_file("tests/data/bridge_recipes.json", 0, &why);
    if (!stored) print_message("line %d: %s\n", why.line, why.text);
    return stored ? 0 : -1;
}

static int forget_stored(void **state)
{
    (void)state;
    json_decref(stored);
    return 0;
}

/* Its whole list: that of the recipe it is like, less what is unset, and what it sets itself. */
static json_t *settings_of(size_t i)
{
    json_t *one = json_array_get(json_object_get(stored, "recipes"), i);
    json_t *like = json_object_get(one, "like"), *word;
    json_t *all = like ? settings_of((size_t)json_integer_value(like)) : json_object();
    size_t n;
    json_array_foreach(json_object_get(one, "unset"), n, word)
        json_object_del(all, json_string_value(word));
    json_array_foreach(json_object_get(one, "set"), n, word)
    {
        const char *text = json_string_value(word), *equals = strchr(text, '=');
        json_object_setn_new(all, text, (size_t)(equals - text), json_string(equals + 1));
    }
    return all;
}

static void set(made *x, const char *key, const char *text)
{
    if (recipe_override(&x->wrote, arena_text(x->a, "%s=%s", key, text), "stored", &x->err))
        fail_msg("%s", x->err.text);
}

static void made_stored(made *x, size_t i)
{
    json_t *one = json_array_get(json_object_get(stored, "recipes"), i), *v;
    const char *gpus = json_string_value(json_object_get(one, "gpus")), *key;
    made_begin(x);
    set(x, "moefold.model", json_string_value(json_object_get(one, "model")));
    set(x, "cluster.n_gpus", arena_copy(x->a, gpus, strcspn(gpus, "x")));
    set(x, "cluster.gpu", strchr(gpus, 'x') + 1);
    json_t *all = settings_of(i);
    json_object_foreach(all, key, v) set(x, key, json_string_value(v));
    json_decref(all);
    if (made_resolve(x)) fail_msg("%s", x->err.text);
    rules_check(&x->found, &x->s, false, x->a);
}

static bool stops_by(json_t *stops, const char *id)
{
    json_t *stop;
    size_t n;
    json_array_foreach(stops, n, stop) if (strcmp(json_string_value(json_object_get(stop, "rule")),
                                                  id) == 0) return true;
    return false;
}

static bool reports(const violations *found, const char *id)
{
    for (int i = 0; i < found->n; i++)
        if (strcmp(found->list[i].rule->id, id) == 0) return true;
    return false;
}

/* How much here disagrees with what Bridge does with this recipe. */
static int disagreements(json_t *one, const violations *found)
{
    json_t *stops = json_object_get(one, "stops"), *stop;
    const char *name = json_string_value(json_object_get(one, "name"));
    size_t n;
    int bad = 0;
    for (int i = 0; i < found->n_errors; i++) {
        if (stops_by(stops, found->list[i].rule->id)) continue;
        print_message("%s: %s: %s\n", name, found->list[i].rule->id, found->list[i].message);
        bad++;
    }
    json_array_foreach(stops, n, stop)
    {
        const char *id = json_string_value(json_object_get(stop, "rule"));
        if (reports(found, id)) continue;
        print_message("%s: %s is not reported\n", name, id);
        bad++;
    }
    return bad;
}

static void recipes_are_judged_as_there(void **state)
{
    (void)state;
    json_t *one;
    size_t i;
    int bad = 0, turned_off = 0;
    json_array_foreach(json_object_get(stored, "recipes"), i, one)
    {
        made x;
        made_stored(&x, i);
        bad += disagreements(one, &x.found);
        turned_off += reports(&x.found, "tp-overlap-is-turned-off");
        made_release(&x);
    }
    assert_int_equal(bad, 0);
    assert_true(i >= STORED_FEWEST);
    assert_true(turned_off >= TP_OVERLAPS_FEWEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipes_are_judged_as_there),
    };
    return cmocka_run_group_tests(tests, read_stored, forget_stored);
}
