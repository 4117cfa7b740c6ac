/* fuzz_setup.c - from a recipe file to the layout, the bytes of a rank and the rules.
 *
 * I1  Whatever could be read is resolved: every knob has a value and a reason.
 * I2  Where a layout is possible, its sizes multiply to the world on both grids, and each rank is
 *     in exactly one group of each kind.
 * I3  Bytes are never negative.
 * I4  A violation has a message, and its repairs are overrides that can be read. */
#include "fuzz/mutate.h"

#include "config/models/models.h"
#include "rules/rules.h"

enum { WORLD_MAX = 64 }; /* larger worlds have the same code, only more of it */

static void must_partition(const layout *l, arena *a) /* I2 */
{
    MUST(l->tp * l->cp * l->dp * l->pp == l->world);
    MUST(l->etp * l->ep * l->edp * l->pp == l->world);
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int i = 0; i < n_kinds; i++) {
        const group_kind *k = &kinds[i];
        int64_t size = group_size(l, k), count = group_count(l, k);
        MUST(size >= 1 && size * count == l->world);
        bool *seen = ARENA_ARRAY(a, bool, l->world);
        int64_t *ranks = ARENA_ARRAY(a, int64_t, size);
        for (int64_t g = 0; g < count; g++) {
            group_ranks(l, k, g, ranks);
            for (int64_t j = 0; j < size; j++) {
                MUST(ranks[j] >= 0 && ranks[j] < l->world && !seen[ranks[j]]);
                seen[ranks[j]] = true;
                int64_t place;
                MUST(group_of(l, k, ranks[j], &place) == g && place == j);
            }
        }
        group_reach reach = group_reach_of(l, k);
        MUST(reach.nodes >= 1 && reach.domains >= 1);
    }
}

static void must_have_bytes(const setup *s) /* I3 */
{
    state_bytes bytes;
    int64_t fullest = setup_fullest(s, &bytes);
    MUST(fullest >= 0 && fullest < s->lay.pp);
    MUST(state_weights(&bytes) >= 0 && state_gradients(&bytes) >= 0);
    MUST(state_optimizer(&bytes) >= 0 && state_total(&bytes) >= 0);
}

static void must_be_told(const violations *found, const recipe *given, arena *a) /* I4 */
{
    recipe *r = ARENA_NEW(a, recipe);
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        MUST(v->rule->id && v->message && v->message[0]);
        MUST(v->n_repairs >= 0 && v->n_repairs <= REPAIRS_MAX);
        for (int j = 0; j < v->n_repairs; j++) {
            error err = {0};
            *r = *given;
            for (const char *const *o = edits_words(v->repairs[j], a); *o; o++)
                MUST(recipe_override(r, *o, "repair", &err) == OK);
        }
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_recipe(data, n, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    recipe_init(r, a, "fuzz.yaml");
    error err = {0};
    status st = recipe_parse_yaml(r, "fuzz.yaml", (const char *)data, n, &err);
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (fuzz_accepted(st, &err)) {
        for (knob_id k = 0; k < K_COUNT; k++) MUST(s->r.knob[k].from != FROM_NOTHING); /* I1 */
        fuzz_settings(&s->r);
        if (s->possible && s->lay.world <= WORLD_MAX) must_partition(&s->lay, a);
        if (s->possible && !s->pipe.why_not) must_have_bytes(s);
        violations found;
        rules_check(&found, s, false, a);
        must_be_told(&found, r, a);
    }
    arena_destroy(a);
    return 0;
}
