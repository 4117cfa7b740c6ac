/* rope.c - frequencies of the rotary embedding.
 *
 * YaRN keeps frequencies that turn often within the trained length, divides those that turn less
 * than once by the factor, and blends between. Attention is sharpened by mscale = 0.1 c ln(factor)
 * + 1: on the table, or (MLA with mscale_all_dim) on the softmax, squared. */
#include "ir/build/rope.h"

#include <math.h>

int64_t rope_width(const setup *s)
{
    bool none = recipe_is(&s->r, K_POSITION, "none") || s->m.positions > 0;
    if (none) return 0;
    if (s->m.mla) return s->m.qk_rope_dim;
    return (int64_t)((double)s->m.head_dim * recipe_real(&s->r, K_ROPE_PERCENT)) / 2 * 2;
}

static bool is_yarn(const setup *s)
{
    return recipe_is(&s->r, K_ROPE_TYPE, "yarn") || recipe_is(&s->r, K_POSITION, "yarn");
}

/* Llama 3.1: wavelengths of which the trained length holds more than `high` (four) stay, those of
 * which it holds less than `low` (one) are divided, and between them is a blend by that number. */
static double llama3_frequency(const setup *s, double plain)
{
    double factor = recipe_real(&s->r, K_LLAMA3_FACTOR), low = recipe_real(&s->r, K_LLAMA3_LOW);
    double high = recipe_real(&s->r, K_LLAMA3_HIGH);
    double trained = (double)recipe_int(&s->r, K_ROPE_TRAINED);
    double rotations = trained * plain / (2 * M_PI), blend = (rotations - low) / (high - low);
    if (rotations < low) return plain / factor;
    return rotations > high || high <= low ? plain : (1 - blend) * plain / factor + blend * plain;
}

static double mscale(double factor, double c)
{
    return factor <= 1 ? 1 : 0.1 * c * log(factor) + 1;
}

/* The frequency index that rotates `times` times within the trained length. */
static double rotating_index(double times, double width, double base, double trained)
{
    return width * log(trained / (times * 2 * M_PI)) / (2 * log(base));
}

static double yarn_frequency(const setup *s, int64_t i, int64_t width, double plain)
{
    double base = recipe_real(&s->r, K_ROPE_BASE), factor = recipe_real(&s->r, K_ROPE_FACTOR);
    double trained = (double)recipe_int(&s->r, K_ROPE_ORIGINAL);
    double low = rotating_index(recipe_real(&s->r, K_ROPE_BETA_FAST), (double)width, base, trained);
    double high =
        rotating_index(recipe_real(&s->r, K_ROPE_BETA_SLOW), (double)width, base, trained);
    if (recipe_on(&s->r, K_ROPE_TRUNCATE)) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)width - 1);
    if (low == high) high += 0.001;
    double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return plain / factor * ramp + plain * (1 - ramp);
}

/* Equal constants cancel on the table; the softmax then has the square of the second. */
static double table_factor(const setup *s)
{
    if (!is_yarn(s)) return 1;
    double factor = recipe_real(&s->r, K_ROPE_FACTOR);
    double c = recipe_real(&s->r, K_ROPE_MSCALE), all = recipe_real(&s->r, K_ROPE_MSCALE_ALL);
    return mscale(factor, c) / mscale(factor, all);
}

/* Dynamic NTK: the lowest frequency is divided by about how many times longer than trained. */
static double base_of(const setup *s, int64_t width)
{
    double base = recipe_real(&s->r, K_ROPE_BASE), factor = recipe_real(&s->r, K_ROPE_DYNAMIC);
    double longer = (double)recipe_int(&s->r, K_SEQ) / (double)recipe_int(&s->r, K_ROPE_TRAINED);
    if (!recipe_given(&s->r, K_ROPE_DYNAMIC) || longer <= 1 || width <= 2) return base;
    return base * pow(factor * longer - (factor - 1), (double)width / (double)(width - 2));
}

static double frequency(const setup *s, int64_t i, int64_t width)
{
    double plain = pow(base_of(s, width), -2.0 * (double)i / (double)width);
    if (recipe_given(&s->r, K_ROPE_LINEAR)) plain /= recipe_real(&s->r, K_ROPE_LINEAR);
    if (is_yarn(s)) return yarn_frequency(s, i, width, plain);
    return recipe_on(&s->r, K_LLAMA3_ROPE) ? llama3_frequency(s, plain) : plain;
}

void rope_table(const setup *s, int64_t cp, float *table)
{
    int64_t width = rope_width(s), half = width / 2;
    int64_t run = recipe_int(&s->r, K_SEQ) / s->lay.cp, last = 2 * s->lay.cp - 1 - cp;
    double scale = table_factor(s);
    for (int64_t i = 0; i < half; i++) {
        float rounded =
            (float)frequency(s, i, width); /* frequencies are stored in FP32 by everyone */
        for (int64_t p = 0; p < run; p++) {
            int64_t second = p - run / 2; /* in the second half: chunk `last` of the sequence */
            int64_t at = s->lay.cp == 1 ? p
                         : second < 0   ? cp * (run / 2) + p
                                        : last * (run / 2) + second;
            float angle = (float)at * rounded;
            table[p * width + i] = (float)(cos((double)angle) * scale);
            table[p * width + half + i] = (float)(sin((double)angle) * scale);
        }
    }
}

double rope_softmax_scale(const setup *s)
{
    const model *m = &s->m;
    double size = (double)(m->mla ? m->qk_dim + m->qk_rope_dim : m->head_dim);
    double scale = 1 / sqrt(size), all = recipe_real(&s->r, K_ROPE_MSCALE_ALL);
    if (!m->mla || !is_yarn(s) || all <= 0) return scale;
    double sharp = mscale(recipe_real(&s->r, K_ROPE_FACTOR), all);
    return scale * sharp * sharp;
}
