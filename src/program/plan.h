/* plan.h - the memory plan: one function computes the arena that the run then uses. */
#ifndef PROGRAM_PLAN_H
#define PROGRAM_PLAN_H

#include "program/program.h"

enum { PLAN_ALIGN = 64 };

/* Fills slots, offsets and sizes of a program whose segments, chunks and schedule are there. */
void plan_memory(program *p, arena *a);

/* Bytes that kernels need beside an operation's buffers, at most. */
int64_t op_workspace(const op *o);

#endif
