/* rope.c - frequencies of the rotary embedding.
 *
 * YaRN keeps frequencies that turn often within the trained length, divides those that turn less
 * than once by the factor, and blends between. Attention is sharpened by mscale = 0.1 c ln(factor)
 * + 1: on the table, or (MLA with mscale_all_dim) on the softmax, squared. */
#include "ir/rope.h"

#include <math.h>

int64_t rope_width(const setup *s)
{
    bool none = s->j.position == J_POSITION_NONE || s->m.positions > 0;
    if (none) return 0;
    if (s->m.attention->mla) return s->m.attention->qk_rope_dim;
    return (int64_t)((double)s->m.attention->head_dim * s->j.rope_percent) / 2 * 2;
}

static bool is_yarn(const setup *s)
{
    return s->j.rope_type == J_ROPE_TYPE_YARN || s->j.position == J_POSITION_YARN;
}

/* Llama 3.1: wavelengths of which the trained length holds more than `high` (four) stay, those of
 * which it holds less than `low` (one) are divided, and between them is a blend by that number. */
static double llama3_frequency(const setup *s, double plain)
{
    double factor = s->j.llama3_factor, low = s->j.llama3_low;
    double high = s->j.llama3_high;
    double trained = (double)s->j.rope_trained;
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
    double base = s->j.rope_base, factor = s->j.rope_factor;
    double trained = (double)s->j.rope_original;
    double low = rotating_index(s->j.rope_beta_fast, (double)width, base, trained);
    double high = rotating_index(s->j.rope_beta_slow, (double)width, base, trained);
    if (s->j.rope_truncate) {
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
    double factor = s->j.rope_factor;
    double c = s->j.rope_mscale, all = s->j.rope_mscale_all;
    return mscale(factor, c) / mscale(factor, all);
}

/* Dynamic NTK: the lowest frequency is divided by about how many times longer than trained. */
static double base_of(const setup *s, int64_t width)
{
    double base = s->j.rope_base, factor = s->j.rope_dynamic;
    double longer = (double)s->j.seq / (double)s->j.rope_trained;
    if (!job_has(&s->j, K_ROPE_DYNAMIC) || longer <= 1 || width <= 2) return base;
    return base * pow(factor * longer - (factor - 1), (double)width / (double)(width - 2));
}

static double frequency(const setup *s, int64_t i, int64_t width)
{
    double plain = pow(base_of(s, width), -2.0 * (double)i / (double)width);
    if (job_has(&s->j, K_ROPE_LINEAR)) plain /= s->j.rope_linear;
    if (is_yarn(s)) return yarn_frequency(s, i, width, plain);
    return s->j.llama3_rope ? llama3_frequency(s, plain) : plain;
}

void rope_table(const setup *s, int64_t cp, float *table)
{
    int64_t width = rope_width(s), half = width / 2;
    int64_t run = s->j.seq / s->lay.cp, last = 2 * s->lay.cp - 1 - cp;
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
    double size = (double)(m->attention->mla ? m->attention->qk_dim + m->attention->qk_rope_dim
                                             : m->attention->head_dim);
    double scale = 1 / sqrt(size), all = s->j.rope_mscale_all;
    if (!m->attention->mla || !is_yarn(s) || all <= 0) return scale;
    double sharp = mscale(s->j.rope_factor, all);
    return scale * sharp * sharp;
}
