/* heads.c - from some tokens of all heads to all tokens of some heads, and back.
 *
 * Members of the group hold tokens in zigzag halves. Everything goes in one all-to-all: for each
 * peer a block [B*S][width] of rows that join all parts. On the side of heads tokens are in the
 * order of the sequence (of the group's stretch of it): the first half of member i is its piece i,
 * the second half its piece 2P-1-i.
 *
 * Weights of heads exist for all heads of the TP rank: the part that is used is copied. The others'
 * parts of the gradient stay as they are here; the sum over all replicas makes it whole. */
#include "ir/build/attention.h"

static int64_t row_width(const head_swap *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++) sum += s->list[i].width;
    return sum;
}

/* `tokens` <-> blocks [P][B*S][row]. */
static void token_side(builder *b, int phase, const head_swap *s, int blocks, bool pack)
{
    int64_t P = seg_width(b, s->group), row = row_width(s), at = 0;
    for (int i = 0; i < s->n; i++) {
        const head_part *p = &s->list[i];
        if (pack)
            seg_op(b, phase, OP_MOVE, s->name, IN(p->tokens), OUT(blocks),
                   DIM(P, 1, b->Tc, p->width, p->width, 0, p->token_row, p->token_at, b->Tc * row,
                       0, row, at));
        else
            seg_op(b, phase, OP_MOVE, s->name, IN(blocks), OUT(p->tokens),
                   DIM(P, 1, b->Tc, p->width, b->Tc * row, 0, row, at, p->width, 0, p->token_row,
                       p->token_at));
        at += p->width;
    }
}

/* Blocks [P][B][S][row] <-> one half of everybody's tokens in `heads`. */
typedef struct half_move {
    const head_part *p;
    slice blocks;
    int half;
    bool pack; /* heads to blocks; else blocks to heads */
} half_move;

static void one_half(builder *b, int phase, const head_swap *s, const half_move *m)
{
    const head_part *p = m->p;
    const slice blocks = m->blocks;
    const int half = m->half;
    int64_t P = seg_width(b, s->group), row = row_width(s), run = b->S / 2;
    int64_t x[4] = {b->Tc * row, b->S * row, row, blocks.at + half * run * row};
    int64_t y[4] = {(half ? -run : run) * p->head_row, P * b->S * p->head_row, p->head_row,
                    p->head_at + (half ? (P * b->S - run) * p->head_row : 0)};
    if (m->pack)
        seg_op(b, phase, OP_MOVE, s->name, IN(p->heads), OUT(blocks.buf),
               DIM(P, b->B, run, p->width, y[0], y[1], y[2], y[3], x[0], x[1], x[2], x[3]));
    else
        seg_op(b, phase, OP_MOVE, s->name, IN(blocks.buf), OUT(p->heads),
               DIM(P, b->B, run, p->width, x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]));
}

static void head_side(builder *b, int phase, const head_swap *s, int blocks, bool pack)
{
    int64_t at = 0;
    for (int i = 0; i < s->n; i++) {
        for (int half = 0; half < 2; half++)
            one_half(b, phase, s, &(half_move){&s->list[i], {blocks, at}, half, pack});
        at += s->list[i].width;
    }
}

static int swap_blocks(builder *b, int phase, const head_swap *s, int sent)
{
    int64_t P = seg_width(b, s->group), block = b->Tc * row_width(s);
    int came = seg_temp(b, s->name, P * block);
    seg_comm(b, phase, OP_ALL_TO_ALL, s->name, s->group, IN(sent), OUT(came), DIM(block));
    return came;
}

void tokens_to_heads(builder *b, int phase, const head_swap *s)
{
    int sent = seg_temp(b, s->name, seg_width(b, s->group) * b->Tc * row_width(s));
    token_side(b, phase, s, sent, true);
    head_side(b, phase, s, swap_blocks(b, phase, s, sent), false);
}

void heads_to_tokens(builder *b, int phase, const head_swap *s)
{
    int sent = seg_temp(b, s->name, seg_width(b, s->group) * b->Tc * row_width(s));
    head_side(b, phase, s, sent, true);
    token_side(b, phase, s, swap_blocks(b, phase, s, sent), false);
}

/* ---- weights of heads */

static bool is_whole(const builder *b, const weight_part *w)
{
    return w->group == GROUP_NONE || seg_width(b, w->group) == 1;
}

static int64_t part_width(const weight_part *w)
{
    return w->width[0] + w->width[1] + w->width[2];
}

int part_take(builder *b, int phase, const weight_part *w)
{
    int whole = seg_weight(b, w->name);
    if (is_whole(b, w)) return whole;
    int part = seg_temp(b, w->name, part_width(w));
    int64_t P = seg_width(b, w->group), place = seg_group_rank(b, w->group), at = 0;
    for (int i = 0; i < 3 && w->width[i]; at += w->width[i++])
        move_flat(b, phase, w->name, (slice){whole, at * P + place * w->width[i]},
                  (slice){part, at}, w->width[i]);
    return part;
}

int part_gradient(builder *b, const weight_part *w)
{
    if (is_whole(b, w)) return seg_gradient(b, w->name);
    int part = seg_temp_as(b, w->name, part_width(w), b->types.gradient);
    seg_op(b, SEG_BACKWARD, OP_ZERO, w->name, NULL, OUT(part), DIM(part_width(w)));
    return part;
}

void part_give(builder *b, const weight_part *w, int dw)
{
    if (is_whole(b, w)) return;
    int whole = seg_gradient(b, w->name);
    int64_t P = seg_width(b, w->group), place = seg_group_rank(b, w->group), at = 0;
    for (int i = 0; i < 3 && w->width[i]; at += w->width[i++]) {
        op *o = move_flat(b, SEG_BACKWARD, w->name, (slice){dw, at},
                          (slice){whole, at * P + place * w->width[i]}, w->width[i]);
        o->flags = ACCUMULATE;
        o->phase = PHASE_WGRAD;
    }
}
