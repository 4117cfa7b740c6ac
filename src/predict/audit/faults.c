/* faults.c - faults and messages in words. */
#include <inttypes.h>

#include "predict/audit/state.h"

const char *fault_kind_name(fault_kind k)
{
    static const char *const names[FAULT_COUNT] = {"order",    "size",  "kind", "missing",
                                                   "deadlock", "event", "race"};
    return names[k];
}

const char *audit_link_name(link_kind k)
{
    static const char *const names[LINK_KINDS] = {"node", "domain", "across"};
    return names[k];
}

audit_fault *fault_add(audit_state *t, fault_kind kind, int64_t rank, int64_t peer,
                       const char *name)
{
    audit_result *out = t->out;
    out->n_all_faults++;
    if (out->n_faults == AUDIT_FAULTS_MAX) return NULL;
    audit_fault *f = &out->faults[out->n_faults++];
    *f = (audit_fault){
        .kind = kind, .rank = rank, .peer = peer, .name = name, .text = "", .times = 1};
    return f;
}

int64_t entry_bytes(const audit_entry *e)
{
    return dtype_bytes(e->type, e->n * e->width);
}

static void add_label(textbuf *t, const audit_item *it, const audit_entry *e)
{
    const audit_label *l = label_of(it, e);
    text_add(t, " (%s", it->list->name);
    if (l->layer >= 0 && it->list->kind == SEGMENT_LAYER) text_add(t, " %" PRId32, l->layer);
    text_add(t, ", %s", it->list->phase == SEG_FORWARD ? "forward" : "backward");
    if (l->micro >= 0) text_add(t, ", microbatch %" PRId32, l->micro);
    if (l->stage >= 0) text_add(t, ", stage %" PRId32, l->stage);
    text_add(t, ")");
}

const char *entry_text(const audit_item *it, const audit_entry *e, arena *a)
{
    textbuf t = text_init(a);
    text_add(&t, "%s %s, ", op_infos[e->kind].name, e->name);
    if (op_is(e->kind, BY_TABLE))
        text_add(&t, "room for %s rows of %s bytes", text_grouped(a, e->n),
                 text_grouped(a, dtype_bytes(e->type, e->width)));
    else
        text_add(&t, "%s bytes", text_grouped(a, entry_bytes(e)));
    bool paired = op_is(e->kind, GIVES) || op_is(e->kind, TAKES);
    if (paired)
        text_add(&t, ", tag %" PRId64, e->tag);
    else if (op_is(e->kind, STEPPED))
        text_add(&t, " by %" PRId64, e->step);
    add_label(&t, it, e);
    return t.s;
}
