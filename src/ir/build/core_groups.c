/* core_groups.c - core attention by groups of key/value heads, each with the queries it serves.
 *
 * Heads do not know of each other, so groups one after another give what all at once give. A
 * group's queries, keys and values are copied together, and its output and gradients back to their
 * columns: a kernel sees tensors as short as the group, and its workspace is a group's.
 *
 * I1  Groups are whole: a key/value head is in one group, so no gradient of keys is a sum over
 *     groups.
 * I2  The log-sum-exp, which attention alone reads, is kept by group: [groups][B*S][n].
 * I3  Kernels of libraries count elements in 32 bits: no tensor of a group has 2^31 of them. */
#include "ir/build/attention.h"

static const int64_t ELEMENTS_MOST = (int64_t)1 << 31;

/* As few as keep I3; with more key/value heads than that takes, all are by themselves. */
static int64_t fewest(const builder *b, const core_bufs *c)
{
    int64_t widest = c->d > c->dv ? c->d : c->dv, all = b->B * c->S * c->n * widest;
    int64_t n = 1;
    while (n < c->g && (c->g % n || all / n >= ELEMENTS_MOST)) n++;
    return n;
}

int64_t core_group_count(const builder *b, const core_bufs *c)
{
    const job *j = &b->s->j;
    if (c->members > 1 || !job_is_ours(j)) return 1;
    if (!job_has(j, K_HEAD_GROUPS)) return fewest(b, c);
    int64_t n = j->head_groups;
    return c->g % n == 0 ? n : 1; /* a rule refuses others */
}

/* ---- columns of a group */

typedef struct group {
    int64_t T, n, g; /* tokens; heads of one group */
    int64_t groups, i;
} group;

static group group_at(const builder *b, const core_bufs *c, int64_t groups, int64_t i)
{
    return (group){b->B * c->S, c->n / groups, c->g / groups, groups, i};
}

/* Columns of the group in x [T][groups * width], as a buffer of their own. */
static int taken(builder *b, int phase, const group *z, int x, int64_t width)
{
    int y = seg_temp(b, "group of heads", z->T * width);
    seg_op(b, phase, OP_MOVE, "attention.group", IN(x), OUT(y),
           DIM(1, 1, z->T, width, 0, 0, z->groups * width, z->i * width, 0, 0, width, 0));
    return y;
}

/* And back. */
static void given(builder *b, int phase, const group *z, int y, int x, int64_t width)
{
    seg_op(b, phase, OP_MOVE, "attention.group", IN(y), OUT(x),
           DIM(1, 1, z->T, width, 0, 0, width, 0, 0, 0, z->groups * width, z->i * width));
}

static core_bufs heads_of(builder *b, int phase, const core_bufs *c, const group *z)
{
    core_bufs part = *c;
    part.n = z->n;
    part.g = z->g;
    part.q = taken(b, phase, z, c->q, z->n * c->d);
    part.k = taken(b, phase, z, c->k, z->g * c->d);
    part.v = taken(b, phase, z, c->v, z->g * c->dv);
    part.lse = seg_view(b, c->lse, z->i * z->T * z->n, z->T * z->n); /* I2 */
    return part;
}

/* ---- sinks: a copy, of which each group has a part */

static int sinks_of(builder *b, int phase, const core_bufs *c)
{
    int all = core_sinks(b, phase, c);
    if (all == NONE) return NONE;
    int copy = seg_temp_as(b, "sinks", c->n, b->seg->bufs[all].type);
    move_flat(b, phase, "attention.sinks", (slice){all, 0}, (slice){copy, 0}, c->n);
    return copy;
}

static int part_of(builder *b, const group *z, int sinks)
{
    return sinks == NONE ? NONE : seg_view(b, sinks, z->i * z->n, z->n);
}

static int zeros_for(builder *b, const core_bufs *c, int sinks)
{
    if (sinks == NONE) return NONE;
    int sums = seg_temp_as(b, "dsinks", c->n, b->types.gradient);
    seg_op(b, SEG_BACKWARD, OP_ZERO, "attention.sinks", NULL, OUT(sums), DIM(c->n));
    return sums;
}

static void add_sinks(builder *b, const core_bufs *c, int sums)
{
    if (sums == NONE) return;
    int all = core_sinks_gradient(b, c);
    op *o = move_flat(b, SEG_BACKWARD, "attention.sinks", (slice){sums, 0}, (slice){all, 0}, c->n);
    o->flags = ACCUMULATE;
    o->phase = PHASE_WGRAD;
    core_sinks_give(b, c, all);
}

/* ---- all groups */

void groups_forward(builder *b, const core_bufs *c, int64_t groups)
{
    int sinks = sinks_of(b, SEG_FORWARD, c);
    for (int64_t i = 0; i < groups; i++) {
        group z = group_at(b, c, groups, i);
        core_bufs part = heads_of(b, SEG_FORWARD, c, &z);
        int o = seg_temp(b, "group of heads", z.T * z.n * c->dv);
        core_whole(b, SEG_FORWARD, &part, IN(part.q, part.k, part.v, part_of(b, &z, sinks)),
                   OUT(o, part.lse));
        given(b, SEG_FORWARD, &z, o, c->o, z.n * c->dv);
    }
}

static void group_backward(builder *b, const core_bufs *c, const group *z, const int *dout_sinks,
                           qkv_set d)
{
    int64_t n = z->n, g = z->g;
    core_bufs part = heads_of(b, SEG_BACKWARD, c, z);
    int o = taken(b, SEG_BACKWARD, z, c->o, n * c->dv);
    int dout = taken(b, SEG_BACKWARD, z, dout_sinks[0], n * c->dv);
    qkv_set x = {seg_temp(b, "dq of a group", z->T * n * c->d),
                 seg_temp(b, "dk of a group", z->T * g * c->d),
                 seg_temp(b, "dv of a group", z->T * g * c->dv)};
    core_whole(b, SEG_BACKWARD, &part,
               IN(dout, part.q, part.k, part.v, o, part.lse, part_of(b, z, dout_sinks[1])),
               OUT(x.q, x.k, x.v, part_of(b, z, dout_sinks[2])));
    given(b, SEG_BACKWARD, z, x.q, d.q, n * c->d);
    given(b, SEG_BACKWARD, z, x.k, d.k, g * c->d);
    given(b, SEG_BACKWARD, z, x.v, d.v, g * c->dv);
}

qkv_set groups_backward(builder *b, const core_bufs *c, int64_t groups, int dout)
{
    int64_t T = b->B * c->S;
    qkv_set d = {seg_temp(b, "dq", T * c->n * c->d), seg_temp(b, "dk", T * c->g * c->d),
                 seg_temp(b, "dv", T * c->g * c->dv)};
    int sinks = sinks_of(b, SEG_BACKWARD, c), sums = zeros_for(b, c, sinks);
    for (int64_t i = 0; i < groups; i++) {
        group z = group_at(b, c, groups, i);
        group_backward(b, c, &z, IN(dout, sinks, sums), d);
    }
    add_sinks(b, c, sums);
    return d;
}
