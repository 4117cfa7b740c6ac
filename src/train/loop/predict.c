/* predict.c - predicted beside measured times of a run.
 *
 * They are printed where a person asked for them (--predict, logger.timing_log_level > 0), from
 * whatever description there is; and where `moefold bench` has measured the machine, but not beside
 * JSON. What is wrong with a description ends a run only where a person asked. The first step is
 * not counted: pages are touched and threads started there. */
#include "train/executor/executor_times.h"
#include "predict/machine.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

struct predicted {
    hardware hw;
    cost_model cost;
    price price;
    timing running;  /* all operations so far, those of validations too */
    timing begun;    /* as it was when the step began */
    timing measured; /* of steps */
    bool first;      /* the first step is over */
};

status trainer_predict_attach(trainer *t, error *err)
{
    struct predicted *p = t->predicted;
    return p ? executor_time(t->e, &p->running, &p->cost, err) : OK;
}

static bool is_asked(const trainer *t)
{
    return t->o->predict || t->s->j.timing_level > 0;
}

/* All ranks have a measured description, or none uses its own. */
static bool is_measured(trainer *t, hardware *hw)
{
    error why = {{0}};
    bool found = machine_measured(t->s, t->a);
    bool bad = found && machine_of_setup(hw, t->s, t->a, &why);
    double missing = !found || bad;
    comm_sum(t->c, GROUP_WORLD, &missing, 1);
    if (missing == 0) return true;
    t->unpredicted = bad ? arena_text(t->a, "no predicted times: %s", why.text)
                     : !found
                         ? "`moefold bench` measures this machine in a minute; then `train` prints "
                           "predicted and measured times"
                         : "no predicted times: not every rank finds the file that `moefold bench` "
                           "wrote; repair: put hardware/local*.yaml where all ranks can read it";
    return false;
}

status trainer_predict(trainer *t, error *err)
{
    hardware *hw = ARENA_NEW(t->a, hardware);
    if (is_asked(t)) {
        TRY(ranks_agree(t->c, machine_of_setup(hw, t->s, t->a, err), err));
    } else if (t->o->json || !job_on_cpu(&t->s->j) || !is_measured(t, hw)) {
        return OK;
    }
    struct predicted *p = ARENA_NEW(t->a, struct predicted);
    arena *scratch = arena_create();
    p->hw = *hw;
    price_setup(&p->price, t->s, &p->hw, NULL, scratch);
    p->price.evidence = NULL;
    arena_destroy(scratch);
    cost_init(&p->cost, &p->hw, t->s, NULL);
    t->predicted = p;
    return ranks_agree(t->c, trainer_predict_attach(t, err), err);
}

void trainer_predict_begin(trainer *t)
{
    if (!t->predicted) return;
    executor_time_begin(t->e);
    t->predicted->begun = t->predicted->running;
}

void trainer_predict_step(trainer *t, double seconds)
{
    struct predicted *p = t->predicted;
    if (!p) return;
    executor_time_end(t->e);
    if (p->first) {
        for (int k = 0; k < COST_KINDS; k++)
            timing_add(&p->measured, (cost_kind)k, p->running.seconds[k] - p->begun.seconds[k]);
        p->measured.step += seconds;
        p->measured.steps++;
    }
    p->first = true;
}

void trainer_predict_table(trainer *t)
{
    struct predicted *p = t->predicted;
    timing_row rows[TIMING_ROWS];
    if (t->unpredicted) trainer_say(t, stderr, t->unpredicted);
    if (!p) return;
    arena *scratch = arena_create();
    timing slowest = timing_of_slowest(&p->measured, &p->price, t->s, t->c, scratch);
    int n = slowest.steps > 0 ? timing_rows(rows, &slowest, &p->price, &p->hw) : 0;
    if (n)
        trainer_say(
            t, stderr,
            arena_text(scratch, "seconds per step, predicted from %s and measured on rank %lld",
                       p->hw.path, (long long)layout_stage_rank(&t->s->lay, p->price.slowest)));
    else if (is_asked(t))
        trainer_say(
            t, stderr,
            "predicted and measured times need two steps, because the first is not counted");
    for (int i = 0; i < n; i++)
        trainer_say(t, stderr,
                    arena_text(scratch, "  %-24s %11.6f %11.6f", rows[i].name, rows[i].predicted,
                               rows[i].measured));
    arena_destroy(scratch);
}
