/* audit.c - the parts of an audit, one after another. */
#include "predict/audit/audit.h"

#include <string.h>

#include "predict/audit/state.h"

static void find_fullest(audit_state *t)
{
    for (int i = 0; i < t->n_classes; i++)
        if (t->classes[i].n &&
            (!t->out->fullest || t->classes[i].arena_bytes > t->out->fullest->arena_bytes))
            t->out->fullest = &t->classes[i];
}

status audit_run(audit_result *out, const setup *s, const audit_options *o, arena *a, error *err)
{
    static const audit_options none = {0};
    *out = (audit_result){.ranks = s->j.n_gpus};
    out->why_not = audit_why_not(s, a);
    if (out->why_not) return OK;
    if (s->lay.world > AUDIT_RANKS_MAX)
        return error_set(err, ERR_INPUT, "--all-ranks: %lld ranks (cluster.n_gpus); at most %d",
                         (long long)s->lay.world, AUDIT_RANKS_MAX);
    out->faults = ARENA_ARRAY(a, audit_fault, AUDIT_FAULTS_MAX);
    audit_state *t = ARENA_NEW(a, audit_state);
    *t = (audit_state){.s = s, .o = o ? o : &none, .a = a, .out = out};
    t->book = ARENA_NEW(a, audit_book);
    *t->book = (audit_book){.s = s, .a = a};
    classes_make(t);
    if (t->o->one) races_of_rank(t, t->o->rank);
    tables_make(t);
    match_all(t);
    simulate_all(t);
    traffic_all(t);
    find_fullest(t);
    out->ranks = s->lay.world;
    out->ok = out->n_all_faults == 0;
    out->classes = t->classes;
    out->n_classes = t->n_classes;
    out->class_of = t->class_of;
    out->state = t;
    return OK;
}
