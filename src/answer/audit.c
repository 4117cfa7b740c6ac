/* audit.c - the audit of all ranks as an answer. */
#include "answer/audit.h"

extremes answer_extremes(const setup *s, const fit *f, arena *a)
{
    extremes x = {.stages = ARENA_ARRAY(a, fit, s->pipe.pp), .most = answer_stage(s, f)};
    x.least = x.most;
    fit_stages(x.stages, s);
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        if (x.stages[i].peak_bytes < x.stages[x.least].peak_bytes) x.least = i;
        if (x.stages[i].peak_bytes == f->peak_bytes) x.alike += s->lay.world / s->pipe.pp;
    }
    return x;
}

int answer_peak_parts(peak_part *out, const fit *f, arena *a)
{
    return peak_parts(out, &f->memory, f->megatron ? NULL : f->bytes, a);
}

static const link_answer *links_of(const double bytes[LINK_KINDS], arena *a)
{
    link_answer *x = ARENA_NEW(a, link_answer);
    *x = (link_answer){bytes[LINK_IN_NODE], bytes[LINK_IN_DOMAIN], bytes[LINK_OUTSIDE]};
    return x;
}

static const links_answer *answer_links(const audit_result *r, arena *a)
{
    links_answer *x = ARENA_NEW(a, links_answer);
    group_links_answer *groups = ARENA_ARRAY(a, group_links_answer, GROUP_COUNT);
    most_answer *most = ARENA_ARRAY(a, most_answer, LINK_KINDS);
    *x = (links_answer){links_of(r->link_bytes, a), most, LINK_KINDS, groups, 0};
    for (int g = 0; g < GROUP_COUNT; g++) {
        const double *b = r->group_bytes[g];
        if (b[0] + b[1] + b[2] > 0)
            groups[x->n_groups++] =
                (group_links_answer){comm_group_name((comm_group)g), links_of(b, a)};
    }
    for (int k = 0; k < LINK_KINDS; k++)
        most[k] = (most_answer){audit_link_name((link_kind)k), r->most_rank[k], r->most[k]};
    return x;
}

static const one_answer *answer_one(const audit_result *r, int64_t rank, arena *a)
{
    const audit_class *c = &r->classes[r->class_of[rank]];
    audit_traffic t = audit_rank_traffic(r, rank);
    one_answer *x = ARENA_NEW(a, one_answer);
    sends_answer *sends = ARENA_ARRAY(a, sends_answer, GROUP_COUNT);
    *x = (one_answer){.rank = rank,
                      .like = c->rank,
                      .pp = c->pp,
                      .bytes = c->arena_bytes,
                      .host_bytes = c->host_bytes,
                      .sends = sends};
    x->regions = answer_regions(&x->n_regions, c->bytes, a);
    for (int g = 0; g < GROUP_COUNT; g++)
        if (t.messages[g])
            sends[x->n_sends++] = (sends_answer){comm_group_name((comm_group)g), t.messages[g],
                                                 links_of(t.bytes[g], a)};
    return x;
}

/* What adds up to the peak of the rank that check calls the fullest. */
static const fullest_answer *answer_fullest(const setup *s, const fit *f, arena *a)
{
    if (f->why_not) return NULL;
    extremes e = answer_extremes(s, f, a);
    peak_part full[PEAK_PARTS];
    fullest_answer *x = ARENA_NEW(a, fullest_answer);
    bytes_answer *parts = ARENA_ARRAY(a, bytes_answer, PEAK_PARTS);
    *x = (fullest_answer){.rank = f->fullest,
                          .bytes = f->peak_bytes,
                          .host_bytes = f->host_bytes,
                          .regions = parts,
                          .n_regions = answer_peak_parts(full, f, a),
                          .pp = e.most,
                          .alike = e.alike};
    for (int i = 0; i < x->n_regions; i++) parts[i] = (bytes_answer){full[i].name, full[i].bytes};
    return x;
}

const audit_answer *answer_audit(const setup *s, const audit_result *r, const fit *f,
                                 double seconds, int64_t rank, arena *a)
{
    if (r->why_not) return NULL;
    audit_answer *x = ARENA_NEW(a, audit_answer);
    fault_answer *faults = ARENA_ARRAY(a, fault_answer, r->n_faults);
    for (int i = 0; i < r->n_faults; i++) {
        const audit_fault *f_i = &r->faults[i];
        faults[i] = (fault_answer){
            fault_kind_name(f_i->kind), f_i->rank, f_i->peer, f_i->name, f_i->text, f_i->times};
    }
    *x = (audit_answer){.ranks = r->ranks,
                        .ok = r->ok,
                        .fullest = answer_fullest(s, f, a),
                        .kinds = r->n_classes,
                        .built = r->built,
                        .messages = r->messages,
                        .faults = faults,
                        .n_faults = r->n_faults,
                        .all_faults = r->n_all_faults,
                        .played = r->simulated,
                        .replayed = r->replayed,
                        .replayed_rank = r->replayed_rank,
                        .links = answer_links(r, a),
                        .seconds = seconds,
                        .one = rank >= 0 ? answer_one(r, rank, a) : NULL};
    return x;
}
