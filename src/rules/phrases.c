/* phrases.c - the texts among the {words}: lists with and without, layouts, precision.
 *
 * A text that stands in a repair has no blanks, except where it is several assignments. */
#include <inttypes.h>
#include <string.h>

#include "config/judgement.h"
#include "config/job_of.h"
#include "config/loads.h"
#include "config/models/models.h"
#include "config/precision.h"
#include "rules/quantities.h"

#define NO_ARGUMENT (void)argument
#define NO_TEXT     (void)a

/* ---- layouts */

static const char *sizes_text(const setup *s, const near_layout *n, bool overrides, arena *a)
{
    textbuf t = text_init(a);
    for (int i = 0; i < N_SIZES; i++)
        if (near_layout_changes(s, n, i))
            text_add(&t, "%s%s%s%" PRId64, t.n ? " " : "", knobs[near_knobs[i]].id,
                     overrides ? "=" : " ", n->size[i]);
    return t.s;
}

const char *q_near_layout(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    near_layout n;
    return near_layouts(s, &n, 1) ? sizes_text(s, &n, true, a) : NULL;
}

const char *q_near_layouts(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    near_layout near[3];
    int n = near_layouts(s, near, 3);
    textbuf t = text_init(a);
    for (int i = 0; i < n; i++)
        text_add(&t, "%s%s", i ? ", or " : "", sizes_text(s, &near[i], false, a));
    return n ? t.s : "none";
}

const char *q_state_bytes(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    state_bytes bytes;
    setup_fullest(s, &bytes);
    return text_bytes(a, state_total(&bytes));
}

const char *q_gpu_memory(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return s->gpu ? text_bytes(a, s->gpu->memory_bytes) : NULL;
}

/* ---- versions */

/* "Transformer Engine 2.9 (moefold.stack=25.11)" */
const char *q_version(const setup *s, const char *argument, arena *a)
{
    part_version v;
    if (!version_of(&s->j, argument, &v)) return NULL;
    knob_id k = v.given ? K_VERSIONS : K_STACK;
    return arena_text(a, "%s %s (%s=%s)", version_part_title(argument), v.text, knobs[k].key,
                      v.given ? s->j.versions : s->j.stack);
}

const char *q_version_conflict(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    textbuf t = text_init(a);
    part_version said, held;
    const char *part;
    for (int i = 0; (part = version_conflict(&s->j, i, &said, &held)); i++)
        text_add(&t, "%s%s %s, not %s", i ? "; " : "", version_part_title(part), held.text,
                 said.text);
    return t.s;
}

/* ---- lists as values of overrides */

static const char *list_without(const setup *s, knob_id k, const char *words, arena *a)
{
    const job_words list = k == K_RECOMPUTE_MODULES ? s->j.recompute_modules
                           : k == K_GRAPH_MODULES   ? s->j.graph_modules
                                                    : s->j.offload_modules;
    textbuf t = text_init(a);
    for (int i = 0; i < list.n; i++) {
        const char *word = job_word(k, list.item[i]);
        if (word && !text_in(words, ',', word)) text_add(&t, "%s%s", t.n ? "," : "", word);
    }
    return arena_text(a, "[%s]", t.s);
}

/* The list without `words`, and then `added`. */
static const char *list_with(const setup *s, knob_id k, const char *words, const char *added,
                             arena *a)
{
    const char *without = list_without(s, k, words, a);
    size_t n = strlen(without);
    return arena_text(a, "%.*s%s%s]", (int)n - 1, without, n > 2 ? "," : "", added);
}

/* No module at all would mean whole layers to graphs, and nothing to do to offload: such a list
 * does not exist. */
static const char *unless_empty(const char *list)
{
    return strcmp(list, "[]") == 0 ? NULL : list;
}

const char *q_modules_without(const setup *s, const char *argument, arena *a)
{
    return list_without(s, K_RECOMPUTE_MODULES, argument, a);
}
const char *q_graphs_without(const setup *s, const char *argument, arena *a)
{
    return unless_empty(list_without(s, K_GRAPH_MODULES, argument, a));
}
const char *q_graphs_with(const setup *s, const char *argument, arena *a)
{
    return list_with(s, K_GRAPH_MODULES, argument, argument, a);
}
const char *q_offload_without(const setup *s, const char *argument, arena *a)
{
    return unless_empty(list_without(s, K_OFFLOAD_MODULES, argument, a));
}
const char *q_offload_with(const setup *s, const char *argument, arena *a)
{
    return list_with(s, K_OFFLOAD_MODULES, argument, argument, a);
}

/* What dropless routing can capture of an MoE layer, instead of all of it. */
const char *q_graphs_dropless(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return list_with(s, K_GRAPH_MODULES, "moe,moe_router,moe_preprocess",
                     "moe_router,moe_preprocess", a);
}

/* What graphs by module capture where nothing stands in the way. */
const char *q_graphs_in_parts(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    bool counts_wait = TO(host_waits) && ((DROPS && !ON(PAD_CAPACITY)) || ON(ROUTER_PAD));
    return !rule_moe_layers(s) ? "[attn]"
           : counts_wait       ? "[attn,moe_router]"
                               : "[attn,moe_router,moe_preprocess]";
}

/* ---- context parallel */

/* Inner level: as many ranks as key/value heads and one node allow, and not more than `most`; the
 * ring runs over the rest. */
static const char *levels_within(const setup *s, int64_t most, arena *a)
{
    if (I(CP) < 2 || I(CP) > 65536 || I(TP) < 1 || I(KV_HEADS) < I(TP)) return NULL;
    if (I(GPUS_PER_NODE) > 1 && I(GPUS_PER_NODE) < most) most = I(GPUS_PER_NODE);
    for (int64_t inner = I(CP) < most ? I(CP) : most; inner > 0; inner--)
        if (I(CP) % inner == 0 && (I(KV_HEADS) / I(TP)) % inner == 0)
            return arena_text(a, "[%" PRId64 ",%" PRId64 "]", inner, I(CP) / inner);
    return NULL;
}
const char *q_cp_levels_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return levels_within(s, I(CP), a);
}
const char *q_cp_levels_two(const setup *s, const char *argument, arena *a) /* none is all of CP */
{
    NO_ARGUMENT;
    return I(CP) < 4 ? NULL : levels_within(s, I(CP) / 2, a);
}

/* Attention sinks and windows do not go round a ring. */
const char *q_cp_comm_ring(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    if (IS(SOFTMAX, LEARNABLE)) return NULL;
    return model_is_windowed(&s->m) ? "all_gather" : "p2p";
}

const char *q_cp_comm_first(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    return ITEMS(CP_COMM) ? job_word(K_CP_COMM, ITEM(CP_COMM, 0)) : "p2p";
}

/* ---- the router */

const char *q_rank_capacity_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return arena_text(a, "%g", loads_rank_capacity(&s->j));
}

const char *q_balancing_first(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    return ITEMS(BALANCING) ? job_word(K_BALANCING, ITEM(BALANCING, 0)) : "aux_loss";
}
const char *q_aux_first(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return ITEMS(AUX_COEFF) ? value_text(a, value_of_float(ITEM(AUX_COEFF, 0))) : "0.0";
}

/* A coefficient for each kind of loss; what is missing gets 0. */
const char *q_aux_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    textbuf t = text_init(a);
    for (int i = 0; i < ITEMS(BALANCING); i++) {
        bool given = i < ITEMS(AUX_COEFF);
        value v = value_of_float(given ? ITEM(AUX_COEFF, i) : 0);
        text_add(&t, "%s%s", i ? "," : "", value_text(a, v));
    }
    return arena_text(a, "[%s]", t.s);
}

const char *q_flex_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    return judge_flex(&s->j, NULL)->name;
}

/* {dispatcher_fit}: the dispatcher that is advised here. */
const char *q_dispatcher_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    const dispatcher *fit = judge_dispatcher(&s->j);
    if (!fit->flex) return arena_text(a, "DISPATCHER=%s FLEX=null", fit->name);
    return arena_text(a, "DISPATCHER=flex FLEX=%s SHARED_OVERLAP=false", fit->name);
}

/* {copies:allgather}: of a token, over the slowest link of its EP group. */
const char *q_copies(const setup *s, const char *argument, arena *a)
{
    return arena_text(a, "%.3g", judge_copies(&s->j, text_equal(argument, "allgather")));
}

const char *q_ep_parts(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    int64_t domains = judge_ep_domains(&s->j);
    if (domains == 1) return "ranks";
    return arena_text(a, "NVLink domains (EP %" PRId64 " spans %" PRId64 ")", I(EP), domains);
}

/* {straddle:TP}: why a group of that size reaches beyond an NVLink domain. */
const char *q_straddle(const setup *s, const char *argument, arena *a)
{
    bool tp = text_equal(argument, "TP");
    int64_t n = tp ? I(TP) : mul_sat(I(EP), I(ETP) > 0 ? I(ETP) : 1), domain = I(NVLINK);
    if (n > domain) return arena_text(a, "it is larger than the NVLink domain of %" PRId64, domain);
    if (domain % n)
        return arena_text(a,
                          "%" PRId64 " does not divide the NVLink domain of %" PRId64
                          ", so some groups straddle two domains",
                          n, domain);
    return arena_text(a, "its ranks are not neighbours in NVLink domains of %" PRId64, domain);
}

/* ---- the model */

/* {own:HEADS}: what the model has where a person set something else. */
const char *q_own(const setup *s, const char *argument, arena *a)
{
    value v;
    for (int k = 0; k < K_COUNT; k++)
        if (text_equal(knobs[k].id, argument))
            return model_has_own(&s->r, (knob_id)k, a, &v) ? value_text(a, v) : NULL;
    return NULL;
}

const char *q_variant_fit(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    NO_TEXT;
    return SET(LINEAR_FREQ) ? "gdn" : NULL;
}

/* ---- data */

static const knob_id data_names[] = {K_DATA_PATH,  K_DATA_ARGS, K_TRAIN_DATA,
                                     K_VALID_DATA, K_TEST_DATA, K_SPLIT_ARGS};
enum { N_DATA_NAMES = sizeof data_names / sizeof data_names[0] };

static const char *each_data_name(const setup *s, const char *between, const char *after, arena *a)
{
    textbuf t = text_init(a);
    for (int i = 0; i < N_DATA_NAMES; i++)
        if (job_has(&s->j, data_names[i]))
            text_add(&t, "%s%s%s", t.n ? between : "", knobs[data_names[i]].key, after);
    return t.n ? t.s : NULL;
}

const char *q_data_knobs(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return each_data_name(s, ", ", "", a);
}

const char *q_no_data(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    return each_data_name(s, " ", "=null", a);
}

/* ---- precision */

static const char *fp8_of_platform(const setup *s)
{
    return BLACKWELL ? "bf16_with_mxfp8_mixed"
           : HOPPER  ? "bf16_with_fp8_subchannel_scaling_mixed"
                     : "bf16_mixed";
}

/* {precision:NAME}, {precision:platform} for the FP8 that the GPU has, or {precision:named} for the
 * name that the recipe has already, whose parts were set otherwise. */
const char *q_precision(const setup *s, const char *argument, arena *a)
{
    const char *name = text_equal(argument, "platform") ? fp8_of_platform(s)
                       : text_equal(argument, "named")  ? job_word(K_PRECISION, I(PRECISION))
                                                        : argument;
    return name ? precision_overrides(&s->r, name, a) : NULL;
}

const char *q_precision_part(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    int k = rule_precision_part(s);
    if (k < 0) return NULL;
    return arena_text(a, "%s=%s", knobs[k].key, recipe_shown(&s->r, (knob_id)k, a));
}
const char *q_precision_implied(const setup *s, const char *argument, arena *a)
{
    NO_ARGUMENT;
    value has;
    int k = precision_contradicted(&s->r, &has);
    return k < 0 ? NULL : arena_text(a, "%s=%s", knobs[k].key, value_text(a, has));
}
