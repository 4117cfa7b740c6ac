/* events.c - what programs read of a run: one JSON object a line, on the standard output (--json)
 * and in the file of --metrics.
 *
 * I1  Only rank 0 writes, so only it can fail. What fails is kept until all ranks are next together
 *     in a call that may fail: a save that went well is not undone by a full disk of metrics. */
#include <stdlib.h>

#include "run/trainer/agree.h"
#include "run/trainer/state.h"

static void print(trainer *t, const json_t *event)
{
    char *dump = json_dumps(event, JSON_COMPACT);
    trainer_say(t, stdout, dump ? dump : "{}");
    free(dump);
}

void trainer_event(trainer *t, json_t *event)
{
    if (t->o->json) print(t, event);
    if (!t->metrics.file || t->unwritten) {
        json_decref(event);
        return;
    }
    comm_work before = comm_work_begin(t->c, WORK_WRITE);
    t->unwritten = metrics_write(&t->metrics, event, &t->unwritten_why); /* I1 */
    comm_work_end(t->c, before);
}

status trainer_events_agree(trainer *t, error *err)
{
    if (!t->o->metrics) return OK;
    if (t->unwritten) *err = t->unwritten_why;
    return ranks_agree(t->c, t->unwritten, err);
}

status trainer_events_close(trainer *t, status st, error *err)
{
    error why;
    status s = t->metrics.file ? metrics_close(&t->metrics, &why) : OK;
    if (s && !t->unwritten) {
        t->unwritten = s;
        t->unwritten_why = why;
    }
    return st ? st : trainer_events_agree(t, err);
}
