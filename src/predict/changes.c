/* changes.c - single changes of a recipe, each checked by the rules and priced.
 *
 * A row names the knobs of one change; what does not differ from the recipe, cannot be laid out or
 * breaks a rule is left out. A change that swaps parallel sizes keeps the number of GPUs.
 *
 * I1  No change is offered that `check` would warn of, where it does not warn of the recipe as it
 *     is: the repair of that warning is made part of the change, or the change is left out.
 * I2  GPUs and batch stay as they are: a repair that moves them is not taken. */
#include "predict/changes.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rules/rules.h"

static const char *const table[] = {
/* recompute */
#define RECOMPUTE(knobs) knobs,
#include "predict/recompute.def"
#undef RECOMPUTE
    /* overlap */
    "comm_overlap.overlap_moe_expert_parallel_comm=true",
    "comm_overlap.overlap_moe_expert_parallel_comm=true comm_overlap.delay_wgrad_compute=true",
    "comm_overlap.overlap_moe_expert_parallel_comm=false comm_overlap.delay_wgrad_compute=false",
    "model.moe_shared_expert_overlap=true",
    "model.moe_shared_expert_overlap=false",
    "model.overlap_dispatch_backward_with_experts_wgrad=true",
    "comm_overlap.tp_comm_overlap=true",
    "comm_overlap.tp_comm_overlap=false",
    /* dispatcher */
    "model.moe_token_dispatcher_type=alltoall model.moe_flex_dispatcher_backend=null",
    "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=deepep",
    "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=hybridep",
    /* graphs */
    "model.cuda_graph_impl=transformer_engine "
    "model.cuda_graph_modules=[attn,moe_router,moe_preprocess]",
    "model.cuda_graph_impl=none model.cuda_graph_modules=[]",
    /* context parallel */
    "model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null "
    "moefold.mla_latent_ring=false",
    "model.cp_comm_type=all_gather model.hierarchical_context_parallel_sizes=null "
    "moefold.mla_latent_ring=false",
    "model.cp_comm_type=a2a model.hierarchical_context_parallel_sizes=null "
    "moefold.mla_latent_ring=false",
    "model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null "
    "moefold.mla_latent_ring=true",
    /* precision and memory */
    "mixed_precision=bf16_mixed",
    "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
    "mixed_precision=bf16_with_mxfp8_mixed",
    "optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true",
    "optimizer.optimizer_cpu_offload=false",
    "model.fine_grained_activation_offloading=true model.offload_modules=[expert_fc1,moe_act]",
    "model.fine_grained_activation_offloading=true model.offload_modules=[core_attn,attn_proj]",
    "model.fine_grained_activation_offloading=true "
    "model.offload_modules=[expert_fc1,moe_act,core_attn,attn_proj] "
    "model.recompute_granularity=null model.recompute_modules=null model.recompute_method=null "
    "model.recompute_num_layers=null",
    "model.fine_grained_activation_offloading=false model.offload_modules=[]",
    /* fused kernels */
    "model.moe_permute_fusion=true",
    "model.moe_router_fusion=true",
};

/* Sizes that are doubled or halved, alone or against one another. */
typedef struct swap {
    knob_id up, down; /* doubled; halved; K_COUNT: none */
} swap;

static const swap swaps[] = {{K_TP, K_CP},     {K_CP, K_TP},     {K_PP, K_COUNT},  {K_COUNT, K_PP},
                             {K_EP, K_COUNT},  {K_COUNT, K_EP},  {K_CP, K_COUNT},  {K_COUNT, K_CP},
                             {K_TP, K_COUNT},  {K_COUNT, K_TP},  {K_MBS, K_COUNT}, {K_COUNT, K_MBS},
                             {K_VPP, K_COUNT}, {K_COUNT, K_VPP}, {K_PP, K_EP},     {K_EP, K_PP}};

/* ---- one change */

typedef struct changing {
    const setup *before;
    violations found;    /* by it */
    const recipe *asked; /* as it was given */
    const recipe *given; /* with GPUs and batch as they are */
    const hardware *hw;
    const price_options *o;
    const price *now;
    arena *a;
} changing;

static bool differs(const changing *w, const setup *after)
{
    for (int k = 0; k < K_COUNT; k++)
        if (!value_equal(w->before->r.knob[k].v, after->r.knob[k].v)) return true;
    return false;
}

static bool apply(recipe *r, const char *words, arena *a)
{
    char *copy = arena_copy(a, words, strlen(words)), *rest = NULL;
    error err = {{0}};
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (recipe_override(r, w, "change", &err)) return false;
    return true;
}

/* A change of stages leaves the split to be derived again. */
static bool moves_stages(const char *words)
{
    return strstr(words, knobs[K_PP].key) || strstr(words, knobs[K_VPP].key);
}

static bool warned_before(const changing *w, const rule *r)
{
    for (int i = 0; i < w->found.n; i++)
        if (w->found.list[i].rule == r) return true;
    return false;
}

/* A warning that the recipe as it is does not draw, or NULL. */
static const violation *new_warning(const changing *w, const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->severity == WARNING && !warned_before(w, found->list[i].rule))
            return &found->list[i];
    return NULL;
}

/* The recipe after the change, checked; NULL: it cannot be, or breaks a rule. */
static setup *changed(violations *found, const changing *w, const char *words)
{
    recipe *r = ARENA_NEW(w->a, recipe);
    setup *s = ARENA_NEW(w->a, setup);
    error err = {{0}};
    *r = *w->given;
    r->a = w->a;
    if (moves_stages(words)) r->knob[K_PP_LAYOUT].from = FROM_NOTHING;
    if (!apply(r, words, w->a) || setup_init(s, r, w->a, &err)) return NULL;
    if (!s->possible || s->pipe.why_not || !differs(w, s)) return NULL;
    if (s->lay.world != w->before->lay.world) return NULL;
    rules_check(found, s, false, w->a);
    return found->n_errors ? NULL : s;
}

/* Does the repair set the key of this assignment? */
static bool sets_key(const char *const *repair, const char *assignment)
{
    size_t n = strcspn(assignment, "=");
    for (; *repair; repair++)
        if (strncmp(*repair, assignment, n) == 0 && (*repair)[n] == '=') return true;
    return false;
}

/* I1, I2. What the repair sets stands once. It may take back the change itself: then it differs from
 * nothing. */
static const char *with_repair(const changing *w, const char *words, const violation *v)
{
    for (int i = 0; i < v->n_repairs; i++) {
        const char *const *repair = v->repairs[i];
        if (sets_key(repair, knobs[K_GBS].key) || sets_key(repair, knobs[K_N_GPUS].key)) continue;
        textbuf t = text_init(w->a);
        char *copy = arena_copy(w->a, words, strlen(words)), *rest = NULL;
        for (char *x = strtok_r(copy, " ", &rest); x; x = strtok_r(NULL, " ", &rest))
            if (!sets_key(repair, x)) text_add(&t, "%s%s", t.n ? " " : "", x);
        for (; *repair; repair++) text_add(&t, "%s%s", t.n ? " " : "", *repair);
        return t.s;
    }
    return NULL;
}

/* The change as the recipe's owner must write it: a split that the recipe sets goes, and the stages
 * that were priced are named. */
static const char *with_split(const changing *w, const char *words)
{
    violations found;
    if (!moves_stages(words) || !recipe_given(w->given, K_PP_LAYOUT)) return words;
    const setup *s = changed(&found, w, words);
    if (!s) return words;
    textbuf t = text_init(w->a);
    text_add(&t, "%s %s=null", words, knobs[K_PP_LAYOUT].key);
    if (s->pipe.vpp > 1 && !strstr(words, knobs[K_VPP].key))
        text_add(&t, " %s=%lld", knobs[K_VPP].key, (long long)s->pipe.vpp);
    return t.s;
}

/* Sizes from which GPUs and batch follow leave them as they were priced. */
static const char *with_job(const changing *w, const char *words)
{
    static const knob_id kept[] = {K_N_GPUS, K_GBS};
    recipe *r = ARENA_NEW(w->a, recipe);
    setup *s = ARENA_NEW(w->a, setup);
    error err = {{0}};
    *r = *w->asked;
    r->a = w->a;
    if (!apply(r, words, w->a) || setup_init(s, r, w->a, &err)) return words;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        value was = w->before->r.knob[kept[i]].v;
        if (!strstr(words, knobs[kept[i]].key) && !value_equal(s->r.knob[kept[i]].v, was))
            words = arena_text(w->a, "%s %s=%s", words, knobs[kept[i]].key, value_text(w->a, was));
    }
    return words;
}

static bool priced(price_change *out, const changing *w, const char *words)
{
    violations found;
    words = with_split(w, words);
    setup *s = changed(&found, w, words);
    const violation *warning = s ? new_warning(w, &found) : NULL;
    if (warning) {
        words = with_repair(w, words, warning);
        s = words ? changed(&found, w, words) : NULL;
        if (s && new_warning(w, &found)) return false;
    }
    if (!s) return false;
    price p;
    price_setup(&p, s, w->hw, w->o, w->a);
    *out = (price_change){.words = with_job(w, words),
                          .gain = p.tokens_per_s_per_gpu / w->now->tokens_per_s_per_gpu - 1,
                          .step_s = p.step_s,
                          .peak_bytes = p.peak_bytes,
                          .fits = p.fits};
    return true;
}

/* ---- the list */

enum { WORDS_MAX = 1024 };

static double size_of(const price_change *c)
{
    return c->gain < 0 ? -c->gain : c->gain;
}

/* What fits and gains comes first, then what would gain, then what loses least memory's worth. */
static bool before(const price_change *a, const price_change *b)
{
    bool good_a = a->gain > 0 && a->fits, good_b = b->gain > 0 && b->fits;
    if (good_a != good_b) return good_a;
    if (good_a) return a->gain > b->gain;
    return size_of(a) > size_of(b);
}

static int insert(price_change *out, int n, int room, const price_change *c)
{
    if (n == room && !before(c, &out[n - 1])) return n;
    int at = n < room ? n++ : room - 1;
    for (; at > 0 && before(c, &out[at - 1]); at--) out[at] = out[at - 1];
    out[at] = *c;
    return n;
}

static int try_words(price_change *out, int n, int room, const changing *w, const char *words)
{
    price_change c;
    char kept[WORDS_MAX];
    arena_place mark = arena_mark(w->a);
    bool good = priced(&c, w, words);
    bool same = good && c.words == words;
    if (good && !same) snprintf(kept, sizeof kept, "%s", c.words);
    arena_release(w->a, mark);
    if (!good) return n;
    if (!same) c.words = arena_text(w->a, "%s", kept);
    return insert(out, n, room, &c);
}

static const char *swap_words(const changing *w, const swap *x)
{
    textbuf t = text_init(w->a);
    const recipe *r = &w->before->r;
    if (x->up != K_COUNT) {
        int64_t now = recipe_int(r, x->up);
        if (x->up == K_MBS && now > CHANGE_MBS_MOST / 2) return NULL;
        text_add(&t, "%s=%lld", knobs[x->up].key, (long long)((now > 0 ? now : 1) * 2));
    }
    if (x->down != K_COUNT) {
        int64_t now = recipe_int(r, x->down);
        if (now < 2 || now % 2) return NULL;
        text_add(&t, "%s%s=%lld", t.n ? " " : "", knobs[x->down].key, (long long)(now / 2));
    }
    return t.s;
}

/* False: the recipe cannot be laid out. */
static bool start(changing *w, const change_job *j, arena *a)
{
    error err = {{0}};
    setup *s = ARENA_NEW(a, setup);
    recipe *whole = ARENA_NEW(a, recipe);
    *whole = *j->given;
    if (setup_init(s, j->given, a, &err) || !s->possible) return false;
    /* what is derived from the world and the batch must not move with the sizes */
    recipe_set(whole, K_N_GPUS, value_of_int(s->lay.world), "as it is");
    recipe_set(whole, K_GBS, s->r.knob[K_GBS].v, "as it is");
    *w = (changing){.before = s,
                    .asked = j->given,
                    .given = whole,
                    .hw = j->hw,
                    .o = j->o,
                    .now = j->now,
                    .a = a};
    rules_check(&w->found, s, false, a);
    return true;
}

int price_changes(price_change *out, int room, const change_job *j, change_limit *limit, arena *a)
{
    double begin = clock_seconds();
    changing w;
    if (room < 1 || !start(&w, j, a)) return 0;
    enum { TABLE = sizeof table / sizeof table[0], SWAPS = sizeof swaps / sizeof swaps[0] };
    int n = 0;
    for (int i = 0; i < TABLE + SWAPS; i++) {
        const char *words = i < TABLE ? table[i] : swap_words(&w, &swaps[i - TABLE]);
        if (!words) continue;
        if (limit->seconds > 0 && clock_seconds() - begin >= limit->seconds)
            limit->left++;
        else
            n = try_words(out, n, room, &w, words);
    }
    return n;
}

int price_these(price_change *out, const char *const *words, int n, const change_job *j, arena *a)
{
    changing w;
    int found = 0;
    if (!start(&w, j, a)) return 0;
    for (int i = 0; i < n; i++) {
        out[i] = (price_change){0};
        if (words[i] && try_words(&out[i], 0, 1, &w, words[i])) found++;
    }
    return found;
}
