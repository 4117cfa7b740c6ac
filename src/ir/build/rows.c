/* rows.c - what works on rows of tokens: norms, and activations of MLPs.
 *
 * The five families that came first have RMSNorm and SwiGLU; their operations have fast kernels.
 * LayerNorm and every other activation have kinds of their own. */
#include <string.h>

#include "ir/build/build.h"

/* ---- norms */

/* A norm's bias has the name of its weight, with another end. */
static const char *bias_of(const builder *b, const char *weight)
{
    size_t n = strlen(weight) - strlen("weight");
    return arena_text(b->a, "%.*sbias", (int)n, weight);
}

static norm_bufs norm_with(builder *b, const norm_shape *z, int x, int y, double eps)
{
    const char *weight = z->weight;
    const int64_t rows = z->rows, width = z->width;
    bool centred = b->s->m.norm_bias;
    norm_bufs n = {.x = x,
                   .rows = rows,
                   .width = width,
                   .y = y,
                   .rstd = seg_saved_as(b, centred ? "mean and rstd" : "rstd",
                                        centred ? 2 * rows : rows, 0, DTYPE_F32),
                   .w = seg_weight(b, weight),
                   .dw = seg_gradient(b, weight),
                   .db = centred ? seg_gradient(b, bias_of(b, weight)) : NONE,
                   .flags = b->s->m.zero_centered ? ZERO_CENTRED : 0};
    int bias = centred ? seg_weight(b, bias_of(b, weight)) : NONE;
    op *o = seg_op(b, SEG_FORWARD, centred ? OP_LAYER_NORM : OP_NORM, z->name, IN(x, n.w, bias),
                   OUT(n.y, n.rstd), DIM(rows, width));
    o->real[REAL_NORM_eps] = eps;
    o->flags = n.flags;
    return n;
}

norm_bufs norm_into(builder *b, const norm_shape *z, int x, int y)
{
    return norm_with(b, z, x, y, b->s->j.norm_eps);
}

static int normed(builder *b, const norm_shape *z, unsigned drop)
{
    int64_t n = z->rows * z->width;
    return drop & NOT_SAVED ? seg_temp(b, z->name, n) : seg_saved(b, z->name, n, drop);
}

norm_bufs norm_forward(builder *b, const norm_shape *z, int x, unsigned drop)
{
    return norm_into(b, z, x, normed(b, z, drop));
}

norm_bufs norm_of_latent(builder *b, const norm_shape *z, int x, unsigned drop)
{
    const job *j = &b->s->j;
    double eps = job_has(j, K_LATENT_EPS) ? j->latent_eps : j->norm_eps;
    return norm_with(b, z, x, normed(b, z, drop), eps);
}

void norm_backward(builder *b, const norm_bufs *n, int dy, int dx, bool add)
{
    bool centred = n->db != NONE;
    seg_op(b, SEG_BACKWARD, centred ? OP_LAYER_NORM_W : OP_NORM_W, "norm", IN(dy, n->x, n->rstd),
           OUT(n->dw, n->db), DIM(n->rows, n->width));
    op *o = seg_op(b, SEG_BACKWARD, centred ? OP_LAYER_NORM_D : OP_NORM_D, "norm",
                   IN(dy, n->x, n->w, n->rstd), OUT(dx), DIM(n->rows, n->width));
    o->flags = n->flags | (add ? ACCUMULATE : 0);
}

/* ---- rows cut over TP */

/* Everybody's sums over rows of a * b (* w): [TP][rows]. */
static int sums_of_all(builder *b, int phase, const int *in, const norm_bufs *n)
{
    int own = seg_temp_as(b, "sums", n->rows, DTYPE_F32);
    int all = seg_temp_as(b, "sums of all", b->s->lay.tp * n->rows, DTYPE_F32);
    seg_op(b, phase, OP_ROW_DOTS, "norm", in, OUT(own), DIM(n->rows, n->width))->flags = n->flags;
    seg_comm(b, phase, OP_ALL_GATHER, "norm", GROUP_TP, IN(own), OUT(all), DIM(n->rows));
    return all;
}

norm_bufs norm_cut_forward(builder *b, const norm_shape *z, int x, unsigned drop)
{
    const char *name = z->name, *weight = z->weight;
    const int64_t rows = z->rows, width = z->width;
    norm_bufs n = {.x = x,
                   .rows = rows,
                   .width = width,
                   .y = drop & NOT_SAVED ? seg_temp(b, name, rows * width)
                                         : seg_saved(b, name, rows * width, drop),
                   .rstd = seg_saved_as(b, "rstd", rows, 0, DTYPE_F32),
                   .w = seg_weight(b, weight),
                   .dw = seg_gradient(b, weight),
                   .db = NONE,
                   .flags = b->s->m.zero_centered ? ZERO_CENTRED : 0};
    int all = sums_of_all(b, SEG_FORWARD, IN(x, x), &n);
    op *o = seg_op(b, SEG_FORWARD, OP_NORM_PART, name, IN(x, n.w, all), OUT(n.y, n.rstd),
                   DIM(rows, width, b->s->lay.tp));
    o->real[REAL_NORM_PART_eps] = b->s->j.norm_eps;
    o->flags = n.flags;
    return n;
}

void norm_cut_backward(builder *b, const norm_bufs *n, int dy, int dx)
{
    int all = sums_of_all(b, SEG_BACKWARD, IN(dy, n->x, n->w), n);
    seg_op(b, SEG_BACKWARD, OP_NORM_W, "norm", IN(dy, n->x, n->rstd), OUT(n->dw),
           DIM(n->rows, n->width));
    seg_op(b, SEG_BACKWARD, OP_NORM_PART_D, "norm", IN(dy, n->x, n->w, n->rstd, all), OUT(dx),
           DIM(n->rows, n->width, b->s->lay.tp))
        ->flags = n->flags;
}

/* ---- activations */

static act_kind kind_of(const job *j)
{
    static const act_kind kinds[] = {[J_ACTIVATION_SILU] = ACT_SILU,
                                     [J_ACTIVATION_GELU] = ACT_GELU,
                                     [J_ACTIVATION_FAST_GELU] = ACT_FAST_GELU,
                                     [J_ACTIVATION_QUICK_GELU] = ACT_QUICK_GELU,
                                     [J_ACTIVATION_SQUARED_RELU] = ACT_SQUARED_RELU,
                                     [J_ACTIVATION_OTHER] = ACT_SILU};
    return j->activation ? kinds[j->activation] : ACT_SILU;
}

/* SwiGLU, or gpt-oss's. */
static bool is_fast(const builder *b, unsigned *flags)
{
    const job *j = &b->s->j;
    bool clamped = job_has(j, K_GLU_CLAMP);
    *flags = clamped ? CLAMPED : 0;
    if (!b->s->m.glu) return false;
    if (clamped) return kind_of(j) == ACT_QUICK_GELU && j->glu_clamp == 7 && j->glu_offset == 1;
    return kind_of(j) == ACT_SILU && j->glu_offset == 0;
}

int64_t act_columns(const builder *b)
{
    return b->s->m.glu ? 2 : 1;
}

static void act_op(builder *b, int phase, const char *name, const int *in, const int *out,
                   const int64_t *dim)
{
    const job *j = &b->s->j;
    unsigned flags;
    bool fast = is_fast(b, &flags), back = phase == SEG_BACKWARD;
    op_kind as = back ? OP_ACT_AS_D : OP_ACT_AS, usual = back ? OP_ACT_D : OP_ACT;
    op *o = seg_op(b, phase, fast ? usual : as, name, in, out, dim);
    if (fast) {
        o->flags = flags;
        return;
    }
    o->dim[DIM_ACT_AS_GATED] = b->s->m.glu;
    o->dim[DIM_ACT_AS_KIND] = kind_of(j);
    o->real[REAL_ACT_AS_offset] = j->glu_offset;
    o->real[REAL_ACT_AS_clamp] = j->glu_clamp;
}

void act_forward(builder *b, const char *name, const int *in, const int *out, int64_t rows,
                 int64_t width)
{
    act_op(b, SEG_FORWARD, name, in, out, DIM(rows, width));
}

void act_backward(builder *b, const char *name, const int *in, const int *out, int64_t rows,
                  int64_t width)
{
    act_op(b, SEG_BACKWARD, name, in, out, DIM(rows, width));
}
