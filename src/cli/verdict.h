/* verdict.h - does a recipe fit, in words and numbers that all commands share. */
#ifndef CLI_VERDICT_H
#define CLI_VERDICT_H

#include "answer/price.h"
#include "cli/cli.h"
#include "library/check.h"
#include "predict/fit.h"
#include "predict/not_priced.h"

/* "rank 256 needs 102.49 GiB of 73.30 GiB usable, 29.19 GiB too much" */
const char *cli_fit_text(const fit *f, arena *a);

/* The block "Peak": the fullest rank, by what it holds. */
void cli_print_fit(const setup *s, const fit *f, arena *a);
void cli_print_regions(const fit *f, arena *a); /* its rows */

/* How far a region of saved buffers ends above those that live at once, as text. */
const char *cli_packing_gap(int64_t bytes, int64_t live, arena *a);

/* What a price leaves out: "Not priced: key=value (the price assumes: ...)". */
void cli_print_not_priced(const not_priced *list, int n);

/* Where times of our own program on a GPU are from: measured, or estimates. Others print
 * nothing. */
void cli_print_times(const job *j, const hardware *hw, arena *a);
const char *cli_estimate_text(const job *j, const hardware *hw, arena *a); /* NULL: they are not */

/* Digits behind the point of a rate in TFLOP/s: a CPU has a small part of one. */
static inline int cli_tflops_digits(double tflops)
{
    return tflops < 1 ? 4 : 1;
}

#endif
