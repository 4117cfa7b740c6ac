/* hardware.h - what a machine can do: hardware/NAME.yaml, every number with its source there.
 *
 * Peaks are per GPU and dense; links are one way. Efficiencies are curves: what part of a peak is
 * reached, by size; between the points both are read on logarithmic scales, outside they stay at
 * the ends. A part hardly grows faster than the size, so that more never takes less time. */
#ifndef HARDWARE_HARDWARE_H
#define HARDWARE_HARDWARE_H

#include "base/arena.h"
#include "base/status.h"
#include "hardware/gpus.h"

enum { CURVE_MAX = 16, PARTS_MAX = 64 };

typedef struct curve {
    int n;
    double x[CURVE_MAX], y[CURVE_MAX];
    double log_x[CURVE_MAX], log_y[CURVE_MAX]; /* to base 2 */
    double slope[CURVE_MAX];                   /* of those, from each point to the next */
} curve;

double curve_at(const curve *c, double x);

typedef enum number_kind {
    NUMBER_FP32,
    NUMBER_BF16,
    NUMBER_FP8,
    NUMBER_FP4,
    NUMBER_COUNT
} number_kind;

/* How numbers of narrow GEMMs are scaled. */
typedef enum scaling_kind {
    SCALING_DELAYED,
    SCALING_TENSORWISE,
    SCALING_BLOCKWISE,
    SCALING_MXFP8,
    SCALING_NVFP4,
    SCALING_COUNT
} scaling_kind;

/* GEMMs of a layer beside its forward one: gradients by inputs, and by weights, which the first
 * microbatch of a step may write and the others add to. */
typedef enum gradient_form {
    GRADIENT_DATA,
    GRADIENT_WEIGHT,
    GRADIENT_ADDED,
    GRADIENT_FORMS
} gradient_form;

/* What an operation of one kind, by its name in ops.def, reaches of memory.efficiency. */
typedef struct kind_part {
    const char *kind;
    double part;
} kind_part;

/* One level of links: inside the node, inside the NVLink domain, across. */
typedef struct link_level {
    double latency;   /* seconds of a message */
    double bandwidth; /* bytes a second, one way, of one GPU */
    curve efficiency; /* by bytes of a message */
} link_level;

/* Whose rates of dispatch a file has, under these names; who takes them: job/dispatchers.def. */
#define DISPATCH_RATES(X)                                                                          \
    X(ALLTOALL, "alltoall")                                                                        \
    X(DEEPEP, "deepep")                                                                            \
    X(HYBRIDEP, "hybridep")

typedef enum dispatch_kind {
#define DISPATCH_ENUM(id, name) DISPATCH_##id,
    DISPATCH_RATES(DISPATCH_ENUM)
#undef DISPATCH_ENUM
        DISPATCH_KINDS
} dispatch_kind;

/* A framework's kernels of the delta rule, at heads of 128. Most work on all chunks at once: they
 * reach a part of the BF16 peak. Those that hand a state from chunk to chunk take as long as the
 * sequence has chunks, with one head as with `heads`. */
typedef struct rule_rates {
    double part[2];  /* forward, backward; 0: the framework is taken for as fast as our own */
    double chunk[2]; /* seconds of one chunk, forward and backward */
    double heads;    /* of all sequences, that run beside one another */
} rule_rates;

/* How many kernels of a framework one of our operations stands for. */
typedef enum launch_kind {
    LAUNCH_PRODUCT,
    LAUNCH_GROUPED,
    LAUNCH_EXPERT,        /* of a grouped GEMM, for each expert beside; not with the op fuser */
    LAUNCH_EXPERT_NARROW, /* the same of narrow ones: each expert's inputs are made narrow */
    LAUNCH_ATTENTION,
    LAUNCH_RULE, /* the delta rule and what prepares its heads; 0: as attention */
    LAUNCH_HEAD,
    LAUNCH_ROUTER,
    LAUNCH_ROUTER_UNFUSED, /* without model.moe_router_fusion */
    LAUNCH_ROUTING,
    LAUNCH_ROUTING_UNFUSED, /* without model.moe_permute_fusion */
    LAUNCH_ELEMENTWISE,
    LAUNCH_QUANTISE,
    LAUNCH_MESSAGE,
    LAUNCH_KINDS
} launch_kind;

/* Host time of one of our operations in units of hardware.launch, by kind. */
typedef enum call_kind {
    CALL_PRODUCT,
    CALL_GROUPED,
    CALL_EXPERT, /* of a grouped GEMM, for each expert beside: a loop in C++ */
    CALL_ATTENTION,
    CALL_RULE, /* the delta rule and what prepares its heads; 0 both ways: as attention */
    CALL_HEAD,
    CALL_ROUTER,
    CALL_ROUTING,
    CALL_ELEMENTWISE,
    CALL_HEADS, /* one of the copies that exchange the delta rule's tokens for heads; 0 both ways:
                   as elementwise */
    CALL_MESSAGE,
    CALL_REPLAY, /* of a graph of parts of a layer: beside what its nodes take */
    CALL_NODE,   /* of a part of a layer that EP overlap schedules by itself */
    CALL_KINDS
} call_kind;

typedef struct hardware {
    const char *name, *path;
    const char *measured;       /* the day on which `moefold bench` did; NULL: described by hand */
    gpu_arch arch;              /* for the rules; unsaid: as the shipped GPU of this name has it */
    double peak[NUMBER_COUNT];  /* FLOP/s; 0: it has no such numbers */
    int64_t memory, usable;     /* bytes that a program sees; that plans may fill (headroom) */
    double memory_bandwidth;    /* bytes a second */
    curve memory_efficiency;    /* by bytes of an operation */
    kind_part kinds[PARTS_MAX]; /* where kinds were measured one by one */
    int n_kinds;
    int64_t gpus_per_node, nvlink_domain;
    link_level node, domain, across;
    double host_bandwidth;       /* one way */
    double host_both;            /* both ways at once, together; 0: each as if it were alone */
    double host_memory;          /* bytes of a node's host; 0: nobody has said */
    double host_adam;            /* elements a second that a GPU's share of the host updates */
    double launch, graph_launch; /* seconds on the host for a kernel, eager and in a graph */
    double sync;                 /* seconds that the host loses when it reads a count back */
    double step;                 /* seconds of the host once a step, whatever its size */
    double least;                /* seconds that the smallest kernel takes on the device */
    double clock;                /* times what curves of GEMMs and head say; 0: 1 */
    double message_share;        /* of the chip that messages take from GEMMs beside them */
    double near_share; /* the same of dispatch that stays in the NVLink domain; 0: as above */
    double fusion;     /* part of the elementwise bytes that fused kernels still move */
    double unfused;    /* times the bytes where a recipe leaves permutation or router unfused */
    curve gemm[NUMBER_COUNT];    /* by the geometric mean of both sizes of the result */
    double depth[NUMBER_COUNT];  /* length of the sums at which half of that is reached */
    curve grouped[NUMBER_COUNT]; /* the same by rows of an expert */
    /* gradients, where they were measured by themselves; of grouped GEMMs in BF16 and in FP8.
     * No points: as forward. */
    curve gemm_gradient[NUMBER_COUNT][GRADIENT_FORMS], grouped_gradient[GRADIENT_FORMS];
    curve grouped_narrow[GRADIENT_FORMS];
    double grouped_depth, grouped_narrow_depth; /* 0: as that of dense GEMMs */
    double tile;          /* rows of an expert are computed in multiples of this */
    curve attention[2];   /* forward, backward: by tokens of the sequence that are seen */
    curve attention_head; /* factor on both, by size of a head */
    double
        attention_unequal[2]; /* forward, backward: where heads of values have another size; 0: 1 */
    double attention_sinks;   /* factor on both where attention has sinks */
    double attention_wide[2]; /* forward, backward: part of the peak where heads are wider than 128;
                                 0: as curves and attention_head say */
    double linear_attention;  /* part of the BF16 peak: delta rule, our own kernels */
    rule_rates rule;          /* a framework's kernels of it */
    double head;              /* the same: GEMM with the vocabulary */
    double logit_bytes;       /* that loss and gradient of one logit move */
    double narrow_rate[SCALING_COUNT];   /* of FP8 and FP4 GEMMs, against the best scaling */
    double narrow_bytes[SCALING_COUNT];  /* moved to make one element of an input */
    double dispatch[DISPATCH_KINDS][2];  /* part of the link's bandwidth: inside, across */
    curve dispatch_near[DISPATCH_KINDS]; /* inside, by ranks in the domain; none: as above */
    /* Seconds of a row besides its bytes, inside and across; parts of links are then those of rows
     * of 14,336 bytes. */
    double dispatch_row[DISPATCH_KINDS][2];
    double dispatch_start; /* seconds of a message of a flex backend beside its kernel, eager */
    double dispatch_copies[DISPATCH_KINDS]; /* part of the routing's bytes beside the messages */
    double launches[LAUNCH_KINDS];
    double calls[CALL_KINDS][2]; /* forward, backward; 0 everywhere: as many as launches */
    double narrow_calls;         /* times those of GEMMs that are narrow */
    double unfused_calls;        /* times those of the router or of routing where it is unfused */
    double framework;            /* 1: what runs there is Megatron's program, not ours */
    /* What the framework makes of it: one factor on device times and one on host times for each
     * generation of containers, oldest first. */
    struct stack {
        const char *name; /* "26.08" */
        double device, host;
        double unfused_sinks; /* attention with sinks keeps all scores in memory: 1, everywhere;
                                 0.5, with a sliding window; 0, nowhere */
        double fused_experts; /* 1: its op fuser makes one kernel of grouped GEMM, activation
                                 and FP8 cast */
        double fused_biases;  /* 1: of experts with biases, too */
    } stacks[CURVE_MAX];
    int n_stacks;
} hardware;

/* A file beside the descriptions: in the folders that `moefold bench` writes to (./hardware, the
 * user's), else where all are. NULL: in none of them. */
const char *hardware_file(const char *name, arena *a);

/* hardware/NAME.yaml in a folder above the program, in share/moefold/hardware beside its folder, or
 * a path. ERR_INPUT: nobody described such a GPU (those described are named), or the file is wrong
 * (line, key). */
status hardware_read(hardware *h, const char *name, arena *a, error *err);

/* The text of such a file; `path` stands in messages. */
status hardware_parse(hardware *h, const char *path, const char *data, size_t n, arena *a,
                      error *err);

/* The part of visible memory that plans leave free unless a recipe says otherwise
 * (moefold.headroom). A rank is not alone with its plan: other processes, a larger step
 * (evaluation, a checkpoint's buffers) and the spread of routing and of the allocator come on top.
 * Published runs go up to 92.7 % of what is visible, reserved, and to 96 % with what lies outside
 * the allocator. */
#define HEADROOM_DEFAULT 0.05

/* Sets `usable`. */
void hardware_leave(hardware *h, double headroom);

/* The text of such a file, in `a`: every key with its number and what `says` has to say of it
 * (NULL: nothing), behind `heading`, lines of comments. */
typedef const char *(*hardware_says)(const void *who, const char *key);
const char *hardware_text(const hardware *h, const char *heading, hardware_says says,
                          const void *who, arena *a);

/* What layouts and rules must know of it. */
gpu hardware_gpu(const hardware *h);

/* ERR_INPUT: the file describes no such generation of containers (those it does are named). NULL is
 * always there. */
status hardware_has_stack(const hardware *h, const char *name, error *err);

/* Names of the machines that are described, sorted. */
const char *const *hardware_names(int *n, arena *a);

#endif
