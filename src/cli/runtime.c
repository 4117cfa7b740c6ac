/* runtime.c - what our own runtime can run, and what this machine can hold. */
#include "cli/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/maths.h"
#include "cli/gpu.h"
#include "cli/join.h"
#include "layout/number_types.h"
#include "ir/program.h"
#include "config/target.h"

void cli_derive_here(recipe *r, bool says)
{
    static const char *const signs[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (access(signs[i], F_OK) == 0) return;
    bool filled =
        recipe_fill(r, K_GPU, value_of_text("cpu"), FROM_DERIVED, "unset: this machine has no GPU");
    if (filled && says && cli_speaks())
        fprintf(stderr, "cluster.gpu=cpu, since it is unset and this machine has no GPU\n");
}

/* A recipe for Megatron may be run here, too; rules speak of our own target alone. */
static status nothing_is_ignored(const recipe *r, arena *a, error *err)
{
    target_lack l;
    for (int i = 0; target_lack_of(r, i, &l, a); i++)
        if (l.asked)
            return error_set(err, ERR_RULE,
                             "%s%s%.200s: `train` does not support this; repair: "
                             "%s=%s",
                             l.name, l.text ? "=" : "", l.text ? l.text : "", l.name, l.instead);
    return OK;
}

/* Number formats that our optimizer has. */
static status formats_are_run(const setup *s, arena *a, error *err)
{
    number_types t = number_types_of(&s->j);
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
            knobs[list[i].k].key, value_text(a, recipe_setting(&s->r, list[i].k)->v),
            dtype_name(list[i].type), knobs[list[i].k].key,
            list[i].k == K_REMAINDERS ? "false" : "fp32");
    }
    return OK;
}

status cli_can_run(const setup *s, arena *a, error *err)
{
    TRY(gpu_can_run(s, err));
    TRY(formats_are_run(s, a, err));
    return nothing_is_ignored(&s->r, a, err);
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
typedef struct bytes_needed {
    int64_t device, host; /* of all ranks */
} bytes_needed;

static bytes_needed bytes_of_all(const setup *s, arena *a)
{
    arena_place mark = arena_mark(a);
    program_size *list = ARENA_ARRAY(a, program_size, s->pipe.pp);
    program_sizes(list, s, a);
    bytes_needed sum = {0, 0};
    int64_t times = s->lay.world / s->pipe.pp;
    for (int64_t i = 0; i < s->pipe.pp; i++) {
        int64_t host = add_sat(list[i].host_bytes, list[i].kept_bytes);
        sum.device = add_sat(sum.device, mul_sat(list[i].arena_bytes, times));
        sum.host = add_sat(sum.host, mul_sat(host, times));
    }
    arena_release(a, mark);
    return sum;
}

status cli_fits_here(const setup *s, const recipe *given, comm *c, arena *a, error *err)
{
    int64_t world = s->lay.world, have = machine_memory(), local = c ? comm_local(c) : world;
    const bytes_needed all = bytes_of_all(s, a);
    const bool cuda = recipe_is(&s->r, K_DEVICE, "cuda");
    status st = cuda ? gpu_fits(s, given, (gpu_need){all.device, c}, a, err) : OK;
    double here = (double)add_sat(cuda ? 0 : all.device, all.host);
    double need = here * (double)local / (double)world;
    if (st || need <= (double)have) return st;
    const char *bytes = text_bytes(a, need < 9e18 ? (int64_t)need : INT64_MAX);
    if (cuda)
        return error_set(err, ERR_RULE,
                         "%s does not fit: offload of %lld rank%s needs %s of host memory, and "
                         "this machine has %s; repair: set %s, or fewer model.offload_modules",
                         s->r.name, (long long)local, local > 1 ? "s" : "", bytes,
                         text_bytes(a, have),
                         state_is_moved(&s->j) ? "optimizer.offload_optimizer_states=false with "
                                                 "optimizer.optimizer_cpu_offload=true and a small "
                                                 "optimizer.optimizer_offload_fraction"
                                               : "a smaller optimizer.optimizer_offload_fraction");
    return error_set(err, ERR_RULE,
                     "%s does not fit: %lld rank%s on this machine need %s, and it has %s; repair: "
                     "`moefold check` lists recompute that frees memory, or use more machines",
                     s->r.name, (long long)local, local > 1 ? "s" : "", bytes, text_bytes(a, have));
}
