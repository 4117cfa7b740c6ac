/* routing.c - records which experts tokens went to, for `price --routing` and `plan`.
 *
 * Routers count the tokens of their rank; every token is counted by one rank, in the layers of its
 * stage. So each rank adds up its own counts, and one sum over all ranks gives those of the run,
 * whatever the layout. Steps that gave no finite loss are left out. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "predict/routing.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

static int64_t counts_of(const trainer *t)
{
    return (t->s->m.n_layers + t->s->m.n_mtp) * t->s->m.moe->experts;
}

static status place_is_writable(const trainer *t, const char *path, error *err)
{
    const char *folder = file_folder(t->a, path);
    if (!*path)
        return error_set(err, ERR_INPUT, "--save-routing '': has no name; repair: name a file");
    if (file_is_folder(path))
        return error_set(err, ERR_INPUT, "--save-routing %s: is a folder; a file is needed", path);
    if (access(*folder ? folder : ".", W_OK) == 0) return OK;
    return error_set(
        err, ERR_MACHINE,
        "--save-routing %s: its folder cannot be written to; repair: name another folder", path);
}

status trainer_routing_open(trainer *t, error *err)
{
    const char *path = t->o->save_routing;
    if (!path) return OK;
    if (!routing_layers(&t->s->m, NULL))
        return error_set(err, ERR_INPUT,
                         "--save-routing %s: %s has no experts; repair: leave --save-routing out",
                         path, t->s->m.name);
    t->routed = ARENA_ARRAY(t->a, double, counts_of(t));
    return ranks_agree(t->c, comm_rank(t->c) == 0 ? place_is_writable(t, path, err) : OK, err);
}

void trainer_routing_step(trainer *t)
{
    if (!t->routed) return;
    for (int64_t i = 0, n = counts_of(t); i < n; i++) t->routed[i] += (double)t->report.loads[i];
    t->routed_steps++;
}

static status write_sums(const trainer *t, const double *sums, arena *a, error *err)
{
    const model *m = &t->s->m;
    int64_t n = routing_layers(m, NULL), *list = ARENA_ARRAY(a, int64_t, n);
    routing_layer *layers = ARENA_ARRAY(a, routing_layer, n);
    routing_layers(m, list);
    for (int64_t i = 0; i < n; i++)
        layers[i] = (routing_layer){list[i], sums + list[i] * m->moe->experts};
    routing r = {.model = m->name,
                 .experts = m->moe->experts,
                 .topk = m->moe->topk,
                 .steps = t->routed_steps,
                 .tokens = t->routed_steps * t->gbs * batch_seq(t->p),
                 .layers = layers,
                 .n = n};
    return routing_write(&r, t->o->save_routing, err);
}

status trainer_routing_save(trainer *t, error *err)
{
    if (!t->routed) return OK;
    if (!t->routed_steps) {
        trainer_say(t, stderr,
                    arena_text(t->a, "--save-routing %s: not written, no step had a finite loss",
                               t->o->save_routing));
        return OK;
    }
    arena *scratch = arena_create();
    int64_t n = counts_of(t);
    double *sums = ARENA_ARRAY(scratch, double, n);
    memcpy(sums, t->routed, sizeof *sums * (size_t)n);
    comm_sum(t->c, GROUP_WORLD, sums, (int)n);
    comm_work before = comm_work_begin(t->c, WORK_WRITE);
    status s = comm_rank(t->c) == 0 ? write_sums(t, sums, scratch, err) : OK;
    comm_work_end(t->c, before);
    arena_destroy(scratch);
    return ranks_agree(t->c, s, err);
}
