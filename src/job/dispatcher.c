/* dispatcher.c - the rows of dispatchers.def, and the one of a job. */
#include "job/dispatcher.h"

const dispatcher dispatchers[DISPATCHERS] = {
#define DISPATCHER(id, name, title, steps, rows, library, ...)                                     \
    [DISPATCHER_##id] = {name, title, J_DISPATCHER_##id, J_FLEX_NULL, __VA_ARGS__},
#define FLEX_BACKEND(id, name, title, steps, rows, library, ...)                                   \
    [DISPATCHER_##id] = {name, title, J_DISPATCHER_FLEX, J_FLEX_##id, .flex = true, __VA_ARGS__},
#include "job/dispatchers.def"
};

const dispatcher *dispatcher_of_backend(int flex)
{
    for (int i = 0; i < DISPATCHERS; i++)
        if (dispatchers[i].flex && dispatchers[i].backend == flex) return &dispatchers[i];
    return &dispatchers[DISPATCHER_DEEPEP];
}

const dispatcher *dispatcher_by(int word, int flex)
{
    if (word == J_DISPATCHER_FLEX) return dispatcher_of_backend(flex);
    for (int i = 0; i < DISPATCHERS; i++)
        if (dispatchers[i].word == word) return &dispatchers[i];
    return &dispatchers[DISPATCHER_ALLTOALL];
}

const dispatcher *dispatcher_of(const job *j)
{
    return dispatcher_by(j->dispatcher, j->flex);
}

int64_t dispatcher_full_sms(const dispatcher *d, const gpu *g)
{
    return g && g->arch == ARCH_BLACKWELL ? d->full_sms : 0;
}
