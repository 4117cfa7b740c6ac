/* gpu.c - choosing a GPU, and what keeps a recipe from running on it. */
#include "cli/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/maths.h"
#include "cli/runtime.h"
#include "backend/device/cuda.h"
#include "backend/cpu/kernels/blas.h"
#include "report/ladder.h"

/* ---- choosing */

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
    recipe_set(r, K_TARGET, value_of_text("moefold"), "this machine runs our own programs");
    if (says)
        fprintf(stderr, "%s=moefold: this machine runs our own program with the %s's kernels\n",
                knobs[K_TARGET].key, recipe_is(r, K_DEVICE, "cpu") ? "CPU" : "GPU");
}

/* ---- can it run */

static const char *cudnn_folder(const recipe *r)
{
    return recipe_given(r, K_CUDNN_PATH) ? recipe_word(r, K_CUDNN_PATH) : "";
}

/* Whoever names a folder wants that one. Where none is named, attention that needs cuDNN says so
 * when its kernels are bound. */
static status named_cudnn_is_there(const recipe *r, error *err)
{
    char found[4300];
    error why = {{0}};
    const char *variable = getenv("MOEFOLD_CUDNN"), *folder = cudnn_folder(r);
    bool by_variable = !*folder && variable && *variable;
    if ((!*folder && !by_variable) || !device_cuda_cudnn(folder, found, sizeof found, &why))
        return OK;
    return error_set(err, ERR_MACHINE, "%s=%s: %s",
                     by_variable ? "MOEFOLD_CUDNN" : knobs[K_CUDNN_PATH].key,
                     by_variable ? variable : folder, why.text);
}

static status named_algorithms_are_there(const recipe *r, error *err)
{
    if (!recipe_given(r, K_CUBLASLT) || recipe_is(r, K_CUBLASLT, "none") ||
        file_exists(recipe_word(r, K_CUBLASLT)))
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s=%s: there is no such file; repair: write one with `moefold bench --device "
                     "cuda RECIPE --out FILE`, or set it to none for the heuristic's choice",
                     knobs[K_CUBLASLT].key, recipe_word(r, K_CUBLASLT));
}

/* Messages between nodes go by NCCL, which has run with one rank only: who asks for it may try. */
static bool wants_nccl(void)
{
    const char *way = getenv("MOEFOLD_TRANSPORT");
    return way && text_equal(way, "nccl");
}

status gpu_can_run(const setup *s, error *err)
{
    static const char instead[] = "cluster.gpu=cpu trains on CPUs, moefold.device=cpu runs the "
                                  "GPU's program on them, and `moefold show RECIPE --as "
                                  "megatron-lm` writes the arguments for Megatron";
    cuda_gpu found;
    error why;
    const recipe *r = &s->r;
    bool on_gpu = recipe_is(r, K_DEVICE, "cuda") || (device_is_open(r) && !recipe_on_cpu(r));
    if (!on_gpu) return OK;
    if (s->lay.world > s->lay.gpus_per_node && !wants_nccl())
        return error_set(err, ERR_RULE,
                         "cluster.gpu=%s: our GPU backend runs on one node, but this layout has "
                         "%lld ranks and cluster.gpus_per_node=%lld; repair: %s",
                         recipe_word(r, K_GPU), (long long)s->lay.world,
                         (long long)s->lay.gpus_per_node, instead);
    if (recipe_is(r, K_DEVICE, "cuda")) TRY(named_cudnn_is_there(r, err));
    TRY(named_algorithms_are_there(r, err));
    if (!device_cuda_look(&found, &why)) return OK;
    return error_set(err, ERR_MACHINE, "cluster.gpu=%s: %s; or %s", recipe_word(r, K_GPU), why.text,
                     instead);
}

const char *cli_runs_on(const setup *s, arena *a)
{
    cuda_gpu found;
    error why;
    char cudnn[4300];
    if (!recipe_is(&s->r, K_DEVICE, "cuda") || device_cuda_look(&found, &why))
        return blas_describe();
    if (device_cuda_cudnn(cudnn_folder(&s->r), cudnn, sizeof cudnn, &why))
        snprintf(cudnn, sizeof cudnn, "no cuDNN");
    return arena_text(a, "%s, %s free of %s, driver for CUDA %d.%d, %s", found.name,
                      text_bytes(a, found.free), text_bytes(a, found.total), found.driver / 1000,
                      found.driver / 10 % 100, cudnn);
}

/* ---- memory */

/* What libraries and code take after the context is there; the measured number is printed by a run
 * (about 20 MiB), this is what is kept free for it. */
static const int64_t KEPT = (int64_t)64 << 20;

/* Rungs with their bytes, and the first that fits. A peak has what lies outside the arena, too;
 * here the context is there already, and what is free is free beside it. */
static const char *ladder_text(const setup *s, const recipe *given, int64_t room, arena *a)
{
    try_budget budget = {.left = TRY_SECONDS(5)};
    rung rungs[RUNGS_MAX];
    hardware *hw = ARENA_NEW(a, hardware);
    price *now = ARENA_NEW(a, price);
    error ignored;
    if (hardware_read(hw, recipe_word(&s->r, K_GPU), a, &ignored)) return "";
    price_setup(now, s, hw, NULL, a);
    ladder_job asked = {given, &s->j, now, hw, NULL, &budget};
    int n = report_ladder(rungs, &asked, a), fits = -1;
    const int64_t outside = now->peak_bytes - now->arena_bytes;
    textbuf t = text_init(a);
    text_add(&t, "; memory by recompute:");
    for (int i = 0; i < n; i++) {
        const int64_t arena_bytes = rungs[i].peak_bytes - outside;
        bool room_for_it = arena_bytes <= room;
        text_add(&t, "%s %s %s%s", i ? "," : "", rungs[i].name, text_bytes(a, arena_bytes),
                 room_for_it ? " (fits)" : "");
        if (room_for_it && fits < 0 && !rungs[i].own) fits = i;
    }
    if (fits >= 0)
        text_add(&t, "; repair: %s", rungs[fits].words);
    else
        text_add(&t, "; none fits; repair: fewer tokens per microbatch, fewer layers or experts, "
                     "or more GPUs");
    return n ? t.s : "";
}

/* What each process that shares a GPU takes beside its arena: context, code, libraries. */
static const int64_t CONTEXT = (int64_t)600 << 20;

/* Ranks of the job on the same GPU: each says which one it has. */
static int64_t sharing_of(const setup *s, const cuda_gpu *found, comm *c)
{
    if (!c) return ceil_div(s->lay.world, found->count > 0 ? found->count : 1);
    int64_t n = 0, size = comm_size(c);
    char(*all)[sizeof found->uuid] = calloc((size_t)size, sizeof *all);
    if (!all) return 1;
    comm_collect(c, GROUP_WORLD, found->uuid, sizeof found->uuid, all);
    for (int64_t r = 0; r < size; r++) n += memcmp(all[r], found->uuid, sizeof found->uuid) == 0;
    free(all);
    return n;
}

/* Ranks that start one after another find less and less free: each counts all that are to share its
 * GPU, against the whole of it. */
status gpu_fits(const setup *s, const recipe *given, gpu_need need, arena *a, error *err)
{
    cuda_gpu found;
    status st = device_cuda_look(&found, err);
    const int64_t sharing = sharing_of(s, &found, need.c);
    if (st) return st;
    int64_t room = (sharing > 1 ? found.total - sharing * CONTEXT : found.free) - KEPT;
    const double each = (double)need.bytes / (double)s->lay.world;
    const int64_t bytes = sharing > 1 ? (int64_t)(each * (double)sharing) : (int64_t)each;
    if (bytes <= room) return OK;
    if (sharing > 1)
        return error_set(
            err, ERR_RULE,
            "%s does not fit: %lld ranks share a GPU and need %s, and %s each for contexts and "
            "libraries; this %s has %s; repair: use more GPUs, or a repair of `moefold check`",
            s->r.name, (long long)sharing, text_bytes(a, bytes), text_bytes(a, CONTEXT), found.name,
            text_bytes(a, found.total));
    return error_set(err, ERR_RULE,
                     "%s does not fit: it needs %s, and %s for libraries; of the %s of this %s, %s "
                     "are free: %s are missing%s",
                     s->r.name, text_bytes(a, bytes), text_bytes(a, KEPT),
                     text_bytes(a, found.total), found.name, text_bytes(a, found.free),
                     text_bytes(a, bytes - room), ladder_text(s, given, room, a));
}
