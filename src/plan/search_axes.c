/* search_axes.c - axes of knobs and of rules.
 *
 * I1  axes.def has what search_choice.c writes; all other knobs are those of the base
 *     setup, which precision and TP decide. A test changes one axis after the other and compares.
 * I2  A word that is not known makes its rule depend on everything: less is excluded, never more.
 *     A test asks that all are known. */
#include "plan/search_axes.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "config/job_of.h"

void choice_values(int64_t v[AXES], const choice *c)
{
    const int64_t all[AT_PICKS] = {
        c->precision, c->tp,  c->cp,    c->kind,    c->mbs,           c->ep,      c->etp,   c->to,
        c->pp,        c->vpp, c->split, c->overlap, (int64_t)c->drop, c->offload, c->graphs};
    memcpy(v, all, sizeof all);
    for (int p = 0; p < PICKS; p++) v[AT_PICKS + p] = c->pick[p];
}

/* ---- knobs */

/* Bases differ in precision and TP alone. */
static void see_bases(unsigned of[K_COUNT], choice_maker *m)
{
    static const int64_t tps[] = {1, 2, 8};
    const setup *first = choice_base(m, 0, 1);
    for (int p = 0; p < m->n_precisions && first; p++)
        for (size_t i = 0; i < sizeof tps / sizeof tps[0]; i++) {
            const setup *s = choice_base(m, p, tps[i]);
            for (int k = 0; k < K_COUNT && s; k++)
                if (!job_same(&s->j, &first->j, (knob_id)k) ||
                    recipe_from(&s->r, (knob_id)k) != recipe_from(&first->r, (knob_id)k))
                    of[k] |= ON_TP | (p ? ON_PRECISION : 0);
        }
}

void axes_of_knobs(unsigned of[K_COUNT], choice_maker *m)
{
    for (int k = 0; k < K_COUNT; k++) of[k] = 0;
    see_bases(of, m);
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++) {
        knob_id k = x->k;
        bool pinned = m->pinned[k] && (k == K_RECOMPUTE || job_has(&m->asked, k));
        if (x->on) of[k] = pinned && x->kept ? 0 : of[k] | x->on;
    }
}

unsigned axes_closed(const unsigned of[K_COUNT])
{
    static const struct {
        knob_id k;
        unsigned axes;
    } by[] = {{K_TP, ON_TP},   {K_CP, ON_CP}, {K_EP, ON_EP},
              {K_ETP, ON_ETP}, {K_PP, ON_PP}, {K_MBS, ON_MBS}};
    unsigned closed = 0;
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
        if (!of[by[i].k]) closed |= by[i].axes;
    if (!of[K_PP] && !of[K_PP_LAYOUT]) closed |= ON_STAGES;
    return closed;
}

/* ---- rules */

/* Words of conditions that are no knobs, and what stands behind them. */
static const struct {
    const char *word;
    unsigned axes;
} words[] = {
    {"rule_dp", ON_TP | ON_CP | ON_PP},
    {"rule_edp", ON_EP | ON_ETP | ON_PP},
    {"rule_microbatches", ON_TP | ON_CP | ON_PP | ON_MBS},
    {"rule_group", ON_STAGES},
    {"rule_stages", ON_STAGES},
    {"rule_tokens", ON_TP | ON_CP | ON_MBS},
    {"rule_core_heads", ON_TP | ON_CP | ON_KIND},
    {"rule_reaches", ON_SIZES},
    {"judge_copies", ON_EP | ON_ETP},
    {"judge_shared_overlap_stays", ON_TO},
    {"rule_split_contradicts", ON_STAGES},
    {"rule_precision_part", ON_PRECISION | ON_TP},
    {"q_alignment", ON_PRECISION | ON_TP},
    {"pipe", ON_STAGES},
    {"padded_vocab", ON_TP},
    {"rule_bubble", AXES_ALL},
    {"rule_state_exceeds", AXES_ALL},
    /* these do not depend on the layout, or their knob stands beside them */
    {"model_has", 0},
    {"model_is_windowed", 0},
    {"model_window", 0},
    {"rule_moe_layers", 0},
    {"rule_dense_layers", 0},
    {"rule_rotated", 0},
    {"rule_product", 0},
    {"rule_gdn_width", 0},
    {"rule_pattern_is_odd", 0},
    {"s", 0},
    {"j", 0},
    {"r", 0},
    {"m", 0},
    {"v", 0},
};

/* Nothing behind these names depends on more than their arguments. */
static bool is_plain(const char *w, size_t n)
{
    static const char *const starts[] = {"recipe_", "job_",    "J_",          "version",
                                         "FROM_",   "AXIS_",   "ARCH_",       "GRID_",
                                         "BLOCK_",  "TARGET_", "dispatcher_", "cp_"};
    static const char *const plain[] = {
        "divides", "mul_sat", "knob", "kind",  "from", "whole",  "vpp", "gpu",  "arch", "NULL",
        "size_t",  "int64_t", "void", "value", "list", "listed", "n",   "item", "true", "false"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (n > strlen(starts[i]) && strncmp(w, starts[i], strlen(starts[i])) == 0) return true;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (n == strlen(plain[i]) && strncmp(w, plain[i], n) == 0) return true;
    return false;
}

/* `field`: the word stands behind "j.", the job's. False: it is not known. */
static bool add_word(unsigned *axes, const char *w, size_t n, bool field,
                     const unsigned of[K_COUNT])
{
    for (int k = 0; k < K_COUNT; k++) {
        size_t skip = field ? 0 : 2; /* of K_TP; fields have small letters */
        if (n <= skip || strlen(knobs[k].id) != n - skip || (!field && strncmp(w, "K_", 2) != 0) ||
            strncasecmp(knobs[k].id, w + skip, n - skip) != 0)
            continue;
        *axes |= of[k];
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == n && strncmp(words[i].word, w, n) == 0) {
            *axes |= words[i].axes;
            return true;
        }
    return is_plain(w, n);
}

static unsigned axes_of_visit(const rule *r)
{
    bool of_knobs = r->number == RULE_value_in_range || r->number == RULE_aliases_agree;
    return of_knobs ? 0 : r->number == RULE_pipeline_split ? (unsigned)ON_STAGES : AXES_ALL;
}

unsigned axes_of_rule(const rule *r, const unsigned of[K_COUNT], const char **strange)
{
    unsigned axes = 0;
    if (!r->reads) return axes_of_visit(r);
    for (const char *p = r->reads; *p;) {
        size_t n = 0;
        if (*p == '"')
            while (p[1] && *++p != '"') {
            }
        while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
        if (n && strncmp(p, "__builtin_offsetof", n) == 0) { /* of a trait */
            p += strcspn(p, ")");
            continue;
        }
        bool field = p > r->reads + 1 && p[-1] == '.' && p[-2] == 'j';
        bool of_call = p > r->reads + 2 && strncmp(p - 3, ")->", 3) == 0; /* its arguments count */
        if (n && !of_call && !isdigit((unsigned char)*p) &&
            !add_word(&axes, p, n, field, of)) { /* I2 */
            if (strange) *strange = p;
            return AXES_ALL;
        }
        p += n ? n : 1;
    }
    return axes;
}
