/* comm_group.h - the groups that communication names.
 *
 * Operations name a group of this list, never ranks. It stands by itself, without recipe and
 * layout, because kernels read operations: a new knob does not compile the GPU's kernels anew. */
#ifndef OP_COMM_GROUP_H
#define OP_COMM_GROUP_H

typedef enum comm_group {
    GROUP_NONE,
    GROUP_WORLD,
    GROUP_TP,
    GROUP_CP,
    GROUP_CP_INNER, /* runs of the CP list: heads are exchanged in it (a2a+p2p) */
    GROUP_CP_OUTER, /* every inner-th of the CP list: the ring around those */
    GROUP_PP,
    GROUP_DP_CP,
    GROUP_TP_CP,
    GROUP_TP_DP_CP,
    GROUP_ETP,
    GROUP_EP,
    GROUP_EDP,
    GROUP_TP_EP,     /* ETP x EP: all ranks that hold experts of one replica */
    GROUP_EMBEDDING, /* of a PP group: the stages with a copy of the word table */
    GROUP_COUNT
} comm_group;

const char *comm_group_name(comm_group g);

#endif
