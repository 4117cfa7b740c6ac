/* words.h - the short words in which rules are written, and what lies behind them; for this
 * folder only. */
#ifndef RULES_WORDS_H
#define RULES_WORDS_H

#include "config/target.h"
#include "base/maths.h"
#include "job/cp_kind.h"
#include "layout/setup.h"
#include "config/judgement.h"
#include "config/versions.h"

/* ---- knobs of the setup `s`, by their ids, and words in capitals */

#define I(k)       (s->j.J_FIELD_##k)
#define F(k)       (s->j.J_FIELD_##k)
#define ON(k)      (s->j.J_FIELD_##k)
#define IS(k, w)   (s->j.J_FIELD_##k == J_##k##_##w)
#define HAS(k, w)  job_lists(s->j.J_FIELD_##k, J_##k##_##w)
#define ITEMS(k)   (s->j.J_FIELD_##k.n)
#define ITEM(k, i) (s->j.J_FIELD_##k.item[i])
#define LISTED(k)  (s->j.J_FIELD_##k.listed)
#define SET(k)     job_has(&s->j, K_##k)
#define SAID(k)    (FROM(k) == FROM_USER) /* a person wrote it, null included */
#define FROM(k)    recipe_from(&s->r, K_##k)
#define USER(k)    (SET(k) && SAID(k))
#define LM         job_is_lm(&s->j) /* Megatron-LM's defaults and habits hold */

/* Is a a multiple of b? True where either is not positive: that is another rule's business. */
#define MULTIPLE(a, b) divides((b), (a))

#define CHUNKS        (s->pipe.vpp) /* model chunks of a pipeline rank */
#define COUNTED       (SET(FIRST_LAYERS) || SET(LAST_LAYERS))
#define ACCOUNTED     (ON(ACCOUNT_EMBEDDING) || ON(ACCOUNT_LOSS))
#define OURS          job_is_ours(&s->j) /* our runtime, not Megatron's */
#define MUON          (IS(OPTIMIZER, MUON) || IS(OPTIMIZER, ADAPTIVE_MUON))
#define EMERGING      (MUON || IS(OPTIMIZER, SOAP))
#define CPUS          (s->gpu && s->gpu->arch == ARCH_CPU)
#define NVL72         job_spans_nodes(&s->j)
#define BLACKWELL     (s->gpu && s->gpu->arch == ARCH_BLACKWELL)
#define HOPPER        (s->gpu && s->gpu->arch == ARCH_HOPPER)
#define AMPERE        (s->gpu && s->gpu->arch == ARCH_AMPERE)
#define GRAPHED       (SET(GRAPHS) && !IS(GRAPHS, NONE))
#define TE_GRAPHS     IS(GRAPHS, TRANSFORMER_ENGINE)
#define SELECTIVE     IS(RECOMPUTE, SELECTIVE)
#define FULL          IS(RECOMPUTE, FULL)
#define RECOMPUTES(w) (SELECTIVE && HAS(RECOMPUTE_MODULES, w))
#define CAPTURES(w)   (GRAPHED && HAS(GRAPH_MODULES, w))
#define OFFLOADS(w)   (ON(OFFLOAD) && HAS(OFFLOAD_MODULES, w))
#define SOME_CP(t)    cp_some(s->j.cp_comm, offsetof(cp_traits, t), true)
#define LACKS_CP(t)   cp_some(s->j.cp_comm, offsetof(cp_traits, t), false)
#define TO(trait)     (dispatcher_by(s->j.dispatcher, s->j.flex)->trait) /* of the dispatcher */
#define FLEX_IS(w)    (IS(DISPATCHER, FLEX) && IS(FLEX, w))
#define DROPS         (SET(CAPACITY) && F(CAPACITY) >= 0)
#define FP8_BY(w)     (SET(FP8) && IS(FP8_RECIPE, w))

/* ---- numbers.c: whole numbers; 0 where there is no layout */

int64_t rule_dp(const setup *s);
int64_t rule_edp(const setup *s);
int64_t rule_microbatches(const setup *s);
int64_t rule_group(const setup *s);  /* microbatches of a chunk in a row */
int64_t rule_stages(const setup *s); /* of the pipeline, virtual ones counted */
int64_t rule_moe_layers(const setup *s);
int64_t rule_core_heads(const setup *s); /* key/value heads of core attention on a rank */
int64_t rule_dense_layers(const setup *s);
int64_t rule_tokens(const setup *s);    /* that the dense GEMMs of a rank see at once */
int64_t rule_rotated(const setup *s);   /* dimensions of a head that are rotated */
int64_t rule_product(job_numbers list); /* of sizes */
int64_t rule_gdn_width(const setup *s); /* of the gated delta net's input projection */

bool rule_state_exceeds(const setup *s); /* weights, gradients and optimizer alone do not fit */
double rule_bubble(const setup *s);
bool rule_reaches(const setup *s, grid g, axis x); /* do its groups, beyond one NVLink domain? */

/* "Every n-th layer", or a list of 0 and 1: is it something else? */
bool rule_pattern_is_odd(job_numbers layers);

/* Is the split of layers given in two ways that exclude each other? Its own rules say so. */
bool rule_split_contradicts(const setup *s);

int rule_precision_part(const setup *s); /* a knob that contradicts mixed_precision, or -1 */

/* ---- sizes.c: what the model, and the world, allow. SIZES are those of near_knobs. */

enum { TP_, CP_, PP_, EP_, ETP_, N_SIZES };
extern const knob_id near_knobs[N_SIZES];

bool size_fits(const setup *s, int which, int64_t size);     /* by itself */
bool sizes_fit_together(const setup *s, const int64_t *x);   /* the model allows them all */
bool sizes_fit_world(const setup *s, const int64_t *x);      /* they divide n_gpus */
void sizes_asked(const setup *s, int64_t *x);                /* as the knobs have them */
void sizes_follow(const setup *s, int64_t *x);               /* ETP, where nobody set it */
int64_t size_below(const setup *s, int which, int64_t most); /* largest that fits, at least 1 */

/* ---- near.c: layouts at this world size that differ least from the one asked for */

typedef struct near_layout {
    int64_t size[N_SIZES];
    unsigned changed; /* a bit for each size */
    int n_changes;    /* of sizes, and of knobs that must follow */
    double distance;  /* doublings and halvings; half of one for each that must follow */
} near_layout;

/* Fewest changes first, then the smallest distance. */
int near_layouts(const setup *s, near_layout *out, int max);
bool near_layout_changes(const setup *s, const near_layout *n, int which);

/* ---- quantities.c: the {words} of messages and repairs */

/* The text of a quantity ("dp", "modules_without:moe"), or NULL where it does not exist here. */
const char *rule_quantity(const setup *s, const char *name, arena *a);

/* Is there a quantity of this name at all? For the test of the table. */
bool rule_quantity_known(const char *name);

#endif
