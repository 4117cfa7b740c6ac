/* host.c - reports how many calls and how much host time the launch of a step takes, to judge
 * whether CUDA graphs would pay. Only for devices that run asynchronously to the host. */
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"
#include "train/loop/state.h"

void trainer_host_note(trainer *t, double seconds)
{
    host_times *h = &t->host;
    executor_calls now = executor_calls_of(t->e);
    h->seconds[h->n++ % HOST_STEPS] = seconds;
    h->last =
        (executor_calls){now.put - h->so_far.put, now.replayed - h->so_far.replayed, now.kernels};
    h->so_far = now;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const host_times *h, int64_t *n)
{
    double sorted[HOST_STEPS];
    *n = h->n < HOST_STEPS ? h->n : HOST_STEPS;
    memcpy(sorted, h->seconds, sizeof sorted);
    qsort(sorted, (size_t)*n, sizeof *sorted, by_size);
    return sorted[*n / 2];
}

status trainer_host_line(trainer *t, error *err)
{
    const executor_calls *c = &t->host.last;
    if (!t->host.n || strcmp(executor_device(t->e), "cuda") != 0) return OK;
    int64_t n;
    double put = median(&t->host, &n);
    const char *graphs =
        c->replayed ? arena_text(t->a, "%lld graph%s of %lld kernels, and ", (long long)c->replayed,
                                 c->replayed > 1 ? "s" : "", (long long)c->kernels)
                    : "";
    trainer_say(t, stderr,
                arena_text(t->a,
                           "host: %.3f ms to launch a step (median of %lld): %s%lld operations",
                           1e3 * put, (long long)n, graphs, (long long)c->put));
    const host_event x = {"host", t->at.iteration, 1e3 * put, c->put, c->replayed, c->kernels};
    return trainer_event(t, answer_json(host_event, &x), err);
}
