/* shape.c - sizes of a step that follow from its setup alone. */
#include "ir/shape.h"

#include "base/maths.h"
#include "ir/rope.h"
#include "layout/stage_parts.h"
#include "op/update.h"

/* With virtual stages messages go round all ranks: with one buffer each would wait for the next.
 * Where more microbatches than stages follow one another in a chunk, what the last rank sends is
 * taken up only after the rest of the group; until then it waits in buffers of the sender. */
static int turns_of(const setup *s, bool posts_early)
{
    if (s->pipe.pp == 1) return 1;
    if (s->pipe.vpp == 1) return posts_early ? 2 : 1;
    const job *j = &s->j;
    int64_t micros = j->gbs / (j->mbs * s->lay.dp);
    int64_t group = job_has(j, K_GROUP_SIZE) ? j->group_size : s->pipe.pp;
    int64_t more = (group < micros ? group : micros) - s->pipe.pp;
    return 2 + (int)(more > 0 ? more : 0);
}

step_shape step_shape_of(const setup *s)
{
    const job *j = &s->j;
    step_shape z = {.seq = j->seq,
                    .B = j->mbs,
                    .types = number_types_of(&s->j),
                    .posts_early = s->pipe.pp > 1 && j->overlap_p2p,
                    .overlaps_reduction = j->grad_overlap};
    z.gathers_late = z.types.moments && j->param_overlap && j->dist_opt;
    z.S = z.seq / s->lay.cp;
    z.Tc = z.B * z.S;
    z.T = z.Tc / s->lay.tp;
    z.micros = j->gbs / (z.B * s->lay.dp);
    z.ring_depth = turns_of(s, z.posts_early);
    return z;
}

builder builder_of(const setup *s, const step_shape *z, rank_at at, arena *a)
{
    return (builder){.s = s,
                     .a = a,
                     .at = at,
                     .seq = z->seq,
                     .B = z->B,
                     .S = z->S,
                     .Tc = z->Tc,
                     .T = z->T,
                     .types = z->types,
                     .quant = quant_plan_of(&s->j),
                     .aux_gradient = 1};
}

order_shape order_shape_of(const setup *s, const step_shape *z, int64_t pp_rank)
{
    const job *j = &s->j;
    return (order_shape){.pp = s->pipe.pp,
                         .rank = pp_rank,
                         .vpp = s->pipe.vpp,
                         .micros = z->micros,
                         .group = job_has(j, K_GROUP_SIZE) ? j->group_size : s->pipe.pp,
                         .ep_overlap = j->ep_overlap};
}

/* ---- stages */

/* Parts of [T][H] that a stage hands on: behind the prediction module its and the decoder's. */
static int64_t handed_on(const pipeline *p, int64_t stage_id)
{
    for (int64_t i = 0; i <= stage_id; i++)
        if (p->stages[i].n_mtp > 0) return 2;
    return 1;
}

stage_content stage_content_of(const pipeline *p, const model *m, int64_t stage_id)
{
    const stage *st = &p->stages[stage_id];
    return (stage_content){.receives = stage_id > 0,
                           .embedding = st->embedding,
                           .final = m->n_mtp > 0 && stage_ends_layers(m, st),
                           .mtp = st->n_mtp > 0,
                           .head = st->loss,
                           .sends = stage_id < p->pp * p->vpp - 1,
                           .parts_in = handed_on(p, stage_id - 1),
                           .parts_out = handed_on(p, stage_id)};
}

/* ---- regions */

static int64_t step_times(const step_shape *z, int which)
{
    return step_by_micro((step_buffer)which) ? z->micros : 1;
}

int64_t step_region(const setup *s, const step_shape *z, int64_t n_weights,
                    int64_t offset[STEP_COUNT], int64_t bytes[STEP_COUNT])
{
    const model *m = &s->m;
    int64_t layers = m->n_layers + m->n_mtp, end = 0;
    int64_t elements[STEP_COUNT] = {[STEP_IDS] = z->Tc,
                                    [STEP_LABELS] = z->Tc,
                                    [STEP_MASK] = z->Tc,
                                    [STEP_ROPE] = z->S * rope_width(s),
                                    [STEP_LOSS] = 2,
                                    [STEP_COUNTS] = COUNTS_COUNT,
                                    [STEP_GIVEN] = GIVEN_COUNT,
                                    [STEP_TABLE] = n_weights * TABLE_COLUMNS,
                                    [STEP_SQUARES] = 1,
                                    [STEP_TALLY] = SUM_COUNT,
                                    [STEP_SUMS] = SUM_COUNT,
                                    [STEP_VERDICT] = VERDICT_COUNT};
    if (s->lay.world > 1) elements[STEP_TALLIES] = s->lay.world * SUM_COUNT;
    if (m->n_mtp) {
        elements[STEP_MTP_IDS] = elements[STEP_MTP_LABELS] = elements[STEP_MTP_MASK] = z->Tc;
        elements[STEP_MTP_LOSS] = 2;
    }
    if (m->moe->experts) {
        elements[STEP_AUX] = elements[STEP_Z] = layers;
        elements[STEP_LOAD] = elements[STEP_GLOBAL] = layers * m->moe->experts;
        elements[STEP_OVERFLOW] = layers * 2;
    }
    for (int i = 0; i < STEP_COUNT; i++) {
        int64_t each = dtype_bytes(step_type((step_buffer)i), elements[i]);
        if (offset) offset[i] = end;
        if (bytes) bytes[i] = each;
        end = round_up(end + step_times(z, i) * each, PLAN_ALIGN);
    }
    return end;
}

int64_t staging_region(const step_shape *z, const int64_t bytes[STEP_COUNT],
                       int64_t offset[STEP_COUNT])
{
    int64_t end = 0;
    for (int i = 0; i < STEP_COUNT; i++) {
        offset[i] = end;
        if (step_is_staged((step_buffer)i) != STAGED_NOT)
            end = round_up(end + step_times(z, i) * bytes[i], PLAN_ALIGN);
    }
    return end;
}

void boundary_place(boundary_region *b, const setup *s, const step_shape *z)
{
    b->dhidden_bytes = round_up(b->dhidden_bytes, PLAN_ALIGN);
    b->message_bytes = round_up(b->message_bytes, PLAN_ALIGN);
    b->passed_bytes = round_up(b->passed_bytes, PLAN_ALIGN);
    b->dhidden_offset = 0;
    b->message_offset = z->ring_depth * b->dhidden_bytes;
    b->passed_offset = b->message_offset + z->ring_depth * b->message_bytes;
    int passed =
        2 + (s->pipe.pp > 1 ? z->ring_depth : 0); /* in turn, then those that are received */
    b->bytes = b->passed_offset + passed * b->passed_bytes;
}

int64_t temp_region(int64_t temporaries, int64_t workspace)
{
    return temporaries + round_up(workspace, PLAN_ALIGN);
}
