/* batch.c - tokens of microbatches and their weights.
 *
 * I1  The prediction module reads arrays that are one further on: element q of a sequence is q + 1
 *     of the given one, and 0 at the end. Nothing is copied for that. */
#include "train/data/batch.h"

#include "ir/rope.h"
#include "op/update.h"

int64_t batch_seq(const program *p)
{
    return p->S * p->s->lay.cp;
}

int64_t batch_position(const program *p, int64_t i)
{
    int64_t parts = p->s->lay.cp, half = p->S / 2;
    if (parts == 1) return i;
    return i < half ? p->at.cp * half + i : (2 * parts - 1 - p->at.cp) * half + i - half;
}

/* What lies at place q of a sequence, `further` places on (0 or 1): an index, or -1. */
static int64_t place(const program *p, int64_t sample, int64_t q, int further)
{
    int64_t seq = batch_seq(p);
    return q + further < seq ? sample * seq + q + further : -1; /* I1 */
}

/* ---- counting */

static batch_count count(const program *p, const float *mask, int further)
{
    batch_count n = {0};
    int64_t seq = batch_seq(p);
    for (int64_t b = 0; b < p->B; b++) {
        for (int64_t q = further; q < seq; q++) n.whole += (double)mask[b * seq + q];
        for (int64_t i = 0; i < p->S; i++) {
            int64_t at = place(p, b, batch_position(p, i), further);
            if (at >= 0) n.here += (double)mask[at];
        }
    }
    return n;
}

batch_count batch_tokens(const program *p, const batch *b)
{
    return count(p, b->mask, 0);
}

batch_count batch_mtp_tokens(const program *p, const batch *b)
{
    return count(p, b->mask, 1);
}

/* ---- filling */

/* The buffers of one loss, main or prediction module; NULL: not on this rank. */
typedef struct target {
    int32_t *ids, *labels;
    float *mask;
    int further;
} target;

static void *buffer_of_micro(executor *e, const program *p, step_buffer which, int64_t micro)
{
    unsigned char *first = executor_staging(e, which);
    return p->step_bytes[which] > 0 ? first + micro * p->step_bytes[which] : NULL;
}

/* Every token that counts weighs `each`. */
static void fill(const target *to, const program *p, const batch *b, double each)
{
    for (int64_t s = 0, t = 0; s < p->B; s++)
        for (int64_t i = 0; i < p->S; i++, t++) {
            int64_t at = place(p, s, batch_position(p, i), to->further);
            if (to->ids) to->ids[t] = at < 0 ? 0 : b->tokens[at];
            if (to->labels) to->labels[t] = at < 0 ? 0 : b->labels[at];
            if (to->mask) to->mask[t] = at < 0 ? 0 : (float)((double)b->mask[at] * each);
        }
}

static double at_least_one(double tokens)
{
    return tokens > 1 ? tokens : 1;
}

static void count_tokens(executor *e, const program *p, int64_t micro, const batch *b)
{
    double *counts = buffer_of_micro(e, p, STEP_COUNTS, micro);
    batch_count own = batch_tokens(p, b), mtp = {0};
    if (p->s->m.n_mtp) mtp = batch_mtp_tokens(p, b);
    counts[COUNTS_WHOLE] = own.whole;
    counts[COUNTS_HERE] = own.here;
    counts[COUNTS_MTP_WHOLE] = mtp.whole;
    counts[COUNTS_MTP_HERE] = mtp.here;
}

void batch_load(executor *e, const program *p, int64_t micro, const batch *b, double step_tokens)
{
    count_tokens(e, p, micro, b);
    target to = {buffer_of_micro(e, p, STEP_IDS, micro), buffer_of_micro(e, p, STEP_LABELS, micro),
                 buffer_of_micro(e, p, STEP_MASK, micro), 0};
    double share = step_tokens > 0 ? 1 : 1.0 / (double)(p->micros * p->s->lay.dp);
    double tokens = batch_tokens(p, b).whole;
    fill(&to, p, b, step_tokens > 0 ? share / step_tokens : share / at_least_one(tokens));
    if (!p->s->m.n_mtp) return;
    target mtp = {buffer_of_micro(e, p, STEP_MTP_IDS, micro),
                  buffer_of_micro(e, p, STEP_MTP_LABELS, micro),
                  buffer_of_micro(e, p, STEP_MTP_MASK, micro), 1};
    double factor = p->s->j.mtp_factor * share;
    double own = at_least_one(batch_mtp_tokens(p, b).whole);
    if (step_tokens > 0) factor *= tokens / own;
    fill(&mtp, p, b, step_tokens > 0 ? factor / step_tokens : factor / own);
}

void batch_tables(executor *e, const program *p)
{
    if (!rope_width(p->s)) return;
    arena *scratch = arena_create();
    int64_t bytes = p->step_bytes[STEP_ROPE];
    float *table = ARENA_ARRAY(scratch, float, dtype_elements(DTYPE_F32, bytes));
    rope_table(p->s, p->at.cp, table);
    executor_write(e, executor_step_place(p, STEP_ROPE), table, bytes);
    arena_destroy(scratch);
}
