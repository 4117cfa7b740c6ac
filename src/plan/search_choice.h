/* search_choice.h - one layout of a search: a value for every knob that is searched.
 *
 * A choice becomes knobs in two ways: set in the recipe as people write it (choice_set), from which
 * setup_init derives the rest; or patched into a setup that is resolved already (choice_patch),
 * thirty times as fast. Both give the same setup; a test compares them knob by knob. */
#ifndef PLAN_SEARCH_CHOICE_H
#define PLAN_SEARCH_CHOICE_H

#include "ir/segment.h"
#include "job/cp_kind.h"
#include "job/dispatcher.h"
#include "layout/setup.h"
#include "plan/axes.h"
#include "predict/routing.h"
#include "plan/search_memo.h"

/* A dispatcher with a word of its own; flex with the platform's backend, or the one that a person
 * named; behind that, flex with each of the others. */
typedef enum dispatch_choice {
#define DISPATCHER(id, ...) TO_##id,
#define FLEX_BACKEND(id, ...)
#include "job/dispatchers.def"
    TO_FLEX,
    TO_KINDS = TO_FLEX
#define DISPATCHER(...)
#define FLEX_BACKEND(...) +1
#define UNBUILT(...)
#include "job/dispatchers.def"
} dispatch_choice;

/* What runs beside expert messages. */
typedef enum overlap_kind {
    OVERLAP_NOTHING,
    OVERLAP_SHARED,   /* the shared expert */
    OVERLAP_WGRAD,    /* experts' weight gradients beside dispatch */
    OVERLAP_EP,       /* another microbatch: combined 1F1B */
    OVERLAP_EP_DELAY, /* and weight gradients delayed */
    OVERLAP_KINDS
} overlap_kind;

/* What CUDA graphs capture. */
typedef enum graph_scope {
    SCOPE_NONE,
    SCOPE_ATTENTION,
    SCOPE_ROUTER, /* and what is counted before tokens travel */
    SCOPE_BOTH,   /* of these; or the modules that a person named */
    SCOPE_STEP,   /* the whole iteration: paged stash keeps its shapes fixed */
    SCOPES
} graph_scope;

/* Optimizer state on the host, in quarters that are updated there; or all of it, moved to the GPU
 * to be updated, which our own runs do. */
enum { OFFLOAD_ALL = 4, OFFLOAD_MOVED, OFFLOADS };

typedef struct choice {
    int64_t tp, cp, mbs, ep, etp, pp, vpp;
    cp_kind kind;
    dispatch_choice to;
    overlap_kind overlap;
    int precision; /* of choice_maker.precisions */
    int split;     /* 0: as derived from PP and VPP; 1: embedding and head count as a layer */
    unsigned drop; /* DROP_ bits of ir/segment.h; DROP_FULL: full, layer by layer */
    signed char pick[PICKS]; /* an index of pick_values */
    int offload;             /* quarters of the optimizer's state on the host, or OFFLOAD_MOVED */
    graph_scope graphs;
} choice;

enum { PIPE_KNOBS = 16 };
typedef struct pipe_knob {
    knob_id k;
    setting s;
} pipe_knob;

/* A split of layers over stages, as setup_init resolves it. */
typedef struct pipe_split {
    int64_t pp, vpp;
    int split;
    bool ok, receives_early; /* overlap_p2p_communication */
    pipeline pipe;
    pipe_knob knob[PIPE_KNOBS]; /* what it sets or reads */
    int n_knobs;
    const job *j; /* of which these knobs count */
} pipe_split;

enum { PRECISIONS_MAX = 8 };

/* Lists as jobs and recipes have them. */
enum { LISTED_MAX = DROP_MODULES, LEVELS_LOG = 16 };
typedef struct word_list {
    signed char word[LISTED_MAX]; /* J_... */
    value v[LISTED_MAX];
    int n;
} word_list;

typedef struct level_list {
    int64_t item[2];
    value v[2];
} level_list;

typedef struct choice_maker {
    arena *a;
    const recipe *given;                    /* with cluster, sequence and batch set */
    job asked;                              /* what it says; null where it is open */
    bool ours;                              /* for our own runtime */
    bool pinned[K_COUNT], by_plan[K_COUNT]; /* set there: by a person or a plan; by a plan */
    const routing *routed; /* recorded loads, from which each EP has its skew; NULL: none */
    int64_t world;
    int precisions[PRECISIONS_MAX]; /* J_PRECISION_...; 0: as the recipe has it */
    bool wide[PRECISIONS_MAX]; /* with weights in 16 bits, which the optimizer on the host needs */
    bool aware;                /* the precision-aware optimizer, on every layout */
    int n_precisions;
    struct base_setup {
        int precision;
        int64_t tp;
        setup *s; /* NULL: cannot be made */
        struct base_setup *next;
    } * bases;
    memo splits; /* pipe_split by PP, VPP and split */
    /* In place: a choice may be set between a mark of the arena and its release. */
    word_list graph_modules[SCOPES], drop_modules[1 << DROP_MODULES];
    level_list levels[LEVELS_LOG][LEVELS_LOG]; /* by powers of two */
} choice_maker;

/* Everything but routing and precisions, of which there is none yet. */
void choice_open(choice_maker *m, const recipe *given, arena *a);

/* Sets the knobs of a choice as a person would. */
void choice_set(recipe *r, choice_maker *m, const choice *c);

/* The split of a choice's PP and VPP; ok false: there is none. */
const pipe_split *choice_split(choice_maker *m, const choice *c);

/* A setup with no parallelism but TP: what patches start from. NULL: the recipe forbids it. */
const setup *choice_base(choice_maker *m, int precision, int64_t tp);

/* The whole setup of a choice. `split` NULL: PP 1, for what does not depend on stages. False: the
 * base cannot be made. */
bool choice_patch(setup *out, choice_maker *m, const choice *c, const pipe_split *split);

/* The same again and again into one place: the knobs that the last patch wrote are put back, and no
 * recipe is copied where the base is the same. Nobody else writes knobs there. */
enum { WRITTEN_WORDS = (K_COUNT + 63) / 64 };
typedef struct patch_log {
    const setup *base; /* NULL: nothing is there yet */
    uint64_t written[WRITTEN_WORDS];
} patch_log;
bool choice_repatch(setup *out, patch_log *log, choice_maker *m, const choice *c,
                    const pipe_split *split);

/* May it have others than the plain value of a pick, and, for a job (or NULL), does a search try
 * them? Sets those to the plain one that may not. */
bool choice_may_pick(const choice *c, pick_id p, const job *j);
void choice_settle(choice *c);

/* All picks as one number: in 16 bits, as a card's key has it. */
_Static_assert(PICKS < 5, "more picks need wider keys");
static inline int choice_picks(const choice *c)
{
    int all = 0;
    for (int p = 0; p < PICKS; p++) all = 8 * all + c->pick[p];
    return all;
}

/* Inner and outer ranks of hierarchical CP; false: there is no such split. */
bool choice_levels(const setup *base, int64_t tp, int64_t cp, int64_t levels[2]);

/* CAPTURED_ bits of predict/cost.h. */
unsigned choice_captured(const choice_maker *m, graph_scope g);

/* Under flex of the choice's EP group. Its word, of model.moe_token_dispatcher_type. */
const dispatcher *choice_dispatcher(const choice_maker *m, const choice *c);
const char *choice_dispatcher_word(dispatch_choice to);
const char *choice_graphs(graph_scope g);                 /* for tables */
const char *choice_text(arena *a, const choice *c);       /* "TP1 CP32 EP32 ..." */
const char *choice_pick(arena *a, pick_id p, int picked); /* "TP overlap", "no TP overlap" */
const char *choice_modules(arena *a, unsigned drop);      /* "layernorm+moe_act"; "-" for none */

/* Part of the optimizer's state that is on the host, and where all of it is in words: "50 % of the
 * optimizer on the host". */
double choice_on_host(const choice *c);
const char *choice_offload(arena *a, const choice *c);

#endif
