/* measured.c - from operations of a trace to the rows of a price. */
#include "predict/measured.h"

#include <string.h>

#include "base/text.h"

static const char exposed[] = ", exposed";

/* The part whose title it is, with or without the word for waits; the rest where it is none's. */
static int part_of(const step_part *parts, const char *kind)
{
    size_t n = strlen(kind), e = strlen(exposed);
    if (n > e && strcmp(kind + n - e, exposed) == 0) n -= e;
    for (int i = 0; i < STEP_PARTS; i++)
        if (strlen(parts[i].title) == n && strncmp(parts[i].title, kind, n) == 0) return i;
    return STEP_PARTS - 1;
}

double measured_parts(step_part out[STEP_PARTS], const trace *t, int64_t rank)
{
    double each = 0, sum = 0;
    price_parts(out, &(price){.step_s = 0}); /* names */
    for (int64_t i = 0; i < t->n_ranks; i++) each += rank < 0 || t->ranks[i].rank == rank;
    if (each <= 0 || !(t->span > 0)) return 0;
    each *= trace_steps_of(t);
    for (int64_t i = 0; i < t->n; i++) {
        const trace_op *o = &t->ops[i];
        if (rank >= 0 && o->rank != rank) continue;
        bool compute = text_equal(t->streams[o->stream], "compute");
        step_part *p = &out[part_of(out, o->kind)];
        if (compute)
            p->seconds += (o->end - o->start) / each;
        else if (o->what == TRACE_OPERATION)
            p->hidden += (o->end - o->start) / each;
    }
    for (int i = 0; i < STEP_PARTS; i++) {
        sum += out[i].seconds;
        out[i].hidden = out[i].hidden > out[i].seconds ? out[i].hidden - out[i].seconds : 0;
    }
    double step = t->span / trace_steps_of(t);
    out[STEP_PARTS - 1].seconds += step - sum;
    return step;
}
