/* batch.c - a microbatch's tokens and their weights. */
#include "run/batch.h"

#include <string.h>

#include "program/rope.h"

static double count_of(const float *mask, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)mask[i];
    return sum;
}

/* out = mask * share / max(count, 1) */
static void weigh(float *out, const float *mask, int64_t n, double share, double step_tokens)
{
    double count = count_of(mask, n);
    double each = step_tokens > 0 ? share / step_tokens : share / (count > 1 ? count : 1);
    for (int64_t i = 0; i < n; i++) out[i] = (float)((double)mask[i] * each);
}

static void shift_left(void *out, const void *from, int64_t B, int64_t S)
{
    const unsigned char *src = from;
    unsigned char *dst = out;
    for (int64_t b = 0; b < B; b++) {
        memcpy(dst + b * S * 4, src + b * S * 4 + 4, (size_t)(S - 1) * 4);
        memset(dst + (b * S + S - 1) * 4, 0, 4);
    }
}

void batch_load(executor *e, const program *p, const batch *b, double step_tokens)
{
    size_t bytes = (size_t)p->T * 4;
    memcpy(executor_step_buffer(e, STEP_IDS), b->tokens, bytes);
    memcpy(executor_step_buffer(e, STEP_LABELS), b->labels, bytes);
    double share = step_tokens > 0 ? 1 : 1.0 / (double)p->micros;
    weigh(executor_step_buffer(e, STEP_MASK), b->mask, p->T, share, step_tokens);
    if (!p->s->m.n_mtp) return;
    shift_left(executor_step_buffer(e, STEP_MTP_IDS), b->tokens, p->B, p->S);
    shift_left(executor_step_buffer(e, STEP_MTP_LABELS), b->labels, p->B, p->S);
    float *mask = executor_step_buffer(e, STEP_MTP_MASK);
    shift_left(mask, b->mask, p->B, p->S);
    double count = count_of(mask, p->T), main = count_of(b->mask, p->T);
    double factor = recipe_real(&p->s->r, K_MTP_FACTOR) * share;
    if (step_tokens > 0) factor *= main / (count > 1 ? count : 1);
    weigh(mask, mask, p->T, factor, step_tokens);
}

void batch_tables(executor *e, const program *p)
{
    if (rope_width(p->s)) rope_table(p->s, p->S, executor_step_buffer(e, STEP_ROPE));
}
