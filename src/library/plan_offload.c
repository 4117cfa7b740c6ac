/* plan_offload.c - activation offload, which the search does not cover, tried on the layouts that
 * it found.
 *
 * Recompute comes first, because offload costs time on the host link. So offload is tried if
 * layouts recompute modules or keep the optimizer on the host for lack of memory, and if nothing
 * fits at all. All rows of the list (or the nearest miss) are priced with everything offloaded and
 * only cheap recompute, the first row also with attention offloaded and experts recomputed. Then
 * the best few of these are changed one knob at a time, as long as that helps: less TP, CP and PP,
 * other recompute, less of the optimizer on the host, overlap, graphs, fewer modules.
 *
 * I1  No variant breaks a rule. A variant that fits is priced as a whole program. The others are
 *     compared by memory, and only the last one that is kept is priced.
 * I2  A variant is kept only if it fits or, while none fits yet, if it needs less memory than the
 *     one kept before. */

#include "base/clock.h"
#include "library/plan_parts.h"
#include "ir/segment.h"

enum { ATTENTION = 1, EVERYTHING = 3, SETS };
enum { STARTS_MAX = BEST_MAX + 2, CLIMBS = 2 };

static const unsigned cheap = DROP_LAYERNORM | DROP_MOE_ACT;

typedef struct trial {
    const plan_answer *p;
    const setup *s; /* any of the model's */
    plan_offload *best;
    plan_offload starts[STARTS_MAX];
    int n;
    arena *a;
} trial;

/* Modules of Megatron whose saved tensors go to the host. */
static const char *modules_of(const trial *t, int set)
{
    static const char *const experts[] = {"expert_fc1,moe_act", "core_attn,attn_proj",
                                          "expert_fc1,moe_act,core_attn,attn_proj"};
    static const char *const dense[] = {"core_attn", "core_attn,attn_proj", "core_attn,attn_proj"};
    bool moe = t->s->m.moe->experts > 0;
    if (set != EVERYTHING) return moe ? experts[set] : dense[set];
    return arena_text(t->a, "%s%score_attn,attn_proj,qkv_linear",
                      t->s->m.attention->mla ? "attn_norm," : "",
                      moe ? "mlp_norm,expert_fc1,moe_act," : "");
}

/* ---- one variant */

static bool better(const price *x, const price *than) /* I2 */
{
    if (x->fits != than->fits) return x->fits;
    return x->fits ? x->step_s < than->step_s : x->peak_bytes < than->peak_bytes;
}

static const char *words_of(const trial *t, int set)
{
    return arena_text(t->a,
                      "model.fine_grained_activation_offloading=true model.offload_modules=[%s]",
                      modules_of(t, set));
}

static void try_variant(trial *t, const choice *c, int set)
{
    price x;
    if (clock_seconds() >= t->p->until) return;
    if (!plan_fit_words(&x, t->p, c, words_of(t, set), t->a)) return;
    t->best->tried++;
    if (x.host_bytes == 0 || (t->best->tried_any && !better(&x, &t->best->p))) return;
    t->best->tried_any = true;
    t->best->c = *c;
    t->best->set = set;
    t->best->modules = modules_of(t, set);
    t->best->p = x;
}

static unsigned modules_there(const trial *t, unsigned drop)
{
    return drop & drop_of_model(&t->s->m);
}

static bool pinned(const trial *t, knob_id k)
{
    return t->p->given->knob[k].from == FROM_USER;
}

/* ---- where to start */

static void start_from(trial *t, const choice *c, int set)
{
    choice x = *c;
    t->best = &t->starts[t->n++];
    if (x.graphs == SCOPE_STEP) x.graphs = SCOPE_NONE; /* its stash is another way */
    try_variant(t, &x, set);
}

/* Everything offloaded, and what is made again cheap. */
static void start_cheap(trial *t, const choice *of)
{
    choice c = *of;
    unsigned kept = c.drop == DROP_FULL ? 0 : c.drop & ~(unsigned)DROP_MOE;
    if (!pinned(t, K_RECOMPUTE)) c.drop = modules_there(t, kept | cheap);
    start_from(t, &c, EVERYTHING);
}

/* Attention offloaded, and experts made again. */
static void start_attention(trial *t, const choice *of)
{
    choice c = *of;
    if (c.drop == DROP_FULL && t->s->m.moe->experts && !pinned(t, K_RECOMPUTE))
        c.drop = modules_there(t, DROP_LAYERNORM | DROP_MLA_UP_PROJ | DROP_MOE);
    start_from(t, &c, ATTENTION);
}

/* Nothing fits. Inputs of layers are all that full recompute keeps. */
static void start_miss(trial *t)
{
    choice c = t->p->result->miss.c;
    start_cheap(t, &c);
    start_from(t, &c, EVERYTHING);
}

/* Rows that differ in their chunks alone lead to the same. */
static bool is_like_one_before(const search_result *r, int i)
{
    const choice *c = &r->best[i].c;
    for (int k = 0; k < i; k++) {
        const choice *x = &r->best[k].c;
        if (x->tp == c->tp && x->cp == c->cp && x->ep == c->ep && x->pp == c->pp) return true;
    }
    return false;
}

/* What it may become: the optimizer may come back from the host, since activations left room. */
static bool promises_more(const plan_offload *x, const plan_offload *than)
{
    if (x->p.fits != than->p.fits) return x->p.fits;
    if (!x->p.fits) return x->p.peak_bytes < than->p.peak_bytes;
    return x->p.step_s - x->p.optimizer < than->p.step_s - than->p.optimizer;
}

/* The next start to climb from; of one PP only one is. NULL: no more. */
static plan_offload *next_start(trial *t, unsigned *pp_seen)
{
    plan_offload *next = NULL;
    for (int i = 0; i < t->n; i++) {
        plan_offload *x = &t->starts[i];
        bool seen = *pp_seen >> (x->c.pp % 32) & 1;
        if (x->tried_any && !seen && (!next || promises_more(x, next))) next = x;
    }
    if (next) *pp_seen |= 1u << (next->c.pp % 32);
    return next;
}

/* ---- one thing at a time */

/* As it is, and with cheap recompute and no graphs: activations of a rank have doubled. */
static void try_sizes(trial *t)
{
    static const knob_id sizes[] = {K_TP, K_CP, K_PP};
    for (int i = 0; i < 3; i++) {
        choice c = t->best->c;
        if (pinned(t, sizes[i]) || !plan_halve(&c, sizes[i])) continue;
        try_variant(t, &c, t->best->set);
        if (!pinned(t, K_RECOMPUTE)) c.drop |= modules_there(t, c.drop & DROP_MOE ? 0 : cheap);
        if (!pinned(t, K_GRAPHS)) c.graphs = SCOPE_NONE;
        try_variant(t, &c, t->best->set);
    }
}

static void try_recompute(trial *t)
{
    const unsigned sets[] = {0, DROP_LAYERNORM, cheap, cheap | DROP_MLA_UP_PROJ};
    if (pinned(t, K_RECOMPUTE)) return;
    for (int i = 0; i < 4; i++) {
        choice c = t->best->c;
        c.drop = modules_there(t, sets[i]);
        if (c.drop != t->best->c.drop) try_variant(t, &c, t->best->set);
    }
}

static void try_optimizer(trial *t)
{
    if (pinned(t, K_OPT_OFFLOAD)) return;
    for (int quarters = 0; quarters < t->best->c.offload; quarters++) {
        choice c = t->best->c;
        c.offload = quarters;
        try_variant(t, &c, t->best->set);
    }
}

static void try_dispatcher(trial *t)
{
    choice c = t->best->c;
    if (c.to >= TO_FLEX || c.ep == 1 || pinned(t, K_DISPATCHER)) return;
    c.to = TO_FLEX;
    try_variant(t, &c, t->best->set);
}

static void try_overlap(trial *t)
{
    choice c = t->best->c;
    bool may = c.ep > 1 && choice_dispatcher(t->p->result->maker, &c)->ep_overlap &&
               (c.pp == 1 || c.vpp > 1);
    if (may && c.overlap < OVERLAP_EP && !pinned(t, K_EP_OVERLAP)) {
        c.overlap = OVERLAP_EP;
        try_variant(t, &c, t->best->set);
    }
    c = t->best->c;
    if (pinned(t, K_GRAPHS)) return;
    c.graphs = c.graphs ? SCOPE_NONE : SCOPE_BOTH;
    try_variant(t, &c, t->best->set);
}

static void try_modules(trial *t)
{
    for (int set = 0; set < SETS; set++)
        if (set != t->best->set) try_variant(t, &t->best->c, set);
}

/* ---- the whole */

/* Would a variant be a program of millions of items? Then the starts are all that is tried, and
 * one that does not fit has no time. */
static bool is_giant(const trial *t, const choice *c)
{
    int64_t dp = t->p->world / (c->tp * c->cp * c->pp);
    return search_is_giant(t->s->m.n_layers, recipe_int(t->p->given, K_GBS) / (dp * c->mbs));
}

static void climb(trial *t)
{
    if (is_giant(t, &t->best->c)) return;
    try_dispatcher(t);
    try_overlap(t);
    try_recompute(t);
    try_optimizer(t);
    try_sizes(t);
    try_optimizer(t);
    try_modules(t);
}

static bool is_worth_trying(const plan_answer *p, const setup *s)
{
    const search_result *r = p->result;
    bool asked = p->given->knob[K_OFFLOAD].from == FROM_USER ||
                 p->given->knob[K_OFFLOAD_MODULES].from == FROM_USER;
    if (asked || !s->gpu || s->gpu->arch == ARCH_CPU) return false;
    return r->n_best ? r->best[0].c.drop || r->best[0].c.offload : r->has_miss;
}

void plan_try_offload(plan_answer *p, arena *a)
{
    search_result *r = p->result;
    const setup *s = choice_base(r->maker, 0, 1);
    p->offload = (plan_offload){0};
    if (!s || !is_worth_trying(p, s)) return;
    trial *t = ARENA_NEW(a, trial);
    *t = (trial){.p = p, .s = s, .a = a};
    for (int i = 0; i < r->n_best; i++)
        if (!is_like_one_before(r, i)) start_cheap(t, &r->best[i].c);
    if (r->n_best)
        start_attention(t, &r->best[0].c);
    else
        start_miss(t);
    unsigned pp_seen = 0;
    for (int i = 0; i < CLIMBS && (t->best = next_start(t, &pp_seen)); i++) {
        climb(t);
        if (i == 0 || better(&t->best->p, &p->offload.p)) p->offload = *t->best;
    }
    if (clock_seconds() >= p->until) p->complete = false;
    p->offload.tried = 0;
    for (int i = 0; i < t->n; i++) p->offload.tried += t->starts[i].tried;
    if (!p->offload.tried_any) return;
    if (!p->offload.p.fits && !is_giant(t, &p->offload.c))
        plan_price_words(&p->offload.p, p, &p->offload.c, words_of(t, p->offload.set), a);
    const price *first = r->n_best ? &r->best[0].exact : NULL;
    p->offload.helps = p->offload.p.fits && (!first || p->offload.p.step_s < first->step_s);
}
