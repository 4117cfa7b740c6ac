/* search_parts.h - what the files of a search share; no other file includes it.
 *
 * The outer loops go over knobs that change part costs (cards), the inner ones over knobs that only
 * change their sums: attention (search_nodes.c), experts and PP (search_experts.c), recompute and
 * the rest (search_stages.c), one layout (search_attempt.c).
 *
 * I1  Every bound is at most the value that it bounds; docs/PLAN.md has the reasons. A single
 *     stream bounds a card; GEMMs at the chip's peak bound those of any experts; the mean rank
 *     bounds the fullest; and the bytes that are live at once bound any packing. Tests search parts
 *     of the space without bounds and compare.
 * I2  Every layout that is left out is counted. */
#ifndef PLAN_SEARCH_PARTS_H
#define PLAN_SEARCH_PARTS_H

#include "predict/fit.h"
#include "plan/card_steps.h"
#include "plan/search.h"
#include "plan/search_axes.h"
#include "plan/search_memo.h"
#include "plan/search_space.h"

/* Attention of a layout: what the outer loop runs through. */
typedef struct node {
    choice c;
    int far;                /* from the first guess of CP x TP, in powers of two */
    bool wide;              /* its layouts have some of the optimizer on the host */
    double least;           /* no step is shorter */
    double attention, each; /* of that: layers' attention a microbatch; microbatches a step */
} node;

/* Which inner layouts are legal: the same for all sizes that agree in what space_inner_ok reads of
 * them, which is the key of search.inner. */
typedef struct inner {
    int64_t n;
    int n_by[OFFLOADS][DROPS_MAX][2][SCOPES];            /* [offload][set][combined 1F1B][graphs] */
    int64_t n_from[DROPS_MAX][2][OFFLOADS + 1];          /* the same of this offload and larger */
    bool ok[OVERLAP_KINDS][SCOPES][OFFLOADS][DROPS_MAX]; /* [beside][graphs][offload][set] */
} inner;

/* A pipeline rank of some stages: how often each part's seconds count in its step, and how many
 * messages between stages pass before it is done. */
typedef struct time_row {
    double weigh[MIX_PARTS], messages;
    double alone[MIX_PARTS]; /* of those, what combined 1F1B does not pair: its warm-up */
} time_row;

typedef struct part_list { /* that some stage has */
    int n;
    int part[MIX_PARTS];
} part_list;

typedef struct stage_times {
    int n;
    part_list parts;
    time_row *rows;
} stage_times;

/* The same for memory: its state by offload, and how often what each part saves is alive
 * ([combined 1F1B]). */
typedef struct memory_row {
    int64_t state[OFFLOADS], live[2][MIX_PARTS];
} memory_row;

typedef struct stage_bytes {
    bool ok;     /* the stages can be made */
    int passing; /* hidden states on their way, under Megatron */
    int n;
    part_list parts;
    memory_row *rows;
    double optimizer[OFFLOADS]; /* seconds of the slowest rank */
} stage_bytes;

/* Seconds from below, in the order of what they cost to find. */
typedef enum least_level {
    LEAST_ROUGH,  /* whatever runs beside whatever */
    LEAST_TIGHT,  /* with what the choice has beside; attention of pairs by itself */
    LEAST_PAIRED, /* pairs as they meet */
    LEAST_LEVELS
} least_level;

/* What a set of modules leaves of a layer, for one attention and one spread of experts: bytes, and
 * seconds from below in up to LEAST_WAYS ways, each of which is a bound. */
enum { LEAST_WAYS = 3 };
typedef struct drop_bytes {
    unsigned visit;
    int64_t saved[2][MIX_PARTS]; /* [combined 1F1B] */
} drop_bytes;
typedef struct drop_times {
    unsigned visit;
    int ways;
    bool pairs; /* are some of them longer alone? */
    double seconds[LEAST_WAYS][MIX_PARTS];
    double longer[LEAST_WAYS][MIX_PARTS]; /* than that alone, where those are of a pair */
} drop_times;

/* Of sizes, dispatcher and PP: what lies outside, and under Megatron a hidden state between
 * stages. */
typedef struct visit_frame {
    reported_frame all;
    int64_t passing;
} visit_frame;

/* What rules exclude (search_rules.c). */
enum { MASKS_MOST = 64 };
typedef struct rule_memory {
    unsigned *of_rule;          /* [rules] axes that each reads */
    unsigned closed;            /* axes that pins leave one value */
    unsigned masks[MASKS_MOST]; /* sets of axes with which something is remembered */
    int n_masks;
    memo known; /* by mask and values: a rule is broken there */
    unsigned of_knob[K_COUNT];
    int64_t fine[AXES]; /* values of the last layout that broke no rule */
    bool any_fine;
    bool *left_out;     /* [rules] that a layout cannot break because that one did not */
    const rule *ranges; /* the rule that looks at every knob */
} rule_memory;

/* One layout that is looked at. */
typedef struct attempt {
    setup s;
    patch_log log;
    step_shape z;
    const layout_facts *f;
    part_sums sums;
    double message;
    int64_t *fixed; /* [pp] bytes of all regions but saved and temporaries; of Megatron's, all that
                     * stays through a step */
    int64_t *step;  /* [pp] Megatron's: what the optimizer's step takes beside that */
    reported_frame frame;
} attempt;

typedef struct search {
    search_result *out;
    const search_options *o;
    space sp;
    cards *k;
    ranks *r;
    arena *a, *scratch;
    /* [precision][to][space_captures_step][ep > 1][pp > 1][vpp > 1] */
    inner *inner[PRECISIONS_MAX][TO_KINDS][2][2][2][2];
    chunk_sum *chunks;                   /* [PP x VPP], as many as any split has */
    int64_t *fixed, *step;               /* [PP] */
    int64_t *of_chunk;                   /* [VPP] */
    memo times, bytes, states, messages; /* stage_times, stage_bytes, state from below, seconds */
    memo frames;                         /* visit_frame */
    int64_t layers[LAYER_KINDS_MAX];
    int module;    /* kind of the layer in the prediction module; -1: there is none */
    setup patched; /* of sizes alone, by whoever needs one for a moment */
    patch_log of_patched;
    attempt tried;           /* the layout that is judged */
    struct site_work *sites; /* of search_stages.c */
    unsigned visit; /* counts pairs of attention and experts: what is remembered of others is old */
    double node_least;         /* of the attention that is visited */
    double experts_least;      /* MLPs of all layers, with the best of the experts that it met */
    int64_t inputs[MIX_PARTS]; /* of its layers, bytes */
    double message;            /* between stages of the PP that is visited */
    unsigned plausible; /* the last of which stages were found that memory does not exclude */
    drop_bytes drop_bytes[DROPS_MAX];
    drop_times drop_times[LEAST_LEVELS][OVERLAP_KINDS][SCOPES][DROPS_MAX];
    rule_memory rules;
    bool waits;                           /* the optimizer's state, on the host between updates */
    bool packs;                           /* a step: what is saved is no bound of its bytes */
    bool megatron;                        /* runs it: memory is what it would report */
    reported_frame least[PRECISIONS_MAX]; /* of whatever layout */
    const visit_frame *frame;             /* of the attention, experts and PP that are visited */
    bool all, rare;                       /* everything is looked at; only what is rare, or not */
    bool done, late;                      /* nothing more is looked at; because time is up */
} search;

/* ---- search.c */

/* Is it over? Looks at the clock: asked before whatever takes more than some microseconds. */
bool search_over(search *s);

void search_visit_nodes(search *s, node *nodes, int n);

/* ---- search_nodes.c */

/* The list, most promising first; gives their number. */
int search_list_nodes(search *s, node **list);

/* What experts take at least beside the i-th attention, they take beside others of its sizes. */
void search_tell_others(const search *s, node *list, int i, int n);

/* ---- search_inner.c */

const inner *search_inner_table(search *s, const choice *c);
int64_t search_inner_count(search *s, const choice *c);

/* With the recompute and offload that leave least. */
choice search_smallest(const search *s, const choice *c);

/* Is such a layout looked at now? */
bool search_is_now(const search *s, const choice *c, bool rare_stages);

/* Inner layouts of all stages of the i-th PP that are looked at now. */
int64_t search_count_pp(search *s, const choice *c, int i);

typedef void expert_visit(search *s, const node *n, choice *c);
void search_each_experts(search *s, const node *n, expert_visit *visit);
void search_count_visit(search *s, const node *n, choice *c); /* as legal */
void search_slow_visit(search *s, const node *n, choice *c);  /* as too slow */
void search_rule_visit(search *s, const node *n, choice *c);  /* as breaking a rule */

/* ---- search_experts.c */

void search_experts_visit(search *s, const node *n, choice *c);

/* ---- search_shape.c */

const stage_times *search_stage_times(search *s, const choice *c);
const stage_bytes *search_stage_bytes(search *s, const choice *c); /* NULL: cannot be made */
double stage_times_least(const stage_times *t, const drop_times *of, double message);
int64_t stage_bytes_least(const stage_bytes *t, const int64_t *saved, int offload, bool pairs);

/* The least offload with which that may fit; OFFLOADS: none. */
int stage_bytes_offload(const stage_bytes *t, const int64_t *saved, bool pairs, int64_t usable);

/* ---- search_bounds.c */

int64_t search_micros(const search *s, const choice *c);

/* Bytes of state of the mean rank, from below. */
int64_t search_state_least(search *s, const choice *c, int offload);

/* What the d-th set of modules leaves; the choice's own `drop` counts for nothing. */
const int64_t *search_drop_bytes(search *s, const choice *c, int d, bool pairs);

/* Seconds of the choice's attention and experts with the d-th set of modules. */
const drop_times *search_drop_times(search *s, const choice *c, int d, least_level level);

/* Of all layers, a microbatch, whatever the stages. */
double search_layers_least(search *s, const choice *c);

/* ---- search_stages.c */

void search_try_stages(search *s, choice c);

/* ---- search_attempt.c */

typedef enum verdict { TOO_SLOW, TOO_LARGE, BROKEN, GOOD } verdict;

/* Sizes, state and regions of the layout. False: it cannot be made. */
bool attempt_patch(search *s, const choice *c, attempt *t);

/* Chunks from what their parts sum to. */
void attempt_sum_chunks(search *s, const choice *c, const attempt *t);

/* Bytes of the fullest rank. */
typedef enum peak_level {
    PEAK_LEAST, /* from below */
    PEAK_ALIVE, /* with what lives at once, under Megatron or combined 1F1B */
    PEAK_EXACT
} peak_level;
int64_t attempt_peak(search *s, const choice *c, const attempt *t, peak_level level);

/* Nothing may ever fit: then what needs least is the nearest miss. */
void search_see_miss(search *s, const choice *c, int64_t peak);

/* Seconds of a hidden state on its way to the next stage. */
double search_message(search *s, const choice *c);

/* What plays the step; the chunks are summed. */
step_simulation attempt_simulation(search *s, const choice *c, const attempt *t);

/* Step played, memory summed. */
verdict attempt_judge(search *s, const choice *c, attempt *t, found *out);

/* Puts what is good among the best and on the front, if it belongs there and breaks no rule. */
void attempt_keep(search *s, const choice *c, attempt *t, const found *f);

/* ---- search_rules.c */

void search_rules_open(search *s);

/* Does the recipe as it was given break rules that no layout can satisfy? They are kept. */
bool search_rules_never(search *s, const setup *probe);

/* Is a rule known to be broken wherever these axes have the choice's values? */
bool search_forbidden(const search *s, const choice *c, unsigned decided);

/* Checks a layout's setup; what it breaks is remembered. */
bool search_breaks_rule(search *s, const choice *c, setup *t);

/* ---- search_front.c */

void search_fill_front(search *s, node *nodes, int n);

/* ---- search_finish.c */

void search_price_best(search *s, arena *a);
void search_climb(search *s);

#endif
