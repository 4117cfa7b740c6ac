/* sizes.c - which parallel sizes the model, the other sizes and the world allow.
 *
 * The rules say what is wrong with the sizes that a recipe has; repairs and the search for near
 * layouts ask the same of sizes that it does not have. */
#include "rules/words.h"

const knob_id near_knobs[N_SIZES] = {K_TP, K_CP, K_PP, K_EP, K_ETP};

enum { SIZE_MOST = 65536 };

static bool tp_fits(const setup *s, int64_t t)
{
    if (!MULTIPLE(I(HEADS), t) || !MULTIPLE(I(SHARED_FFN), t)) return false;
    bool kv = ON(MLA) || MULTIPLE(I(KV_HEADS), t) || MULTIPLE(t, I(KV_HEADS));
    bool vocabulary = ON(VOCAB_PAD) || MULTIPLE(s->m.padded_vocab, t);
    return kv && vocabulary && (MULTIPLE(I(FFN), t) || !rule_dense_layers(s));
}

/* Stages that the layout string has, or 0. */
static int64_t said_stages(const setup *s)
{
    const char **texts;
    int n;
    error err;
    const char *said = USER(PP_LAYOUT) ? s->j.pp_layout : NULL;
    return said && !pipeline_parse(s->r.a, said, &texts, &n, &err) ? n : 0;
}

static bool pp_fits(const setup *s, int64_t p)
{
    int64_t stages = said_stages(s), chunks = USER(VPP) && I(VPP) > 0 ? I(VPP) : 1;
    if (stages) return stages % p == 0 && (!USER(VPP) || stages / p == chunks);
    int64_t units = I(LAYERS) + ON(ACCOUNT_EMBEDDING) + ON(ACCOUNT_LOSS);
    bool even = (LM || ACCOUNTED) && !COUNTED; /* else a balanced layout is derived */
    return p <= I(LAYERS) && (!even || units % mul_sat(p, chunks) == 0);
}

bool size_fits(const setup *s, int which, int64_t n)
{
    if (n < 1 || n > SIZE_MOST) return false;
    switch (which) {
    case TP_:
        return tp_fits(s, n);
    case CP_:
        return n == 1 || MULTIPLE(I(SEQ), 2 * n);
    case PP_:
        return n == 1 || pp_fits(s, n);
    case EP_:
        return SET(EXPERTS) ? MULTIPLE(I(EXPERTS), n) : n == 1;
    default:
        return !SET(EXPERTS) || (MULTIPLE(I(MOE_FFN), n) && (n == 1 || !ON(LINEAR_BIAS)));
    }
}

bool rules_allow_size(const setup *s, knob_id k, int64_t size)
{
    int i = 0;
    while (i < N_SIZES - 1 && near_knobs[i] != k) i++;
    return size_fits(s, i, size);
}

static bool dispatch_fits(const setup *s, const int64_t *x)
{
    int64_t ranks = mul_sat(x[EP_], x[ETP_]);
    if (SET(FLEX) && TO(needs_peers) && ranks < 2) return false;
    if (TO(over_nvlink) && I(NVLINK) > 8 && ranks > I(NVLINK)) return false;
    return !ON(EP_OVERLAP) || x[EP_] > 1;
}

bool sizes_fit_together(const setup *s, const int64_t *x)
{
    for (int i = 0; i < N_SIZES; i++)
        if (!size_fits(s, i, x[i])) return false;
    int64_t tp_cp = mul_sat(x[TP_], x[CP_]);
    bool gdn = !model_has(&s->m, BLOCK_GDN) ||
               (MULTIPLE(I(GDN_K_HEADS), tp_cp) && MULTIPLE(I(GDN_V_HEADS), tp_cp));
    bool shards = x[TP_] == 1 || MULTIPLE(I(SEQ), tp_cp);
    bool heads = x[CP_] == 1 || !SOME_CP(whole) || MULTIPLE(I(KV_HEADS), tp_cp);
    bool levels = !USER(CP_LEVELS) || rule_product(I(CP_LEVELS)) == x[CP_];
    bool grids = !ON(TP_PP_DP) || x[PP_] == 1 || tp_cp == mul_sat(x[EP_], x[ETP_]);
    return gdn && shards && heads && levels && grids && dispatch_fits(s, x);
}

bool sizes_fit_world(const setup *s, const int64_t *x)
{
    int64_t dense = mul_sat(mul_sat(x[TP_], x[CP_]), x[PP_]);
    int64_t expert = mul_sat(mul_sat(x[ETP_], x[EP_]), x[PP_]);
    return I(N_GPUS) > 0 && I(N_GPUS) % dense == 0 && I(N_GPUS) % expert == 0;
}

void sizes_asked(const setup *s, int64_t *x)
{
    const int64_t size[N_SIZES] = {I(TP), I(CP), I(PP), I(EP), I(ETP)};
    for (int i = 0; i < N_SIZES; i++) x[i] = size[i] < 1 ? 1 : size[i];
}

void sizes_follow(const setup *s, int64_t *x)
{
    if (!USER(ETP)) x[ETP_] = x[EP_] > 1 && !LM ? 1 : x[TP_];
}

int64_t size_below(const setup *s, int which, int64_t most)
{
    int64_t x[N_SIZES], alone = 1, together = 0;
    sizes_asked(s, x);
    for (int64_t n = most < SIZE_MOST ? most : SIZE_MOST; n > 0; n--) {
        if (!size_fits(s, which, n)) continue;
        if (alone == 1) alone = n;
        x[which] = n;
        sizes_follow(s, x);
        if (!sizes_fit_together(s, x)) continue;
        if (!USER(N_GPUS) || sizes_fit_world(s, x)) return n; /* a world not set follows */
        if (!together) together = n;
    }
    return together ? together : alone;
}
