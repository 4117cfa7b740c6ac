/* offload.c - copies saved activations to the host after forward and back before backward.
 *
 * A buffer is offloaded if its module is named, it is large enough, and recompute has not dropped
 * it. It is copied out after its last use in forward, and back before its first use in backward; on
 * the device it is a temporary of both phases. Copies run on two streams of their own, one per
 * direction. Waits for them are derived like those for messages.
 *
 * I1  The buffers of one module of one layer are a group. A group is copied back when the group
 *     before it is first used, and the first group when the list begins, so at most two groups are
 *     on the device at once.
 * I2  The segment's input is written by the segment before it, so it cannot be a temporary of
 *     forward. It is passed on in a buffer that the next layers reuse (LIFE_HIDDEN_IN_FLIGHT), and
 *     backward has its own temporary for it. */
#include "ir/memory/offload.h"

#include <string.h>

static const struct {
    const char *name;
    int word;
    unsigned bit;
} names[] = {
    {"core_attn", J_OFFLOAD_MODULES_CORE_ATTN, OFF_CORE_ATTN},
    {"attn_proj", J_OFFLOAD_MODULES_ATTN_PROJ, OFF_ATTN_PROJ},
    {"expert_fc1", J_OFFLOAD_MODULES_EXPERT_FC1, OFF_EXPERT_FC1},
    {"fused_group_mlp", J_OFFLOAD_MODULES_FUSED_GROUP_MLP, OFF_FUSED},
    {"moe_act", J_OFFLOAD_MODULES_MOE_ACT, OFF_MOE_ACT},
    {"attn_norm", J_OFFLOAD_MODULES_ATTN_NORM, OFF_ATTN_NORM},
    {"mlp_norm", J_OFFLOAD_MODULES_MLP_NORM, OFF_MLP_NORM},
    {"qkv_linear", J_OFFLOAD_MODULES_QKV_LINEAR, OFF_QKV},
};
enum { NAMES = sizeof names / sizeof names[0] };

offload_options offload_options_of(const job *j)
{
    offload_options o = {.least = j->offload_min};
    for (int i = 0; i < NAMES && j->offload; i++)
        if (job_lists(j->offload_modules, names[i].word)) o.names |= names[i].bit;
    if (j->offload_fraction <= 0) o.names = 0;
    return o;
}

bool offload_takes(const offload_options *o, const buf *b)
{
    return b->life == LIFE_SAVED && b->parent < 0 && (b->offload & o->names) &&
           dtype_elements(b->type, b->bytes) >= o->least;
}

bool offload_takes_input(const setup *s, int64_t layer, int64_t T)
{
    offload_options o = offload_options_of(&s->j);
    return (offload_of_input(&s->m, layer) & o.names) && T * s->m.hidden >= o.least;
}

typedef struct moved {
    int id, host; /* on the device, on the host */
    int back;     /* what it is in backward: id, or a temporary of its own (I2) */
    int name;     /* of names[] */
    int last, first;
    int issue; /* before which operation of backward it is copied */
} moved;

typedef struct offload {
    segment *seg;
    arena *a;
    moved *list;
    int n;
} offload;

/* ---- buffers */

static int add_buf(segment *seg, buf made, life l)
{
    made.life = l;
    made.offset[0] = made.offset[1] = -1;
    made.offload = 0;
    seg->bufs[seg->n_bufs] = made;
    return seg->n_bufs++;
}

static int name_of(const offload_options *o, const buf *b)
{
    int i = 0;
    while (i < NAMES - 1 && !(names[i].bit & o->names & b->offload)) i++;
    return i;
}

static void find_moved(offload *f, const offload_options *o)
{
    segment *seg = f->seg;
    int n = seg->n_bufs, taken = 0;
    for (int id = 0; id < n; id++) taken += offload_takes(o, &seg->bufs[id]);
    if (!taken) return;
    buf *larger = ARENA_ARRAY(f->a, buf, n + taken + 1);
    memcpy(larger, seg->bufs, sizeof *larger * (size_t)n);
    seg->bufs = larger;
    seg->bufs_room = n + taken + 1;
    f->list = ARENA_ARRAY(f->a, moved, taken);
    for (int id = 0; id < n; id++) {
        buf *b = &seg->bufs[id];
        if (!offload_takes(o, b)) continue;
        moved m = {.id = id, .back = id, .name = name_of(o, b), .last = -1, .first = -1};
        m.host = add_buf(seg, *b, LIFE_HOST);
        if (id == 0) m.back = add_buf(seg, *b, LIFE_TEMP); /* I2 */
        seg->bufs[id].life = id == 0 ? LIFE_HIDDEN_IN_FLIGHT : LIFE_TEMP;
        f->list[f->n++] = m;
    }
}

static bool uses(const segment *seg, const op *o, int id)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (seg_root(seg, o->in[i]) == id) return true;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (seg_root(seg, o->out[i]) == id) return true;
    return false;
}

static void find_uses(offload *f)
{
    const segment *seg = f->seg;
    for (int k = 0; k < f->n; k++) {
        moved *m = &f->list[k];
        for (int i = 0; i < seg->n_ops[SEG_FORWARD]; i++)
            if (uses(seg, &seg->ops[SEG_FORWARD][i], m->id)) m->last = i;
        for (int i = seg->n_ops[SEG_BACKWARD] - 1; i >= 0; i--)
            if (uses(seg, &seg->ops[SEG_BACKWARD][i], m->id)) m->first = i;
    }
}

/* Where the group of a name is first used in backward; -1: nowhere. */
static int first_of(const offload *f, int name)
{
    int first = -1;
    for (int k = 0; k < f->n; k++) {
        const moved *m = &f->list[k];
        if (m->name == name && m->first >= 0 && (first < 0 || m->first < first)) first = m->first;
    }
    return first;
}

static void find_issues(offload *f) /* I1 */
{
    for (int k = 0; k < f->n; k++) {
        int own = first_of(f, f->list[k].name);
        for (int i = 0; i < NAMES; i++) {
            int other = first_of(f, i);
            if (other >= 0 && other < own && other > f->list[k].issue) f->list[k].issue = other;
        }
    }
}

/* ---- lists */

static op *put(segment *seg, int phase, op o)
{
    seg->ops[phase][seg->n_ops[phase]] = o;
    return &seg->ops[phase][seg->n_ops[phase]++];
}

static void put_copy(offload *f, int phase, const moved *m, op_node node)
{
    const buf *b = &f->seg->bufs[m->id];
    bool out = phase == SEG_FORWARD;
    op *o = put(f->seg, phase,
                (op){.kind = out ? OP_COPY_OUT : OP_COPY_IN,
                     .phase = out ? PHASE_FORWARD : PHASE_BACKWARD,
                     .stream = out ? STREAM_COPY : STREAM_COPY_BACK,
                     .node = node,
                     .name = names[m->name].name,
                     .module = b->module,
                     .type = b->type});
    for (int i = 0; i < OP_IN_MAX; i++) o->in[i] = NONE;
    for (int i = 0; i < OP_OUT_MAX; i++) o->out[i] = NONE;
    if (out)
        o->in[IN_COPY_OUT_x] = m->id, o->out[OUT_COPY_OUT_host] = m->host;
    else
        o->in[IN_COPY_IN_host] = m->host, o->out[OUT_COPY_IN_x] = m->back;
    o->dim[DIM_COPY_OUT_N] = dtype_elements(b->type, b->bytes);
    o->dim[DIM_COPY_OUT_GROUP] = m->name;
}

static void begin_list(offload *f, int phase, const op **old, int *n)
{
    segment *seg = f->seg;
    *old = seg->ops[phase];
    *n = seg->n_ops[phase];
    seg->ops_room[phase] = *n + f->n + 1;
    seg->ops[phase] = ARENA_ARRAY(f->a, op, seg->ops_room[phase]);
    seg->n_ops[phase] = 0;
}

static void list_forward(offload *f)
{
    const op *old;
    int n;
    begin_list(f, SEG_FORWARD, &old, &n);
    for (int i = 0; i < n; i++) {
        put(f->seg, SEG_FORWARD, old[i]);
        for (int k = 0; k < f->n; k++)
            if (f->list[k].last == i && f->list[k].first >= 0)
                put_copy(f, SEG_FORWARD, &f->list[k], old[i].node);
    }
}

/* Copies of one place stand in the order of their first use. */
static void put_issued(offload *f, int at, op_node node)
{
    for (int after = -1;;) {
        int next = -1;
        for (int k = 0; k < f->n; k++) {
            int first = f->list[k].first;
            if (f->list[k].issue != at || first <= after) continue;
            if (next < 0 || first < next) next = first;
        }
        if (next < 0) return;
        for (int k = 0; k < f->n; k++)
            if (f->list[k].issue == at && f->list[k].first == next)
                put_copy(f, SEG_BACKWARD, &f->list[k], node);
        after = next;
    }
}

static void rename_input(op *o, int from, int to)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] == from) o->in[i] = to;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] == from) o->out[i] = to;
}

static void list_backward(offload *f)
{
    const op *old;
    int n;
    begin_list(f, SEG_BACKWARD, &old, &n);
    for (int i = 0; i < n; i++) {
        put_issued(f, i, old[i].node);
        op *o = put(f->seg, SEG_BACKWARD, old[i]);
        if (f->list[0].id == 0) rename_input(o, 0, f->list[0].back); /* I2 */
    }
}

void segment_offload(segment *seg, const offload_options *o, arena *a)
{
    offload f = {.seg = seg, .a = a};
    if (o->names) find_moved(&f, o);
    if (!f.n) return;
    find_uses(&f);
    find_issues(&f);
    list_forward(&f);
    list_backward(&f);
}
