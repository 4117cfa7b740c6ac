/* tensorboard.c - the numbers of a run's lines as TensorBoard's scalars, under Megatron's tags.
 *
 * Rank 0 writes them. Where a file cannot be written all ranks hear of it, as with metrics. */
#include <math.h>

#include "backend/comm/agree.h"
#include "train/loop/state.h"

enum { SCALARS_MAX = 2 * LOSSES_MAX + 16 };

typedef struct scalars {
    event_scalar list[SCALARS_MAX];
    int n;
} scalars;

static void add(scalars *s, const char *tag, double x)
{
    if (s->n < SCALARS_MAX) s->list[s->n++] = (event_scalar){tag, x};
}

static bool is_wanted(const trainer *t)
{
    return job_has(&t->s->j, K_TENSORBOARD);
}

status trainer_board_open(trainer *t, error *err)
{
    if (!is_wanted(t)) return OK;
    status s = OK;
    if (comm_rank(t->c) == 0)
        s = event_file_open(&t->shm_transport, t->s->j.tensorboard, t->a, err);
    return ranks_agree(t->c, s, err);
}

static status write_all(trainer *t, int64_t step, const scalars *all, error *err)
{
    if (!is_wanted(t)) return OK;
    comm_work before = comm_work_begin(t->c, WORK_WRITE);
    status s = OK;
    if (t->shm_transport.file)
        s = event_file_add(&t->shm_transport, step, (double)time(NULL), all->list, all->n, err);
    comm_work_end(t->c, before);
    return ranks_agree(t->c, s, err);
}

status trainer_board_line(trainer *t, const iteration_line *it, error *err)
{
    scalars all = {.n = 0};
    for (int i = 0; i < it->n_losses; i++) add(&all, it->losses[i].name, it->losses[i].value);
    add(&all, "learning-rate", it->lr);
    add(&all, "batch-size", (double)it->global_batch);
    add(&all, "loss-scale", it->loss_scale);
    add(&all, "iteration-time", it->seconds);
    add(&all, "throughput", it->tflops);
    if (it->has & LINE_NORM) add(&all, "grad-norm", it->norm);
    if (it->has & LINE_ZEROS) add(&all, "num-zeros", (double)it->zeros);
    if (it->has & LINE_PARAMS_NORM) add(&all, "params-norm", it->params_norm);
    return write_all(t, it->iteration, &all, err);
}

status trainer_board_validation(trainer *t, const step_losses *losses, error *err)
{
    scalars all = {.n = 0};
    for (int i = 0; i < losses->n; i++) {
        const named_loss *l = &losses->list[i];
        add(&all, arena_text(t->a, "%s validation", l->name), l->value);
        add(&all, arena_text(t->a, "%s validation ppl", l->name), exp(fmin(20, l->value)));
    }
    return write_all(t, t->at.iteration, &all, err);
}

status trainer_board_close(trainer *t, status st, error *err)
{
    error why = {{0}};
    status s = event_file_close(&t->shm_transport, &why);
    if (st || !is_wanted(t)) return st;
    if (s) *err = why;
    return ranks_agree(t->c, s, err);
}
