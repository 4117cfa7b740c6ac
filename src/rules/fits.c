/* fits.c - the whole numbers among the {words}: what a layout has, and sizes that would do.
 *
 * I1  A number that does not exist here is NONE; the repair that names it is left out.
 * I2  No loop is longer than a size may be: knobs that are out of range give NONE. */
#include "rules/quantities.h"

enum { NONE = -1, SIZE_MOST = 65536, BATCH_MOST = 1 << 30, SEQUENCE_MOST = 1 << 30 };

/* ---- as it is */

int64_t q_dp(const setup *s)
{
    return rule_dp(s);
}
int64_t q_edp(const setup *s)
{
    return rule_edp(s);
}
int64_t q_dp_cp(const setup *s)
{
    return mul_sat(rule_dp(s), I(CP));
}
int64_t q_microbatches(const setup *s)
{
    return rule_microbatches(s);
}
int64_t q_group(const setup *s)
{
    return rule_group(s);
}
int64_t q_vpp(const setup *s)
{
    return CHUNKS;
}
int64_t q_stages(const setup *s)
{
    return rule_stages(s);
}
int64_t q_tokens(const setup *s)
{
    return rule_tokens(s);
}
int64_t q_shard(const setup *s)
{
    int64_t ranks = mul_sat(I(CP), I(TP));
    return ranks > 0 ? I(SEQ) / ranks : NONE;
}
int64_t q_bubble(const setup *s)
{
    return (int64_t)(rule_bubble(s) * 100 + 0.5);
}
int64_t q_fewest(const setup *s)
{
    return layout_fewest(I(TP), I(CP), I(PP), I(EP), I(ETP));
}
int64_t q_padded_vocab(const setup *s)
{
    return s->m.padded_vocab;
}
int64_t q_rotated(const setup *s)
{
    return rule_rotated(s);
}
int64_t q_gdn_width(const setup *s)
{
    return rule_gdn_width(s);
}
int64_t q_balancing_items(const setup *s)
{
    return ITEMS(BALANCING);
}
int64_t q_aux_items(const setup *s)
{
    return ITEMS(AUX_COEFF);
}
int64_t q_cp_comm_items(const setup *s)
{
    return ITEMS(CP_COMM);
}
int64_t q_cp_levels_items(const setup *s)
{
    return ITEMS(CP_LEVELS);
}
int64_t q_cp_levels_product(const setup *s)
{
    return rule_product(I(CP_LEVELS));
}
int64_t q_state_rank(const setup *s)
{
    state_bytes bytes;
    return layout_stage_rank(&s->lay, setup_fullest(s, &bytes));
}

/* ---- the world */

/* The multiple of `unit` nearest to n, within unit..most. */
static int64_t near_multiple(int64_t n, int64_t unit, int64_t most)
{
    if (unit < 1 || unit > most) return NONE;
    if (n > most) return most / unit * unit;
    int64_t near = n < 1 ? 0 : (n + unit / 2) / unit * unit;
    if (near > most) near -= unit;
    return near < unit ? unit : near;
}

static bool batch_divides(const setup *s, int64_t world)
{
    int64_t ranks = mul_sat(mul_sat(I(TP), I(CP)), I(PP));
    return !USER(GBS) || ranks < 1 || MULTIPLE(I(GBS), mul_sat(I(MBS), world / ranks));
}

/* The nearest world for these sizes; one where the batch still divides, if it is at most half or
 * twice as large. */
int64_t q_near_world(const setup *s)
{
    int64_t unit = q_fewest(s), near = near_multiple(I(N_GPUS), unit, LAYOUT_WORLD_MAX);
    if (near == NONE) return NONE;
    for (int64_t d = 0; d <= near && d <= 1024 * unit; d += unit) {
        if (near + d <= LAYOUT_WORLD_MAX && batch_divides(s, near + d)) return near + d;
        if (near - d >= unit && near - d >= near / 2 && batch_divides(s, near - d)) return near - d;
    }
    return near;
}

int64_t q_full_nodes(const setup *s)
{
    int64_t fewest = q_fewest(s), node = I(GPUS_PER_NODE);
    if (fewest < 1 || node < 1) return NONE;
    return near_multiple(I(N_GPUS), lcm64(fewest, node), LAYOUT_WORLD_MAX);
}

/* ---- one parallel size */

int64_t q_tp_fit(const setup *s)
{
    return size_below(s, TP_, I(TP) - (I(TP) > 1));
}

/* A group stays inside where its size divides the domain's. */
int64_t q_tp_domain(const setup *s)
{
    int64_t t = I(NVLINK);
    do t = size_below(s, TP_, t);
    while (t > 1 && I(NVLINK) % t && --t);
    return t;
}

/* A smaller domain whose nodes hold whole groups of n, as schedulers hand out 64 of 72 GPUs: one
 * that divides the cluster, if there is one. */
static int64_t domain_of_groups(const setup *s, int64_t n)
{
    int64_t node = I(GPUS_PER_NODE), domain = I(NVLINK), unit = lcm64(n, node);
    if (n < 1 || node < 1 || unit < 1 || unit > domain || domain <= node) return NONE;
    for (int64_t d = domain / unit * unit; d >= unit; d -= unit)
        if (I(N_GPUS) % d == 0) return d;
    return domain / unit * unit;
}

int64_t q_nvlink_tp(const setup *s)
{
    return domain_of_groups(s, I(TP));
}

int64_t q_nvlink_ep(const setup *s)
{
    return domain_of_groups(s, mul_sat(I(EP), I(ETP) > 0 ? I(ETP) : 1));
}

int64_t q_pp_fit(const setup *s)
{
    if (I(LAYERS) < 1 || CHUNKS < 1) return NONE;
    int64_t most = I(LAYERS) / CHUNKS;
    for (int64_t p = most < I(PP) ? most : I(PP); p > 1; p--)
        if (MULTIPLE(I(PP), p) && (!LM || I(LAYERS) % (p * CHUNKS) == 0)) return p;
    return 1;
}

int64_t q_ep_fit(const setup *s)
{
    return size_below(s, EP_, I(EP) < I(EXPERTS) ? I(EP) : I(EXPERTS));
}

static int64_t ep_most(const setup *s)
{
    return I(NVLINK) / (I(ETP) > 0 ? I(ETP) : 1);
}

int64_t q_ep_domain(const setup *s)
{
    int64_t e = ep_most(s);
    do e = size_below(s, EP_, e);
    while (e > 1 && I(NVLINK) % mul_sat(e, I(ETP) > 0 ? I(ETP) : 1) && --e);
    return e < 1 ? 1 : e;
}

int64_t q_ep_within(const setup *s)
{
    return size_below(s, EP_, ep_most(s));
}

int64_t q_cp_fit(const setup *s)
{
    return size_below(s, CP_, I(CP) - (I(CP) > 1));
}

/* The largest CP up to the one asked for that splits `heads` evenly beside `tp`. */
static int64_t cp_of_heads(const setup *s, int64_t heads, int64_t tp)
{
    if (tp < 1 || heads < 1) return NONE;
    for (int64_t c = I(CP) < SIZE_MOST ? I(CP) : SIZE_MOST; c > 1; c--)
        if (heads % mul_sat(c, tp) == 0 && MULTIPLE(I(SEQ), 2 * c) &&
            (!USER(N_GPUS) || MULTIPLE(I(N_GPUS), mul_sat(mul_sat(tp, c), I(PP)))))
            return c;
    return heads % tp ? NONE : 1;
}

int64_t q_cp_a2a(const setup *s)
{
    int64_t c = cp_of_heads(s, I(KV_HEADS), I(TP));
    return c == NONE ? 1 : c;
}
int64_t q_cp_gdn(const setup *s)
{
    return cp_of_heads(s, I(GDN_K_HEADS), I(TP));
}
int64_t q_cp_gdn_tp1(const setup *s)
{
    return cp_of_heads(s, I(GDN_K_HEADS), 1);
}

int64_t q_cp_guess(const setup *s)
{
    int64_t guess = 1;
    while (guess < SIZE_MOST && guess * 2 <= I(SEQ) / 4096) guess *= 2;
    return guess;
}

/* ---- sequence and batch */

static int64_t sequence_of(const setup *s, int64_t unit)
{
    int64_t n = I(SEQ) > 0 && unit <= SEQUENCE_MOST ? round_up(I(SEQ), unit) : NONE;
    return n <= SEQUENCE_MOST ? n : NONE;
}

static int64_t sequence_unit(const setup *s)
{
    int64_t unit = I(CP) > 1 ? mul_sat(2, I(CP)) : 1;
    if (ON(SP) && I(TP) > 0 && I(CP) > 0) unit = lcm64(unit, mul_sat(I(CP), I(TP)));
    return unit;
}

int64_t q_seq_fit(const setup *s)
{
    return sequence_of(s, sequence_unit(s));
}

/* Tokens of a rank that narrow GEMMs take: whole rows of their blocks. */
int64_t q_alignment(const setup *s)
{
    return FP8_BY(MXFP8) ? 32 : SET(FP4) ? 16 : 8;
}

int64_t q_seq_aligned(const setup *s)
{
    return I(CP) > 0 && I(TP) > 0
               ? sequence_of(s, mul_sat(q_alignment(s), mul_sat(I(CP), ON(SP) ? I(TP) : 1)))
               : NONE;
}

/* The global batch nearest to the one asked for that has a multiple of `unit` microbatches. */
static int64_t batch_near(const setup *s, int64_t mbs, int64_t unit)
{
    return near_multiple(I(GBS), mul_sat(mul_sat(mbs, rule_dp(s)), unit), BATCH_MOST);
}

static int64_t batch_unit(const setup *s)
{
    return CHUNKS > 1 && I(PP) > 1 ? I(PP) : 1;
}

int64_t q_gbs_fit(const setup *s)
{
    return batch_near(s, I(MBS), batch_unit(s));
}
int64_t q_gbs_fit_one(const setup *s)
{
    return batch_near(s, 1, batch_unit(s));
}
int64_t q_gbs_vpp(const setup *s)
{
    return batch_near(s, I(MBS), rule_group(s) > I(PP) ? rule_group(s) : I(PP));
}

static int64_t batch_of(const setup *s, int64_t microbatches)
{
    int64_t n = mul_sat(mul_sat(I(MBS), rule_dp(s)), microbatches);
    return n > 0 && n <= BATCH_MOST ? n : NONE;
}

int64_t q_gbs_two(const setup *s)
{
    return batch_of(s, 2);
}
int64_t q_gbs_bubble(const setup *s)
{
    return batch_of(s, mul_sat(4, I(PP)));
}

/* ---- the model */

static int64_t divisor_below(int64_t of, int64_t most)
{
    if (of < 1 || of > SIZE_MOST) return NONE;
    for (int64_t d = most < of ? most : of; d > 1; d--)
        if (of % d == 0) return d;
    return 1;
}

int64_t q_kv_fit(const setup *s)
{
    return divisor_below(I(HEADS), I(KV_HEADS));
}

/* The next number of heads that key/value heads, TP and the width take. */
int64_t q_heads_fit(const setup *s)
{
    bool sized = USER(HEAD_DIM) || FROM(HEAD_DIM) == FROM_MODEL;
    for (int64_t n = I(HEADS) > 0 ? I(HEADS) : 1; n <= SIZE_MOST; n++)
        if (MULTIPLE(n, I(KV_HEADS)) && MULTIPLE(n, I(TP)) &&
            (sized || (I(HIDDEN) % n == 0 && I(HIDDEN) / n % 2 == 0)))
            return n;
    return NONE;
}

int64_t q_groups_fit(const setup *s)
{
    return divisor_below(I(EXPERTS), I(GROUPS));
}

int64_t q_core_heads(const setup *s)
{
    return rule_core_heads(s);
}

int64_t q_head_groups_fit(const setup *s)
{
    return divisor_below(rule_core_heads(s), I(HEAD_GROUPS));
}

/* As many experts as the allowed groups hold. */
int64_t q_topk_fit(const setup *s)
{
    if (I(GROUPS) < 1 || I(EXPERTS) < I(GROUPS)) return NONE;
    return mul_sat(I(GROUP_TOPK), I(EXPERTS) / I(GROUPS));
}

/* As few more experts as EP, groups and top-k need. */
int64_t q_experts_fit(const setup *s)
{
    if (I(EP) < 1 || I(EP) > SIZE_MOST || I(GROUPS) > SIZE_MOST || I(EXPERTS) < 1) return NONE;
    int64_t unit = lcm64(I(EP), I(GROUPS) > 0 ? I(GROUPS) : 1);
    int64_t n = round_up(I(EXPERTS) > I(TOPK) ? I(EXPERTS) : I(TOPK), unit);
    return n <= SIZE_MOST ? n : NONE;
}

static int64_t gdn_heads(const setup *s, int64_t unit)
{
    int64_t n = unit > 0 && I(GDN_V_HEADS) > 0 ? round_up(I(GDN_V_HEADS), unit) : NONE;
    return n <= SIZE_MOST ? n : NONE;
}

int64_t q_gdn_v_fit(const setup *s)
{
    return gdn_heads(s, I(GDN_K_HEADS));
}
int64_t q_gdn_v_aligned(const setup *s)
{
    return I(GDN_K_HEADS) > 0 ? gdn_heads(s, lcm64(I(GDN_K_HEADS), 16)) : NONE;
}

int64_t q_even_head(const setup *s)
{
    return s->m.attention->head_dim > 0 && s->m.attention->head_dim < SIZE_MOST
               ? round_up(s->m.attention->head_dim, 16)
               : 128;
}
int64_t q_even_rope(const setup *s)
{
    return s->m.attention->qk_rope_dim > 0 && s->m.attention->qk_rope_dim < SIZE_MOST
               ? round_up(s->m.attention->qk_rope_dim, 2)
               : 64;
}

/* ---- precision and schedule */

static int64_t bf16_layers(const setup *s, int64_t asked)
{
    int64_t most = I(PP) > 0 && I(LAYERS) > 0 ? I(LAYERS) / I(PP) : 0;
    return asked < most ? asked : most;
}
int64_t q_bf16_start_fit(const setup *s)
{
    return bf16_layers(s, I(BF16_START));
}
int64_t q_bf16_end_fit(const setup *s)
{
    return bf16_layers(s, I(BF16_END));
}

static int64_t shorter_than(int64_t length)
{
    return length > 0 ? length - 1 : NONE;
}
int64_t q_warmup_fit(const setup *s)
{
    return shorter_than(I(LR_ITERS));
}
int64_t q_warmup_run(const setup *s)
{
    return shorter_than(I(TRAIN_ITERS));
}
int64_t q_warmup_samples_fit(const setup *s)
{
    return shorter_than(SET(LR_SAMPLES) ? I(LR_SAMPLES) : I(TRAIN_SAMPLES));
}
int64_t q_wsd_fit(const setup *s)
{
    return SET(LR_ITERS) ? I(LR_ITERS) : I(TRAIN_ITERS);
}
