/* quant.c - lowering of GEMMs by the recipe's precision.
 *
 * I1  Weights stay as they are; their copies along either size are made once a step (build_copies)
 *     and lie in a region of their own.
 * I2  Of an input that only GEMMs read again the copy along tokens is saved, not the input: what
 *     nobody reads in backward is no longer saved (segment_recompute). An input that is saved for
 *     others, too, is quantised again in backward, as Transformer Engine does with
 *     save_original_input.
 * I3  A GEMM of a weight that Transformer Engine holds wide (router, gates, head) is plain. */
#include "ir/build/quant.h"

#include "ir/target.h"

static const quant_bufs nothing = {NONE, NONE, NONE};

static bool takes(const builder *b, const gemm *p)
{
    if (b->quant.form == QUANT_NONE || !quant_layer(&b->s->j, &b->s->m, b->layer)) return false;
    const param *row = seg_row(b, p->weight);
    return row && row->linear; /* I3 */
}

int64_t expert_align(const builder *b)
{
    bool here = quant_layer(&b->s->j, &b->s->m, b->layer);
    return here ? quant_info_of(b->quant.form).align : 1;
}

/* ---- buffers */

typedef struct matrix {
    const char *name;
    int64_t parts, rows, cols;
    dtype type;
    bool square;
} matrix;

static int64_t codes_of(const matrix *m)
{
    return m->parts * m->rows * quant_row(m->type, m->cols);
}

static int64_t scales_of(const builder *b, const matrix *m)
{
    return m->parts * quant_scales((quant_shape){b->quant.form, m->square, m->rows, m->cols});
}

static int take(builder *b, const matrix *m, int64_t n, dtype type, const buf *like)
{
    if (!n) return NONE;
    return like ? seg_saved_as(b, m->name, n, like->drop | like->offload, type)
                : seg_temp_as(b, m->name, n, type);
}

/* `like`: saved under the same conditions as that buffer; NULL: a temporary. */
static quant_bufs take_bufs(builder *b, const matrix *m, int64_t factors, const buf *like)
{
    quant_info info = quant_info_of(b->quant.form);
    quant_bufs t = {.q = take(b, m, codes_of(m), m->type, like)};
    t.s = take(b, m, scales_of(b, m), info.scale, like);
    t.g = take(b, m, info.factor ? factors : 0, DTYPE_F32, like);
    return t;
}

/* ---- activations and their gradients */

static quant_copies quantise(builder *b, int phase, const matrix *m, expert_shape e, int x,
                             const quant_copies *into)
{
    quant_copies c = *into;
    int g = c.turned.g != NONE ? c.turned.g : c.row.g;
    seg_op(b, phase, OP_QUANTISE, m->name, IN(x, e.E ? e.offsets : NONE),
           OUT(c.row.q, c.row.s, g, c.turned.q, c.turned.s),
           DIM(e.E ? e.E : 1, m->rows, m->cols, b->quant.form, m->type, 0));
    c.row.g = c.turned.g = g; /* it is the same of both */
    return c;
}

static matrix turned(matrix m)
{
    int64_t rows = m.rows;
    m.rows = m.cols;
    m.cols = rows;
    return m;
}

static quant_kept *find_kept(const builder *b, int x)
{
    for (int i = 0; i < b->seg->n_kept; i++)
        if (b->seg->kept[i].x == x) return &b->seg->kept[i];
    return NULL;
}

static void keep(builder *b, int x, const quant_copies *c)
{
    segment *seg = b->seg;
    ARENA_GROW(b->a, seg->kept, seg->n_kept, seg->kept_room);
    seg->kept[seg->n_kept++] =
        (quant_kept){x, {c->row.q, c->row.s, c->row.g}, {c->turned.q, c->turned.s, c->turned.g}};
}

/* An input, once for all GEMMs that read it. */
static quant_bufs input_row(builder *b, int phase, const matrix *m, expert_shape e, int x)
{
    const quant_kept *known = find_kept(b, x);
    if (known && phase == SEG_FORWARD)
        return (quant_bufs){known->row[0], known->row[1], known->row[2]};
    const buf from = b->seg->bufs[x];
    bool saves = from.stored && phase == SEG_FORWARD && b->quant.weights; /* I2 */
    const matrix other = turned(*m);
    int64_t n = e.E ? e.E : 1;
    quant_copies c = {nothing, nothing};
    if (saves) c.turned = take_bufs(b, &other, n, &from);
    c.row = take_bufs(b, m, saves ? 0 : n, NULL);
    c = quantise(b, phase, m, e, x, &c);
    if (from.life == LIFE_SAVED && from.parent < 0 && phase == SEG_FORWARD) keep(b, x, &c);
    return c.row;
}

/* The same along tokens: as forward saved it, or made again. */
static quant_bufs input_turned(builder *b, const matrix *m, expert_shape e, int x)
{
    const quant_kept *known = find_kept(b, x);
    if (known && known->turned[0] != NONE)
        return (quant_bufs){known->turned[0], known->turned[1], known->turned[2]};
    const matrix other = turned(*m);
    quant_copies c = {nothing, take_bufs(b, &other, e.E ? e.E : 1, NULL)};
    return quantise(b, SEG_BACKWARD, m, e, x, &c).turned;
}

/* ---- weights */

static int copy_part(builder *b, const quant_copy *c, int64_t at, int64_t elements, dtype type)
{
    if (!elements) return NONE;
    int id = seg_other(b, c->row->name, LIFE_COPY, 0);
    buf *made = &b->seg->bufs[id];
    made->type = type;
    made->bytes = dtype_bytes(type, elements);
    made->row = c->row;
    made->layer_step = c->layer_step;
    made->offset[0] = at;
    return id;
}

/* The buffers of both copies of a weight in this segment. */
static void take_copy(builder *b, quant_copy *c)
{
    const quant_plan *p = &b->quant;
    quant_info info = quant_info_of(p->form);
    quant_places z = quant_places_of(p, c->parts, c->n, c->k);
    matrix m = {c->row->name, c->parts, c->n, c->k, p->forward, info.square}, t = turned(m);
    c->buf[COPY_Q] = copy_part(b, c, z.q, codes_of(&m), p->forward);
    c->buf[COPY_S] = copy_part(b, c, z.s, scales_of(b, &m), info.scale);
    c->buf[COPY_G] = copy_part(b, c, z.g, info.factor ? c->parts : 0, DTYPE_F32);
    c->buf[COPY_QT] = copy_part(b, c, z.qt, codes_of(&t), p->forward);
    c->buf[COPY_ST] = copy_part(b, c, z.st, scales_of(b, &t), info.scale);
}

static const quant_copy *copy_of(builder *b, const gemm *p, int64_t parts)
{
    segment *seg = b->seg;
    const param *row = seg_row(b, p->weight);
    for (int i = 0; i < seg->n_copies; i++)
        if (seg->copies[i].row == row && seg->copies[i].layer_step == b->layer_step)
            return &seg->copies[i];
    ARENA_GROW(b->a, seg->copies, seg->n_copies, seg->copies_room);
    quant_copy *c = &seg->copies[seg->n_copies++];
    *c =
        (quant_copy){.row = row, .layer_step = b->layer_step, .parts = parts, .n = p->n, .k = p->k};
    take_copy(b, c);
    return c;
}

void build_copies(builder *b, segment *seg, const segment *of)
{
    segment_init(seg, b, SEGMENT_COPIES, b->s, b->a);
    seg->n_layers = of->n_layers;
    b->module = MODULE_LAYER;
    b->node = NODE_ATTN;
    for (int i = 0; i < of->n_copies; i++) {
        quant_copy c = of->copies[i];
        int x = seg_other(b, c.row->name, LIFE_WEIGHT, c.parts * c.n * c.k);
        buf *w = &seg->bufs[x];
        w->type = b->types.weight;
        w->bytes = dtype_bytes(w->type, c.parts * c.n * c.k);
        w->row = c.row;
        w->layer_step = c.layer_step;
        take_copy(b, &c);
        seg_op(b, SEG_FORWARD, OP_QUANTISE, c.row->name, IN(x, NONE),
               OUT(c.buf[COPY_Q], c.buf[COPY_S], c.buf[COPY_G], c.buf[COPY_QT], c.buf[COPY_ST]),
               DIM(c.parts, c.n, c.k, b->quant.form, b->quant.forward,
                   quant_info_of(b->quant.form).square));
    }
}

/* ---- GEMMs */

/* A GEMM to be built: of which kind, where. */
typedef struct built {
    int phase;
    op_kind kind;
    const gemm *p;
    expert_shape e;
    int64_t rows;
} built;

/* Sizes of a GEMM, and of one over experts. */
static op *plain(builder *b, const built *c, int left, int right, int to)
{
    const gemm *p = c->p;
    if (c->e.E)
        return seg_op(b, c->phase, c->kind, p->name, IN(left, right, c->e.offsets), OUT(to),
                      DIM(c->rows, c->e.E, p->n, p->k));
    return seg_op(b, c->phase, c->kind, p->name, IN(left, right), OUT(to),
                  DIM(c->rows, p->n, p->k));
}

static op *quantised(builder *b, const built *c, quant_bufs x, quant_bufs w, int to)
{
    const quant_plan *q = &b->quant;
    const gemm *p = c->p;
    dtype a = c->kind == OP_QGEMM || c->kind == OP_QGROUPED ? q->forward : q->gradient;
    if (c->e.E)
        return seg_op(b, c->phase, c->kind, p->name, IN(x.q, x.s, x.g, w.q, w.s, w.g, c->e.offsets),
                      OUT(to), DIM(c->rows, c->e.E, p->n, p->k, q->form, a, q->forward));
    return seg_op(b, c->phase, c->kind, p->name, IN(x.q, x.s, x.g, w.q, w.s, w.g), OUT(to),
                  DIM(c->rows, p->n, p->k, q->form, a, q->forward));
}

static matrix matrix_of(const gemm *p, int64_t rows, int64_t cols, dtype type)
{
    return (matrix){p->name, 1, rows, cols, type, false};
}

op *gemm_forward(builder *b, int phase, const gemm *p, expert_shape e, gemm_ends at)
{
    if (!takes(b, p))
        return plain(b, &(built){phase, e.E ? OP_GROUPED : OP_GEMM, p, e, at.rows}, at.x,
                     seg_weight(b, p->weight), at.y);
    const matrix m = matrix_of(p, at.rows, p->k, b->quant.forward);
    const quant_bufs x = input_row(b, phase, &m, e, at.x);
    const quant_copy *w = copy_of(b, p, e.E ? e.E : 1);
    return quantised(b, &(built){phase, e.E ? OP_QGROUPED : OP_QGEMM, p, e, at.rows}, x,
                     (quant_bufs){w->buf[COPY_Q], w->buf[COPY_S], w->buf[COPY_G]}, at.y);
}

gemm_dy gemm_gradient(builder *b, const gemm *p, expert_shape e, int64_t rows, int dy,
                      unsigned wanted)
{
    gemm_dy d = {dy, {nothing, nothing}};
    if (!takes(b, p)) return d;
    if (!b->quant.weights) wanted &= ~(unsigned)FOR_WEIGHT;
    if (!wanted) return d;
    const matrix m = matrix_of(p, rows, p->n, b->quant.gradient), t = turned(m);
    int64_t n = e.E ? e.E : 1;
    if (wanted & FOR_WEIGHT) d.copies.turned = take_bufs(b, &t, n, NULL);
    if (wanted & FOR_DATA) d.copies.row = take_bufs(b, &m, wanted & FOR_WEIGHT ? 0 : n, NULL);
    d.copies = quantise(b, SEG_BACKWARD, &m, e, dy, &d.copies);
    return d;
}

op *gemm_data(builder *b, const gemm *p, expert_shape e, int64_t rows, const gemm_dy *d, int dx)
{
    if (!takes(b, p))
        return plain(b, &(built){SEG_BACKWARD, e.E ? OP_GROUPED_D : OP_GEMM_D, p, e, rows}, d->dy,
                     seg_weight(b, p->weight), dx);
    const quant_copy *w = copy_of(b, p, e.E ? e.E : 1);
    return quantised(b, &(built){SEG_BACKWARD, e.E ? OP_QGROUPED_D : OP_QGEMM_D, p, e, rows},
                     d->copies.row, (quant_bufs){w->buf[COPY_QT], w->buf[COPY_ST], w->buf[COPY_G]},
                     dx);
}

op *gemm_weight(builder *b, const gemm *p, expert_shape e, int64_t rows, const gemm_dy *d, int x)
{
    int dw = seg_gradient(b, p->weight);
    if (!takes(b, p) || !b->quant.weights)
        return plain(b, &(built){SEG_BACKWARD, e.E ? OP_GROUPED_W : OP_GEMM_W, p, e, rows}, d->dy,
                     x, dw);
    const matrix m = matrix_of(p, rows, p->k, b->quant.forward);
    const quant_bufs turned_x = input_turned(b, &m, e, x);
    return quantised(b, &(built){SEG_BACKWARD, e.E ? OP_QGROUPED_W : OP_QGEMM_W, p, e, rows},
                     d->copies.turned, turned_x, dw);
}
