/* touched.c - `train --touched`: planned bytes beside those that a step touches, on this device.
 *
 * Weights are zeros: where a byte is written does not depend on them, and drawing those of a large
 * model takes longer than the steps. Without model.moe_router_force_load_balancing all experts see
 * the same, and routed buffers are not full: then touched may be less than planned. */
#include <inttypes.h>

#include "answer/answer.h"
#include "train/executor/touched.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

static status step_over(trainer *t, touched *m, int pattern, error *err)
{
    const program *p = t->p;
    step_losses losses;
    touched_fill(m, pattern);
    executor_fill(t->e, p->offset[REGION_WEIGHTS], p->bytes[REGION_WEIGHTS], 0);
    executor_zero_optimizer(t->e);
    batch_tables(t->e, p);
    step_table(t->e, p, &t->opt);
    status s = trainer_step(t, &losses, err);
    if (!s && t->p != p)
        s = error_set(err, ERR_RULE,
                      "routed buffers were too small and had to grow; repair: "
                      "model.moe_router_force_load_balancing=true");
    if (!s) touched_mark(m, pattern);
    return s;
}

enum { N_SUMS = 7 };

static void add_up(comm *c, touched_report *r)
{
    int64_t *list[N_SUMS] = {&r->planned,   &r->used,           &r->host_planned, &r->host_used,
                             &r->workspace, &r->workspace_used, &r->outside};
    double sums[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) sums[i] = (double)*list[i];
    comm_sum(c, GROUP_WORLD, sums, N_SUMS);
    for (int i = 0; i < N_SUMS; i++) *list[i] = (int64_t)sums[i];
}

static json_t *report_json(const touched_report *r, const char *device_name, bool right)
{
    const touched_event x = {.event = "touched",
                             .device = device_name,
                             .planned_bytes = r->planned,
                             .touched_bytes = r->used,
                             .host_planned_bytes = r->host_planned,
                             .host_touched_bytes = r->host_used,
                             .workspace_planned_bytes = r->workspace,
                             .workspace_touched_bytes = r->workspace_used,
                             .outside_bytes = r->outside,
                             .right = right};
    return answer_json(touched_event, &x);
}

static void print_row(trainer *t, const char *name, int64_t used, int64_t planned)
{
    trainer_say(t, stdout,
                arena_text(t->a, "  %-24s %20s of %20s", name, text_grouped(t->a, used),
                           text_grouped(t->a, planned)));
}

static status say(trainer *t, const touched_report *r, bool right, error *err)
{
    if (!t->o->json) {
        trainer_say(t, stdout,
                    arena_text(t->a, "bytes that two steps touched on %s, of those planned%s:",
                               executor_device(t->e), comm_size(t->c) > 1 ? ", of all ranks" : ""));
        print_row(t, "buffers", r->used, r->planned);
        if (r->host_planned) print_row(t, "pinned on the host", r->host_used, r->host_planned);
        print_row(t, "workspace (at most)", r->workspace_used, r->workspace);
        print_row(t, "outside of them", r->outside, 0);
    }
    return trainer_event(t, report_json(r, executor_device(t->e), right), err);
}

status trainer_touched(trainer *t, error *err)
{
    touched m;
    bool even = !t->s->m.moe->experts || t->s->j.force_balance;
    status s = ranks_agree(t->c, touched_open(&m, t->e, t->p, err), err);
    for (int k = 0; k < TOUCHED_PATTERNS && !s; k++) s = step_over(t, &m, k, err);
    if (s) return s;
    touched_report r = touched_close(&m, t->a);
    const char *first = touched_is_right(&r, even) ? NULL : r.first;
    if (first) s = error_set(err, ERR_RULE, "touched bytes differ from planned bytes: %s", first);
    add_up(t->c, &r);
    error ignored;
    status said = say(t, &r, touched_is_right(&r, even), s ? &ignored : err);
    return ranks_agree(t->c, s ? s : said, err);
}
