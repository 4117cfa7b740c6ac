/* moe.h - the parts of a layer of routed experts, and what they hand to one another.
 *
 * A dispatcher is a list of steps. Forward: tokens are packed for the wire, sent, placed by expert;
 * the experts' rows are lifted back into the order of arrival, sent in reply, joined into tokens.
 * Backward runs the gradient of each step from the last to the first. */
#ifndef IR_BUILD_MOE_H
#define IR_BUILD_MOE_H

#include "ir/build/build.h"
#include "ir/build/chunks.h"
#include "job/dispatcher.h"
#include "op/flex_group.h"
#include "ir/build/quant.h"

/* Rows, and what their weights travel in (or the gradients of both). */
typedef struct flow {
    int x, p;
} flow;

typedef flow moe_step(builder *b, moe_bufs *t, flow f);

/* Room for elements of a flow, in the format of those in `x`: hidden states, or the weights and
 * indices that travel beside them. */
static inline int flow_rows(builder *b, const char *name, int x, int64_t elements)
{
    return seg_temp_as(b, name, elements, b->seg->bufs[x].type);
}

/* A step that is NULL changes nothing. Forward begins with tokens [T][H] and weights [T][K];
 * `place` gives t->xp, t->pp, t->offsets; `join` gives [T][H] in x. Backward ends with gradients of
 * what forward began with. Each gives buffers of its own: they may be added to. */
typedef struct moe_steps {
    moe_step *pack, *send, *place, *lift, *reply, *join;
    moe_step *join_d, *reply_d, *lift_d, *place_d, *send_d, *pack_d;
} moe_steps;

/* Those of a dispatcher stand in its row of job/dispatchers.def. */
#define DISPATCHER(id, name, title, steps, ...) extern const moe_steps steps;
#include "job/dispatchers.def"
extern const moe_steps moe_local; /* all experts on this rank: nothing is sent */

const moe_steps *moe_steps_of(const builder *b);
bool moe_is_local(const builder *b);

/* ---- moe_room.c: rows that routed buffers are planned for */

int64_t local_experts(const builder *b); /* E / EP */

/* Rows an expert may have of one rank's tokens; 0: as many as come. */
int64_t moe_capacity(const builder *b);

/* Rows of this rank's tokens, one for each expert that they take: exact. */
int64_t room_of_pairs(const builder *b, const moe_bufs *t);

/* Rows of one rank's experts, of tokens of n ranks; exact where experts are padded. */
int64_t room_of_rows(const builder *b, const moe_bufs *t, int64_t n);

/* Rows of buffers that are sorted by expert: each expert's rows start at a multiple of
 * expert_align, so that no block of a quantised buffer has rows of two. */
int64_t room_of_experts(const builder *b, int64_t rows);

/* The members of a rank's flex dispatch, and the domains they lie in. */
flex_group flex_group_at(const setup *s, const rank_at *at);

/* Sizes of a flex dispatcher's rooms: room0, room1, room_send, room2. */
void flex_rooms(const builder *b, moe_bufs *t, const flex_group *g);

/* ---- moe_router.c */
void router_forward(builder *b, moe_bufs *t);
void router_backward(builder *b, const moe_bufs *t, flow d); /* d.x += */
unsigned router_flags(const job *j);

/* ---- moe_losses.c */
void router_losses(builder *b, const moe_bufs *t, int dlogits);

/* ---- moe_experts.c: t->xp, t->pp -> rows */
typedef struct expert_grads {
    int dy, du, dx, dp;
    gemm_dy dys, dus; /* as GEMMs take them */
} expert_grads;

/* What the first GEMM reads, of so many elements. */
int experts_input(builder *b, int64_t elements);
int experts_forward(builder *b, moe_bufs *t);
/* `late`: without gradients of weights, which experts_weights then adds. */
expert_grads experts_backward(builder *b, const moe_bufs *t, int dy, bool late);
void experts_weights(builder *b, const moe_bufs *t, const expert_grads *g);

/* ---- moe_shared.c: in two halves, before and behind its second GEMM */
void shared_forward_first(builder *b, moe_bufs *t);
int shared_forward_second(builder *b, moe_bufs *t);        /* [T][H] */
void shared_forward_add(builder *b, moe_bufs *t, int out); /* the second half, added to out */

typedef struct shared_grads {
    int du, dg;
} shared_grads;

shared_grads shared_backward_second(builder *b, const moe_bufs *t, int dh);
/* dx [T][H] = or += the gradient by the norm's output; the gate's part alone always +=. */
void shared_backward_first(builder *b, const moe_bufs *t, const shared_grads *g, int dx, bool add);
void shared_backward_gate(builder *b, const moe_bufs *t, const shared_grads *g, int dx);

#endif
