/* executor.c - binding a program to memory and kernels, and running it.
 *
 * I1  Saved buffers move with the microbatch's slot, losses with the microbatch, everything else
 *     stays: addresses are bound for microbatch 0 and shifted. */
#define _GNU_SOURCE
#include "run/executor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct bound_op {
    const op *o;
    kernel_run run;
} bound_op;

typedef struct bound_instance {
    bound_op *ops[2];
    int64_t *place[2]; /* [n_bufs] offset in the arena for microbatch 0, -1: not there */
} bound_instance;

struct executor {
    const program *p;
    unsigned char *arena;
    size_t bytes;
    bound_instance **chunks; /* [n_chunks][n] */
    arena *memory;
};

static status bind_ops(executor *e, const segment *seg, bound_instance *b, bool plain, error *err)
{
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    for (int phase = 0; phase < 2; phase++) {
        b->ops[phase] = ARENA_ARRAY(e->memory, bound_op, seg->n_ops[phase]);
        for (int i = 0; i < seg->n_ops[phase]; i++) {
            const op *o = &seg->ops[phase][i];
            const kernel *k = kernel_pick(rows, n_rows, o, plain);
            if (!k)
                return error_set(err, ERR_MACHINE, "operation %s (%s): no kernel on this machine",
                                 o->name, op_infos[o->kind].name);
            b->ops[phase][i] = (bound_op){o, k->run};
        }
    }
    return OK;
}

static void bind_places(executor *e, int64_t c, int i, bound_instance *b)
{
    const segment *seg = e->p->chunks[c].list[i].seg;
    for (int phase = 0; phase < 2; phase++) {
        b->place[phase] = ARENA_ARRAY(e->memory, int64_t, seg->n_bufs);
        for (int id = 0; id < seg->n_bufs; id++)
            b->place[phase][id] = program_place(e->p, c, i, id, phase, 0);
    }
}

static status bind_all(executor *e, bool plain, error *err)
{
    const program *p = e->p;
    e->chunks = ARENA_ARRAY(e->memory, bound_instance *, p->n_chunks);
    for (int64_t c = 0; c < p->n_chunks; c++) {
        e->chunks[c] = ARENA_ARRAY(e->memory, bound_instance, p->chunks[c].n);
        for (int i = 0; i < p->chunks[c].n; i++) {
            status s = bind_ops(e, p->chunks[c].list[i].seg, &e->chunks[c][i], plain, err);
            if (s) return s;
            bind_places(e, c, i, &e->chunks[c][i]);
        }
    }
    return OK;
}

status executor_open(executor **out, const program *p, bool plain, error *err)
{
    executor *e = calloc(1, sizeof *e);
    if (!e) return error_set(err, ERR_MACHINE, "the host has no memory left");
    e->p = p;
    e->memory = arena_create();
    e->bytes = (size_t)p->arena_bytes;
    e->arena = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->arena == MAP_FAILED) {
        e->arena = NULL;
        status s = error_set(err, ERR_MACHINE, "the plan needs %s; this host does not give them",
                             text_bytes(e->memory, p->arena_bytes));
        executor_close(e);
        return s;
    }
    status s = bind_all(e, plain, err);
    if (s) {
        executor_close(e);
        return s;
    }
    kernels_workspace(e->arena + p->offset[REGION_TEMP] + p->workspace_offset,
                      (size_t)p->workspace_bytes);
    *out = e;
    return OK;
}

void executor_close(executor *e)
{
    if (!e) return;
    if (e->arena) munmap(e->arena, e->bytes);
    arena_destroy(e->memory);
    free(e);
}

/* ---- running */

static int64_t shift_of(const executor *e, const buf *b, int64_t chunk_id, int64_t micro)
{
    const program *p = e->p;
    const int64_t *slot = &p->slot[chunk_id * p->micros];
    if (b->life == LIFE_SAVED || b->life == LIFE_OUTPUT) return slot[micro] - slot[0]; /* I1 */
    bool loss = b->life == LIFE_STEP && (b->step == STEP_LOSS || b->step == STEP_MTP_LOSS);
    return loss ? micro * 8 : 0;
}

static void run_instance(executor *e, int phase, int64_t chunk_id, int i, int64_t micro)
{
    const segment *seg = e->p->chunks[chunk_id].list[i].seg;
    const bound_instance *b = &e->chunks[chunk_id][i];
    for (int k = 0; k < seg->n_ops[phase]; k++) {
        const op *o = b->ops[phase][k].o;
        void *in[OP_IN_MAX], *out[OP_OUT_MAX];
        for (int n = 0; n < OP_IN_MAX; n++) {
            int id = o->in[n];
            in[n] = id < 0 ? NULL
                           : e->arena + b->place[phase][id] +
                                 shift_of(e, &seg->bufs[id], chunk_id, micro);
        }
        for (int n = 0; n < OP_OUT_MAX; n++) {
            int id = o->out[n];
            out[n] = id < 0 ? NULL
                            : e->arena + b->place[phase][id] +
                                  shift_of(e, &seg->bufs[id], chunk_id, micro);
        }
        b->ops[phase][k].run(o, in, out);
    }
}

void executor_run(executor *e, int phase, int64_t chunk_id, int64_t micro)
{
    int n = e->p->chunks[chunk_id].n;
    for (int i = 0; i < n; i++)
        run_instance(e, phase, chunk_id, phase == SEG_FORWARD ? i : n - 1 - i, micro);
}

void executor_loss(executor *e, int64_t micro)
{
    int64_t last = e->p->n_chunks - 1;
    run_instance(e, SEG_BACKWARD, last, e->p->chunks[last].n - 1, micro);
}

/* ---- addresses */

void *executor_region(const executor *e, region r)
{
    return e->arena + e->p->offset[r];
}

void *executor_step_buffer(const executor *e, step_buffer which)
{
    return e->arena + e->p->offset[REGION_STEP] + e->p->step_offset[which];
}

float *executor_hidden(const executor *e, int64_t micro)
{
    const program *p = e->p;
    int64_t c = p->n_chunks - 1;
    int64_t at = program_place(p, c, p->chunks[c].n - 1, 0, SEG_FORWARD, micro);
    return (float *)(void *)(e->arena + at);
}

void executor_clear(executor *e)
{
    static const step_buffer cleared[] = {STEP_LOSS, STEP_MTP_LOSS, STEP_AUX,
                                          STEP_Z,    STEP_LOAD,     STEP_GLOBAL};
    memset(executor_region(e, REGION_GRADIENTS), 0, (size_t)e->p->bytes[REGION_GRADIENTS]);
    for (size_t i = 0; i < sizeof cleared / sizeof cleared[0]; i++)
        memset(executor_step_buffer(e, cleared[i]), 0, (size_t)e->p->step_bytes[cleared[i]]);
}

void executor_fill(executor *e, unsigned char pattern)
{
    memset(e->arena, pattern, e->bytes);
}

unsigned char *executor_arena(const executor *e)
{
    return e->arena;
}
