/* stage_parts.c - the weights of a stage, backwards, and the buffers they go into. */
#include "layout/stage_parts.h"

enum { WEIGHT_ALIGN = 64, BUCKET_ALIGN = 128, BUSBW_ALIGN = 1 << 16 };
enum { BUCKET_LEAST = 40000000, BUCKET_PER_RANK = 1000000 };

typedef struct visit {
    const model *m;
    void (*see)(void *with, const stage_part *p);
    void *with;
} visit;

static void see(const visit *v, const model_block *block, part_rows rows, int64_t layer, bool alone)
{
    stage_part p = {block, rows, layer, alone};
    v->see(v->with, &p);
}

static void see_layer(const visit *v, int64_t i)
{
    const layer_kind *l = model_layer(v->m, i);
    for (int n = l->n_blocks; n > 0; n--) see(v, l->block[n - 1]->weights, ROWS_ALL, i, false);
}

/* Prediction modules take what the final norm gives, so then it sits where the last layer is. */
static bool has_final_norm(const model *m, const stage *s)
{
    return m->n_mtp ? stage_ends_layers(m, s) : s->loss;
}

bool stages_alike(const model *m, const stage *a, const stage *b)
{
    return stage_ends_layers(m, a) == stage_ends_layers(m, b) && a->n_layers == b->n_layers &&
           a->n_mtp == b->n_mtp && a->embedding == b->embedding && a->loss == b->loss &&
           model_same_layers(m, a->first_layer, b->first_layer, a->n_layers);
}

void stage_parts(const model *m, const stage *s, int64_t pp,
                 void (*seen)(void *with, const stage_part *p), void *with)
{
    visit v = {m, seen, with};
    const model_block *embedding = m->blocks, *head = &m->blocks[m->n_blocks - 1];
    bool copied = (m->tied || m->n_mtp > 0) && pp > 1;
    int64_t modules = model_modules(m, s->n_mtp);
    if (s->loss) see(&v, head, ROWS_MATRIX, 0, false);
    if (s->loss && m->tied && !s->embedding && !s->n_mtp) see(&v, embedding, ROWS_WORDS, 0, pp > 1);
    for (int64_t i = modules - 1; i >= 0; i--) see_layer(&v, m->n_layers + i);
    if (has_final_norm(m, s)) see(&v, head, ROWS_VECTORS, 0, false);
    for (int64_t i = s->n_layers - 1; i >= 0; i--) see_layer(&v, s->first_layer + i);
    if (!s->embedding && s->n_mtp == 0) return;
    see(&v, embedding, ROWS_OTHER, 0, false);
    see(&v, embedding, ROWS_WORDS, 0, copied && !(s->embedding && s->loss));
}

bool stage_part_has(const stage_part *p, const param *row, bool first)
{
    switch (p->rows) {
    case ROWS_MATRIX:
        return row->n_dims > 1;
    case ROWS_VECTORS:
        return row->n_dims == 1;
    case ROWS_WORDS:
        return first;
    case ROWS_OTHER:
        return !first;
    default:
        return true;
    }
}

/* ---- buffers */

int64_t optimizer_shards(const job *j, const layout *l, int which)
{
    if (!j->dist_opt) return 1;
    int64_t instances = j->opt_instances;
    int64_t ranks = which ? l->edp : mul_sat(l->dp, l->cp);
    return instances > 1 && ranks / instances > 0 ? ranks / instances : ranks;
}

buffer empty_buffer(const job *j, const layout *l, int which)
{
    buffer b = {.align = 1, .unit = 1};
    if (j->dist_opt) {
        b.align = WEIGHT_ALIGN;
        b.unit = lcm64(optimizer_shards(j, l, which), j->bucket_pad ? BUSBW_ALIGN : BUCKET_ALIGN);
    }
    if (!j->grad_overlap) return b;
    int64_t ranks = mul_sat(l->dp, l->cp), size = mul_sat(ranks, BUCKET_PER_RANK);
    b.bucket_size = job_has(j, K_BUCKET) ? j->bucket : size > BUCKET_LEAST ? size : BUCKET_LEAST;
    if (b.bucket_size < 1) b.bucket_size = 1;
    return b;
}
