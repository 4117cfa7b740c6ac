/* runtime.c - what our own runtime can run, and what this machine can hold. */
#include "cli/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/maths.h"
#include "device/cuda.h"
#include "kernels/cpu/blas.h"
#include "layout/number_types.h"
#include "program/program.h"

/* Knobs that ask for what `train` does not do yet: better said than ignored. */
static const knob_id not_yet[] = {K_RAMPUP,          K_SKIP_ITERS,        K_RESET_POSITIONS,
                                  K_RESET_MASK,      K_FORCE_RANDOM,      K_MTP_DETACH,
                                  K_MTP_REPEATED,    K_PER_LAYER_LOG,     K_WANDB,
                                  K_LOG_PROGRESS,    K_DP_RANDOM_INIT,    K_RETAIN,
                                  K_PROBS_ON_INPUT,  K_HYBRID_CP,         K_DISTRIBUTE_SAVED,
                                  K_DEFER_EMBEDDING, K_PARAM_STEP_OVERLAP};

static status nothing_is_ignored(const recipe *r, arena *a, error *err)
{
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
        knob_id k = not_yet[i];
        value v = r->knob[k].v;
        bool asked = v.kind == V_BOOL ? v.flag : v.kind == V_LIST ? v.list.n > 0 : v.kind != V_NULL;
        if (asked)
            return error_set(err, ERR_RULE, "%s=%s: `train` does not do that yet; repair: %s=null",
                             knobs[k].key, value_text(a, v), knobs[k].key);
    }
    int64_t instances = recipe_int(r, K_OPT_INSTANCES);
    if (instances <= 1) return OK;
    return error_set(err, ERR_RULE, "%s=%lld: `train` does not do that yet; repair: %s=1",
                     knobs[K_OPT_INSTANCES].key, (long long)instances, knobs[K_OPT_INSTANCES].key);
}

/* Number formats that our optimizer has. */
static status formats_are_run(const recipe *r, arena *a, error *err)
{
    number_types t = number_types_of(r);
    const struct {
        bool used;
        dtype type;
        knob_id k;
    } list[] = {{t.masters, t.master, t.master == DTYPE_I16 ? K_REMAINDERS : K_MAIN_PARAMS},
                {true, t.first, K_EXP_AVG},
                {true, t.second, K_EXP_AVG_SQ}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (!list[i].used || list[i].type == DTYPE_F32 || list[i].type == DTYPE_BF16) continue;
        return error_set(
            err, ERR_RULE,
            "%s=%s: the optimizer of `train` keeps FP32 or BF16, not %s; repair: %s=%s",
            knobs[list[i].k].key, value_text(a, r->knob[list[i].k].v), dtype_name(list[i].type),
            knobs[list[i].k].key, list[i].k == K_REMAINDERS ? "false" : "fp32");
    }
    return OK;
}

static bool device_is_open(const recipe *r)
{
    return !recipe_is(r, K_DEVICE, "cpu") && !recipe_is(r, K_DEVICE, "cuda");
}

/* moefold.device=auto: the GPU for what was planned for one, and for a rank that is alone on a
 * machine that has one, unless the CPU is asked for. Where there is none it stays open. */
static void pick_device(recipe *r)
{
    cuda_gpu found;
    error why;
    bool alone = recipe_given(r, K_N_GPUS) && recipe_int(r, K_N_GPUS) == 1;
    bool wanted = !recipe_on_cpu(r) || (alone && recipe_is(r, K_GPU, "local"));
    if (!device_is_open(r) || !wanted || device_cuda_look(&found, &why)) return;
    recipe_set(r, K_DEVICE, value_of_text("cuda"),
               arena_text(r->a, "this machine has a GPU: %s", found.name));
}

void cli_own_target(recipe *r, bool says)
{
    pick_device(r);
    if (device_is_open(r) || recipe_on_cpu(r)) return;
    if (recipe_is(r, K_TARGET, "moefold")) return;
    recipe_set(r, K_TARGET, value_of_text("moefold"), "this machine runs programs of our own");
    if (says)
        fprintf(stderr, "%s=moefold: what runs here is our own program, on the %s's kernels\n",
                knobs[K_TARGET].key, recipe_is(r, K_DEVICE, "cpu") ? "CPU" : "GPU");
}

/* A program that is to run on a GPU: alone, and here is one. */
static status gpu_can_run(const setup *s, error *err)
{
    static const char instead[] = "cluster.gpu=cpu trains on CPUs, moefold.device=cpu runs the "
                                  "GPU's program on them, and `moefold show RECIPE --as "
                                  "megatron-lm` writes the arguments for Megatron";
    cuda_gpu found;
    error why;
    if (s->lay.world > 1)
        return error_set(err, ERR_RULE,
                         "cluster.gpu=%s: our GPU backend runs one rank, and this layout has %lld; "
                         "repair: %s",
                         recipe_word(&s->r, K_GPU), (long long)s->lay.world, instead);
    if (!device_cuda_look(&found, &why)) return OK;
    return error_set(err, ERR_MACHINE, "cluster.gpu=%s: %s; or %s", recipe_word(&s->r, K_GPU),
                     why.text, instead);
}

status cli_can_run(const setup *s, arena *a, error *err)
{
    bool on_gpu =
        recipe_is(&s->r, K_DEVICE, "cuda") || (device_is_open(&s->r) && !recipe_on_cpu(&s->r));
    status st = on_gpu ? gpu_can_run(s, err) : OK;
    if (!st) st = formats_are_run(&s->r, a, err);
    return st ? st : nothing_is_ignored(&s->r, a, err);
}

const char *cli_runs_on(const setup *s, arena *a)
{
    cuda_gpu found;
    error why;
    if (!recipe_is(&s->r, K_DEVICE, "cuda") || device_cuda_look(&found, &why))
        return blas_describe();
    return arena_text(a, "%s, %s free of %s, driver for CUDA %d.%d", found.name,
                      text_bytes(a, found.free), text_bytes(a, found.total), found.driver / 1000,
                      found.driver / 10 % 100);
}

/* ---- memory */

static int64_t group_limit(void)
{
    long long bytes = 0;
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
    bool read = f && fscanf(f, "%lld", &bytes) == 1; /* "max": none */
    if (f) fclose(f);
    return read && bytes > 0 ? bytes : INT64_MAX;
}

static int64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t bytes = pages > 0 && page > 0 ? mul_sat(pages, page) : INT64_MAX, limit = group_limit();
    return limit < bytes ? limit : bytes;
}

/* Ranks of one stage hold the same. */
static int64_t bytes_of_all(const setup *s, arena *a)
{
    arena_place mark = arena_mark(a);
    program_size *list = ARENA_ARRAY(a, program_size, s->pipe.pp);
    program_sizes(list, s, a);
    int64_t sum = 0;
    for (int64_t i = 0; i < s->pipe.pp; i++)
        sum = add_sat(sum, mul_sat(add_sat(list[i].arena_bytes, list[i].host_bytes),
                                   s->lay.world / s->pipe.pp));
    arena_release(a, mark);
    return sum;
}

/* What mpirun says of a rank's machine. */
static int64_t local_ranks(int64_t world)
{
    const char *word = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    int64_t n = word ? atoll(word) : world;
    return n > 0 && n < world ? n : world;
}

static status fits_gpu(const setup *s, arena *a, error *err)
{
    cuda_gpu found;
    status st = device_cuda_look(&found, err);
    int64_t need = st ? 0 : bytes_of_all(s, a);
    if (st || need <= found.free) return st;
    return error_set(err, ERR_RULE,
                     "%s does not fit: it needs %s, and of the %s of this %s %s are free: %s are "
                     "missing; repair: `moefold check` names recompute that frees memory",
                     s->r.name, text_bytes(a, need), text_bytes(a, found.total), found.name,
                     text_bytes(a, found.free), text_bytes(a, need - found.free));
}

status cli_fits_here(const setup *s, int64_t local, arena *a, error *err)
{
    if (recipe_is(&s->r, K_DEVICE, "cuda")) return fits_gpu(s, a, err);
    int64_t world = s->lay.world, have = machine_memory();
    if (local < 1) local = local_ranks(world);
    double need = (double)bytes_of_all(s, a) * (double)local / (double)world;
    if (need <= (double)have) return OK;
    return error_set(err, ERR_RULE,
                     "%s does not fit: %lld rank%s of it here need %s, and this machine has %s; "
                     "repair: moefold check names recompute that frees memory, or more machines",
                     s->r.name, (long long)local, local > 1 ? "s" : "",
                     text_bytes(a, need < 9e18 ? (int64_t)need : INT64_MAX), text_bytes(a, have));
}
