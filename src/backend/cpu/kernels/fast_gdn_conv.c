/* fast_gdn_conv.c - the short causal convolution, in tiles of tokens by channels.
 *
 * Channels lie along the lanes. A tile is small enough that the rows it reads twice (a tap looks
 * back up to TAPS - 1 tokens) are still near. The gradients make the sum before silu again: it
 * costs TAPS GEMMs a number, and saving it would cost a buffer of the size of x.
 *
 * I1  A tile lies within a sequence; taps that reach before its start are left out.
 * I2  The weights' gradient belongs to a tile of channels over all tokens: one owner, one order. */
#include "backend/cpu/kernels/fast_gdn_conv.h"

#include <string.h>

#include "backend/cpu/kernels/fast_attention_lanes.h"
#include "op/op_operands.h"

enum { TOKENS = 128, CHANNELS = 64, TAPS_MAX = 8 };

typedef struct conv {
    const lanes *use;
    int64_t b, s, c, taps;
    const float *x;  /* [B*S][C] */
    const float *w;  /* [C][TAPS] */
    const float *dy; /* [B*S][C], gradients only */
} conv;

/* Tokens of a sequence by channels, and the channels' weights turned round. */
typedef struct tile {
    int64_t batch, token, n_tokens, channel, n_channels;
    float w[TAPS_MAX][CHANNELS];
} tile;

static conv conv_of(const op *o, const float *x, const float *w)
{
    return (conv){lanes_best(),
                  o->dim[DIM_CONV_B],
                  o->dim[DIM_CONV_S],
                  o->dim[DIM_CONV_C],
                  o->dim[DIM_CONV_TAPS],
                  x,
                  w,
                  NULL};
}

bool fast_conv_accepts(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_CONV_TAPS] <= TAPS_MAX;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t n_parts(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

static void tile_init(const conv *v, tile *e, int64_t channels)
{
    e->channel = channels * CHANNELS;
    e->n_channels = least(v->c - e->channel, CHANNELS);
    for (int64_t i = 0; i < v->taps; i++)
        for (int64_t c = 0; c < e->n_channels; c++)
            e->w[i][c] = v->w[(e->channel + c) * v->taps + i];
}

/* Tile number `i` of all, batch slowest, channels fastest. */
static void tile_at(const conv *v, tile *e, int64_t i)
{
    const int64_t across = n_parts(v->c, CHANNELS), along = n_parts(v->s, TOKENS);
    tile_init(v, e, i % across);
    e->batch = i / across / along;
    e->token = i / across % along * TOKENS;
    e->n_tokens = least(v->s - e->token, TOKENS);
}

static int64_t n_tiles(const conv *v)
{
    return v->b * n_parts(v->s, TOKENS) * n_parts(v->c, CHANNELS);
}

static int64_t place(const conv *v, const tile *e, int64_t token)
{
    return (e->batch * v->s + token) * v->c + e->channel;
}

/* sum[n_channels] before silu at a token of the tile's sequence */
static void sum_taps(const conv *v, const tile *e, int64_t token, float *sum)
{
    memset(sum, 0, sizeof *sum * (size_t)e->n_channels);
    for (int64_t i = 0; i < v->taps; i++) {
        const int64_t back = v->taps - 1 - i;
        if (back > token) continue; /* I1 */
        const float *x = v->x + place(v, e, token - back);
        for (int64_t c = 0; c < e->n_channels; c++) sum[c] += e->w[i][c] * x[c];
    }
}

void fast_conv(const op *o, void *const *in, void *const *out)
{
    const op_conv a = op_conv_of(o, in, out);
    const conv v = conv_of(o, a.x, a.w);
#pragma omp parallel for
    for (int64_t i = 0; i < n_tiles(&v); i++) {
        tile e;
        tile_at(&v, &e, i);
        for (int64_t t = e.token; t < e.token + e.n_tokens; t++) {
            float sum[CHANNELS];
            sum_taps(&v, &e, t, sum);
            v.use->silu(a.y + place(&v, &e, t), sum, e.n_channels);
        }
    }
}

/* slopes[n_channels]: gradient by the sum before silu */
static void back_sum(const conv *v, const tile *e, int64_t token, float *slopes)
{
    sum_taps(v, e, token, slopes);
    v->use->silu_d(slopes, v->dy + place(v, e, token), slopes, e->n_channels);
}

static void back_tile(const conv *v, const tile *e, float *dx /* [B*S][C] */)
{
    const int64_t past = e->token + e->n_tokens;
    for (int64_t t = e->token; t < past; t++)
        memset(dx + place(v, e, t), 0, sizeof *dx * (size_t)e->n_channels);
    for (int64_t t = e->token; t < least(past + v->taps - 1, v->s); t++) {
        float slopes[CHANNELS];
        back_sum(v, e, t, slopes);
        for (int64_t i = 0; i < v->taps; i++) {
            const int64_t from = t - (v->taps - 1 - i);
            if (from < e->token || from >= past) continue;
            float *to = dx + place(v, e, from);
            for (int64_t c = 0; c < e->n_channels; c++) to[c] += e->w[i][c] * slopes[c];
        }
    }
}

void fast_conv_d(const op *o, void *const *in, void *const *out)
{
    const op_conv_d a = op_conv_d_of(o, in, out);
    conv v = conv_of(o, a.x, a.w);
    v.dy = a.dy;
#pragma omp parallel for
    for (int64_t i = 0; i < n_tiles(&v); i++) {
        tile e;
        tile_at(&v, &e, i);
        back_tile(&v, &e, a.dx);
    }
}

/* sums[TAPS][CHANNELS] += what a tile of tokens gives; in float within the tile, then in double. */
static void add_weights(const conv *v, const tile *e, double sums[TAPS_MAX][CHANNELS])
{
    float part[TAPS_MAX][CHANNELS] = {{0}}, slopes[CHANNELS];
    for (int64_t t = e->token; t < e->token + e->n_tokens; t++) {
        back_sum(v, e, t, slopes);
        for (int64_t i = 0; i < v->taps; i++) {
            const int64_t back = v->taps - 1 - i;
            if (back > t) continue; /* I1 */
            const float *x = v->x + place(v, e, t - back);
            for (int64_t c = 0; c < e->n_channels; c++) part[i][c] += slopes[c] * x[c];
        }
    }
    for (int64_t i = 0; i < v->taps; i++)
        for (int64_t c = 0; c < e->n_channels; c++) sums[i][c] += (double)part[i][c];
}

void fast_conv_w(const op *o, void *const *in, void *const *out)
{
    const op_conv_w a = op_conv_w_of(o, in, out);
    conv v = conv_of(o, a.x, a.w);
    v.dy = a.dy;
#pragma omp parallel for
    for (int64_t i = 0; i < n_parts(v.c, CHANNELS); i++) { /* I2 */
        double sums[TAPS_MAX][CHANNELS] = {{0}};
        tile e;
        tile_init(&v, &e, i);
        for (e.batch = 0; e.batch < v.b; e.batch++)
            for (e.token = 0; e.token < v.s; e.token += TOKENS) {
                e.n_tokens = least(v.s - e.token, TOKENS);
                add_weights(&v, &e, sums);
            }
        for (int64_t c = 0; c < e.n_channels; c++)
            for (int64_t k = 0; k < v.taps; k++)
                a.dw[(e.channel + c) * v.taps + k] += (float)sums[k][c];
    }
}
