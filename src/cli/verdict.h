/* verdict.h - does a recipe fit, in words and numbers that all commands share. */
#ifndef CLI_VERDICT_H
#define CLI_VERDICT_H

#include "answer/answer.h"
#include "cli/cli.h"
#include "predict/fit.h"
#include "predict/not_priced.h"

#define HEADROOM_WORD "PART"
#define HEADROOM_HELP                                                                              \
    "fraction of a GPU's visible memory to keep free (moefold.headroom; unset: 0.05)"

/* --headroom sets the knob; NULL: it is not given. */
status cli_headroom(recipe *r, const char *word, error *err);

/* --stack sets moefold.stack, so that rules see it and a recipe that is written keeps it; NULL: it
 * is not given. */
void cli_stack(recipe *r, const char *word);

/* What the recipe needs beside what its hardware description has. ERR_INPUT: there is no such
 * description. `found`: what rules_check says of it. */
status cli_fit(fit *out, const setup *s, const violations *found, arena *a, error *err);

/* No verdict is no reason to refuse. */
static inline bool cli_too_large(const fit *f)
{
    return !f->why_not && !f->fits;
}

/* "rank 256 needs 102.49 GiB of 73.30 GiB usable, 29.19 GiB too much" */
const char *cli_fit_text(const fit *f, arena *a);

/* The block "Peak": the fullest rank, by what it holds. */
void cli_print_fit(const setup *s, const fit *f, arena *a);
void cli_print_regions(const fit *f, arena *a); /* its rows */

/* The pipeline rank of the fullest rank; where its peak is not known, of that with most state. */
int64_t cli_fullest_stage(const setup *s, const fit *f);

/* How far a region of saved buffers ends above those that live at once, as text. */
const char *cli_packing_gap(int64_t bytes, int64_t live, arena *a);

/* What a price leaves out: "Not priced: key=value (the price assumes: ...)". */
void cli_print_not_priced(const not_priced *list, int n);

/* Are times of our own program on this GPU estimates, because nobody has measured it, or because
 * its GEMMs are reference kernels (target_by_reference), which `bench` does not measure? */
bool cli_estimates_times(const job *j, const hardware *hw);

/* Where times of our own program on a GPU are from: measured, or estimates. Others print nothing,
 * and have no such answer (NULL). */
void cli_print_times(const job *j, const hardware *hw);

/* Digits behind the point of a rate in TFLOP/s: a CPU has a small part of one. */
static inline int cli_tflops_digits(double tflops)
{
    return tflops < 1 ? 4 : 1;
}
const times_answer *cli_times_answer(const job *j, const hardware *hw, arena *a);

#endif
