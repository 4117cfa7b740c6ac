/* init_weights.c - filling the flat array of weights.
 *
 * I1  Elements are drawn in chunks, in any order and by any thread: each depends on its place only.
 * I2  Padding and buffers are zero, so that arrays of equal runs are equal as a whole. */
#include "train/executor/init_weights.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "train/executor/part_map.h"

enum { CHUNK = 1 << 14 };

static double output_deviation(const setup *s)
{
    return s->j.init_std / sqrt(2.0 * (double)s->m.n_layers);
}

static void fill_constant(float x, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = x;
}

/* PyTorch's default for a depthwise convolution: its fan-in is the number of taps. */
static void draw_conv(const philox *g, const param *row, int64_t first, int64_t n, float *out)
{
    double bound = 1 / sqrt((double)row->dim[row->n_dims - 1]);
    philox_uniform(g, (uint64_t)first, n, -bound, bound, out);
}

static void draw_a_log(const philox *g, int64_t first, int64_t n, float *out)
{
    philox_uniform(g, (uint64_t)first, n, 1, 16, out);
    for (int64_t i = 0; i < n; i++) out[i] = (float)log((double)out[i]);
}

void init_elements(const init_source *from, int64_t first, int64_t n, float *out)
{
    philox g = philox_stream(from->seed, philox_id(from->name));
    const job *j = &from->s->j;
    uint64_t at = (uint64_t)first;
    switch (from->row->init) {
    case INIT_NORMAL:
        philox_normal(&g, at, n, j->init_std, out);
        break;
    case INIT_OUTPUT:
        philox_normal(&g, at, n, output_deviation(from->s), out);
        break;
    case INIT_EMBEDDING:
        philox_normal(&g, at, n, job_has(j, K_EMBED_INIT_STD) ? j->embed_init_std : j->init_std,
                      out);
        break;
    case INIT_ONE:
        fill_constant(1, n, out);
        break;
    case INIT_ZERO:
        fill_constant(0, n, out);
        break;
    case INIT_CONV:
        draw_conv(&g, from->row, first, n, out);
        break;
    case INIT_A_LOG:
        draw_a_log(&g, first, n, out);
        break;
    }
}

/* A box of the whole weight into the rank's part of it, of which `part` begins with element
 * `first`. */
static void init_box(const init_source *from, const weight *w, const weight_box *b, int64_t first,
                     float *part)
{
    int64_t n = box_elements(w, b), n_chunks = (n + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < n_chunks; k++) { /* I1 */
        int64_t end = (k + 1) * CHUNK < n ? (k + 1) * CHUNK : n;
        for (int64_t i = k * CHUNK; i < end;) {
            box_run r = box_run_at(w, b, i);
            int64_t count = r.n < end - i ? r.n : end - i;
            init_elements(from, r.whole, count, part + r.part - first);
            i += count;
        }
    }
}

void init_range(const setup *s, const rank_at *at, const weight *w, uint64_t seed, init_span of,
                float *out)
{
    memset(out, 0, sizeof *out * (size_t)of.n); /* I2 */
    if (!s->j.initialize) return;
    arena *names = arena_create();
    init_source from = {s, w->row, weight_name(names, s, w), seed};
    part_map map;
    weight_box boxes[PART_BOXES_MAX];
    part_map_init(&map, s, at, w);
    int count = part_map_boxes(boxes, &map, of.first, of.n);
    for (int k = 0; k < count; k++) init_box(&from, w, &boxes[k], of.first, out);
    arena_destroy(names);
}

void init_weight(const setup *s, const rank_at *at, const weight *w, uint64_t seed, float *part)
{
    init_range(s, at, w, seed, (init_span){0, w->n}, part);
}

void init_weights(const setup *s, const rank_at *at, const weight_list *w, uint64_t seed,
                  float *weights)
{
    memset(weights, 0, sizeof *weights * (size_t)w->elements); /* I2 */
    for (int i = 0; i < w->n; i++)
        init_weight(s, at, &w->list[i], seed, weights + w->list[i].offset);
}
