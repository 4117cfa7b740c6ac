/* activation_offload.c - from layouts of a search to ones with activations on the host.
 *
 * Recompute comes first, because offload costs time on the host link. So offload is tried if
 * layouts recompute modules or keep the optimizer on the host for lack of memory, and if nothing
 * fits at all. All rows of the list (or the nearest miss) are tried with everything offloaded and
 * only cheap recompute, the first row also with attention offloaded and experts recomputed. Then
 * the best few of these are changed one move at a time, as long as that helps: dispatcher, overlap,
 * graphs, other recompute, less of the optimizer on the host, less TP, CP and PP, fewer modules.
 *
 * I1  No variant breaks a rule. A variant that fits is priced as a whole program. The others are
 *     compared by memory, and only the last one that is kept is priced.
 * I2  A variant is kept only if it fits or, while none fits yet, if it needs less memory than the
 *     one kept before. */
#include "plan/activation_offload.h"

#include "base/clock.h"
#include "ir/segment.h"

enum { STARTS_MAX = BEST_MAX + 2, CLIMBS = 2 };

static const unsigned cheap = DROP_LAYERNORM | DROP_MOE_ACT;

typedef struct climbing {
    const variant_job *j;
    const setup *s; /* any of the model's */
    double until;
    activation_offload starts[STARTS_MAX], *best;
    int n;
    arena *a;
} climbing;

static bool pinned(const climbing *t, knob_id k)
{
    return recipe_by_user(t->j->t.given, k);
}

/* ---- one variant */

static bool better(const price *x, const price *than) /* I2 */
{
    if (x->fits != than->fits) return x->fits;
    return x->fits ? x->step_s < than->step_s : x->peak_bytes < than->peak_bytes;
}

static void look(climbing *t, const variant *from, edits e)
{
    if (clock_seconds() >= t->until) return;
    arena *a = arena_create();
    activation_offload *best = t->best;
    variant v;
    try_result x;
    if (variant_try(&x, &v, from, t->j, e, a)) {
        if (!x.priced)
            x.p = (price){
                .peak_bytes = x.peak_bytes, .host_bytes = x.host_bytes, .usable = x.usable_bytes};
        best->tried++;
        if (x.p.host_bytes && (!best->tried_any || better(&x.p, &best->p))) {
            best->tried_any = true;
            best->p = x.p;
            best->v = (variant){v.c, edits_join(v.beside, (edits)NO_EDITS, t->a)};
        }
    }
    arena_destroy(a);
}

static void look_from_best(climbing *t, edits e)
{
    const variant from = t->best->v;
    look(t, &from, e);
}

/* ---- where to start */

static edits recompute(const climbing *t, unsigned drop)
{
    return move_recompute(drop & drop_of_model(&t->s->m), t->a);
}

/* All that Megatron can offload of this model. */
static edits everything(const climbing *t)
{
    const bool moe = t->s->m.moe->experts > 0;
    signed char *word = ARENA_ARRAY(t->a, signed char, 8);
    size_t n = 0;
    if (t->s->m.attention->mla) word[n++] = J_OFFLOAD_MODULES_ATTN_NORM;
    if (moe) {
        word[n++] = J_OFFLOAD_MODULES_MLP_NORM;
        word[n++] = J_OFFLOAD_MODULES_EXPERT_FC1;
        word[n++] = J_OFFLOAD_MODULES_MOE_ACT;
    }
    word[n++] = J_OFFLOAD_MODULES_CORE_ATTN;
    word[n++] = J_OFFLOAD_MODULES_ATTN_PROJ;
    word[n++] = J_OFFLOAD_MODULES_QKV_LINEAR;
    edit *list = ARENA_ARRAY(t->a, edit, 2);
    list[0] = (edit)SET_FLAG(OFFLOAD, true);
    list[1] = (edit){K_OFFLOAD_MODULES, EDIT_WORDS, {.words = {word, n}}};
    return (edits){list, 2};
}

/* With these modules on the host. The stash of a graph of the whole step is another way. */
static void start_from(climbing *t, const choice *c, edits modules, edits more)
{
    const variant from = {.c = *c};
    edits e = edits_join(modules, more, t->a);
    t->best = &t->starts[t->n++];
    if (c->graphs == SCOPE_STEP) e = edits_join(e, moves[MOVE_EAGER].e, t->a);
    look(t, &from, e);
}

/* Everything offloaded, and what is made again cheap. */
static void start_cheap(climbing *t, const choice *c)
{
    unsigned kept = c->drop == DROP_FULL ? 0 : c->drop & ~(unsigned)DROP_MOE;
    bool open = !pinned(t, K_RECOMPUTE);
    start_from(t, c, everything(t), open ? recompute(t, kept | cheap) : (edits)NO_EDITS);
}

/* Attention offloaded, and experts made again. */
static void start_attention(climbing *t, const choice *c)
{
    bool open = c->drop == DROP_FULL && t->s->m.moe->experts && !pinned(t, K_RECOMPUTE);
    start_from(t, c, moves[MOVE_ATTENTION_ON_HOST].e,
               open ? recompute(t, DROP_LAYERNORM | DROP_MLA_UP_PROJ | DROP_MOE) : (edits)NO_EDITS);
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
static bool promises_more(const activation_offload *x, const activation_offload *than)
{
    if (x->p.fits != than->p.fits) return x->p.fits;
    if (!x->p.fits) return x->p.peak_bytes < than->p.peak_bytes;
    return x->p.step_s - x->p.optimizer < than->p.step_s - than->p.optimizer;
}

/* The next start to climb from; of one PP only one is. NULL: no more. */
static activation_offload *next_start(climbing *t, unsigned *pp_seen)
{
    activation_offload *next = NULL;
    for (int i = 0; i < t->n; i++) {
        activation_offload *x = &t->starts[i];
        bool seen = *pp_seen >> (x->v.c.pp % 32) & 1;
        if (x->tried_any && !seen && (!next || promises_more(x, next))) next = x;
    }
    if (next) *pp_seen |= 1u << (next->v.c.pp % 32);
    return next;
}

/* ---- one thing at a time */

static void look_at_overlap(climbing *t)
{
    const choice *c = &t->best->v.c;
    choice flex = *c;
    flex.to = TO_FLEX;
    const edit usual[] = {
        SET_WORD(DISPATCHER, FLEX),
        {K_FLEX, EDIT_WORD, {.word = choice_dispatcher(t->j->r->maker, &flex)->backend}}};
    if (c->to < TO_FLEX && c->ep > 1) look_from_best(t, (edits){usual, 2});
    if (c->ep > 1 && choice_dispatcher(t->j->r->maker, c)->ep_overlap &&
        (c->pp == 1 || c->vpp > 1) && c->overlap < OVERLAP_EP)
        look_from_best(t, moves[MOVE_EP_BESIDE].e);
    look_from_best(t, moves[c->graphs ? MOVE_EAGER : MOVE_GRAPHS].e);
}

static void look_at_recompute(climbing *t)
{
    const unsigned sets[] = {0, DROP_LAYERNORM, cheap, cheap | DROP_MLA_UP_PROJ};
    for (int i = 0; i < 4; i++) look_from_best(t, recompute(t, sets[i]));
}

static void look_at_optimizer(climbing *t)
{
    for (int quarters = 0; quarters < t->best->v.c.offload; quarters++)
        look_from_best(t, move_optimizer(quarters, t->a));
}

/* As it is, and with cheap recompute and no graphs: activations of a rank have doubled. */
static void look_at_sizes(climbing *t)
{
    static const move_id sizes[] = {MOVE_LESS_TP, MOVE_LESS_CP, MOVE_LESS_PP};
    for (int i = 0; i < 3; i++) {
        const variant from = t->best->v;
        edits less = moves[sizes[i]].e, more = less;
        unsigned drop = from.c.drop;
        look(t, &from, less);
        if (!pinned(t, K_RECOMPUTE))
            more = edits_join(more, recompute(t, drop | (drop & DROP_MOE ? 0 : cheap)), t->a);
        if (!pinned(t, K_GRAPHS)) more = edits_join(more, moves[MOVE_EAGER].e, t->a);
        look(t, &from, more);
    }
}

static void look_at_modules(climbing *t)
{
    static const move_id experts[] = {MOVE_EXPERTS_ON_HOST, MOVE_ATTENTION_ON_HOST,
                                      MOVE_LAYERS_ON_HOST},
                         dense[] = {MOVE_CORE_ON_HOST, MOVE_ATTENTION_ON_HOST};
    const bool moe = t->s->m.moe->experts > 0;
    for (int i = 0; i < (moe ? 3 : 2); i++) look_from_best(t, moves[moe ? experts[i] : dense[i]].e);
}

/* ---- the whole */

/* Would a variant be a program of millions of items? Then the starts are all that is tried, and
 * one that does not fit has no time. */
static bool is_giant(const climbing *t, const choice *c)
{
    const choice_maker *m = t->j->r->maker;
    int64_t dp = m->world / (c->tp * c->cp * c->pp);
    return search_is_giant(t->s->m.n_layers, m->asked.gbs / (dp * c->mbs));
}

static void climb(climbing *t)
{
    if (is_giant(t, &t->best->v.c)) return;
    look_at_overlap(t);
    look_at_recompute(t);
    look_at_optimizer(t);
    look_at_sizes(t);
    look_at_optimizer(t);
    look_at_modules(t);
}

static bool is_worth_trying(const climbing *t)
{
    const search_result *r = t->j->r;
    bool asked = pinned(t, K_OFFLOAD) || pinned(t, K_OFFLOAD_MODULES);
    if (asked || !t->s || !t->s->gpu || t->s->gpu->arch == ARCH_CPU) return false;
    return r->n_best ? r->best[0].c.drop || r->best[0].c.offload : r->has_miss;
}

/* Of the last edit that names them: "core_attn,attn_proj". */
static const char *modules_text(edits e, arena *a)
{
    textbuf t = text_init(a);
    const edit *x = NULL;
    for (size_t i = 0; i < e.n; i++)
        if (e.list[i].k == K_OFFLOAD_MODULES) x = &e.list[i];
    for (size_t i = 0; x && i < x->words.n; i++)
        text_add(&t, "%s%s", i ? "," : "", job_word(x->k, x->words.word[i]));
    return t.s;
}

static void price_last(activation_offload *out, const variant_job *j)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    variant_job whole = *j;
    try_result x;
    whole.t.depth = TRY_PRICE;
    if (variant_recipe(r, &out->v, j, a) && try_recipe(&x, r, &whole.t, a)) out->p = x.p;
    arena_destroy(a);
}

void activation_offload_try(activation_offload *out, const variant_job *j, double until, arena *a)
{
    const search_result *r = j->r;
    climbing *t = ARENA_NEW(a, climbing);
    *t = (climbing){.j = j, .s = choice_base(r->maker, 0, 1), .until = until, .a = a};
    *out = (activation_offload){.complete = true};
    if (!is_worth_trying(t)) return;
    for (int i = 0; i < r->n_best; i++)
        if (!is_like_one_before(r, i)) start_cheap(t, &r->best[i].c);
    if (r->n_best) {
        start_attention(t, &r->best[0].c);
    } else { /* inputs of layers are all that full recompute keeps */
        start_cheap(t, &r->miss.c);
        start_from(t, &r->miss.c, everything(t), (edits)NO_EDITS);
    }
    unsigned pp_seen = 0;
    for (int i = 0; i < CLIMBS && (t->best = next_start(t, &pp_seen)); i++) {
        climb(t);
        if (i == 0 || better(&t->best->p, &out->p)) *out = *t->best;
    }
    out->complete = clock_seconds() < until;
    out->tried = 0;
    for (int i = 0; i < t->n; i++) out->tried += t->starts[i].tried;
    if (!out->tried_any) return;
    if (!out->p.fits && !is_giant(t, &out->v.c)) price_last(out, j);
    out->modules = modules_text(out->v.beside, a);
    out->helps = out->p.fits && (!r->n_best || out->p.step_s < r->best[0].exact.step_s);
}
