/* stored.h - the recipe that a checkpoint or the folder of a run holds, beside the one of now.
 *
 * Weights fit wherever names and shapes do; what they compute depends on more. A run that resumes
 * with another rotary base is another model from that step on, and nothing in the weights says so.
 *
 * I1  Knobs that the stored recipe does not have (it is older than they are) are not compared. */
#ifndef CONFIG_STORED_H
#define CONFIG_STORED_H

#include "config/job_of.h"

typedef struct stored_recipe {
    const char *path;  /* where it lies, for messages */
    const char *text;  /* a recipe file; of a checkpoint it has every knob */
    int64_t iteration; /* of the checkpoint */
    bool grew;         /* the run found moefold.moe_buffer_factor: it is taken over */
} stored_recipe;

/* A checkpoint's beside the one that it is loaded into. ERR_INPUT: the run `resumes` and the two
 * are not the same model, though their weights may have the same shapes. What else has changed is
 * named in `changed`, which stays empty where nothing has. */
status stored_compare(const stored_recipe *stored, const recipe *now, bool resumes,
                      textbuf *changed, error *err);

/* ERR_INPUT: the checkpoint, which lies in `folder`, is of another job than the recipe's; the first
 * knob that says so is named. */
status stored_same_job(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err);

/* The same for the recipe of a run's folder, `--run folder`, in which open knobs are not written:
 * the first knob that a person or the model set otherwise is named. */
status stored_same_run(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err);

/* Puts what its weights compute, and which data they were trained on, into a recipe: no layout, no
 * machine, no optimizer. */
status stored_model(const stored_recipe *stored, recipe *out, error *err);

/* The job that it describes. Knobs that it does not have are null there. */
status stored_job(const stored_recipe *stored, job *out, arena *a, error *err);

/* model.vocab_size; 0: not known. */
int64_t stored_vocabulary(const stored_recipe *stored, arena *a);

#endif
