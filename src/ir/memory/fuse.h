/* fuse.h - fusion as a transformation of a segment: before its memory is planned, so that bytes and
 * passes are those of what runs. */
#ifndef IR_MEMORY_FUSE_H
#define IR_MEMORY_FUSE_H

#include "ir/segment.h"

/* FUSE_ bits (op/fused.h) of a recipe: what moefold.fusion says, or what pays on its
 * target. */
unsigned fusions_of(const setup *s);

/* Puts fused kinds in the place of their parts, in both lists; after segment_recompute, before
 * segment_offload. What is no longer used takes no memory. */
void segment_fuse(segment *seg, unsigned fusions, arena *a);

#endif
