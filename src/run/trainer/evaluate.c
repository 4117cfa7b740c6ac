/* evaluate.c - `moefold eval`: the loss over a whole set, and nothing else. */
#include <math.h>

#include "base/clock.h"
#include "run/trainer/state.h"

/* The text where it came from lives as long as the run's arena. */
static const char *data_of(const trainer *t)
{
    const recipe *r = &t->s->r;
    int n = recipe_on(r, K_MOCK_DATA) ? 0 : recipe_count(r, K_DATA_PATH);
    textbuf text = text_init(t->a);
    for (int i = 0; i < n; i++)
        text_add(&text, "%s%s", i ? ", " : "", value_text(t->a, recipe_item(r, K_DATA_PATH, i)));
    if (t->o->evaluate == EVALUATE_VALIDATION)
        text_add(&text, "%s", n ? ", the part for validation" : "mock data");
    return text.s;
}

status trainer_evaluation(trainer *t, train_summary *sum, error *err)
{
    double start = clock_seconds();
    step_losses losses;
    int64_t n = data_length(t->data, DATA_VALID);
    /* a set of mock data never ends */
    if (recipe_on(&t->s->r, K_MOCK_DATA)) n = recipe_int(&t->s->r, K_EVAL_ITERS) * t->gbs;
    progress_init(&t->bar, stderr, 0, 0, start);
    status s = trainer_evaluate(t, DATA_VALID, (sample_span){0, n}, &losses, err);
    if (s) return s;
    double loss = losses.list[losses.n - 1].value;
    sum->evaluated = (evaluation){.weights = t->loaded_from,
                                  .data = data_of(t),
                                  .iteration = t->loaded_iteration,
                                  .samples = n,
                                  .tokens = (int64_t)llround(losses.sums[SUM_TOKENS]),
                                  .loss = loss,
                                  .perplexity = exp(loss),
                                  .seconds = clock_seconds() - start};
    return OK;
}
