/* kinds.c - a kernel's kind, by the table of names.
 *
 * I1  A collective is of its group, whatever operation started it: NCCL's kernels are named by what
 *     they do, not by whom it is for. Without a group's description the operation decides, then
 *     the collective: only pipelines send and receive.
 * I2  Parts of names are compared without regard to case. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "measure/profile/profile.h"

const char *profile_kind_name(int kind)
{
    if (kind < COST_KINDS) return cost_kind_name((cost_kind)kind);
    return kind == KIND_OPTIMIZER ? "optimizer" : "unknown";
}

const char *profile_kind_title(int kind)
{
    if (kind < COST_KINDS) return cost_kind_title((cost_kind)kind);
    return kind == KIND_OPTIMIZER ? "optimizer" : "unknown kernels";
}

const char *profile_cause_name(idle_cause c)
{
    static const char *const names[] = {
#define CAUSE_NAME(id, name, title) name,
        PROFILE_CAUSES_TABLE(CAUSE_NAME)
#undef CAUSE_NAME
    };
    return names[c];
}

const char *profile_cause_title(idle_cause c)
{
    static const char *const titles[] = {
#define CAUSE_TITLE(id, name, title) title,
        PROFILE_CAUSES_TABLE(CAUSE_TITLE)
#undef CAUSE_TITLE
    };
    return titles[c];
}

const char *profile_source_name(profile_source s)
{
    static const char *const names[] = {"PyTorch-profiler trace", "Nsight Systems export",
                                        "Megatron log"};
    return names[s];
}

typedef struct name_row {
    const char *kernel, *operation;
    int kind;
} name_row;

static const name_row rows[] = {
#define KERNEL(kernel, operation, kind) {kernel, operation, kind},
#include "measure/profile/names.def"
#undef KERNEL
};

typedef struct group_row {
    const char *part;
    int kind;
} group_row;

static const group_row groups[] = {
#define KERNEL(kernel, operation, kind)
#define GROUP(part, kind) {part, kind},
#include "measure/profile/names.def"
#undef GROUP
#undef KERNEL
};

enum { ROWS = sizeof rows / sizeof rows[0], GROUPS = sizeof groups / sizeof groups[0] };

/* I2 */
static bool has_part(const char *name, const char *part, size_t n)
{
    for (; *name; name++)
        if (strncasecmp(name, part, n) == 0) return true;
    return false;
}

static bool has_any(const char *name, const char *parts)
{
    if (!*parts) return true;
    for (;;) {
        size_t n = strcspn(parts, "|");
        if (has_part(name, parts, n)) return true;
        if (!parts[n]) return false;
        parts += n + 1;
    }
}

static bool op_matches(const char *wanted, const char *const *ops, int n_ops)
{
    if (!*wanted) return true;
    if (*wanted == '^') return n_ops > 0 && text_starts(ops[0], wanted + 1);
    for (int i = 0; i < n_ops; i++)
        if (has_any(ops[i], wanted)) return true;
    return false;
}

bool profile_is_gemm(const char *kernel)
{
    return has_any(kernel, "gemm|nvjet|cutlass|wgmma") && !has_any(kernel, "grouped|fmha|flash");
}

/* ---- collectives (I1) */

static const group_row by_operation[] = {
    {"MoE|dispatch|combine|_AllToAll", COST_EP},
    {"RingAttn|CPAttn|AttnFuncWithCP|context_parallel", COST_CP},
    {"pipeline|p2p|forward-recv|forward-send|backward-recv|backward-send", COST_PP},
    {"GradBuffer|all-grads-sync|params-all-gather|DistributedOptimizer", COST_DP},
    {"LinearWithGradAccumulation|ReduceFromModelParallel|ReduceScatterToSequence|"
     "GatherFromSequence|_LayerNormLinear|_Linear",
     COST_TP},
};

static const group_row by_collective[] = {
    {"SendRecv", COST_PP},
    {"ReduceScatter|AllGather|AllReduce|Broadcast|Reduce", COST_OTHER},
};

static int kind_in(const group_row *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (has_any(name, list[i].part)) return list[i].kind;
    return KIND_UNKNOWN;
}

static int kind_of_collective(const char *kernel, const char *group, const char *const *ops,
                              int n_ops)
{
    int kind = group ? kind_in(groups, GROUPS, group) : KIND_UNKNOWN;
    for (int i = n_ops - 1; i >= 0 && kind == KIND_UNKNOWN; i--)
        kind = kind_in(by_operation, sizeof by_operation / sizeof by_operation[0], ops[i]);
    if (kind != KIND_UNKNOWN) return kind;
    return kind_in(by_collective, sizeof by_collective / sizeof by_collective[0], kernel);
}

int profile_kind_of(const char *kernel, const char *group, const char *const *ops, int n_ops)
{
    if (text_starts(kernel, "nccl")) return kind_of_collective(kernel, group, ops, n_ops);
    for (int i = 0; i < ROWS; i++)
        if (has_any(kernel, rows[i].kernel) && op_matches(rows[i].operation, ops, n_ops))
            return rows[i].kind;
    return KIND_UNKNOWN;
}
