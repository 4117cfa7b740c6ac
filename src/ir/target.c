/* target.c - the rows of targets, and the workspace of an operation. */
#include "ir/target.h"

#include "base/maths.h"
#include "op/fused.h"

static const target_row rows[] = {
    {.name = "cpu",
     .widens = true,
     .writes_first = true,
     .wide_blocks = true,
     .can_fuse = FUSE_ALL,
     .logits_bytes = 8 << 20},
    {.name = "cuda-sm90",
     .writes_first = true,
     .wide_blocks = true,
     .can_fuse = FUSE_ALL,
     .fusions = FUSE_QKV | FUSE_ADD_NORM | FUSE_ACT_QUANT | FUSE_PERMUTE_QUANT,
     .logits_rows = 4096,
     .logits = DTYPE_BF16,
     .room = target_cuda_room},
    {.name = "megatron", .logits_bytes = 8 << 20},
};
enum { ROW_CPU, ROW_CUDA_SM90, ROW_MEGATRON };

const target_row *target_row_of(const setup *s)
{
    if (job_on_cpu(&s->j)) return target_row_cpu();
    return &rows[job_is_ours(&s->j) ? ROW_CUDA_SM90 : ROW_MEGATRON];
}

const target_row *target_row_cpu(void)
{
    return &rows[ROW_CPU];
}

const target_row *target_row_cuda(void)
{
    return &rows[ROW_CUDA_SM90];
}

int64_t target_logits_rows(const target_row *t, int64_t V, int64_t tokens)
{
    enum { LEAST = 16 };
    int64_t n = t->logits_rows > 0 ? t->logits_rows : t->logits_bytes / 4 / V;
    if (n < LEAST) n = LEAST;
    return n < tokens ? n : tokens;
}

static bool is_narrow(dtype t)
{
    return t == DTYPE_BF16 || t == DTYPE_F16;
}

typedef struct parts {
    workspace_part *list;
    int n;
    int64_t end;
} parts;

static void add(parts *p, int64_t bytes, int in, int out)
{
    int64_t at = round_up(p->end, WORKSPACE_ALIGN);
    p->list[p->n++] = (workspace_part){at, bytes, in, out};
    p->end = at + bytes;
}

static int output_of(const op *o, int id)
{
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] == id) return i;
    return -1;
}

static bool is_input(const op *o, int id)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] == id) return true;
    return false;
}

static void add_copy(parts *p, const segment *seg, int id, int in, int out)
{
    const buf *b = &seg->bufs[id];
    if (is_narrow(b->type))
        add(p, dtype_bytes(DTYPE_F32, dtype_elements(b->type, b->bytes)), in, out);
}

static void add_copies(parts *p, const segment *seg, const op *o)
{
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] >= 0) add_copy(p, seg, o->in[i], i, output_of(o, o->in[i]));
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] >= 0 && !is_input(o, o->out[i])) add_copy(p, seg, o->out[i], -1, i);
}

int workspace_parts(workspace_part out[WORKSPACE_PARTS], const target_row *t, const segment *seg,
                    const op *o)
{
    parts p = {.list = out};
    if (t->room) {
        const op_types types = seg_op_types(seg, o);
        const int64_t bytes = t->room(o, &types);
        if (bytes > 0) add(&p, bytes, -1, -1);
        return p.n;
    }
    const int64_t own = t->widens || !op_is_quantised(o->kind) ? op_cpu_room(o) : 0;
    if (own > 0) add(&p, own, -1, -1);
    if (t->widens && !op_is_comm(o->kind) && !op_is_typed(o->kind)) add_copies(&p, seg, o);
    return p.n;
}

int64_t workspace_bytes(const target_row *t, const segment *seg, const op *o)
{
    workspace_part list[WORKSPACE_PARTS];
    int n = workspace_parts(list, t, seg, o);
    return n ? list[n - 1].at + list[n - 1].bytes : 0;
}
