/* checkpoint.h - the state of a run on disk, written by all its ranks and read into any layout.
 *
 *     FOLDER/latest_checkpointed_iteration.txt     "10": the one to resume from
 *     FOLDER/best_checkpointed_iteration.txt       "6": the best by validation loss, where kept
 *     FOLDER/moefold.lock                          held by the job that saves here
 *     FOLDER/iter_0000010/metadata.json            counters, recipe, model, files, checksum
 *     FOLDER/iter_0000010/weights-00000-of-00008.safetensors      weights and untrained buffers
 *     FOLDER/iter_0000010/exp_avg-00000-of-00008.safetensors      first moments
 *     FOLDER/iter_0000010/exp_avg_sq-00000-of-00008.safetensors   second moments
 *
 * Tensor files are safetensors under Megatron's names, FP32, each box of a weight with its place in
 * the whole and a checksum (tensor_file.h); a checkpoint may have any number of each
 * kind, one for each rank that wrote, and can be read into any layout. metadata.json has a checksum
 * of itself and of every file's header, so any changed byte that matters is found.
 *
 * Every element is written once, by the rank that answers for it (owned.h): with the sharded
 * optimizer all replicas write at the same time, each its slice. Who writes what follows from the
 * layout alone. Whoever loads reads, of all files, the boxes that it needs part of.
 *
 * A folder gets its name iter_N when all in it is written and synced, and rank 0 has looked at
 * every file that metadata.json lists: is it there, with its size and its header? Only then is the
 * text file replaced, by renaming too. Until its rename the folder is called iter_N.tmp-OWNER
 * (train/checkpoint/owner.h: host, process and a random token). A checkpoint of the same iteration
 * that is there already is called iter_N.old-OWNER while the new one takes its place, and readers
 * find it there. So a crash, at any moment, leaves what the text file names whole. What crashes
 * have left behind is removed by the next save where that is certain (folder.c).
 *
 * Whoever writes in a folder holds its lock (train/checkpoint/lock.h).
 *
 * Saving and loading are collective over the world of `c`, with one outcome: where a rank fails all
 * return its status and message. All ranks must see the same folder. */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H
#define TRAIN_CHECKPOINT_CHECKPOINT_H

#include "backend/comm/comm.h"
#include "config/stored.h"
#include "ir/weights.h"
#include "train/checkpoint/lock.h"

/* Everything beside arrays that a resumed run must know. One row a counter; all are in
 * metadata.json under their names. What each can be is in meta.c. */
#define CHECKPOINT_COUNTERS(X)                                                                     \
    X(iteration)              /* steps done */                                                     \
    X(consumed_samples)       /* of the training data */                                           \
    X(consumed_valid_samples) /* of the validation data */                                         \
    X(skipped_iterations)     /* steps whose update was left out: NaN, Inf, overflow */            \
    X(scheduler_samples)      /* samples that the learning rate has seen: Megatron's num_steps */  \
    X(optimizer_steps)        /* updates made: Adam's t */                                         \
    X(seed)                   /* rng.seed; all random numbers are counted from it */

typedef struct checkpoint_state {
#define CHECKPOINT_FIELD(name) int64_t name;
    CHECKPOINT_COUNTERS(CHECKPOINT_FIELD)
#undef CHECKPOINT_FIELD
    double best_loss;     /* of a validation so far, at */
    int64_t best;         /* this iteration, whose checkpoint is kept; 0: none */
    double buffer_factor; /* moefold.moe_buffer_factor that the run has found; 0: none */
} checkpoint_state;

typedef struct checkpoint {
    const setup *s;
    const rank_at *at; /* this rank; NULL, both: one rank that holds the whole model */
    comm *c;
    const weight_list *w; /* of this rank */
    float *weights;       /* [w->elements] */
    float *exp_avg;       /* [w->owned]; NULL, both: moments are neither saved nor loaded */
    float *exp_avg_sq;    /* [w->owned] */
    const char *config;   /* text of the model's config.json; NULL: none */
    checkpoint_state state;
    checkpoint_lock *lock; /* rank 0's, of the folder to save in; NULL: each save takes it */
} checkpoint;

/* ---- writing */

/* Touches only folders that carry our metadata: Megatron, too, calls its checkpoints iter_N.
 * Writes iter_N of `folder`, which is made if need be, and names it in the text file. Then removes
 * the oldest below N, so that `keep` are left (0 or less: all). ERR_MACHINE: the disk failed; what
 * the text file names is whole then, too. */
status checkpoint_save(const checkpoint *c, const char *folder, int keep, error *err);

/* Before the first save: makes the folder and locks it, and refuses one that cannot take a
 * checkpoint: another job saves there, it cannot be written to, has too little space for one, or
 * holds those of another program. Collective. On rank 0 *lock is what goes into checkpoint.lock,
 * until checkpoint_lock_release; on others it is NULL. `o` may be NULL. */
status checkpoint_save_open(const checkpoint *c, const char *folder, const lock_options *o,
                            checkpoint_lock **lock, error *err);

/* The same beside training: start copies what this rank will write, and a thread writes it. Setup,
 * weight list, communicator and config stay in place until finish; the arrays may change. One save
 * at a time: finish the first before the next starts. Messages are sent by start and finish only,
 * never by the thread. */
typedef struct checkpoint_saving checkpoint_saving;

/* Collective. A failure leaves nothing to finish. */
status checkpoint_save_start(checkpoint_saving **out, const checkpoint *c, const char *folder,
                             int keep, error *err);

/* Has this rank's thread ended, so that finish will not wait for it? Not collective. */
bool checkpoint_save_done(const checkpoint_saving *v);

/* Collective. Waits for the threads, gives the folder its name, frees `v`. */
status checkpoint_save_finish(checkpoint_saving *v, error *err);

/* ---- finding */

/* What the text file names; without one, the newest iter_N there is. -1: there is none. */
status checkpoint_latest(const char *folder, int64_t *iteration, error *err);

/* The newest iter_N with N below `iteration`, for whoever wants to go on with an older one when the
 * latest is damaged. -1: there is none. */
status checkpoint_previous(const char *folder, int64_t iteration, int64_t *previous, error *err);

/* ---- reading */

typedef struct checkpoint_file {
    const char *name, *kind; /* kind: "weights", "exp_avg", "exp_avg_sq" */
    int64_t bytes;
    uint64_t header_sum;
} checkpoint_file;

/* metadata.json. Texts live in the arena. */
typedef struct checkpoint_info {
    const char *path; /* of the iter_N folder */
    checkpoint_state state;
    const char *recipe; /* resolved, as a recipe file: every knob */
    const char *model;  /* its name */
    uint64_t fingerprint;
    const char *config; /* text of config.json, or NULL */
    const checkpoint_file *files;
    int n_files;
    bool has_moments;
} checkpoint_info;

status checkpoint_read_info(checkpoint_info *info, arena *a, const char *folder, int64_t iteration,
                            error *err);

static inline stored_recipe checkpoint_recipe(const checkpoint_info *info)
{
    return (stored_recipe){info->path, info->recipe, info->state.iteration,
                           info->state.buffer_factor > 0};
}

/* Reads iter_N into the arrays and the state of `c`, which brings s, w and arrays. ERR_INPUT: a
 * file is missing, truncated or damaged (the tensor is named), or the checkpoint is of another
 * model (the first weight that differs is named); then the state is as it was, but the arrays may
 * hold part of the checkpoint: load another or give up. Whether to fall back on an older one is
 * the caller's decision.
 *
 * Fingerprints are compared: a vocabulary of another size is another model, even where all its rows
 * are there. Rows that pad the vocabulary may be more or fewer than they were: those that are in
 * both are read, the others stay as they are. Where moments are wanted and the checkpoint has none,
 * they are zero if no step has been made yet; else it is refused. */
status checkpoint_load(checkpoint *c, const char *folder, int64_t iteration, error *err);

/* ---- checksums */

/* Of all weights' elements in the order of the list, padding between them left out: for the list of
 * a whole model the same for equal weights, whatever they were read from. */
uint64_t checkpoint_weights_sum(const weight_list *w, const float *weights);

/* Of the names and shapes of all weights of a whole model, without rows that pad the vocabulary. */
uint64_t checkpoint_fingerprint(const setup *s, const weight_list *w);

#endif
