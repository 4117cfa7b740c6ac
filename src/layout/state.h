/* state.h - bytes of weights, gradients and optimizer on a rank: exact, padding included.
 *
 * Gradients (and, with the sharded optimizer, weights) lie in buffers: one for dense weights and
 * one for experts in each model chunk, the weights in reverse order, each start aligned, cut
 * into buckets that divide by the number of optimizer shards. The rank's share of the optimizer
 * is one slice of every bucket. */
#ifndef LAYOUT_STATE_H
#define LAYOUT_STATE_H

#include "layout/layout.h"
#include "layout/number_types.h"
#include "layout/pipeline.h"
#include "model/params.h"

/* Matrices that Muon makes orthogonal: those of linear layers and routers, one by one, experts
 * apart. FLOPs of one Newton-Schulz iteration, X X' and its square and one more GEMM. */
typedef struct orthogonal {
    double flops, largest; /* of all; of the largest */
    double side;           /* the shorter side in the mean, by FLOPs */
} orthogonal;

/* By kind of weight (param_class); padding counts alignment of weights and of buckets. */
typedef struct state_bytes {
    int64_t weights[3], gradients[3], optimizer[3]; /* [param_class], without padding */
    int64_t padding_weights, padding_gradients, padding_optimizer;
    int64_t buffers;     /* untrained: the router's bias and counters; counted with weights */
    int64_t host;        /* optimizer state that lives on the host */
    int64_t elements[3]; /* trained weights on this rank */
    int64_t narrow;      /* of those, elements of matrices that FP8 and FP4 GEMMs read */
    int64_t shapes;      /* elements of one matrix of each shape that a linear layer has here */
    orthogonal turns[2]; /* on this rank, whoever updates them: dense, experts; Muon alone */
} state_bytes;

int64_t state_weights(const state_bytes *s);   /* with padding and buffers */
int64_t state_gradients(const state_bytes *s); /* with padding */
int64_t state_optimizer(const state_bytes *s); /* with padding; on the GPU */
int64_t state_total(const state_bytes *s);

/* Of every rank of pipeline stage `pp_rank` (ranks of a stage are alike). */
struct setup;
void state_of_stage(state_bytes *out, const struct setup *s, int64_t pp_rank);

/* The same in two: the walk over the weights of the stage, which serves every way to keep the
 * optimizer's state, and their bytes. */
enum { HELD_ROWS_MAX = 128 }; /* of a parameter table; there are about sixty kinds of weight */
typedef struct held_row {     /* as it lies on the rank: layers repeat, so it is worked out once */
    int64_t size;             /* elements on this rank */
    int64_t times;            /* how often the rank holds it */
    int buffer;
} held_row;
typedef struct held_weights {
    held_row row[HELD_ROWS_MAX]; /* of the parameter table */
    int64_t padded[2];           /* of the buffers of all chunks: dense, expert */
} held_weights;
void state_walk(held_weights *out, const struct setup *s, int64_t pp_rank);
void state_of_walk(state_bytes *out, const held_weights *held, const struct setup *s);

/* Bytes of one element, and why, for people. */
typedef struct state_mode {
    number_types types;
    double weight; /* matrices of linear layers, which FP8 and FP4 recipes may store narrower */
    double plain;  /* all other weights: norms, router, embedding, head */
    double gradient;
    double optimizer; /* on the GPU, before sharding */
    double host;      /* of the optimizer, offloaded, before sharding */
    double moved;     /* of that: on the device while it is updated */
    const char *why;
} state_mode;
state_mode state_mode_of(const job *j, arena *a);
state_mode state_mode_bare(const job *j); /* without `why`: takes no memory, for loops */

/* How much of the optimizer is on the host: 0 to 1. */
double state_on_host(const job *j);

/* Do we update what is on the host? Megatron's program is priced, not run. */
bool state_host_is_ours(const job *j);

/* Does what is left on the GPU wait on the host between updates, and come back whole (Megatron's)?
 */
bool state_waits_on_host(const job *j);

/* The same in our own program: all of it lies on the host, and is moved to the device and back in
 * pieces, around the update of each. The device has places for as many as take turns: one is
 * brought, one is updated, one is taken back. */
bool state_is_moved(const job *j);
enum { MOVED_TURNS = 3 };
int64_t moved_piece(int64_t owned); /* elements of a piece, of so many that a rank owns */

#endif
