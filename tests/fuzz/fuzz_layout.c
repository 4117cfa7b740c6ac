/* fuzz_layout.c - pipeline layout strings, alone and through a recipe.
 *
 * The first two bytes choose the sizes; the rest is the string.
 *
 * I1  Stages hold letters only, and no more than the limits allow.
 * I2  What pipeline_init lays out holds every layer once, in order, and can be written as a string
 *     that gives the same stages. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "layout/pipeline.h"

static void parse_alone(arena *a, const char *text)
{
    const char **stages;
    int n_stages;
    error err = {0};
    if (!fuzz_accepted(pipeline_parse(a, text, &stages, &n_stages, &err), &err)) return;
    MUST(n_stages >= 1 && n_stages <= STAGES_MAX); /* I1 */
    size_t letters = 0;
    for (int i = 0; i < n_stages; i++) {
        letters += strlen(stages[i]);
        MUST(stages[i][strspn(stages[i], "EtmL")] == 0);
    }
    MUST(letters + (size_t)n_stages <= STAGE_LETTERS_MAX + STAGES_MAX + 1);
}

static void must_hold_all(const pipeline *p, const recipe *r) /* I2 */
{
    int64_t layers = 0, mtp = 0, embeddings = 0, losses = 0;
    for (int64_t i = 0; i < p->pp * p->vpp; i++) {
        const stage *s = &p->stages[i];
        MUST(s->n_layers >= 0 && (s->n_layers == 0 || s->first_layer == layers));
        layers += s->n_layers;
        mtp += s->n_mtp;
        embeddings += s->embedding;
        losses += s->loss;
    }
    MUST(layers == recipe_int(r, K_LAYERS));
    MUST(mtp == recipe_int(r, K_MTP));
    MUST(embeddings == 1 && losses == 1);
}

static void must_be_a_string(arena *a, const pipeline *p, const recipe *given) /* I2 */
{
    recipe *r = ARENA_NEW(a, recipe);
    *r = *given;
    recipe_set(r, K_PP_LAYOUT, value_of_text(pipeline_text(a, p)), "fuzz");
    recipe_set(r, K_ACCOUNT_EMBEDDING, value_of_bool(false), "fuzz"); /* goes with no string */
    recipe_set(r, K_ACCOUNT_LOSS, value_of_bool(false), "fuzz");
    pipeline again = {0};
    error err = {0};
    job j;
    job_of(&j, r);
    MUST(pipeline_init(&again, &j, a, &err) == OK);
    MUST(!again.why_not && again.pp == p->pp && again.vpp == p->vpp);
    for (int64_t i = 0; i < p->pp * p->vpp; i++) {
        const stage *x = &p->stages[i], *y = &again.stages[i];
        MUST(x->n_layers == y->n_layers && x->n_mtp == y->n_mtp);
        MUST(x->embedding == y->embedding && x->loss == y->loss);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) return 0;
    arena *a = arena_create();
    const char *text = arena_copy(a, (const char *)data + 2, n - 2);
    parse_alone(a, text);

    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "fuzz");
    recipe_set_system(r, data[1] & 4 ? MEGATRON_LM : MOEFOLD, "test");
    recipe_set(r, K_LAYERS, value_of_int(data[0]), "fuzz");
    recipe_set(r, K_PP, value_of_int(data[1] >> 3), "fuzz");
    if (data[1] & 1) recipe_set(r, K_MTP, value_of_int(1), "fuzz");
    if (!(data[1] & 2)) recipe_set(r, K_PP_LAYOUT, value_of_text(text), "fuzz");
    error err = {0};
    job j;
    resolving d = {r, &j};
    job_of(&j, r);
    if (fuzz_accepted(pipeline_derive(&d, &err), &err)) {
        resolve_defaults(&d);
        pipeline p = {0};
        if (fuzz_accepted(pipeline_init(&p, &j, a, &err), &err) && !p.why_not) {
            must_hold_all(&p, r);
            must_be_a_string(a, &p, r);
        }
    }
    arena_destroy(a);
    return 0;
}
