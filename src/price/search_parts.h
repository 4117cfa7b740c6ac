/* search_parts.h - what the files of a search share; nobody else includes it.
 *
 * The loops go from what cards depend on to what only sums depend on: attention (search_nodes.c),
 * experts and PP (search_experts.c), recompute and the rest (search_stages.c), one layout
 * (search_attempt.c).
 *
 * I1  A bound is below what it bounds: the busiest stream of a list below its time, the mean rank
 *     below the fullest, the best products that any EP allows below those of one.
 * I2  Recompute and offload only add time: where a set of modules fits, sets that hold it are not
 *     looked at. But with activation offload what is made again is not copied.
 * I3  Whatever is left out is counted. */
#ifndef PRICE_SEARCH_PARTS_H
#define PRICE_SEARCH_PARTS_H

#include "price/card_steps.h"
#include "price/search.h"
#include "price/search_memo.h"
#include "price/search_space.h"

enum { NODES_MAX = 1 << 14, STAGES_MOST = 4096, CHUNKS_MOST = 256 };

/* Attention of a layout: what the outer loop runs through. */
typedef struct node {
    choice c;
    int far;      /* from the first guess of CP x TP, in powers of two */
    double least; /* no step is shorter */
} node;

/* Which inner layouts are legal: the same for most sizes. */
typedef struct inner {
    int64_t n;
    int64_t n_of[BESIDE_KINDS][2]; /* by what runs beside, graphs */
    bool ok[BESIDE_KINDS][2][2][DROPS_MAX];
} inner;

typedef struct search {
    search_result *out;
    const search_options *o;
    space sp;
    cards *k;
    ranks *r;
    arena *a, *scratch;
    inner *inner[DISPATCHER_KINDS][2][2][2]; /* [to][ep > 1][pp > 1][vpp > 1] */
    chunk_sum chunks[STAGES_MOST];
    int64_t fixed[STAGES_MOST];
    memo live; /* layers whose input is alive on each rank, by split and microbatches */
    int64_t layers[LAYER_KINDS_MAX];
    bool done;
} search;

/* ---- search_nodes.c */

/* Fills `list`, which holds NODES_MAX, most promising first; gives their number. */
int search_list_nodes(search *s, node *list);

/* ---- search_inner.c */

const inner *search_inner_table(search *s, const choice *c);
int64_t search_inner_count(search *s, const choice *c);

/* Inner layouts of all stages; `only_pp` not 0: of those with this PP. */
int64_t search_count_stages(search *s, const choice *c, int64_t only_pp);

typedef void expert_visit(search *s, const node *n, choice *c);
void search_each_experts(search *s, const node *n, expert_visit *visit);
void search_count_visit(search *s, const node *n, choice *c); /* as legal */
void search_slow_visit(search *s, const node *n, choice *c);  /* as too slow */

/* ---- search_experts.c */

void search_experts_visit(search *s, const node *n, choice *c);

/* ---- search_bounds.c */

/* Bytes of state of the mean rank, from below. */
int64_t search_state_least(search *s, const choice *c, bool offload);

/* Does the least that any recompute and offload leave fit? `input`: what a layer saves at least. */
bool search_stages_may_fit(search *s, const choice *c, int64_t input, bool offload);

/* Of all layers, a microbatch: each kind of work by itself, the largest counts. */
double search_layers_least(search *s, const choice *c);

/* What a layer saves under all modules together, of the kind that saves least. */
int64_t search_selective_least(search *s, const choice *c);

/* ---- search_stages.c */

void search_try_stages(search *s, choice c);

/* ---- search_attempt.c */

typedef struct attempt {
    setup s;
    choice_sizes z;
    const layout_facts *f;
    part_sums sums;
    double message;
    int64_t *fixed; /* [pp] bytes of all regions but saved and temporaries */
} attempt;

typedef enum verdict { TOO_SLOW, TOO_LARGE, GOOD } verdict;

/* Sizes, state and regions of the layout. False: it cannot be made. */
bool attempt_patch(search *s, const choice *c, attempt *t);

/* Chunks from what their parts sum to. */
void attempt_sum_chunks(search *s, const choice *c, const attempt *t);

/* Of the fullest rank. `exact`: packed, with temporaries; else a bound. */
int64_t attempt_peak(search *s, const choice *c, const attempt *t, bool exact);

/* Memory from below, before cards of this recompute are built. */
bool attempt_may_fit(search *s, const choice *c, attempt *t);

/* What plays the step; the chunks are summed. */
step_play attempt_play(search *s, const choice *c, const attempt *t);

/* Step played, memory summed. */
verdict attempt_judge(search *s, const choice *c, attempt *t, found *out);

/* Puts what is good among the best and on the front, if it belongs there and breaks no rule. */
void attempt_keep(search *s, const choice *c, attempt *t, const found *f);

/* ---- search_finish.c */

void search_price_best(search *s, arena *a);
void search_climb(search *s);

#endif
