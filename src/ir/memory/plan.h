/* plan.h - the memory plan: one function computes the arena that the run then uses. */
#ifndef IR_MEMORY_PLAN_H
#define IR_MEMORY_PLAN_H

#include "ir/memory/packing.h"
#include "ir/program.h"

/* Places of what items name: the boundary region, the step region with its copies on the host, and
 * weights, gradients and optimizer. After chunks and weights are there. */
void plan_boundary(program *p);
void plan_step(program *p);
void plan_state(program *p);
void plan_copies(program *p, arena *a); /* after chunks and weights */

/* Fills slots, offsets and sizes of a program whose segments, chunks and items are there;
 * `sizes_only`: no slots, for whoever asks for no place. */
void plan_memory(program *p, bool sizes_only, arena *a);

/* Places of all saved buffers in their region, or of those on the host in their pool. slots.c */
packed place_slots(program *p, bool host, bool sizes_only, arena *a);

/* Fills in most activations and layers that live at once under Megatron. live_program.c */
void program_live(program_size *out, const program *p);

#endif
