/* evaluate.c - `moefold eval`: the loss over a whole set, and nothing else. */
#include <math.h>

#include "base/clock.h"
#include "train/loop/state.h"

static const char *data_of(const trainer *t)
{
    bool mock = t->s->j.mock_data;
    textbuf text = text_init(t->a);
    for (int i = 0; !mock && i < data_members(t->data, DATA_VALID); i++)
        text_add(&text, "%s%s", i ? ", " : "", data_name(t->data, DATA_VALID, i));
    if (t->o->evaluate == EVALUATE_VALIDATION)
        text_add(&text, "%s", mock ? "mock data" : ", for validation");
    return text.s;
}

status trainer_evaluation(trainer *t, train_summary *sum, error *err)
{
    double start = clock_seconds();
    step_losses losses;
    int64_t n = data_length(t->data, DATA_VALID);
    /* a set of mock data never ends */
    if (t->s->j.mock_data) n = t->s->j.eval_iters * t->gbs;
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
