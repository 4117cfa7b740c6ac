/* cost.h - what an operation costs on a described machine.
 *
 * A computation costs the larger of FLOPs over what is reached of the peak and bytes over what is
 * reached of the memory's bandwidth; a message is priced level by level of links (inside the node,
 * inside the NVLink domain, across): the bytes that really cross each, and the slowest counts.
 * Beside either, the host takes time to launch it. */
#ifndef PREDICT_COST_H
#define PREDICT_COST_H

#include "job/dispatcher.h"
#include "predict/routing.h"
#include "ir/capture.h"
#include "ir/program.h"

/* What time is spent on: a key of JSON, and as people say it. */
#define COST_KINDS_TABLE(X)                                                                        \
    X(GEMM, "products", "GEMM")                                                                    \
    X(GROUPED, "experts", "expert GEMM (grouped)")                                                 \
    X(ATTENTION, "attention", "attention")                                                         \
    X(HEAD, "head and loss", "LM head and loss")                                                   \
    X(ROUTING, "routing", "router and permutation")                                                \
    X(MEMORY, "elementwise", "elementwise and norms")                                              \
    X(QUANTISE, "quantising", "FP8 cast")                                                          \
    X(TP, "TP messages", "TP communication")                                                       \
    X(CP, "CP messages", "CP communication")                                                       \
    X(EP, "EP messages", "EP communication")                                                       \
    X(PP, "PP messages", "PP communication")                                                       \
    X(DP, "DP messages", "DP communication")                                                       \
    X(COPY, "host copies", "offload copies")                                                       \
    X(OTHER, "other", "other operations")

typedef enum cost_kind {
#define COST_ENUM(id, name, title) COST_##id,
    COST_KINDS_TABLE(COST_ENUM)
#undef COST_ENUM
        COST_KINDS
} cost_kind;

const char *cost_kind_name(cost_kind k);
const char *cost_kind_title(cost_kind k);

typedef struct op_cost {
    cost_kind kind;
    double seconds;  /* on its stream */
    double quantise; /* of those, what FP8 and FP4 recipes spend on making their numbers */
    double host;     /* to launch it */
    double eager;    /* the same where no graph holds it */
    double replayed; /* and where one does */
    unsigned part;   /* CAPTURED_ bit that holds it */
    bool counts;     /* the host reads what it makes before it launches the exchange after it */
    int owner;       /* of its buffers, as in buf */
} op_cost;

/* A group as its messages see it: that of rank 0, for all are cut alike. */
typedef struct group_facts {
    double members, in_node, in_domain; /* of all; of those in a member's own node, domain */
    link_kind farthest;                 /* that neighbours in the group's order are apart */
    double hops;                        /* latencies that a collective takes one after another */
} group_facts;

/* Rows of an exchange that one rank sends over each kind of link. */
typedef struct exchange_rows {
    bool known;
    double rows[LINK_KINDS];
} exchange_rows;

typedef struct cost_model {
    const hardware *hw;
    const setup *s;
    number_kind plain;    /* numbers of activations */
    number_kind gemms;    /* of linear layers */
    scaling_kind scaling; /* of those, where they are narrower */
    bool narrow_weight_gradients;
    bool quantises;       /* the program has operations for that, and for narrow GEMMs */
    bool by_reference;    /* and those are reference kernels, which the GPU has none for */
    double device, host;  /* factors of the framework */
    double unfused_sinks; /* as in hardware.stacks */
    double skew;          /* load of the fullest EP rank over the mean; 1: balanced, or EP 1 */
    const expert_loads *by_layer; /* [n_by_layer] of a recorded routing; NULL: all have `skew` */
    int64_t n_by_layer;
    int64_t first[2]; /* layers that the list at hand begins with, by owner of its buffers */
    double fill;      /* rows of routed buffers that are filled, over their room */
    double fullest;   /* what experts' loads are at least, as `skew`: balance is left to chance */
    double aligned;   /* rows of which an expert's part of those is a multiple */
    double padding;   /* rows with what that adds, over those without, where routing is balanced */
    const dispatcher *to; /* its experts */
    bool gathers;         /* as allgather does where Megatron runs: no price is for its messages */
    bool wide_combine; /* and it sums up what experts made in FP32, as the router's numbers are */
    bool sorts_again; /* one rank has all experts, and its dispatcher sorts for them all the same */
    bool one_by_one;  /* the framework calls a GEMM for each expert, on a few streams */
    bool by_nodes;    /* EP overlap: parts of layers are scheduled one by one */
    bool delays;      /* weight gradients are called from Python, when their turn comes */
    double routing;   /* part of the routing's bytes that are moved beside the messages */
    double permute_passes; /* of one permutation: 1, or those of the unfused one */
    bool packs_itself;     /* the dispatcher sends tokens from where they lie */
    double router_passes;  /* and of the router's */
    double routing_launches, router_launches;
    double routing_calls, router_calls; /* times what the machine's table has */
    double expert_launches[2];          /* wide, narrow */
    double expert_calls;                /* 1: they are launched one by one */
    double replay[2];   /* seconds of the host to start a graph of parts of a layer, by phase */
    bool can_fuse;      /* the framework's op fuser has such a kernel */
    bool fused_experts; /* activation and what makes its inputs and results narrow ride in
                                  the grouped GEMMs */
    bool stashes;       /* what experts keep is copied to pages in forward, and back */
    double stashes_act; /* 1: the second GEMM's input, too; 0: it is computed again */
    unsigned captured;
    bool copies_async;          /* to the host; on CPUs the cores that compute make them */
    double gathered_bytes;      /* of a weight that is gathered */
    double share[COST_KINDS];   /* of the chip, that hidden messages of a kind take */
    double kind_part[OP_COUNT]; /* of the memory's efficiency, that a kind of operation reaches */
    group_facts groups[GROUP_COUNT];
    exchange_rows exchanges[GROUP_COUNT][3][2]; /* by hop, forth and back */
} cost_model;

/* `stack` NULL: moefold.stack of the recipe, or the newest. The setup is possible. */
void cost_init(cost_model *c, const hardware *hw, const setup *s, const char *stack);

/* Where ranks share the experts of a layer, the fullest has `skew` times the mean. */
void cost_set_skew(cost_model *c, double skew);

op_cost cost_of(const cost_model *c, const segment *seg, const op *o);

/* Bytes that are counted for an operation that memory binds: of its buffers, mostly. */
double cost_bytes(const segment *seg, const op *o);

/* As if the recipe fused experts (use_transformer_engine_op_fuser). */
void cost_fuse(cost_model *c);

/* As if it had the paged stash (moe_paged_stash), and made `drop` again (DROP_ bits). */
void cost_stash(cost_model *c, unsigned drop);

/* What messages of a group count as; what an operation does, on any machine. */
cost_kind cost_kind_of(comm_group g);
cost_kind cost_kind_of_op(const op *o);

/* Is it, where Megatron runs, part of a dispatch's kernel? It stands between two hops: it takes
 * what a message brought, and a message takes what it makes. */
bool cost_passes_on(const cost_model *c, const segment *seg, const op *o);

/* A kind of the file that ops.def does not have; NULL: there is none. */
const char *cost_unknown_kind(const hardware *hw);

/* Once a step: PART_BEGIN, PART_REPORT and PART_UPDATE. The optimizer's pass over this rank's
 * shard, gradient norm, gradients set to zero, weights made narrow, offload traffic. Upload, sums
 * over ranks and the report are in the machine's seconds of a step (hardware.step). On a GPU whose
 * kinds of operations were measured our own program's operations are priced one by one. */
double cost_of_optimizer(const cost_model *c, const program *p);

/* What that has, in our own program, of the host's link and of AdamW on the host: bytes
 * that are copied, seconds that they take, and those that nothing hides, which are part of the
 * optimizer's. */
typedef struct update_copies {
    double bytes, seconds, exposed;
} update_copies;
update_copies cost_update_copies(const cost_model *c, const program *p);

#endif
