/* bands.c - errors of the nearest published rows, and what was published; see bands.h.
 *
 * I1  The nearest ten count, and all that are as near as the tenth. `make accuracy` judges each row
 *     by the others: about four in five must lie within their bands.
 * I2  The band of a difference grows as the fourth root of the knobs that differ: errors of pairs
 *     that differ in two to six are hardly larger than of those that differ in one (12 to 13 % each
 *     cover four in five), but few pairs differ in so many.
 * I3  Of n errors and one more, drawn alike, the next is below the k-th smallest with the chance
 *     k / (n + 1): so the place of the quantile is counted among n + 1.
 * I4  A model is known by its shape and never by its name: a preset, its name on the hub, a
 *     config.json and a Megatron-LM list of one architecture have the same evidence.
 * I5  Rows that prices were adjusted to say less than a run of one's own will show: what a source
 *     has in common (its cluster, its stack, its habits) is not among the errors of other sources.
 *     Of 79 rows that nothing was fitted to (tests/data/unseen), these bands would hold for 70 %,
 *     and for 36 % of MLPerf's; with 8 % beside, as of an error that is drawn alone, for 85 and
 *     68 %. It was picked on those rows, the smallest with which no source is below 65 %. */
#include "predict/bands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "ir/segment.h"

enum { NEAREST = 10 };
static const double COVERED = 0.8;
static const double OTHERS = 0.08; /* I5 */

typedef struct support_row {
    char family;
    band_feature feature;
    const char *word, *since;
} support_row;

typedef struct model_row {
    const char *name;
    model_shape shape;
} model_row;

#define MODEL(...)
#define ROW(...)
#define RUN(...)
#define DIFFERENCE(x)
#define SUPPORT(...)

/* clang-format off */
#define SIZES(...) {__VA_ARGS__}
/* clang-format on */

static const model_row models[] = {
#undef MODEL
#define MODEL(name, family, sizes) {name, {family, sizes}},
#include "predict/bands.def"
#undef MODEL
#define MODEL(...)
};

static const band_row rows[] = {
#undef ROW
/* clang-format off */
#define ROW(id, gpu, name, seq, n, sizes, dispatch, recompute, precision, overlap, graphs, tok,    \
            error)                                                                                 \
    {id, gpu, name, seq, n, sizes, {dispatch, recompute, precision, overlap, graphs}, tok, error},
/* clang-format on */
#include "predict/bands.def"
#undef ROW
#define ROW(...)
};

static const double difference = 0
#undef DIFFERENCE
#define DIFFERENCE(x) +x
#include "predict/bands.def"
#undef DIFFERENCE
#define DIFFERENCE(x)
    ;

static const support_row supported[] = {
#undef SUPPORT
#define SUPPORT(family, feature, word, since) {family, BAND_##feature, word, since},
#include "predict/bands.def"
#undef SUPPORT
#define SUPPORT(...)
};

static const band_run runs[] = {
#undef RUN
#define RUN(...) {__VA_ARGS__},
#include "predict/bands.def"
};

enum {
    N_MODELS = sizeof models / sizeof models[0],
    N_RUNS = sizeof runs / sizeof runs[0],
    N_ROWS = sizeof rows / sizeof rows[0],
    N_SUPPORTED = sizeof supported / sizeof supported[0]
};

const band_row *band_rows(int *n)
{
    *n = N_ROWS;
    return rows;
}

const char *band_feature_name(band_feature f)
{
    static const char *const names[] = {
#define BAND_NAME(id, name) name,
        BAND_FEATURES_TABLE(BAND_NAME)
#undef BAND_NAME
    };
    return names[f];
}

/* ---- traits */

/* cluster.gpu is read in any case. */
static bool same_gpu(const char *x, const char *y)
{
    return strcasecmp(x, y) == 0;
}

char band_family(const char *gpu_name)
{
    static const char *const hopper[] = {"H100", "H200", "H800", "A100"};
    static const char *const blackwell[] = {"B200", "B300", "GB200", "GB300"};
    for (size_t i = 0; gpu_name && i < sizeof hopper / sizeof hopper[0]; i++) {
        if (same_gpu(gpu_name, hopper[i])) return 'H';
        if (same_gpu(gpu_name, blackwell[i])) return 'B';
    }
    return 0;
}

const char *band_dispatch(const dispatcher *d, const band_reach *r)
{
    static const char *const words[DISPATCHERS][3] = {
#define DISPATCHER(id, name, ...)                                                                  \
    [DISPATCHER_##id] = {name " node", name " domain", name " across"},
#include "job/dispatchers.def"
    };
    if (r->ranks <= 1) return "none";
    return words[d - dispatchers][r->ranks <= r->node ? 0 : r->ranks <= r->domain ? 1 : 2];
}

/* Experts of a group lie side by side in the order of ranks. */
static const char *dispatch_of(const setup *s)
{
    const band_reach r = {s->lay.ep * s->lay.etp, s->lay.gpus_per_node, s->lay.nvlink_domain};
    return s->m.moe->experts ? band_dispatch(dispatcher_of(&s->j), &r) : "none";
}

const char *band_precision(const job *j)
{
    if (job_has(j, K_FP4)) return "nvfp4";
    if (!job_has(j, K_FP8)) return j->bf16 || j->fp16 ? "bf16" : "fp32";
    static const char *const scalings[] = {
        [J_FP8_RECIPE_NULL] = "tensorwise",       [J_FP8_RECIPE_DELAYED] = "delayed",
        [J_FP8_RECIPE_TENSORWISE] = "tensorwise", [J_FP8_RECIPE_BLOCKWISE] = "blockwise",
        [J_FP8_RECIPE_MXFP8] = "mxfp8",           [J_FP8_RECIPE_OTHER] = ""};
    return scalings[j->fp8_recipe];
}

const char *band_full_iteration(const char *precision)
{
    static const char *const words[][2] = {
        {"mxfp8", "full_iteration"},
        {"nvfp4", "full_iteration nvfp4"},
        {"bf16", "full_iteration bf16"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text_equal(words[i][0], precision)) return words[i][1];
    return "full_iteration fp8";
}

static const char *graphs_of(const job *j)
{
    if (j->graphs == J_GRAPHS_FULL_ITERATION) return band_full_iteration(band_precision(j));
    return j->graphs == J_GRAPHS_NULL || j->graphs == J_GRAPHS_NONE ? "none" : "parts";
}

static const char *recompute_of(const job *j)
{
    if (j->recompute == J_RECOMPUTE_FULL) return "full";
    return j->recompute == J_RECOMPUTE_SELECTIVE ? "selective" : "none";
}

static const char *published_name(const model *m)
{
    model_shape shape = model_shape_of(m);
    for (int i = 0; i < N_MODELS; i++)
        if (model_same_shape(&shape, &models[i].shape)) return models[i].name;
    return "";
}

band_traits band_traits_of(const setup *s)
{
    const job *j = &s->j;
    const char *chip = j->gpu;
    band_traits t = {.family = band_family(chip),
                     .gpu = chip ? chip : "",
                     .name = published_name(&s->m), /* I4 */
                     .seq = j->seq,
                     .stack = j->stack};
    t.feature[BAND_DISPATCH] = dispatch_of(s);
    t.feature[BAND_RECOMPUTE] = recompute_of(j);
    t.drops = j->recompute == J_RECOMPUTE_SELECTIVE ? drop_of(&s->j) : 0;
    t.feature[BAND_PRECISION] = band_precision(j);
    bool overlap = j->dispatch_wgrad && !j->ep_overlap;
    t.feature[BAND_OVERLAP] = overlap          ? "wgrad"
                              : !j->ep_overlap ? "off"
                              : j->delay_wgrad ? "delayed"
                                               : "on";
    t.feature[BAND_GRAPHS] = graphs_of(j);
    double host = j->opt_offload ? j->opt_offload_fraction : 0;
    int64_t sizes[] = {s->lay.tp, s->lay.cp,   s->lay.ep, s->lay.etp,
                       s->lay.pp, s->pipe.vpp, j->mbs,    (int64_t)(4 * host)};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) t.sizes[i] = sizes[i];
    return t;
}

int band_differences(const band_traits *x, const band_traits *y)
{
    int n = 0;
    for (int i = 0; i < BAND_FEATURES; i++) n += !text_equal(x->feature[i], y->feature[i]);
    for (size_t i = 0; i < sizeof x->sizes / sizeof x->sizes[0]; i++)
        n += x->sizes[i] != y->sizes[i];
    return n;
}

/* ---- bands */

double band_distance(const band_traits *t, const band_row *r)
{
    double d = t->family == band_family(r->gpu) ? 0 : 4;
    d += same_gpu(t->gpu, r->gpu) ? 0 : 1;
    d += text_equal(t->name, r->name) ? 0 : 1.5;
    for (int i = 0; i < BAND_FEATURES; i++) d += text_equal(t->feature[i], r->feature[i]) ? 0 : 1;
    return d + 0.5 * fabs(log2((double)(t->seq > 0 ? t->seq : 1) / (double)r->seq));
}

typedef struct near_row {
    double distance, error;
} near_row;

static int by_distance(const void *x, const void *y)
{
    const near_row *a = x, *b = y;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

static int by_error(const void *x, const void *y)
{
    const near_row *a = x, *b = y;
    return (a->error > b->error) - (a->error < b->error);
}

double band_of_time(const band_traits *t, int skip)
{
    near_row list[N_ROWS + NEAREST];
    int n = 0, near_n;
    for (int i = 0; i < N_ROWS; i++)
        if (i != skip) list[n++] = (near_row){band_distance(t, &rows[i]), fabs(rows[i].error)};
    qsort(list, (size_t)n, sizeof list[0], by_distance);
    near_n = n < NEAREST ? n : NEAREST;
    while (near_n < n && list[near_n].distance <= list[near_n - 1].distance) near_n++; /* I1 */
    qsort(list, (size_t)near_n, sizeof list[0], by_error);
    double at = fmin(COVERED * (near_n + 1) - 1, near_n - 1); /* I3 */
    int below = (int)at, above = below + 1 < near_n ? below + 1 : below;
    double part = at - below;
    if (!near_n) return 0;
    return hypot(list[below].error * (1 - part) + list[above].error * part, OTHERS);
}

double band_growth(int n)
{
    return sqrt(sqrt((double)n)); /* I2 */
}

double band_of_difference(int n)
{
    return difference * band_growth(n);
}

/* ---- support */

/* Names of generations are years and months: their order is that of their letters. */
bool band_supports(char family, band_feature f, const char *word, const char *stack)
{
    for (int i = 0; i < N_SUPPORTED; i++)
        if (supported[i].family == family && supported[i].feature == f &&
            text_equal(supported[i].word, word))
            return !stack || strcmp(supported[i].since, stack) <= 0;
    return false;
}

bool band_supports_drops(char family, unsigned drops, const char *stack)
{
    for (int i = 0; i < DROP_MODULES; i++)
        if (drops & drop_modules[i].drop &&
            !band_supports(family, BAND_RECOMPUTE, drop_modules[i].word, stack))
            return false;
    return true;
}

band_feature band_unsupported(const band_traits *t)
{
    for (int i = 0; i < BAND_FEATURES; i++)
        if ((!(i == BAND_DISPATCH && text_equal(t->feature[i], "none")) &&
             !band_supports(t->family, (band_feature)i, t->feature[i], t->stack)) ||
            (i == BAND_RECOMPUTE && !band_supports_drops(t->family, t->drops, t->stack)))
            return (band_feature)i;
    return BAND_FEATURES;
}

/* ---- what was published of this job */

static bool same_job(const band_traits *t, const band_run *r)
{
    return same_gpu(t->gpu, r->gpu) && text_equal(t->name, r->name) && t->seq == r->seq;
}

/* Precision counts most, then the number of GPUs: speed a GPU depends less on it. */
static int likeness(const band_traits *t, int64_t n_gpus, const band_run *r)
{
    return 2 * text_equal(t->feature[BAND_PRECISION], r->precision) + (r->n_gpus == n_gpus);
}

const band_run *band_fastest_like(const band_traits *t, int64_t n_gpus)
{
    const band_run *best = NULL;
    for (int i = 0; i < N_RUNS; i++) {
        const band_run *r = &runs[i];
        if (!same_job(t, r)) continue;
        int more = best ? likeness(t, n_gpus, r) - likeness(t, n_gpus, best) : 1;
        if (more > 0 || (!more && r->tokens > best->tokens)) best = r;
    }
    return best;
}

const band_run *band_fastest(const band_traits *t)
{
    const band_run *best = NULL;
    for (int i = 0; i < N_RUNS; i++)
        if (same_job(t, &runs[i]) && (!best || runs[i].tokens > best->tokens)) best = &runs[i];
    return best;
}

const band_row *band_row_of(const band_run *run)
{
    for (int i = 0; i < N_ROWS; i++)
        if (text_equal(rows[i].id, run->id)) return &rows[i];
    return NULL;
}

static int unlike(const band_traits *t, const band_row *r)
{
    int n = 0;
    for (int f = 0; f < BAND_FEATURES; f++) n += !text_equal(t->feature[f], r->feature[f]);
    for (size_t i = 0; i < sizeof t->sizes / sizeof t->sizes[0]; i++)
        n += t->sizes[i] != r->sizes[i];
    return n;
}

int band_untried(const band_traits *t)
{
    int least = BAND_FEATURES + 8;
    bool known = false;
    for (int i = 0; i < N_ROWS; i++) {
        if (band_family(rows[i].gpu) != t->family || !text_equal(rows[i].name, t->name) ||
            rows[i].seq != t->seq)
            continue;
        known = true;
        int n = unlike(t, &rows[i]);
        if (n < least) least = n;
    }
    return known ? least : 0;
}

int band_unlike(textbuf *out, const band_traits *t, const band_row *r)
{
    static const char *const names[] = {"TP",
                                        "CP",
                                        "EP",
                                        "ETP",
                                        "PP",
                                        "VPP",
                                        "micro batch size",
                                        "quarters of the optimizer on the host"};
    int n = 0;
    for (int i = 0; i < 8; i++)
        if (t->sizes[i] != r->sizes[i])
            text_add(out, "%s%s %lld (%lld)", n++ ? ", " : "", names[i], (long long)t->sizes[i],
                     (long long)r->sizes[i]);
    for (int f = 0; f < BAND_FEATURES; f++)
        if (!text_equal(t->feature[f], r->feature[f]))
            text_add(out, "%s%s %s (%s)", n++ ? ", " : "", band_feature_name((band_feature)f),
                     t->feature[f], r->feature[f]);
    return n;
}
